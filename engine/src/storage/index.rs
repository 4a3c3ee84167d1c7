//! Indexes of a table: which fit a column, building and committing one, and what
//! there is.
//!
//! An index is built at one version, which takes as long as the rows need and can be
//! given up at any moment, and is committed in one step after its files are flushed.
//! Lance lets other commits in between, as far as the index is still right then;
//! otherwise the commit is refused and the index is built again.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use chrono::{DateTime, Utc};
use lance::Dataset;
use lance::dataset::CommitBuilder;
use lance::dataset::transaction::{Operation, Transaction};
use lance::index::DatasetIndexExt;
use lance_core::datatypes::format_field_path;
use lance_index::is_system_index;
use lance_table::format::IndexMetadata;
use serde_json::Value;

use super::provider::hidden_columns;
use super::{StorageError, durable, nested};

mod spec;

pub use spec::{IndexSpec, METHODS, ScalarKind, SpecError, VectorKind, VectorSpec};

/// One index of a table.
#[derive(Debug, Clone)]
pub struct IndexRow {
    /// The name, unique within the table.
    pub name: String,
    /// The id of its first segment.
    pub uuid: String,
    /// The columns, as Lance paths.
    pub columns: Vec<String>,
    /// The kind as the client library spells it: `BTREE`, `IVF_PQ`, `FTS`, …
    pub index_type: String,
    /// Rows that the index covers.
    pub indexed_rows: u64,
    /// Rows that are found without it.
    pub unindexed_rows: u64,
    /// Segments.
    pub segments: usize,
    /// Bytes of all files, if they were noted.
    pub size_bytes: Option<u64>,
    /// When the oldest segment was made.
    pub created_at: Option<DateTime<Utc>>,
    /// Lance's number of the format.
    pub index_version: i32,
    /// Parameters, as JSON.
    pub details: Option<String>,
    /// The type of the parameters.
    pub type_url: String,
    /// How an index of vectors measures distance.
    pub distance_type: Option<String>,
}

/// What is built.
#[derive(Debug, Clone)]
pub struct Build {
    /// The column, as a Lance path.
    pub column: String,
    /// The name; Lance's own choice without it.
    pub name: Option<String>,
    /// Whether an index of the name is replaced.
    pub replace: bool,
    /// The kind; not [`IndexSpec::Auto`].
    pub spec: IndexSpec,
    /// Elements of a vector; 0 for other columns.
    pub width: usize,
    /// Memory for an index of words while it is built.
    pub memory_mib: u64,
}

/// An index whose files are there and that no version has yet.
#[derive(Debug)]
pub struct Built {
    dataset: Arc<Dataset>,
    index: IndexMetadata,
    replaces: Vec<IndexMetadata>,
}

/// A column that an index can be made on.
#[derive(Debug, Clone)]
pub struct Indexed {
    /// The path as Lance has it.
    pub path: String,
    /// The names that it consists of.
    pub names: Vec<String>,
    /// The field.
    pub field: Field,
    /// Elements of a vector; 0 for other columns.
    pub width: usize,
}

/// Finds the column of an index by its Lance path, in any case of letters; an index
/// of words may be on a text inside of lists.
///
/// # Errors
/// [`StorageError::NoColumn`].
pub fn column(dataset: &Dataset, path: &str, spec: &IndexSpec) -> Result<Indexed, StorageError> {
    let missing = || StorageError::NoColumn { column: path.to_owned() };
    let schema = dataset.schema();
    let names = nested::parts(path);
    let root = names.first().ok_or_else(missing)?;
    if hidden_columns(dataset).iter().any(|hidden| hidden.eq_ignore_ascii_case(root)) {
        return Err(missing());
    }
    if let Some(found) = schema.resolve_case_insensitive(path) {
        let names: Vec<String> = found.iter().map(|field| field.name.clone()).collect();
        let field = Field::from(*found.last().ok_or_else(missing)?);
        return Ok(indexed(names, field));
    }
    if !spec.is_full_text() {
        return Err(missing());
    }
    let mut field = schema.fields.iter().find(|field| field.name == *root).ok_or_else(missing)?;
    for name in &names[1..] {
        while matches!(field.data_type(), DataType::List(_) | DataType::LargeList(_)) {
            field = field.children.first().ok_or_else(missing)?;
        }
        field = field.children.iter().find(|child| child.name == *name).ok_or_else(missing)?;
    }
    let field = Field::from(field);
    Ok(indexed(names, field))
}

/// Finds a column of words as [`column`] does for an index of them.
///
/// # Errors
/// [`StorageError::NoColumn`].
pub fn text_column(dataset: &Dataset, path: &str) -> Result<Indexed, StorageError> {
    column(dataset, path, &IndexSpec::FullText(Box::default()))
}

