//! The changes of names.

use lancegate_auth::Object;
use serde_json::json;

use super::super::comments;
use super::super::grants;
use super::super::rows::micros;
use super::super::secrets;
use super::super::sequences;
use super::super::writer::Tx;
use super::{find_table, find_table_by_id};
use crate::Timestamp;
use crate::error::{CatalogError, EntityKind, Result};
use crate::ids::TableId;
use crate::object::{
    Database, Namespace, ObjectChange, Properties, Table, TableChange, TableName, ensure_name, namespace_to_text,
    object_of,
};

pub(in crate::store) async fn apply(tx: &mut Tx, change: ObjectChange) -> Result<()> {
    tx.names_changed();
    match change {
        ObjectChange::CreateDatabase(database) => create_database(tx, database).await,
        ObjectChange::DropDatabase { name } => drop_database(tx, &name).await,
        ObjectChange::CreateNamespace(namespace) => create_namespace(tx, namespace).await,
        ObjectChange::AlterNamespace { database, path, properties } => {
            alter_namespace(tx, &database, &path, &properties).await
        }
        ObjectChange::DropNamespace { database, path } => drop_namespace(tx, &database, &path).await,
        ObjectChange::CreateTable(table) => create_table(tx, &table).await,
        ObjectChange::RenameTable { id, to } => rename_table(tx, id, &to).await,
        ObjectChange::AlterTable { id, change } => alter_table(tx, id, change).await,
        ObjectChange::DropTable { id } => drop_table(tx, id).await,
        ObjectChange::Comment { object, part, comment } => comments::set(tx, &object, &part, comment.as_deref()).await,
        ObjectChange::SetSequence { table, field, next } => sequences::set(tx, table, field, next).await,
        ObjectChange::MoveSequence { table, from, to } => sequences::give(tx, table, from, to).await,
        ObjectChange::CreateSecret(secret) => {
            ensure_database(tx, &secret.name.database).await?;
            ensure_namespace(tx, &secret.name.database, &secret.name.namespace).await?;
            secrets::insert(tx, &secret).await
        }
        ObjectChange::DropSecret(name) => secrets::remove(tx, &name).await,
        ObjectChange::Grant(grant) => grants::insert(tx, &grant).await.map(drop),
        // As PostgreSQL, it takes away what is not there without a word.
        ObjectChange::Revoke(grant) => match grants::remove(tx, &grant).await {
            Err(CatalogError::NotFound { .. }) => Ok(()),
            removed => removed,
        },
    }
}

async fn create_database(tx: &mut Tx, database: Database) -> Result<()> {
    ensure_name(EntityKind::Database, &database.name)?;
    let inserted = sqlx::query(
        "INSERT INTO databases (name, location, created_at) VALUES ($1, $2, $3)
         ON CONFLICT (name) DO NOTHING",
    )
    .bind(&database.name)
    .bind(&database.location)
    .bind(micros(database.created_at))
    .execute(tx.connection())
    .await?;
    if inserted.rows_affected() == 0 {
        return Err(CatalogError::already_exists(EntityKind::Database, database.name));
    }
    Ok(())
}

async fn drop_database(tx: &mut Tx, name: &str) -> Result<()> {
    ensure_database(tx, name).await?;
    let inhabitants: i64 = sqlx::query_scalar(
        "SELECT (SELECT count(*) FROM namespaces WHERE database_name = $1)
            + (SELECT count(*) FROM tables WHERE database_name = $1)
            + (SELECT count(*) FROM secrets WHERE database_name = $1)
            + (SELECT count(*) FROM functions WHERE database_name = $1 AND dropped_at IS NULL)",
    )
    .bind(name)
    .fetch_one(tx.connection())
    .await?;
    if inhabitants > 0 {
        return Err(CatalogError::NotEmpty { kind: EntityKind::Database, name: name.to_owned() });
    }
    sqlx::query("DELETE FROM databases WHERE name = $1").bind(name).execute(tx.connection()).await?;
    let root = Object::Namespace { database: name.to_owned(), path: Vec::new() };
    for object in [root, Object::Database(name.to_owned())] {
        comments::remove(tx, &object.to_string()).await?;
        grants::remove_object(tx, &object).await?;
    }
    Ok(())
}

