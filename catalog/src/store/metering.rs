//! What succeeded refreshes of Function columns have used.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::Catalog;
use super::rows::{self, micros, signed};
use super::writer::Tx;
use crate::error::Result;
use crate::job::Job;
use crate::metering::MeteredRefresh;
use crate::object::{TableName, namespace_from_text, namespace_to_text};

/// The table; each row is written in the transaction that ends its job.
pub(super) const TABLES: &[&str] = &[
    "CREATE TABLE refresh_metering (
        job_id           TEXT   NOT NULL PRIMARY KEY,
        database_name    TEXT   NOT NULL,
        namespace        TEXT   NOT NULL,
        table_name       TEXT   NOT NULL,
        column_name      TEXT   NOT NULL,
        branch           TEXT,
        function_name    TEXT   NOT NULL,
        function_version BIGINT NOT NULL,
        submitted_by     TEXT   NOT NULL,
        automatic        BIGINT NOT NULL,
        created_at       BIGINT NOT NULL,
        started_at       BIGINT,
        finished_at      BIGINT NOT NULL,
        result           TEXT   NOT NULL
    )",
    "CREATE INDEX refresh_metering_newest ON refresh_metering (database_name, finished_at, job_id)",
    "CREATE INDEX refresh_metering_oldest ON refresh_metering (finished_at)",
];

/// Keeps what a job that has ended used, if it is one of those.
pub(super) async fn ended(tx: &mut Tx, job: &Job) -> Result<()> {
    let Some(metered) = MeteredRefresh::of(job) else { return Ok(()) };
    sqlx::query(
        "INSERT INTO refresh_metering (job_id, database_name, namespace, table_name, column_name, branch,
            function_name, function_version, submitted_by, automatic, created_at, started_at, finished_at, result)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (job_id) DO NOTHING",
    )
    .bind(metered.job_id.to_string())
    .bind(&metered.table.database)
    .bind(namespace_to_text(&metered.table.namespace)?)
    .bind(&metered.table.name)
    .bind(&metered.column)
    .bind(&metered.branch)
    .bind(&metered.function)
    .bind(signed("function_version", metered.function_version)?)
    .bind(&metered.submitted_by)
    .bind(i64::from(metered.automatic))
    .bind(micros(metered.created_at))
    .bind(metered.started_at.map(micros))
    .bind(micros(metered.finished_at))
    .bind(metered.result.to_string())
    .execute(tx.connection())
    .await?;
    Ok(())
}

impl Catalog {
    /// Returns what succeeded refreshes of Function columns of a database have used, newest first.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn metered_refreshes(&self, database: &str, limit: usize) -> Result<Vec<MeteredRefresh>> {
        let rows = sqlx::query(
            "SELECT * FROM refresh_metering WHERE database_name = $1 ORDER BY finished_at DESC, job_id DESC LIMIT $2",
        )
        .bind(database)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(metered).collect()
    }
}

fn metered(row: &SqliteRow) -> Result<MeteredRefresh> {
    Ok(MeteredRefresh {
        job_id: rows::parsed("job_id", row.try_get("job_id")?)?,
        table: TableName {
            database: row.try_get("database_name")?,
            namespace: namespace_from_text(row.try_get("namespace")?),
            name: row.try_get("table_name")?,
        },
        column: row.try_get("column_name")?,
        branch: row.try_get("branch")?,
        function: row.try_get("function_name")?,
        function_version: rows::unsigned("function_version", row.try_get("function_version")?)?,
        submitted_by: row.try_get("submitted_by")?,
        automatic: row.try_get::<i64, _>("automatic")? != 0,
        created_at: rows::timestamp("created_at", row.try_get("created_at")?)?,
        started_at: rows::optional_timestamp("started_at", row.try_get("started_at")?)?,
        finished_at: rows::timestamp("finished_at", row.try_get("finished_at")?)?,
        result: rows::json("result", row.try_get("result")?)?,
    })
}
