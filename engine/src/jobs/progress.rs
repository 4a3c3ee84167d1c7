//! What others see of a running job: the phase and the progress object.
//!
//! A *sample* is stored by the attempt ([`Sampler`]); [`shown`] adds what the
//! job's row knows. The field names are documented; a value that was not
//! observed is absent, never zero.

use std::time::Duration;

use lancegate_catalog::{AttemptEpoch, Job, JobState, JobSummary, Timestamp};
use lancegate_functions::fleet::{Observation, Stage};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::refresh::Progress;
use crate::refresh::progress::Sample;

/// The phase of the job while its plan is made.
const STARTING: &str = "starting";
/// The phase of the job while rows are computed.
const RUNNING: &str = "running";
/// The phase of the job once all planned rows are accounted for. The registry
/// refuses to park a job in this phase.
const COMMITTING: &str = "committing";
/// The phase of the job while a Function worker is wanted and none was launched.
const WAITING_FOR_WORKERS: &str = "waiting_for_workers";
/// The phase of the job while workers were launched and none is ready.
const STARTING_WORKERS: &str = "starting_workers";
/// The nested phase before the handshake.
const PREPARING: &str = "preparing";
/// The nested phase inside `Initialize`.
const INITIALIZING: &str = "initializing";
/// The nested phase after it.
const INITIALIZED: &str = "initialized";
/// The nested phase while results are published.
const FINALIZING: &str = "finalizing";
/// The nested phase once all rows are in files that are not published yet.
const STAGED: &str = "staged";

/// A sample to be stored.
#[derive(Debug, PartialEq)]
pub(super) struct Stored {
    /// The phase of the job.
    pub(super) phase: &'static str,
    /// The progress object.
    pub(super) progress: Value,
}

/// The observed part of the progress object, in the order in which it is shown.
#[derive(Debug, Serialize)]
struct Observed {
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'static str>,
    rows_planned: u64,
    rows_computed: u64,
    // Failed rows of a Function; an expression has no failures of single rows.
    rows_skipped: u64,
    rows_remaining: u64,
    rows_published: u64,
    rows_retained: u64,
    fragments_planned: u64,
    fragments_completed: u64,
    active_workers: u64,
    // A worker of an expression refresh is inside exactly one fragment.
    active_fragments: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    workers_initializing: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workers_initialized: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_row_progress_at_millis: Option<i64>,
    sample_at_millis: i64,
    execution_epoch: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_fleet: Option<Observation>,
}

/// Decides when a sample is worth storing and makes it.
#[derive(Debug)]
pub(super) struct Sampler {
    epoch: AttemptEpoch,
    interval: Duration,
    rows: (u64, u64, u64),
    rows_moved_at: Option<Timestamp>,
    stored: Option<(Instant, Seen)>,
}

/// What makes a sample worth storing when it changes.
#[derive(Debug, PartialEq)]
struct Seen {
    phase: &'static str,
    nested: Option<&'static str>,
    fragments_completed: u64,
    workers: Option<(usize, usize, usize, usize)>,
}

impl Sampler {
    pub(super) fn new(epoch: AttemptEpoch, interval: Duration) -> Self {
        Self { epoch, interval, rows: (0, 0, 0), rows_moved_at: None, stored: None }
    }

    /// Returns a sample if a phase, the number of finished fragments or the workers
    /// have changed since the last one, or the last one is old. While a worker that
    /// is ready is on its way to be initialized, each look is worth one: such a
    /// phase may be short.
    pub(super) fn due(&mut self, progress: &Progress, at: Instant, now: Timestamp) -> Option<Stored> {
        let (sample, clock, fleet) = (progress.sample(), progress.phase(), progress.fleet().observe());
        self.notice_rows(&sample, now);
        let seen = Seen {
            phase: job_phase(&sample, clock, fleet.as_ref()),
            nested: worker_phase(&sample, clock, fleet.as_ref()),
            fragments_completed: sample.fragments_completed,
            workers: fleet.as_ref().map(|fleet| (fleet.desired, fleet.launched, fleet.ready, fleet.initializing)),
        };
        let starts = matches!(seen.nested, Some(PREPARING | INITIALIZING | INITIALIZED))
            && fleet.as_ref().is_some_and(|fleet| fleet.ready > 0);
        let due = starts
            || self.stored.as_ref().is_none_or(|(stored_at, stored)| {
                *stored != seen || at.saturating_duration_since(*stored_at) >= self.interval
            });
        if !due {
            return None;
        }
        self.stored = Some((at, seen));
        Some(self.make(&sample, clock, fleet, now))
    }

    /// Returns the sample that an ended job keeps.
    pub(super) fn last(&mut self, progress: &Progress, now: Timestamp) -> Stored {
        let (sample, clock) = (progress.sample(), progress.phase());
        self.notice_rows(&sample, now);
        let fleet = progress.fleet().observe().map(|fleet| Observation { wait_reason: None, ..fleet });
        self.make(&sample, clock, fleet, now)
    }

