//! The one row that REFRESH COLUMN answers with.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use lancegate_catalog::{Job, JobId, NewJob};

use crate::error::Result;
use crate::system::columns::{self, borrowed};

type Column = columns::Column<Answer>;

/// What a client sees of a refresh. The counters are there once it has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    name: String,
    status: String,
    job_id: Option<String>,
    rows_assigned: Option<i64>,
    rows_failed: Option<i64>,
    rows_remaining: Option<i64>,
    source_version: Option<i64>,
    published_version: Option<i64>,
}

impl Answer {
    /// The early handle.
    pub(crate) fn submitted(job: &Job) -> Self {
        Self::of(job.column.clone(), job.id)
    }

    /// The handle of a job that is submitted later under an id that it has already.
    pub(crate) fn handle(job: &NewJob, id: JobId) -> Self {
        Self::of(job.column.clone(), id)
    }

    fn of(column: Option<String>, id: JobId) -> Self {
        Self {
            name: column.unwrap_or_default(),
            status: "submitted".to_owned(),
            job_id: Some(id.to_string()),
            rows_assigned: None,
            rows_failed: None,
            rows_remaining: None,
            source_version: None,
            published_version: None,
        }
    }

    /// The result of a job that has succeeded; `job_id` only if the caller may
    /// read the registry.
    pub(crate) fn succeeded(job: &Job, registry: bool) -> Self {
        let result = |name: &str| job.result.as_ref().and_then(|result| result.get(name)?.as_i64());
        Self {
            status: job.status.state.to_string(),
            job_id: registry.then(|| job.id.to_string()),
            rows_assigned: result("rows_assigned"),
            rows_failed: result("rows_failed"),
            rows_remaining: result("rows_remaining"),
            source_version: result("source_version"),
            published_version: result("published_version"),
            ..Self::submitted(job)
        }
    }

    /// Returns the row.
    ///
    /// # Errors
    /// Internal errors only.
    pub(crate) fn batch(self) -> Result<RecordBatch> {
        columns::batch(&columns(), &[self])
    }
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("operation", |_| borrowed("refresh_column")).not_null(),
        Column::text("name", |answer| borrowed(&answer.name)).not_null(),
        Column::text("status", |answer| borrowed(&answer.status)).not_null(),
        Column::text("job_id", |answer| answer.job_id.as_deref().and_then(borrowed)),
        Column::bigint("rows_assigned", |answer| answer.rows_assigned),
        Column::bigint("rows_failed", |answer| answer.rows_failed),
        Column::bigint("rows_remaining", |answer| answer.rows_remaining),
        Column::bigint("source_version", |answer| answer.source_version),
        Column::bigint("published_version", |answer| answer.published_version),
    ]
}

/// Returns the columns of the answer.
pub(crate) fn schema() -> SchemaRef {
    columns::schema(&columns())
}
