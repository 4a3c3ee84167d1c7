//! Removing what is old enough.

use std::time::Duration;

use chrono::TimeDelta;

use super::bindings;
use super::rows::micros;
use super::{Catalog, Durability};
use crate::Timestamp;
use crate::error::Result;

/// Rows removed in one transaction, so that other changes get their turn.
const ROWS_PER_SWEEP_MAX: i64 = 1_000;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Of jobs, from their end; with their events and receipts.
    pub jobs: Duration,
    /// Of events of whatever job.
    pub events: Duration,
    /// Of what succeeded refreshes of Function columns have used, from their end.
    pub metering: Duration,
}

impl Default for RetentionPolicy {
    /// 30 days for jobs, 14 for events, a year for what was used.
    fn default() -> Self {
        RetentionPolicy { jobs: 30 * DAY, events: 14 * DAY, metering: 365 * DAY }
    }
}

/// What a sweep has removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Jobs.
    pub jobs: u64,
    /// Events, without those of removed jobs.
    pub events: u64,
}

impl Catalog {
    /// Removes ended jobs and events of a database that are older than the policy
    /// keeps, in small transactions. A job stays while a child of it is unfinished.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store). What was removed before stays
    /// removed; the next sweep goes on.
    pub async fn sweep(&self, database: &str, now: Timestamp, policy: RetentionPolicy) -> Result<Swept> {
        let mut swept = Swept::default();
        loop {
            let jobs = self.sweep_jobs(database, cut(now, policy.jobs)).await?;
            swept.jobs += jobs;
            if jobs == 0 {
                break;
            }
        }
        loop {
            let events = self.sweep_events(database, cut(now, policy.events)).await?;
            swept.events += events;
            if events == 0 {
                break;
            }
        }
        self.sweep_metering(database, cut(now, policy.metering)).await?;
        Ok(swept)
    }

    /// Returns the databases, also such that are gone, of which a sweep would remove something.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store).
    pub async fn databases_with_old_jobs(&self, now: Timestamp, policy: RetentionPolicy) -> Result<Vec<String>> {
        let names = sqlx::query_scalar(
            "SELECT database_name FROM jobs WHERE finished_at IS NOT NULL AND finished_at < $1
             UNION SELECT jobs.database_name FROM job_events JOIN jobs ON jobs.job_id = job_events.job_id
                WHERE job_events.at < $2
             UNION SELECT database_name FROM refresh_metering WHERE finished_at < $3",
        )
        .bind(cut(now, policy.jobs))
        .bind(cut(now, policy.events))
        .bind(cut(now, policy.metering))
        .fetch_all(self.readers())
        .await?;
        Ok(names)
    }

    async fn sweep_metering(&self, database: &str, ended_before: i64) -> Result<()> {
        let database = database.to_owned();
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                sqlx::query("DELETE FROM refresh_metering WHERE database_name = $1 AND finished_at < $2")
                    .bind(database)
                    .bind(ended_before)
                    .execute(tx.connection())
                    .await?;
                Ok(())
            })
        })
        .await
    }

    /// Removes the records of failed rows, and the histories of columns, of tables that are gone.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store).
    pub async fn sweep_leftovers(&self) -> Result<()> {
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                let gone = "DELETE FROM fragment_failures WHERE table_id NOT IN (SELECT table_id FROM tables)";
                sqlx::query(gone).execute(tx.connection()).await?;
                sqlx::query(bindings::SWEEP).execute(tx.connection()).await?;
                Ok(())
            })
        })
        .await
    }

    async fn sweep_jobs(&self, database: &str, ended_before: i64) -> Result<u64> {
        let database = database.to_owned();
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                let ids: Vec<String> = sqlx::query_scalar(
                    "SELECT job_id FROM jobs AS old
                     WHERE finished_at IS NOT NULL AND finished_at < $1 AND database_name = $3
                        AND NOT EXISTS (SELECT 1 FROM jobs AS child
                            WHERE child.parent = old.job_id AND child.finished_at IS NULL)
                     ORDER BY finished_at LIMIT $2",
                )
                .bind(ended_before)
                .bind(ROWS_PER_SWEEP_MAX)
                .bind(database)
                .fetch_all(tx.connection())
                .await?;
                for id in &ids {
                    for statement in [
                        "DELETE FROM job_events WHERE job_id = $1",
                        "DELETE FROM job_receipts WHERE job_id = $1",
                        "DELETE FROM jobs WHERE job_id = $1",
                    ] {
                        sqlx::query(statement).bind(id).execute(tx.connection()).await?;
                    }
                }
                Ok(ids.len() as u64)
            })
        })
        .await
    }

    async fn sweep_events(&self, database: &str, older_than: i64) -> Result<u64> {
        let database = database.to_owned();
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                let deleted = sqlx::query(
                    "DELETE FROM job_events WHERE (job_id, seq) IN
                        (SELECT job_events.job_id, seq FROM job_events JOIN jobs ON jobs.job_id = job_events.job_id
                         WHERE at < $1 AND database_name = $3 ORDER BY at LIMIT $2)",
                )
                .bind(older_than)
                .bind(ROWS_PER_SWEEP_MAX)
                .bind(database)
                .execute(tx.connection())
                .await?;
                Ok(deleted.rows_affected())
            })
        })
        .await
    }
}

fn cut(now: Timestamp, kept: Duration) -> i64 {
    TimeDelta::from_std(kept).ok().and_then(|kept| now.checked_sub_signed(kept)).map_or(i64::MIN, micros)
}
