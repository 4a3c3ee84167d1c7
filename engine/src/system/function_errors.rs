//! Rows that a Function failed on: SHOW ERRORS, the relation `system.public.function_errors`, and the table function
//! `function_errors('<table>')`.
//!
//! An expression column has none: an expression that fails on a row fails its refresh. The text of an error may hold
//! values of the row, so all three show a table's errors to those who may read the table.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use lancegate_auth::{Privilege, Requirement};
use lancegate_catalog::{Catalog, RowFailure, Table, TableKind};
use lancegate_sql::ObjectName;

use super::columns::{self, borrowed, count, made};
use super::{SystemContext, SystemRelation};
use crate::error::{Result, SqlError};
use crate::sql::plan::Planner;
use crate::sql::resolve::{no_relation, object_of};

type Column = columns::Column<ErrorRow>;

/// The most records that one listing reads: all that are kept of a table.
const ROWS_MAX: u32 = 100_000;

/// One failed row, or the rows of a fragment that have no record of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorRow {
    table_name: String,
    failure: RowFailure,
}

/// Returns the columns of SHOW ERRORS.
pub fn columns() -> Vec<Column> {
    vec![
        Column::text("job_id", |row| made(row.failure.job_id)).not_null(),
        Column::text("column", |row| borrowed(&row.failure.column)).not_null(),
        Column::text("function", |row| borrowed(&row.failure.function)),
        Column::text("function_version", |row| borrowed(&row.failure.function_version)),
        Column::bigint("table_version", |row| count(row.failure.table_version)),
        Column::bigint("fragment_id", |row| count(row.failure.fragment_id)),
        // NULL for rows whose detail was capped.
        Column::bigint("row_offset", |row| row.failure.row_offset.map(i64::from)),
        Column::bigint("row_id", |row| row.failure.row_id.and_then(count)),
        Column::text("error_type", |row| borrowed(&row.failure.error_type)),
        Column::text("error_message", |row| borrowed(&row.failure.error_message)),
        Column::timestamp("created_at", |row| Some(row.failure.created_at)).not_null(),
        Column::bigint("attempts", |row| count(row.failure.attempts)),
    ]
}

fn relation_columns() -> Vec<Column> {
    let mut all = vec![Column::text("table_name", |row| borrowed(&row.table_name)).not_null()];
    all.extend(columns());
    all
}

/// Returns the schema of SHOW ERRORS.
pub fn schema() -> SchemaRef {
    columns::schema(&columns())
}

/// Reads the records of one table, newest job first.
///
/// # Errors
/// If the metadata store cannot be read.
pub async fn read(catalog: &Catalog, table: &Table, job: Option<&str>, limit: u32) -> Result<Vec<ErrorRow>> {
    let failures = catalog.row_failures(table.id, job, limit).await?;
    let path = &table.name.namespace;
    let table_name = match path.is_empty() {
        true => table.name.name.clone(),
        false => format!("{}.{}", path.join("$"), table.name.name),
    };
    Ok(failures.into_iter().map(|failure| ErrorRow { table_name: table_name.clone(), failure }).collect())
}

fn limit_of(limit: Option<usize>) -> u32 {
    limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(ROWS_MAX).min(ROWS_MAX)
}

/// The relation: errors of the tables of the connected database that the caller may read.
#[derive(Debug)]
pub struct FunctionErrors;

impl SystemRelation for FunctionErrors {
    fn name(&self) -> &'static str {
        "function_errors"
    }

    fn schema(&self) -> SchemaRef {
        columns::schema(&relation_columns())
    }

    fn requirements(&self) -> Vec<Requirement> {
        // Tables that the caller may not read are left out.
        Vec::new()
    }

    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move {
            let engine = &context.engine;
            let mut rows = Vec::new();
            for table in context.caller.names.tables(engine.catalog(), &context.caller.database, None).await? {
                let readable =
                    table.kind == TableKind::Table && context.allows(Privilege::Select, object_of(&table)).await?;
                if readable {
                    rows.extend(read(engine.catalog(), &table, None, limit_of(limit)).await?);
                }
            }
            rows.truncate(limit.unwrap_or(usize::MAX));
            columns::batch(&relation_columns(), &rows)
        })
    }
}

/// The rows of `function_errors('<table>')`.
#[derive(Debug)]
pub struct ErrorsOfTable {
    /// The table as the caller spells it.
    pub table: ObjectName,
}

impl SystemRelation for ErrorsOfTable {
    fn name(&self) -> &'static str {
        "function_errors"
    }

    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn requirements(&self) -> Vec<Requirement> {
        // What is needed is known once the name is looked up.
        Vec::new()
    }

    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move {
            let found = Planner::system(context).find(&self.table).await?;
            let table = found.ok_or_else(|| no_relation(&self.table))?;
            let object = object_of(&table);
            if !context.allows(Privilege::Select, object).await? {
                return Err(SqlError::permission_denied("table", &table.name.name));
            }
            columns::batch(&columns(), &read(context.engine.catalog(), &table, None, limit_of(limit)).await?)
        })
    }
}
