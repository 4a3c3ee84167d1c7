//! What a refresh has to compute at one version: per fragment, the physical
//! offsets of the rows. Planning writes nothing and starts nothing.

use std::collections::{BTreeMap, HashSet};

use futures::TryStreamExt;
use lance::dataset::fragment::FileFragment;
use roaring::RoaringBitmap;

use super::RefreshError;
use super::expression;
use super::provenance::Provenance;
use super::snapshot::{Snapshot, deleted_rows};
use super::staleness;
use crate::storage::StorageError;
use crate::storage::freshness::{FreshnessSigner, Signatures};

/// Rows of one fragment to compute.
#[derive(Debug, Clone)]
pub struct FragmentWork {
    /// Lance's fragment id.
    pub fragment_id: u64,
    /// Physical offsets, live rows only, never empty.
    pub rows: RoaringBitmap,
    /// Whether `rows` are all the live rows, so that no stored value is kept.
    pub whole: bool,
}

/// A plan at one snapshot.
#[derive(Debug, Clone)]
pub struct RefreshPlan {
    /// What is current before the refresh.
    pub current: Provenance,
    /// Fragments with work, in id order.
    pub work: Vec<FragmentWork>,
    /// All fragments of the version.
    pub fragments: usize,
    /// Whether `current` says more than the stored record did.
    pub carried: bool,
}

impl RefreshPlan {
    /// Returns the number of rows to compute.
    pub fn rows(&self) -> u64 {
        self.work.iter().map(|work| work.rows.len()).sum()
    }
}

/// Plans a refresh: without a predicate the rows that are not current, with one
/// every live row that matches it, current or not (RC-02, RC-05).
///
/// # Errors
/// [`RefreshError::InputNotRefreshed`] if a fragment with work holds a computed
/// input that is not current (RC-07, RC-08); what evaluating the predicate or
/// reading the table reports.
pub async fn plan(snapshot: &Snapshot, predicate: Option<&str>) -> Result<RefreshPlan, RefreshError> {
    let record = Provenance::read(&snapshot.dataset, &snapshot.column).await;
    plan_from(snapshot, predicate, record.as_ref(), &BTreeMap::new()).await
}

/// [`plan`] with a record and published fragments in hand.
///
/// # Errors
/// As [`plan`].
pub async fn plan_from(
    snapshot: &Snapshot,
    predicate: Option<&str>,
    record: Option<&Provenance>,
    published: &BTreeMap<u64, super::provenance::FragmentProvenance>,
) -> Result<RefreshPlan, RefreshError> {
    let current = staleness::resolve(snapshot, record, published).await?;
    let carried = record.is_none_or(|record| record.fragments != current.fragments) && !current.fragments.is_empty();
    let selected = match predicate {
        Some(text) => Some(matching_rows(snapshot, text).await?),
        None => None,
    };
    let mut work = Vec::new();
    for fragment in snapshot.dataset.get_fragments() {
        let id = fragment.id() as u64;
        let due = match &selected {
            Some(selected) => selected.get(&id).cloned().unwrap_or_default(),
            None => match current.fragments.get(&id) {
                Some(known) if known.not_current.is_empty() => continue,
                Some(known) => known.not_current.clone() - deleted_rows(&fragment).await?,
                None => live_rows(&fragment).await?,
            },
        };
        if due.is_empty() {
            continue;
        }
        let live = fragment.count_rows(None).await.map_err(StorageError::from)? as u64;
        work.push(FragmentWork { fragment_id: id, whole: due.len() == live, rows: due });
    }
    let plan = RefreshPlan { current, work, fragments: snapshot.dataset.count_fragments(), carried };
    ensure_inputs_refreshed(snapshot, &plan.work, selected.is_some()).await?;
    Ok(plan)
}

/// Counts live rows that hold no current value.
///
/// # Errors
/// What reading deletion files reports.
pub async fn rows_remaining(snapshot: &Snapshot, current: &Provenance) -> Result<u64, StorageError> {
    let mut remaining = 0;
    for fragment in snapshot.dataset.get_fragments() {
        remaining += rows_not_current(&fragment, current).await?;
    }
    Ok(remaining)
}