    fn notice_rows(&mut self, sample: &Sample, now: Timestamp) {
        let rows = (sample.rows_computed, sample.rows_published, sample.rows_retained);
        if rows != self.rows {
            self.rows = rows;
            self.rows_moved_at = Some(now);
        }
    }

    fn make(&self, sample: &Sample, clock: &str, fleet: Option<Observation>, now: Timestamp) -> Stored {
        let phase = job_phase(sample, clock, fleet.as_ref());
        let observed = Observed {
            phase: worker_phase(sample, clock, fleet.as_ref()),
            rows_planned: sample.rows_planned,
            rows_computed: sample.rows_computed,
            rows_skipped: sample.rows_skipped,
            rows_remaining: sample.rows_remaining,
            rows_published: sample.rows_published,
            rows_retained: sample.rows_retained,
            fragments_planned: sample.fragments_planned,
            fragments_completed: sample.fragments_completed,
            active_workers: sample.active_workers,
            active_fragments: sample.active_workers,
            workers_initializing: fleet.as_ref().map(|fleet| fleet.initializing),
            workers_initialized: fleet.as_ref().map(|fleet| fleet.initialized),
            last_row_progress_at_millis: self.rows_moved_at.map(|at| at.timestamp_millis()),
            sample_at_millis: now.timestamp_millis(),
            execution_epoch: self.epoch.0,
            worker_fleet: fleet,
        };
        Stored { phase, progress: json!(observed) }
    }
}

/// The phase of the job; `clock` is the phase of the attempt's own timeline, `fleet` what is observed of the workers of a
/// Function. Once one can be given work it is the phase of the workers.
fn job_phase(sample: &Sample, clock: &str, fleet: Option<&Observation>) -> &'static str {
    match (clock, fleet) {
        ("" | "planning", _) => STARTING,
        ("committing", _) => COMMITTING,
        _ if sample.rows_planned > 0 && sample.rows_remaining == 0 => COMMITTING,
        // Between two fragments a worker may be in the pool for a moment.
        (_, Some(fleet)) if fleet.ready == 0 && sample.rows_computed == 0 => match fleet.launched {
            0 => WAITING_FOR_WORKERS,
            _ => STARTING_WORKERS,
        },
        _ => worker_phase(sample, clock, fleet).unwrap_or(RUNNING),
    }
}

/// The phase of the workers, of several the one that is furthest; none before there are any.
fn worker_phase(sample: &Sample, clock: &str, fleet: Option<&Observation>) -> Option<&'static str> {
    match clock {
        "" | "planning" => return None,
        "committing" => return Some(FINALIZING),
        _ if sample.rows_planned > 0 && sample.rows_remaining == 0 => return Some(STAGED),
        _ => {}
    }
    match fleet {
        None => Some(RUNNING),
        Some(_) if sample.rows_computed > 0 => Some(RUNNING),
        Some(fleet) => Some(match fleet.furthest? {
            Stage::Launched | Stage::Ready => PREPARING,
            Stage::Initializing => INITIALIZING,
            Stage::Initialized => INITIALIZED,
            Stage::Running => RUNNING,
        }),
    }
}

/// Returns the progress object of a job as listings show it: the last sample of
/// the execution that is current or that ended the job, and what the row knows.
/// A queued or parked job has none.
pub fn shown(job: &Job) -> Option<Value> {
    serde_json::from_str(&shown_text(&JobSummary::from(job))?).ok()
}

/// As [`shown`], as text. What other software has stored passes through.
pub fn shown_text(job: &JobSummary) -> Option<String> {
    let sample = job.progress.as_deref()?;
    let visible = match &job.state {
        JobState::Created | JobState::Queued | JobState::Paused => false,
        JobState::InProgress => {
            let sample: Value = serde_json::from_str(sample).ok()?;
            sample.get("execution_epoch").and_then(Value::as_u64) == Some(job.epoch.0)
        }
        JobState::Succeeded | JobState::Failed | JobState::Canceled | JobState::TimedOut | JobState::Other(_) => true,
    };
    visible.then(|| completed(job, sample)).flatten()
}

/// Adds fields at the end of the sample. Samples are many and long, so their text is not taken apart.
fn completed(job: &JobSummary, sample: &str) -> Option<String> {
    let observed = sample.trim_end().strip_suffix('}')?.trim_end();
    let mut shown = String::with_capacity(sample.len() + 96);
    shown.push_str(observed);
    if !observed.ends_with('{') {
        shown.push(',');
    }
    shown.push_str(&format!("\"state\":{},\"paused\":false", json!(job.state.as_str())));
    if let Some(reason) = &job.queue_reason {
        shown.push_str(&format!(",\"queue_reason\":{}", json!(reason)));
    }
    if let Some(failed) = job.rows_failed {
        shown.push_str(&format!(",\"rows_failed\":{failed}"));
    }
    shown.push('}');
    Some(shown)
}

