//! The columns of SHOW ERRORS: rows that a Function failed on.
//!
//! An expression column has none: an expression that fails on a row fails its
//! refresh.

use arrow::datatypes::SchemaRef;
use lancegate_catalog::{RowFailure, Timestamp};

use super::columns::{self, borrowed, count};

type Column = columns::Column<ErrorRow>;

/// One failed row.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorRow {
    /// The job.
    pub job_id: String,
    /// The column.
    pub column: String,
    /// The Function.
    pub function: String,
    /// Its version.
    pub function_version: String,
    /// The table version that was read.
    pub table_version: u64,
    /// Where the row was.
    pub fragment_id: u64,
    /// Where in the fragment; none when the fragment's detail was capped.
    pub row_offset: Option<u32>,
    /// The stable id of the row, if the table has them.
    pub row_id: Option<u64>,
    /// The name of the exception.
    pub error_type: String,
    /// Its text.
    pub error_message: String,
    /// When it happened.
    pub created_at: Timestamp,
}

impl From<RowFailure> for ErrorRow {
    fn from(failure: RowFailure) -> Self {
        Self {
            job_id: failure.job_id.to_string(),
            column: failure.column,
            function: failure.function,
            function_version: failure.function_version,
            table_version: failure.table_version,
            fragment_id: failure.fragment_id,
            row_offset: failure.row_offset,
            row_id: failure.row_id,
            error_type: failure.error_type,
            error_message: failure.error_message,
            created_at: failure.created_at,
        }
    }
}

/// Returns the columns.
pub fn columns() -> Vec<Column> {
    vec![
        Column::text("job_id", |error| borrowed(&error.job_id)).not_null(),
        Column::text("column", |error| borrowed(&error.column)).not_null(),
        Column::text("function", |error| borrowed(&error.function)),
        Column::text("function_version", |error| borrowed(&error.function_version)),
        Column::bigint("table_version", |error| count(error.table_version)),
        Column::bigint("fragment_id", |error| count(error.fragment_id)),
        Column::bigint("row_offset", |error| error.row_offset.map(i64::from)),
        Column::bigint("row_id", |error| error.row_id.and_then(count)),
        Column::text("error_type", |error| borrowed(&error.error_type)),
        Column::text("error_message", |error| borrowed(&error.error_message)),
        Column::timestamp("created_at", |error| Some(error.created_at)).not_null(),
    ]
}

/// Returns the schema of SHOW ERRORS.
pub fn schema() -> SchemaRef {
    columns::schema(&columns())
}
