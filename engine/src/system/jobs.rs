//! `system.public.jobs`: what SHOW JOBS lists.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use lancegate_auth::Requirement;
use lancegate_catalog::{Catalog, Job, JobCursor, JobFilter, JobSummary, Timestamp};
use serde_json::Value;

use super::columns::{self, borrowed, made};
use super::{SystemContext, SystemRelation};
use crate::error::Result;
use crate::exec::Engine;
use crate::exec::jobs::find;
use crate::jobs::capacity::{Capacity, queue_reason};
use crate::jobs::progress;

type Column = columns::Column<JobRow>;

/// One job as listings show it.
#[derive(Debug, Clone)]
pub struct JobRow {
    job: JobSummary,
    table_name: String,
    progress: Option<String>,
    queue_reason: Option<String>,
    history: &'static str,
}

/// What is known beside the registry when jobs are listed.
#[derive(Debug, Clone, Copy)]
pub struct Observed {
    /// When.
    pub now: Timestamp,
    /// How long events are kept.
    pub event_retention: Duration,
    /// What the runner can take on.
    pub capacity: Capacity,
}

impl Observed {
    /// Looks at the runner now.
    pub fn of(engine: &Engine) -> Self {
        let jobs = engine.jobs();
        Self { now: crate::clock::now(), event_retention: jobs.event_retention(), capacity: jobs.capacity() }
    }
}

impl JobRow {
    /// Returns the row of a job.
    pub fn new(job: &Job, observed: &Observed) -> Self {
        Self::of(job.into(), observed)
    }

    /// Returns the row of a job of a listing.
    pub fn of(job: JobSummary, observed: &Observed) -> Self {
        Self {
            table_name: table_name(&job),
            progress: progress::shown_text(&job),
            // What other software has observed passes through.
            queue_reason: queue_reason(&job, observed.capacity, observed.now).or_else(|| job.queue_reason.clone()),
            history: history(&job, observed.now, observed.event_retention),
            job,
        }
    }

    fn counter(&self, name: &str) -> Option<i64> {
        let progress: Value = serde_json::from_str(self.progress.as_deref()?).ok()?;
        progress::counter(Some(&progress), name)
    }
}

/// Returns the columns of SHOW JOBS.
pub fn columns() -> Vec<Column> {
    vec![
        Column::text("job_id", |row| made(row.job.id)).not_null(),
        Column::text("table_name", |row| borrowed(&row.table_name)).not_null(),
        Column::text("job_type", |row| borrowed(row.job.kind.as_str())).not_null(),
        // A word of newer software passes through unchanged (PROG-12).
        Column::text("state", |row| borrowed(row.job.state.as_str())).not_null(),
        Column::text("phase", |row| borrowed(&row.job.phase)),
        Column::timestamp("created_at", |row| Some(row.job.created_at)).not_null(),
        Column::timestamp("updated_at", |row| Some(row.job.updated_at)).not_null(),
        Column::text("submitted_by", |row| borrowed(&row.job.submitted_by)).not_null(),
        Column::json("progress", |row| row.progress.as_deref().and_then(borrowed)),
        Column::text("queue_reason", |row| row.queue_reason.as_deref().and_then(borrowed)),
        Column::text("error", |row| row.job.error.as_deref().and_then(borrowed)),
    ]
}

/// Returns the columns of SHOW JOBS FOR JOB.
pub fn child_columns() -> Vec<Column> {
    let mut columns = columns();
    columns.extend([
        Column::text("kind", |row| borrowed(row.job.kind.as_str())).not_null(),
        Column::integer("attempt", |row| i32::try_from(row.job.attempt).ok()),
        Column::bigint("rows_planned", |row| row.counter("rows_planned")),
        Column::bigint("rows_computed", |row| row.counter("rows_computed")),
        Column::bigint("rows_remaining", |row| row.counter("rows_remaining")),
        Column::text("history", |row| borrowed(row.history)).not_null(),
    ]);
    columns
}

/// Reads jobs, newest first, as many as `limit` says or all; the registry gives
/// them in pages.
///
/// # Errors
/// If the registry cannot be read.
pub async fn read(catalog: &Catalog, filter: JobFilter, limit: Option<usize>) -> Result<Vec<Job>> {
    pages(filter, limit, |filter| catalog.jobs(filter), Job::cursor).await
}

