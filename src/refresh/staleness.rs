//! Which rows of a table hold a current value of a computed column.
//!
//! The answer is a [`Provenance`] at the asked version. Most of it comes from
//! the manifest alone: a fragment whose inputs and output are still in the files
//! that the record names is as current as the record says. Only for the other
//! fragments are rows looked at: with stable row ids, a row that was current at
//! the recorded version, and whose inputs *and* value equal what they were
//! there, is still current wherever an UPDATE or a compaction moved it. So an
//! update of k rows followed by a compaction leaves k rows to compute, and an
//! update of another column none. What cannot be proven current is not: a lost
//! record, a cleaned-up version or a table without stable row ids cost
//! recomputation, never a wrong value.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::compute::SortOptions;
use futures::{StreamExt, TryStreamExt};
use lance::Dataset;
use lance::dataset::ProjectionRequest;
use lance::dataset::fragment::FileFragment;
use lance::dataset::refs::Ref;
use lance::dataset::rowids::{get_row_id_index, load_row_id_sequence};
use roaring::RoaringBitmap;

use super::provenance::{FragmentProvenance, Provenance};
use super::snapshot::{Snapshot, deleted_rows};
use crate::storage::StorageError;

/// Rows compared at once: bounds memory, whatever moved.
const COMPARE_ROWS_MAX: usize = 8_192;
/// Fragments compared at once.
const COMPARE_FRAGMENTS: usize = 2;

/// Returns what is current of `now`'s column, given an earlier record.
///
/// `published` holds fragments that the running job committed itself since the
/// record was made; where their signatures match, they win over the record.
///
/// # Errors
/// What reading moved rows reports. A recorded version that is gone is not one.
pub async fn resolve(
    now: &Snapshot,
    record: Option<&Provenance>,
    published: &BTreeMap<u64, FragmentProvenance>,
) -> Result<Provenance, StorageError> {
    let record = record.filter(|record| record.definition == now.definition);
    let mut current = Provenance {
        definition: now.definition,
        branch: now.dataset.manifest().branch.clone(),
        version: now.dataset.version_id(),
        fragments: BTreeMap::new(),
    };
    let (inputs, output) = (now.input_signer(), now.output_signer());
    let mut moved = Vec::new();
    for fragment in now.dataset.iter_fragments() {
        let signed = FragmentProvenance {
            inputs: inputs.sign(fragment),
            output: output.sign(fragment),
            not_current: RoaringBitmap::new(),
        };
        let known = |known: &&FragmentProvenance| known.inputs == signed.inputs && known.output == signed.output;
        let recorded = || record.and_then(|record| record.fragments.get(&fragment.id));
        match published.get(&fragment.id).filter(known).or_else(|| recorded().filter(known)) {
            Some(known) => drop(current.fragments.insert(fragment.id, known.clone())),
            None => moved.push((fragment.id, signed)),
        }
    }
    let Some(record) = record.filter(|record| !record.fragments.is_empty() && !moved.is_empty()) else {
        return Ok(current);
    };
    let Some(past) = Past::open(now, record).await? else { return Ok(current) };
    let carried: Vec<_> = futures::stream::iter(moved)
        .map(|(id, signed)| carry(now, &past, id, signed))
        .buffer_unordered(COMPARE_FRAGMENTS)
        .try_collect()
        .await?;
    current.fragments.extend(carried.into_iter().flatten());
    Ok(current)
}

/// The recorded version, opened to look up where rows were.
struct Past<'a> {
    record: &'a Provenance,
    snapshot: Snapshot,
    /// Recorded fragments whose files at that version are indeed the recorded ones.
    believed: HashMap<u64, &'a FragmentProvenance>,
}

impl<'a> Past<'a> {
    async fn open(now: &Snapshot, record: &'a Provenance) -> Result<Option<Self>, StorageError> {
        if !now.dataset.manifest().uses_stable_row_ids() {
            return Ok(None);
        }
        let version = Ref::Version(record.branch.clone(), Some(record.version));
        let Ok(dataset) = now.dataset.checkout_version(version).await else {
            tracing::info!(version = record.version, "the recorded version is gone; moved rows are recomputed");
            return Ok(None);
        };
        let Ok(snapshot) = now.at(Arc::new(dataset)) else { return Ok(None) };
        let (inputs, output) = (snapshot.input_signer(), snapshot.output_signer());
        let believed = snapshot
            .dataset
            .iter_fragments()
            .filter_map(|fragment| {
                let known = record.fragments.get(&fragment.id)?;
                (known.inputs == inputs.sign(fragment) && known.output == output.sign(fragment))
                    .then_some((fragment.id, known))
            })
            .collect();
        Ok(Some(Self { record, snapshot, believed }))
    }

