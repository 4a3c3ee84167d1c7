//! The record of what each computed value was computed from.
//!
//! A [`Provenance`] describes one computed column at one table version: for
//! every fragment that holds current values, which files its inputs and its
//! output were in, and which rows are *not* current. Assignment is therefore
//! separate from NULL: a row may be NULL and current, or hold a value and not be.
//!
//! The record is an immutable file `_lancegate/<sha256>.prov` in the table's
//! folder (shared by main and its branches), named by the field metadata key
//! [`PROVENANCE`](crate::storage::computed::PROVENANCE) in a second,
//! metadata-only commit (RC-09). It is tied to the very output files it was
//! made for: a value that anybody else wrote has another output signature, so a
//! lost, stale or damaged record costs recomputation and never a wrong value.
//!
//! Layout, little-endian: `LGPV`, format byte 1, definition (16 bytes), branch
//! (u16 length, UTF-8), version u64, fragment count u32, then per fragment its id
//! u64, input and output signature (u128 each), a byte 0 (all rows current) or 1
//! (u32 length and a Roaring bitmap of the offsets that are not), and at the end
//! the XXH3-128 of everything before.

use std::collections::BTreeMap;

use lance::Dataset;
use object_store::path::Path;
use roaring::RoaringBitmap;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_128;

use crate::storage::computed::ComputedColumn;
use crate::storage::signature::Signature;
use crate::storage::{StorageError, durable};

const MAGIC: &[u8; 4] = b"LGPV";
const FORMAT: u8 = 1;
/// Folder of the records in a table's own.
pub(super) const FOLDER: &str = "_lancegate";
/// How the name of a record ends.
pub(super) const SUFFIX: &str = ".prov";
/// A record larger than this is not ours; 100,000 fragments need about 4 MiB.
const RECORD_BYTES_MAX: u64 = 1 << 30;

/// First 16 bytes of the SHA-256 of everything that decides a column's values
/// besides its inputs' values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition(pub [u8; 16]);

/// See the module documentation.
#[derive(Debug, Clone, PartialEq)]
pub struct Provenance {
    /// What the values were computed by.
    pub definition: Definition,
    /// Branch of [`Self::version`]; `None` is main.
    pub branch: Option<String>,
    /// The table version that the signatures were read at.
    pub version: u64,
    /// By fragment id; a fragment that is missing holds no current row.
    pub fragments: BTreeMap<u64, FragmentProvenance>,
}

/// What is known of one fragment.
#[derive(Debug, Clone, PartialEq)]
pub struct FragmentProvenance {
    /// Where the inputs were.
    pub inputs: Signature,
    /// Where the values are.
    pub output: Signature,
    /// Physical offsets of rows that hold no current value.
    pub not_current: RoaringBitmap,
}

impl Definition {
    /// Returns the definition of an expression column: its text, its type, and
    /// the identity (not the name) of every input.
    pub fn of(column: &ComputedColumn, input_ids: &[i32]) -> Self {
        let mut hash = Sha256::new();
        hash.update(format!("{:?}\0{}\0{:?}\0", column.kind, column.expression, column.data_type));
        for id in input_ids {
            hash.update(id.to_le_bytes());
        }
        if let Some(call) = &column.function {
            hash.update(format!("{}\0{:?}", call.digest, call.arguments));
        }
        let mut short = [0; 16];
        short.copy_from_slice(&hash.finalize()[..16]);
        Self(short)
    }
}

