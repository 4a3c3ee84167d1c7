//! What an attempt reports about the job that it holds.
//!
//! Everything carries the epoch of the attempt and is refused with
//! [`StaleEpoch`](crate::CatalogError::StaleEpoch) once another attempt has
//! claimed the job, or the job has left `in_progress`.

use serde_json::Value;

use super::draft::{self, load, load_held, step};
use super::events::Note;
use super::rows::{micros, signed};
use super::{Catalog, Durability};
use crate::Timestamp;
use crate::error::Result;
use crate::ids::{AttemptEpoch, JobId};
use crate::job::{Control, Failure, Job, Trigger};

impl Catalog {
    /// Gives a held job back to the queue, as at shutdown. A pending request
    /// to pause or cancel is fulfilled instead.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch).
    pub async fn release(&self, id: JobId, epoch: AttemptEpoch, now: Timestamp) -> Result<Job> {
        self.end_attempt(id, epoch, now, Trigger::Release, |_| {}).await
    }

    /// Ends a held job as succeeded.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch).
    pub async fn complete(&self, id: JobId, epoch: AttemptEpoch, result: Value, now: Timestamp) -> Result<Job> {
        self.end_attempt(id, epoch, now, Trigger::Complete, |job| {
            job.result = Some(result);
            job.failure = None;
        })
        .await
    }

    /// Ends a held job as failed – as canceled, if that was requested.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch).
    pub async fn fail(&self, id: JobId, epoch: AttemptEpoch, failure: Failure, now: Timestamp) -> Result<Job> {
        self.end_attempt(id, epoch, now, Trigger::Fail, |job| job.failure = Some(failure)).await
    }

    /// Ends a held job because it ran longer than it may.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch).
    pub async fn time_out(&self, id: JobId, epoch: AttemptEpoch, failure: Failure, now: Timestamp) -> Result<Job> {
        self.end_attempt(id, epoch, now, Trigger::TimeOut, |job| job.failure = Some(failure)).await
    }

    /// Gives a held job whose attempt failed back to the queue, to be claimed
    /// not before the given time. A pending request is fulfilled instead.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch).
    pub async fn retry(
        &self,
        id: JobId,
        epoch: AttemptEpoch,
        failure: Failure,
        not_before: Timestamp,
        now: Timestamp,
    ) -> Result<Job> {
        self.end_attempt(id, epoch, now, Trigger::Retry, move |job| {
            job.failure = Some(failure);
            job.not_before = Some(not_before);
        })
        .await
    }

    /// Returns how often attempts of a job have failed and given it back, as far
    /// as its events are kept.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store).
    pub async fn retries(&self, id: JobId) -> Result<u32> {
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM job_events WHERE job_id = $1 AND message = $2")
            .bind(id.to_string())
            .bind(Trigger::Retry.as_str())
            .fetch_one(self.readers())
            .await?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Parks a held job that was asked to pause, after its drain.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch);
    /// [`IllegalTransition`](crate::CatalogError::IllegalTransition) when
    /// nobody asked. If a cancel was requested meanwhile, the job is canceled.
    pub async fn paused(&self, id: JobId, epoch: AttemptEpoch, now: Timestamp) -> Result<Job> {
        self.end_attempt(id, epoch, now, Trigger::Stop, |_| {}).await
    }

    /// Ends a held job as canceled, whether a user asked for it or its table
    /// or column is gone. `why`, if nobody asked, is recorded as an event before.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch); then no event is recorded.
    pub async fn canceled(&self, id: JobId, epoch: AttemptEpoch, why: Option<String>, now: Timestamp) -> Result<Job> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let mut draft = load_held(tx, id, epoch).await?;
                let by = holder(&draft.job);
                if let Some(why) = why {
                    Note::by(&by).saying(&why).record(tx, &draft.job, now).await?;
                }
                if draft.job.status.requested != Some(Control::Cancel) {
                    let note = Note::by(&by).saying("cancel");
                    draft = step(tx, draft, Trigger::Cancel, note, now).await?.into();
                    draft.gone = true;
                }
                let note = Note::by(&by).saying("canceled");
                step(tx, draft, Trigger::Stop, note, now).await
            })
        })
        .await
    }

    /// Notes where a held job is. Survives a crash of the process; power loss
    /// may take it. A change of phase is told to subscribers and recorded as
    /// an event; a new sample alone is only told.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch).
    pub async fn record_progress(
        &self,
        id: JobId,
        epoch: AttemptEpoch,
        phase: &str,
        progress: Value,
        now: Timestamp,
    ) -> Result<()> {
        let phase = phase.to_owned();
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                let mut job = load_held(tx, id, epoch).await?.job;
                let moved = job.phase != phase;
                job.phase = phase;
                sqlx::query("UPDATE jobs SET phase = $1, progress = $2, updated_at = $3 WHERE job_id = $4")
                    .bind(&job.phase)
                    .bind(progress.to_string())
                    .bind(micros(now))
                    .bind(id.to_string())
                    .execute(tx.connection())
                    .await?;
                if moved {
                    let by = holder(&job);
                    Note::by(&by).saying("phase").record(tx, &job, now).await?;
                }
                tx.job_changed(draft::change_of(&job));
                Ok(())
            })
        })
        .await
    }

    /// Notes why an unfinished job waits; none clears it. Not flushed to disk.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::CatalogError::NotFound).
    pub async fn record_queue_reason(&self, id: JobId, reason: Option<String>) -> Result<()> {
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                let job = load(tx, id).await?.job;
                sqlx::query("UPDATE jobs SET queue_reason = $1 WHERE job_id = $2 AND finished_at IS NULL")
                    .bind(reason)
                    .bind(id.to_string())
                    .execute(tx.connection())
                    .await?;
                tx.job_changed(draft::change_of(&job));
                Ok(())
            })
        })
        .await
    }

    /// Notes which version of its table a held job reads. Set once: later
    /// attempts and plans keep the first one. Returns it. Not flushed to disk:
    /// every part that is computed from it is noted later, and flushes it.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch).
    pub async fn record_source_version(&self, id: JobId, epoch: AttemptEpoch, version: u64) -> Result<u64> {
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                if let Some(pinned) = load_held(tx, id, epoch).await?.job.source_version {
                    return Ok(pinned);
                }
                sqlx::query("UPDATE jobs SET source_version = $1 WHERE job_id = $2")
                    .bind(signed("source_version", version)?)
                    .bind(id.to_string())
                    .execute(tx.connection())
                    .await?;
                Ok(version)
            })
        })
        .await
    }

    async fn end_attempt(
        &self,
        id: JobId,
        epoch: AttemptEpoch,
        now: Timestamp,
        trigger: Trigger,
        change: impl FnOnce(&mut Job) + Send + 'static,
    ) -> Result<Job> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let mut draft = load_held(tx, id, epoch).await?;
                change(&mut draft.job);
                let by = holder(&draft.job);
                let note = Note::by(&by).saying(trigger.as_str());
                step(tx, draft, trigger, note, now).await
            })
        })
        .await
    }
}

fn holder(job: &Job) -> String {
    job.gateway.as_ref().map_or_else(|| "catalog".to_owned(), ToString::to_string)
}
