//! The freshness record of the open `lancedb` crate, in its own format.
//!
//! That crate notes per fragment where a computed column's inputs were when
//! all of the fragment's values were computed, and computes a fragment again
//! whose inputs are elsewhere. Three field metadata keys:
//!
//! | key | value |
//! |---|---|
//! | `computed_refresh.source_signature` | `sidecar:<sha256>`, or the JSON map itself (`{}`: nothing is known) |
//! | `computed_refresh.definition_version` | first 8 bytes of the SHA-256 of the expression, in hexadecimal |
//! | `computed_refresh.recorded_at_version` | the table version that the map describes |
//!
//! The map is the file `_computed/<sha256>.sig` of the table's folder: `CSIG`,
//! format byte 1, number of entries u32, then fragment id u32 and signature u64
//! each, little-endian. A signature is the first 8 bytes of the SHA-256 of a text
//! that names, per input path, the files and physical columns that hold it.

use std::collections::BTreeMap;

use lance::Dataset;
use lance_core::datatypes::{Field, parse_field_path};
use lance_io::object_store::uri_to_url;
use lance_table::format::{BasePath, Fragment};
use object_store::path::Path;
use sha2::{Digest, Sha256};

use super::computed::{ComputedColumn, ComputedKind};
use super::{StorageError, durable};

/// The map, or where it is.
pub const SOURCE_SIGNATURE: &str = "computed_refresh.source_signature";
/// What the values were computed by.
pub const DEFINITION_VERSION: &str = "computed_refresh.definition_version";
/// The version that the map describes.
pub const RECORDED_AT_VERSION: &str = "computed_refresh.recorded_at_version";

const FOLDER: &str = "_computed";
const SIDECAR: &str = "sidecar:";
const MAGIC: &[u8; 4] = b"CSIG";
const FORMAT: u8 = 1;
const HEADER_BYTES: usize = 9;
const ENTRY_BYTES: usize = 12;

/// Signatures of the inputs of wholly current fragments, by fragment id.
pub type Signatures = BTreeMap<u32, u64>;

/// What a column's metadata says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freshness {
    /// Fragments whose values were computed from inputs with these signatures.
    pub signatures: Signatures,
    /// Digest of the definition; `None` before the first refresh.
    pub definition: Option<String>,
    /// The version that the map describes; `None` before the first refresh.
    pub version: Option<u64>,
}

impl Freshness {
    /// Reads what the newest refresh recorded for a field; `None` if there is no
    /// record, or none that can be read.
    pub async fn read(dataset: &Dataset, field_id: i32) -> Option<Self> {
        let metadata = &dataset.schema().field_by_id(field_id)?.metadata;
        let text = metadata.get(SOURCE_SIGNATURE)?;
        let signatures = match text.strip_prefix(SIDECAR) {
            Some(digest) => read_sidecar(dataset, digest).await?,
            None => {
                let map: BTreeMap<u32, String> = serde_json::from_str(text).ok()?;
                let parse = |(id, text): (u32, String)| Some((id, u64::from_str_radix(&text, 16).ok()?));
                map.into_iter().map(parse).collect::<Option<_>>()?
            }
        };
        let version = metadata.get(RECORDED_AT_VERSION).and_then(|text| text.parse().ok());
        Some(Self { signatures, definition: metadata.get(DEFINITION_VERSION).cloned(), version })
    }

    /// Writes a map durably and returns the metadata entries that record it as
    /// the state of `dataset`'s version.
    ///
    /// # Errors
    /// What the store reports.
    pub async fn write(
        dataset: &Dataset,
        column: &ComputedColumn,
        signatures: &Signatures,
    ) -> Result<[(&'static str, String); 3], StorageError> {
        let reference = if signatures.is_empty() {
            "{}".to_owned()
        } else {
            let bytes = encode(signatures);
            let digest = hex(&Sha256::digest(&bytes));
            let path = sidecar_path(dataset, &digest)?;
            dataset.object_store(None).await?.put(&path, &bytes).await?;
            durable::sync_path(dataset, &path).await?;
            format!("{SIDECAR}{digest}")
        };
        Ok([
            (SOURCE_SIGNATURE, reference),
            (DEFINITION_VERSION, definition_version(&column.expression)),
            (RECORDED_AT_VERSION, dataset.version_id().to_string()),
        ])
    }
}

/// Returns the digest under which `lancedb` knows an expression.
pub fn definition_version(expression: &str) -> String {
    short_hash(expression)
}

/// Signs fragments of one version as `lancedb` does.
#[derive(Debug)]
pub struct FreshnessSigner<'a> {
    dataset: &'a Dataset,
    own: String,
    /// Per field that an input covers, its path and its id, then its ancestors' ids.
    fields: BTreeMap<Vec<String>, Vec<i32>>,
}

