//! Fragments that the open `lancedb` crate has computed since our last record.
//!
//! Its record ([`crate::storage::freshness`]) says where the inputs of a wholly
//! computed fragment were, but not which values it means, and a column that it
//! found without a record it takes on trust. So its word alone proves nothing.
//! A fragment is believed only if the history shows the computing: the version
//! that the record describes was made by a data replacement that wrote the very
//! file that holds the values now, and that replacement computed every row: the
//! fragment had no values before, or its own record then called them stale. The
//! rest is computed again.

use std::collections::{BTreeMap, HashMap, HashSet};

use lance::Dataset;
use lance::dataset::refs::Ref;
use lance::dataset::transaction::{DataReplacementGroup, Operation};
use lance_table::format::Fragment;

use super::provenance::FragmentProvenance;
use super::snapshot::Snapshot;
use crate::storage::commit::JOB_ID;
use crate::storage::freshness::{Freshness, FreshnessSigner, definition_version};

/// Refreshes by others that are followed back.
const REFRESHES_MAX: usize = 16;
/// Versions between two of them that are searched for compactions.
const VERSIONS_MAX: u64 = 64;

/// Fragments that are not decided yet: the signature of their inputs and the
/// file that holds their values, both as they are now.
type Undecided = HashMap<u64, (u64, String)>;

/// Returns the fragments among `moved` of which every row that was live then is
/// proven to have been computed by `lancedb` from the inputs that it has now.
pub(super) async fn proven(now: &Snapshot, moved: &BTreeMap<u64, FragmentProvenance>) -> HashSet<u64> {
    let mut proven = HashSet::new();
    let Some(mut record) = Freshness::read(&now.dataset, now.column.field_id).await else { return proven };
    let mut undecided = undecided(now, &record, moved);
    let definition = definition_version(&now.column.expression);
    let mut newest = now.dataset.version_id();
    for _ in 0..REFRESHES_MAX {
        let Some(version) = record.version.filter(|version| *version > 1 && *version <= newest) else { break };
        if undecided.is_empty() || record.definition.as_ref() != Some(&definition) {
            break;
        }
        let (Some(at), Some(before)) = (open(now, version).await, open(now, version - 1).await) else { break };
        let Some(earlier) = Freshness::read(&before, now.column.field_id).await else { break };
        if let Some(replaced) = replacement(&at).await {
            let compacted = compacted_between(&before, earlier.version).await;
            for DataReplacementGroup(id, file) in replaced {
                let Some((signature, path)) = undecided.remove(&id) else { continue };
                let whole = || whole(&before, now.column.field_id, id, signature, &earlier, &definition, compacted);
                if file.path == path && whole() {
                    proven.insert(id);
                }
            }
        }
        // Entries that the refresh took over from the record before it.
        undecided.retain(|id, (signature, _)| recorded(&earlier, *id) == Some(*signature));
        newest = version - 1;
        record = earlier;
    }
    proven
}

fn undecided(now: &Snapshot, record: &Freshness, moved: &BTreeMap<u64, FragmentProvenance>) -> Undecided {
    let Some(signer) = FreshnessSigner::of(&now.dataset, &now.column) else { return Undecided::new() };
    let candidates = now.dataset.iter_fragments().filter(|fragment| moved.contains_key(&fragment.id));
    let matching = candidates.filter_map(|fragment| {
        let signature = signer.sign(fragment)?;
        let path = only_file(fragment, now.column.field_id)?;
        (recorded(record, fragment.id) == Some(signature)).then_some((fragment.id, (signature, path)))
    });
    matching.collect()
}

fn recorded(record: &Freshness, fragment_id: u64) -> Option<u64> {
    record.signatures.get(&u32::try_from(fragment_id).ok()?).copied()
}

/// The file that holds a column's values, if it is one of the table's own and
/// nothing lies over it.
fn only_file(fragment: &Fragment, field_id: i32) -> Option<String> {
    let mut files = fragment.files.iter().filter(|file| file.fields.contains(&field_id));
    let file = files.next().filter(|file| file.base_id.is_none())?;
    let alone = files.next().is_none() && fragment.overlays.is_empty();
    alone.then(|| file.path.clone())
}

async fn open(now: &Snapshot, version: u64) -> Option<Dataset> {
    let branch = now.dataset.manifest().branch.clone();
    now.dataset.checkout_version(Ref::Version(branch, Some(version))).await.ok()
}

/// What the version's own commit replaced, unless the commit was ours: what we
/// computed is in our own record or counts as lost.
async fn replacement(at: &Dataset) -> Option<Vec<DataReplacementGroup>> {
    let transaction = at.read_transaction().await.ok()??;
    let ours = transaction.transaction_properties.as_ref().is_some_and(|properties| properties.contains_key(JOB_ID));
    match transaction.operation {
        Operation::DataReplacement { replacements } if !ours => Some(replacements),
        _ => None,
    }
}

/// Whether a compaction may have made fragments between a record and `before`:
/// `lancedb` takes their values over instead of computing them.
async fn compacted_between(before: &Dataset, recorded_at: Option<u64>) -> bool {
    let last = before.version_id();
    // A column that was only declared has no values to take over.
    let Some(first) = recorded_at else { return false };
    if last.saturating_sub(first) > VERSIONS_MAX {
        return true;
    }
    for version in first + 1..=last {
        match before.read_transaction_by_version(version).await {
            Ok(Some(transaction)) if !matches!(transaction.operation, Operation::Rewrite { .. }) => {}
            _ => return true,
        }
    }
    false
}

/// Whether a replacement at the version after `before` computed every row.
fn whole(
    before: &Dataset,
    field_id: i32,
    id: u64,
    signature: u64,
    earlier: &Freshness,
    definition: &String,
    compacted: bool,
) -> bool {
    let Some(fragment) = before.iter_fragments().find(|fragment| fragment.id == id) else { return false };
    let unfilled = !fragment.files.iter().any(|file| file.fields.contains(&field_id));
    let redefined = earlier.definition.as_ref().is_some_and(|earlier| earlier != definition);
    let stale = match recorded(earlier, id) {
        Some(recorded) => recorded != signature,
        None => !compacted,
    };
    unfilled || redefined || stale
}
