//! The attempt's durable notes in the job registry, fenced by its epoch.
//!
//! One note per publication is written *before* the commit: which files it
//! offers. An attempt that takes the job over offers them again; what is visible
//! already counts as published, what still fits is committed without computing
//! it again, the rest is planned anew. So a crash at any instant loses at most
//! the files that no note names yet.

use lancegate_catalog::{AttemptEpoch, Catalog, CatalogError, JobId};

use super::RefreshError;
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
