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
//! | `computed_column.inputs` | JSON array of column paths; of a Function its arguments in order |
//! | `computed_column.auto_refresh_enabled` | `true` or `false` |
//! | `computed_column.auto_refresh_interval_seconds` | a positive integer |
//! | `computed_column.function.binding_id` | names the binding in `lancedb::function_bindings` of the schema |
//! | `computed_column.function.output_ordinal` | which output of the binding the column is, from 0 |
//! | `lancegate.function` | the Function, its version and how it is called (see [`FunctionCall`]); ours |
//! | `computed_refresh.source_signature` | `{}` when declared: no fragment is known to be fresh |
//! | `computed_refresh.*` after a refresh | see [`super::freshness`] |
//! | `lancegate.refresh.provenance` | digest of our own record (see [`crate::refresh::provenance`]) |
//!
//! The field may be inside a struct column; the column's name is its path then.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use lance::Dataset;
use lance::dataset::NewColumnTransform;
use lance_core::datatypes::Field as LanceField;
use serde_json::json;

use super::freshness::SOURCE_SIGNATURE;
use super::{StorageError, nested};

mod bindings;
mod call;

pub use self::bindings::sync as sync_bindings;
pub use self::call::{Application, Argument, FunctionCall, Initialization, WHOLE_RESULT};

/// Marks a field as computed.
const COMPUTED: &str = "computed_column";
const KIND: &str = "computed_column.kind";
const EXPRESSION: &str = "computed_column.expression";
const INPUTS: &str = "computed_column.inputs";
const AUTO_ENABLED: &str = "computed_column.auto_refresh_enabled";
const AUTO_INTERVAL: &str = "computed_column.auto_refresh_interval_seconds";
const BINDING_ID: &str = "computed_column.function.binding_id";
const ORDINAL: &str = "computed_column.function.output_ordinal";
const FUNCTION: &str = "lancegate.function";
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
    /// Its name, or the canonical path of a field inside a column.
    pub name: String,
    /// Lance's id of the field: renames keep it, drop and add again changes it.
    pub field_id: i32,
    /// The column's type.
    pub data_type: DataType,
    /// See [`ComputedKind`].
    pub kind: ComputedKind,
    /// The SQL text; of a Function column the call, for people.
    pub expression: String,
    /// What a Function column is filled by; `None` for an expression, and for a binding that other software made.
    pub function: Option<FunctionCall>,
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
    /// Name of the new column, or the canonical path of a field inside one.
    pub name: String,
    /// Its inferred type; the column is always nullable.
    pub data_type: DataType,
    /// The SQL text; not used for a Function column.
    pub expression: String,
    /// The Function of a Function column.
    pub function: Option<FunctionCall>,
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
    let mut found = Vec::new();
    for field in &dataset.schema().fields {
        collect(field, &mut Vec::new(), &mut found)?;
    }
    Ok(found)
}

fn collect<'a>(
    field: &'a LanceField,
    path: &mut Vec<&'a str>,
    found: &mut Vec<ComputedColumn>,
) -> Result<(), StorageError> {
    path.push(&field.name);
    if is_marked(field) {
        found.push(parse(&nested::path_text(path), field)?);
    }
    if field.logical_type.is_struct() {
        for child in &field.children {
            collect(child, path, found)?;
        }
    }
    path.pop();
    Ok(())
}

/// Returns whether a field is a computed column.
pub(crate) fn is_marked(field: &LanceField) -> bool {
    field.metadata.get(COMPUTED).is_some_and(|value| value == "true")
}

/// Returns whether an Arrow field of a Lance schema is a computed column.
pub fn is_computed(field: &Field) -> bool {
    field.metadata().get(COMPUTED).is_some_and(|value| value == "true")
}

/// Returns whether a field inside this column is computed.
pub fn holds_computed(column: &Field) -> bool {
    match column.data_type() {
        DataType::Struct(fields) => fields.iter().any(|field| is_computed(field) || holds_computed(field)),
        _ => false,
    }
}