async fn create_namespace(tx: &mut Tx, namespace: Namespace) -> Result<()> {
    let Namespace { database, path, properties, created_at } = namespace;
    ensure_database(tx, &database).await?;
    ensure_below_root(&path)?;
    for depth in 1..path.len() {
        insert_namespace(tx, &database, &path[..depth], &Properties::new(), created_at).await?;
    }
    if !insert_namespace(tx, &database, &path, &properties, created_at).await? {
        return Err(CatalogError::already_exists(EntityKind::Namespace, path.join("$")));
    }
    Ok(())
}

/// Returns whether the namespace is new.
async fn insert_namespace(
    tx: &mut Tx,
    database: &str,
    path: &[String],
    properties: &Properties,
    created_at: Timestamp,
) -> Result<bool> {
    let inserted = sqlx::query(
        "INSERT INTO namespaces (database_name, path, properties, created_at)
         VALUES ($1, $2, $3, $4) ON CONFLICT (database_name, path) DO NOTHING",
    )
    .bind(database)
    .bind(namespace_to_text(path)?)
    .bind(json!(properties).to_string())
    .bind(micros(created_at))
    .execute(tx.connection())
    .await?;
    Ok(inserted.rows_affected() == 1)
}

async fn alter_namespace(tx: &mut Tx, database: &str, path: &[String], properties: &Properties) -> Result<()> {
    let changed = sqlx::query("UPDATE namespaces SET properties = $1 WHERE database_name = $2 AND path = $3")
        .bind(json!(properties).to_string())
        .bind(database)
        .bind(namespace_to_text(path)?)
        .execute(tx.connection())
        .await?;
    if changed.rows_affected() == 0 {
        return Err(CatalogError::not_found(EntityKind::Namespace, path.join("$")));
    }
    Ok(())
}

async fn drop_namespace(tx: &mut Tx, database: &str, path: &[String]) -> Result<()> {
    ensure_below_root(path)?;
    ensure_namespace(tx, database, path).await?;
    let text = namespace_to_text(path)?;
    // Compares a prefix, not a pattern: a component may contain `%` or `_`.
    let inhabitants: i64 = sqlx::query_scalar(
        "SELECT (SELECT count(*) FROM namespaces WHERE database_name = $1
                AND substr(path, 1, length($2) + 1) = $2 || '$')
            + (SELECT count(*) FROM tables WHERE database_name = $1 AND namespace = $2)
            + (SELECT count(*) FROM secrets WHERE database_name = $1 AND namespace = $2)
            + (SELECT count(*) FROM functions
                WHERE database_name = $1 AND namespace = $2 AND dropped_at IS NULL)",
    )
    .bind(database)
    .bind(&text)
    .fetch_one(tx.connection())
    .await?;
    if inhabitants > 0 {
        return Err(CatalogError::NotEmpty { kind: EntityKind::Namespace, name: text });
    }
    sqlx::query("DELETE FROM namespaces WHERE database_name = $1 AND path = $2")
        .bind(database)
        .bind(&text)
        .execute(tx.connection())
        .await?;
    let object = Object::Namespace { database: database.to_owned(), path: path.to_owned() };
    comments::remove(tx, &object.to_string()).await?;
    grants::remove_object(tx, &object).await
}

