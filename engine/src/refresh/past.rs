//! The recorded version of a table, to prove rows current that have moved since.
//!
//! With stable row ids a row can be found wherever an UPDATE or a compaction
//! has put it. Only fragments that lost rows since the recorded version, or that
//! are themselves in question, can hold such a row, so only their row ids are
//! looked at: the cost follows what moved, not the number of fragments.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::compute::{SortOptions, concat_batches};
use futures::{StreamExt, TryStreamExt};
use lance::Dataset;
use lance::dataset::fragment::{FileFragment, FragReadConfig};
use lance::dataset::refs::Ref;
use lance::dataset::rowids::load_row_id_sequence;
use lance::dataset::{ProjectionRequest, TakeBuilder};
use lance_core::datatypes::Schema;
use lance_io::scheduler::{ScanScheduler, SchedulerConfig};
use lance_table::format::Fragment;
use lance_table::rowids::RowIdSequence;
use lance_table::rowids::segment::U64Segment;
use roaring::RoaringBitmap;
use tokio_util::task::AbortOnDropHandle;

use super::output;
use super::provenance::{FragmentProvenance, Provenance};
use super::snapshot::{Snapshot, deleted_rows};
use crate::storage::StorageError;

/// Rows compared at once: bounds memory, whatever moved.
const COMPARE_ROWS_MAX: usize = 8_192;
/// Chunks of rows compared at once.
const COMPARE_CHUNKS: usize = 2;
/// Fragments whose rows one task takes, and how many of them at once.
const TAKE_FRAGMENTS: usize = 64;
const TAKE_FRAGMENTS_AT_ONCE: usize = 8;
/// Such tasks at once.
const TAKE_TASKS: usize = 4;
/// Row-id sequences loaded at once.
const SEQUENCES: usize = 16;
/// Where one id of this many is wanted, all are walked instead of searched for.
const SPARSE: usize = 64;

/// See the module documentation.
pub(super) struct Past<'a> {
    snapshot: Snapshot,
    /// Recorded fragments whose files at that version are indeed the recorded ones.
    believed: HashMap<u64, &'a FragmentProvenance>,
    /// Row ids of the fragments that may hold a moved row, newest fragment first:
    /// an update leaves the old copy of a row in an older fragment.
    sequences: Vec<(u64, Arc<RowIdSequence>)>,
}

/// A live row of a fragment in question.
#[derive(Debug, Clone, Copy)]
struct Row {
    id: u64,
    /// Where it is now, as Lance addresses rows.
    here: u64,
    /// Where it was.
    there: Option<u64>,
}

impl<'a> Past<'a> {
    /// Opens the recorded version; `None` if nothing can be proven from it.
    ///
    /// # Errors
    /// What reading row ids reports. A version that is gone is not an error.
    pub(super) async fn open(
        now: &Snapshot,
        record: &'a Provenance,
        moved: &HashSet<u64>,
    ) -> Result<Option<Self>, StorageError> {
        if !now.dataset.manifest().uses_stable_row_ids() || !comparable(now) {
            return Ok(None);
        }
        let version = Ref::Version(record.branch.clone(), Some(record.version));
        let Ok(dataset) = now.dataset.checkout_version(version).await else {
            tracing::info!(version = record.version, "the recorded version is gone; moved rows are recomputed");
            return Ok(None);
        };
        let Ok(snapshot) = now.at(Arc::new(dataset)) else { return Ok(None) };
        if field_ids(&snapshot) != field_ids(now) {
            return Ok(None);
        }
        let believed = believed(&snapshot, record);
        let sequences = sequences(now, &snapshot.dataset, moved).await?;
        Ok(Some(Self { snapshot, believed, sequences }))
    }

    /// Returns, per fragment of `fragment_ids` that has any, the offsets of the
    /// rows that are proven current: current then, with the same inputs and the
    /// same value now.
    ///
    /// # Errors
    /// What reading the rows reports.
    pub(super) async fn proven(
        &self,
        now: &Snapshot,
        fragment_ids: &[u64],
    ) -> Result<HashMap<u64, RoaringBitmap>, StorageError> {
        let mut rows = self.candidates(now, fragment_ids).await?;
        // In the order in which they were stored, so that a chunk reads few files.
        rows.sort_unstable_by_key(|row| row.there);
        let chunks: Vec<Vec<Row>> = rows.chunks(COMPARE_ROWS_MAX).map(<[Row]>::to_vec).collect();
        let unchanged: Vec<Vec<u64>> = futures::stream::iter(chunks)
            .map(|chunk| self.unchanged(now, chunk))
            .buffer_unordered(COMPARE_CHUNKS)
            .try_collect()
            .await?;
        let mut proven: HashMap<u64, RoaringBitmap> = HashMap::new();
        for address in unchanged.into_iter().flatten() {
            proven.entry(address >> 32).or_default().insert(offset(address));
        }
        Ok(proven)
    }

