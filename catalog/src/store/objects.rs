//! Databases, namespaces and tables.
//!
//! Reads are here; every change is an [`ObjectChange`] and goes through
//! [`Catalog::apply`], so that one change and many are the same code.

pub(super) mod apply;

use lancegate_auth::{Grant, Privilege, Subject};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row, SqliteConnection};

use super::rows::{self, damaged};
use super::{Catalog, Durability};
use crate::error::Result;
use crate::ids::TableId;
use crate::object::{
    Database, Namespace, ObjectChange, Properties, Table, TableKind, TableName, namespace_from_text, namespace_to_text,
};

const TABLE_COLUMNS: &str = "table_id, kind, database_name, namespace, name, location, \
    definition, comment, owner, created_at";

impl Catalog {
    /// Makes the changes in the order given, all of them or none. Readers see
    /// nothing in between.
    ///
    /// # Errors
    ///
    /// Of the first change that fails:
    /// [`AlreadyExists`](crate::CatalogError::AlreadyExists),
    /// [`NotFound`](crate::CatalogError::NotFound) also for the container,
    /// [`NotEmpty`](crate::CatalogError::NotEmpty),
    /// [`InvalidName`](crate::CatalogError::InvalidName), and those of
    /// [`grant`](Catalog::grant) and [`revoke`](Catalog::revoke).
    pub async fn apply(&self, changes: Vec<ObjectChange>) -> Result<()> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                for change in changes {
                    apply::apply(tx, change).await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Adds a database. See [`apply`](Catalog::apply) for errors.
    pub async fn create_database(&self, database: Database) -> Result<()> {
        self.apply(vec![ObjectChange::CreateDatabase(database)]).await
    }

    /// Removes an empty database. See [`apply`](Catalog::apply) for errors.
    pub async fn drop_database(&self, name: &str) -> Result<()> {
        self.apply(vec![ObjectChange::DropDatabase { name: name.to_owned() }]).await
    }

    /// Adds a namespace. See [`apply`](Catalog::apply) for errors.
    pub async fn create_namespace(&self, namespace: Namespace) -> Result<()> {
        self.apply(vec![ObjectChange::CreateNamespace(namespace)]).await
    }

    /// Removes an empty namespace. See [`apply`](Catalog::apply) for errors.
    pub async fn drop_namespace(&self, database: &str, path: &[String]) -> Result<()> {
        let (database, path) = (database.to_owned(), path.to_owned());
        self.apply(vec![ObjectChange::DropNamespace { database, path }]).await
    }

    /// Adds a table. See [`apply`](Catalog::apply) for errors.
    pub async fn create_table(&self, table: Table) -> Result<()> {
        self.apply(vec![ObjectChange::CreateTable(table)]).await
    }

    /// Gives a table another name. See [`apply`](Catalog::apply) for errors.
    pub async fn rename_table(&self, id: TableId, to: TableName) -> Result<()> {
        self.apply(vec![ObjectChange::RenameTable { id, to }]).await
    }

    /// Removes the name of a table. See [`apply`](Catalog::apply) for errors.
    pub async fn drop_table(&self, id: TableId) -> Result<()> {
        self.apply(vec![ObjectChange::DropTable { id }]).await
    }

    /// Records a table that was found in storage, and its owner, unless its name is taken.
    /// Returns what the name stands for, and whether it is new.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::CatalogError::NotFound) for the database or namespace,
    /// [`InvalidName`](crate::CatalogError::InvalidName).
    pub async fn adopt_table(&self, table: Table, owner: Option<Subject>) -> Result<(Table, bool)> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                if let Some(existing) = find_table(tx.connection(), &table.name).await? {
                    return Ok((existing, false));
                }
                apply::apply(tx, ObjectChange::CreateTable(table.clone())).await?;
                if let Some(subject) = owner {
                    let grant = Grant { subject, privilege: Privilege::Ownership, object: table.object() };
                    apply::apply(tx, ObjectChange::Grant(grant)).await?;
                }
                Ok((table, true))
            })
        })
        .await
    }

    /// Returns a database, from memory unless names have changed.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn database(&self, name: &str) -> Result<Option<Database>> {
        let read = async {
            sqlx::query("SELECT name, location, created_at FROM databases WHERE name = $1")
                .bind(name)
                .fetch_optional(self.readers())
                .await?
                .map(|row| database(&row))
                .transpose()
        };
        self.inner.names.database(name, read).await
    }

    /// Returns every database by name.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn databases(&self) -> Result<Vec<Database>> {
        let rows = sqlx::query("SELECT name, location, created_at FROM databases ORDER BY name")
            .fetch_all(self.readers())
            .await?;
        rows.iter().map(database).collect()
    }

    /// Returns a namespace, from memory unless names have changed. The root has
    /// no record.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue),
    /// [`InvalidName`](crate::CatalogError::InvalidName).
    pub async fn namespace(&self, database: &str, path: &[String]) -> Result<Option<Namespace>> {
        let read = async {
            sqlx::query(
                "SELECT database_name, path, properties, created_at FROM namespaces
                 WHERE database_name = $1 AND path = $2",
            )
            .bind(database)
            .bind(namespace_to_text(path)?)
            .fetch_optional(self.readers())
            .await?
            .map(|row| namespace(&row))
            .transpose()
        };
        self.inner.names.namespace((database, path), read).await
    }

    /// Returns every namespace of a database by path, without the root.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn namespaces(&self, database: &str) -> Result<Vec<Namespace>> {
        let rows = sqlx::query(
            "SELECT database_name, path, properties, created_at FROM namespaces
             WHERE database_name = $1 ORDER BY path",
        )
        .bind(database)
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(namespace).collect()
    }

    /// Returns what a name stands for, from memory unless names have changed.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue),
    /// [`InvalidName`](crate::CatalogError::InvalidName).
    pub async fn table(&self, name: &TableName) -> Result<Option<Table>> {
        let read = async {
            let mut connection = self.readers().acquire().await?;
            find_table(&mut connection, name).await
        };
        self.inner.names.table(name, read).await
    }

    /// Returns a table generation, unless it was dropped.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn table_by_id(&self, id: TableId) -> Result<Option<Table>> {
        let mut connection = self.readers().acquire().await?;
        find_table_by_id(&mut connection, id).await
    }

    /// Returns the tables and views of a database by namespace and name – of
    /// one namespace, when it is given.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue),
    /// [`InvalidName`](crate::CatalogError::InvalidName).
    pub async fn tables(&self, database: &str, namespace: Option<&[String]>) -> Result<Vec<Table>> {
        let namespace = namespace.map(namespace_to_text).transpose()?;
        let sql = select_tables(
            "WHERE database_name = $1 AND ($2 IS NULL OR namespace = $2)
             ORDER BY namespace, name",
        );
        let rows = sqlx::query(sql).bind(database).bind(namespace).fetch_all(self.readers()).await?;
        rows.iter().map(table).collect()
    }
}