async fn create_table(tx: &mut Tx, table: &Table) -> Result<()> {
    ensure_free(tx, &table.name).await?;
    sqlx::query(
        "INSERT INTO tables (table_id, kind, database_name, namespace, name, location,
            definition, comment, owner, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(table.id.to_string())
    .bind(table.kind.as_str())
    .bind(&table.name.database)
    .bind(namespace_to_text(&table.name.namespace)?)
    .bind(&table.name.name)
    .bind(&table.location)
    .bind(&table.definition)
    .bind(&table.comment)
    .bind(&table.owner)
    .bind(micros(table.created_at))
    .execute(tx.connection())
    .await?;
    Ok(())
}

async fn rename_table(tx: &mut Tx, id: TableId, to: &TableName) -> Result<()> {
    let table = existing_table(tx, id).await?;
    if table.name == *to {
        return Err(CatalogError::already_exists(EntityKind::Table, to));
    }
    if table.name.database != to.database {
        return Err(CatalogError::InvalidName { kind: EntityKind::Table, name: to.to_string() });
    }
    ensure_free(tx, to).await?;
    sqlx::query("UPDATE tables SET namespace = $1, name = $2 WHERE table_id = $3")
        .bind(namespace_to_text(&to.namespace)?)
        .bind(&to.name)
        .bind(id.to_string())
        .execute(tx.connection())
        .await?;
    grants::rename_object(tx, &table.object(), &object_of(table.kind, to)).await
}

async fn alter_table(tx: &mut Tx, id: TableId, change: TableChange) -> Result<()> {
    let table = existing_table(tx, id).await?;
    sqlx::query("UPDATE tables SET comment = $1, definition = $2, owner = $3 WHERE table_id = $4")
        .bind(change.comment.unwrap_or(table.comment))
        .bind(change.definition.or(table.definition))
        .bind(change.owner.unwrap_or(table.owner))
        .bind(id.to_string())
        .execute(tx.connection())
        .await?;
    Ok(())
}

async fn drop_table(tx: &mut Tx, id: TableId) -> Result<()> {
    let table = existing_table(tx, id).await?;
    sqlx::query("DELETE FROM tables WHERE table_id = $1").bind(id.to_string()).execute(tx.connection()).await?;
    comments::remove(tx, &id.to_string()).await?;
    sequences::remove(tx, id).await?;
    grants::remove_object(tx, &table.object()).await
}

async fn existing_table(tx: &mut Tx, id: TableId) -> Result<Table> {
    find_table_by_id(tx.connection(), id).await?.ok_or_else(|| CatalogError::not_found(EntityKind::Table, id))
}

/// Refuses a name that is taken or has nowhere to be.
async fn ensure_free(tx: &mut Tx, name: &TableName) -> Result<()> {
    ensure_name(EntityKind::Table, &name.name)?;
    ensure_database(tx, &name.database).await?;
    ensure_namespace(tx, &name.database, &name.namespace).await?;
    match find_table(tx.connection(), name).await? {
        Some(_) => Err(CatalogError::already_exists(EntityKind::Table, name)),
        None => Ok(()),
    }
}

async fn ensure_database(tx: &mut Tx, name: &str) -> Result<()> {
    let found: i64 = sqlx::query_scalar("SELECT count(*) FROM databases WHERE name = $1")
        .bind(name)
        .fetch_one(tx.connection())
        .await?;
    if found == 0 {
        return Err(CatalogError::not_found(EntityKind::Database, name));
    }
    Ok(())
}

async fn ensure_namespace(tx: &mut Tx, database: &str, path: &[String]) -> Result<()> {
    if path.is_empty() {
        return Ok(());
    }
    let text = namespace_to_text(path)?;
    let found: i64 = sqlx::query_scalar("SELECT count(*) FROM namespaces WHERE database_name = $1 AND path = $2")
        .bind(database)
        .bind(&text)
        .fetch_one(tx.connection())
        .await?;
    if found == 0 {
        return Err(CatalogError::not_found(EntityKind::Namespace, text));
    }
    Ok(())
}

/// The root is neither created nor dropped.
fn ensure_below_root(path: &[String]) -> Result<()> {
    if path.is_empty() {
        return Err(CatalogError::InvalidName { kind: EntityKind::Namespace, name: String::new() });
    }
    Ok(())
}
