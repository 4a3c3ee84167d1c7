//! Names to objects, at the moment a statement is bound.
//!
//! Bare names are looked up along the search path, as PostgreSQL does. A name
//! that the metadata store does not know may be a Lance table that another
//! writer has just made in the folder; it is adopted then.

use std::fmt;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::compute::kernels::cast_utils::string_to_datetime;
use lance::Dataset;
use lancegate_auth::Object;
use lancegate_catalog::{Table, TableKind, TableName};
use lancegate_sql::ast::VersionReference;
use lancegate_sql::{ObjectName, SchemaName};

use crate::error::{Result, SqlError};
use crate::exec::adopt;
use crate::exec::turns::gone;
use crate::session::pins::Pin;
use crate::session::temp;
use crate::sql::plan::Planner;
use crate::sqlstate::SqlState;
use crate::storage::StorageError;
use crate::storage::computed::{self, ComputedColumn};

/// The schema name of the root namespace.
pub const ROOT_SCHEMA: &str = "public";

/// A table, opened at its newest version when the statement was bound.
#[derive(Clone)]
pub struct BoundTable {
    /// What the metadata store says.
    pub record: Table,
    /// The version.
    pub dataset: Arc<Dataset>,
}

impl fmt::Debug for BoundTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundTable")
            .field("name", &self.record.name)
            .field("version", &self.dataset.version_id())
            .finish_non_exhaustive()
    }
}

impl BoundTable {
    /// Returns the name that privileges are granted on.
    pub fn object(&self) -> Object {
        object_of(&self.record)
    }

    /// Returns the table's own name, for messages.
    pub fn name(&self) -> &str {
        &self.record.name.name
    }

    /// Returns the computed columns.
    ///
    /// # Errors
    /// For a declaration of a newer version.
    pub fn computed(&self) -> Result<Vec<ComputedColumn>> {
        Ok(computed::columns(&self.dataset)?)
    }
}

/// Returns what privileges are granted on for a relation.
pub fn object_of(record: &Table) -> Object {
    let TableName { database, namespace, name } = record.name.clone();
    match record.kind {
        TableKind::Table => Object::Table { database, namespace, name },
        TableKind::View => Object::View { database, namespace, name },
        TableKind::MaterializedView => Object::MaterializedView { database, namespace, name },
    }
}

impl BoundTable {
    /// Refuses a temporary table where only one that lasts will do.
    ///
    /// # Errors
    /// 0A000.
    pub(crate) fn ensure_lasting(&self, what: &str) -> Result<()> {
        if temp::is_temporary(&self.record.name.namespace) {
            return Err(SqlError::not_supported(format!("{what} of temporary tables is not supported")));
        }
        Ok(())
    }
}

/// Returns the namespace path that a schema name spells.
pub fn namespace_of(schema: &str) -> Vec<String> {
    match schema {
        ROOT_SCHEMA => Vec::new(),
        path => path.split('$').map(str::to_owned).collect(),
    }
}

/// Returns the schema name of a namespace path.
pub fn schema_of(namespace: &[String]) -> String {
    if namespace.is_empty() { ROOT_SCHEMA.to_owned() } else { namespace.join("$") }
}

/// Returns a 42P01 for a relation as the statement spells it.
pub fn no_relation(name: &ObjectName) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", spelled(name)))
}

/// Returns the 42809 of a statement that would change a materialized view.
pub fn is_materialized(name: &str) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("cannot change materialized view \"{name}\""))
        .hint("REFRESH MATERIALIZED VIEW writes its rows.")
}

/// Returns a 3F000.
pub fn no_schema(schema: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist"))
}

/// Returns a 3D000.
pub fn no_database(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist"))
}

