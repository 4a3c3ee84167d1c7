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

use std::collections::{BTreeMap, HashSet};

use roaring::RoaringBitmap;

use super::foreign;
use super::past::Past;
use super::provenance::{FragmentProvenance, Provenance};
use super::snapshot::{Snapshot, deleted_rows};
use crate::storage::StorageError;

/// Rows looked up at once: bounds memory, whatever moved.
const LOOKUP_ROWS: usize = 1 << 20;

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
    let mut moved = BTreeMap::new();
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
            None => drop(moved.insert(fragment.id, signed)),
        }
    }
    if moved.is_empty() {
        return Ok(current);
    }
    for id in foreign::proven(now, &moved).await {
        let number = usize::try_from(id).expect("Lance fragment ids fit 32 bits");
        let fragment = now.dataset.get_fragment(number).expect("the id was read off this manifest");
        if let Some(signed) = moved.remove(&id) {
            // Whoever computed the others may have left deleted rows out.
            let not_current = deleted_rows(&fragment).await?;
            current.fragments.insert(id, FragmentProvenance { not_current, ..signed });
        }
    }
    let Some(record) = record.filter(|record| !record.fragments.is_empty() && !moved.is_empty()) else {
        return Ok(current);
    };
    carry(now, record, moved, &mut current).await?;
    Ok(current)
}

/// Proves rows of moved fragments current.
async fn carry(
    now: &Snapshot,
    record: &Provenance,
    moved: BTreeMap<u64, FragmentProvenance>,
    current: &mut Provenance,
) -> Result<(), StorageError> {
    let ids = moved.keys().copied().collect::<HashSet<_>>();
    let Some(past) = Past::open(now, record, &ids).await? else { return Ok(()) };
    let rows: BTreeMap<u64, usize> = now
        .dataset
        .iter_fragments()
        .filter(|fragment| ids.contains(&fragment.id))
        .map(|fragment| (fragment.id, fragment.physical_rows.unwrap_or_default()))
        .collect();
    let mut group = Vec::new();
    let mut grouped = 0;
    let last = rows.keys().next_back().copied();
    for (id, count) in &rows {
        group.push(*id);
        grouped += count;
        if grouped < LOOKUP_ROWS && Some(*id) != last {
            continue;
        }
        for (id, proven) in past.proven(now, &group).await? {
            // Deleted rows stay among those that are not current: the record
            // then speaks of stored rows, whichever of them a version shows.
            let physical = u32::try_from(rows[&id]).expect("Lance row offsets fit 32 bits");
            let mut not_current = RoaringBitmap::new();
            not_current.insert_range(0..physical);
            not_current -= proven;
            current.fragments.insert(id, FragmentProvenance { not_current, ..moved[&id].clone() });
        }
        group.clear();
        grouped = 0;
    }
    Ok(())
}