/// Returns one computed column by name or path, `None` when the column is a plain one.
///
/// # Errors
/// [`StorageError::NoColumn`] if the table has no such column, otherwise as [`columns`].
pub fn column(dataset: &Dataset, name: &str) -> Result<Option<ComputedColumn>, StorageError> {
    let field =
        nested::field(dataset.schema(), name).ok_or_else(|| StorageError::NoColumn { column: name.to_owned() })?;
    if is_marked(field) { parse(name, field).map(Some) } else { Ok(None) }
}

fn parse(name: &str, field: &LanceField) -> Result<ComputedColumn, StorageError> {
    let metadata = &field.metadata;
    let unsupported = |what: String| StorageError::Unsupported { what };
    let kind = match metadata.get(KIND).map(String::as_str) {
        Some("sql") => ComputedKind::Expression,
        Some("function") => ComputedKind::Function,
        other => return Err(unsupported(format!("kind {other:?} of computed column \"{name}\""))),
    };
    let mut inputs: Vec<String> = match metadata.get(INPUTS) {
        Some(text) => {
            serde_json::from_str(text).map_err(|_| unsupported(format!("input list of computed column \"{name}\"")))?
        }
        None => Vec::new(),
    };
    let interval = metadata
        .get(AUTO_INTERVAL)
        .map(|text| text.parse().map_err(|_| unsupported(format!("refresh interval of column \"{name}\""))))
        .transpose()?;
    let function: Option<FunctionCall> = metadata
        .get(FUNCTION)
        .map(|text| serde_json::from_str(text).map_err(|_| unsupported(format!("Function of column \"{name}\""))))
        .transpose()?;
    if let Some(call) = &function {
        // The SDK's list has the arguments, one as often as it is one.
        for path in std::mem::take(&mut inputs).into_iter().chain(call.application.reads().cloned()) {
            if !inputs.contains(&path) {
                inputs.push(path);
            }
        }
    }
    let expression = match &function {
        Some(call) => call.to_string(),
        None => metadata.get(EXPRESSION).cloned().unwrap_or_default(),
    };
    Ok(ComputedColumn {
        name: name.to_owned(),
        field_id: field.id,
        data_type: field.data_type(),
        kind,
        expression,
        function,
        inputs,
        auto_refresh_enabled: metadata.get(AUTO_ENABLED).is_none_or(|value| value != "false"),
        auto_refresh_interval_seconds: interval,
        provenance: metadata.get(PROVENANCE).filter(|digest| !digest.is_empty()).cloned(),
    })
}

/// Returns the columns that are computed together with a column, in the order of the Function's outputs; only itself for
/// an expression and for a Function of one output.
///
/// # Errors
/// [`StorageError::Unsupported`] if one of them is gone: the others cannot be refreshed.
pub fn outputs(dataset: &Dataset, column: &ComputedColumn) -> Result<Vec<ComputedColumn>, StorageError> {
    let Some(call) = column.function.as_ref().filter(|call| call.result_field != WHOLE_RESULT) else {
        return Ok(vec![column.clone()]);
    };
    let of_binding =
        |other: &ComputedColumn| other.function.as_ref().is_some_and(|other| other.binding_id == call.binding_id);
    let mut found: Vec<ComputedColumn> = columns(dataset)?.into_iter().filter(of_binding).collect();
    let ordinal = |column: &ComputedColumn| column.function.as_ref().map_or(0, |call| call.ordinal);
    found.sort_by_key(ordinal);
    if found.iter().zip(0..).any(|(column, expected)| ordinal(column) != expected) {
        let what = format!("column \"{}\" without the others that its Function fills", column.name);
        return Err(StorageError::Unsupported { what });
    }
    Ok(found)
}

/// Adds empty computed columns in metadata-only commits, whose cost does not
/// depend on the number of rows (RC-01): one for the columns of the table, and
/// one for each field inside a column.
///
/// # Errors
/// What Lance reports, among it a column of that name.
pub async fn declare(dataset: &Dataset, declarations: &[Declaration]) -> Result<Dataset, StorageError> {
    let mut changed = dataset.clone();
    let mut inside = Vec::new();
    let mut fields: Vec<Field> = Vec::new();
    for declaration in declarations {
        let mut parts = nested::parts(&declaration.name);
        let name = parts.pop().unwrap_or_default();
        let field = declared_field(&name, declaration);
        if parts.is_empty() {
            fields.push(field);
        } else {
            let parent: Vec<&str> = parts.iter().map(String::as_str).collect();
            inside.push((nested::path_text(&parent), field));
        }
    }
    if !fields.is_empty() {
        let transform = NewColumnTransform::AllNulls(Arc::new(Schema::new(fields)));
        changed.add_columns(transform, None, None).await?;
    }
    for (parent, field) in inside {
        changed = nested::add_field(&changed, &parent, &field).await?;
    }
    if declarations.iter().any(|declaration| declaration.function.is_some()) {
        bindings::add(&mut changed, declarations).await?;
    }
    Ok(changed)
}