/// As [`read`], what listings show of them.
///
/// # Errors
/// If the registry cannot be read.
pub async fn read_summaries(catalog: &Catalog, filter: JobFilter, limit: Option<usize>) -> Result<Vec<JobSummary>> {
    pages(filter, limit, |filter| catalog.job_summaries(filter), JobSummary::cursor).await
}

async fn pages<T, F>(
    mut filter: JobFilter,
    limit: Option<usize>,
    page: impl Fn(JobFilter) -> F,
    cursor: fn(&T) -> JobCursor,
) -> Result<Vec<T>>
where
    F: Future<Output = lancegate_catalog::Result<Vec<T>>>,
{
    let mut jobs: Vec<T> = Vec::new();
    loop {
        let wanted = limit.map_or(usize::MAX, |limit| limit - jobs.len());
        let most = u32::try_from(wanted).unwrap_or(u32::MAX).min(JobFilter::LIMIT_MAX);
        filter.limit = Some(most);
        let found = page(filter.clone()).await?;
        let full = found.len() == most as usize;
        jobs.extend(found);
        filter.before = jobs.last().map(cursor);
        if !full || limit.is_some_and(|limit| jobs.len() >= limit) {
            return Ok(jobs);
        }
    }
}

/// Returns the rows of jobs as of now.
pub fn rows(jobs: Vec<JobSummary>, engine: &Engine) -> Vec<JobRow> {
    let observed = Observed::of(engine);
    jobs.into_iter().map(|job| JobRow::of(job, &observed)).collect()
}

/// The relation: jobs of the connected database.
#[derive(Debug)]
pub struct Jobs;

impl SystemRelation for Jobs {
    fn name(&self) -> &'static str {
        "jobs"
    }

    fn schema(&self) -> SchemaRef {
        columns::schema(&columns())
    }

    fn requirements(&self) -> Vec<Requirement> {
        Requirement::job_registry().into()
    }

    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move {
            let filter = JobFilter { database: Some(context.caller.database.clone()), ..JobFilter::default() };
            let jobs = read_summaries(context.engine.catalog(), filter, limit).await?;
            columns::batch(&columns(), &rows(jobs, &context.engine))
        })
    }

    fn rows_of_job<'a>(
        &'a self,
        context: &'a SystemContext,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<RecordBatch>>> {
        Box::pin(async move {
            let job = one_of(context, id).await?;
            columns::batch(&columns(), &rows(job.iter().map(JobSummary::from).collect(), &context.engine)).map(Some)
        })
    }
}

/// The rows of `job_children(id)`.
#[derive(Debug)]
pub struct ChildrenOf {
    /// The job as the caller spells it.
    pub id: String,
}

impl SystemRelation for ChildrenOf {
    fn name(&self) -> &'static str {
        "job_children"
    }

    fn schema(&self) -> SchemaRef {
        columns::schema(&child_columns())
    }

    fn requirements(&self) -> Vec<Requirement> {
        Requirement::job_registry().into()
    }

    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move {
            let parent = find(&context.engine, &self.id).await?;
            let filter = JobFilter { parent: Some(parent.id), ..JobFilter::default() };
            let jobs = read_summaries(context.engine.catalog(), filter, limit).await?;
            columns::batch(&child_columns(), &rows(jobs, &context.engine))
        })
    }
}

/// Returns the job of the connected database that has this id.
///
/// # Errors
/// If the registry cannot be read.
pub async fn one_of(context: &SystemContext, id: &str) -> Result<Option<Job>> {
    let Ok(id) = id.parse() else { return Ok(None) };
    let job = context.engine.catalog().job(id).await?;
    Ok(job.filter(|job| job.database == context.caller.database))
}

/// A table of a nested namespace is shown with its path, because two may have
/// the same name.
fn table_name(job: &JobSummary) -> String {
    if job.namespace.is_empty() {
        return job.table_name.clone();
    }
    format!("{}.{}", job.namespace.join("$"), job.table_name)
}

