//! `system.public.job_splits`: what SHOW JOB SPLITS lists.
//!
//! A split is one fragment. Of one that is complete the note is known that the attempt wrote before it offered the
//! fragment's file: the rows, the file, who computed it, and how long its batches took. While the job runs, the others
//! are known from the attempt itself: `queued` ones that wait for a worker, `running` ones, and `failed` ones, whose
//! worker gave up. What neither says is NULL, never zero.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use lancegate_auth::Requirement;
use lancegate_catalog::{AttemptEpoch, Job, JobFilter, JobId, JobKind, Timestamp};

use super::columns::{self, borrowed, count, made};
use super::{SystemContext, SystemRelation, jobs};
use crate::error::Result;
use crate::exec::Engine;
use crate::refresh::ledger::PartNote;
use crate::refresh::splits::{Execution, Task};
use crate::refresh::stage::{Measured, StagedFragment};

type Column = columns::Column<SplitRow>;

/// One split.
#[derive(Debug, Clone, PartialEq)]
pub struct SplitRow {
    job_id: JobId,
    task_id: String,
    fragment_id: u64,
    row_start: Option<u32>,
    row_end: Option<u64>,
    bytes_staged: Option<u64>,
    parts: Option<i64>,
    started_at: Option<Timestamp>,
    rows_skipped: Option<u64>,
    bytes_read: Option<u64>,
    execution: Option<Execution>,
    attempts: Option<u64>,
    errors: Option<u64>,
    measured: Option<Measured>,
    state: &'static str,
    recovered: bool,
}

impl SplitRow {
    fn quantile(&self, share: f64) -> Option<f64> {
        self.measured.as_ref()?.batches.quantile_millis(share)
    }
}

/// Returns the columns.
pub fn columns() -> Vec<Column> {
    vec![
        Column::text("job_id", |split| made(split.job_id)).not_null(),
        Column::text("task_id", |split| borrowed(&split.task_id)).not_null(),
        Column::text("split_id", |split| made(split.fragment_id)).not_null(),
        Column::bigint("fragment_id", |split| count(split.fragment_id)),
        Column::text("worker", |split| borrowed(&split.execution.as_ref()?.worker)),
        Column::bigint("row_start", |split| split.row_start.map(i64::from)),
        Column::bigint("row_end", |split| split.row_end.and_then(count)),
        Column::bigint("rows_skipped", |split| split.rows_skipped.and_then(count)),
        Column::bigint("bytes_read", |split| split.bytes_read.and_then(count)),
        Column::bigint("bytes_staged", |split| split.bytes_staged.and_then(count)),
        Column::bigint("parts", |split| split.parts),
        Column::bigint("attempts", |split| split.attempts.and_then(count)),
        Column::bigint("batches", |split| split.measured.as_ref().and_then(|measured| count(measured.batches.count()))),
        Column::timestamp("started_at", |split| split.started_at),
        Column::timestamp("finished_at", |split| split.measured.as_ref().map(|measured| measured.finished_at)),
        Column::text("state", |split| borrowed(split.state)),
        Column::bigint("error_count", |split| split.errors.and_then(count)),
        Column::double("batch_p50_ms", |split| split.quantile(0.5)),
        Column::double("batch_p95_ms", |split| split.quantile(0.95)),
        Column::double("batch_p99_ms", |split| split.quantile(0.99)),
        Column::double("batch_max_ms", |split| split.measured.as_ref()?.batches.max_millis()),
        Column::boolean("recovered", |split| Some(split.recovered)),
    ]
}