impl<'a> FreshnessSigner<'a> {
    /// Returns `None` for a column whose declaration `lancedb` reads in another
    /// way than lancegate, so that nothing can be said in its terms: a column of
    /// another kind, double quotes (there a text, here a name), and a struct that
    /// is an input as a whole (there only the fields that the expression names).
    pub fn of(dataset: &'a Dataset, column: &ComputedColumn) -> Option<Self> {
        if column.kind != ComputedKind::Expression || column.expression.contains('"') {
            return None;
        }
        let mut fields = BTreeMap::new();
        for input in &column.inputs {
            // A top-level name may hold what a path would be quoted for.
            let parts = match dataset.schema().fields.iter().any(|field| field.name == *input) {
                true => vec![input.clone()],
                false => parse_field_path(input).ok()?,
            };
            let (root, below) = parts.split_first()?;
            let mut field = dataset.schema().fields.iter().find(|field| field.name == *root)?;
            if below.is_empty() && !field.children.is_empty() {
                return None;
            }
            let mut ancestors = Vec::new();
            for name in below {
                ancestors.insert(0, field.id);
                field = field.children.iter().find(|child| child.name == *name)?;
            }
            collect(field, parts, &ancestors, &mut fields);
        }
        let own = location(dataset.uri(), true)?;
        Some(Self { dataset, own, fields })
    }

    /// Returns a fragment's signature; `None` where an overlay holds an input.
    pub fn sign(&self, fragment: &Fragment) -> Option<u64> {
        let mut parts = Vec::with_capacity(self.fields.len());
        for (path, ids) in &self.fields {
            let stores = |fields: &[i32]| fields.iter().position(|id| ids.contains(id));
            if fragment.overlays.iter().any(|overlay| stores(&overlay.data_file.fields).is_some()) {
                return None;
            }
            let mut files = Vec::new();
            for file in &fragment.files {
                if let Some(position) = stores(&file.fields) {
                    let column = file.column_indices.get(position).copied().unwrap_or(-1);
                    files.push((self.base(file.base_id)?, file.path.clone(), column));
                }
            }
            parts.push(format!("{}=InputBasis {{ files: {files:?}, overlays: [] }}", path.join(".")));
        }
        u64::from_str_radix(&short_hash(&parts.join("|")), 16).ok()
    }

    fn base(&self, id: Option<u32>) -> Option<String> {
        match id {
            None => Some(self.own.clone()),
            Some(id) => {
                let base: &BasePath = self.dataset.manifest().base_paths.get(&id)?;
                location(&base.path, base.is_dataset_root)
            }
        }
    }
}

fn collect(field: &Field, path: Vec<String>, ancestors: &[i32], out: &mut BTreeMap<Vec<String>, Vec<i32>>) {
    let mut ids = vec![field.id];
    ids.extend_from_slice(ancestors);
    for child in &field.children {
        let mut below = path.clone();
        below.push(child.name.clone());
        collect(child, below, &ids, out);
    }
    out.insert(path, ids);
}

/// A folder as its store resolves it, without what selects a commit handler.
fn location(uri: &str, is_dataset_root: bool) -> Option<String> {
    let url = uri_to_url(uri).ok()?;
    let plain = url[..url::Position::BeforeQuery].trim_end_matches('/').to_owned();
    Some(if is_dataset_root { plain + "/data" } else { plain })
}

fn short_hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes())[..8])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sidecar_path(dataset: &Dataset, digest: &str) -> Result<Path, StorageError> {
    let root = dataset.branch_location().find_main()?.path;
    Ok(root.join(FOLDER).join(format!("{digest}.sig")))
}

async fn read_sidecar(dataset: &Dataset, digest: &str) -> Option<Signatures> {
    if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let path = sidecar_path(dataset, digest).ok()?;
    let store = dataset.object_store(None).await.ok()?;
    let bytes = store.read_one_all(&path).await.ok()?;
    if hex(&Sha256::digest(&bytes)) != digest {
        return None;
    }
    decode(&bytes)
}

fn encode(signatures: &Signatures) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + signatures.len() * ENTRY_BYTES);
    out.extend_from_slice(MAGIC);
    out.push(FORMAT);
    let count = u32::try_from(signatures.len()).expect("fragment ids are 32 bits and differ");
    out.extend_from_slice(&count.to_le_bytes());
    for (id, signature) in signatures {
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&signature.to_le_bytes());
    }
    out
}

fn decode(bytes: &[u8]) -> Option<Signatures> {
    let (header, body) = bytes.split_at_checked(HEADER_BYTES)?;
    let count = u32::from_le_bytes(header[5..].try_into().ok()?);
    if &header[..4] != MAGIC || header[4] != FORMAT || body.len() as u64 != u64::from(count) * ENTRY_BYTES as u64 {
        return None;
    }
    let entry = |entry: &[u8]| {
        let id = u32::from_le_bytes(entry[..4].try_into().ok()?);
        Some((id, u64::from_le_bytes(entry[4..].try_into().ok()?)))
    };
    body.chunks_exact(ENTRY_BYTES).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As version 0.40.0 of the Python package wrote it.
    #[test]
    fn an_expression_has_the_digest_that_lancedb_gives_it() {
        assert_eq!(definition_version("x * 2"), "b3eab8162c821f27");
        assert_eq!(definition_version("m.a + 1"), "6347c655f5ea8186");
    }

    #[test]
    fn a_map_reads_back_and_a_damaged_one_does_not() {
        let map = Signatures::from([(0, 2_480_431_067_146_044_201), (7, u64::MAX)]);
        let bytes = encode(&map);
        assert_eq!(bytes.len(), HEADER_BYTES + 2 * ENTRY_BYTES);
        assert_eq!(decode(&bytes), Some(map));
        assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(decode(b"CSIG\x02\0\0\0\0"), None);
        assert_eq!(decode(b"CSIG"), None);
    }
}
