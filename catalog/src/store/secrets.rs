//! Secrets. Reads and the exchange of a value are here; creating and dropping
//! are [`ObjectChange`](crate::ObjectChange)s, so that grants come and go with
//! the secret.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::rows::{self, micros, signed};
use super::writer::Tx;
use super::{Catalog, Durability, grants};
use crate::error::{CatalogError, EntityKind, Result};
use crate::object::{ensure_name, namespace_from_text, namespace_to_text};
use crate::secret::{Sealed, SecretName, SecretRecord};

impl Catalog {
    /// Returns a secret.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store), [`DamagedValue`](CatalogError::DamagedValue),
    /// [`InvalidName`](CatalogError::InvalidName).
    pub async fn secret(&self, name: &SecretName) -> Result<Option<SecretRecord>> {
        let mut connection = self.readers().acquire().await?;
        find(&mut connection, name).await
    }

    /// Returns the secrets of a database, or all, by database, namespace and name.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store), [`DamagedValue`](CatalogError::DamagedValue).
    pub async fn secrets(&self, database: Option<&str>) -> Result<Vec<SecretRecord>> {
        let rows = sqlx::query(
            "SELECT database_name, namespace, name, version, key_id, sealed, created_at, updated_at
             FROM secrets WHERE $1 IS NULL OR database_name = $1 ORDER BY database_name, namespace, name",
        )
        .bind(database)
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(record).collect()
    }

    /// Gives a secret another sealed value if it still has that of `before`, and
    /// returns whether it had. `after` says version and time of the new value;
    /// the rest of it is not used.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store), [`InvalidName`](CatalogError::InvalidName).
    pub async fn exchange_secret(&self, before: SecretRecord, after: SecretRecord) -> Result<bool> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                // Sealing the same value twice gives two texts, so this one names the record.
                let changed = sqlx::query(
                    "UPDATE secrets SET version = $1, key_id = $2, sealed = $3, updated_at = $4
                     WHERE database_name = $5 AND namespace = $6 AND name = $7 AND version = $8 AND sealed = $9",
                )
                .bind(signed("version", after.version)?)
                .bind(&after.sealed.key_id)
                .bind(&after.sealed.text)
                .bind(micros(after.updated_at))
                .bind(&before.name.database)
                .bind(namespace_to_text(&before.name.namespace)?)
                .bind(&before.name.name)
                .bind(signed("version", before.version)?)
                .bind(&before.sealed.text)
                .execute(tx.connection())
                .await?;
                Ok(changed.rows_affected() == 1)
            })
        })
        .await
    }
}

/// Adds a secret; its namespace must exist, which the caller has made sure of.
pub(super) async fn insert(tx: &mut Tx, secret: &SecretRecord) -> Result<()> {
    ensure_name(EntityKind::Secret, &secret.name.name)?;
    let inserted = sqlx::query(
        "INSERT INTO secrets (database_name, namespace, name, version, key_id, sealed, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (database_name, namespace, name) DO NOTHING",
    )
    .bind(&secret.name.database)
    .bind(namespace_to_text(&secret.name.namespace)?)
    .bind(&secret.name.name)
    .bind(signed("version", secret.version)?)
    .bind(&secret.sealed.key_id)
    .bind(&secret.sealed.text)
    .bind(micros(secret.created_at))
    .bind(micros(secret.updated_at))
    .execute(tx.connection())
    .await?;
    if inserted.rows_affected() == 0 {
        return Err(CatalogError::already_exists(EntityKind::Secret, &secret.name.name));
    }
    // What is left from before, of a secret that was lost, is nobody's any more.
    grants::remove_object(tx, &secret.name.object()).await
}

/// Removes a secret and the grants on it.
pub(super) async fn remove(tx: &mut Tx, name: &SecretName) -> Result<()> {
    let deleted = sqlx::query("DELETE FROM secrets WHERE database_name = $1 AND namespace = $2 AND name = $3")
        .bind(&name.database)
        .bind(namespace_to_text(&name.namespace)?)
        .bind(&name.name)
        .execute(tx.connection())
        .await?;
    if deleted.rows_affected() == 0 {
        return Err(CatalogError::not_found(EntityKind::Secret, &name.name));
    }
    grants::remove_object(tx, &name.object()).await
}

async fn find(connection: &mut SqliteConnection, name: &SecretName) -> Result<Option<SecretRecord>> {
    sqlx::query(
        "SELECT database_name, namespace, name, version, key_id, sealed, created_at, updated_at
         FROM secrets WHERE database_name = $1 AND namespace = $2 AND name = $3",
    )
    .bind(&name.database)
    .bind(namespace_to_text(&name.namespace)?)
    .bind(&name.name)
    .fetch_optional(connection)
    .await?
    .map(|row| record(&row))
    .transpose()
}

fn record(row: &SqliteRow) -> Result<SecretRecord> {
    Ok(SecretRecord {
        name: SecretName {
            database: row.try_get("database_name")?,
            namespace: namespace_from_text(row.try_get("namespace")?),
            name: row.try_get("name")?,
        },
        version: rows::unsigned("version", row.try_get("version")?)?,
        sealed: Sealed { key_id: row.try_get("key_id")?, text: row.try_get("sealed")? },
        created_at: rows::timestamp("created_at", row.try_get("created_at")?)?,
        updated_at: rows::timestamp("updated_at", row.try_get("updated_at")?)?,
    })
}
