//! What the refreshes of computed columns have come to, and which run.

use std::collections::HashMap;

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::Catalog;
use super::rows::{self, micros};
use super::writer::Tx;
use crate::binding::{ActiveRefresh, FailedRefresh, RefreshHistory};
use crate::error::Result;
use crate::ids::TableId;
use crate::job::{Job, JobState};

/// The table of histories, and what says of a job whether it is automatic and of which declaration.
pub(super) const TABLES: &[&str] = &[
    "ALTER TABLE jobs ADD COLUMN automatic BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE jobs ADD COLUMN binding TEXT",
    "CREATE TABLE refresh_histories (
        binding_key      TEXT   NOT NULL PRIMARY KEY,
        table_id         TEXT   NOT NULL,
        revision         TEXT   NOT NULL,
        failure_streak   BIGINT NOT NULL,
        blocked_by       TEXT,
        succeeded_job    TEXT,
        succeeded_at     BIGINT,
        failed_job       TEXT,
        failed_at        BIGINT,
        failed_state     TEXT,
        failed_automatic BIGINT,
        failed_message   TEXT,
        last_job         TEXT   NOT NULL
    )",
    "CREATE INDEX refresh_histories_of_table ON refresh_histories (table_id)",
    // Whose job is next: by lane, then by table.
    "CREATE INDEX jobs_turns ON jobs (automatic, CASE WHEN automatic = 0 THEN submitted_by ELSE '' END,
            COALESCE(table_id, ''), created_at, job_id)
        WHERE state = 'queued' AND parent IS NULL",
    // What a user has submitted and not seen the end of.
    "CREATE INDEX jobs_unfinished_of_user ON jobs (submitted_by) WHERE finished_at IS NULL AND automatic = 0",
];

/// Takes the end of a job into the history of its binding.
pub(super) async fn ended(tx: &mut Tx, job: &Job, gone: bool) -> Result<()> {
    let (Some(key), Some(table)) = (&job.exclusive_key, job.table_id) else { return Ok(()) };
    if job.binding.is_none() {
        return Ok(());
    }
    let earlier = sqlx::query("SELECT * FROM refresh_histories WHERE binding_key = $1")
        .bind(key)
        .fetch_optional(tx.connection())
        .await?;
    let earlier = earlier.map(|row| history(&row)).transpose()?;
    match RefreshHistory::after(earlier, job, gone) {
        Some(history) => save(tx, table, &history).await,
        None => Ok(()),
    }
}

async fn save(tx: &mut Tx, table: TableId, history: &RefreshHistory) -> Result<()> {
    let failed = history.failed.as_ref();
    sqlx::query(
        "INSERT OR REPLACE INTO refresh_histories (binding_key, table_id, revision, failure_streak, blocked_by,
            succeeded_job, succeeded_at, failed_job, failed_at, failed_state, failed_automatic, failed_message, last_job)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
    )
    .bind(&history.key)
    .bind(table.to_string())
    .bind(&history.revision)
    .bind(i64::from(history.failure_streak))
    .bind(history.blocked_by.map(|job| job.to_string()))
    .bind(history.succeeded.map(|(job, _)| job.to_string()))
    .bind(history.succeeded.map(|(_, at)| micros(at)))
    .bind(failed.map(|failed| failed.job.to_string()))
    .bind(failed.map(|failed| micros(failed.at)))
    .bind(failed.map(|failed| failed.state.as_str().to_owned()))
    .bind(failed.map(|failed| i64::from(failed.automatic)))
    .bind(failed.and_then(|failed| failed.message.clone()))
    .bind(history.last().to_string())
    .execute(tx.connection())
    .await?;
    Ok(())
}

impl Catalog {
    /// Returns what the refreshes of the columns of a table, or of a view, have come to, by binding; of all tables
    /// without one.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn refresh_histories(&self, table: Option<TableId>) -> Result<HashMap<String, RefreshHistory>> {
        let sql = "SELECT * FROM refresh_histories WHERE $1 IS NULL OR table_id = $1";
        let rows = sqlx::query(sql).bind(table.map(|id| id.to_string())).fetch_all(self.readers()).await?;
        let read = |row| history(row).map(|history| (history.key.clone(), history));
        rows.iter().map(read).collect()
    }

    /// Returns the refreshes that have not ended, of one table or of all.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn active_refreshes(&self, table: Option<TableId>) -> Result<Vec<ActiveRefresh>> {
        let rows = sqlx::query(
            "SELECT job_id, exclusive_key, table_id, state, automatic FROM jobs
             WHERE finished_at IS NULL AND (binding IS NOT NULL OR kind IN ('computed_refresh', 'function_refresh'))
                AND exclusive_key IS NOT NULL AND ($1 IS NULL OR table_id = $1)",
        )
        .bind(table.map(|id| id.to_string()))
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(active).collect()
    }
}

/// Removes the histories of tables that are gone.
pub(super) const SWEEP: &str = "DELETE FROM refresh_histories WHERE table_id NOT IN (SELECT table_id FROM tables)";

fn active(row: &SqliteRow) -> Result<ActiveRefresh> {
    let table: Option<&str> = row.try_get("table_id")?;
    Ok(ActiveRefresh {
        job: rows::parsed("job_id", row.try_get("job_id")?)?,
        key: row.try_get("exclusive_key")?,
        table: table.map(|id| rows::parsed("table_id", id)).transpose()?,
        state: JobState::from(row.try_get::<&str, _>("state")?),
        automatic: row.try_get::<i64, _>("automatic")? != 0,
    })
}

fn history(row: &SqliteRow) -> Result<RefreshHistory> {
    let job = |column: &'static str| -> Result<_> {
        row.try_get::<Option<&str>, _>(column)?.map(|id| rows::parsed(column, id)).transpose()
    };
    let at = |column: &'static str| -> Result<_> { rows::optional_timestamp(column, row.try_get(column)?) };
    let mut history = RefreshHistory::stored(
        row.try_get("binding_key")?,
        row.try_get("revision")?,
        rows::parsed("last_job", row.try_get("last_job")?)?,
    );
    history.failure_streak = rows::unsigned("failure_streak", row.try_get("failure_streak")?)?;
    history.blocked_by = job("blocked_by")?;
    history.succeeded = job("succeeded_job")?.zip(at("succeeded_at")?);
    if let Some((job, at)) = job("failed_job")?.zip(at("failed_at")?) {
        history.failed = Some(FailedRefresh {
            job,
            at,
            state: JobState::from(row.try_get::<Option<&str>, _>("failed_state")?.unwrap_or("failed")),
            automatic: row.try_get::<Option<i64>, _>("failed_automatic")?.unwrap_or_default() != 0,
            message: row.try_get("failed_message")?,
        });
    }
    Ok(history)
}
