//! Rows that a client sends as Arrow batches: appended, put in place of all rows,
//! merged, or the first rows of a new table. REST's `create`, `insert` and
//! `merge_insert`; SQL has INSERT, MERGE and COPY.

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use futures::future::BoxFuture;
use lancegate_catalog::{Table, TableKind, TableName};
use lancegate_sql::ObjectName;

use super::dml::default::{Filling, is_always_numbered, non_default_number};
use super::dml::{is_computed, no_column, non_default};
use super::tables::ensure_columns;
use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::exec::Engine;
use crate::exec::dml::null_in;
use crate::session::Session;
use crate::sql::resolve::{BoundTable, is_materialized, no_relation};
use crate::sqlstate::SqlState;
use crate::storage::computed::RESERVED_PREFIXES;
use crate::storage::{computed, defaults, provider};

/// The key of the schema's metadata that binds columns to Functions.
const BINDINGS: &str = "lancedb::function_bindings";

/// Where rows go.
#[derive(Debug, Clone)]
pub struct IngestRequest {
    /// The table.
    pub table: ObjectName,
    /// What becomes of its rows.
    pub mode: IngestMode,
    /// The columns that come, in order.
    pub schema: SchemaRef,
}

/// What becomes of a table that rows come for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IngestMode {
    /// The table is made.
    Create(IfExists),
    /// The rows come after those that are there.
    Append,
    /// They replace rows and columns.
    Overwrite,
    /// They are merged into those that are there.
    Merge(MergeSpec),
}

/// What `create` makes of a table that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// An error.
    Fail,
    /// It stays as it is, and the rows are not taken.
    Keep,
    /// It gets the new columns and rows.
    Overwrite,
}

/// How rows are merged, in the terms of Lance's `merge_insert`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergeSpec {
    /// The columns whose values make two rows the same.
    pub on: Vec<String>,
    /// Whether rows that are there get the new values.
    pub update_matched: bool,
    /// Only those for which this holds, over `source.` and `target.`.
    pub update_filter: Option<String>,
    /// Whether new rows are added.
    pub insert_unmatched: bool,
    /// Whether rows that do not come are deleted.
    pub delete_unmatched: bool,
    /// Only those for which this holds.
    pub delete_filter: Option<String>,
    /// Whether an index on the columns may be used.
    pub use_index: bool,
}

/// A bound [`IngestRequest`].
#[derive(Debug, Clone)]
pub enum IngestPlan {
    /// A table that does not exist yet.
    New {
        /// Its name.
        name: TableName,
        /// Its columns, with the metadata that came with them.
        schema: SchemaRef,
    },
    /// A table that stays as it is.
    Kept(Box<Table>),
    /// Rows are added to a table.
    Append {
        /// The table.
        table: BoundTable,
        /// What fills columns that do not come.
        filling: Filling,
    },
    /// Rows and columns of a table are replaced.
    Overwrite {
        /// The table.
        table: BoundTable,
        /// Its new columns.
        schema: SchemaRef,
    },
    /// Rows are merged into a table.
    Merge {
        /// The table.
        table: BoundTable,
        /// How.
        merge: MergeSpec,
        /// What fills columns of new rows that do not come.
        filling: Filling,
    },
}

impl IngestPlan {
    /// Returns the table that is there and gets rows.
    pub(crate) fn written(&self) -> Option<&Table> {
        match self {
            Self::New { .. } | Self::Kept(_) => None,
            Self::Append { table, .. } | Self::Overwrite { table, .. } | Self::Merge { table, .. } => {
                Some(&table.record)
            }
        }
    }
}

impl Engine {
    /// Binds rows that are about to come.
    ///
    /// # Errors
    /// 42P01, 42P07, 42703 for a column that the table does not have, 428C9 for a
    /// computed one, 42804 for a type that does not fit.
    pub fn plan_ingest<'a>(&'a self, session: &'a Session, request: &'a IngestRequest) -> BoxFuture<'a, Result<Plan>> {
        Box::pin(async move {
            let planner = Planner::new(self.clone(), session, "", &[]);
            let plan = planner.ingest(request).await?;
            Ok(Plan::Ingest(Box::new(plan)))
        })
    }
}

