//! The rows that Functions failed on.
//!
//! There is one record for each job that failed rows of a fragment of a column: what those have in common, and the
//! rows, as JSON. A row is in the record of the job that computed it last, and in no other. Records are written in
//! the transaction that notes the publication of their part, and by their place, so that writing them again changes
//! nothing. One record for each row would be ten times the work, which the end of a refresh waits for.

use std::collections::HashMap;

use futures::TryStreamExt;
use roaring::RoaringBitmap;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::Catalog;
use super::rows::{self, damaged, micros, signed};
use super::writer::Tx;
use crate::Timestamp;
use crate::error::Result;
use crate::function::{FailedPlace, PartFailures, RowFailure};
use crate::ids::TableId;
use crate::job::Job;

/// Rows of one table whose exceptions are kept (decision 28); the others are counted.
const FAILURES_MAX: u64 = 100_000;
/// What rows that are only counted have for an exception.
const SUMMARY_TYPE: &str = "RowErrorsCapped";

/// See the module documentation.
pub(super) const TABLES: &[&str] = &[
    // `failed` are the rows whose exceptions are known, `listed` of them: offset, stable id, name and text of the
    // exception, attempts. `beyond` are the offsets of those that are only counted, as a Roaring bitmap.
    "CREATE TABLE fragment_failures (
        table_id         TEXT   NOT NULL,
        branch           TEXT   NOT NULL,
        field_id         BIGINT NOT NULL,
        fragment_id      BIGINT NOT NULL,
        job_id           TEXT   NOT NULL,
        column_name      TEXT   NOT NULL,
        function_name    TEXT   NOT NULL,
        function_version TEXT   NOT NULL,
        table_version    BIGINT NOT NULL,
        created_at       BIGINT NOT NULL,
        listed           BIGINT NOT NULL,
        failed           TEXT   NOT NULL,
        beyond           BLOB,
        PRIMARY KEY (table_id, branch, field_id, fragment_id, job_id)
    )",
    "CREATE INDEX fragment_failures_of_job ON fragment_failures (table_id, job_id)",
    "INSERT INTO fragment_failures
     SELECT table_id, branch, field_id, fragment_id, job_id, max(column_name), max(function_name),
         max(function_version), max(table_version), max(created_at), count(*) FILTER (WHERE row_offset >= 0),
         json_group_array(json_array(row_offset, row_id, error_type, error_message, attempts))
             FILTER (WHERE row_offset >= 0),
         max(offsets) FILTER (WHERE row_offset < 0)
     FROM row_failures GROUP BY table_id, branch, field_id, fragment_id, job_id",
    "DROP TABLE row_failures",
];

/// A row as it is stored: offset, stable id, name and text of the exception, attempts.
type Failed = (u32, Option<u64>, String, String, u64);

/// The rows of a fragment that one job has failed.
#[derive(Debug, Default)]
struct Record {
    job: String,
    /// By offset.
    failed: Vec<Failed>,
    beyond: RoaringBitmap,
}

impl Record {
    fn load(row: &SqliteRow) -> Result<Self> {
        let mut failed: Vec<Failed> =
            serde_json::from_str(row.try_get("failed")?).map_err(|error| damaged("failed", error))?;
        failed.sort_by_key(|row| row.0);
        let beyond = match row.try_get::<Option<Vec<u8>>, _>("beyond")? {
            Some(bytes) => {
                RoaringBitmap::deserialize_from(bytes.as_slice()).map_err(|error| damaged("beyond", error))?
            }
            None => RoaringBitmap::new(),
        };
        Ok(Self { job: row.try_get("job_id")?, failed, beyond })
    }

    fn is_empty(&self) -> bool {
        self.failed.is_empty() && self.beyond.is_empty()
    }

    /// Takes rows away that were computed again; returns whether there were any.
    fn forget(&mut self, computed: &RoaringBitmap) -> bool {
        let before = (self.failed.len(), self.beyond.len());
        self.failed.retain(|row| !computed.contains(row.0));
        self.beyond -= computed;
        before != (self.failed.len(), self.beyond.len())
    }

    /// Only counts some of the rows from here on.
    fn cap(&mut self, count: usize) {
        self.beyond.extend(self.failed.drain(..count).map(|row| row.0));
    }

    fn offsets(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.beyond.serialize_into(&mut bytes).expect("writing to memory does not fail");
        (!self.beyond.is_empty()).then_some(bytes)
    }
}

