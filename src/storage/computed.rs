//! Computed columns as they are declared in a table's own metadata.
//!
//! The keys are those of the open `lancedb` crate, so a table declared here can
//! be refreshed there and the other way round:
//!
//! | field metadata key | value |
//! |---|---|
//! | `computed_column` | `true` |
//! | `computed_column.kind` | `sql` or `function` |
//! | `computed_column.expression` | the SQL text |
//! | `computed_column.inputs` | JSON array of column paths |
//! | `computed_column.auto_refresh_enabled` | `true` or `false` |
//! | `computed_column.auto_refresh_interval_seconds` | a positive integer |
//! | `computed_refresh.source_signature` | `{}` when declared: no fragment is known to be fresh |
//! | `computed_refresh.*` after a refresh | see [`super::freshness`] |
//! | `lancegate.refresh.provenance` | digest of our own record (see [`crate::refresh::provenance`]) |

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use lance::Dataset;
use lance::dataset::NewColumnTransform;

use super::StorageError;
use super::freshness::SOURCE_SIGNATURE;

/// Marks a field as computed.
const COMPUTED: &str = "computed_column";
const KIND: &str = "computed_column.kind";
const EXPRESSION: &str = "computed_column.expression";
const INPUTS: &str = "computed_column.inputs";
const AUTO_ENABLED: &str = "computed_column.auto_refresh_enabled";
const AUTO_INTERVAL: &str = "computed_column.auto_refresh_interval_seconds";
/// The field metadata key under which our own provenance record is named.
pub const PROVENANCE: &str = "lancegate.refresh.provenance";
/// Prefix of the field metadata keys that users may not write.
pub const RESERVED_PREFIXES: [&str; 3] = ["computed_column", "computed_refresh", "lancegate."];

/// How the values of a computed column come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComputedKind {
    /// A SQL expression over columns of the same row.
    Expression,
    /// A registered Function.
    Function,
}

/// One declared computed column.
#[derive(Debug, Clone, PartialEq)]
pub struct ComputedColumn {
    /// Its name.
    pub name: String,
    /// Lance's id of the field: renames keep it, drop and add again changes it.
    pub field_id: i32,
    /// The column's type.
    pub data_type: DataType,
    /// See [`ComputedKind`].
    pub kind: ComputedKind,
    /// The SQL text; empty for a Function column.
    pub expression: String,
    /// Paths of the columns that it reads.
    pub inputs: Vec<String>,
    /// `auto_refresh_enabled`, true unless declared otherwise.
    pub auto_refresh_enabled: bool,
    /// `auto_refresh_interval_seconds`, if set.
    pub auto_refresh_interval_seconds: Option<u64>,
    /// Names the newest provenance record, if a refresh left one.
    pub provenance: Option<String>,
}

/// What ADD COLUMN … AS declares.
#[derive(Debug, Clone)]
pub struct Declaration {
    /// Name of the new column.
    pub name: String,
    /// Its inferred type; the column is always nullable.
    pub data_type: DataType,
    /// The SQL text.
    pub expression: String,
    /// Paths of the columns that it reads.
    pub inputs: Vec<String>,
    /// `auto_refresh_enabled`, written only if given.
    pub auto_refresh_enabled: Option<bool>,
    /// `auto_refresh_interval_seconds`, written only if given.
    pub auto_refresh_interval_seconds: Option<u64>,
}

/// Returns the computed columns of a table, in column order.
///
/// # Errors
/// [`StorageError::Unsupported`] for a declaration of a kind or with values
/// that this version does not know: such a column must not be written.
pub fn columns(dataset: &Dataset) -> Result<Vec<ComputedColumn>, StorageError> {
    dataset
        .schema()
        .fields
        .iter()
        .filter(|field| field.metadata.get(COMPUTED).is_some_and(|value| value == "true"))
        .map(|field| parse(&field.name, field.id, field.data_type(), &field.metadata))
        .collect()
}

/// Returns whether an Arrow field of a Lance schema is a computed column.
pub fn is_computed(field: &Field) -> bool {
    field.metadata().get(COMPUTED).is_some_and(|value| value == "true")
}

