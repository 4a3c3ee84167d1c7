//! How the rows of a computed column stand, counted; and what of it a refresh that nobody asks for would do.
//!
//! Every live row is exactly one of
//!
//! - *fresh*: it holds what its inputs give now, be that NULL;
//! - *failed*: not fresh, and the Function failed on it when it was computed last;
//! - *stale*: not fresh, and it was computed before: the last record says so, or it holds a value;
//! - *never computed*: everything else.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use futures::TryStreamExt;
use lance::Dataset;
use lance::index::DatasetIndexExt;
use lance_core::datatypes::format_field_path;
use lance_index::mem_wal::MEM_WAL_INDEX_NAME;
use lance_table::format::Fragment;
use roaring::RoaringBitmap;

use super::past::Past;
use super::plan;
use super::provenance::Provenance;
use super::snapshot::{Snapshot, deleted_rows};
use super::staleness;
use crate::storage::{StorageError, computed, nested};

/// The rows of a column that its Function failed on when they were computed last.
#[derive(Debug, Clone, Default)]
pub struct FailedRows {
    /// By fragment, their physical offsets.
    pub places: HashMap<u64, RoaringBitmap>,
    /// By place, the stable ids of those that have one.
    pub ids: HashMap<(u64, u32), u64>,
}

/// The four-way split; its numbers add up to `rows`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ColumnStatus {
    /// The table version.
    pub version: u64,
    /// Live rows.
    pub rows: u64,
    /// See the module documentation.
    pub fresh: u64,
    /// See the module documentation.
    pub stale: u64,
    /// See the module documentation.
    pub never_computed: u64,
    /// See the module documentation.
    pub failed: u64,
}

/// What a refresh would find to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// No row, or only such that failed and have not changed since.
    Nothing,
    /// Rows.
    Rows,
    /// Rows, but a computed column that it reads is to be refreshed first.
    InputsFirst,
}

