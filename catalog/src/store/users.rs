//! Users.

use lancegate_auth::{Subject, UserName};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::api_keys;
use super::rows::{self, damaged, micros};
use super::writer::Tx;
use super::{Catalog, Durability};
use crate::Timestamp;
use crate::error::{CatalogError, EntityKind, Result};
use crate::user::{NewUser, User, UserChange};

const USER_BY_NAME: &str = "SELECT name, verifier, valid_until, connection_limit, created_at
    FROM users WHERE name = $1";

impl Catalog {
    /// Adds a user.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](CatalogError::AlreadyExists).
    pub async fn create_user(&self, user: NewUser, now: Timestamp) -> Result<()> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let inserted = sqlx::query(
                    "INSERT INTO users (name, verifier, valid_until, connection_limit, created_at)
                     VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) DO NOTHING",
                )
                .bind(user.name.as_str())
                .bind(&user.verifier)
                .bind(user.valid_until.map(micros))
                .bind(user.connection_limit.map(i64::from))
                .bind(micros(now))
                .execute(tx.connection())
                .await?;
                if inserted.rows_affected() == 0 {
                    return Err(CatalogError::already_exists(EntityKind::User, &user.name));
                }
                Ok(())
            })
        })
        .await
    }

    /// Changes a user.
    ///
    /// # Errors
    ///
    /// [`NotFound`](CatalogError::NotFound).
    pub async fn alter_user(&self, name: &UserName, change: UserChange) -> Result<()> {
        let name = name.clone();
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let user = find(tx.connection(), &name)
                    .await?
                    .ok_or_else(|| CatalogError::not_found(EntityKind::User, &name))?;
                let valid_until = change.valid_until.unwrap_or(user.valid_until);
                let connection_limit = change.connection_limit.unwrap_or(user.connection_limit);
                sqlx::query(
                    "UPDATE users SET verifier = $1, valid_until = $2, connection_limit = $3
                     WHERE name = $4",
                )
                .bind(change.verifier.unwrap_or(user.verifier))
                .bind(valid_until.map(micros))
                .bind(connection_limit.map(i64::from))
                .bind(name.as_str())
                .execute(tx.connection())
                .await?;
                Ok(())
            })
        })
        .await
    }

    /// Removes a user with the grants to and the roles of that user.
    ///
    /// # Errors
    ///
    /// [`NotFound`](CatalogError::NotFound);
    /// [`UserOwnsObject`](CatalogError::UserOwnsObject), because every object
    /// has an owner.
    pub async fn drop_user(&self, name: &UserName) -> Result<()> {
        let name = name.clone();
        self.write(Durability::Full, move |tx| Box::pin(async move { drop_user(tx, &name).await })).await
    }

    /// Returns a user.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store), [`DamagedValue`](CatalogError::DamagedValue).
    pub async fn user(&self, name: &UserName) -> Result<Option<User>> {
        let mut connection = self.readers().acquire().await?;
        find(&mut connection, name).await
    }

    /// Returns every user by name.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store), [`DamagedValue`](CatalogError::DamagedValue).
    pub async fn users(&self) -> Result<Vec<User>> {
        let rows = sqlx::query(
            "SELECT name, verifier, valid_until, connection_limit, created_at
             FROM users ORDER BY name",
        )
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(user).collect()
    }
}

async fn drop_user(tx: &mut Tx, name: &UserName) -> Result<()> {
    let subject = Subject::User(name.clone()).to_string();
    let owned: Option<String> = sqlx::query_scalar(
        "SELECT object FROM grants WHERE subject = $1 AND privilege = 'OWNERSHIP'
         ORDER BY object LIMIT 1",
    )
    .bind(&subject)
    .fetch_optional(tx.connection())
    .await?;
    if let Some(object) = owned {
        return Err(CatalogError::UserOwnsObject { user: name.clone(), object });
    }
    let deleted = sqlx::query("DELETE FROM users WHERE name = $1").bind(name.as_str()).execute(tx.connection()).await?;
    if deleted.rows_affected() == 0 {
        return Err(CatalogError::not_found(EntityKind::User, name));
    }
    sqlx::query("DELETE FROM grants WHERE subject = $1").bind(&subject).execute(tx.connection()).await?;
    api_keys::remove_of(tx, name).await?;
    sqlx::query("DELETE FROM role_bindings WHERE user_name = $1").bind(name.as_str()).execute(tx.connection()).await?;
    tx.grants_changed();
    Ok(())
}

async fn find(connection: &mut SqliteConnection, name: &UserName) -> Result<Option<User>> {
    sqlx::query(USER_BY_NAME).bind(name.as_str()).fetch_optional(connection).await?.map(|row| user(&row)).transpose()
}

fn user(row: &SqliteRow) -> Result<User> {
    let name: &str = row.try_get("name")?;
    Ok(User {
        name: UserName::parse(name).map_err(|_| damaged("name", name))?,
        verifier: row.try_get("verifier")?,
        valid_until: rows::optional_timestamp("valid_until", row.try_get("valid_until")?)?,
        connection_limit: row
            .try_get::<Option<i64>, _>("connection_limit")?
            .map(|limit| rows::unsigned("connection_limit", limit))
            .transpose()?,
        created_at: rows::timestamp("created_at", row.try_get("created_at")?)?,
    })
}
