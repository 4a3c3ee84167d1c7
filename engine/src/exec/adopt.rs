//! Lance tables that are in a folder and not in the metadata store.
//!
//! Other writers make tables, too: `*.lance` folders of a database's root are
//! tables of `public` under their folder name, and the Lance directory manifest
//! lists those of nested namespaces. They are adopted when a name is not found
//! and when names are listed. A folder that a record points to is that table,
//! whatever it is called now.

use std::collections::HashSet;

use chrono::Utc;
use futures::TryStreamExt;
use lance_io::object_store::ObjectStore;
use lancegate_auth::{Grant, Object, Privilege, Subject, UserName};
use lancegate_catalog::{Database, Namespace, ObjectChange, Properties, Table, TableId, TableKind, TableName};
use object_store::path::Path as StorePath;

use crate::error::{Result, SqlError};
use crate::exec::{DEFAULT_DATABASE, Engine};
use crate::sql::resolve::ensure_object_name;
use crate::storage::StorageError;

mod manifest;

/// Says that a folder is about to be deleted.
const DROPPED_MARK: &str = ".lancegate-dropped";

impl Engine {
    /// Prepares the store: the first database and its owner at the first start,
    /// then every table that is found in the databases' folders.
    ///
    /// # Errors
    /// If the metadata store or the data root fails.
    pub async fn start(&self, first_user: &UserName) -> Result<()> {
        if self.catalog().database(DEFAULT_DATABASE).await?.is_none() {
            found(self, first_user).await?;
        }
        self.sweep_temporary().await?;
        for database in self.catalog().databases().await? {
            sweep(self, &database).await?;
            all(self, &database.name).await?;
        }
        Ok(())
    }
}

/// Makes the database at the data root and its owner.
async fn found(engine: &Engine, owner: &UserName) -> Result<()> {
    let database = Database { name: DEFAULT_DATABASE.to_owned(), location: String::new(), created_at: Utc::now() };
    let grant =
        |privilege, object| ObjectChange::Grant(Grant { subject: Subject::User(owner.clone()), privilege, object });
    let root = Object::Namespace { database: database.name.clone(), path: Vec::new() };
    let changes = vec![
        ObjectChange::CreateDatabase(database.clone()),
        grant(Privilege::Ownership, Object::Database(database.name)),
        grant(Privilege::Ownership, root),
        grant(Privilege::Usage, Object::System),
        grant(Privilege::Operate, Object::System),
        grant(Privilege::CreateDatabase, Object::System),
    ];
    Ok(engine.catalog().apply(changes).await?)
}

/// Adopts every table of a database that is new.
///
/// # Errors
/// If the folder cannot be listed or the metadata store fails.
pub(crate) async fn all(engine: &Engine, database: &str) -> Result<()> {
    let Some(database) = engine.catalog().database(database).await? else { return Ok(()) };
    let known: HashSet<String> =
        engine.catalog().tables(&database.name, None).await?.into_iter().map(|table| table.location).collect();
    for folder in folders(engine, &database.location).await? {
        let Some(name) = folder.strip_suffix(".lance") else { continue };
        let location = below(&database.location, &folder);
        let is_refused = ensure_object_name(name).is_err() || leads_out(engine, &location);
        if known.contains(&location) || is_refused || is_marked(engine, &location).await? {
            continue;
        }
        let name = TableName { database: database.name.clone(), namespace: Vec::new(), name: name.to_owned() };
        adopt(engine, name, location).await?;
    }
    manifest::adopt(engine, &database, &known).await
}

/// Looks for one table that the metadata store does not know.
///
/// # Errors
/// As [`all`].
pub(crate) async fn one(engine: &Engine, name: &TableName) -> Result<Option<Table>> {
    if ensure_object_name(&name.name).is_err() {
        return Ok(None);
    }
    let Some(database) = engine.catalog().database(&name.database).await? else { return Ok(None) };
    if !name.namespace.is_empty() {
        all(engine, &name.database).await?;
        return Ok(engine.catalog().table(name).await?);
    }
    let location = below(&database.location, &format!("{}.lance", name.name));
    if leads_out(engine, &location) || !is_table(engine, &location).await? {
        return Ok(None);
    }
    adopt(engine, name.clone(), location).await
}

