//! CREATE INDEX, DROP INDEX, SHOW INDEXES, and the same for the client library.
//!
//! An index belongs to a table and its name is unique there. Making or dropping one
//! takes OWNERSHIP of the table, listing them SELECT.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use lance::Dataset;
use lancegate_auth::{Privilege, Requirement, decide};
use lancegate_catalog::{Table, TableKind};
use lancegate_sql::ast::{CatalogListing, ListingScope};
use lancegate_sql::{FieldPath, ObjectName, OptionValue, SqlOption, ast};
use serde_json::{Map, Value};

use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::exec::Engine;
use crate::session::Session;
use crate::sql::resolve::{BoundTable, ensure_object_name, object_of, schema_of};
use crate::sqlstate::SqlState;
use crate::storage::StorageError;
use crate::storage::index::{self, Indexed, METHODS, SpecError};

pub use crate::storage::index::{IndexRow, IndexSpec, ScalarKind, VectorKind, VectorSpec};

/// PostgreSQL's limit on names, which the names that it makes up keep to.
const NAME_BYTES_MAX: usize = 63;

/// An index that shall be made.
#[derive(Debug, Clone)]
pub struct IndexRequest {
    /// The table.
    pub table: ObjectName,
    /// The branch; `None` and `main` are the main one.
    pub branch: Option<String>,
    /// The column, as a Lance path.
    pub column: String,
    /// The name; `<column>_idx` without it.
    pub name: Option<String>,
    /// Whether an index of the name is replaced.
    pub replace: bool,
    /// The kind and its parameters.
    pub spec: IndexSpec,
}

impl IndexRequest {
    /// Reads method and options as the client library sends them.
    ///
    /// # Errors
    /// 42704 for a method, 42601 for an option, 22023 for a value.
    pub fn spec(method: &str, options: &Map<String, Value>) -> Result<IndexSpec> {
        IndexSpec::read(method, options).map_err(SqlError::from)
    }
}

/// A bound statement about indexes.
#[derive(Debug, Clone)]
pub enum IndexPlan {
    /// CREATE INDEX.
    Create(Box<CreateIndexPlan>),
    /// DROP INDEX.
    Drop(DropIndexPlan),
    /// SHOW INDEXES.
    List(Box<ListIndexesPlan>),
    /// Reading an index into memory.
    Prewarm {
        /// The table.
        table: Box<BoundTable>,
        /// The index.
        name: String,
    },
}

/// A bound CREATE INDEX.
#[derive(Debug, Clone)]
pub struct CreateIndexPlan {
    /// The table, on the branch.
    pub table: BoundTable,
    /// The branch.
    pub branch: Option<String>,
    /// The column, as a Lance path.
    pub column: String,
    /// The name.
    pub name: IndexName,
    /// Whether an index of the name is no error.
    pub if_not_exists: bool,
    /// Whether an index of the name is replaced.
    pub replace: bool,
    /// The kind.
    pub spec: IndexSpec,
}

/// Where the name of an index comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexName {
    /// It was given.
    Given(String),
    /// As PostgreSQL makes it: `<table>_<column>_idx`.
    Postgres,
    /// As the client library makes it: `<column>_idx`.
    Lance,
}

/// A bound DROP INDEX.
#[derive(Debug, Clone)]
pub struct DropIndexPlan {
    /// Tables, branches and indexes that exist.
    pub indexes: Vec<(BoundTable, Option<String>, String)>,
    /// Names that IF EXISTS passed over.
    pub missing: Vec<String>,
}

/// A bound SHOW INDEXES.
#[derive(Debug, Clone)]
pub struct ListIndexesPlan {
    /// The table at the version that is asked about.
    pub table: BoundTable,
    /// Only names like this.
    pub like: Option<String>,
    /// Only names after this one.
    pub after: Option<String>,
    /// The most rows.
    pub limit: Option<u32>,
    schema: SchemaRef,
}

