//! Versions of Functions.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::draft::load_held;
use super::rows::{self, micros, signed};
use super::writer::Tx;
use super::{Catalog, Durability};
use crate::Timestamp;
use crate::error::Result;
use crate::function::FunctionVersion;
use crate::ids::{AttemptEpoch, JobId};
use crate::object::{TableName, namespace_from_text, namespace_to_text};

impl Catalog {
    /// Adds a version of a Function after the newest one and returns its number; `version` of the argument is not used.
    ///
    /// # Errors
    /// [`Store`](crate::CatalogError::Store), [`InvalidName`](crate::CatalogError::InvalidName).
    pub async fn add_function(&self, function: FunctionVersion) -> Result<u64> {
        self.write(Durability::Full, move |tx| Box::pin(add(tx, function))).await
    }

    /// As [`Self::add_function`], for the attempt that holds the job which makes the version. An earlier attempt may
    /// have added it: then the number is that of the version that is there.
    ///
    /// # Errors
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch), and as [`Self::add_function`].
    pub async fn add_function_of(&self, job: JobId, epoch: AttemptEpoch, function: FunctionVersion) -> Result<u64> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let job = load_held(tx, job, epoch).await?.job;
                let there = newest(tx.connection(), &function.name, None).await?;
                let made = |there: &FunctionVersion| {
                    there.definition == function.definition && there.created_at >= job.created_at
                };
                match there.filter(made) {
                    Some(there) => Ok(there.version),
                    None => add(tx, function).await,
                }
            })
        })
        .await
    }

    /// Returns the versions of Functions of a database, by name and version.
    ///
    /// # Errors
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn functions(&self, database: &str) -> Result<Vec<FunctionVersion>> {
        let rows = sqlx::query(
            "SELECT * FROM functions WHERE database_name = $1 AND dropped_at IS NULL ORDER BY namespace, name, version",
        )
        .bind(database)
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(function).collect()
    }

    /// Returns a version of a Function, the newest one if none is named.
    ///
    /// # Errors
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn function(&self, name: &TableName, version: Option<u64>) -> Result<Option<FunctionVersion>> {
        newest(&mut *self.readers().acquire().await?, name, version).await
    }

    /// Enables or disables one version of a Function. Returns whether it is there.
    ///
    /// # Errors
    /// [`Store`](crate::CatalogError::Store).
    pub async fn disable_function(&self, name: TableName, version: u64, disabled: bool) -> Result<bool> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let changed = sqlx::query(
                    "UPDATE functions SET disabled = $5
                     WHERE database_name = $1 AND namespace = $2 AND name = $3 AND version = $4
                        AND dropped_at IS NULL",
                )
                .bind(&name.database)
                .bind(namespace_to_text(&name.namespace)?)
                .bind(&name.name)
                .bind(signed("version", version)?)
                .bind(i64::from(disabled))
                .execute(tx.connection())
                .await?;
                Ok(changed.rows_affected() > 0)
            })
        })
        .await
    }

    /// Drops one version of a Function. Returns whether it was there.
    ///
    /// # Errors
    /// [`Store`](crate::CatalogError::Store).
    pub async fn drop_function(&self, name: TableName, version: u64, now: Timestamp) -> Result<bool> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let dropped = sqlx::query(
                    "UPDATE functions SET dropped_at = $5
                     WHERE database_name = $1 AND namespace = $2 AND name = $3 AND version = $4
                        AND dropped_at IS NULL",
                )
                .bind(&name.database)
                .bind(namespace_to_text(&name.namespace)?)
                .bind(&name.name)
                .bind(signed("version", version)?)
                .bind(micros(now))
                .execute(tx.connection())
                .await?;
                Ok(dropped.rows_affected() > 0)
            })
        })
        .await
    }
}

async fn add(tx: &mut Tx, function: FunctionVersion) -> Result<u64> {
    let namespace = namespace_to_text(&function.name.namespace)?;
    let newest: i64 = sqlx::query_scalar(
        "SELECT COALESCE(MAX(version), 0) FROM functions
         WHERE database_name = $1 AND namespace = $2 AND name = $3",
    )
    .bind(&function.name.database)
    .bind(&namespace)
    .bind(&function.name.name)
    .fetch_one(tx.connection())
    .await?;
    sqlx::query(
        "INSERT INTO functions
             (database_name, namespace, name, version, definition, owner, disabled, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(&function.name.database)
    .bind(&namespace)
    .bind(&function.name.name)
    .bind(newest + 1)
    .bind(function.definition.to_string())
    .bind(&function.owner)
    .bind(i64::from(function.disabled))
    .bind(micros(function.created_at))
    .execute(tx.connection())
    .await?;
    rows::unsigned("version", newest + 1)
}

/// Returns a version as the connection sees it, the newest one if none is named.
async fn newest(
    connection: &mut SqliteConnection,
    name: &TableName,
    version: Option<u64>,
) -> Result<Option<FunctionVersion>> {
    let version = version.map(|version| signed("version", version)).transpose()?;
    sqlx::query(
        "SELECT * FROM functions WHERE database_name = $1 AND namespace = $2 AND name = $3
         AND ($4 IS NULL OR version = $4) AND dropped_at IS NULL ORDER BY version DESC LIMIT 1",
    )
    .bind(&name.database)
    .bind(namespace_to_text(&name.namespace)?)
    .bind(&name.name)
    .bind(version)
    .fetch_optional(connection)
    .await?
    .map(|row| function(&row))
    .transpose()
}

fn function(row: &SqliteRow) -> Result<FunctionVersion> {
    Ok(FunctionVersion {
        name: TableName {
            database: row.try_get("database_name")?,
            namespace: namespace_from_text(row.try_get("namespace")?),
            name: row.try_get("name")?,
        },
        version: rows::unsigned("version", row.try_get("version")?)?,
        definition: rows::json("definition", row.try_get("definition")?)?,
        owner: row.try_get("owner")?,
        disabled: row.try_get::<i64, _>("disabled")? != 0,
        created_at: rows::timestamp("created_at", row.try_get("created_at")?)?,
    })
}