fn no_version(table: &BoundTable, at: &VersionReference) -> SqlError {
    let name = table.name();
    match at {
        VersionReference::Version(version) => {
            let message = format!("version {version} of table \"{name}\" does not exist");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        }
        VersionReference::Tag(tag) => {
            let message = format!("tag \"{tag}\" of table \"{name}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        }
        VersionReference::Timestamp(time) => {
            let message = format!("table \"{name}\" has no version at \"{time}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        }
    }
}

fn spelled(name: &ObjectName) -> String {
    let parts = [name.database.as_deref(), name.schema.as_deref(), Some(name.name.as_str())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(".")
}

impl Planner {
    /// Returns what a name stands for, `None` if nothing has it.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub async fn find(&self, name: &ObjectName) -> Result<Option<Table>> {
        let schema = name.schema.as_deref();
        let own = name.database.as_ref().is_none_or(|database| *database == self.caller.database);
        // As in PostgreSQL, temporary tables come before the search path.
        if own && let Some(record) = self.caller.temp.find(self.caller.session_id, schema, &name.name) {
            return Ok(Some(record));
        }
        if schema.is_some_and(temp::names_temporary) {
            return Ok(None);
        }
        for schema in self.schemas(name) {
            let full = TableName {
                database: name.database.clone().unwrap_or_else(|| self.caller.database.clone()),
                namespace: namespace_of(&schema),
                name: name.name.clone(),
            };
            if self.is_missing_home(name, &schema, &full).await? {
                continue;
            }
            if let Some(record) = self.lookup(&full).await? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Returns whether a schema is the `"$user"` of the search path and does not
    /// exist. Most users have no schema of their name, and looking into the
    /// storage for one would take every statement longer than the rest of it.
    async fn is_missing_home(&self, name: &ObjectName, schema: &str, full: &TableName) -> Result<bool> {
        let home = name.schema.is_none()
            && schema == self.caller.principal.user.as_str()
            && !full.namespace.is_empty()
            && self.caller.settings.search_path().iter().any(|entry| entry == "$user");
        Ok(home && !self.caller.names.has_schema(self.engine.catalog(), &full.database, &full.namespace).await?)
    }

    /// Returns a table at its newest version.
    ///
    /// # Errors
    /// 42P01, 42809 for a view.
    pub async fn table(&self, name: &ObjectName) -> Result<BoundTable> {
        let record = self.find(name).await?.ok_or_else(|| no_relation(name))?;
        if record.kind == TableKind::View {
            let message = format!("\"{}\" is not a table", name.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        self.open(record).await
    }

    /// Returns a table that a statement changes, at its newest version.
    ///
    /// # Errors
    /// 42P01, 42809 for a view and for a materialized view.
    pub async fn changeable_table(&self, name: &ObjectName) -> Result<BoundTable> {
        let table = self.table(name).await?;
        if table.record.kind == TableKind::MaterializedView {
            return Err(is_materialized(table.name()));
        }
        Ok(table)
    }

    /// Opens a table that was found, on the branch of the session.
    ///
    /// # Errors
    /// 42P01 if its files are gone, 42704 if it has no such branch, storage errors.
    pub async fn open(&self, record: Table) -> Result<BoundTable> {
        let dataset = match self.engine.store().open(&record.location).await {
            Err(StorageError::NotFound { .. }) if self.engine.is_dropped(&record).await? => return Err(gone(&record)),
            opened => opened.map_err(|error| unreadable(error, &record))?,
        };
        let newest = self.at(BoundTable { record, dataset }, self.caller.branch.as_deref(), None).await?;
        if self.caller.repeats_reads() { self.pinned(newest).await } else { Ok(newest) }
    }

    /// Returns a table at the version that the open block reads.
    async fn pinned(&self, newest: BoundTable) -> Result<BoundTable> {
        let (pins, key) = (&self.caller.pins, (newest.record.id, self.caller.branch.clone()));
        let dataset = match pins.of(&key) {
            Pin::None => return Ok(newest),
            Pin::At(dataset) => return Ok(BoundTable { dataset, ..newest }),
            Pin::Since(time) if newest.dataset.version().timestamp > time => {
                let versions = newest.dataset.versions().await.map_err(StorageError::from)?;
                let earlier = versions.iter().filter(|version| version.timestamp <= time).map(|found| found.version);
                // A table that was made since has no rows yet in its first.
                let first = versions.iter().map(|version| version.version).min();
                let version = earlier.max().or(first).unwrap_or(newest.dataset.version_id());
                Arc::new(newest.dataset.checkout_version(version).await.map_err(StorageError::from)?)
            }
            Pin::Version(version) if version != newest.dataset.version_id() => {
                Arc::new(newest.dataset.checkout_version(version).await.map_err(StorageError::from)?)
            }
            Pin::Version(_) | Pin::Since(_) | Pin::Newest => Arc::clone(&newest.dataset),
        };
        pins.keep(key, &dataset);
        Ok(BoundTable { dataset, ..newest })
    }

    /// Returns a table as it was at a version.
    ///
    /// # Errors
    /// 22023 for a version or a time that the table does not have, 42704 for a
    /// tag, 22007 for a time that cannot be read.
    pub async fn at_version(&self, table: BoundTable, at: &VersionReference) -> Result<BoundTable> {
        let newest = &table.dataset;
        let opened = match at {
            VersionReference::Version(version) => newest.checkout_version(*version).await,
            VersionReference::Tag(tag) => newest.checkout_version(tag.as_str()).await,
            VersionReference::Timestamp(text) => match self.version_at(&table, text).await? {
                Some(version) => newest.checkout_version(version).await,
                None => return Err(no_version(&table, at)),
            },
        };
        match opened {
            Ok(dataset) => Ok(BoundTable { dataset: Arc::new(dataset), record: table.record }),
            Err(
                lance::Error::RefNotFound { .. }
                | lance::Error::InvalidRef { .. }
                | lance::Error::VersionNotFound { .. }
                | lance::Error::NotFound { .. }
                | lance::Error::DatasetNotFound { .. },
            ) => Err(no_version(&table, at)),
            Err(error) => Err(StorageError::Lance(error).into()),
        }
    }

    /// Returns the newest version at a time, in the session's time zone unless
    /// the text names one.
    async fn version_at(&self, table: &BoundTable, text: &str) -> Result<Option<u64>> {
        let invalid = || {
            let message = format!("invalid input syntax for type timestamp with time zone: \"{text}\"");
            SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
        };
        let zone: Tz = self.caller.settings.time_zone().parse().map_err(|_| invalid())?;
        let time = string_to_datetime(&zone, text.trim()).map_err(|_| invalid())?;
        let versions = table.dataset.versions().await.map_err(StorageError::from)?;
        let earlier = versions.into_iter().filter(|version| version.timestamp <= time);
        Ok(earlier.map(|version| version.version).max())
    }

    /// Returns the full name of a temporary table that a statement creates.
    ///
    /// # Errors
    /// 42P16 for another schema, 42602.
    pub(crate) fn temporary_name(&self, name: &ObjectName) -> Result<TableName> {
        ensure_object_name(&name.name)?;
        let schema = temp::schema(self.caller.session_id);
        let own = |named: &String| named == "pg_temp" || *named == schema;
        if name.database.is_some() || name.schema.as_ref().is_some_and(|named| !own(named)) {
            let message = "cannot create temporary relation in non-temporary schema";
            return Err(SqlError::new(SqlState::parse("42P16"), message));
        }
        Ok(TableName { database: self.caller.database.clone(), namespace: vec![schema], name: name.name.clone() })
    }

    /// Returns the full name of an object that a statement creates.
    ///
    /// # Errors
    /// 3F000 if there is no schema to create it in, 3D000, 42602.
    pub async fn creation_name(&self, name: &ObjectName) -> Result<TableName> {
        ensure_object_name(&name.name)?;
        let (database, namespace) = self.creation_schema(name).await?;
        Ok(TableName { database, namespace, name: name.name.clone() })
    }

    /// Returns database and namespace of an object that a statement creates.
    ///
    /// # Errors
    /// 3F000 if there is no schema to create it in, 3D000.
    pub async fn creation_schema(&self, name: &ObjectName) -> Result<(String, Vec<String>)> {
        let database = name.database.clone().unwrap_or_else(|| self.caller.database.clone());
        if let Some(schema) = &name.schema {
            self.ensure_schema(&database, schema).await?;
            return Ok((database, namespace_of(schema)));
        }
        for schema in self.caller.creation_path() {
            if self.schema_exists(&database, &schema).await? {
                return Ok((database, namespace_of(&schema)));
            }
        }
        Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, "no schema has been selected to create in"))
    }

    /// Returns database and path of a schema as a statement names it.
    pub fn schema_path(&self, name: &SchemaName) -> (String, Vec<String>) {
        let database = name.database.clone().unwrap_or_else(|| self.caller.database.clone());
        (database, namespace_of(&name.schema))
    }

    /// Says whether a database has a schema.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub async fn schema_exists(&self, database: &str, schema: &str) -> Result<bool> {
        let path = namespace_of(schema);
        if path.is_empty() {
            return Ok(self.engine.catalog().database(database).await?.is_some());
        }
        if path.iter().any(String::is_empty) {
            return Ok(false);
        }
        Ok(self.caller.names.has_schema(self.engine.catalog(), database, &path).await?)
    }

    /// Returns the schemas of a search path that exist in the connected database.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub(crate) async fn existing(&self, path: Vec<String>) -> Result<Vec<String>> {
        let mut existing = Vec::with_capacity(path.len());
        for schema in path {
            let built_in = matches!(schema.as_str(), "pg_catalog" | "information_schema");
            if built_in || self.schema_exists(&self.caller.database, &schema).await? {
                existing.push(schema);
            }
        }
        Ok(existing)
    }

    async fn ensure_schema(&self, database: &str, schema: &str) -> Result<()> {
        if self.engine.catalog().database(database).await?.is_none() {
            return Err(no_database(database));
        }
        if matches!(schema, "pg_catalog" | "information_schema") {
            let message = format!("permission denied for schema {schema}");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                .detail("System catalog modifications are currently disallowed."));
        }
        if self.schema_exists(database, schema).await? { Ok(()) } else { Err(no_schema(schema)) }
    }

    async fn lookup(&self, name: &TableName) -> Result<Option<Table>> {
        if name.namespace.iter().any(String::is_empty) {
            return Ok(None);
        }
        let names = &self.caller.names;
        if let Some(record) = names.table(self.engine.catalog(), name).await? {
            return Ok(Some(record));
        }
        if names.hides(name) {
            return Ok(None);
        }
        adopt::one(&self.engine, name).await
    }

    /// Returns the schemas to look in, in order.
    fn schemas(&self, name: &ObjectName) -> Vec<String> {
        match &name.schema {
            Some(schema) => vec![schema.clone()],
            None => self.caller.creation_path(),
        }
    }
}

/// Refuses names that separate or escape names (see the limits on names of the
/// Lance namespace).
///
/// # Errors
/// 42602, 42622.
pub fn ensure_object_name(name: &str) -> Result<()> {
    if name.len() > 128 {
        return Err(SqlError::new(SqlState::NAME_TOO_LONG, format!("identifier \"{name}\" is too long")));
    }
    ensure_plain_name(name)
}

/// Refuses characters that separate or escape names.
///
/// # Errors
/// 42602.
pub fn ensure_plain_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.is_empty() || name == "." || name == ".." || !name.chars().all(allowed) {
        return Err(SqlError::new(SqlState::INVALID_NAME, format!("invalid name \"{name}\""))
            .detail("Names consist of letters, digits, \"_\", \".\" and \"-\"."));
    }
    Ok(())
}

/// Says which table cannot be read where the storage does not.
fn unreadable(error: StorageError, table: &Table) -> SqlError {
    let mut error = SqlError::from(error);
    if error.code == SqlState::IO_ERROR || error.code == SqlState::DATA_CORRUPTED {
        error.message = format!("could not open table \"{}\": {}", table.name.name, error.message);
    }
    error
}
