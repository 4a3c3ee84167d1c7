//! What is there: catalogs, schemas, tables, keys, types, and what the server can do.
//!
//! Names come from the statements and catalog relations that SQL has, in the caller's
//! session, so he sees here what he sees there. A catalog is a database.

use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::sql::metadata::{SqlInfoDataBuilder, XdbcTypeInfoDataBuilder};
use arrow_flight::sql::{Command, CommandGetDbSchemas, CommandGetTables};
use futures::TryStreamExt as _;
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::exec::Outcome;
use lancegate_engine::sqlstate::SqlState;
use lancegate_sql::ObjectName;

use super::caller::Caller;
use super::server_info;
use super::statement::{Source, columns};

/// The kinds of relations, by PostgreSQL's letter.
const TABLE_TYPES: [(&str, &str); 3] = [("r", "TABLE"), ("v", "VIEW"), ("m", "MATERIALIZED VIEW")];
/// The most names that one answer has.
const NAMES_MAX: usize = 100_000;

/// Returns the columns of a command's answer, `None` if it is none about what is there.
pub(super) fn schema(command: &Command) -> Option<SchemaRef> {
    Some(match command {
        Command::CommandGetCatalogs(asked) => asked.into_builder().schema(),
        Command::CommandGetDbSchemas(asked) => asked.clone().into_builder().schema(),
        Command::CommandGetTables(asked) => asked.clone().into_builder().schema(),
        Command::CommandGetTableTypes(asked) => asked.into_builder().schema(),
        Command::CommandGetSqlInfo(_) => Arc::new(SqlInfoDataBuilder::schema().clone()),
        Command::CommandGetXdbcTypeInfo(_) => XdbcTypeInfoDataBuilder::new().schema(),
        Command::CommandGetPrimaryKeys(_) => primary_keys(),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => foreign_keys(),
        _ => return None,
    })
}

/// Answers a command about what is there.
///
/// # Errors
/// What the statements behind it answer.
pub(super) async fn answer(caller: &mut Caller, command: Command) -> Result<RecordBatch> {
    let built = match command {
        Command::CommandGetCatalogs(asked) => {
            let mut builder = asked.into_builder();
            databases(caller, None).await?.into_iter().for_each(|name| builder.append(name));
            builder.build()
        }
        Command::CommandGetDbSchemas(asked) => return schemas(caller, asked).await,
        Command::CommandGetTables(asked) => return tables(caller, asked).await,
        Command::CommandGetTableTypes(asked) => {
            let mut builder = asked.into_builder();
            TABLE_TYPES.iter().for_each(|(_, name)| builder.append(name));
            builder.build()
        }
        Command::CommandGetSqlInfo(asked) => asked.into_builder(&server_info::info()?).build(),
        Command::CommandGetXdbcTypeInfo(asked) => asked.into_builder(&server_info::types()?).build(),
        // There are no keys: a row may be there twice.
        Command::CommandGetPrimaryKeys(_) => Ok(RecordBatch::new_empty(primary_keys())),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => Ok(RecordBatch::new_empty(foreign_keys())),
        _ => return Err(SqlError::internal("not a command about what is there")),
    };
    built.map_err(SqlError::internal)
}

/// Returns the databases that the caller may know, or the one that is asked for.
async fn databases(caller: &mut Caller, only: Option<&str>) -> Result<Vec<String>> {
    let mut names: Vec<String> = select(caller, "SHOW DATABASES").await?.into_iter().filter_map(first).collect();
    names.retain(|name| only.is_none_or(|only| only == name));
    Ok(names)
}

fn first(row: Vec<String>) -> Option<String> {
    row.into_iter().next()
}

/// Looks at a database from a session in it.
async fn in_database(caller: &mut Caller, database: &str, sql: &str) -> Result<Vec<Vec<String>>> {
    let home = std::mem::replace(&mut caller.session.database, database.to_owned());
    let rows = select(caller, sql).await;
    caller.session.database = home;
    rows
}

async fn schemas(caller: &mut Caller, asked: CommandGetDbSchemas) -> Result<RecordBatch> {
    let sql = format!(
        "SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname LIKE {}",
        pattern(asked.db_schema_filter_pattern.as_deref())
    );
    let only = asked.catalog.clone();
    let mut builder = asked.into_builder();
    for database in databases(caller, only.as_deref()).await? {
        for name in in_database(caller, &database, &sql).await?.into_iter().filter_map(first) {
            builder.append(&database, name);
        }
    }
    builder.build().map_err(SqlError::internal)
}

