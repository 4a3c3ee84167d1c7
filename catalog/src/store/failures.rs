//! The rows that Functions failed on.
//!
//! A row of a column has one record: that of the job that computed it last. Records are written in the transaction
//! that notes the publication of their part, and by their place, so that writing them again changes nothing.

use std::collections::HashMap;

use roaring::RoaringBitmap;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row};

use super::Catalog;
use super::rows::{self, damaged, micros, signed};
use super::writer::Tx;
use crate::Timestamp;
use crate::error::Result;
use crate::function::{FailedPlace, FailedRow, PartFailures, RowFailure};
use crate::ids::TableId;
use crate::job::Job;

/// Records of one table that are kept (decision 28).
const FAILURES_MAX: i64 = 100_000;
/// The offset of the record of all rows of a fragment that have none of their own.
const SUMMARY: i64 = -1;
/// What such a record has for an exception.
const SUMMARY_TYPE: &str = "RowErrorsCapped";

/// Records that one statement writes; SQLite takes 32,766 parameters.
const RECORDS_PER_STATEMENT: usize = 1_000;

/// What a fragment's records said before.
#[derive(Default)]
struct Known {
    /// By offset: the job that wrote the record, and how many failures it counts.
    rows: HashMap<u32, (String, i64)>,
    /// The rows without a record of their own.
    beyond: RoaringBitmap,
}

/// Puts what parts say in the place of what was known of their rows.
pub(super) async fn replace(tx: &mut Tx, job: &Job, parts: &[PartFailures], now: Timestamp) -> Result<()> {
    let Some(table) = job.table_id else { return Ok(()) };
    let mut added = false;
    for part in parts {
        let place = Place { table: table.to_string(), branch: job.branch.clone().unwrap_or_default(), part, now };
        added |= place.replace(tx, job).await?;
    }
    if added { forget_oldest(tx, &table.to_string()).await } else { Ok(()) }
}

struct Place<'a> {
    table: String,
    branch: String,
    part: &'a PartFailures,
    now: Timestamp,
}

impl Place<'_> {
    async fn known(&self, tx: &mut Tx) -> Result<Known> {
        let rows = sqlx::query(
            "SELECT row_offset, job_id, attempts, offsets FROM row_failures
             WHERE table_id = $1 AND branch = $2 AND field_id = $3 AND fragment_id = $4",
        )
        .bind(&self.table)
        .bind(&self.branch)
        .bind(self.part.field_id)
        .bind(signed("fragment_id", self.part.fragment_id)?)
        .fetch_all(tx.connection())
        .await?;
        let mut known = Known::default();
        for row in rows {
            let offset: i64 = row.try_get("row_offset")?;
            match u32::try_from(offset) {
                Ok(offset) => {
                    known.rows.insert(offset, (row.try_get("job_id")?, row.try_get("attempts")?));
                }
                Err(_) => known.beyond = bitmap(&row)?,
            }
        }
        Ok(known)
    }

    /// Returns whether there are records now.
    async fn replace(&self, tx: &mut Tx, job: &Job) -> Result<bool> {
        let part = self.part;
        let known = self.known(tx).await?;
        let mut gone: Vec<i64> =
            known.rows.keys().filter(|row| part.computed.contains(**row)).copied().map(i64::from).collect();
        if !known.beyond.is_empty() {
            gone.push(SUMMARY);
        }
        self.delete(tx, &gone).await?;
        let by = job.id.to_string();
        let mut records: Vec<Record> = part.detail.iter().map(|row| Record::of(row, &known, &by)).collect();
        let listed: RoaringBitmap = part.detail.iter().map(|row| row.offset).collect();
        let beyond = (known.beyond - &part.computed) | (&part.failed - &listed);
        let message = format!("{} more rows of the fragment failed", beyond.len());
        if !beyond.is_empty() {
            records.push(Record::beyond(&beyond, &message)?);
        }
        for records in records.chunks(RECORDS_PER_STATEMENT) {
            self.insert(tx, job, records).await?;
        }
        Ok(!records.is_empty())
    }

    async fn delete(&self, tx: &mut Tx, offsets: &[i64]) -> Result<()> {
        if offsets.is_empty() {
            return Ok(());
        }
        sqlx::query(
            "DELETE FROM row_failures
             WHERE table_id = $1 AND branch = $2 AND field_id = $3 AND fragment_id = $4
                AND row_offset IN (SELECT value FROM json_each($5))",
        )
        .bind(&self.table)
        .bind(&self.branch)
        .bind(self.part.field_id)
        .bind(signed("fragment_id", self.part.fragment_id)?)
        .bind(serde_json::json!(offsets).to_string())
        .execute(tx.connection())
        .await?;
        Ok(())
    }

    /// Writes records in one statement: each that is handed to the writing thread costs a change of threads.
    async fn insert(&self, tx: &mut Tx, job: &Job, records: &[Record<'_>]) -> Result<()> {
        let part = self.part;
        let mut query = QueryBuilder::new(
            "INSERT OR REPLACE INTO row_failures (table_id, branch, field_id, fragment_id, job_id, column_name,
                 function_name, function_version, table_version, created_at, row_offset, row_id, row_count, offsets,
                 error_type, error_message, attempts) SELECT ",
        );
        let mut shared = query.separated(", ");
        shared.push_bind(&self.table).push_bind(&self.branch).push_bind(part.field_id);
        shared.push_bind(signed("fragment_id", part.fragment_id)?).push_bind(job.id.to_string());
        shared.push_bind(&part.column).push_bind(&part.function).push_bind(&part.function_version);
        shared.push_bind(signed("table_version", part.table_version)?).push_bind(micros(self.now));
        query.push(", record.* FROM (");
        query.push_values(records, |mut row, record| {
            row.push_bind(record.offset).push_bind(record.row_id).push_bind(record.rows);
            row.push_bind(record.offsets.as_deref()).push_bind(record.error_type);
            row.push_bind(record.message).push_bind(record.attempts);
        });
        query.push(") AS record");
        // Its text depends on the number of records.
        query.build().persistent(false).execute(tx.connection()).await?;
        Ok(())
    }
}