impl ListIndexesPlan {
    fn new(table: BoundTable) -> Self {
        let text = |name| Field::new(name, DataType::Utf8, true);
        let number = |name| Field::new(name, DataType::Int64, true);
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC")));
        let schema = Schema::new(vec![
            text("name"),
            text("column_name"),
            text("index_type"),
            number("indexed_rows"),
            number("unindexed_rows"),
            number("size_bytes"),
            Field::new("created_at", time, true),
            text("details"),
        ]);
        Self { table, like: None, after: None, limit: None, schema: Arc::new(schema) }
    }
}

impl IndexPlan {
    /// Returns the columns of the answer.
    pub fn columns(&self) -> Option<&SchemaRef> {
        match self {
            Self::List(list) => Some(&list.schema),
            Self::Create(_) | Self::Drop(_) | Self::Prewarm { .. } => None,
        }
    }

    /// Returns what is needed: OWNERSHIP to make or drop an index, SELECT to see it.
    pub fn requirements(&self) -> Vec<Requirement> {
        match self {
            Self::Create(create) => vec![Requirement::new(Privilege::Ownership, create.table.object())],
            Self::Drop(drop) => {
                let owned = |table: &BoundTable| Requirement::new(Privilege::Ownership, table.object());
                drop.indexes.iter().map(|(table, _, _)| owned(table)).collect()
            }
            Self::List(list) => vec![Requirement::new(Privilege::Select, list.table.object())],
            Self::Prewarm { table, name: _ } => vec![Requirement::new(Privilege::Select, table.object())],
        }
    }

    /// Returns the command word of a change.
    pub fn writes(&self) -> Option<&'static str> {
        match self {
            Self::Create(_) => Some("CREATE INDEX"),
            Self::Drop(_) => Some("DROP INDEX"),
            Self::List(_) | Self::Prewarm { .. } => None,
        }
    }
}

impl Engine {
    /// Binds the making of an index, as the client library asks for it.
    ///
    /// # Errors
    /// 42P01, 42809 for a view, 42703, 42704 for a method that does not fit the column
    /// or a branch that does not exist.
    pub async fn plan_create_index(&self, session: &Session, request: &IndexRequest) -> Result<Plan> {
        let planner = Planner::new(self.clone(), session, "", &[]);
        let table = planner.table(&request.table).await?;
        let table = planner.at(table, request.branch.as_deref(), None).await?;
        let (column, spec) = fitted(&table.dataset, &request.column, &request.spec)?;
        let name = match &request.name {
            Some(name) => IndexName::Given(checked(name)?),
            None => IndexName::Lance,
        };
        Ok(Plan::Index(Box::new(IndexPlan::Create(Box::new(CreateIndexPlan {
            table,
            branch: request.branch.clone().filter(|branch| branch != "main"),
            column: column.path,
            name,
            if_not_exists: false,
            replace: request.replace,
            spec,
        })))))
    }

    /// Binds the dropping of an index.
    ///
    /// # Errors
    /// 42P01, 42809; 42704 if there is no such index.
    pub async fn plan_drop_index(
        &self,
        session: &Session,
        table: &ObjectName,
        branch: Option<&str>,
        name: &str,
    ) -> Result<Plan> {
        let planner = Planner::new(self.clone(), session, "", &[]);
        let table = planner.at(planner.table(table).await?, branch, None).await?;
        if !has_index(&table.dataset, name).await? {
            return Err(no_index(name));
        }
        let branch = branch.filter(|branch| *branch != "main").map(str::to_owned);
        let drop = DropIndexPlan { indexes: vec![(table, branch, name.to_owned())], missing: Vec::new() };
        Ok(Plan::Index(Box::new(IndexPlan::Drop(drop))))
    }

    /// Binds a list of the indexes of a table; [`Engine::indexes`] answers it.
    ///
    /// # Errors
    /// 42P01, 42809, 42704 for a branch, 22023 for a version.
    pub async fn plan_list_indexes(
        &self,
        session: &Session,
        table: &ObjectName,
        branch: Option<&str>,
        version: Option<u64>,
    ) -> Result<Plan> {
        let planner = Planner::new(self.clone(), session, "", &[]);
        let table = planner.at(planner.table(table).await?, branch, version).await?;
        Ok(Plan::Index(Box::new(IndexPlan::List(Box::new(ListIndexesPlan::new(table))))))
    }

