//! The attempt's durable notes in the job registry, fenced by its epoch.
//!
//! Every complete part is noted *before* a commit offers it. An attempt that
//! takes the job over offers the noted parts again: what is visible already
//! counts as published, what still fits is committed without computing it again,
//! the rest is planned anew. A later job of the same column does the same with
//! the parts that ended jobs have left (RC-11). So a crash at any instant loses
//! at most the parts of the last moment.

use lancegate_catalog::{AttemptEpoch, Catalog, CatalogError, JobId, PartFailures, Receipt};
use serde::{Deserialize, Serialize};

use super::RefreshError;
use super::provenance::Definition;
use super::splits::Begun;
use super::stage::StagedFragment;

/// See the module documentation.
#[derive(Debug, Clone)]
pub struct Ledger {
    catalog: Catalog,
    job: JobId,
    epoch: AttemptEpoch,
}

/// What is noted of a part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartNote {
    /// What its values were computed by, in hexadecimal digits.
    definition: String,
    /// The table version that it was computed from: no earlier one references it.
    pub version: u64,
    /// The part.
    pub part: StagedFragment,
}

impl PartNote {
    /// Reads a note; `None` if it is none of a part, or of another format: its
    /// rows are computed again.
    pub fn read(receipt: &Receipt) -> Option<Self> {
        serde_json::from_value(receipt.value.clone()).ok()
    }

    /// Returns whether its values are those of a definition.
    pub(super) fn is_of(&self, definition: Definition) -> bool {
        self.definition == digits(definition)
    }
}

impl Ledger {
    /// Returns the ledger of one attempt.
    pub fn new(catalog: Catalog, job: JobId, epoch: AttemptEpoch) -> Self {
        Self { catalog, job, epoch }
    }

    /// Returns the registry.
    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns how often each split was begun that earlier attempts of the job have not completed.
    ///
    /// # Errors
    /// [`RefreshError::Registry`].
    pub async fn begun(&self) -> Result<Begun, RefreshError> {
        self.catalog.begun(self.job).await.map_err(refused)
    }

    /// Notes how often each split was begun that is not complete. Not flushed to disk.
    ///
    /// # Errors
    /// [`RefreshError::LeaseLost`], [`RefreshError::Registry`].
    pub async fn note_begun(&self, begun: Begun) -> Result<(), RefreshError> {
        self.catalog.note_begun(self.job, self.epoch, begun).await.map_err(refused)
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
        self.catalog.record_source_version(self.job, self.epoch, version).await.map_err(refused)
    }

    /// Notes parts, durably, that were computed from this version. Their files
    /// must be durable before. Without parts it only asks whether this attempt
    /// may go on: both come before every commit.
    ///
    /// # Errors
    /// [`RefreshError::LeaseLost`] if the job is somebody else's now, and
    /// [`RefreshError::Canceled`] if it is to stop: nothing may be committed then.
    pub async fn note(
        &self,
        definition: Definition,
        version: u64,
        parts: &[StagedFragment],
    ) -> Result<(), RefreshError> {
        let note = |part: &StagedFragment| {
            let note = PartNote { definition: digits(definition), version, part: part.clone() };
            Ok((part.file.path.clone(), serde_json::to_value(note)?))
        };
        let notes: serde_json::Result<Vec<_>> = parts.iter().map(note).collect();
        let notes = notes.map_err(|error| RefreshError::Worker(error.to_string()))?;
        match self.catalog.note_parts(self.job, self.epoch, notes).await.map_err(refused)? {
            None => Ok(()),
            Some(_) => Err(RefreshError::Canceled),
        }
    }

    /// Notes that the table shows these parts, and which of their rows failed.
    ///
    /// # Errors
    /// [`RefreshError::LeaseLost`]: nothing more may be committed.
    pub async fn published(&self, files: Vec<String>, failures: Vec<PartFailures>) -> Result<(), RefreshError> {
        if files.is_empty() {
            return Ok(());
        }
        self.catalog.parts_published(self.job, self.epoch, files, failures, crate::clock::now()).await.map_err(refused)
    }

    /// Returns all parts of this definition that attempts of this job have noted.
    ///
    /// # Errors
    /// [`RefreshError::Registry`].
    pub async fn noted(&self, definition: Definition) -> Result<Vec<StagedFragment>, RefreshError> {
        let receipts = self.catalog.receipts(self.job).await.map_err(refused)?;
        Ok(parts(&receipts, definition).collect())
    }

    /// Returns the parts of this definition that ended jobs of the same column
    /// have left, newest job first.
    ///
    /// # Errors
    /// [`RefreshError::Registry`].
    pub async fn left_over(&self, definition: Definition) -> Result<Vec<StagedFragment>, RefreshError> {
        let receipts = self.catalog.reusable_parts(self.job).await.map_err(refused)?;
        Ok(parts(&receipts, definition).collect())
    }

    /// Makes left-over parts this job's own; returns those that it got.
    ///
    /// # Errors
    /// [`RefreshError::LeaseLost`], [`RefreshError::Registry`].
    pub async fn take(&self, mut parts: Vec<StagedFragment>) -> Result<Vec<StagedFragment>, RefreshError> {
        let files = parts.iter().map(|part| part.file.path.clone()).collect();
        let taken = self.catalog.take_parts(self.job, self.epoch, files).await.map_err(refused)?;
        parts.retain(|part| taken.contains(&part.file.path));
        Ok(parts)
    }
}

fn parts(receipts: &[Receipt], definition: Definition) -> impl Iterator<Item = StagedFragment> {
    let wanted = digits(definition);
    let notes = receipts.iter().filter_map(PartNote::read);
    notes.filter(move |note| note.definition == wanted).map(|note| note.part)
}

fn digits(definition: Definition) -> String {
    definition.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn refused(error: CatalogError) -> RefreshError {
    match error {
        CatalogError::StaleEpoch { .. } => RefreshError::LeaseLost,
        other => RefreshError::Registry(other),
    }
}
