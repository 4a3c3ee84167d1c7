//! Where a finished job spent its time (DESCRIBE JOB): one list of lines, from
//! which the text, the typed rows and the JSON document are made.

use lancegate_catalog::{Job, Timestamp};
use serde_json::{Value, json};

use crate::refresh::Profile;

/// The first line and the counters.
const TOTALS: &str = "totals";
/// The phases, one after the other.
const TIMELINE: &str = "timeline";
/// What the time of parallel workers went to.
const WORKERS: &str = "workers";
/// The phase that runs on many workers.
const PARALLEL_PHASE: &str = "running splits";

/// One line of the profile. What does not apply or was not measured is none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProfileLine {
    /// `totals`, `timeline` or `workers`.
    pub section: &'static str,
    /// The phase on the job's timeline.
    pub phase: Option<String>,
    /// What is counted or measured.
    pub component: Option<String>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// The time.
    pub millis: Option<i64>,
    /// `wall` for time that passed, `worker` for time summed over workers.
    pub unit: Option<&'static str>,
    /// The part of the section's time, 0 to 1.
    pub share: Option<f64>,
    /// How many.
    pub count: Option<i64>,
}

/// The profile of one ended job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobProfile {
    title: String,
    job: Value,
    /// In the order of the sections.
    pub lines: Vec<ProfileLine>,
}

impl JobProfile {
    /// Returns the profile of a job, `None` while it has not ended.
    pub fn of(job: &Job) -> Option<Self> {
        let finished_at = job.finished_at.filter(|_| job.status.state.is_terminal())?;
        let profile = job.result.as_ref().and_then(|result| result.get("profile"));
        let profile: Option<Profile> = profile.and_then(|profile| serde_json::from_value(profile.clone()).ok());
        let wall = millis_between(job.created_at, finished_at);
        let mut lines = totals(job, profile.as_ref(), wall);
        lines.extend(timeline(job, profile.as_ref(), finished_at, wall));
        lines.extend(workers(profile.as_ref()));
        Some(Self { title: title(job), job: head(job, finished_at), lines })
    }

    /// Returns the profile as lines of text.
    pub fn text(&self) -> Vec<String> {
        let mut text = vec![self.title.clone()];
        let mut section = "";
        for line in &self.lines {
            if line.section != section {
                section = line.section;
                text.push(heading(section).to_owned());
            }
            text.push(format!("  {}", line.text()));
        }
        text
    }

    /// Returns the profile as one document.
    pub fn json(&self) -> Value {
        let mut document = self.job.clone();
        for section in [TOTALS, TIMELINE, WORKERS] {
            let lines = self.lines.iter().filter(|line| line.section == section);
            document[section] = lines.map(ProfileLine::json).collect();
        }
        document
    }
}

impl ProfileLine {
    fn text(&self) -> String {
        let name = self.component.as_ref().filter(|_| self.section != TIMELINE).or(self.phase.as_ref());
        let mut text = format!("{:<16}", name.map_or("", String::as_str));
        if let Some(millis) = self.millis {
            text.push_str(&format!(" {millis:>10} ms"));
        }
        if let Some(share) = self.share {
            text.push_str(&format!(" {:>5.1} %", share * 100.0));
        }
        match (self.count, self.millis) {
            (Some(count), Some(_)) => text.push_str(&format!("  count={count}")),
            (Some(count), None) => text.push_str(&format!(" {count:>10}")),
            (None, _) => {}
        }
        text.trim_end().to_owned()
    }

