//! The rows of a part that a Function failed on: noted with the part, and recorded when a table version shows it.

use lancegate_catalog::{FailedRow, PartFailures};
use lancegate_functions::Raised;
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

use super::function::FunctionSpec;
use super::snapshot::Snapshot;
use super::stage::{StagedFragment, bitmap};
use crate::storage::StorageError;

/// Failed rows of a fragment whose exceptions are kept (decision 28).
const DETAIL_MAX: usize = 1_000;

/// See the module documentation.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StagedFailures {
    /// Their physical offsets.
    #[serde(with = "bitmap")]
    pub rows: RoaringBitmap,
    /// The table version that was read.
    pub version: u64,
    /// Why, of no more than 1,000 of them, in the order of evaluation.
    pub detail: Vec<StagedFailure>,
}

/// Why a row failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedFailure {
    /// Its physical offset.
    pub offset: u32,
    /// Its stable id, if the table has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_id: Option<u64>,
    /// The name of the exception.
    pub error_type: String,
    /// Its text.
    pub message: String,
}

impl StagedFailures {
    /// Returns whether no row failed.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn add(&mut self, offset: u32, raised: Raised) {
        self.rows.insert(offset);
        if self.detail.len() < DETAIL_MAX {
            let Raised { error_type, message, .. } = raised;
            self.detail.push(StagedFailure { offset, row_id: None, error_type, message });
        }
    }

    /// Adds the version and the stable ids.
    pub(super) async fn locate(&mut self, snapshot: &Snapshot, fragment_id: u64) -> Result<(), StorageError> {
        if self.is_empty() {
            return Ok(());
        }
        self.version = snapshot.dataset.version_id();
        let ids = snapshot.row_ids(fragment_id).await?;
        for row in &mut self.detail {
            row.row_id = ids.get(&row.offset).copied();
        }
        Ok(())
    }
}

impl StagedFragment {
    /// Returns what is recorded of a Function's part once it is published, also if no row failed: the records of
    /// earlier failures go then (ERR-08).
    pub(super) fn failures_of(&self, snapshot: &Snapshot, function: &FunctionSpec) -> PartFailures {
        let detail = self.failures.detail.iter().map(|row| FailedRow {
            offset: row.offset,
            row_id: row.row_id,
            error_type: row.error_type.clone(),
            error_message: row.message.clone(),
        });
        PartFailures {
            field_id: snapshot.column.field_id,
            column: snapshot.column.name.clone(),
            function: function.name.clone(),
            function_version: function.version.to_string(),
            table_version: self.failures.version,
            fragment_id: self.fragment_id,
            computed: self.rows.clone(),
            failed: self.failures.rows.clone(),
            detail: detail.collect(),
        }
    }
}
