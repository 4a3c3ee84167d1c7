//! Receipts: durable notes of an attempt about staged parts and commits.
//!
//! They are what recovery reads to tell finished work from work in flight, so
//! each is on disk before the call returns.

use sqlx::Row;

use super::draft::load_held;
use super::rows::{self, signed};
use super::{Catalog, Durability};
use crate::error::Result;
use crate::ids::{AttemptEpoch, JobId};
use crate::job::Receipt;

impl Catalog {
    /// Writes the receipt `key` of a held job, replacing the one before it.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch).
    pub async fn put_receipt(&self, id: JobId, epoch: AttemptEpoch, key: &str, value: serde_json::Value) -> Result<()> {
        let key = key.to_owned();
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                load_held(tx, id, epoch).await?;
                sqlx::query(
                    "INSERT INTO job_receipts (job_id, name, epoch, value) VALUES ($1, $2, $3, $4)
                     ON CONFLICT (job_id, name)
                        DO UPDATE SET epoch = excluded.epoch, value = excluded.value",
                )
                .bind(id.to_string())
                .bind(key)
                .bind(signed("epoch", epoch.0)?)
                .bind(value.to_string())
                .execute(tx.connection())
                .await?;
                Ok(())
            })
        })
        .await
    }

    /// Returns the receipts of all attempts of a job, in order of their keys.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store),
    /// [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn receipts(&self, id: JobId) -> Result<Vec<Receipt>> {
        let rows = sqlx::query("SELECT name, epoch, value FROM job_receipts WHERE job_id = $1 ORDER BY name")
            .bind(id.to_string())
            .fetch_all(self.readers())
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Receipt {
                    key: row.try_get("name")?,
                    epoch: AttemptEpoch(rows::unsigned("epoch", row.try_get("epoch")?)?),
                    value: rows::json("value", row.try_get("value")?)?,
                })
            })
            .collect()
    }

    /// Removes the receipts of a held job.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch).
    pub async fn delete_receipts(&self, id: JobId, epoch: AttemptEpoch) -> Result<u64> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                load_held(tx, id, epoch).await?;
                let deleted = sqlx::query("DELETE FROM job_receipts WHERE job_id = $1")
                    .bind(id.to_string())
                    .execute(tx.connection())
                    .await?;
                Ok(deleted.rows_affected())
            })
        })
        .await
    }

    /// Removes one receipt of a held job, and returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch).
    pub async fn delete_receipt(&self, id: JobId, epoch: AttemptEpoch, key: &str) -> Result<bool> {
        let key = key.to_owned();
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                load_held(tx, id, epoch).await?;
                let deleted = sqlx::query("DELETE FROM job_receipts WHERE job_id = $1 AND name = $2")
                    .bind(id.to_string())
                    .bind(key)
                    .execute(tx.connection())
                    .await?;
                Ok(deleted.rows_affected() == 1)
            })
        })
        .await
    }
}
