//! CREATE TABLE, CREATE TABLE AS, DROP TABLE.

use std::collections::HashSet;

use arrow::datatypes::{Field, Schema};
use lancegate_catalog::{Table, TableKind, TableName};
use lancegate_sql::ObjectName;
use lancegate_sql::ast;
use sqlparser::ast::{CreateTable, Expr, IndexColumn, OnCommit, Statement as Native, TableConstraint};

use super::query::QueryPlan;
use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::session::temp;
use crate::sql::resolve::no_relation;
use crate::sql::types;
use crate::sqlstate::SqlState;
use crate::storage::provider::is_system_column;
use crate::storage::{defaults, key};

pub(super) mod column;

/// A bound CREATE TABLE.
#[derive(Debug, Clone)]
pub struct CreateTablePlan {
    /// The new name.
    pub name: TableName,
    /// The columns.
    pub schema: Schema,
    /// Whether an existing table is no error.
    pub if_not_exists: bool,
    /// Expressions of generated columns, declared right after.
    pub generated: Vec<(String, String)>,
    /// Numbered columns that do not begin with 1, and what they begin with.
    pub sequences: Vec<(String, i64)>,
    /// The columns of the primary key, which is recorded and not enforced.
    pub primary_key: Vec<String>,
    /// What the end of a transaction does with a temporary table.
    pub temporary: Option<OnCommit>,
}

/// A bound CREATE TABLE AS.
#[derive(Debug, Clone)]
pub struct CreateTableAsPlan {
    /// The new name.
    pub name: TableName,
    /// The rows.
    pub source: QueryPlan,
    /// The columns.
    pub schema: Schema,
    /// Whether an existing table is no error.
    pub if_not_exists: bool,
    /// False after WITH NO DATA.
    pub with_data: bool,
    /// What the end of a transaction does with a temporary table.
    pub temporary: Option<OnCommit>,
}

/// A bound DROP TABLE.
#[derive(Debug, Clone)]
pub struct DropTablePlan {
    /// The tables that exist.
    pub tables: Vec<Table>,
    /// Names that IF EXISTS passed over.
    pub missing: Vec<String>,
    /// Views that go with them.
    pub cascaded: Vec<Table>,
}

impl Planner {
    /// Binds CREATE TABLE.
    ///
    /// # Errors
    /// 3F000, 42701, 42704, 0A000 for constraints that are not kept.
    pub(super) async fn plan_create_table(&self, create: &ast::CreateTable) -> Result<Plan> {
        let (name, temporary) = self.created(&create.table, &create.native).await?;
        let mut fields = Vec::new();
        let mut generated = Vec::new();
        let mut sequences = Vec::new();
        let mut keys = primary_keys(&create.native.constraints)?;
        for column in create.columns() {
            let column = column::of(column)?;
            let name = column.field.name().clone();
            if column.is_key {
                keys.push(Key { name: column.key_name.clone(), columns: vec![name.clone()] });
            }
            if let Some(text) = defaults::default_of(&column.field) {
                self.ensure_default(&column.field, text).await?;
            }
            sequences.extend(column.start.map(|start| (name.clone(), start)));
            match column.generated {
                Some(expression) => generated.push((name, expression)),
                None => fields.push(column.field),
            }
        }
        ensure_columns(fields.iter().map(|field| field.name().as_str()))?;
        if fields.is_empty() {
            return Err(SqlError::not_supported("tables must have at least one stored column"));
        }
        let key = only_key(keys, &name.name)?;
        let fields = with_key(fields, &key)?;
        let primary_key = key.columns;
        if temporary.is_some() && !generated.is_empty() {
            return Err(SqlError::not_supported("computed columns of temporary tables are not supported"));
        }
        if temporary.is_some() && fields.iter().any(|field| defaults::numbering_of(field).is_some()) {
            return Err(SqlError::not_supported("serial and identity columns of temporary tables are not supported"));
        }
        let (schema, if_not_exists) = (Schema::new(fields), create.if_not_exists());
        let plan = CreateTablePlan { name, schema, if_not_exists, generated, sequences, primary_key, temporary };
        Ok(Plan::CreateTable(Box::new(plan)))
    }

