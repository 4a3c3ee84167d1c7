//! REFRESH COLUMN: which rows need a value, computing them, publishing them.
//!
//! A refresh pins a table version, decides per row what is current there
//! ([`staleness`]), plans the fragments with work ([`plan`]), computes a new
//! column file for each ([`stage`]), publishes them in groups
//! ([`crate::storage::commit`]), and leaves a record of the inputs used
//! ([`provenance`]) in a metadata-only commit. It knows the registry only as a
//! [`ledger`] of durable notes, and neither the wire nor privileges.
//!
//! What holds at every instant: a fragment is published whole or not at all; a
//! published value was computed from the inputs of its row; a crash, a cancel or
//! a failure keeps what was published, and the next refresh computes the rest.

mod children;
mod error;
pub mod explain;
pub mod expression;
mod failures;
mod foreign;
pub mod function;
pub mod garbage;
pub mod latency;
pub mod ledger;
mod output;
mod past;
pub mod plan;
mod profile;
pub mod progress;
pub mod provenance;
mod run;
pub mod snapshot;
pub mod splits;
pub mod stage;
pub mod staleness;
pub mod status;
pub mod tidy;

use std::sync::Arc;
use std::time::Duration;

use lance::Dataset;
use lance::dataset::refs::Ref;
use serde::{Deserialize, Serialize};

pub use self::error::RefreshError;
pub use self::function::{FunctionHost, FunctionSpec};
pub use self::ledger::Ledger;
pub use self::profile::{PhaseTime, Profile, WorkerTime};
pub use self::progress::Progress;
pub use self::run::run;
use crate::storage::{StorageError, Store, nested};

/// The work of a refresh job, as the registry keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefreshSpec {
    /// Location of the table, as the catalog holds it.
    pub location: String,
    /// Name of the column when the job was made.
    pub column: String,
    /// Lance's id of the column's field: the binding. A rename keeps it; a column
    /// that is made again under the name is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_id: Option<i32>,
    /// Source text of the WHERE clause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<String>,
    /// Branch; `None` is main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Fixed number of workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_workers: Option<u32>,
    /// What fills a Function column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<FunctionSpec>,
}

/// Bounds that the deployment sets.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Fragments staged at once, unless the statement fixes it.
    pub workers: usize,
    /// Staged fragments that make a publication; more on tables of many fragments.
    pub publish_fragments: usize,
    /// A publication is made at latest this long after the one before, if
    /// anything is staged.
    pub publish_interval: Duration,
}

/// What a finished refresh reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefreshOutcome {
    /// Rows that got a current value, NULL included.
    pub rows_assigned: u64,
    /// Rows skipped by an error policy, NULL and to be tried again; 0 for an expression column.
    pub rows_failed: u64,
    /// Live rows without a current value in the version that the job left.
    pub rows_remaining: u64,
    /// The version that the job pinned at its start.
    pub source_version: u64,
    /// The version of its last value commit, if there was one.
    pub published_version: Option<u64>,
    /// Where the time went.
    pub profile: Profile,
}

impl RefreshSpec {
    /// Opens the newest version of the table on the spec's branch.
    ///
    /// # Errors
    /// [`StorageError::NotFound`] if there is no such table or branch.
    pub async fn open(&self, store: &Store) -> Result<Arc<Dataset>, StorageError> {
        let main = store.open(&self.location).await?;
        match &self.branch {
            None => Ok(main),
            Some(branch) => {
                let version = Ref::Version(Some(branch.clone()), None);
                let missing = |_| StorageError::NotFound { location: format!("branch {branch} of {}", self.location) };
                Ok(Arc::new(main.checkout_version(version).await.map_err(missing)?))
            }
        }
    }

    /// Returns the name, or path, that the column has at a version.
    ///
    /// # Errors
    /// [`StorageError::NoColumn`] if it was dropped, also if another has its name now.
    pub fn column_in(&self, dataset: &Dataset) -> Result<String, StorageError> {
        let Some(id) = self.field_id else { return Ok(self.column.clone()) };
        let path = nested::path_of(dataset.schema(), id);
        path.ok_or_else(|| StorageError::NoColumn { column: self.column.clone() })
    }

    /// Returns how many workers an expression runs on.
    pub fn workers(&self, limits: &Limits) -> usize {
        self.num_workers.map_or(limits.workers, |fixed| usize::try_from(fixed).unwrap_or(usize::MAX)).max(1)
    }
}
