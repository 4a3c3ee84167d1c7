//! Runs CREATE, ALTER and DROP FUNCTION, SHOW FUNCTIONS and DESCRIBE FUNCTION.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use lancegate_auth::{Principal, Privilege, Requirement, decide};
use lancegate_catalog::{FunctionVersion, TableKind};
use lancegate_functions::types::print_type;

use self::create::Creation;
use crate::error::{Result, SqlError};
use crate::exec::{Engine, Outcome};
use crate::session::{NoticeSeverity, Session, StatementContext};
use crate::sql::plan::functions::{FunctionPlan, definition_of, object_of, signature, text_columns};
use crate::sqlstate::SqlState;
use crate::storage::computed;

mod create;
mod document;

/// Returns a version of a Function as the document that the `lancedb` SDK reads.
///
/// # Errors
/// If its definition is of a newer version of this software.
pub fn function_document(function: &FunctionVersion) -> Result<serde_json::Value> {
    Ok(document::document(function, &definition_of(function)?))
}

/// Runs one statement.
pub(super) async fn run(
    engine: &Engine,
    session: &mut Session,
    plan: &FunctionPlan,
    ctx: &StatementContext,
) -> Result<Outcome> {
    match plan {
        FunctionPlan::Create { name, definition, new, answer, schema } => {
            let creation = Creation { name, definition, new: *new, answer, schema: schema.as_ref() };
            creation.run(engine, session, ctx).await
        }
        FunctionPlan::Disable { function, disabled } => {
            engine.catalog().disable_function(function.name.clone(), function.version, *disabled).await?;
            Ok(Outcome::Done("ALTER FUNCTION".to_owned()))
        }
        FunctionPlan::Drop { function: None, .. } => {
            let notice = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, "function does not exist, skipping");
            session.notify(NoticeSeverity::Notice, notice);
            Ok(Outcome::Done("DROP FUNCTION".to_owned()))
        }
        FunctionPlan::Drop { function: Some(function), cascade } => {
            if !cascade && let Some((table, column)) = user_of(engine, function).await? {
                let (name, version) = (&function.name.name, function.version);
                let message =
                    format!("cannot drop version {version} of function {name} because other objects depend on it");
                return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                    .detail(format!("Column {column} of table {table} is filled by it."))
                    .hint("With cascade = true the columns keep their values and cannot be refreshed any more."));
            }
            engine.catalog().drop_function(function.name.clone(), function.version, crate::clock::now()).await?;
            Ok(Outcome::Done("DROP FUNCTION".to_owned()))
        }
        FunctionPlan::Show { database, .. } => {
            Ok(Outcome::batch(listed(engine, &session.principal, database).await?, "SHOW"))
        }
        FunctionPlan::Describe { function, schema } => {
            Ok(Outcome::batch(rows(std::slice::from_ref(function), schema)?, "DESCRIBE"))
        }
    }
}

/// Returns the versions of Functions of a database that may be used: what SHOW FUNCTIONS and `system.public.functions` list.
///
/// # Errors
/// If the metadata store cannot be read.
pub(crate) async fn listed(engine: &Engine, principal: &Principal, database: &str) -> Result<RecordBatch> {
    let grants = engine.catalog().grants().await?;
    let mut functions = engine.catalog().functions(database).await?;
    functions.retain(|function| {
        let usage = Requirement::new(Privilege::Usage, object_of(&function.name));
        decide(principal, &grants, &usage).allowed()
    });
    rows(&functions, &text_columns())
}

fn rows(functions: &[FunctionVersion], schema: &arrow::datatypes::SchemaRef) -> Result<RecordBatch> {
    let mut rows: Vec<[String; 9]> = Vec::new();
    for function in functions {
        let definition = definition_of(function)?;
        let mode = serde_json::to_value(definition.mode).map_err(SqlError::internal)?;
        rows.push([
            serde_json::json!(function.name.namespace).to_string(),
            function.name.name.clone(),
            function.version.to_string(),
            signature(&definition.parameters),
            print_type(&definition.output.0),
            mode.as_str().unwrap_or_default().to_owned(),
            function.owner.clone(),
            function.created_at.to_rfc3339(),
            format!("sha256:{}", definition.digest()),
        ]);
    }
    let column = |index: usize| Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row[index]))) as ArrayRef;
    Ok(RecordBatch::try_new(Arc::clone(schema), (0..9).map(column).collect())?)
}

/// Returns a table and a column that a version fills.
async fn user_of(engine: &Engine, function: &FunctionVersion) -> Result<Option<(String, String)>> {
    for table in engine.catalog().tables(&function.name.database, None).await? {
        if table.kind != TableKind::Table {
            continue;
        }
        let Ok(dataset) = engine.store().open(&table.location).await else { continue };
        for column in computed::columns(&dataset)? {
            let uses = column.function.as_ref().is_some_and(|call| {
                call.name == function.name.name
                    && call.namespace == function.name.namespace
                    && call.version == function.version
            });
            if uses {
                return Ok(Some((table.name.name.clone(), column.name)));
            }
        }
    }
    Ok(None)
}