    /// Binds CREATE TABLE AS.
    ///
    /// # Errors
    /// As CREATE TABLE and SELECT.
    pub(super) async fn plan_create_table_as(&self, create: &ast::CreateTableAs) -> Result<Plan> {
        let (name, temporary) = self.created(&create.table, &create.native).await?;
        let query = create.native.query.clone().ok_or_else(|| SqlError::internal("CREATE TABLE AS has no query"))?;
        let source = self.bind_query(Native::Query(query)).await?;
        let names: Vec<&str> = create.native.columns.iter().map(|column| column.name.value.as_str()).collect();
        if names.len() > source.columns.fields().len() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
        }
        let fields: Vec<Field> = source
            .columns
            .fields()
            .iter()
            .enumerate()
            .map(|(index, field)| {
                let name = names.get(index).copied().unwrap_or(field.name());
                let data_type = types::stored(field.data_type());
                Field::new(name, data_type, true)
            })
            .collect();
        ensure_columns(fields.iter().map(|field| field.name().as_str()))?;
        Ok(Plan::CreateTableAs(Box::new(CreateTableAsPlan {
            name,
            source,
            schema: Schema::new(fields),
            if_not_exists: create.native.if_not_exists,
            with_data: create.with_data,
            temporary,
        })))
    }

    /// Returns the name of a new table, and what happens to a temporary one.
    async fn created(&self, name: &ObjectName, native: &CreateTable) -> Result<(TableName, Option<OnCommit>)> {
        let in_temporary = name.schema.as_deref().is_some_and(temp::names_temporary);
        if native.temporary || in_temporary {
            let on_commit = native.on_commit.unwrap_or(OnCommit::PreserveRows);
            return Ok((self.temporary_name(name)?, Some(on_commit)));
        }
        if native.on_commit.is_some() {
            let message = "ON COMMIT can only be used on temporary tables";
            return Err(SqlError::new(SqlState::parse("42P16"), message));
        }
        Ok((self.creation_name(name).await?, None))
    }

    /// Binds DROP TABLE.
    ///
    /// # Errors
    /// 42P01, 42809 for a view.
    pub(super) async fn plan_drop_table(&self, drop: &ast::DropTable) -> Result<Plan> {
        let mut plan = DropTablePlan { tables: Vec::new(), missing: Vec::new(), cascaded: Vec::new() };
        for name in &drop.tables {
            match self.find(name).await? {
                Some(record) if record.kind == TableKind::Table => plan.tables.push(record),
                Some(record) => {
                    let message = format!("\"{}\" is not a table", name.name);
                    let hint = match record.kind {
                        TableKind::MaterializedView => "Use DROP MATERIALIZED VIEW to remove a materialized view.",
                        TableKind::Table | TableKind::View => "Use DROP VIEW to remove a view.",
                    };
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint));
                }
                None if drop.if_exists => plan.missing.push(name.name.clone()),
                None => {
                    let mut error = no_relation(name);
                    error.message = format!("table \"{}\" does not exist", name.name);
                    return Err(error);
                }
            }
        }
        plan.cascaded = self.dependents(&plan.tables, drop.behavior).await?;
        Ok(Plan::DropTable(Box::new(plan)))
    }
}

/// Refuses names that occur twice or that Lance keeps for itself.
///
/// # Errors
/// 42701, 42602.
pub(crate) fn ensure_columns<'a>(names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        if is_system_column(name) {
            let message = format!("column name \"{name}\" conflicts with a system column name");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        if name.is_empty() || name.contains('.') || name == "?column?" {
            return Err(SqlError::new(SqlState::INVALID_NAME, format!("invalid column name \"{name}\""))
                .hint("Give the column a name with AS."));
        }
    }
    Ok(())
}

/// A primary key that is declared.
#[derive(Default)]
struct Key {
    name: Option<String>,
    columns: Vec<String>,
}

/// Returns the primary keys of a list of constraints.
///
/// # Errors
/// 0A000 for any other constraint.
fn primary_keys(constraints: &[TableConstraint]) -> Result<Vec<Key>> {
    let names = |constraint: &TableConstraint| {
        let TableConstraint::PrimaryKey(key) = constraint else {
            return Err(SqlError::not_supported(format!("table constraint {constraint} is not supported"))
                .hint("Lance enforces no constraint but NOT NULL. A PRIMARY KEY is recorded."));
        };
        let name = |column: &IndexColumn| match &column.column.expr {
            Expr::Identifier(ident) => Ok(lancegate_sql::Ident::from_native(ident).into_string()),
            other => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{other} is no column of a primary key"))),
        };
        let columns = key.columns.iter().map(name).collect::<Result<_>>()?;
        let name = key.name.as_ref().map(|name| lancegate_sql::Ident::from_native(name).into_string());
        Ok(Key { name, columns })
    };
    constraints.iter().map(names).collect()
}

/// Returns the one key that a table may have.
///
/// # Errors
/// 42P16 for several.
fn only_key(keys: Vec<Key>, table: &str) -> Result<Key> {
    match <[Key; 1]>::try_from(keys) {
        Ok([key]) => Ok(key),
        Err(keys) if keys.is_empty() => Ok(Key::default()),
        Err(_) => {
            let message = format!("multiple primary keys for table \"{table}\" are not allowed");
            Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
        }
    }
}

/// Records a primary key as Lance does. Its columns take no NULL.
///
/// # Errors
/// 42703, 42701, 0A000 for a column that has parts.
fn with_key(mut fields: Vec<Field>, key: &Key) -> Result<Vec<Field>> {
    let columns = &key.columns;
    for (index, name) in columns.iter().enumerate() {
        if columns[..index].contains(name) {
            let message = format!("column \"{name}\" appears twice in primary key constraint");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        let field = fields.iter_mut().find(|field| field.name() == name).ok_or_else(|| {
            let message = format!("column \"{name}\" named in key does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        if field.data_type().is_nested() {
            return Err(SqlError::not_supported(format!("column \"{name}\" cannot be part of a primary key")));
        }
        *field = key::part(field, index + 1);
        if let Some(name) = key.name.as_ref().filter(|_| index == 0) {
            *field = key::named(field, name);
        }
    }
    Ok(fields)
}