/// Whether the events of a job can be read.
fn history(job: &JobSummary, now: Timestamp, event_retention: Duration) -> &'static str {
    if job.attempt == 0 && job.finished_at.is_none() {
        return "not_yet_recorded";
    }
    let age = job.finished_at.map(|at| (now - at).to_std().unwrap_or_default());
    if age.is_some_and(|age| age > event_retention) { "unavailable" } else { "available" }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use chrono::DateTime;
    use lancegate_catalog::{AttemptEpoch, JobId, JobKind, JobState};
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn job(state: JobState) -> Job {
        Job {
            id: JobId::new(at(0)),
            kind: JobKind::ComputedRefresh,
            database: "lancegate".into(),
            namespace: vec!["team".into(), "ml".into()],
            table_name: "docs".into(),
            table_id: None,
            column: Some("words".into()),
            branch: None,
            submitted_by: "ann".into(),
            spec: Value::Null,
            parent: None,
            exclusive_key: None,
            automatic: false,
            binding: None,
            status: state.into(),
            phase: "teleporting".into(),
            progress: Some(json!({"rows_planned": 7, "execution_epoch": 2, "later_field": true})),
            queue_reason: None,
            result: None,
            failure: None,
            source_version: None,
            epoch: AttemptEpoch(2),
            attempt: 2,
            gateway: None,
            lease_expires_at: None,
            not_before: None,
            created_at: at(10),
            updated_at: at(20),
            started_at: Some(at(11)),
            finished_at: None,
        }
    }

    fn cell(job: Job, column: &str) -> Option<String> {
        let capacity = Capacity { slots: 4, available: 0 };
        let observed = Observed { now: at(100), event_retention: Duration::from_secs(60), capacity };
        let row = JobRow::new(&job, &observed);
        let batch = columns::batch(&child_columns(), &[row]).unwrap();
        let array = batch.column_by_name(column).unwrap().as_string::<i32>().clone();
        array.iter().next().flatten().map(str::to_owned)
    }

    #[test]
    fn prog_12_words_of_newer_software_pass_through_unchanged() {
        let newer = || job(JobState::Other("hibernating".into()));
        assert_eq!(cell(newer(), "state").as_deref(), Some("hibernating"));
        assert_eq!(cell(newer(), "phase").as_deref(), Some("teleporting"));
        let progress: Value = serde_json::from_str(&cell(newer(), "progress").unwrap()).unwrap();
        assert_eq!(progress["later_field"], true);
        let kind = Job { kind: JobKind::Other("weave".into()), ..newer() };
        assert_eq!(cell(kind, "job_type").as_deref(), Some("weave"));
    }

    #[test]
    fn prog_02_a_sample_is_shown_only_for_the_execution_that_it_is_of() {
        assert!(cell(job(JobState::InProgress), "progress").is_some());
        let later = Job { epoch: AttemptEpoch(3), ..job(JobState::InProgress) };
        assert_eq!(cell(later, "progress"), None);
        for state in [JobState::Queued, JobState::Paused] {
            assert_eq!(cell(job(state), "progress"), None);
        }
        assert!(cell(job(JobState::Canceled), "progress").is_some());
    }

    #[test]
    fn prog_06_a_queue_reason_is_what_is_true_now() {
        let reason = |job| cell(job, "queue_reason");
        let queued = || job(JobState::Queued);
        let full = "waiting for executor capacity: 1 worker slot requested, 0 of 4 available";
        assert_eq!(reason(queued()).as_deref(), Some(full));
        let retry = Job { not_before: Some(at(160)), ..queued() };
        assert_eq!(reason(retry).as_deref(), Some("waiting until 1970-01-01T00:02:40Z after attempt 2 failed"));
        assert_eq!(reason(Job { not_before: Some(at(99)), ..queued() }).as_deref(), Some(full));
        for state in [JobState::InProgress, JobState::Paused, JobState::Succeeded, JobState::Other("x".into())] {
            assert_eq!(reason(job(state)), None);
        }
        let free = Capacity { slots: 4, available: 1 };
        assert_eq!(queue_reason(&(&queued()).into(), free, at(100)), None, "it is about to be taken");
    }

    #[test]
    fn a_table_of_a_nested_namespace_is_shown_with_its_path_and_old_history_as_gone() {
        assert_eq!(cell(job(JobState::InProgress), "table_name").as_deref(), Some("team$ml.docs"));
        let history = |job| cell(job, "history").unwrap();
        assert_eq!(history(job(JobState::InProgress)), "available");
        assert_eq!(history(Job { attempt: 0, ..job(JobState::Queued) }), "not_yet_recorded");
        assert_eq!(history(Job { finished_at: Some(at(30)), ..job(JobState::Succeeded) }), "unavailable");
    }
}