fn select_tables(rest: &'static str) -> AssertSqlSafe<String> {
    // Both parts are constants of this crate.
    AssertSqlSafe(format!("SELECT {TABLE_COLUMNS} FROM tables {rest}"))
}

async fn find_table(connection: &mut SqliteConnection, name: &TableName) -> Result<Option<Table>> {
    let sql = select_tables("WHERE database_name = $1 AND namespace = $2 AND name = $3");
    sqlx::query(sql)
        .bind(&name.database)
        .bind(namespace_to_text(&name.namespace)?)
        .bind(&name.name)
        .fetch_optional(connection)
        .await?
        .map(|row| table(&row))
        .transpose()
}

async fn find_table_by_id(connection: &mut SqliteConnection, id: TableId) -> Result<Option<Table>> {
    sqlx::query(select_tables("WHERE table_id = $1"))
        .bind(id.to_string())
        .fetch_optional(connection)
        .await?
        .map(|row| table(&row))
        .transpose()
}

fn database(row: &SqliteRow) -> Result<Database> {
    Ok(Database {
        name: row.try_get("name")?,
        location: row.try_get("location")?,
        created_at: rows::timestamp("created_at", row.try_get("created_at")?)?,
    })
}

fn namespace(row: &SqliteRow) -> Result<Namespace> {
    Ok(Namespace {
        database: row.try_get("database_name")?,
        path: namespace_from_text(row.try_get("path")?),
        properties: properties_from_text(row.try_get("properties")?)?,
        created_at: rows::timestamp("created_at", row.try_get("created_at")?)?,
    })
}

fn properties_from_text(text: &str) -> Result<Properties> {
    serde_json::from_str(text).map_err(|_| damaged("properties", text))
}

fn table(row: &SqliteRow) -> Result<Table> {
    let kind: &str = row.try_get("kind")?;
    Ok(Table {
        id: rows::parsed("table_id", row.try_get("table_id")?)?,
        kind: TableKind::from_word(kind).ok_or_else(|| damaged("kind", kind))?,
        name: TableName {
            database: row.try_get("database_name")?,
            namespace: namespace_from_text(row.try_get("namespace")?),
            name: row.try_get("name")?,
        },
        location: row.try_get("location")?,
        definition: row.try_get("definition")?,
        comment: row.try_get("comment")?,
        owner: row.try_get("owner")?,
        created_at: rows::timestamp("created_at", row.try_get("created_at")?)?,
    })
}
