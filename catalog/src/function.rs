//! Functions by version, and the rows that they failed on.

use serde_json::Value;

use crate::Timestamp;
use crate::ids::{JobId, TableId};
use crate::object::TableName;

/// A version of a Function. Never changed once it is there.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionVersion {
    /// Its full name; functions have names of their own, apart from tables.
    pub name: TableName,
    /// Counts 1, 2, …; numbers of dropped versions are not used again while others are there.
    pub version: u64,
    /// What it does, as the gateway writes it.
    pub definition: Value,
    /// Who made it.
    pub owner: String,
    /// When.
    pub created_at: Timestamp,
}

/// A row that a Function failed on.
#[derive(Debug, Clone, PartialEq)]
pub struct RowFailure {
    /// The table.
    pub table_id: TableId,
    /// The job.
    pub job_id: JobId,
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
    /// Its physical offset in the fragment.
    pub row_offset: u32,
    /// Its stable id, if the table has them.
    pub row_id: Option<u64>,
    /// The name of the exception.
    pub error_type: String,
    /// Its text.
    pub error_message: String,
    /// When it happened.
    pub created_at: Timestamp,
}