/// Puts what parts say in the place of what was known of their rows.
pub(super) async fn replace(tx: &mut Tx, job: &Job, parts: &[PartFailures], now: Timestamp) -> Result<()> {
    let Some(table) = job.table_id else { return Ok(()) };
    let mut added = false;
    for part in parts {
        let place = Place { table: table.to_string(), branch: job.branch.clone().unwrap_or_default(), part, now };
        added |= place.replace(tx, job).await?;
    }
    if added { cap_oldest(tx, &table.to_string()).await } else { Ok(()) }
}

struct Place<'a> {
    table: String,
    branch: String,
    part: &'a PartFailures,
    now: Timestamp,
}

impl Place<'_> {
    /// Returns whether there are rows of the job now.
    async fn replace(&self, tx: &mut Tx, job: &Job) -> Result<bool> {
        let (part, by) = (self.part, job.id.to_string());
        let mut own = Record { job: by.clone(), ..Record::default() };
        let mut attempts: HashMap<u32, (String, u64)> = HashMap::new();
        for mut record in self.known(tx).await? {
            for (offset, .., count) in record.failed.iter().filter(|row| part.failed.contains(row.0)) {
                attempts.insert(*offset, (record.job.clone(), *count));
            }
            let changed = record.forget(&part.computed);
            if record.job == by {
                own = record;
            } else if changed {
                self.write(tx, &record).await?;
            }
        }
        for row in &part.detail {
            let before = attempts.get(&row.offset).map_or(1, |(job, count)| count + u64::from(*job != by));
            own.failed.push((row.offset, row.row_id, row.error_type.clone(), row.error_message.clone(), before));
        }
        own.failed.sort_by_key(|row| row.0);
        let listed: RoaringBitmap = part.detail.iter().map(|row| row.offset).collect();
        own.beyond |= &part.failed - &listed;
        self.write(tx, &own).await?;
        Ok(!own.is_empty())
    }

    async fn known(&self, tx: &mut Tx) -> Result<Vec<Record>> {
        let rows = sqlx::query(
            "SELECT job_id, failed, beyond FROM fragment_failures
             WHERE table_id = $1 AND branch = $2 AND field_id = $3 AND fragment_id = $4",
        )
        .bind(&self.table)
        .bind(&self.branch)
        .bind(self.part.field_id)
        .bind(signed("fragment_id", self.part.fragment_id)?)
        .fetch_all(tx.connection())
        .await?;
        rows.iter().map(Record::load).collect()
    }

    /// Writes a record; one without rows goes. What an earlier job's says besides its rows stays.
    async fn write(&self, tx: &mut Tx, record: &Record) -> Result<()> {
        let part = self.part;
        let text = match record.is_empty() {
            true => {
                "DELETE FROM fragment_failures
                 WHERE table_id = $1 AND branch = $2 AND field_id = $3 AND fragment_id = $4 AND job_id = $5"
            }
            false => {
                "INSERT INTO fragment_failures (table_id, branch, field_id, fragment_id, job_id, column_name,
                     function_name, function_version, table_version, created_at, listed, failed, beyond)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
                 ON CONFLICT (table_id, branch, field_id, fragment_id, job_id) DO UPDATE
                 SET listed = excluded.listed, failed = excluded.failed, beyond = excluded.beyond"
            }
        };
        let query = sqlx::query(text).bind(&self.table).bind(&self.branch).bind(part.field_id);
        let mut query = query.bind(signed("fragment_id", part.fragment_id)?).bind(&record.job);
        if !record.is_empty() {
            query = query.bind(&part.column).bind(&part.function).bind(&part.function_version);
            query = query.bind(signed("table_version", part.table_version)?).bind(micros(self.now));
            query = query.bind(listed(record)).bind(text_of(record)).bind(record.offsets());
        }
        query.execute(tx.connection()).await?;
        Ok(())
    }
}

fn listed(record: &Record) -> i64 {
    i64::try_from(record.failed.len()).expect("a list fits into memory")
}

fn text_of(record: &Record) -> String {
    serde_json::to_string(&record.failed).expect("numbers and texts are JSON")
}