/// One row of the table, without what the records of a part have in common.
struct Record<'a> {
    offset: i64,
    row_id: Option<i64>,
    rows: i64,
    offsets: Option<Vec<u8>>,
    error_type: &'a str,
    message: &'a str,
    attempts: i64,
}

impl<'a> Record<'a> {
    /// The record of a row that failed, by this job.
    fn of(row: &'a FailedRow, known: &Known, by: &str) -> Self {
        let before = known.rows.get(&row.offset);
        Self {
            offset: i64::from(row.offset),
            // Ids count from 0 and stay far below 2^63.
            row_id: row.row_id.and_then(|id| i64::try_from(id).ok()),
            rows: 1,
            offsets: None,
            error_type: &row.error_type,
            message: &row.error_message,
            attempts: before.map_or(1, |(earlier, count)| count + i64::from(earlier != by)),
        }
    }

    /// The record of all rows that have none of their own.
    fn beyond(rows: &RoaringBitmap, message: &'a str) -> Result<Self> {
        let mut offsets = Vec::new();
        rows.serialize_into(&mut offsets).expect("writing to memory does not fail");
        Ok(Self {
            offset: SUMMARY,
            row_id: None,
            rows: signed("row_count", rows.len())?,
            offsets: Some(offsets),
            error_type: SUMMARY_TYPE,
            message,
            attempts: 1,
        })
    }
}

async fn forget_oldest(tx: &mut Tx, table: &str) -> Result<()> {
    let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM row_failures WHERE table_id = $1")
        .bind(table)
        .fetch_one(tx.connection())
        .await?;
    if count > FAILURES_MAX {
        sqlx::query(
            "DELETE FROM row_failures WHERE rowid IN
             (SELECT rowid FROM row_failures WHERE table_id = $1 ORDER BY created_at, job_id LIMIT $2)",
        )
        .bind(table)
        .bind(count - FAILURES_MAX)
        .execute(tx.connection())
        .await?;
    }
    Ok(())
}

impl Catalog {
    /// Returns the rows of a table that Functions failed on, newest job first, then by place; of one job if named.
    ///
    /// # Errors
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn row_failures(&self, table: TableId, job: Option<&str>, limit: u32) -> Result<Vec<RowFailure>> {
        let rows = sqlx::query(
            "SELECT * FROM row_failures WHERE table_id = $1 AND ($2 IS NULL OR job_id = $2)
             ORDER BY job_id DESC, branch, column_name, fragment_id, row_offset < 0, row_offset LIMIT $3",
        )
        .bind(table.to_string())
        .bind(job)
        .bind(i64::from(limit))
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(failure).collect()
    }
}

impl Catalog {
    /// Returns the places of the rows that the Function of a column failed on: the fragment, its offsets, and, of
    /// those that have a record of their own, the stable ids.
    ///
    /// # Errors
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn failed_places(&self, table: TableId, branch: Option<&str>, field_id: i32) -> Result<Vec<FailedPlace>> {
        let rows = sqlx::query(
            "SELECT fragment_id, row_offset, row_id, offsets FROM row_failures
             WHERE table_id = $1 AND branch = $2 AND field_id = $3",
        )
        .bind(table.to_string())
        .bind(branch.unwrap_or_default())
        .bind(field_id)
        .fetch_all(self.readers())
        .await?;
        let place = |row: &SqliteRow| {
            let offset = u32::try_from(row.try_get::<i64, _>("row_offset")?).ok();
            Ok(FailedPlace {
                fragment_id: rows::unsigned("fragment_id", row.try_get("fragment_id")?)?,
                offsets: match offset {
                    Some(offset) => RoaringBitmap::from_iter([offset]),
                    None => bitmap(row)?,
                },
                row_id: row.try_get::<Option<i64>, _>("row_id")?.map(|id| rows::unsigned("row_id", id)).transpose()?,
            })
        };
        rows.iter().map(place).collect()
    }
}

fn bitmap(row: &SqliteRow) -> Result<RoaringBitmap> {
    let bytes: Vec<u8> = row.try_get("offsets")?;
    RoaringBitmap::deserialize_from(bytes.as_slice()).map_err(|error| damaged("offsets", error))
}

fn failure(row: &SqliteRow) -> Result<RowFailure> {
    let branch: String = row.try_get("branch")?;
    Ok(RowFailure {
        table_id: rows::parsed("table_id", row.try_get("table_id")?)?,
        branch: Some(branch).filter(|branch| !branch.is_empty()),
        job_id: rows::parsed("job_id", row.try_get("job_id")?)?,
        column: row.try_get("column_name")?,
        function: row.try_get("function_name")?,
        function_version: row.try_get("function_version")?,
        table_version: rows::unsigned("table_version", row.try_get("table_version")?)?,
        fragment_id: rows::unsigned("fragment_id", row.try_get("fragment_id")?)?,
        row_offset: u32::try_from(row.try_get::<i64, _>("row_offset")?).ok(),
        rows: rows::unsigned("row_count", row.try_get("row_count")?)?,
        row_id: row.try_get::<Option<i64>, _>("row_id")?.map(|id| rows::unsigned("row_id", id)).transpose()?,
        error_type: row.try_get("error_type")?,
        error_message: row.try_get("error_message")?,
        attempts: rows::unsigned("attempts", row.try_get("attempts")?)?,
        created_at: rows::timestamp("created_at", row.try_get("created_at")?)?,
    })
}
