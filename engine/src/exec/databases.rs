//! Runs CREATE, ALTER and DROP of databases and schemas.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use chrono::Utc;
use futures::future::BoxFuture;
use lancegate_auth::Object;
use lancegate_catalog::{Database, Namespace, ObjectChange, Properties};

use crate::error::{Result, SqlError};
use crate::exec::{DEFAULT_DATABASE, Engine, Outcome, session, tables};
use crate::session::{NoticeSeverity, Session, TransactionStatus};
use crate::sql::plan::DatabasePlan;
use crate::sql::plan::databases::Contents;
use crate::sql::resolve::schema_of;
use crate::sqlstate::SqlState;

/// Runs one statement about databases or schemas.
pub(super) async fn run(engine: &Engine, session: &mut Session, plan: &DatabasePlan) -> Result<Outcome> {
    match plan {
        DatabasePlan::CreateDatabase { name, if_not_exists, schema } => {
            let status = create_database(engine, session, name, *if_not_exists).await?;
            let row = [["CREATE DATABASE"], [name.as_str()], [status]];
            let columns = row.map(|text| Arc::new(StringArray::from(text.to_vec())) as _);
            let batch = RecordBatch::try_new(Arc::clone(schema), columns.to_vec())?;
            Ok(Outcome::batch(batch, "CREATE DATABASE"))
        }
        DatabasePlan::DropDatabase { name, cascade, missing } => {
            if *missing {
                let message = format!("database \"{name}\" does not exist, skipping");
                session.notify(NoticeSeverity::Notice, SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
            } else {
                drop_database(engine, session, name, *cascade).await?;
            }
            Ok(Outcome::Done("DROP DATABASE".to_owned()))
        }
        DatabasePlan::CreateSchema { database, parent, path, if_not_exists, properties } => {
            create_schema(engine, session, database, parent, path, *if_not_exists, properties).await?;
            Ok(Outcome::Done("CREATE SCHEMA".to_owned()))
        }
        DatabasePlan::AlterSchema { database, path, properties } => {
            let change = ObjectChange::AlterNamespace {
                database: database.clone(),
                path: path.clone(),
                properties: properties.clone(),
            };
            engine.catalog().apply(vec![change]).await?;
            session::changed(session, &schema_of(path));
            Ok(Outcome::Done("ALTER SCHEMA".to_owned()))
        }
        DatabasePlan::DropSchemas { schemas, contents } => {
            drop_schemas(engine, session, schemas, contents).await?;
            Ok(Outcome::Done("DROP SCHEMA".to_owned()))
        }
    }
}

async fn create_database(engine: &Engine, session: &Session, name: &str, if_not_exists: bool) -> Result<&'static str> {
    if engine.catalog().database(name).await?.is_some() {
        if if_not_exists {
            return Ok("already_exists");
        }
        let message = format!("database \"{name}\" already exists");
        return Err(SqlError::new(SqlState::DUPLICATE_DATABASE, message));
    }
    let database = Database { name: name.to_owned(), location: name.to_owned(), created_at: Utc::now() };
    let root = Object::Namespace { database: name.to_owned(), path: Vec::new() };
    let changes = vec![
        ObjectChange::CreateDatabase(database),
        tables::ownership(&session.principal, Object::Database(name.to_owned())),
        tables::ownership(&session.principal, root),
    ];
    engine.catalog().apply(changes).await?;
    Ok("created")
}

async fn drop_database(engine: &Engine, session: &Session, name: &str, cascade: bool) -> Result<()> {
    if name == session.database {
        return Err(SqlError::new(SqlState::OBJECT_IN_USE, "cannot drop the currently open database"));
    }
    if name == DEFAULT_DATABASE {
        let message = format!("cannot drop database \"{name}\" because it is the root of the deployment");
        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
    }
    if cascade {
        let contents = engine.catalog().tables(name, None).await?;
        tables::drop_tables(engine, session.principal.user.as_str(), &contents).await?;
        for function in engine.catalog().functions(name).await? {
            engine.catalog().drop_function(function.name, function.version, crate::clock::now()).await?;
        }
        let secrets = engine.catalog().secrets(Some(name)).await?;
        engine
            .catalog()
            .apply(secrets.into_iter().map(|secret| ObjectChange::DropSecret(secret.name)).collect())
            .await?;
        let mut namespaces = engine.catalog().namespaces(name).await?;
        // Children go before their parents.
        namespaces.sort_by_key(|namespace| std::cmp::Reverse(namespace.path.len()));
        let changes = namespaces
            .into_iter()
            .map(|namespace| ObjectChange::DropNamespace { database: namespace.database, path: namespace.path });
        engine.catalog().apply(changes.collect()).await?;
    }
    engine.catalog().apply(vec![ObjectChange::DropDatabase { name: name.to_owned() }]).await?;
    Ok(())
}

/// Drops what is in the schemas, and then the schemas. Whoever stops it in between finds the rest as it was, and may
/// drop it again.
fn drop_schemas<'a>(
    engine: &'a Engine,
    session: &'a mut Session,
    schemas: &'a [(String, Vec<String>)],
    contents: &'a Contents,
) -> BoxFuture<'a, Result<()>> {
    let Contents { relations, functions, secrets } = contents;
    Box::pin(async move {
        if session.transaction != TransactionStatus::Idle && !functions.is_empty() {
            let message = "DROP SCHEMA of a schema with Functions cannot run inside a transaction block";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        tables::drop_with(engine, session, &[], relations).await?;
        for (name, version) in functions {
            engine.catalog().drop_function(name.clone(), *version, crate::clock::now()).await?;
        }
        let secrets = secrets.iter().cloned().map(ObjectChange::DropSecret);
        let schemas = schemas
            .iter()
            .map(|(database, path)| ObjectChange::DropNamespace { database: database.clone(), path: path.clone() });
        engine.change_names(session, secrets.chain(schemas).collect()).await
    })
}

async fn create_schema(
    engine: &Engine,
    session: &Session,
    database: &str,
    parent: &[String],
    path: &[String],
    if_not_exists: bool,
    properties: &Properties,
) -> Result<()> {
    if session.names.has_schema(engine.catalog(), database, path).await? {
        let message = format!("schema \"{}\" already exists", schema_of(path));
        if !if_not_exists {
            return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message));
        }
        let notice = SqlError::new(SqlState::DUPLICATE_SCHEMA, format!("{message}, skipping"));
        session.notify(NoticeSeverity::Notice, notice);
        return Ok(());
    }
    let mut changes = Vec::new();
    for length in parent.len() + 1..=path.len() {
        let own = path[..length].to_vec();
        let object = Object::Namespace { database: database.to_owned(), path: own.clone() };
        let properties = if length == path.len() { properties.clone() } else { Properties::new() };
        let namespace = Namespace { database: database.to_owned(), path: own, properties, created_at: Utc::now() };
        changes.push(ObjectChange::CreateNamespace(namespace));
        changes.push(tables::ownership(&session.principal, object));
    }
    engine.change_names(session, changes).await
}