impl Provenance {
    /// Returns the bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        let branch = self.branch.as_deref().unwrap_or_default();
        let mut out = Vec::with_capacity(64 + branch.len() + self.fragments.len() * 48);
        out.extend_from_slice(MAGIC);
        out.push(FORMAT);
        out.extend_from_slice(&self.definition.0);
        out.extend_from_slice(&u16::try_from(branch.len()).unwrap_or(u16::MAX).to_le_bytes());
        out.extend_from_slice(branch.as_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&u32::try_from(self.fragments.len()).unwrap_or(u32::MAX).to_le_bytes());
        for (id, fragment) in &self.fragments {
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&fragment.inputs.0.to_le_bytes());
            out.extend_from_slice(&fragment.output.0.to_le_bytes());
            encode_bitmap(&fragment.not_current, &mut out);
        }
        let digest = xxh3_128(&out);
        out.extend_from_slice(&digest.to_le_bytes());
        out
    }

    /// Reads a record; `None` if it is damaged or of another format.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, digest) = bytes.split_at_checked(bytes.len().checked_sub(16)?)?;
        if xxh3_128(body).to_le_bytes() != *digest {
            return None;
        }
        let mut input = Input(body);
        if input.take(4)? != MAGIC || input.take(1)? != [FORMAT] {
            return None;
        }
        let definition = Definition(input.take(16)?.try_into().ok()?);
        let branch_len = u16::from_le_bytes(input.array()?);
        let branch = std::str::from_utf8(input.take(branch_len.into())?).ok()?;
        let branch = (!branch.is_empty()).then(|| branch.to_owned());
        let version = u64::from_le_bytes(input.array()?);
        let count = u32::from_le_bytes(input.array()?);
        let mut fragments = BTreeMap::new();
        for _ in 0..count {
            let id = u64::from_le_bytes(input.array()?);
            let inputs = Signature(u128::from_le_bytes(input.array()?));
            let output = Signature(u128::from_le_bytes(input.array()?));
            let not_current = input.bitmap()?;
            fragments.insert(id, FragmentProvenance { inputs, output, not_current });
        }
        input.0.is_empty().then_some(Self { definition, branch, version, fragments })
    }

    /// Reads the record that the column's metadata names. Whatever is wrong
    /// with it, the answer is `None`: the rows are recomputed.
    pub async fn read(dataset: &Dataset, column: &ComputedColumn) -> Option<Self> {
        let digest = column.provenance.as_deref()?;
        match read_record(dataset, digest).await {
            Ok(Some(record)) => Some(record),
            Ok(None) => {
                tracing::warn!(column = column.name, digest, "provenance record is damaged; its rows are recomputed");
                None
            }
            Err(error) => {
                tracing::warn!(column = column.name, digest, %error, "provenance record is unreadable; its rows are recomputed");
                None
            }
        }
    }

    /// Writes the record durably and returns the digest that names it.
    ///
    /// # Errors
    /// What the store reports.
    pub async fn write(&self, dataset: &Dataset) -> Result<String, StorageError> {
        let bytes = self.encode();
        let digest = hex(&Sha256::digest(&bytes));
        let path = record_path(dataset, &digest)?;
        dataset.object_store(None).await?.put(&path, &bytes).await?;
        durable::sync_path(dataset, &path).await?;
        Ok(digest)
    }
}

async fn read_record(dataset: &Dataset, digest: &str) -> Result<Option<Provenance>, StorageError> {
    if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(None);
    }
    let path = record_path(dataset, digest)?;
    let store = dataset.object_store(None).await?;
    if store.size(&path).await? > RECORD_BYTES_MAX {
        return Ok(None);
    }
    let bytes = store.read_one_all(&path).await?;
    if hex(&Sha256::digest(&bytes)) != digest {
        return Ok(None);
    }
    Ok(Provenance::decode(&bytes))
}

fn record_path(dataset: &Dataset, digest: &str) -> Result<Path, StorageError> {
    let root = dataset.branch_location().find_main()?.path;
    Ok(root.join(FOLDER).join(format!("{digest}{SUFFIX}")))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn encode_bitmap(bitmap: &RoaringBitmap, out: &mut Vec<u8>) {
    if bitmap.is_empty() {
        out.push(0);
        return;
    }
    out.push(1);
    out.extend_from_slice(&u32::try_from(bitmap.serialized_size()).unwrap_or(u32::MAX).to_le_bytes());
    bitmap.serialize_into(out).expect("writing to memory does not fail");
}

/// What of the record is still to be read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn bitmap(&mut self) -> Option<RoaringBitmap> {
        match self.take(1)? {
            [0] => Some(RoaringBitmap::new()),
            [1] => {
                let len = u32::from_le_bytes(self.array()?);
                RoaringBitmap::deserialize_from(self.take(len as usize)?).ok()
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> impl Strategy<Value = Provenance> {
        let fragment = (any::<u128>(), any::<u128>(), proptest::collection::vec(0u32..100_000, 0..50)).prop_map(
            |(inputs, output, rows)| FragmentProvenance {
                inputs: Signature(inputs),
                output: Signature(output),
                not_current: rows.into_iter().collect(),
            },
        );
        let fragments = proptest::collection::btree_map(any::<u64>(), fragment, 0..20);
        (any::<[u8; 16]>(), proptest::option::of("[a-z]{1,10}"), any::<u64>(), fragments).prop_map(
            |(definition, branch, version, fragments)| Provenance {
                definition: Definition(definition),
                branch,
                version,
                fragments,
            },
        )
    }

    proptest! {
        #[test]
        fn a_record_reads_back_as_written(record in record()) {
            prop_assert_eq!(Provenance::decode(&record.encode()), Some(record));
        }

        #[test]
        fn a_damaged_record_is_never_believed(record in record(), at in any::<prop::sample::Index>(), flip in 1u8..) {
            let mut bytes = record.encode();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert_eq!(Provenance::decode(&bytes), None);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Provenance::decode(&bytes);
        }
    }
}