/// Records a table that is at a location under its name, unless it is another's, somebody
/// is making or deleting it, or it is none.
async fn adopt(engine: &Engine, name: TableName, location: String) -> Result<Option<Table>> {
    let _adopting = engine.places().adopting.lock().await;
    if let Some(table) = engine.catalog().table(&name).await? {
        return Ok(Some(table));
    }
    let Some(_place) = engine.places().take(&location) else { return Ok(None) };
    if !is_table(engine, &location).await? || is_marked(engine, &location).await? {
        return Ok(None);
    }
    let tables = engine.catalog().tables(&name.database, None).await?;
    if tables.iter().any(|table| table.location == location) {
        return Ok(None);
    }
    record(engine, name, location).await.map(Some)
}

/// Records a table under its name, owned by the owner of its database.
async fn record(engine: &Engine, name: TableName, location: String) -> Result<Table> {
    let grants = engine.catalog().grants().await?;
    let owner = grants.owner_of(&Object::Database(name.database.clone())).cloned();
    let now = Utc::now();
    let table = Table {
        id: TableId::new(now),
        kind: TableKind::Table,
        name,
        location,
        definition: None,
        comment: None,
        owner: match &owner {
            Some(Subject::User(user)) => user.as_str().to_owned(),
            _ => String::new(),
        },
        created_at: now,
    };
    let (table, new) = engine.catalog().adopt_table(table, owner).await?;
    if new {
        tracing::info!(table = %table.name, "adopted a table found in storage");
    }
    Ok(table)
}

/// Adds a namespace that the directory manifest knows.
async fn adopt_namespace(engine: &Engine, database: &str, path: Vec<String>) -> Result<()> {
    if path.is_empty() || engine.catalog().namespace(database, &path).await?.is_some() {
        return Ok(());
    }
    let object = Object::Namespace { database: database.to_owned(), path: path.clone() };
    let namespace =
        Namespace { database: database.to_owned(), path, properties: Properties::new(), created_at: Utc::now() };
    let grants = engine.catalog().grants().await?;
    let mut changes = vec![ObjectChange::CreateNamespace(namespace)];
    if let Some(subject) = grants.owner_of(&Object::Database(database.to_owned())).cloned() {
        changes.push(ObjectChange::Grant(Grant { subject, privilege: Privilege::Ownership, object }));
    }
    Ok(engine.catalog().apply(changes).await?)
}

/// Deletes folders that belong to no table: those that were marked before a crash, and
/// those that only this software makes and in which there is no version to read.
async fn sweep(engine: &Engine, database: &Database) -> Result<()> {
    let known: HashSet<String> =
        engine.catalog().tables(&database.name, None).await?.into_iter().map(|table| table.location).collect();
    for folder in folders(engine, &database.location).await? {
        let location = below(&database.location, &folder);
        if !folder.ends_with(".lance") {
            continue;
        }
        match (is_marked(engine, &location).await?, known.contains(&location)) {
            (true, true) => unmark(engine, &location).await?,
            (true, false) => delete_files(engine, &location).await?,
            // One with versions may be a table whose record an older copy of the metadata
            // store does not have.
            (false, false) if is_unique(&folder) && !is_table(engine, &location).await? => {
                delete_files(engine, &location).await?;
            }
            (false, _) => {}
        }
    }
    Ok(())
}

/// Returns the name of a folder that nothing else can have.
pub(super) fn unique(file: &str) -> String {
    format!("{file}${}.lance", ulid::Ulid::new().to_string().to_lowercase())
}

/// Returns whether a folder has a name that [`unique`] made.
fn is_unique(folder: &str) -> bool {
    let id = folder.strip_suffix(".lance").and_then(|name| name.rsplit_once('$')).map(|(_, id)| id);
    id.is_some_and(|id| id.len() == ulid::ULID_LEN && ulid::Ulid::from_string(id).is_ok())
}

/// Marks what a statement has written into the folder of a table that was dropped
/// meanwhile: the next start deletes it. Not at once, because the place may be another
/// table's by then, whose mark a start removes.
pub(super) async fn mark_leavings(engine: &Engine, table: &Table) {
    if table.location.is_empty() {
        return;
    }
    let Ok(known) = engine.catalog().tables(&table.name.database, None).await else { return };
    let taken = known.iter().any(|known| known.location == table.location);
    if !taken && occupied(engine, &table.location).await.is_ok_and(|occupied| occupied) {
        mark_dropped(engine, &table.location).await;
    }
}

/// Takes the mark from the folder of a table that has its name.
///
/// # Errors
/// If the storage fails.
pub(super) async fn unmark(engine: &Engine, location: &str) -> Result<()> {
    let (store, path) = resolve(engine, location).await?;
    Ok(store.delete(&path.join(DROPPED_MARK)).await.map_err(StorageError::from)?)
}