    /// Returns, per fragment, the offsets of the rows that held a current value then, whatever became of it.
    ///
    /// # Errors
    /// What reading row ids reports.
    pub(super) async fn assigned(
        &self,
        now: &Snapshot,
        fragment_ids: &[u64],
    ) -> Result<HashMap<u64, RoaringBitmap>, StorageError> {
        let mut assigned: HashMap<u64, RoaringBitmap> = HashMap::new();
        for row in self.candidates(now, fragment_ids).await? {
            assigned.entry(row.here >> 32).or_default().insert(offset(row.here));
        }
        Ok(assigned)
    }

    /// Whether the row at this address held a current value then.
    fn was_current(&self, address: u64) -> bool {
        self.believed.get(&(address >> 32)).is_some_and(|known| !known.not_current.contains(offset(address)))
    }

    /// Live rows that were current then. Reads row-id metadata only.
    async fn candidates(&self, now: &Snapshot, fragment_ids: &[u64]) -> Result<Vec<Row>, StorageError> {
        let first_new = self.snapshot.dataset.manifest().next_row_id;
        let mut rows = Vec::new();
        for id in fragment_ids {
            let number = usize::try_from(*id).expect("Lance fragment ids fit 32 bits");
            let fragment = now.dataset.get_fragment(number).expect("the id was read off this manifest");
            let ids = load_row_id_sequence(&now.dataset, fragment.metadata()).await?;
            if ids.row_id_range().is_none_or(|range| *range.start() >= first_new) {
                continue;
            }
            let deleted = deleted_rows(&fragment).await?;
            let live = (0u32..).zip(ids.iter()).filter(|(row, id)| *id < first_new && !deleted.contains(*row));
            rows.extend(live.map(|(row, row_id)| Row { id: row_id, here: id << 32 | u64::from(row), there: None }));
        }
        rows.sort_unstable_by_key(|row| row.id);
        for (fragment_id, sequence) in &self.sequences {
            find(*fragment_id, sequence, &mut rows);
        }
        rows.retain(|row| row.there.is_some_and(|address| self.was_current(address)));
        Ok(rows)
    }

    /// Addresses of the rows whose inputs and value are what they were. Inputs are
    /// compared first: the values of rows that are due anyway are not read.
    async fn unchanged(&self, now: &Snapshot, rows: Vec<Row>) -> Result<Vec<u64>, StorageError> {
        let inputs = (now.read_schema(false), self.snapshot.read_schema(false));
        let rows = self.equal(now, rows, inputs).await?;
        let output = (now.output_schema(), self.snapshot.output_schema());
        let rows = self.equal(now, rows, output).await?;
        Ok(rows.into_iter().map(|row| row.here).collect())
    }

    /// Keeps the rows that hold the same in these columns, `(now, then)`.
    async fn equal(&self, now: &Snapshot, rows: Vec<Row>, columns: (Schema, Schema)) -> Result<Vec<Row>, StorageError> {
        if rows.is_empty() || columns.0.fields.is_empty() {
            return Ok(rows);
        }
        let here = take(now, columns.0, rows.iter().map(|row| row.here)).await?;
        let there: Vec<u64> = rows.iter().filter_map(|row| row.there).collect();
        let there = take_in_order(&self.snapshot, columns.1, &there).await?;
        if here.num_rows() != rows.len() || there.num_rows() != rows.len() {
            let (here, there) = (here.num_rows(), there.num_rows());
            let what = format!("took {here} and {there} of {} rows by address", rows.len());
            return Err(StorageError::Lance(lance::Error::internal(what)));
        }
        let mut equal = vec![true; rows.len()];
        for (now, then) in here.columns().iter().zip(there.columns()) {
            mark_different(now, then, &mut equal);
        }
        Ok(rows.into_iter().zip(equal).filter_map(|(row, equal)| equal.then_some(row)).collect())
    }
}

