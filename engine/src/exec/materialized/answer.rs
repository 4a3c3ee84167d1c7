//! The one row that CREATE and REFRESH MATERIALIZED VIEW answer with.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use lancegate_catalog::{Job, JobState};
use serde_json::Value;

use crate::error::Result;
use crate::system::columns::{self, borrowed};

type Column = columns::Column<Answer>;

/// What a client sees. The counters are there once a job has succeeded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    operation: &'static str,
    name: String,
    status: String,
    job_id: Option<String>,
    result: Value,
}

impl Answer {
    /// Of a view that was made without a job, or was there before.
    pub(super) fn created(name: &str, status: &str) -> Self {
        let (name, status) = (name.to_owned(), status.to_owned());
        Self { operation: "create_materialized_view", name, status, job_id: None, result: Value::Null }
    }

    /// Of a view that its first job has filled; `job_id` only if the caller may read
    /// the registry.
    pub(super) fn filled(name: &str, job: &Job, registry: bool) -> Self {
        Self { job_id: registry.then(|| job.id.to_string()), ..Self::created(name, "created") }
    }

    /// Of a refresh; `job_id` only if the caller may read the registry.
    pub(super) fn refreshed(job: &Job, registry: bool) -> Self {
        let ended = job.status.state == JobState::Succeeded;
        Self {
            operation: "refresh_materialized_view",
            name: job.table_name.clone(),
            status: if ended { job.status.state.to_string() } else { "submitted".to_owned() },
            job_id: registry.then(|| job.id.to_string()),
            result: job.result.clone().filter(|_| ended).unwrap_or_default(),
        }
    }

    /// Returns the row of CREATE.
    ///
    /// # Errors
    /// Internal errors only.
    pub(super) fn created_batch(self) -> Result<RecordBatch> {
        columns::batch(&created_columns(), &[self])
    }

    /// Returns the row of REFRESH.
    ///
    /// # Errors
    /// Internal errors only.
    pub(super) fn refreshed_batch(self) -> Result<RecordBatch> {
        columns::batch(&refreshed_columns(), &[self])
    }

    fn counter(&self, name: &str) -> Option<i64> {
        self.result.get(name)?.as_i64()
    }
}

fn created_columns() -> Vec<Column> {
    vec![
        Column::text("operation", |answer| borrowed(answer.operation)).not_null(),
        Column::text("name", |answer| borrowed(&answer.name)).not_null(),
        Column::text("status", |answer| borrowed(&answer.status)).not_null(),
        Column::text("job_id", |answer| answer.job_id.as_deref().and_then(borrowed)),
    ]
}

fn refreshed_columns() -> Vec<Column> {
    let mut columns = created_columns();
    columns.extend([
        Column::text("mode", |answer| answer.result.get("mode").and_then(|mode| borrowed(mode.as_str()?))),
        Column::bigint("rows_written", |answer| answer.counter("rows_written")),
        Column::bigint("source_version", |answer| answer.counter("source_version")),
        Column::bigint("version", |answer| answer.counter("version")),
    ]);
    columns
}

/// Returns the columns that CREATE answers with.
pub(crate) fn created_schema() -> SchemaRef {
    columns::schema(&created_columns())
}

/// Returns the columns that REFRESH answers with.
pub(crate) fn refreshed_schema() -> SchemaRef {
    columns::schema(&refreshed_columns())
}
