//! Which bytes a field's values come from in one fragment.
//!
//! A [`Signature`] is equal exactly when the same physical columns of the same
//! data files (and overlays) hold the field. It is read off the manifest, so
//! comparing a whole table costs no I/O. It names files by the location that
//! their base resolves to, not by the base's number, so that a branch or a
//! shallow clone signs an inherited file as its source does. Deletions are left
//! out: a deleted row is never computed, and the others keep their values.

use lance::Dataset;
use lance_core::datatypes::Field;
use lance_table::format::{DataFile, Fragment};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use xxhash_rust::xxh3::Xxh3;

/// A 128-bit digest (XXH3) of the files and physical columns behind some fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signature(pub u128);

/// JSON has no numbers of 128 bits; receipts hold 32 hexadecimal digits.
impl Serialize for Signature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(Self).map_err(serde::de::Error::custom)
    }
}

/// Signs fragments of one table version for one set of fields.
#[derive(Debug)]
pub struct Signer<'a> {
    dataset: &'a Dataset,
    /// Per signed field, its own id, then its ancestors': a packed struct is
    /// stored under an ancestor's id.
    fields: Vec<Vec<i32>>,
}

impl<'a> Signer<'a> {
    /// Returns a signer of the fields with these ids and all their children.
    pub fn new(dataset: &'a Dataset, field_ids: &[i32]) -> Self {
        let mut fields = Vec::new();
        for field in &dataset.schema().fields {
            collect(field, &[], false, field_ids, &mut fields);
        }
        fields.sort();
        Self { dataset, fields }
    }

    /// Returns the signature of one fragment of the signer's version.
    pub fn sign(&self, fragment: &Fragment) -> Signature {
        let mut hash = Xxh3::new();
        for ids in &self.fields {
            hash.update(&ids[0].to_le_bytes());
            for file in &fragment.files {
                self.update(&mut hash, b'f', file, ids);
            }
            for overlay in &fragment.overlays {
                if self.update(&mut hash, b'o', &overlay.data_file, ids) {
                    hash.update(&overlay.committed_version.to_le_bytes());
                }
            }
            hash.update(b";");
        }
        Signature(hash.digest128())
    }

    fn update(&self, hash: &mut Xxh3, kind: u8, file: &DataFile, ids: &[i32]) -> bool {
        let Some(position) = file.fields.iter().position(|id| ids.contains(id)) else { return false };
        let column = file.column_indices.get(position).copied().unwrap_or(-1);
        hash.update(&[kind]);
        hash.update(self.base(file.base_id).as_bytes());
        hash.update(b"|");
        hash.update(file.path.as_bytes());
        hash.update(b"|");
        hash.update(&column.to_le_bytes());
        true
    }

    fn base(&self, base_id: Option<u32>) -> &str {
        let path = match base_id {
            None => self.dataset.uri(),
            Some(id) => self.dataset.manifest().base_paths.get(&id).map_or("?", |base| base.path.as_str()),
        };
        let path = path.strip_prefix("file://").unwrap_or(path);
        path.trim_end_matches('/').trim_end_matches("/data")
    }
}

fn collect(field: &Field, ancestors: &[i32], inside: bool, wanted: &[i32], out: &mut Vec<Vec<i32>>) {
    let mut ids = vec![field.id];
    ids.extend_from_slice(ancestors);
    let inside = inside || wanted.contains(&field.id);
    for child in &field.children {
        collect(child, &ids, inside, wanted, out);
    }
    if inside {
        out.push(ids);
    }
}