async fn tables(caller: &mut Caller, asked: CommandGetTables) -> Result<RecordBatch> {
    let kinds = TABLE_TYPES
        .iter()
        .filter(|(_, name)| asked.table_types.is_empty() || asked.table_types.iter().any(|t| t == name));
    let kinds: Vec<String> = kinds.map(|(letter, _)| format!("'{letter}'")).collect();
    let mut builder = asked.clone().into_builder();
    if kinds.is_empty() {
        return builder.build().map_err(SqlError::internal);
    }
    let sql = format!(
        "SELECT n.nspname, c.relname, c.relkind FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ({}) AND n.nspname LIKE {} AND c.relname LIKE {}",
        kinds.join(", "),
        pattern(asked.db_schema_filter_pattern.as_deref()),
        pattern(asked.table_name_filter_pattern.as_deref()),
    );
    for database in databases(caller, asked.catalog.as_deref()).await? {
        for row in in_database(caller, &database, &sql).await? {
            let [schema, name, letter] = row.as_slice() else { continue };
            let Some((_, kind)) = TABLE_TYPES.iter().find(|(known, _)| known == letter) else { continue };
            let columns = match asked.include_schema {
                true => shown_columns(caller, &database, ObjectName::in_schema(schema, name)).await?,
                false => Arc::new(Schema::empty()),
            };
            builder.append(&database, schema, name, kind, &columns).map_err(SqlError::internal)?;
        }
    }
    builder.build().map_err(SqlError::internal)
}

/// Returns the columns that the caller may read; none of what he may not, and of what
/// has gone meanwhile or cannot be read.
async fn shown_columns(caller: &mut Caller, database: &str, name: ObjectName) -> Result<SchemaRef> {
    let source = Source::parse(&caller.engine, format!("SELECT * FROM {name}")).await?;
    let home = std::mem::replace(&mut caller.session.database, database.to_owned());
    let plan = caller.plan(&source, &[]).await;
    caller.session.database = home;
    match plan {
        Ok(plan) => Ok(Arc::new(super::rows::told(&columns(&plan)))),
        Err(error) if caller.ctx.cancel.is_cancelled() => Err(error),
        Err(_) => Ok(Arc::new(Schema::empty())),
    }
}

/// Returns a pattern of LIKE as a literal; everything if there is none.
fn pattern(given: Option<&str>) -> String {
    format!("'{}'", given.unwrap_or("%").replace('\'', "''"))
}

/// Runs a query and returns its values as text; a row with a NULL is left out.
async fn select(caller: &mut Caller, sql: &str) -> Result<Vec<Vec<String>>> {
    let source = Source::parse(&caller.engine, sql.to_owned()).await?;
    let plan = caller.plan(&source, &[]).await?;
    let Outcome::Rows { mut stream, .. } = caller.execute(&plan, Vec::new()).await? else {
        return Err(SqlError::internal("a query has no rows"));
    };
    let mut rows = Vec::new();
    while let Some(batch) = stream.try_next().await.map_err(SqlError::from)? {
        let texts =
            batch.columns().iter().map(|column| cast(column, &DataType::Utf8)).collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let values = texts.iter().map(|texts| {
                let texts = texts.as_string::<i32>();
                texts.is_valid(row).then(|| texts.value(row).to_owned())
            });
            rows.extend(values.collect::<Option<Vec<_>>>());
        }
        if rows.len() > NAMES_MAX {
            let message = format!("there are more than {NAMES_MAX} names");
            return Err(SqlError::new(SqlState::parse("54000"), message).hint("Ask for fewer with a pattern."));
        }
    }
    Ok(rows)
}

/// The columns of `CommandGetPrimaryKeys` (FlightSql.proto).
fn primary_keys() -> SchemaRef {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    Arc::new(Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        text("key_name", true),
        Field::new("key_sequence", DataType::Int32, false),
    ]))
}

/// The columns of `CommandGetExportedKeys` and its kin (FlightSql.proto).
fn foreign_keys() -> SchemaRef {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    Arc::new(Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("fk_key_name", true),
        text("pk_key_name", true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ]))
}
