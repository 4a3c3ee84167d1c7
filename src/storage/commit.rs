//! Publishing staged column files, and the metadata-only commit after it.
//!
//! A column file of a fragment fits as long as the fragment exists: its physical
//! rows never change. So a commit that lost to a concurrent append, delete or
//! row-moving update is offered again at the newer version. A file is rejected,
//! for its caller to plan the rows again, when the fragment is gone, when its
//! inputs are in other files than those it was computed from, or when somebody
//! else replaced the values meanwhile; Lance itself would accept the last two.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lance::Dataset;
use lance::dataset::CommitBuilder;
use lance::dataset::transaction::{DataReplacementGroup, Operation, TransactionBuilder};
use lance_table::format::{DataFile, Fragment};

use super::signature::{Signature, Signer};
use super::{StorageError, durable, nested};

/// Offers of one commit before it counts as a conflict.
const ATTEMPTS_MAX: u32 = 12;
const BACKOFF: Duration = Duration::from_millis(10);

/// A staged file and what must still be true for it to be published.
#[derive(Debug, Clone)]
pub struct Replacement {
    /// The fragment that it fits.
    pub fragment_id: u64,
    /// The file.
    pub file: DataFile,
    /// Where the inputs must be.
    pub inputs: Signature,
    /// Where the replaced values must be.
    pub replaces: Signature,
}

/// What became of a set of replacements.
#[derive(Debug)]
pub struct Published {
    /// The table at the version that holds them.
    pub dataset: Dataset,
    /// Fragments whose file is visible.
    pub fragments: Vec<u64>,
    /// Fragments whose file no longer fits.
    pub rejected: Vec<u64>,
    /// Whether a commit was made (none is when everything was there or rejected).
    pub committed: bool,
}

/// Publishes the files that still fit, in one data-replacement commit.
///
/// Idempotent: a file that the newest version references already counts as
/// published, so a caller that does not know whether its commit arrived asks again.
///
/// # Errors
/// [`StorageError::Conflict`] after too many lost races,
/// [`StorageError::NoColumn`] if the column was dropped, storage errors.
pub async fn publish(
    dataset: &Dataset,
    output_id: i32,
    input_ids: &[i32],
    replacements: &[Replacement],
    properties: &HashMap<String, String>,
) -> Result<Published, StorageError> {
    let names = replacements.iter().map(|replacement| replacement.file.path.as_str());
    durable::sync_data_files(dataset, names).await?;
    let mut latest = dataset.clone();
    let mut last = None;
    for attempt in 1..=ATTEMPTS_MAX {
        latest.checkout_latest().await?;
        let mut sorted = sort(&latest, output_id, input_ids, replacements)?;
        reject_unreadable(&latest, &mut sorted).await?;
        if sorted.fitting.is_empty() {
            let Sorted { published, rejected, .. } = sorted;
            return Ok(Published { dataset: latest, fragments: published, rejected, committed: false });
        }
        match commit(&latest, output_id, &sorted.fitting, properties).await {
            Ok(committed) => {
                durable::sync_commit(&committed, Some(&latest)).await?;
                let mut fragments = sorted.published;
                fragments.extend(sorted.fitting.iter().map(|replacement| replacement.fragment_id));
                return Ok(Published { dataset: committed, fragments, rejected: sorted.rejected, committed: true });
            }
            // Whatever the answer was, the next look at the newest version tells
            // what is true: published, still fitting, or rejected.
            Err(error) if may_try_again(&error) => {
                tracing::info!(attempt, %error, "publishing again at a newer version");
                last = Some(error);
                tokio::time::sleep(BACKOFF * attempt * attempt).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    match last {
        Some(error) if !is_conflict(&error) => Err(error.into()),
        _ => Err(StorageError::Conflict(format!("gave up publishing after {ATTEMPTS_MAX} lost races"))),
    }
}

struct Sorted<'a> {
    published: Vec<u64>,
    fitting: Vec<&'a Replacement>,
    rejected: Vec<u64>,
}

fn sort<'a>(
    latest: &Dataset,
    output_id: i32,
    input_ids: &[i32],
    replacements: &'a [Replacement],
) -> Result<Sorted<'a>, StorageError> {
    if latest.schema().field_by_id(output_id).is_none() {
        return Err(StorageError::NoColumn { column: format!("field {output_id}") });
    }
    let fragments: HashMap<u64, &Fragment> = latest.iter_fragments().map(|fragment| (fragment.id, fragment)).collect();
    let (inputs, output) = (Signer::new(latest, input_ids), Signer::new(latest, &[output_id]));
    let mut sorted = Sorted { published: Vec::new(), fitting: Vec::new(), rejected: Vec::new() };
    for replacement in replacements {
        let id = replacement.fragment_id;
        let Some(fragment) = fragments.get(&id) else {
            sorted.rejected.push(id);
            continue;
        };
        if fragment.files.iter().any(|file| file.path == replacement.file.path) {
            sorted.published.push(id);
        } else if inputs.sign(fragment) == replacement.inputs && output.sign(fragment) == replacement.replaces {
            sorted.fitting.push(replacement);
        } else {
            sorted.rejected.push(id);
        }
    }
    Ok(sorted)
}