/// Returns a row counter of the progress object, if it was observed.
pub fn counter(progress: Option<&Value>, name: &str) -> Option<i64> {
    progress?.get(name)?.as_i64()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        DateTime::from_timestamp_millis(millis).unwrap()
    }

    fn running() -> Progress {
        let progress = Progress::new(CancellationToken::new());
        progress.enter("running splits");
        progress.planned(2, 10);
        progress
    }

    #[test]
    fn the_phase_follows_the_timeline_and_the_rows() {
        let progress = Progress::new(CancellationToken::new());
        let phase = |progress: &Progress| job_phase(&progress.sample(), progress.phase(), None);
        assert_eq!(phase(&progress), "starting");
        progress.enter("planning");
        assert_eq!(phase(&progress), "starting");
        progress.planned(1, 5);
        progress.enter("running splits");
        assert_eq!(phase(&progress), "running");
        progress.staged(5);
        assert_eq!(phase(&progress), "committing");
        progress.discarded(5);
        assert_eq!(phase(&progress), "running");
        progress.planned(1, 5);
        assert_eq!((phase(&progress), progress.sample().rows_remaining), ("running", 5), "planned anew, once");
        progress.enter("committing");
        assert_eq!(phase(&progress), "committing");
    }

    #[test]
    fn a_sample_is_stored_first_on_change_and_when_the_last_is_old() {
        let progress = running();
        let mut sampler = Sampler::new(AttemptEpoch(3), Duration::from_secs(30));
        let start = Instant::now();
        let mut due = |seconds| sampler.due(&progress, start + Duration::from_secs(seconds), at(1)).is_some();
        assert!(due(0), "the first");
        progress.rows_computed(1);
        assert!(!due(1), "rows alone are no reason");
        assert!(due(30), "the last one is old");
        progress.staged(4);
        progress.published(1, 4);
        assert!(due(31), "a fragment was published");
        assert!(!due(32), "nothing happened");
    }

    #[test]
    fn prog_03_a_sample_holds_the_documented_fields_and_nothing_that_was_not_seen() {
        let progress = running();
        progress.rows_computed(6);
        progress.staged(6);
        progress.published(1, 4);
        let stored = Sampler::new(AttemptEpoch(3), Duration::from_secs(30)).last(&progress, at(1_000));
        let expected = json!({
            "phase": "running", "rows_planned": 10, "rows_computed": 6, "rows_skipped": 0, "rows_remaining": 4,
            "rows_published": 4, "rows_retained": 2, "fragments_planned": 2, "fragments_completed": 1,
            "active_workers": 0, "active_fragments": 0, "last_row_progress_at_millis": 1_000,
            "sample_at_millis": 1_000, "execution_epoch": 3,
        });
        assert_eq!(stored, Stored { phase: "running", progress: expected });
    }

    #[test]
    fn prog_05_the_phase_of_a_function_refresh_follows_its_workers() {
        let progress = Progress::new(CancellationToken::new());
        progress.planned(1, 10);
        progress.enter("running splits");
        let fleet = progress.fleet().clone();
        fleet.plan(1, "default", 0);
        let mut sampler = Sampler::new(AttemptEpoch(1), Duration::from_secs(30));
        let phases = || {
            let (sample, fleet) = (progress.sample(), progress.fleet().observe());
            let clock = progress.phase();
            (job_phase(&sample, clock, fleet.as_ref()), worker_phase(&sample, clock, fleet.as_ref()))
        };
        assert_eq!(phases(), ("waiting_for_workers", None));
        let member = fleet.launch();
        assert_eq!(phases(), ("starting_workers", Some("preparing")));
        let start = Instant::now();
        let mut due = |seconds| sampler.due(&progress, start + Duration::from_secs(seconds), at(1)).is_some();
        assert!(due(0));
        assert!(!due(1), "no worker is ready, and nothing happened");
        for (stage, expected) in
            [(Stage::Ready, "preparing"), (Stage::Initializing, "initializing"), (Stage::Initialized, "initialized")]
        {
            member.reached(stage);
            assert_eq!(phases(), (expected, Some(expected)));
            assert!(due(2) && due(3), "{expected}: each look is worth a sample");
        }
        member.reached(Stage::Running);
        assert_eq!(phases(), ("running", Some("running")));
        assert!(due(4) && !due(5));
        progress.rows_computed(10);
        progress.staged(10);
        assert_eq!(phases(), ("committing", Some("staged")));
        drop(member);
        progress.enter("committing");
        assert_eq!(phases(), ("committing", Some("finalizing")));
        let last = sampler.last(&progress, at(9)).progress;
        assert_eq!((&last["worker_fleet"]["launched"], &last["workers_initialized"]), (&json!(0), &json!(0)));
        assert_eq!(last["worker_fleet"].get("wait_reason"), None, "a job that has ended waits for nothing");
    }
}