    fn json(&self) -> Value {
        let fields = [
            ("phase", json!(self.phase)),
            ("component", json!(self.component)),
            ("started_at", json!(self.started_at)),
            ("millis", json!(self.millis)),
            ("unit", json!(self.unit)),
            ("share", json!(self.share)),
            ("count", json!(self.count)),
        ];
        let known = fields.into_iter().filter(|(_, value)| !value.is_null());
        known.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn title(job: &Job) -> String {
    let column = job.column.as_ref().map(|column| format!(".{column}")).unwrap_or_default();
    format!("Job {}: {} of {}{column}, {}", job.id, job.kind, job.table_name, job.status.state)
}

fn head(job: &Job, finished_at: Timestamp) -> Value {
    json!({
        "job_id": job.id,
        "job_type": job.kind.as_str(),
        "state": job.status.state.as_str(),
        "database": job.database,
        "table_name": job.table_name,
        "column": job.column,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": finished_at,
        "error": job.failure.as_ref().map(|failure| &failure.message),
    })
}

fn heading(section: &str) -> &'static str {
    match section {
        TIMELINE => "Timeline (wall time)",
        WORKERS => "Running splits (worker time)",
        _ => "Totals",
    }
}

fn totals(job: &Job, profile: Option<&Profile>, wall: i64) -> Vec<ProfileLine> {
    let result = |name: &str| job.result.as_ref().and_then(|result| result.get(name)?.as_i64());
    let counts = [
        ("rows assigned", result("rows_assigned")),
        ("rows failed", result("rows_failed")),
        ("rows remaining", result("rows_remaining")),
        ("fragments", profile.and_then(|profile| i64::try_from(profile.fragments).ok())),
        ("commits", profile.and_then(|profile| i64::try_from(profile.commits).ok())),
        ("attempts", Some(i64::from(job.attempt))),
    ];
    let total = ProfileLine {
        section: TOTALS,
        component: Some("job".to_owned()),
        started_at: Some(job.created_at),
        millis: Some(wall),
        unit: Some("wall"),
        ..ProfileLine::default()
    };
    let counts = counts.into_iter().filter(|(_, count)| count.is_some()).map(|(name, count)| ProfileLine {
        section: TOTALS,
        component: Some(name.to_owned()),
        count,
        ..ProfileLine::default()
    });
    std::iter::once(total).chain(counts).collect()
}

/// Queued, then the phases of the attempt that ended the job. What lies between
/// them – earlier attempts, waiting, bookkeeping – is `other`.
fn timeline(job: &Job, profile: Option<&Profile>, finished_at: Timestamp, wall: i64) -> Vec<ProfileLine> {
    let line = |phase: &str, started_at: Option<Timestamp>, millis: i64| ProfileLine {
        section: TIMELINE,
        phase: Some(phase.to_owned()),
        started_at,
        millis: Some(millis),
        unit: Some("wall"),
        share: share(millis, wall),
        ..ProfileLine::default()
    };
    let claimed_at = job.started_at.unwrap_or(finished_at);
    let mut lines = vec![line("queued", Some(job.created_at), millis_between(job.created_at, claimed_at))];
    match profile {
        Some(profile) => lines.extend(profile.phases.iter().map(|phase| {
            let started_at = Timestamp::from_timestamp_millis(phase.started_at_millis);
            line(&phase.phase, started_at, i64::try_from(phase.millis).unwrap_or(i64::MAX))
        })),
        None if job.started_at.is_some() => {
            lines.push(line("running", job.started_at, millis_between(claimed_at, finished_at)));
        }
        None => {}
    }
    let known: i64 = lines.iter().filter_map(|line| line.millis).fold(0, i64::saturating_add);
    if wall > known {
        lines.push(line("other", None, wall - known));
    }
    lines
}

fn workers(profile: Option<&Profile>) -> Vec<ProfileLine> {
    let Some(profile) = profile else { return Vec::new() };
    let millis = |millis: u64| i64::try_from(millis).unwrap_or(i64::MAX);
    let all = profile.workers.iter().map(|time| millis(time.millis)).fold(0, i64::saturating_add);
    let lines = profile.workers.iter().map(|time| ProfileLine {
        section: WORKERS,
        phase: Some(PARALLEL_PHASE.to_owned()),
        component: Some(time.component.clone()),
        started_at: None,
        millis: Some(millis(time.millis)),
        unit: Some("worker"),
        share: share(millis(time.millis), all),
        count: i64::try_from(time.count).ok(),
    });
    lines.collect()
}

/// Unknown when the whole is too short to be measured.
fn share(part: i64, whole: i64) -> Option<f64> {
    // Milliseconds of jobs are far below 2^53.
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn millis_between(from: Timestamp, to: Timestamp) -> i64 {
    (to - from).num_milliseconds().max(0)
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