/// Lance commits a reference to a file that is not there, and then nobody can
/// read the table any more; so look first.
async fn reject_unreadable(dataset: &Dataset, sorted: &mut Sorted<'_>) -> Result<(), StorageError> {
    let store = dataset.object_store(None).await?;
    let mut fitting = Vec::with_capacity(sorted.fitting.len());
    for replacement in sorted.fitting.drain(..) {
        let path = dataset.data_dir().join(replacement.file.path.as_str());
        let size = match store.size(&path).await {
            Ok(size) => Some(size),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        let expected = replacement.file.file_size_bytes.get().map(u64::from);
        if size.is_some() && (expected.is_none() || expected == size) {
            fitting.push(replacement);
        } else {
            sorted.rejected.push(replacement.fragment_id);
        }
    }
    sorted.fitting = fitting;
    Ok(())
}

async fn commit(
    latest: &Dataset,
    output_id: i32,
    replacements: &[&Replacement],
    properties: &HashMap<String, String>,
) -> lance::Result<Dataset> {
    let files = replacements.iter().map(|replacement| (replacement.fragment_id, &replacement.file));
    let operation = if nested::is_nested(latest.schema(), output_id) {
        nested::rewrite(latest, output_id, files)
    } else {
        let replacements = files.map(|(id, file)| DataReplacementGroup(id, file.clone())).collect();
        Operation::DataReplacement { replacements }
    };
    let transaction = TransactionBuilder::new(latest.version_id(), operation).build();
    CommitBuilder::new(Arc::new(latest.clone()))
        .with_transaction_properties(properties.clone())
        .execute(transaction)
        .await
}

fn may_try_again(error: &lance::Error) -> bool {
    let unknown =
        matches!(error, lance::Error::Timeout { .. } | lance::Error::InvalidInput { .. } | lance::Error::IO { .. });
    unknown || is_conflict(error)
}

fn is_conflict(error: &lance::Error) -> bool {
    matches!(
        error,
        lance::Error::RetryableCommitConflict { .. }
            | lance::Error::CommitConflict { .. }
            | lance::Error::IncompatibleTransaction { .. }
            | lance::Error::TooMuchWriteContention { .. }
    )
}

/// Sets one metadata key of one field: a commit without data.
///
/// # Errors
/// [`StorageError::NoColumn`] if the field is gone, [`StorageError::Conflict`]
/// after too many lost races, storage errors.
pub async fn set_field_metadata(
    dataset: &Dataset,
    field_id: i32,
    key: &str,
    value: &str,
) -> Result<Dataset, StorageError> {
    let mut latest = dataset.clone();
    for attempt in 1..=ATTEMPTS_MAX {
        latest.checkout_latest().await?;
        if latest.schema().field_by_id(field_id).is_none() {
            return Err(StorageError::NoColumn { column: format!("field {field_id}") });
        }
        let before = latest.clone();
        let update = latest.update_field_metadata().update(field_id, [(key, value)])?;
        match update.await {
            Ok(_) => {
                durable::sync_commit(&latest, Some(&before)).await?;
                return Ok(latest);
            }
            Err(error) if may_try_again(&error) && (attempt < ATTEMPTS_MAX || is_conflict(&error)) => {
                tokio::time::sleep(BACKOFF * attempt * attempt).await;
            }
            Err(error) => return Err(error.into()),
        }
        latest = before;
    }
    Err(StorageError::Conflict(format!("gave up a metadata commit after {ATTEMPTS_MAX} lost races")))
}