/// Marks the folder of a table whose name is about to go, or that has none yet.
pub(super) async fn mark_dropped(engine: &Engine, location: &str) {
    let marked = async {
        let (store, path) = resolve(engine, location).await?;
        store.put(&path.join(DROPPED_MARK), b"").await.map_err(StorageError::from)?;
        Ok::<_, SqlError>(())
    };
    if let Err(error) = marked.await {
        tracing::warn!(%error, location, "a table to be dropped could not be marked");
    }
}

/// Deletes the folder of a table, the mark last: what a crash or a failure leaves is still
/// marked.
///
/// # Errors
/// If it cannot be deleted.
pub(super) async fn delete_files(engine: &Engine, location: &str) -> Result<()> {
    let (store, path) = resolve(engine, location).await?;
    if let Ok(inside) = store.list_with_delimiter(Some(&path)).await {
        for folder in inside.common_prefixes {
            store.remove_dir_all(folder).await.map_err(StorageError::from)?;
        }
        let files = inside.objects.into_iter().map(|file| file.location);
        for file in files.filter(|file| file.filename() != Some(DROPPED_MARK)) {
            store.delete(&file).await.map_err(StorageError::from)?;
        }
    }
    Ok(store.remove_dir_all(path).await.map_err(StorageError::from)?)
}

/// Returns whether anything is at a location.
///
/// # Errors
/// If the storage cannot be asked.
pub(super) async fn occupied(engine: &Engine, location: &str) -> Result<bool> {
    let (store, path) = resolve(engine, location).await?;
    match store.read_dir(path).await {
        Ok(entries) => Ok(!entries.is_empty()),
        Err(lance::Error::NotFound { .. }) => Ok(false),
        Err(error) if error.to_string().contains("No such file") => Ok(false),
        Err(error) => Err(StorageError::from(error).into()),
    }
}

/// Joins a location and a name below it.
pub(crate) fn below(location: &str, name: &str) -> String {
    match location {
        "" => name.to_owned(),
        folder => format!("{}/{name}", folder.trim_end_matches('/')),
    }
}

/// Returns whether a location is not below the root of the data: a link, or a path of a
/// manifest, that leads elsewhere. Who may write into the folder must not be able to
/// show or delete files that only the gateway may read.
fn leads_out(engine: &Engine, location: &str) -> bool {
    let store = engine.store();
    if location.split('/').any(|part| part == "..") {
        return true;
    }
    if location.contains("://") {
        return !location.starts_with(&store.uri(""));
    }
    let Some(root) = store.local_root() else { return false };
    match (root.canonicalize(), root.join(location).canonicalize()) {
        (Ok(root), Ok(folder)) => !folder.starts_with(root),
        // What is not there leads nowhere.
        _ => false,
    }
}

async fn is_table(engine: &Engine, location: &str) -> Result<bool> {
    occupied(engine, &below(location, "_versions")).await
}

async fn is_marked(engine: &Engine, location: &str) -> Result<bool> {
    let (store, path) = resolve(engine, location).await?;
    Ok(store.exists(&path.join(DROPPED_MARK)).await.map_err(StorageError::from)?)
}

async fn folders(engine: &Engine, location: &str) -> Result<Vec<String>> {
    let (store, path) = resolve(engine, location).await?;
    match store.read_dir(path).await {
        Ok(entries) => Ok(entries),
        Err(lance::Error::NotFound { .. }) => Ok(Vec::new()),
        Err(error) if error.to_string().contains("No such file") => Ok(Vec::new()),
        Err(error) => Err(StorageError::from(error).into()),
    }
}

async fn resolve(engine: &Engine, location: &str) -> Result<(std::sync::Arc<ObjectStore>, StorePath)> {
    let uri = engine.store().uri(location);
    let uri = if uri.len() > 1 { uri.trim_end_matches('/') } else { &uri };
    Ok(ObjectStore::from_uri(uri).await.map_err(StorageError::from)?)
}

/// Reads all batches of a small table.
async fn read_all(dataset: &lance::Dataset, columns: &[&str]) -> Result<Vec<arrow::array::RecordBatch>> {
    let mut scanner = dataset.scan();
    scanner.project(columns).map_err(StorageError::from)?;
    let stream = scanner.try_into_stream().await.map_err(StorageError::from)?;
    Ok(stream.try_collect().await.map_err(StorageError::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_own_are_taken_for_them() {
        assert!(is_unique(&unique("docs")) && is_unique(&unique("s$docs")));
        for folder in ["docs.lance", "s$docs.lance", "docs$01k.lance", "492310e5_db$public$t1.lance", "docs$.lance"] {
            assert!(!is_unique(folder), "{folder}");
        }
    }
}