    /// Binds reading an index into memory.
    ///
    /// # Errors
    /// As [`Engine::plan_drop_index`].
    pub async fn plan_prewarm_index(&self, session: &Session, table: &ObjectName, name: &str) -> Result<Plan> {
        let planner = Planner::new(self.clone(), session, "", &[]);
        let table = planner.table(table).await?;
        if !has_index(&table.dataset, name).await? {
            return Err(no_index(name));
        }
        let plan = IndexPlan::Prewarm { table: Box::new(table), name: name.to_owned() };
        Ok(Plan::Index(Box::new(plan)))
    }
}

impl Planner {
    /// Binds CREATE INDEX.
    ///
    /// # Errors
    /// 0A000 for UNIQUE and several columns, 42704 for a method, 42601 and 22023 for
    /// options, 42703, 42P01, 42809.
    pub(super) async fn plan_create_index(&self, create: &ast::CreateIndex) -> Result<Plan> {
        if create.unique {
            return Err(SqlError::not_supported("unique indexes are not supported")
                .hint("Lance enforces no constraint but NOT NULL."));
        }
        let spec = match &create.method {
            Some(method) => IndexSpec::read(method, &options(&create.options)).map_err(|error| {
                let position = create.options.iter().find(|option| error.names(&option.name));
                SqlError::from(error).at(position.and_then(|option| option.position.get()))
            })?,
            None if create.options.is_empty() => IndexSpec::Auto,
            None => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "options of an index need its method")
                    .hint("CREATE INDEX ON <table> USING <method> (<column>) WITH (…)."));
            }
        };
        let [column] = create.columns.as_slice() else {
            let method = create.method.as_deref().unwrap_or("btree");
            let message = format!("access method \"{method}\" does not support multicolumn indexes");
            return Err(SqlError::not_supported(message));
        };
        // A refresh replaces the rows, and with them the index.
        let table = self.changeable_table(&create.table).await?;
        let (column, spec) = fitted(&table.dataset, &column.to_lance(), &spec)?;
        let name = match &create.name {
            Some(name) => IndexName::Given(checked(name.as_str())?),
            None => IndexName::Postgres,
        };
        Ok(Plan::Index(Box::new(IndexPlan::Create(Box::new(CreateIndexPlan {
            table,
            branch: None,
            column: column.path,
            name,
            if_not_exists: create.if_not_exists,
            replace: false,
            spec,
        })))))
    }

    /// Binds DROP INDEX.
    ///
    /// # Errors
    /// 42704 for an index that does not exist, 42725 for one that several tables have.
    pub(super) async fn plan_drop_index(&self, drop: &ast::DropIndex) -> Result<Plan> {
        let mut plan = DropIndexPlan { indexes: Vec::new(), missing: Vec::new() };
        for path in &drop.indexes {
            match self.index(path).await? {
                Some((table, name)) => plan.indexes.push((table, None, name)),
                None if drop.if_exists => plan.missing.push(path.to_string()),
                None => return Err(no_index(&path.parts().join("."))),
            }
        }
        Ok(Plan::Index(Box::new(IndexPlan::Drop(plan))))
    }

    /// Binds SHOW INDEXES.
    ///
    /// # Errors
    /// 42P01, 42809.
    pub(super) async fn plan_show_indexes(&self, listing: &CatalogListing) -> Result<Plan> {
        let Some(ListingScope::Object(name)) = &listing.scope else {
            return Err(SqlError::not_supported("SHOW INDEXES needs a table").hint("SHOW INDEXES IN <table>."));
        };
        let mut plan = ListIndexesPlan::new(self.table(name).await?);
        plan.like = listing.like.clone();
        plan.after = listing.name_after.clone().or_else(|| listing.page_token.clone());
        plan.limit = listing.limit;
        Ok(Plan::Index(Box::new(IndexPlan::List(Box::new(plan)))))
    }

    /// Finds an index by `index`, `table.index` or `schema.index`, with or without
    /// schema and database in front of the table.
    async fn index(&self, path: &FieldPath) -> Result<Option<(BoundTable, String)>> {
        let Some((name, home)) = path.parts().split_last() else { return Ok(None) };
        let relation = match home {
            [table] => Some(ObjectName::bare(table)),
            [schema, table] => Some(ObjectName::in_schema(schema, table)),
            [database, schema, table] => {
                Some(ObjectName { database: Some(database.clone()), schema: Some(schema.clone()), name: table.clone() })
            }
            [] => None,
            _ => return Ok(None),
        };
        if let Some(relation) = &relation
            && let Some(record) = self.find(relation).await?
        {
            let table = self.open_indexed(record).await?;
            return Ok(match table {
                Some(table) if has_index(&table.dataset, name).await? => Some((table, name.clone())),
                _ => None,
            });
        }
        let schemas = match home {
            [] => self.existing(self.caller.creation_path()).await?,
            [schema] => vec![schema.clone()],
            _ => return Ok(None),
        };
        self.index_in(&schemas, name).await
    }

    /// Finds an index in the tables of schemas, the caller's own tables first.
    async fn index_in(&self, schemas: &[String], name: &str) -> Result<Option<(BoundTable, String)>> {
        let mut found = Vec::new();
        let names = &self.caller.names;
        let grants = names.grants(self.engine.catalog()).await?;
        for record in names.tables(self.engine.catalog(), &self.caller.database, None).await? {
            if !schemas.contains(&schema_of(&record.name.namespace)) {
                continue;
            }
            let owner = Requirement::new(Privilege::Ownership, object_of(&record));
            let owned = decide(&self.caller.principal, &grants, &owner).allowed();
            // A table whose files are gone has no index to drop.
            let Ok(Some(table)) = self.open_indexed(record).await else { continue };
            if has_index(&table.dataset, name).await? {
                found.push((owned, table));
            }
        }
        if found.iter().any(|(owned, _)| *owned) {
            found.retain(|(owned, _)| *owned);
        }
        match found.len() {
            0 | 1 => Ok(found.pop().map(|(_, table)| (table, name.to_owned()))),
            _ => {
                let tables: Vec<&str> = found.iter().map(|(_, table)| table.name()).collect();
                Err(SqlError::new(SqlState::AMBIGUOUS_OBJECT, format!("index name \"{name}\" is ambiguous"))
                    .detail(format!("Tables {} have an index of that name.", tables.join(", ")))
                    .hint("DROP INDEX <table>.<index>."))
            }
        }
    }

    async fn open_indexed(&self, record: Table) -> Result<Option<BoundTable>> {
        match record.kind {
            TableKind::View => Ok(None),
            TableKind::Table | TableKind::MaterializedView => self.open(record).await.map(Some),
        }
    }
}