fn declared_field(name: &str, declaration: &Declaration) -> Field {
    let inputs = match &declaration.function {
        Some(call) => json!(call.columns().collect::<Vec<_>>()),
        None => json!(declaration.inputs),
    };
    let mut metadata = HashMap::from([
        (COMPUTED.to_owned(), "true".to_owned()),
        (INPUTS.to_owned(), inputs.to_string()),
        (SOURCE_SIGNATURE.to_owned(), "{}".to_owned()),
    ]);
    match &declaration.function {
        None => {
            metadata.insert(KIND.to_owned(), "sql".to_owned());
            metadata.insert(EXPRESSION.to_owned(), declaration.expression.clone());
        }
        Some(call) => {
            metadata.insert(KIND.to_owned(), "function".to_owned());
            metadata.insert(BINDING_ID.to_owned(), call.binding_id.clone());
            metadata.insert(ORDINAL.to_owned(), call.ordinal.to_string());
            metadata.insert(FUNCTION.to_owned(), json!(call).to_string());
        }
    }
    if let Some(enabled) = declaration.auto_refresh_enabled {
        metadata.insert(AUTO_ENABLED.to_owned(), enabled.to_string());
    }
    if let Some(seconds) = declaration.auto_refresh_interval_seconds {
        metadata.insert(AUTO_INTERVAL.to_owned(), seconds.to_string());
    }
    Field::new(name, declaration.data_type.clone(), true).with_metadata(metadata)
}

/// Returns the computed columns that read `input`, a field inside it or a column
/// that it is inside of, by name: the reason why it cannot be dropped or changed.
///
/// # Errors
/// As [`columns`].
pub fn readers_of(dataset: &Dataset, input: &str) -> Result<Vec<String>, StorageError> {
    let input = nested::parts(input);
    let reads = |path: &String| {
        let path = nested::parts(path);
        path.starts_with(&input) || input.starts_with(&path)
    };
    let found = columns(dataset)?.into_iter().filter(|column| column.inputs.iter().any(reads));
    Ok(found.map(|column| column.name).collect())
}

/// Returns the names of the computed columns that `column` is or that are inside it.
///
/// # Errors
/// As [`columns`].
pub fn within(dataset: &Dataset, column: &str) -> Result<Vec<String>, StorageError> {
    let outer = nested::parts(column);
    let found = columns(dataset)?.into_iter().filter(|column| nested::parts(&column.name).starts_with(&outer));
    Ok(found.map(|column| column.name).collect())
}

/// Returns the computed columns that a column reads, directly or through others,
/// in the order of their declaration: each is read only by later ones.
///
/// # Errors
/// [`StorageError::Cycle`] if the column is among them, otherwise as [`columns`].
pub fn read_by(dataset: &Dataset, column: &ComputedColumn) -> Result<Vec<ComputedColumn>, StorageError> {
    let all = columns(dataset)?;
    let overlaps = |path: &str, other: &str| {
        let (path, other) = (nested::parts(path), nested::parts(other));
        path.starts_with(&other) || other.starts_with(&path)
    };
    let mut open = column.inputs.clone();
    let mut found: Vec<ComputedColumn> = Vec::new();
    while let Some(path) = open.pop() {
        for read in all.iter().filter(|read| overlaps(&path, &read.name)) {
            if read.field_id == column.field_id {
                return Err(StorageError::Cycle { column: column.name.clone() });
            }
            if found.iter().all(|known| known.field_id != read.field_id) {
                open.extend(read.inputs.iter().cloned());
                found.push(read.clone());
            }
        }
    }
    found.sort_by_key(|column| column.field_id);
    Ok(found)
}
