//! API keys. A key goes with its user: the digests of a dropped user open nothing.

use lancegate_auth::UserName;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::rows::{self, damaged, micros};
use super::writer::Tx;
use super::{Catalog, Durability};
use crate::api_key::ApiKey;
use crate::error::{CatalogError, EntityKind, Result};
use crate::object::ensure_name;

/// The table of keys.
pub(super) const TABLES: &[&str] = &[
    "CREATE TABLE api_keys (
        name        TEXT   NOT NULL PRIMARY KEY,
        user_name   TEXT   NOT NULL,
        digest      TEXT   NOT NULL UNIQUE,
        created_at  BIGINT NOT NULL,
        valid_until BIGINT
    )",
    "CREATE INDEX api_keys_of_user ON api_keys (user_name)",
];

impl Catalog {
    /// Adds a key of an existing user.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](CatalogError::AlreadyExists), [`NotFound`](CatalogError::NotFound) for the user,
    /// [`InvalidName`](CatalogError::InvalidName), [`Store`](CatalogError::Store).
    pub async fn create_api_key(&self, key: ApiKey) -> Result<()> {
        ensure_name(EntityKind::ApiKey, &key.name)?;
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let known: i64 = sqlx::query_scalar("SELECT count(*) FROM users WHERE name = $1")
                    .bind(key.user.as_str())
                    .fetch_one(tx.connection())
                    .await?;
                if known == 0 {
                    return Err(CatalogError::not_found(EntityKind::User, &key.user));
                }
                let inserted = sqlx::query(
                    "INSERT INTO api_keys (name, user_name, digest, created_at, valid_until)
                     VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) DO NOTHING",
                )
                .bind(&key.name)
                .bind(key.user.as_str())
                .bind(&key.digest)
                .bind(micros(key.created_at))
                .bind(key.valid_until.map(micros))
                .execute(tx.connection())
                .await?;
                match inserted.rows_affected() {
                    0 => Err(CatalogError::already_exists(EntityKind::ApiKey, &key.name)),
                    _ => Ok(()),
                }
            })
        })
        .await
    }

    /// Removes a key.
    ///
    /// # Errors
    ///
    /// [`NotFound`](CatalogError::NotFound), [`Store`](CatalogError::Store).
    pub async fn drop_api_key(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let deleted =
                    sqlx::query("DELETE FROM api_keys WHERE name = $1").bind(&name).execute(tx.connection()).await?;
                match deleted.rows_affected() {
                    0 => Err(CatalogError::not_found(EntityKind::ApiKey, &name)),
                    _ => Ok(()),
                }
            })
        })
        .await
    }

    /// Returns every key by name.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store), [`DamagedValue`](CatalogError::DamagedValue).
    pub async fn api_keys(&self) -> Result<Vec<ApiKey>> {
        let rows = sqlx::query("SELECT * FROM api_keys ORDER BY name").fetch_all(self.readers()).await?;
        rows.iter().map(api_key).collect()
    }

    /// Returns the key that has a digest.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store), [`DamagedValue`](CatalogError::DamagedValue).
    pub async fn api_key_of(&self, digest: &str) -> Result<Option<ApiKey>> {
        let row =
            sqlx::query("SELECT * FROM api_keys WHERE digest = $1").bind(digest).fetch_optional(self.readers()).await?;
        row.map(|row| api_key(&row)).transpose()
    }
}

/// Removes the keys of a user that is being dropped.
pub(super) async fn remove_of(tx: &mut Tx, user: &UserName) -> Result<()> {
    sqlx::query("DELETE FROM api_keys WHERE user_name = $1").bind(user.as_str()).execute(tx.connection()).await?;
    Ok(())
}

fn api_key(row: &SqliteRow) -> Result<ApiKey> {
    let user: &str = row.try_get("user_name")?;
    Ok(ApiKey {
        name: row.try_get("name")?,
        user: UserName::parse(user).map_err(|_| damaged("user_name", user))?,
        digest: row.try_get("digest")?,
        created_at: rows::timestamp("created_at", row.try_get("created_at")?)?,
        valid_until: rows::optional_timestamp("valid_until", row.try_get("valid_until")?)?,
    })
}
