//! Functions by version, and the rows that they failed on.

use roaring::RoaringBitmap;
use serde_json::Value;

use crate::Timestamp;
use crate::ids::{JobId, TableId};
use crate::object::TableName;

/// A version of a Function. What it does never changes once it is there.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionVersion {
    /// Its full name; functions have names of their own, apart from tables.
    pub name: TableName,
    /// Counts 1, 2, …; the number of a dropped version is not used again.
    pub version: u64,
    /// What it does, as the gateway writes it.
    pub definition: Value,
    /// Who made it.
    pub owner: String,
    /// Whether new columns and refreshes are refused.
    pub disabled: bool,
    /// When.
    pub created_at: Timestamp,
}

/// What a published part of a column says about rows that failed: it takes the place of what was known of all rows
/// that the part computed.
#[derive(Debug, Clone, PartialEq)]
pub struct PartFailures {
    /// Lance's id of the column's field.
    pub field_id: i32,
    /// Name of the column.
    pub column: String,
    /// The Function.
    pub function: String,
    /// Its version.
    pub function_version: String,
    /// The table version that was read.
    pub table_version: u64,
    /// The fragment.
    pub fragment_id: u64,
    /// Physical offsets of the rows that were computed.
    pub computed: RoaringBitmap,
    /// Those of them that failed.
    pub failed: RoaringBitmap,
    /// Why, of as many as have a record of their own.
    pub detail: Vec<FailedRow>,
}

/// Where rows are that a Function failed on: one row, or those of a fragment that have no record of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedPlace {
    /// The fragment.
    pub fragment_id: u64,
    /// Physical offsets.
    pub offsets: RoaringBitmap,
    /// The stable id of the one row, if it has one.
    pub row_id: Option<u64>,
}

/// Why one row of a part failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedRow {
    /// Its physical offset in the fragment.
    pub offset: u32,
    /// Its stable id, if the table has them.
    pub row_id: Option<u64>,
    /// The name of the exception.
    pub error_type: String,
    /// Its text.
    pub error_message: String,
}

/// A row that a Function failed on.
#[derive(Debug, Clone, PartialEq)]
pub struct RowFailure {
    /// The table.
    pub table_id: TableId,
    /// Its branch; `None` is main.
    pub branch: Option<String>,
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
    /// Its physical offset in the fragment; `None` for rows that have no record of their own.
    pub row_offset: Option<u32>,
    /// How many rows it is about.
    pub rows: u64,
    /// Its stable id, if the table has them.
    pub row_id: Option<u64>,
    /// The name of the exception.
    pub error_type: String,
    /// Its text.
    pub error_message: String,
    /// In how many jobs, one after the other, the row has failed.
    pub attempts: u64,
    /// When it happened.
    pub created_at: Timestamp,
}
