//! The attempt's durable notes in the job registry, fenced by its epoch.
//!
//! One note per publication is written *before* the commit: which files it
//! offers. An attempt that takes the job over offers them again; what is visible
//! already counts as published, what still fits is committed without computing
//! it again, the rest is planned anew. So a crash at any instant loses at most
//! the files that no note names yet.

use std::collections::HashMap;

use chrono::Utc;
use lancegate_catalog::{AttemptEpoch, Catalog, CatalogError, JobId, RowFailure};

use super::RefreshError;
use super::function::FunctionSpec;
use super::snapshot::Snapshot;
use super::stage::StagedFragment;

/// See the module documentation.
#[derive(Debug, Clone)]
pub struct Ledger {
    catalog: Catalog,
    job: JobId,
    epoch: AttemptEpoch,
}

impl Ledger {
    /// Returns the ledger of one attempt.
    pub fn new(catalog: Catalog, job: JobId, epoch: AttemptEpoch) -> Self {
        Self { catalog, job, epoch }
    }

    /// Returns the job's id.
    pub fn job(&self) -> JobId {
        self.job
    }

    /// Returns the fence of this attempt.
    pub fn epoch(&self) -> AttemptEpoch {
        self.epoch
    }

    /// Pins the version that the job reads: the first attempt's answer stays (RC-14).
    ///
    /// # Errors
    /// [`RefreshError::LeaseLost`], [`RefreshError::Registry`].
    pub async fn pin_source(&self, version: u64) -> Result<u64, RefreshError> {
        self.catalog.record_source_version(self.job, self.epoch, version).await.map_err(refused)?;
        let job = self.catalog.job(self.job).await.map_err(refused)?;
        Ok(job.and_then(|job| job.source_version).unwrap_or(version))
    }

    /// Notes, durably, the files that a commit is about to offer.
    ///
    /// # Errors
    /// [`RefreshError::LeaseLost`] if the job is somebody else's now: nothing
    /// may be committed then.
    pub async fn intend(&self, staged: &[StagedFragment]) -> Result<(), RefreshError> {
        let first = staged.first().map_or(0, |staged| staged.fragment_id);
        let key = format!("publish/{}/{first}/{}", self.epoch.0, staged.first().map_or("", |staged| &staged.file.path));
        let note = serde_json::to_value(staged).map_err(|error| RefreshError::Worker(error.to_string()))?;
        self.catalog.put_receipt(self.job, self.epoch, &key, note).await.map_err(refused)
    }

    /// Records the rows of a published file that failed, in place of what was recorded for the rows computed (ERR-08).
    ///
    /// # Errors
    /// [`RefreshError::Registry`], and what reading row ids reports.
    pub(super) async fn record_failures(
        &self,
        snapshot: &Snapshot,
        function: &FunctionSpec,
        staged: &StagedFragment,
    ) -> Result<(), RefreshError> {
        let job = self.catalog.job(self.job).await.map_err(refused)?;
        let Some(table_id) = job.and_then(|job| job.table_id) else { return Ok(()) };
        let row_ids =
            if staged.failures.is_empty() { HashMap::new() } else { snapshot.row_ids(staged.fragment_id).await? };
        let failure = |failure: &super::stage::StagedFailure| RowFailure {
            table_id,
            job_id: self.job,
            column: snapshot.column.name.clone(),
            function: function.name.clone(),
            function_version: function.version.to_string(),
            table_version: snapshot.dataset.version_id(),
            fragment_id: staged.fragment_id,
            row_offset: failure.offset,
            row_id: row_ids.get(&failure.offset).copied(),
            error_type: failure.error_type.clone(),
            error_message: failure.message.clone(),
            created_at: Utc::now(),
        };
        let failures = staged.failures.iter().map(failure).collect();
        let (column, rows) = (&snapshot.column.name, staged.rows.iter().collect());
        self.catalog.replace_row_failures(table_id, column, staged.fragment_id, rows, failures).await.map_err(refused)
    }

    /// Returns all files that earlier attempts (or this one) offered.
    ///
    /// # Errors
    /// [`RefreshError::Registry`].
    pub async fn intended(&self) -> Result<Vec<StagedFragment>, RefreshError> {
        let receipts = self.catalog.receipts(self.job).await.map_err(refused)?;
        let notes = receipts.into_iter().filter(|receipt| receipt.key.starts_with("publish/"));
        // A note of another format is not trusted; its rows are computed again.
        Ok(notes.filter_map(|note| serde_json::from_value::<Vec<StagedFragment>>(note.value).ok()).flatten().collect())
    }
}

fn refused(error: CatalogError) -> RefreshError {
    match error {
        CatalogError::StaleEpoch { .. } => RefreshError::LeaseLost,
        other => RefreshError::Registry(other),
    }
}