/// Returns what tells this declaration of a column from an earlier or later one.
pub fn revision(snapshot: &Snapshot) -> String {
    match &snapshot.column.function {
        Some(call) => call.binding_id.clone(),
        None => snapshot.definition.0.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// Returns whether the table has writes that no version shows yet.
///
/// # Errors
/// What Lance reports.
pub async fn has_mem_wal(dataset: &Dataset) -> Result<bool, StorageError> {
    Ok(dataset.load_indices().await?.iter().any(|index| index.name == MEM_WAL_INDEX_NAME))
}

/// Returns what a refresh would find to do, from metadata alone unless rows have moved.
///
/// # Errors
/// What reading the table reports.
pub async fn work(snapshot: &Snapshot, failed: &FailedRows) -> Result<Work, StorageError> {
    let Open { not_current, .. } = Open::of(snapshot).await?;
    let none = RoaringBitmap::new();
    let due = |(id, rows): (&u64, &RoaringBitmap)| !rows.is_subset(failed.places.get(id).unwrap_or(&none));
    if !not_current.iter().any(due) {
        return Ok(Work::Nothing);
    }
    for input in plan::computed_inputs(snapshot)? {
        if !Open::of(&input).await?.not_current.is_empty() {
            return Ok(Work::InputsFirst);
        }
    }
    Ok(Work::Rows)
}

/// Counts the rows. Reads values of fragments in which rows are not current.
///
/// # Errors
/// What reading the table reports.
pub async fn status(snapshot: &Snapshot, failed: &FailedRows) -> Result<ColumnStatus, StorageError> {
    let Open { record, rows, not_current } = Open::of(snapshot).await?;
    let mut counted = ColumnStatus { version: snapshot.dataset.version_id(), rows, ..ColumnStatus::default() };
    counted.fresh = rows - not_current.values().map(RoaringBitmap::len).sum::<u64>();
    let moved = failed.moved(&snapshot.dataset).await?;
    let assigned = assigned(snapshot, record.as_ref(), &not_current).await?;
    for (id, mut open) in not_current {
        let mut of_failed = &open & failed.places.get(&id).unwrap_or(&RoaringBitmap::new());
        if !moved.is_empty() {
            let ids = snapshot.row_ids(id).await?;
            of_failed.extend(open.iter().filter(|row| ids.get(row).is_some_and(|id| moved.contains(id))));
        }
        counted.failed += of_failed.len();
        open -= of_failed;
        let mut before = assigned.get(&id).cloned().unwrap_or_default();
        before |= with_value(snapshot, id).await?;
        let stale = open.intersection_len(&before);
        counted.stale += stale;
        counted.never_computed += open.len() - stale;
    }
    Ok(counted)
}

impl FailedRows {
    /// Returns the ids of failed rows that are somewhere else now.
    async fn moved(&self, dataset: &Dataset) -> Result<HashSet<u64>, StorageError> {
        let mut live: HashMap<u64, RoaringBitmap> = HashMap::new();
        for fragment in dataset.get_fragments() {
            let id = fragment.id() as u64;
            if self.places.contains_key(&id) {
                live.insert(id, plan::live_rows(&fragment).await?);
            }
        }
        let here = |fragment: &u64, offset: u32| live.get(fragment).is_some_and(|live| live.contains(offset));
        let moved = self.ids.iter().filter(|((fragment, offset), _)| !here(fragment, *offset));
        Ok(moved.map(|(_, id)| *id).collect())
    }
}

/// The live rows that are not current.
struct Open {
    record: Option<Provenance>,
    rows: u64,
    /// By fragment; none is empty.
    not_current: BTreeMap<u64, RoaringBitmap>,
}

impl Open {
    async fn of(snapshot: &Snapshot) -> Result<Self, StorageError> {
        let record = Provenance::read(&snapshot.dataset, &snapshot.column).await;
        let current = staleness::resolve(snapshot, record.as_ref(), &BTreeMap::new()).await?;
        let (mut rows, mut not_current) = (0, BTreeMap::new());
        for fragment in snapshot.dataset.get_fragments() {
            let id = fragment.id() as u64;
            rows += fragment.count_rows(None).await? as u64;
            let open = match current.fragments.get(&id) {
                Some(known) if known.not_current.is_empty() => continue,
                Some(known) => known.not_current.clone() - deleted_rows(&fragment).await?,
                None => plan::live_rows(&fragment).await?,
            };
            if !open.is_empty() {
                not_current.insert(id, open);
            }
        }
        Ok(Self { record, rows, not_current })
    }
}

/// Returns the rows that were current by the record, by where they are now.
async fn assigned(
    snapshot: &Snapshot,
    record: Option<&Provenance>,
    not_current: &BTreeMap<u64, RoaringBitmap>,
) -> Result<HashMap<u64, RoaringBitmap>, StorageError> {
    let Some(record) = record.filter(|record| record.definition == snapshot.definition) else {
        return Ok(HashMap::new());
    };
    let ids: HashSet<u64> = not_current.keys().copied().collect();
    let Some(past) = Past::open(snapshot, record, &ids).await? else { return Ok(HashMap::new()) };
    past.assigned(snapshot, &ids.into_iter().collect::<Vec<_>>()).await
}

/// Returns the live rows of a fragment that hold a value.
async fn with_value(snapshot: &Snapshot, fragment_id: u64) -> Result<RoaringBitmap, StorageError> {
    let fragments: Vec<Fragment> =
        snapshot.dataset.iter_fragments().filter(|fragment| fragment.id == fragment_id).cloned().collect();
    let stored = |fragment: &Fragment| {
        let files = fragment.files.iter().chain(fragment.overlays.iter().map(|overlay| &overlay.data_file));
        files.flat_map(|file| file.fields.iter()).any(|id| snapshot.holds_output(*id))
    };
    if !fragments.iter().any(stored) {
        return Ok(RoaringBitmap::new());
    }
    let names = snapshot.output_names();
    let filled = names.iter().map(|name| {
        let parts = nested::parts(name);
        format!("{} IS NOT NULL", format_field_path(&parts.iter().map(String::as_str).collect::<Vec<_>>()))
    });
    let mut scanner = snapshot.dataset.scan();
    scanner.with_fragments(fragments).filter(&filled.collect::<Vec<_>>().join(" OR "))?;
    scanner.with_row_address().project::<&str>(&[])?;
    let mut batches = scanner.try_into_stream().await?;
    let mut rows = RoaringBitmap::new();
    while let Some(batch) = batches.try_next().await? {
        let addresses = batch.column_by_name("_rowaddr").expect("asked for by with_row_address");
        let addresses: &arrow::array::UInt64Array = arrow::array::AsArray::as_primitive(addresses.as_ref());
        rows.extend(addresses.values().iter().map(|address| (address & u64::from(u32::MAX)) as u32));
    }
    Ok(rows)
}

/// One computed column as schedulers and listings need it.
#[derive(Debug, Clone)]
pub struct Declared {
    /// The column, with those that are computed together with it, at the version that was looked at.
    pub snapshot: Snapshot,
    /// Field ids of the first columns of the bindings that it reads, directly or through others.
    pub inputs: Vec<i32>,
}

/// Returns the computed columns of a version in the order of declaration, those that a Function fills together once.
/// What cannot be understood here, and so not be refreshed, is left out.
///
/// # Errors
/// If the kind of one is not known: nothing can be said of the table then.
pub fn declared(dataset: &Arc<Dataset>) -> Result<Vec<Declared>, StorageError> {
    let mut found: Vec<Declared> = Vec::new();
    for column in computed::columns(dataset)? {
        if found.iter().any(|known| known.snapshot.output_ids.contains(&column.field_id)) {
            continue;
        }
        let Ok(snapshot) = Snapshot::of(Arc::clone(dataset), &column.name) else { continue };
        let Ok(read) = computed::read_by(dataset, &snapshot.column) else { continue };
        let first = |column| Some(computed::outputs(dataset, column).ok()?.first()?.field_id);
        let inputs: BTreeSet<i32> = read.iter().filter_map(first).collect();
        found.push(Declared { snapshot, inputs: inputs.into_iter().collect() });
    }
    found.sort_by_key(|declared| declared.snapshot.column.field_id);
    Ok(found)
}

/// Returns the names of the branches of a table.
///
/// # Errors
/// What Lance reports.
pub async fn branches(main: &Dataset) -> Result<Vec<String>, StorageError> {
    let mut names: Vec<String> = main.list_branches().await?.into_keys().collect();
    names.sort_unstable();
    Ok(names)
}
