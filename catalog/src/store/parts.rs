//! Staged parts: files that a refresh has computed and not yet published.
//!
//! A part is a receipt whose key says where it is in its life:
//! `staged/<file>` once it is complete, `published/<file>` once a table version
//! shows it, `garbage/<file>` once it is to be deleted. A part belongs to one
//! job at a time; a job that reuses a part of an ended one takes it over. All
//! moves are transactions of the one writer, so no part is both reused and
//! deleted.

use std::collections::HashSet;

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::draft::load_held;
use super::rows::{self, micros, signed};
use super::writer::Tx;
use super::{Catalog, Durability};
use crate::Timestamp;
use crate::error::Result;
use crate::function::PartFailures;
use crate::ids::{AttemptEpoch, JobId};
use crate::job::{Control, Receipt};

const STAGED: &str = "staged/";
const PUBLISHED: &str = "published/";
const GARBAGE: &str = "garbage/";

impl Catalog {
    /// Notes complete parts of a held job, all or none, each under the name of
    /// its file, and returns what a user has asked of the attempt. Without
    /// parts it only asks. On disk when it returns.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch).
    pub async fn note_parts(
        &self,
        id: JobId,
        epoch: AttemptEpoch,
        parts: Vec<(String, serde_json::Value)>,
    ) -> Result<Option<Control>> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let requested = load_held(tx, id, epoch).await?.job.status.requested;
                for (file, value) in parts {
                    sqlx::query(
                        "INSERT INTO job_receipts (job_id, name, epoch, value) SELECT $1, $2, $3, $4
                         WHERE NOT EXISTS (SELECT 1 FROM job_receipts WHERE job_id = $1 AND name = $5)
                         ON CONFLICT (job_id, name) DO NOTHING",
                    )
                    .bind(id.to_string())
                    .bind(format!("{STAGED}{file}"))
                    .bind(signed("epoch", epoch.0)?)
                    .bind(value.to_string())
                    // A note that comes twice does not unsay that the part is published.
                    .bind(format!("{PUBLISHED}{file}"))
                    .execute(tx.connection())
                    .await?;
                }
                Ok(requested)
            })
        })
        .await
    }

    /// Notes that a table version shows these parts of a held job, and, in the same transaction, which of their rows
    /// failed. Not flushed: until it is, the parts are offered again and the table itself tells it again, so a row
    /// that failed is recorded once, whatever happens.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch): nothing more may be published.
    pub async fn parts_published(
        &self,
        id: JobId,
        epoch: AttemptEpoch,
        files: Vec<String>,
        failures: Vec<PartFailures>,
        now: Timestamp,
    ) -> Result<()> {
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                let job = load_held(tx, id, epoch).await?.job;
                super::failures::replace(tx, &job, &failures, now).await?;
                for file in files {
                    rename(tx, id, STAGED, PUBLISHED, &file).await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Returns the parts that ended jobs with the exclusive key of this one have
    /// staged and not published.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn reusable_parts(&self, id: JobId) -> Result<Vec<Receipt>> {
        let rows = sqlx::query(
            "SELECT part.name, part.epoch, part.value
             FROM job_receipts AS part JOIN jobs AS ended ON ended.job_id = part.job_id
             WHERE part.name >= 'staged/' AND part.name < 'staged0' AND ended.finished_at IS NOT NULL
                AND ended.exclusive_key = (SELECT exclusive_key FROM jobs WHERE job_id = $1)
             ORDER BY ended.created_at DESC, part.name",
        )
        .bind(id.to_string())
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(|row| receipt(row, STAGED)).collect()
    }

    /// Makes parts of ended jobs parts of this held job; returns those that were
    /// still there to be had. On disk when it returns.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch).
    pub async fn take_parts(&self, id: JobId, epoch: AttemptEpoch, files: Vec<String>) -> Result<Vec<String>> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                load_held(tx, id, epoch).await?;
                let mut taken = Vec::with_capacity(files.len());
                for file in files {
                    let moved = sqlx::query(
                        "UPDATE job_receipts SET job_id = $1, epoch = $2
                         WHERE name = $3 AND job_id IN (SELECT job_id FROM jobs WHERE finished_at IS NOT NULL
                            AND exclusive_key = (SELECT exclusive_key FROM jobs WHERE job_id = $1))",
                    )
                    .bind(id.to_string())
                    .bind(signed("epoch", epoch.0)?)
                    .bind(format!("{STAGED}{file}"))
                    .execute(tx.connection())
                    .await?;
                    if moved.rows_affected() == 1 {
                        taken.push(file);
                    }
                }
                Ok(taken)
            })
        })
        .await
    }

    /// Returns the parts that jobs which ended before this time have staged and
    /// not published. The key of a receipt is the name of the file.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn left_parts(&self, ended_before: Timestamp) -> Result<Vec<(JobId, Receipt)>> {
        let rows = sqlx::query(
            "SELECT part.job_id, part.name, part.epoch, part.value
             FROM job_receipts AS part JOIN jobs AS ended ON ended.job_id = part.job_id
             WHERE part.name >= 'staged/' AND part.name < 'staged0' AND ended.finished_at < $1
             ORDER BY part.job_id, part.name",
        )
        .bind(micros(ended_before))
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(|row| of_job(row, STAGED)).collect()
    }

    /// Gives up parts of jobs that ended before this time, and returns how many
    /// there still were. Nobody is handed such a part any more. On disk when it
    /// returns.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store).
    pub async fn give_up_parts(&self, parts: Vec<(JobId, String)>, ended_before: Timestamp) -> Result<u64> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let mut given_up = 0;
                for (id, file) in parts {
                    // Taken over since it was looked at, it is another job's.
                    let moved = sqlx::query(
                        "UPDATE OR REPLACE job_receipts SET name = $1 WHERE job_id = $2 AND name = $3
                            AND job_id IN (SELECT job_id FROM jobs WHERE finished_at < $4)",
                    )
                    .bind(format!("{GARBAGE}{file}"))
                    .bind(id.to_string())
                    .bind(format!("{STAGED}{file}"))
                    .bind(micros(ended_before))
                    .execute(tx.connection())
                    .await?;
                    given_up += moved.rows_affected();
                }
                Ok(given_up)
            })
        })
        .await
    }

    /// Returns the parts that were given up and not forgotten yet. The key of a
    /// receipt is the name of the file.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn given_up_parts(&self) -> Result<Vec<(JobId, Receipt)>> {
        let rows = sqlx::query(
            "SELECT job_id, name, epoch, value FROM job_receipts
             WHERE name >= 'garbage/' AND name < 'garbage0' ORDER BY job_id, name",
        )
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(|row| of_job(row, GARBAGE)).collect()
    }

    /// Returns the names of all files that are noted and not known to be
    /// published, whatever the state of their job.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store).
    pub async fn unpublished_files(&self) -> Result<HashSet<String>> {
        let names: Vec<String> = sqlx::query_scalar(
            "SELECT substr(name, 8) FROM job_receipts WHERE name >= 'staged/' AND name < 'staged0'
             UNION ALL
             SELECT substr(name, 9) FROM job_receipts WHERE name >= 'garbage/' AND name < 'garbage0'",
        )
        .fetch_all(self.readers())
        .await?;
        Ok(names.into_iter().collect())
    }

    /// Forgets a part that was given up: its file is deleted, or referenced by a
    /// table version after all.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store).
    pub async fn forget_part(&self, id: JobId, file: &str, published: bool) -> Result<()> {
        let file = file.to_owned();
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                if published {
                    return rename(tx, id, GARBAGE, PUBLISHED, &file).await;
                }
                sqlx::query("DELETE FROM job_receipts WHERE job_id = $1 AND name = $2")
                    .bind(id.to_string())
                    .bind(format!("{GARBAGE}{file}"))
                    .execute(tx.connection())
                    .await?;
                Ok(())
            })
        })
        .await
    }
}

async fn rename(tx: &mut Tx, id: JobId, from: &str, to: &str, file: &str) -> Result<()> {
    sqlx::query("UPDATE OR REPLACE job_receipts SET name = $1 WHERE job_id = $2 AND name = $3")
        .bind(format!("{to}{file}"))
        .bind(id.to_string())
        .bind(format!("{from}{file}"))
        .execute(tx.connection())
        .await?;
    Ok(())
}

fn of_job(row: &SqliteRow, prefix: &str) -> Result<(JobId, Receipt)> {
    Ok((rows::parsed("job_id", row.try_get("job_id")?)?, receipt(row, prefix)?))
}

fn receipt(row: &SqliteRow, prefix: &str) -> Result<Receipt> {
    let name: String = row.try_get("name")?;
    Ok(Receipt {
        key: name.strip_prefix(prefix).unwrap_or(&name).to_owned(),
        epoch: AttemptEpoch(rows::unsigned("epoch", row.try_get("epoch")?)?),
        value: rows::json("value", row.try_get("value")?)?,
    })
}