/// Returns the column of an index and the kind that fits it.
///
/// # Errors
/// 42703; 42704 if the method does not take values of the column's type.
pub(crate) fn fitted(dataset: &Dataset, path: &str, spec: &IndexSpec) -> Result<(Indexed, IndexSpec)> {
    let column = index::column(dataset, path, spec)?;
    let data_type = column.field.data_type();
    let chosen = match spec {
        IndexSpec::Auto => index::chosen(data_type),
        spec => index::fits(spec, data_type).then(|| spec.clone()),
    };
    match chosen {
        Some(spec) => Ok((column, spec)),
        None => {
            let name = crate::system::objects::type_name(&column.field);
            let method = spec.method().map_or_else(|| "of any method".to_owned(), |name| format!("of method {name}"));
            let message = format!("column \"{}\" of type {name} cannot have an index {method}", column.names.join("."));
            let hint = match data_type {
                DataType::Utf8 | DataType::LargeUtf8 => {
                    "Text takes btree, bitmap, ngram, zonemap, bloom_filter and fts."
                }
                DataType::FixedSizeList(..) => "Vectors take ivf_flat, ivf_sq, ivf_pq, ivf_rq and ivf_hnsw_*.",
                DataType::List(_) | DataType::LargeList(_) => "Lists take label_list, lists of texts also fts.",
                _ => "Single values take btree, bitmap, zonemap and bloom_filter.",
            };
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).hint(hint))
        }
    }
}

