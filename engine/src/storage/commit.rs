//! Publishing staged column files, and the metadata-only commit after it.
//!
//! A column file of a fragment fits as long as the fragment exists: its physical
//! rows never change. So a commit that lost to a concurrent append, delete or
//! row-moving update is offered again at the newer version. A file is rejected,
//! for its caller to plan the rows again, when the fragment is gone, when its
//! inputs are in other files than those it was computed from, when somebody
//! else replaced the values meanwhile, or when the column is computed by something
//! else now; Lance itself would accept the last three.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use lance::Dataset;
use lance::dataset::CommitBuilder;
use lance::dataset::transaction::{DataReplacementGroup, Operation, TransactionBuilder};
use lance_table::format::{DataFile, Fragment};

use super::signature::{Signature, Signer};
use super::{StorageError, durable, nested};
use crate::failpoint::reach;

/// Transaction property of every value commit: the job that made it.
pub const JOB_ID: &str = "lancegate.job_id";
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
    /// Positions of the replacements whose file is visible.
    pub visible: Vec<usize>,
    /// Positions of those whose file no longer fits.
    pub rejected: Vec<usize>,
    /// Whether a commit was made (none is when everything was there or rejected).
    pub committed: bool,
}

/// Says whether a column has at a later version the definition that it had.
pub type StillDefined<'a> = dyn Fn(&Dataset) -> Result<bool, StorageError> + Send + Sync + 'a;