fn offset(address: u64) -> u32 {
    u32::try_from(address & u64::from(u32::MAX)).expect("masked to 32 bits")
}

/// A blob is read as a descriptor, and equal descriptors may name other bytes.
fn comparable(snapshot: &Snapshot) -> bool {
    !snapshot.read_schema(true).fields_pre_order().any(|field| field.is_blob())
}

fn field_ids(snapshot: &Snapshot) -> Vec<i32> {
    snapshot.read_schema(true).fields_pre_order().map(|field| field.id).collect()
}

fn believed<'a>(snapshot: &Snapshot, record: &'a Provenance) -> HashMap<u64, &'a FragmentProvenance> {
    let (inputs, output) = (snapshot.input_signer(), snapshot.output_signer());
    let known = |fragment: &Fragment| {
        let known = record.fragments.get(&fragment.id)?;
        let same = known.inputs == inputs.sign(fragment) && known.output == output.sign(fragment);
        same.then_some((fragment.id, known))
    };
    snapshot.dataset.iter_fragments().filter_map(known).collect()
}

/// Loads the row ids of the earlier fragments that are gone, that lost rows, or
/// that are in question now.
async fn sequences(
    now: &Snapshot,
    past: &Dataset,
    moved: &HashSet<u64>,
) -> Result<Vec<(u64, Arc<RowIdSequence>)>, StorageError> {
    let here: HashMap<u64, &Fragment> = now.dataset.iter_fragments().map(|fragment| (fragment.id, fragment)).collect();
    let lost_rows = |fragment: &&Fragment| match here.get(&fragment.id) {
        Some(kept) => moved.contains(&fragment.id) || kept.deletion_file != fragment.deletion_file,
        None => true,
    };
    let mut fragments: Vec<Fragment> = past.iter_fragments().filter(lost_rows).cloned().collect();
    fragments.sort_unstable_by_key(|fragment| std::cmp::Reverse(fragment.id));
    let load = |fragment: Fragment| async move {
        let sequence = load_row_id_sequence(past, &fragment).await?;
        Ok::<_, StorageError>((fragment.id, sequence))
    };
    futures::stream::iter(fragments).map(load).buffered(SEQUENCES).try_collect().await
}

/// Notes for each row that has no place yet where it is in one fragment. `rows`
/// are in the order of their ids.
fn find(fragment_id: u64, sequence: &RowIdSequence, rows: &mut [Row]) {
    let mut base = 0u64;
    for segment in sequence.segments() {
        if let Some(range) = segment.range() {
            let first = rows.partition_point(|row| row.id < *range.start());
            let end = rows.partition_point(|row| row.id <= *range.end());
            find_in_segment(segment, &mut rows[first..end], |position| fragment_id << 32 | (base + position as u64));
        }
        base += segment.len() as u64;
    }
}

fn find_in_segment(segment: &U64Segment, rows: &mut [Row], address: impl Fn(usize) -> u64) {
    let ordered = !matches!(segment, U64Segment::Array(_));
    if matches!(segment, U64Segment::Range(_)) || (ordered && rows.len() < segment.len() / SPARSE) {
        for row in rows.iter_mut().filter(|row| row.there.is_none()) {
            row.there = segment.position(row.id).map(&address);
        }
    } else if !rows.is_empty() {
        for (position, id) in segment.iter().enumerate() {
            if let Ok(found) = rows.binary_search_by_key(&id, |row| row.id) {
                rows[found].there.get_or_insert_with(|| address(position));
            }
        }
    }
}

/// Reads columns at physical addresses. Deletions are not looked at: the rows are
/// live now, and where they were they are still stored.
async fn take(
    snapshot: &Snapshot,
    columns: Schema,
    addresses: impl Iterator<Item = u64>,
) -> Result<RecordBatch, StorageError> {
    let dataset = Arc::clone(&snapshot.dataset);
    let projection = ProjectionRequest::from_schema(columns);
    let plan = Arc::new(projection.into_projection_plan(Arc::clone(&dataset))?);
    let take = TakeBuilder::try_new_from_addresses(dataset, addresses.collect(), plan)?;
    let rows = take.with_ignore_deletions(true).execute().await?;
    output::without_metadata(&rows).map_err(|error| StorageError::Lance(error.into()))
}