/// Returns one computed column by name, `None` when the column is a plain one.
///
/// # Errors
/// [`StorageError::NoColumn`] if the table has no such column, otherwise as [`columns`].
pub fn column(dataset: &Dataset, name: &str) -> Result<Option<ComputedColumn>, StorageError> {
    let field = dataset
        .schema()
        .fields
        .iter()
        .find(|field| field.name == name)
        .ok_or_else(|| StorageError::NoColumn { column: name.to_owned() })?;
    if field.metadata.get(COMPUTED).is_none_or(|value| value != "true") {
        return Ok(None);
    }
    parse(&field.name, field.id, field.data_type(), &field.metadata).map(Some)
}

fn parse(
    name: &str,
    field_id: i32,
    data_type: DataType,
    metadata: &HashMap<String, String>,
) -> Result<ComputedColumn, StorageError> {
    let unsupported = |what: String| StorageError::Unsupported { what };
    let kind = match metadata.get(KIND).map(String::as_str) {
        Some("sql") => ComputedKind::Expression,
        Some("function") => ComputedKind::Function,
        other => return Err(unsupported(format!("kind {other:?} of computed column \"{name}\""))),
    };
    let inputs = match metadata.get(INPUTS) {
        Some(text) => {
            serde_json::from_str(text).map_err(|_| unsupported(format!("input list of computed column \"{name}\"")))?
        }
        None => Vec::new(),
    };
    let interval = metadata
        .get(AUTO_INTERVAL)
        .map(|text| text.parse().map_err(|_| unsupported(format!("refresh interval of column \"{name}\""))))
        .transpose()?;
    Ok(ComputedColumn {
        name: name.to_owned(),
        field_id,
        data_type,
        kind,
        expression: metadata.get(EXPRESSION).cloned().unwrap_or_default(),
        inputs,
        auto_refresh_enabled: metadata.get(AUTO_ENABLED).is_none_or(|value| value != "false"),
        auto_refresh_interval_seconds: interval,
        provenance: metadata.get(PROVENANCE).filter(|digest| !digest.is_empty()).cloned(),
    })
}

/// Adds an empty computed column: one metadata-only commit whose cost does not
/// depend on the number of rows (RC-01).
///
/// # Errors
/// What Lance reports, among it a column of that name.
pub async fn declare(dataset: &Dataset, declarations: &[Declaration]) -> Result<Dataset, StorageError> {
    let fields: Vec<Field> = declarations.iter().map(declared_field).collect();
    let mut changed = dataset.clone();
    let transform = NewColumnTransform::AllNulls(Arc::new(Schema::new(fields)));
    changed.add_columns(transform, None, None).await?;
    Ok(changed)
}

fn declared_field(declaration: &Declaration) -> Field {
    let mut metadata = HashMap::from([
        (COMPUTED.to_owned(), "true".to_owned()),
        (KIND.to_owned(), "sql".to_owned()),
        (EXPRESSION.to_owned(), declaration.expression.clone()),
        (INPUTS.to_owned(), serde_json::json!(declaration.inputs).to_string()),
        (SOURCE_SIGNATURE.to_owned(), "{}".to_owned()),
    ]);
    if let Some(enabled) = declaration.auto_refresh_enabled {
        metadata.insert(AUTO_ENABLED.to_owned(), enabled.to_string());
    }
    if let Some(seconds) = declaration.auto_refresh_interval_seconds {
        metadata.insert(AUTO_INTERVAL.to_owned(), seconds.to_string());
    }
    Field::new(&declaration.name, declaration.data_type.clone(), true).with_metadata(metadata)
}

/// Returns the computed columns that read `input` (a column path or a parent
/// of one), by name: the reason why a column cannot be dropped or changed.
///
/// # Errors
/// As [`columns`].
pub fn readers_of(dataset: &Dataset, input: &str) -> Result<Vec<String>, StorageError> {
    let below = format!("{input}.");
    let reads = |column: &ComputedColumn| column.inputs.iter().any(|path| path == input || path.starts_with(&below));
    Ok(columns(dataset)?.into_iter().filter(reads).map(|column| column.name).collect())
}