/// Only counts the oldest rows of a table of which there are too many.
async fn cap_oldest(tx: &mut Tx, table: &str) -> Result<()> {
    let all: i64 = sqlx::query_scalar("SELECT coalesce(sum(listed), 0) FROM fragment_failures WHERE table_id = $1")
        .bind(table)
        .fetch_one(tx.connection())
        .await?;
    let mut excess = rows::unsigned::<u64>("listed", all)?.saturating_sub(FAILURES_MAX);
    while excess > 0 {
        let row = sqlx::query(
            "SELECT rowid, job_id, failed, beyond FROM fragment_failures WHERE table_id = $1 AND listed > 0
             ORDER BY created_at, job_id, fragment_id LIMIT 1",
        )
        .bind(table)
        .fetch_one(tx.connection())
        .await?;
        let mut record = Record::load(&row)?;
        let count = record.failed.len().min(usize::try_from(excess).unwrap_or(usize::MAX));
        record.cap(count);
        excess -= count as u64;
        sqlx::query("UPDATE fragment_failures SET listed = $2, failed = $3, beyond = $4 WHERE rowid = $1")
            .bind(row.try_get::<i64, _>("rowid")?)
            .bind(listed(&record))
            .bind(text_of(&record))
            .bind(record.offsets())
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
        let table = table.to_string();
        let mut records = sqlx::query(
            "SELECT * FROM fragment_failures WHERE table_id = $1 AND ($2 IS NULL OR job_id = $2)
             ORDER BY job_id DESC, branch, column_name, fragment_id",
        )
        .bind(&table)
        .bind(job)
        .fetch(self.readers());
        let (mut failures, limit) = (Vec::new(), limit as usize);
        while failures.len() < limit {
            let Some(row) = records.try_next().await? else { break };
            add(&mut failures, &row)?;
        }
        failures.truncate(limit);
        Ok(failures)
    }

    /// Returns the places of the rows that the Function of a column failed on: the fragment, its offsets, and, of
    /// those whose exceptions are known, the stable ids.
    ///
    /// # Errors
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn failed_places(&self, table: TableId, branch: Option<&str>, field_id: i32) -> Result<Vec<FailedPlace>> {
        let rows = sqlx::query(
            "SELECT job_id, fragment_id, failed, beyond FROM fragment_failures
             WHERE table_id = $1 AND branch = $2 AND field_id = $3",
        )
        .bind(table.to_string())
        .bind(branch.unwrap_or_default())
        .bind(field_id)
        .fetch_all(self.readers())
        .await?;
        let mut places = Vec::new();
        for row in &rows {
            let fragment_id = rows::unsigned("fragment_id", row.try_get("fragment_id")?)?;
            let Record { failed, beyond, .. } = Record::load(row)?;
            places.extend(failed.into_iter().map(|(offset, row_id, ..)| FailedPlace {
                fragment_id,
                offsets: RoaringBitmap::from_iter([offset]),
                row_id,
            }));
            if !beyond.is_empty() {
                places.push(FailedPlace { fragment_id, offsets: beyond, row_id: None });
            }
        }
        Ok(places)
    }
}

/// Adds the rows of a record: those whose exceptions are known by offset, then one for all others.
fn add(failures: &mut Vec<RowFailure>, row: &SqliteRow) -> Result<()> {
    let Record { failed, beyond, .. } = Record::load(row)?;
    let branch: String = row.try_get("branch")?;
    let common = RowFailure {
        table_id: rows::parsed("table_id", row.try_get("table_id")?)?,
        branch: Some(branch).filter(|branch| !branch.is_empty()),
        job_id: rows::parsed("job_id", row.try_get("job_id")?)?,
        column: row.try_get("column_name")?,
        function: row.try_get("function_name")?,
        function_version: row.try_get("function_version")?,
        table_version: rows::unsigned("table_version", row.try_get("table_version")?)?,
        fragment_id: rows::unsigned("fragment_id", row.try_get("fragment_id")?)?,
        row_offset: None,
        rows: beyond.len(),
        row_id: None,
        error_type: SUMMARY_TYPE.to_owned(),
        error_message: format!("{} more rows of the fragment failed", beyond.len()),
        attempts: 1,
        created_at: rows::timestamp("created_at", row.try_get("created_at")?)?,
    };
    failures.extend(failed.into_iter().map(|(offset, row_id, error_type, error_message, attempts)| RowFailure {
        row_offset: Some(offset),
        rows: 1,
        row_id,
        error_type,
        error_message,
        attempts,
        ..common.clone()
    }));
    if !beyond.is_empty() {
        failures.push(common);
    }
    Ok(())
}