impl Planner {
    async fn ingest(&self, request: &IngestRequest) -> Result<IngestPlan> {
        let found = self.find(&request.table).await?;
        let existing = match (&request.mode, found) {
            (IngestMode::Create(_), None) => {
                let name = self.creation_name(&request.table).await?;
                return Ok(IngestPlan::New { name, schema: stored(&request.schema)? });
            }
            (IngestMode::Create(IfExists::Keep), Some(table)) => return Ok(IngestPlan::Kept(Box::new(table))),
            (IngestMode::Create(IfExists::Fail), Some(table)) => {
                let message = format!("relation \"{}\" already exists", table.name.name);
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
            }
            (_, Some(table)) if table.kind != TableKind::Table => {
                if table.kind == TableKind::MaterializedView {
                    return Err(is_materialized(&table.name.name));
                }
                let message = format!("\"{}\" is not a table", table.name.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            (_, Some(table)) => self.open(table).await?,
            (_, None) => return Err(no_relation(&request.table)),
        };
        match &request.mode {
            IngestMode::Append => {
                ensure_fits(&existing, &request.schema)?;
                ensure_no_number(&existing, &request.schema, &[])?;
                let filling = self.filling(&existing, &names(&request.schema)).await?;
                Ok(IngestPlan::Append { table: existing, filling })
            }
            IngestMode::Merge(merge) => {
                ensure_fits(&existing, &request.schema)?;
                ensure_keys(&existing, merge, &request.schema)?;
                // Rows that add nothing may tell by its number which row they change.
                let keys = if merge.insert_unmatched { &[] } else { merge.on.as_slice() };
                ensure_no_number(&existing, &request.schema, keys)?;
                let filling = self.filling_of_merge(&existing, merge, &request.schema).await?;
                Ok(IngestPlan::Merge { table: existing, merge: merge.clone(), filling })
            }
            IngestMode::Create(_) | IngestMode::Overwrite => {
                let schema = stored(&request.schema)?;
                if self.caller.branch.is_some() {
                    ensure_columns_stay(&existing, &schema)?;
                }
                Ok(IngestPlan::Overwrite { table: existing, schema })
            }
        }
    }

    /// Returns what fills columns that do not come, in rows that are merged. A row that is there keeps its values of
    /// them, so such columns must come where rows are both added and changed.
    async fn filling_of_merge(&self, table: &BoundTable, merge: &MergeSpec, given: &Schema) -> Result<Filling> {
        if !merge.insert_unmatched {
            return Ok(Filling(Vec::new()));
        }
        let lacking = |field: &&FieldRef| given.field_with_name(field.name()).is_err();
        let stored = Schema::from(table.dataset.schema());
        let valued =
            |field: &&FieldRef| defaults::default_of(field).is_some() || defaults::numbering_of(field).is_some();
        let refused = |what: &str, field: &FieldRef| {
            let message = format!("rows that lack column \"{}\", which has {what}, cannot be merged", field.name());
            SqlError::not_supported(message)
                .hint("Send the column as well, or merge with SQL's INSERT ... ON CONFLICT.")
        };
        for field in stored.fields().iter().filter(lacking) {
            if merge.update_matched && valued(&field) {
                return Err(refused("a default", field));
            }
            if !field.is_nullable() && !valued(&field) {
                return Err(null_in(field.name()));
            }
        }
        self.filling(table, &names(given)).await
    }
}

fn names(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

/// Refuses values of columns that take no number but those of their sequence, except `keys`.
fn ensure_no_number(table: &BoundTable, given: &Schema, keys: &[String]) -> Result<()> {
    let stored = Schema::from(table.dataset.schema());
    let always = |name: &&String| stored.field_with_name(name).is_ok_and(is_always_numbered) && !keys.contains(name);
    match given.fields().iter().map(|field| field.name()).find(always) {
        Some(name) => Err(non_default_number(name)),
        None => Ok(()),
    }
}

/// Returns the columns of a new table. Statements about the data that other
/// software left in the metadata stay, ours are made by ALTER TABLE alone.
fn stored(given: &Schema) -> Result<SchemaRef> {
    ensure_columns(given.fields().iter().map(|field| field.name().as_str()))?;
    if given.fields().is_empty() {
        return Err(SqlError::not_supported("tables must have at least one stored column"));
    }
    let reserved = |key: &String| RESERVED_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
    for field in given.fields() {
        if let Some(key) = field.metadata().keys().find(|key| reserved(key)) {
            let message = format!("metadata key \"{key}\" of column \"{}\" is reserved", field.name());
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .hint("Declare computed columns after the table is there."));
        }
    }
    let mut metadata = given.metadata().clone();
    metadata.remove(BINDINGS);
    Ok(std::sync::Arc::new(Schema::new_with_metadata(given.fields().clone(), metadata)))
}

/// Refuses other columns than the table has: they change on main alone.
fn ensure_columns_stay(table: &BoundTable, given: &Schema) -> Result<()> {
    let stored = provider::visible_schema(&table.dataset);
    let column = |field: &FieldRef| (field.name().clone(), field.data_type().clone());
    if stored.fields().iter().map(column).eq(given.fields().iter().map(column)) {
        return Ok(());
    }
    let message = format!("the rows have other columns than table \"{}\" on this branch", table.name());
    Err(SqlError::not_supported(message).hint("Columns are changed on main alone."))
}

/// Refuses columns that the table does not take.
fn ensure_fits(table: &BoundTable, given: &Schema) -> Result<()> {
    let visible = provider::visible_schema(&table.dataset);
    for (index, field) in given.fields().iter().enumerate() {
        let name = field.name();
        let Ok(stored) = visible.field_with_name(name) else { return Err(no_column(name, table.name())) };
        if given.fields()[..index].iter().any(|earlier| earlier.name() == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        if is_computed(table, name) {
            return Err(non_default(name, table.name()));
        }
        if !computed::holds_computed(stored) && !castable(field, stored) {
            let (from, to) = (field.data_type(), stored.data_type());
            let message = format!("column \"{name}\" is of type {to} but the rows are of type {from}");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
    }
    Ok(())
}

/// A struct may lack fields that take NULL.
fn castable(given: &Field, stored: &Field) -> bool {
    if let (DataType::Struct(from), DataType::Struct(to)) = (given.data_type(), stored.data_type()) {
        let known = from.iter().all(|field| to.find(field.name()).is_some_and(|(_, to)| castable(field, to)));
        return known && to.iter().all(|field| field.is_nullable() || from.find(field.name()).is_some());
    }
    given.data_type() == stored.data_type() || arrow::compute::can_cast_types(given.data_type(), stored.data_type())
}

fn ensure_keys(table: &BoundTable, merge: &MergeSpec, given: &Schema) -> Result<()> {
    if merge.on.is_empty() {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "merge needs at least one column to compare"));
    }
    match merge.on.iter().find(|column| given.field_with_name(column).is_err()) {
        Some(column) => Err(no_column(column, table.name()).hint("The rows must have the columns that are compared.")),
        None => Ok(()),
    }
}