/// As [`take`], of ascending addresses, a few in each of many fragments: opening
/// their files is most of the work, so it is shared out to several tasks. One I/O
/// queue, which needs no task of its own, serves all; Lance's own take makes one
/// for each file.
async fn take_in_order(snapshot: &Snapshot, columns: Schema, addresses: &[u64]) -> Result<RecordBatch, StorageError> {
    let store = snapshot.dataset.object_store(None).await?;
    let queue = ScanScheduler::new(Arc::clone(&store), SchedulerConfig::max_bandwidth(&store).with_lite_scheduler());
    let config = FragReadConfig::default().with_ignore_deletions(true).with_scan_scheduler(queue);
    let schema = Arc::new(arrow::datatypes::Schema::from(&columns));
    let columns = Arc::new(columns);
    let fragments = addresses.chunk_by(|one, next| one >> 32 == next >> 32);
    let reads = fragments.map(|rows| {
        let number = usize::try_from(rows[0] >> 32).expect("Lance fragment ids fit 32 bits");
        let fragment = snapshot.dataset.get_fragment(number).expect("its rows were found in this version");
        let offsets: Vec<u32> = rows.iter().map(|address| offset(*address)).collect();
        (fragment, offsets)
    });
    let reads: Vec<(FileFragment, Vec<u32>)> = reads.collect();
    let batches: Vec<Vec<RecordBatch>> = futures::stream::iter(reads.chunks(TAKE_FRAGMENTS).map(<[_]>::to_vec))
        .map(|reads| {
            let (columns, config) = (Arc::clone(&columns), config.clone());
            let read = async move {
                let read = |(fragment, offsets): (FileFragment, Vec<u32>)| {
                    let (columns, config) = (Arc::clone(&columns), config.clone());
                    async move { fragment.open(&columns, config).await?.take_as_batch(&offsets, None).await }
                };
                futures::stream::iter(reads).map(read).buffered(TAKE_FRAGMENTS_AT_ONCE).try_collect().await
            };
            AbortOnDropHandle::new(tokio::spawn(read))
        })
        .buffered(TAKE_TASKS)
        .map(|ended| ended.unwrap_or_else(|error| Err(lance::Error::internal(error.to_string()))))
        .try_collect()
        .await?;
    let rows = concat_batches(&schema, batches.iter().flatten()).map_err(lance::Error::from)?;
    output::without_metadata(&rows).map_err(|error| StorageError::Lance(error.into()))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn places(sequence: &[u64], wanted: &[u64]) -> Vec<Option<u64>> {
        let sequence = RowIdSequence::try_from_iter(sequence.iter().copied()).unwrap();
        let mut rows: Vec<Row> = wanted.iter().map(|id| Row { id: *id, here: 0, there: None }).collect();
        find(3, &sequence, &mut rows);
        rows.iter().map(|row| row.there.map(|address| address - (3 << 32))).collect()
    }

    #[test]
    fn a_row_is_found_in_every_kind_of_row_id_sequence() {
        let range: Vec<u64> = (100..1_100).collect();
        assert_eq!(places(&range, &[99, 100, 1_099, 1_100]), [None, Some(0), Some(999), None]);
        let holes: Vec<u64> = (0..1_000).filter(|id| id % 97 != 0).collect();
        assert_eq!(places(&holes, &[1, 97, 98]), [Some(0), None, Some(96)]);
        let sparse: Vec<u64> = (0..1_000).map(|id| id * id * 1_000).collect();
        assert_eq!(places(&sparse, &[0, 1, 4_000]), [Some(0), None, Some(2)]);
        let unordered: Vec<u64> = (0..1_000).map(|id| id * 7_919 % 1_000).collect();
        assert_eq!(places(&unordered, &[7_919 % 1_000, 1_000]), [Some(1), None]);
    }

    #[test]
    fn the_newer_copy_of_a_row_is_the_one_that_counts() {
        let mut rows = [Row { id: 5, here: 0, there: None }];
        let sequence = RowIdSequence::try_from_iter(0..10).unwrap();
        find(9, &sequence, &mut rows);
        find(2, &sequence, &mut rows);
        assert_eq!(rows[0].there, Some(9 << 32 | 5));
    }
}
