//! Conversion between rows and values.

use chrono::DateTime;
use serde_json::Value;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::Timestamp;
use crate::error::{CatalogError, Result};
use crate::ids::{AttemptEpoch, GatewayId, JobId};
use crate::job::{Control, Job, JobKind, JobState, JobSummary, Status};
use crate::object::namespace_from_text;

pub(super) fn micros(at: Timestamp) -> i64 {
    at.timestamp_micros()
}

pub(super) fn timestamp(column: &'static str, micros: i64) -> Result<Timestamp> {
    DateTime::from_timestamp_micros(micros).ok_or_else(|| damaged(column, micros))
}

pub(super) fn optional_timestamp(column: &'static str, micros: Option<i64>) -> Result<Option<Timestamp>> {
    micros.map(|micros| timestamp(column, micros)).transpose()
}

pub(super) fn json(column: &'static str, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|_| damaged(column, text))
}

pub(super) fn optional_json(column: &'static str, text: Option<String>) -> Result<Option<Value>> {
    text.map(|text| json(column, &text)).transpose()
}

pub(super) fn unsigned<T: TryFrom<i64>>(column: &'static str, value: i64) -> Result<T> {
    T::try_from(value).map_err(|_| damaged(column, value))
}

/// Stores an unsigned number. What does not fit is not a number of ours.
pub(super) fn signed(column: &'static str, value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| damaged(column, value))
}

pub(super) fn parsed<T: std::str::FromStr>(column: &'static str, text: &str) -> Result<T> {
    text.parse().map_err(|_| damaged(column, text))
}

pub(super) fn damaged(column: &'static str, value: impl ToString) -> CatalogError {
    CatalogError::DamagedValue { column, value: value.to_string() }
}

/// The columns that [`job`] reads.
pub(super) const JOB_COLUMNS: &str = "job_id, kind, database_name, namespace, table_name, \
    table_id, column_name, branch, submitted_by, spec, parent, exclusive_key, automatic, binding, state, requested, \
    phase, progress, queue_reason, result, failure, source_version, epoch, attempt, gateway, \
    lease_expires_at, not_before, created_at, updated_at, started_at, finished_at";

/// The columns that [`summary`] reads, by their places: every name that is looked up and every value that is copied
/// counts in a listing of a thousand jobs.
pub(super) const SUMMARY_COLUMNS: &str = "job_id, kind, namespace, table_name, submitted_by, state, phase, progress, \
    queue_reason, CASE WHEN state = 'succeeded' THEN json_extract(result, '$.rows_failed') END, \
    json_extract(failure, '$.message'), epoch, attempt, not_before, created_at, updated_at, finished_at";

pub(super) fn summary(row: &SqliteRow) -> Result<JobSummary> {
    Ok(JobSummary {
        id: parsed("job_id", row.try_get(0)?)?,
        kind: JobKind::from(row.try_get::<&str, _>(1)?),
        namespace: namespace_from_text(row.try_get(2)?),
        table_name: row.try_get(3)?,
        submitted_by: row.try_get(4)?,
        state: JobState::from(row.try_get::<&str, _>(5)?),
        phase: row.try_get(6)?,
        progress: row.try_get(7)?,
        queue_reason: row.try_get(8)?,
        rows_failed: row.try_get::<Option<i64>, _>(9)?.map(|rows| unsigned("result", rows)).transpose()?,
        error: row.try_get(10)?,
        epoch: AttemptEpoch(unsigned("epoch", row.try_get(11)?)?),
        attempt: unsigned("attempt", row.try_get(12)?)?,
        not_before: optional_timestamp("not_before", row.try_get(13)?)?,
        created_at: timestamp("created_at", row.try_get(14)?)?,
        updated_at: timestamp("updated_at", row.try_get(15)?)?,
        finished_at: optional_timestamp("finished_at", row.try_get(16)?)?,
    })
}

pub(super) fn job(row: &SqliteRow) -> Result<Job> {
    let id: JobId = parsed("job_id", row.try_get("job_id")?)?;
    Ok(Job {
        id,
        kind: JobKind::from(row.try_get::<&str, _>("kind")?),
        database: row.try_get("database_name")?,
        namespace: namespace_from_text(row.try_get("namespace")?),
        table_name: row.try_get("table_name")?,
        table_id: optional_parsed("table_id", row.try_get("table_id")?)?,
        column: row.try_get("column_name")?,
        branch: row.try_get("branch")?,
        submitted_by: row.try_get("submitted_by")?,
        spec: json("spec", row.try_get("spec")?)?,
        parent: optional_parsed("parent", row.try_get("parent")?)?,
        exclusive_key: row.try_get("exclusive_key")?,
        automatic: row.try_get::<i64, _>("automatic")? != 0,
        binding: row.try_get("binding")?,
        status: status(row)?,
        phase: row.try_get("phase")?,
        progress: optional_json("progress", row.try_get("progress")?)?,
        queue_reason: row.try_get("queue_reason")?,
        result: optional_json("result", row.try_get("result")?)?,
        failure: failure(row.try_get("failure")?)?,
        source_version: row
            .try_get::<Option<i64>, _>("source_version")?
            .map(|version| unsigned("source_version", version))
            .transpose()?,
        epoch: AttemptEpoch(unsigned("epoch", row.try_get("epoch")?)?),
        attempt: unsigned("attempt", row.try_get("attempt")?)?,
        gateway: row.try_get::<Option<String>, _>("gateway")?.map(GatewayId::from),
        lease_expires_at: time(row, "lease_expires_at")?,
        not_before: time(row, "not_before")?,
        created_at: timestamp("created_at", row.try_get("created_at")?)?,
        updated_at: timestamp("updated_at", row.try_get("updated_at")?)?,
        started_at: time(row, "started_at")?,
        finished_at: time(row, "finished_at")?,
    })
}

fn status(row: &SqliteRow) -> Result<Status> {
    let requested = match row.try_get::<Option<&str>, _>("requested")? {
        None => None,
        Some("pause") => Some(Control::Pause),
        Some("cancel") => Some(Control::Cancel),
        Some(other) => return Err(damaged("requested", other)),
    };
    Ok(Status { state: JobState::from(row.try_get::<&str, _>("state")?), requested })
}

fn failure(text: Option<String>) -> Result<Option<crate::job::Failure>> {
    text.map(|text| serde_json::from_str(&text).map_err(|_| damaged("failure", &text))).transpose()
}

fn time(row: &SqliteRow, column: &'static str) -> Result<Option<Timestamp>> {
    optional_timestamp(column, row.try_get(column)?)
}

fn optional_parsed<T: std::str::FromStr>(column: &'static str, text: Option<&str>) -> Result<Option<T>> {
    text.map(|text| parsed(column, text)).transpose()
}