/// Reads the splits of a job, the newest task of each.
///
/// # Errors
/// If the registry cannot be read.
pub async fn read(engine: &Engine, job: &Job) -> Result<Vec<SplitRow>> {
    let mut splits: BTreeMap<u64, (u64, SplitRow)> = BTreeMap::new();
    // Before the notes and after: a split may be noted in between.
    let (epoch, tasks) = engine.jobs().tasks(job.id).unwrap_or_default();
    for receipt in engine.catalog().receipts(job.id).await? {
        // Notes of another kind or format are not splits.
        let Some(PartNote { part, .. }) = PartNote::read(&receipt) else { continue };
        let epoch = receipt.epoch.0;
        let newest = splits.get(&part.fragment_id).is_none_or(|(seen, _)| *seen <= epoch);
        if newest {
            splits.insert(part.fragment_id, (epoch, split(job, epoch, &part)));
        }
    }
    let (_, still) = engine.jobs().tasks(job.id).unwrap_or_default();
    for (fragment, task) in tasks {
        // Then what is noted of it is of an earlier plan.
        if still.contains_key(&fragment) || !splits.contains_key(&fragment) {
            splits.insert(fragment, (epoch.0, unfinished(job, epoch, fragment, &task)));
        }
    }
    Ok(splits.into_values().map(|(_, split)| split).collect())
}

fn unfinished(job: &Job, epoch: AttemptEpoch, fragment: u64, task: &Task) -> SplitRow {
    SplitRow {
        job_id: job.id,
        task_id: format!("{}/{}/{fragment}", job.id, epoch.0),
        fragment_id: fragment,
        row_start: task.row_start,
        row_end: task.row_end,
        bytes_staged: None,
        parts: None,
        started_at: task.started_at,
        rows_skipped: None,
        // A split that waits has read nothing in this attempt, and failed as often.
        bytes_read: task.started_at.is_some().then_some(task.bytes_read),
        attempts: Some(task.execution.as_ref().map_or(task.begun_before, |execution| execution.attempts)),
        errors: Some(task.execution.as_ref().map_or(0, |execution| execution.errors)),
        execution: task.execution.clone(),
        measured: None,
        state: match task.started_at {
            None => "queued",
            Some(_) if task.failed => "failed",
            Some(_) => "running",
        },
        recovered: false,
    }
}

fn split(job: &Job, epoch: u64, staged: &StagedFragment) -> SplitRow {
    let execution = staged.measured.as_ref().and_then(|measured| measured.execution.clone());
    SplitRow {
        job_id: job.id,
        task_id: format!("{}/{epoch}/{}", job.id, staged.fragment_id),
        fragment_id: staged.fragment_id,
        row_start: staged.rows.min(),
        row_end: staged.rows.max().map(|last| u64::from(last) + 1),
        bytes_staged: staged.file.file_size_bytes.get().map(u64::from),
        parts: Some(1),
        started_at: staged.measured.as_ref().map(|measured| measured.started_at),
        // An expression skips no row: it fails.
        rows_skipped: (job.kind == JobKind::FunctionRefresh).then(|| staged.failures.rows.len()),
        bytes_read: staged.measured.as_ref().and_then(|measured| measured.bytes_read),
        attempts: execution.as_ref().map(|execution| execution.attempts),
        errors: execution.as_ref().map(|execution| execution.errors),
        execution,
        measured: staged.measured.clone(),
        state: "completed",
        recovered: epoch < job.epoch.0,
    }
}

/// The relation: splits of the jobs of the connected database.
#[derive(Debug)]
pub struct JobSplits;

impl SystemRelation for JobSplits {
    fn name(&self) -> &'static str {
        "job_splits"
    }

    fn schema(&self) -> SchemaRef {
        columns::schema(&columns())
    }

    fn requirements(&self) -> Vec<Requirement> {
        Requirement::job_registry().into()
    }

    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move {
            let engine = &context.engine;
            let filter = JobFilter { database: Some(context.caller.database.clone()), ..JobFilter::default() };
            let limit = limit.unwrap_or(usize::MAX);
            let mut splits = Vec::new();
            for job in jobs::read(engine.catalog(), filter, None).await? {
                if splits.len() >= limit {
                    break;
                }
                splits.extend(read(engine, &job).await?);
            }
            splits.truncate(limit);
            columns::batch(&columns(), &splits)
        })
    }

    fn rows_of_job<'a>(
        &'a self,
        context: &'a SystemContext,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<RecordBatch>>> {
        Box::pin(async move {
            let splits = match jobs::one_of(context, id).await? {
                Some(job) => read(&context.engine, &job).await?,
                None => Vec::new(),
            };
            columns::batch(&columns(), &splits).map(Some)
        })
    }
}
