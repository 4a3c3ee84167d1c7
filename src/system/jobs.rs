//! `system.public.jobs`: what SHOW JOBS lists.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use lancegate_auth::Requirement;
use lancegate_catalog::{Catalog, Job, JobFilter, Timestamp};
use serde_json::Value;

use super::columns::{self, borrowed, made};
use super::{SystemContext, SystemRelation};
use crate::error::Result;
use crate::jobs::progress;

type Column = columns::Column<JobRow>;

/// One job as listings show it.
#[derive(Debug, Clone)]
pub struct JobRow {
    job: Job,
    table_name: String,
    progress: Option<Value>,
    history: &'static str,
}

impl JobRow {
    /// Returns the row of a job at `now`; its events are kept for `event_retention`.
    pub fn new(job: Job, now: Timestamp, event_retention: Duration) -> Self {
        Self { table_name: table_name(&job), progress: progress::shown(&job), history: history(&job, now, event_retention), job }
    }

    fn counter(&self, name: &str) -> Option<i64> {
        progress::counter(self.progress.as_ref(), name)
    }
}

/// Returns the columns of SHOW JOBS.
pub fn columns() -> Vec<Column> {
    vec![
        Column::text("job_id", |row| made(row.job.id)).not_null(),
        Column::text("table_name", |row| borrowed(&row.table_name)).not_null(),
        Column::text("job_type", |row| borrowed(row.job.kind.as_str())).not_null(),
        // A word of newer software passes through unchanged (PROG-12).
        Column::text("state", |row| borrowed(row.job.status.state.as_str())).not_null(),
        Column::text("phase", |row| borrowed(&row.job.phase)),
        Column::timestamp("created_at", |row| Some(row.job.created_at)).not_null(),
        Column::timestamp("updated_at", |row| Some(row.job.updated_at)).not_null(),
        Column::text("submitted_by", |row| borrowed(&row.job.submitted_by)).not_null(),
        Column::json("progress", |row| row.progress.as_ref().and_then(made)),
        Column::text("queue_reason", |row| row.job.queue_reason.as_deref().and_then(borrowed)),
        Column::text("error", |row| row.job.failure.as_ref().and_then(|failure| borrowed(&failure.message))),
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
pub async fn read(catalog: &Catalog, mut filter: JobFilter, limit: Option<usize>) -> Result<Vec<Job>> {
    let mut jobs: Vec<Job> = Vec::new();
    loop {
        let wanted = limit.map_or(usize::MAX, |limit| limit - jobs.len());
        let page = u32::try_from(wanted).unwrap_or(u32::MAX).min(JobFilter::LIMIT_MAX);
        filter.limit = Some(page);
        let found = catalog.jobs(filter.clone()).await?;
        let full = found.len() == page as usize;
        jobs.extend(found);
        filter.before = jobs.last().map(Job::cursor);
        if !full || limit.is_some_and(|limit| jobs.len() >= limit) {
            return Ok(jobs);
        }
    }
}

/// Returns the rows of jobs as of now.
pub fn rows(jobs: Vec<Job>, event_retention: Duration) -> Vec<JobRow> {
    let now = chrono::Utc::now();
    jobs.into_iter().map(|job| JobRow::new(job, now, event_retention)).collect()
}

/// The relation: jobs of the connected database.
#[derive(Debug)]
pub struct Jobs;

#[async_trait]
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

    async fn rows(&self, context: &SystemContext, limit: Option<usize>) -> Result<RecordBatch> {
        let filter = JobFilter { database: Some(context.caller.database.clone()), ..JobFilter::default() };
        let jobs = read(context.engine.catalog(), filter, limit).await?;
        columns::batch(&columns(), &rows(jobs, context.engine.jobs().event_retention()))
    }
}

/// A table of a nested namespace is shown with its path, because two may have
/// the same name.
fn table_name(job: &Job) -> String {
    if job.namespace.is_empty() {
        return job.table_name.clone();
    }
    format!("{}.{}", job.namespace.join("$"), job.table_name)
}

/// Whether the events of a job can be read.
fn history(job: &Job, now: Timestamp, event_retention: Duration) -> &'static str {
    if job.attempt == 0 && job.finished_at.is_none() {
        return "not_yet_recorded";
    }
    let age = job.finished_at.map(|at| (now - at).to_std().unwrap_or_default());
    if age.is_some_and(|age| age > event_retention) { "unavailable" } else { "available" }
}