fn indexed(names: Vec<String>, field: Field) -> Indexed {
    let path = format_field_path(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let width = width(field.data_type());
    Indexed { path, names, field, width }
}

fn width(data_type: &DataType) -> usize {
    match data_type {
        DataType::FixedSizeList(_, width) => usize::try_from(*width).unwrap_or(0),
        DataType::List(item) => width(item.data_type()),
        _ => 0,
    }
}

/// Returns the method that a column gets when none is named.
pub fn chosen(data_type: &DataType) -> Option<IndexSpec> {
    [IndexSpec::Scalar(ScalarKind::BTree), IndexSpec::Vector(VectorSpec::new(VectorKind::IvfPq))]
        .into_iter()
        .find(|spec| fits(spec, data_type))
}

/// Returns whether an index can be made on values of a type.
pub fn fits(spec: &IndexSpec, data_type: &DataType) -> bool {
    match spec {
        IndexSpec::Auto => chosen(data_type).is_some(),
        IndexSpec::Scalar(ScalarKind::BTree) => is_ordered(data_type),
        IndexSpec::Scalar(ScalarKind::ZoneMap) | IndexSpec::BloomFilter { .. } => {
            is_ordered(data_type) || matches!(data_type, DataType::Binary | DataType::LargeBinary)
        }
        IndexSpec::Scalar(ScalarKind::Bitmap) => is_label(data_type),
        IndexSpec::Scalar(ScalarKind::LabelList) => match data_type {
            DataType::List(item) | DataType::LargeList(item) => is_label(item.data_type()),
            _ => false,
        },
        IndexSpec::Scalar(ScalarKind::NGram) => matches!(data_type, DataType::Utf8 | DataType::LargeUtf8),
        IndexSpec::Scalar(ScalarKind::Fm) => {
            matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary)
        }
        IndexSpec::FullText(_) => is_text(data_type),
        IndexSpec::Vector(_) => is_vector(data_type),
    }
}

fn is_ordered(data_type: &DataType) -> bool {
    data_type.is_integer()
        || data_type.is_floating()
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Date32
                | DataType::Date64
                | DataType::Timestamp(_, _)
                | DataType::Decimal128(_, _)
                | DataType::FixedSizeBinary(_)
        )
}

fn is_label(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::Boolean
                | DataType::Date32
        )
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => true,
        DataType::List(item) | DataType::LargeList(item) => is_text(item.data_type()),
        _ => false,
    }
}

fn is_vector(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeList(item, _) => item.data_type().is_floating() || *item.data_type() == DataType::UInt8,
        DataType::List(item) => is_vector(item.data_type()),
        _ => false,
    }
}

/// Builds an index of the rows of a version. Dropping the future gives it up; its
/// files are garbage then, which Lance's cleanup removes.
///
/// # Errors
/// What Lance reports.
pub async fn build(dataset: Arc<Dataset>, build: &Build) -> Result<Built, StorageError> {
    let (index_type, parameters) = build.spec.parameters(build.width, build.memory_mib)?;
    let mut working = dataset.as_ref().clone();
    let columns = [build.column.as_str()];
    let mut builder = working.create_index_builder(&columns, index_type, parameters.as_ref()).replace(build.replace);
    if let Some(name) = &build.name {
        builder = builder.name(name.clone());
    }
    let index = builder.execute_uncommitted().await?;
    drop(builder);
    let replaces = dataset.load_indices_by_name(&index.name).await?;
    Ok(Built { dataset, index, replaces })
}

/// Makes an index that was built visible, in one commit.
///
/// # Errors
/// [`StorageError::Lance`] of a commit conflict if rows have changed meanwhile in a
/// way that the index does not know, or an index of its name was made or dropped.
pub async fn commit(built: Built) -> Result<Dataset, StorageError> {
    let Built { dataset, index, replaces } = built;
    durable::sync_index(&dataset, &index).await?;
    let version = index.dataset_version;
    let operation = Operation::CreateIndex { new_indices: vec![index], removed_indices: replaces };
    committed(&dataset, Transaction::new(version, operation, None)).await
}

/// Drops an index, all its segments.
///
/// # Errors
/// What Lance reports; `Ok(None)` if there is none of the name.
pub async fn remove(dataset: &Arc<Dataset>, name: &str) -> Result<Option<Dataset>, StorageError> {
    let removed_indices = own(dataset.load_indices_by_name(name).await?);
    if removed_indices.is_empty() {
        return Ok(None);
    }
    let operation = Operation::CreateIndex { new_indices: Vec::new(), removed_indices };
    committed(dataset, Transaction::new(dataset.version_id(), operation, None)).await.map(Some)
}

async fn committed(dataset: &Arc<Dataset>, transaction: Transaction) -> Result<Dataset, StorageError> {
    let committed = CommitBuilder::new(Arc::clone(dataset)).execute(transaction).await?;
    durable::sync_commit(&committed, Some(dataset)).await?;
    Ok(committed)
}