/// Returns the name that PostgreSQL makes for an index, one that is not taken.
pub(crate) fn postgres_name(table: &str, column: &[String], taken: &[String]) -> String {
    let base = format!("{table}_{}", column.join("_"));
    let mut number = 0_u32;
    loop {
        let suffix = if number == 0 { "_idx".to_owned() } else { format!("_idx{number}") };
        let mut end = base.len().min(NAME_BYTES_MAX - suffix.len());
        while !base.is_char_boundary(end) {
            end -= 1;
        }
        let name = format!("{}{suffix}", &base[..end]);
        if !taken.contains(&name) {
            return name;
        }
        number += 1;
    }
}

/// Returns a 42704.
pub(crate) fn no_index(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("index \"{name}\" does not exist"))
}

fn checked(name: &str) -> Result<String> {
    if name.len() > 128 || name.is_empty() || name.chars().any(char::is_control) {
        ensure_object_name(name)?;
    }
    Ok(name.to_owned())
}

async fn has_index(dataset: &Dataset, name: &str) -> Result<bool> {
    let names = index::names(dataset).await.map_err(SqlError::from)?;
    Ok(names.iter().any(|(known, _)| known == name))
}

fn options(options: &[SqlOption]) -> Map<String, Value> {
    let value = |value: &OptionValue| match value {
        OptionValue::Boolean(value) => Value::Bool(*value),
        OptionValue::String(text) | OptionValue::Number(text) | OptionValue::Word(text) => Value::String(text.clone()),
    };
    options.iter().map(|option| (option.name.clone(), value(&option.value))).collect()
}

impl SpecError {
    fn names(&self, option: &str) -> bool {
        match self {
            Self::Method(_) => false,
            Self::Unknown { name, .. } | Self::Value { name, .. } => name == option,
        }
    }
}

impl From<SpecError> for SqlError {
    fn from(error: SpecError) -> Self {
        let message = error.to_string();
        match error {
            SpecError::Method(_) => {
                Self::new(SqlState::UNDEFINED_OBJECT, message).hint(format!("Methods are {}.", METHODS.join(", ")))
            }
            SpecError::Unknown { supported, .. } if supported.is_empty() => {
                Self::new(SqlState::SYNTAX_ERROR, message).hint("The method has no options.")
            }
            SpecError::Unknown { supported, .. } => Self::new(SqlState::SYNTAX_ERROR, message)
                .hint(format!("Supported options are {}.", supported.join(", "))),
            SpecError::Value { name, takes, .. } => Self::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .detail(format!("Option \"{name}\" takes {takes}.")),
        }
    }
}

/// Maps what Lance says while an index is built.
pub(crate) fn refused(error: StorageError) -> SqlError {
    let own = matches!(&error, StorageError::Lance(lance::Error::Index { .. }));
    let mapped = SqlError::from(error);
    let code = match () {
        () if own && mapped.message.contains("already exists") => SqlState::DUPLICATE_TABLE,
        () if own && mapped.code == SqlState::INTERNAL_ERROR => SqlState::INVALID_PARAMETER_VALUE,
        () => mapped.code,
    };
    SqlError { code, ..mapped }
}

#[cfg(test)]
mod tests {
    use super::postgres_name;

    #[test]
    fn names_are_made_as_postgresql_makes_them() {
        let column = |name: &str| vec![name.to_owned()];
        assert_eq!(postgres_name("docs", &column("id"), &[]), "docs_id_idx");
        assert_eq!(postgres_name("docs", &column("id"), &["docs_id_idx".to_owned()]), "docs_id_idx1");
        assert_eq!(postgres_name("docs", &["s".to_owned(), "n".to_owned()], &[]), "docs_s_n_idx");
        let long = postgres_name(&"ä".repeat(60), &column("id"), &[]);
        assert!(long.len() <= 63 && long.ends_with("_idx"), "{long}");
    }
}
