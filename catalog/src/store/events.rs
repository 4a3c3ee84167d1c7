//! The history of jobs.

use serde_json::Value;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::rows::{self, micros};
use super::writer::Tx;
use super::{Catalog, Durability, draft};
use crate::Timestamp;
use crate::error::Result;
use crate::event::{JobEvent, NewEvent};
use crate::ids::{AttemptEpoch, JobId};
use crate::job::{Job, JobFilter, JobState};

impl Catalog {
    /// Returns the newest events of a job, at most `limit` (and at most
    /// [`JobFilter::LIMIT_MAX`]), newest first. Children have their own.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store),
    /// [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn events(&self, id: JobId, limit: u32) -> Result<Vec<JobEvent>> {
        let rows = sqlx::query(
            "SELECT job_id, seq, at, state, phase, emitted_by, worker, message, details
             FROM job_events WHERE job_id = $1 ORDER BY seq DESC LIMIT $2",
        )
        .bind(id.to_string())
        .bind(i64::from(limit.min(JobFilter::LIMIT_MAX)))
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(event).collect()
    }

    /// Adds an event of a held job that changes nothing else. It survives a crash of the
    /// process; power loss may take it.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch): the event is not added.
    pub async fn append_event(&self, id: JobId, epoch: AttemptEpoch, event: NewEvent, now: Timestamp) -> Result<()> {
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                let job = draft::load_held(tx, id, epoch).await?.job;
                add(tx, &job, event, now).await
            })
        })
        .await
    }
}

async fn add(tx: &mut Tx, job: &Job, event: NewEvent, now: Timestamp) -> Result<()> {
    let note = Note {
        emitted_by: &event.emitted_by,
        worker: event.worker.as_deref(),
        message: &event.message,
        details: event.details,
    };
    note.record(tx, job, now).await
}

/// What an event says besides the state of the job.
pub(super) struct Note<'a> {
    emitted_by: &'a str,
    worker: Option<&'a str>,
    message: &'a str,
    details: Option<Value>,
}

impl<'a> Note<'a> {
    pub(super) fn by(emitted_by: &'a str) -> Self {
        Note { emitted_by, worker: None, message: "", details: None }
    }

    pub(super) fn saying(self, message: &'a str) -> Self {
        Note { message, ..self }
    }

    pub(super) fn with(self, details: Value) -> Self {
        Note { details: Some(details), ..self }
    }

    /// Writes the event of `job` as it is now.
    pub(super) async fn record(self, tx: &mut Tx, job: &Job, now: Timestamp) -> Result<()> {
        // Counted on the job, so that a number is not used again after
        // retention has removed the event that had it.
        let seq: i64 =
            sqlx::query_scalar("UPDATE jobs SET last_event = last_event + 1 WHERE job_id = $1 RETURNING last_event")
                .bind(job.id.to_string())
                .fetch_one(tx.connection())
                .await?;
        sqlx::query(
            "INSERT INTO job_events
                (job_id, seq, at, state, phase, emitted_by, worker, message, details)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        )
        .bind(job.id.to_string())
        .bind(seq)
        .bind(micros(now))
        .bind(job.status.state.as_str())
        .bind(&job.phase)
        .bind(self.emitted_by)
        .bind(self.worker)
        .bind(self.message)
        .bind(self.details.map(|details| details.to_string()))
        .execute(tx.connection())
        .await?;
        Ok(())
    }
}

fn event(row: &SqliteRow) -> Result<JobEvent> {
    let job_id: JobId = rows::parsed("job_id", row.try_get("job_id")?)?;
    let seq: i64 = row.try_get("seq")?;
    Ok(JobEvent {
        event_id: event_id(job_id, seq),
        job_id,
        at: rows::timestamp("at", row.try_get("at")?)?,
        state: JobState::from(row.try_get::<&str, _>("state")?),
        phase: row.try_get("phase")?,
        emitted_by: row.try_get("emitted_by")?,
        worker: row.try_get("worker")?,
        message: row.try_get("message")?,
        details: rows::optional_json("details", row.try_get("details")?)?,
    })
}

/// An event is known by its job and its place in the history of the job.
fn event_id(job: JobId, seq: i64) -> String {
    let job = job.to_string();
    format!("evt_{}_{seq}", job.trim_start_matches("job_"))
}
