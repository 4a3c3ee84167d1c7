//! What is told of a table apart from its rows.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use lance::Dataset;
use lance::index::DatasetIndexExt;

use super::{StorageError, nested, provider};

/// Keys of metadata that are of this software alone.
const OWN_KEYS: &str = "lancegate.";
/// LanceDB counts fragments below this as small.
const SMALL_FRAGMENT_ROWS: u64 = 100_000;

/// Returns the columns that users see, with what their metadata says, without
/// what is ours alone.
pub fn shown_schema(dataset: &Dataset) -> Schema {
    let visible = provider::visible_schema(dataset);
    let fields = visible.fields().iter().map(|field| {
        let field: &Field = field;
        field.clone().with_metadata(shown(field.metadata()))
    });
    Schema::new_with_metadata(fields.collect::<Vec<_>>(), shown(&dataset.schema().metadata))
}

fn shown(metadata: &HashMap<String, String>) -> HashMap<String, String> {
    let mut metadata = metadata.clone();
    metadata.retain(|key, _| !key.starts_with(OWN_KEYS));
    metadata
}

/// Returns what the metadata of a field says, without what is ours alone; `None` if there is no such field.
pub fn shown_metadata(dataset: &Dataset, path: &[String]) -> Option<HashMap<String, String>> {
    let path = nested::path_text(&path.iter().map(String::as_str).collect::<Vec<_>>());
    nested::field(dataset.schema(), &path).map(|field| shown(&field.metadata))
}

/// Returns a table as it was at a version; `None` if there is no such version.
///
/// # Errors
/// What the storage answers.
pub async fn at_version(dataset: &Arc<Dataset>, version: u64) -> Result<Option<Arc<Dataset>>, StorageError> {
    if dataset.version_id() == version {
        return Ok(Some(Arc::clone(dataset)));
    }
    match dataset.checkout_version(version).await {
        Ok(found) => Ok(Some(Arc::new(found))),
        Err(
            lance::Error::DatasetNotFound { .. } | lance::Error::NotFound { .. } | lance::Error::VersionNotFound { .. },
        ) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The size of a table and of its fragments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableStatistics {
    /// Bytes of the data files whose size is known.
    pub bytes: u64,
    /// Rows that are not deleted.
    pub rows: u64,
    /// Rows that are, and still take space.
    pub deleted_rows: u64,
    /// Indexes.
    pub indices: usize,
    /// Rows of each fragment, ascending.
    pub lengths: Vec<u64>,
}

impl TableStatistics {
    /// Returns the length that `percent` of the fragments do not exceed.
    pub fn length(&self, percent: usize) -> u64 {
        let last = self.lengths.len().max(1) - 1;
        self.lengths.get(last * percent / 100).copied().unwrap_or_default()
    }

    /// Returns how many fragments are small by LanceDB's measure.
    pub fn small_fragments(&self) -> usize {
        self.lengths.iter().filter(|length| **length < SMALL_FRAGMENT_ROWS).count()
    }
}

/// Returns the statistics of a version, from its manifest.
///
/// # Errors
/// What the storage answers.
pub async fn statistics(dataset: &Dataset) -> Result<TableStatistics, StorageError> {
    let mut found = TableStatistics { bytes: 0, rows: 0, deleted_rows: 0, indices: 0, lengths: Vec::new() };
    for fragment in dataset.iter_fragments() {
        let physical = fragment.physical_rows.unwrap_or_default() as u64;
        let deleted = fragment.deletion_file.as_ref().and_then(|file| file.num_deleted_rows).unwrap_or_default() as u64;
        let sizes = fragment.files.iter().filter_map(|file| file.file_size_bytes.get());
        found.bytes += sizes.map(NonZeroU64::get).sum::<u64>();
        found.deleted_rows += deleted;
        found.lengths.push(physical.saturating_sub(deleted));
    }
    found.rows = found.lengths.iter().sum();
    found.lengths.sort_unstable();
    found.indices = dataset.load_indices().await?.len();
    Ok(found)
}