/// Returns what `lancedb` may be told: the signatures of the fragments that hold
/// a current value in every live row. `None` if nothing can be said in its terms.
///
/// # Errors
/// What reading deletion files reports.
pub(super) async fn wholly_current(
    snapshot: &Snapshot,
    current: &Provenance,
) -> Result<Option<Signatures>, StorageError> {
    let Some(signer) = FreshnessSigner::of(&snapshot.dataset, &snapshot.column) else { return Ok(None) };
    let mut signatures = Signatures::new();
    for fragment in snapshot.dataset.get_fragments() {
        if rows_not_current(&fragment, current).await? > 0 {
            continue;
        }
        if let (Ok(id), Some(signature)) = (u32::try_from(fragment.id()), signer.sign(fragment.metadata())) {
            signatures.insert(id, signature);
        }
    }
    Ok(Some(signatures))
}

async fn rows_not_current(fragment: &FileFragment, current: &Provenance) -> Result<u64, StorageError> {
    Ok(match current.fragments.get(&(fragment.id() as u64)) {
        Some(known) if known.not_current.is_empty() => 0,
        Some(known) => (known.not_current.clone() - deleted_rows(fragment).await?).len(),
        None => fragment.count_rows(None).await? as u64,
    })
}

pub(super) async fn live_rows(fragment: &FileFragment) -> Result<RoaringBitmap, StorageError> {
    let physical = u32::try_from(fragment.physical_rows().await?).expect("Lance row offsets fit 32 bits");
    let mut rows = RoaringBitmap::new();
    rows.insert_range(0..physical);
    Ok(rows - deleted_rows(fragment).await?)
}

async fn matching_rows(snapshot: &Snapshot, text: &str) -> Result<BTreeMap<u64, RoaringBitmap>, RefreshError> {
    let schema = arrow::datatypes::Schema::from(snapshot.dataset.schema());
    let predicate = expression::predicate(text, &schema).map_err(RefreshError::Predicate)?;
    let mut scanner = snapshot.dataset.scan();
    scanner.filter_expr(predicate).with_row_address().project::<&str>(&[]).map_err(StorageError::from)?;
    let mut batches = scanner.try_into_stream().await.map_err(StorageError::from)?;
    let mut rows: BTreeMap<u64, RoaringBitmap> = BTreeMap::new();
    while let Some(batch) = batches.try_next().await.map_err(RefreshError::evaluating)? {
        let addresses = batch.column_by_name("_rowaddr").expect("asked for by with_row_address");
        let addresses: &arrow::array::UInt64Array = arrow::array::AsArray::as_primitive(addresses.as_ref());
        for address in addresses.values() {
            let offset = u32::try_from(address & u64::from(u32::MAX)).expect("masked to 32 bits");
            rows.entry(address >> 32).or_default().insert(offset);
        }
    }
    Ok(rows)
}

/// A computed input must be current in every live row that is looked at: with a
/// predicate those of the fragments with work (RC-08), without one all, since a
/// row whose input is not current is itself to be computed (RC-07).
async fn ensure_inputs_refreshed(
    snapshot: &Snapshot,
    work: &[FragmentWork],
    filtered: bool,
) -> Result<(), RefreshError> {
    let looked_at: HashSet<u64> = work.iter().map(|work| work.fragment_id).collect();
    if filtered && looked_at.is_empty() {
        return Ok(());
    }
    for input in computed_inputs(snapshot)? {
        let record = Provenance::read(&input.dataset, &input.column).await;
        let current = staleness::resolve(&input, record.as_ref(), &BTreeMap::new()).await?;
        for fragment in input.dataset.get_fragments() {
            let id = fragment.id() as u64;
            if filtered && !looked_at.contains(&id) {
                continue;
            }
            let rows = rows_not_current(&fragment, &current).await?;
            if rows > 0 {
                return Err(RefreshError::InputNotRefreshed { input: input.column.name.clone(), rows, fragment: id });
            }
        }
    }
    Ok(())
}

/// Returns the computed columns that a column reads, the nearest last: the first
/// that is not current is the one to refresh first.
pub(super) fn computed_inputs(snapshot: &Snapshot) -> Result<Vec<Snapshot>, StorageError> {
    let read = crate::storage::computed::read_by(&snapshot.dataset, &snapshot.column)?;
    read.iter().map(|column| Snapshot::of(std::sync::Arc::clone(&snapshot.dataset), &column.name)).collect()
}
