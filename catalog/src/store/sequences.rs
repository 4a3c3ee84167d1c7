//! The sequences of serial and identity columns: the number that comes next.
//!
//! A sequence belongs to a field of a table, so it stays when the column or the table is
//! renamed, is given on when the column gets another type, and goes with the table. Numbers
//! are never given out twice, also after power loss; one that was drawn and not used is a
//! gap, as in PostgreSQL.

use sqlx::Row;

use super::Catalog;
use super::Durability::Full;
use super::writer::Tx;
use crate::error::Result;
use crate::ids::TableId;

/// See the module documentation.
pub(super) const TABLES: &[&str] = &["CREATE TABLE sequences (
        table_id    TEXT   NOT NULL,
        field_id    BIGINT NOT NULL,
        next_number BIGINT NOT NULL,
        PRIMARY KEY (table_id, field_id)
    )"];

/// What a draw gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drawn {
    /// The first of the numbers; the others follow it one by one.
    From(i64),
    /// There are not as many left.
    Exhausted,
    /// The store knows no such sequence: the table was made elsewhere.
    Unknown,
}

impl Catalog {
    /// Draws `count` numbers, none above `max`.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store), [`NewerSchema`](crate::CatalogError::NewerSchema).
    pub async fn draw(&self, table: TableId, field: i32, count: u32, max: i64) -> Result<Drawn> {
        self.write(Full, move |tx| Box::pin(async move { draw(tx, table, field, count, max).await })).await
    }

    /// Makes `next` the number that is drawn next. With `fresh`, only if the sequence is
    /// not known yet.
    ///
    /// # Errors
    ///
    /// As [`Self::draw`].
    pub async fn set_sequence(&self, table: TableId, field: i32, next: i64, fresh: bool) -> Result<()> {
        self.write(Full, move |tx| {
            let statement = if fresh { BEGIN } else { SET };
            Box::pin(async move { put(tx, statement, table, field, next).await })
        })
        .await
    }

    /// Forgets the sequences of a table that never got its name.
    ///
    /// # Errors
    ///
    /// As [`Self::draw`].
    pub async fn forget_sequences(&self, table: TableId) -> Result<()> {
        self.write(Full, move |tx| Box::pin(async move { remove(tx, table).await })).await
    }
}

/// Keeps the number of a sequence that is known.
const BEGIN: &str = "INSERT INTO sequences (table_id, field_id, next_number) VALUES ($1, $2, $3)
     ON CONFLICT (table_id, field_id) DO NOTHING";
const SET: &str = "INSERT INTO sequences (table_id, field_id, next_number) VALUES ($1, $2, $3)
     ON CONFLICT (table_id, field_id) DO UPDATE SET next_number = excluded.next_number";

/// Makes `next` the number that is drawn next.
pub(super) async fn set(tx: &mut Tx, table: TableId, field: i32, next: i64) -> Result<()> {
    put(tx, SET, table, field, next).await
}

/// Gives the sequence of a field to another. What the store does not know it does not give.
pub(super) async fn give(tx: &mut Tx, table: TableId, from: i32, to: i32) -> Result<()> {
    sqlx::query("UPDATE OR REPLACE sequences SET field_id = $3 WHERE table_id = $1 AND field_id = $2")
        .bind(table.to_string())
        .bind(from)
        .bind(to)
        .execute(tx.connection())
        .await?;
    Ok(())
}

async fn put(tx: &mut Tx, statement: &'static str, table: TableId, field: i32, next: i64) -> Result<()> {
    sqlx::query(statement).bind(table.to_string()).bind(field).bind(next).execute(tx.connection()).await?;
    Ok(())
}

async fn draw(tx: &mut Tx, table: TableId, field: i32, count: u32, max: i64) -> Result<Drawn> {
    let found = sqlx::query("SELECT next_number FROM sequences WHERE table_id = $1 AND field_id = $2")
        .bind(table.to_string())
        .bind(field)
        .fetch_optional(tx.connection())
        .await?;
    let Some(found) = found else { return Ok(Drawn::Unknown) };
    let first: i64 = found.try_get("next_number")?;
    // The number after the last has to fit, too.
    let Some(next) = first.checked_add(count.into()).filter(|next| *next - 1 <= max) else {
        return Ok(Drawn::Exhausted);
    };
    sqlx::query("UPDATE sequences SET next_number = $3 WHERE table_id = $1 AND field_id = $2")
        .bind(table.to_string())
        .bind(field)
        .bind(next)
        .execute(tx.connection())
        .await?;
    Ok(Drawn::From(first))
}

/// Removes the sequences of a table.
pub(super) async fn remove(tx: &mut Tx, table: TableId) -> Result<()> {
    sqlx::query("DELETE FROM sequences WHERE table_id = $1").bind(table.to_string()).execute(tx.connection()).await?;
    Ok(())
}