    /// Whether the row at this address was current then.
    fn was_current(&self, address: u64) -> bool {
        let offset = u32::try_from(address & u64::from(u32::MAX)).expect("masked to 32 bits");
        self.believed.get(&(address >> 32)).is_some_and(|known| !known.not_current.contains(offset))
    }
}

/// Proves rows of one moved fragment current; `None` when there are none.
async fn carry(
    now: &Snapshot,
    past: &Past<'_>,
    fragment_id: u64,
    signed: FragmentProvenance,
) -> Result<Option<(u64, FragmentProvenance)>, StorageError> {
    let id = usize::try_from(fragment_id).expect("Lance fragment ids fit 32 bits");
    let fragment = now.dataset.get_fragment(id).expect("the id was read off this manifest");
    let candidates = candidates(now, past, &fragment).await?;
    let mut proven = RoaringBitmap::new();
    for chunk in candidates.chunks(COMPARE_ROWS_MAX) {
        proven |= unchanged(now, past, chunk).await?;
    }
    if proven.is_empty() {
        return Ok(None);
    }
    let physical_rows = u32::try_from(fragment.physical_rows().await?).expect("Lance row offsets fit 32 bits");
    let mut not_current = RoaringBitmap::from_iter(0..physical_rows);
    not_current -= proven;
    // Deleted rows need no value; leaving them out keeps the record small.
    not_current -= deleted_rows(&fragment).await?;
    Ok(Some((fragment_id, FragmentProvenance { not_current, ..signed })))
}

/// Live rows of a fragment that were current at the recorded version: their
/// offset here and their stable id. Reads row-id metadata only.
async fn candidates(now: &Snapshot, past: &Past<'_>, fragment: &FileFragment) -> Result<Vec<(u32, u64)>, StorageError> {
    let ids = load_row_id_sequence(&now.dataset, fragment.metadata()).await?;
    let first_new = past.snapshot.dataset.manifest().next_row_id;
    if ids.iter().all(|id| id >= first_new) {
        return Ok(Vec::new());
    }
    debug_assert_eq!(past.record.version, past.snapshot.dataset.version_id());
    let Some(index) = get_row_id_index(&past.snapshot.dataset).await? else { return Ok(Vec::new()) };
    let deleted = deleted_rows(fragment).await?;
    let mut candidates = Vec::new();
    for (offset, id) in (0u32..).zip(ids.iter()) {
        let old = id < first_new && !deleted.contains(offset);
        if old && index.get(id)?.is_some_and(|address| past.was_current(address.into())) {
            candidates.push((offset, id));
        }
    }
    Ok(candidates)
}

/// Offsets of the rows whose inputs and value are what they were.
async fn unchanged(now: &Snapshot, past: &Past<'_>, rows: &[(u32, u64)]) -> Result<RoaringBitmap, StorageError> {
    let ids: Vec<u64> = rows.iter().map(|(_, id)| *id).collect();
    let here = take(&now.dataset, now, &ids).await?;
    let there = take(&past.snapshot.dataset, &past.snapshot, &ids).await?;
    if here.num_rows() != rows.len() || there.num_rows() != rows.len() {
        return Err(StorageError::Lance(lance::Error::internal(format!(
            "took {} and {} of {} rows by id",
            here.num_rows(),
            there.num_rows(),
            rows.len()
        ))));
    }
    let mut equal = vec![true; rows.len()];
    for (now, then) in here.columns().iter().zip(there.columns()) {
        mark_different(now, then, &mut equal);
    }
    Ok(rows.iter().zip(equal).filter_map(|((offset, _), equal)| equal.then_some(*offset)).collect())
}

async fn take(dataset: &Dataset, snapshot: &Snapshot, ids: &[u64]) -> Result<RecordBatch, StorageError> {
    let projection = ProjectionRequest::from_schema(snapshot.read_schema(true));
    Ok(dataset.take_rows(ids, projection).await?)
}

/// Compares by total order, so NaN equals itself and -0 differs from 0.
fn mark_different(now: &dyn Array, then: &dyn Array, equal: &mut [bool]) {
    let comparator = (now.data_type() == then.data_type())
        .then(|| arrow::array::make_comparator(now, then, SortOptions::default()).ok())
        .flatten();
    let Some(comparator) = comparator else {
        // A type without an order, or another type: nothing can be proven.
        equal.fill(false);
        return;
    };
    for (row, equal) in equal.iter_mut().enumerate() {
        *equal = *equal && comparator(row, row).is_eq();
    }
}