fn own(mut indexes: Vec<IndexMetadata>) -> Vec<IndexMetadata> {
    indexes.retain(|index| !is_system_index(index));
    indexes
}

/// Returns the names of the indexes of a table, each with its columns.
///
/// # Errors
/// What Lance reports.
pub async fn names(dataset: &Dataset) -> Result<Vec<(String, Vec<String>)>, StorageError> {
    let mut names: Vec<(String, Vec<String>)> = Vec::new();
    for index in own(dataset.load_indices().await?.as_ref().clone()) {
        if names.iter().all(|(name, _)| *name != index.name) {
            let columns = index.fields.iter().filter_map(|id| dataset.schema().field_path(*id).ok()).collect();
            names.push((index.name, columns));
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the indexes of a table by name; Lance's own are left out, and those whose
/// column is not there any more.
///
/// # Errors
/// What Lance reports.
pub async fn list(dataset: &Dataset) -> Result<Vec<IndexRow>, StorageError> {
    let rows = dataset.count_rows(None).await? as u64;
    let mut listed = Vec::new();
    for described in dataset.describe_indices(None).await? {
        let segments = described.segments();
        let Some(first) = segments.first().filter(|first| !is_system_index(first)) else { continue };
        let paths = described.field_ids().iter().map(|id| {
            let id = i32::try_from(*id).ok()?;
            dataset.schema().field_path(id).ok()
        });
        let Some(columns) = paths.collect::<Option<Vec<_>>>() else { continue };
        let details = described.details().ok();
        listed.push(IndexRow {
            name: described.name().to_owned(),
            uuid: first.uuid.to_string(),
            columns,
            index_type: spelled(described.index_type()),
            indexed_rows: described.rows_indexed().min(rows),
            unindexed_rows: rows.saturating_sub(described.rows_indexed()),
            segments: segments.len(),
            size_bytes: described.total_size_bytes(),
            created_at: segments.iter().filter_map(|segment| segment.created_at).min(),
            index_version: first.index_version,
            distance_type: details.as_deref().and_then(distance_type),
            details,
            type_url: described.type_url().to_owned(),
        });
    }
    listed.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(listed)
}

/// Reads an index into memory.
///
/// # Errors
/// What Lance reports.
pub async fn prewarm(dataset: &Dataset, name: &str) -> Result<(), StorageError> {
    Ok(dataset.prewarm_index(name).await?)
}

/// Returns a kind as the client library spells it; it refuses whole lists with
/// others.
fn spelled(lance: &str) -> String {
    let plain: String = lance.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_uppercase();
    let known = match plain.as_str() {
        "BTREE" => "BTREE",
        "BITMAP" => "BITMAP",
        "LABELLIST" => "LABEL_LIST",
        "FM" | "FMINDEX" => "FM",
        "ZONEMAP" => "ZONEMAP",
        "NGRAM" => "NGRAM",
        "BLOOMFILTER" => "BLOOM_FILTER",
        "RTREE" => "RTREE",
        "INVERTED" | "FTS" => "FTS",
        "IVFFLAT" => "IVF_FLAT",
        "IVFSQ" => "IVF_SQ",
        "IVFPQ" => "IVF_PQ",
        "IVFRQ" => "IVF_RQ",
        "IVFHNSWFLAT" => "IVF_HNSW_FLAT",
        "IVFHNSWSQ" => "IVF_HNSW_SQ",
        "IVFHNSWPQ" => "IVF_HNSW_PQ",
        _ => "Unknown",
    };
    known.to_owned()
}

fn distance_type(details: &str) -> Option<String> {
    let details: Value = serde_json::from_str(details).ok()?;
    let named = ["metric_type", "distance_type"].iter().find_map(|key| details.get(*key)?.as_str())?;
    Some(named.to_ascii_lowercase())
}

fn invalid(error: impl std::fmt::Display) -> StorageError {
    StorageError::Lance(lance::Error::invalid_input(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_spelled_as_the_client_library_reads_them() {
        let cases = [
            ("BTree", "BTREE"),
            ("Inverted", "FTS"),
            ("LabelList", "LABEL_LIST"),
            ("IVF_HNSW_SQ", "IVF_HNSW_SQ"),
            ("BloomFilter", "BLOOM_FILTER"),
            ("SomethingNew", "Unknown"),
        ];
        for (lance, expected) in cases {
            assert_eq!(spelled(lance), expected);
        }
    }

    #[test]
    fn a_column_without_a_method_gets_the_one_that_fits() {
        let vector = DataType::new_fixed_size_list(DataType::Float32, 8, true);
        assert!(matches!(chosen(&DataType::Int64), Some(IndexSpec::Scalar(ScalarKind::BTree))));
        assert!(matches!(chosen(&vector), Some(IndexSpec::Vector(VectorSpec { kind: VectorKind::IvfPq, .. }))));
        assert!(chosen(&DataType::Struct(arrow::datatypes::Fields::empty())).is_none());
    }
}