/// Publishes the files that still fit, in one data-replacement commit.
///
/// Idempotent: a file that the newest version references already counts as
/// published, so a caller that does not know whether its commit arrived asks again.
/// The files must be durable already; of several for one fragment the first that
/// fits is taken. `still_defined` says whether files that were computed at
/// `dataset` are what the column holds by its definition at a later version.
///
/// # Errors
/// [`StorageError::Conflict`] after too many lost races,
/// [`StorageError::NoColumn`] if the column was dropped,
/// [`StorageError::NotFound`] if another table is in its place, storage errors.
pub async fn publish(
    dataset: &Dataset,
    output_ids: &[i32],
    input_ids: &[i32],
    replacements: &[Replacement],
    properties: &HashMap<String, String>,
    still_defined: &StillDefined<'_>,
) -> Result<Published, StorageError> {
    let mut latest = dataset.clone();
    let mut last = None;
    for attempt in 1..=ATTEMPTS_MAX {
        latest.checkout_latest().await?;
        let mut sorted = sort(dataset, &latest, output_ids, input_ids, replacements)?;
        if !sorted.fitting.is_empty() && !still_defined(&latest)? {
            sorted.rejected.append(&mut sorted.fitting);
        }
        reject_unreadable(&latest, replacements, &mut sorted).await?;
        if sorted.fitting.is_empty() {
            // A commit whose answer was lost has not been flushed yet.
            if !sorted.visible.is_empty() {
                durable::sync_path(&latest, &latest.manifest_location().path).await?;
            }
            let Sorted { visible, rejected, .. } = sorted;
            return Ok(Published { dataset: latest, visible, rejected, committed: false });
        }
        let fitting: Vec<&Replacement> = sorted.fitting.iter().map(|position| &replacements[*position]).collect();
        match commit(&latest, output_ids, &fitting, properties).await {
            Ok(committed) => {
                durable::sync_commit(&committed, Some(&latest)).await?;
                let mut visible = sorted.visible;
                visible.extend(sorted.fitting);
                return Ok(Published { dataset: committed, visible, rejected: sorted.rejected, committed: true });
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

/// Versions only grow: with an earlier one the table was made again in its place.
fn ensure_same_table(before: &Dataset, latest: &Dataset) -> Result<(), StorageError> {
    if latest.version_id() < before.version_id() {
        return Err(StorageError::NotFound { location: latest.uri().to_owned() });
    }
    Ok(())
}

/// Positions of replacements by what the newest version says of them.
#[derive(Default)]
struct Sorted {
    visible: Vec<usize>,
    fitting: Vec<usize>,
    rejected: Vec<usize>,
}

fn sort(
    computed_at: &Dataset,
    latest: &Dataset,
    output_ids: &[i32],
    input_ids: &[i32],
    replacements: &[Replacement],
) -> Result<Sorted, StorageError> {
    ensure_same_table(computed_at, latest)?;
    if let Some(gone) = output_ids.iter().find(|id| latest.schema().field_by_id(**id).is_none()) {
        return Err(StorageError::NoColumn { column: format!("field {gone}") });
    }
    let physical: HashMap<u64, Option<usize>> =
        computed_at.iter_fragments().map(|fragment| (fragment.id, fragment.physical_rows)).collect();
    // Overwriting a table numbers its fragments anew. An expression without inputs
    // has no signature that would tell.
    let same_rows = |fragment: &Fragment| {
        physical.get(&fragment.id).is_none_or(|rows| rows.is_none() || *rows == fragment.physical_rows)
    };
    let fragments: HashMap<u64, &Fragment> = latest.iter_fragments().map(|fragment| (fragment.id, fragment)).collect();
    let (inputs, output) = (Signer::new(latest, input_ids), Signer::new(latest, output_ids));
    let mut sorted = Sorted::default();
    for (position, replacement) in replacements.iter().enumerate() {
        let Some(fragment) = fragments.get(&replacement.fragment_id) else {
            sorted.rejected.push(position);
            continue;
        };
        if is_visible(fragment, &replacement.file) {
            sorted.visible.push(position);
        } else if same_rows(fragment)
            && inputs.sign(fragment) == replacement.inputs
            && output.sign(fragment) == replacement.replaces
        {
            sorted.fitting.push(position);
        } else {
            sorted.rejected.push(position);
        }
    }
    Ok(sorted)
}

/// Returns whether a fragment references a file.
pub fn is_visible(fragment: &Fragment, file: &DataFile) -> bool {
    fragment.files.iter().any(|known| known.path == file.path)
}

/// Lance commits a reference to a file that is not there, and then nobody can
/// read the table any more; so look first. It would also take two files for
/// one fragment.
async fn reject_unreadable(
    dataset: &Dataset,
    replacements: &[Replacement],
    sorted: &mut Sorted,
) -> Result<(), StorageError> {
    let mut fragments = HashSet::new();
    for position in std::mem::take(&mut sorted.fitting) {
        let replacement = &replacements[position];
        if !fragments.contains(&replacement.fragment_id) && is_intact(dataset, &replacement.file).await? {
            fragments.insert(replacement.fragment_id);
            sorted.fitting.push(position);
        } else {
            sorted.rejected.push(position);
        }
    }
    Ok(())
}

/// Returns whether a file that a commit is to reference is there, in full length.
///
/// # Errors
/// If the storage cannot be asked.
pub async fn is_intact(dataset: &Dataset, file: &DataFile) -> Result<bool, StorageError> {
    let store = dataset.object_store(None).await?;
    let size = match store.size(&dataset.data_dir().join(file.path.as_str())).await {
        Ok(size) => size,
        Err(error) if error.is_not_found() => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let expected = file.file_size_bytes.get().map(u64::from);
    Ok(expected.is_none_or(|expected| expected == size))
}

async fn commit(
    latest: &Dataset,
    output_ids: &[i32],
    replacements: &[&Replacement],
    properties: &HashMap<String, String>,
) -> lance::Result<Dataset> {
    let files = replacements.iter().map(|replacement| (replacement.fragment_id, &replacement.file));
    let operation = match output_ids {
        [inside] if nested::is_nested(latest.schema(), *inside) => nested::rewrite(latest, *inside, files),
        _ => {
            let replacements = files.map(|(id, file)| DataReplacementGroup(id, file.clone())).collect();
            Operation::DataReplacement { replacements }
        }
    };
    // The commit builder's own setter does not reach a transaction that is given.
    let transaction = TransactionBuilder::new(latest.version_id(), operation)
        .transaction_properties(Some(Arc::new(properties.clone())))
        .build();
    let committed = CommitBuilder::new(Arc::new(latest.clone())).execute(transaction).await?;
    // As if the answer of a commit that was made had been lost.
    reach("publish.committed").await.map_err(|error| lance::Error::io(error.to_string()))?;
    Ok(committed)
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

/// Sets metadata keys of one field: a commit without data. `still_defined` as in
/// [`publish`]: what is said of one definition is not written to another.
///
/// # Errors
/// [`StorageError::NoColumn`] if the field is gone, [`StorageError::NotFound`] if
/// another table is in its place, [`StorageError::Conflict`] if the field is
/// computed by something else now and after too many lost races, storage errors.
pub async fn set_field_metadata(
    dataset: &Dataset,
    field_id: i32,
    entries: &[(&str, String)],
    still_defined: &StillDefined<'_>,
) -> Result<Dataset, StorageError> {
    let mut latest = dataset.clone();
    for attempt in 1..=ATTEMPTS_MAX {
        latest.checkout_latest().await?;
        ensure_same_table(dataset, &latest)?;
        if latest.schema().field_by_id(field_id).is_none() {
            return Err(StorageError::NoColumn { column: format!("field {field_id}") });
        }
        if !still_defined(&latest)? {
            return Err(StorageError::Conflict("the column is computed by something else now".to_owned()));
        }
        let before = latest.clone();
        let update = latest
            .update_field_metadata()
            .update(field_id, entries.iter().map(|(key, value)| (*key, value.as_str())))?;
        match update.await {
            Ok(_) => {
                reach("record.committed").await?;
                // It references no file that the version before did not.
                durable::sync_path(&latest, &latest.manifest_location().path).await?;
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
