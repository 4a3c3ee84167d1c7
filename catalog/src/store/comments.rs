//! What COMMENT says about columns, schemas and databases. What it says about a
//! table or view is a field of its own record.
//!
//! A comment belongs to a thing by a key: the id of a table and a part of it, or the
//! text of an object. It goes with the thing, in the transaction that removes that.

use std::collections::HashMap;

use sqlx::Row;

use super::Catalog;
use super::writer::Tx;
use crate::error::Result;

/// See the module documentation.
pub(super) const TABLES: &[&str] = &["CREATE TABLE comments (
        object  TEXT NOT NULL,
        part    TEXT NOT NULL,
        comment TEXT NOT NULL,
        PRIMARY KEY (object, part)
    )"];

impl Catalog {
    /// Returns all comments under object and part.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store).
    pub async fn comments(&self) -> Result<HashMap<(String, String), String>> {
        let rows = sqlx::query("SELECT object, part, comment FROM comments").fetch_all(self.readers()).await?;
        rows.iter().map(|row| Ok(((row.try_get("object")?, row.try_get("part")?), row.try_get("comment")?))).collect()
    }
}

/// Sets a comment, or removes it.
pub(super) async fn set(tx: &mut Tx, object: &str, part: &str, comment: Option<&str>) -> Result<()> {
    let Some(comment) = comment else {
        sqlx::query("DELETE FROM comments WHERE object = $1 AND part = $2")
            .bind(object)
            .bind(part)
            .execute(tx.connection())
            .await?;
        return Ok(());
    };
    sqlx::query(
        "INSERT INTO comments (object, part, comment) VALUES ($1, $2, $3)
         ON CONFLICT (object, part) DO UPDATE SET comment = excluded.comment",
    )
    .bind(object)
    .bind(part)
    .bind(comment)
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Removes every comment on an object.
pub(super) async fn remove(tx: &mut Tx, object: &str) -> Result<()> {
    sqlx::query("DELETE FROM comments WHERE object = $1").bind(object).execute(tx.connection()).await?;
    Ok(())
}
