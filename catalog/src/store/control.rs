//! What users ask of jobs: cancel, pause, resume.

use sqlx::sqlite::SqliteRow;

use super::draft::{Draft, load, step};
use super::events::Note;
use super::jobs;
use super::objects;
use super::rows;
use super::writer::Tx;
use super::{Catalog, Durability};
use crate::Timestamp;
use crate::error::{CatalogError, Result};
use crate::ids::JobId;
use crate::job::{CancelOutcome, Control, IllegalTransition, JobState, NewJob, PauseOutcome, ResumeOutcome, Trigger};
use crate::object::ObjectChange;

/// The phase in which results become visible and a job cannot be parked.
const PHASE_COMMITTING: &str = "committing";

impl Catalog {
    /// Asks for the end of a job. One that no attempt holds ends at once; a
    /// running one learns of it when it renews its lease, or from
    /// [`subscribe`](Catalog::subscribe). Asking again changes nothing.
    ///
    /// # Errors
    ///
    /// [`NotFound`](CatalogError::NotFound);
    /// [`IllegalTransition`](CatalogError::IllegalTransition) for a job in a
    /// state that this software does not know.
    pub async fn request_cancel(&self, id: JobId, by: &str, now: Timestamp) -> Result<CancelOutcome> {
        let by = by.to_owned();
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let draft = load(tx, id).await?;
                cancel(tx, draft, &by, None, now).await
            })
        })
        .await
    }

    /// Asks for the end of the unfinished jobs with these exclusive keys, in one
    /// transaction; their events say why.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store).
    pub async fn cancel_exclusive(
        &self,
        keys: Vec<String>,
        by: &str,
        why: &str,
        now: Timestamp,
    ) -> Result<Vec<(JobId, CancelOutcome)>> {
        let (by, why) = (by.to_owned(), why.to_owned());
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let mut outcomes = Vec::new();
                for key in keys {
                    let rows = sqlx::query(jobs::select("WHERE exclusive_key = $1 AND finished_at IS NULL"))
                        .bind(key)
                        .fetch_all(tx.connection())
                        .await?;
                    outcomes.extend(cancel_rows(tx, &rows, &by, &why, now).await?);
                }
                Ok(outcomes)
            })
        })
        .await
    }

    /// Makes the changes as [`apply`](Catalog::apply) does, asks for the end of the unfinished
    /// jobs of tables that are dropped, and submits jobs, all of it or nothing. Returns the jobs
    /// that are to end.
    ///
    /// # Errors
    ///
    /// As [`apply`](Catalog::apply) and [`submit`](Catalog::submit); then no job is asked or made.
    pub async fn apply_with_jobs(
        &self,
        changes: Vec<ObjectChange>,
        jobs: Vec<NewJob>,
        by: &str,
        now: Timestamp,
    ) -> Result<Vec<(JobId, CancelOutcome)>> {
        let by = by.to_owned();
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let mut outcomes = Vec::new();
                for change in changes {
                    let dropped = change.dropped();
                    objects::apply::apply(tx, change).await?;
                    let Some(table) = dropped else { continue };
                    let rows = sqlx::query(jobs::select(
                        "WHERE finished_at IS NULL AND table_id = $1 ORDER BY created_at, job_id",
                    ))
                    .bind(table.to_string())
                    .fetch_all(tx.connection())
                    .await?;
                    outcomes.extend(cancel_rows(tx, &rows, &by, "the table was dropped", now).await?);
                }
                for job in jobs {
                    jobs::submit(tx, job, now).await?;
                }
                Ok(outcomes)
            })
        })
        .await
    }

    /// Asks for a job to be parked.
    ///
    /// # Errors
    ///
    /// [`NotFound`](CatalogError::NotFound);
    /// [`IllegalTransition`](CatalogError::IllegalTransition) for a job that
    /// has ended or is being canceled.
    pub async fn request_pause(&self, id: JobId, by: &str, now: Timestamp) -> Result<PauseOutcome> {
        let by = by.to_owned();
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let draft = load(tx, id).await?;
                pause(tx, draft, &by, now).await
            })
        })
        .await
    }

    /// Queues a parked job again.
    ///
    /// # Errors
    ///
    /// [`NotFound`](CatalogError::NotFound).
    pub async fn resume(&self, id: JobId, by: &str, now: Timestamp) -> Result<ResumeOutcome> {
        let by = by.to_owned();
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let draft = load(tx, id).await?;
                if draft.job.status.requested == Some(Control::Pause) {
                    return Ok(ResumeOutcome::StillPausing);
                }
                if draft.job.status.state != JobState::Paused {
                    return Ok(ResumeOutcome::NotPaused);
                }
                step(tx, draft, Trigger::Resume, Note::by(&by).saying("resumed"), now).await?;
                Ok(ResumeOutcome::Resumed)
            })
        })
        .await
    }
}

async fn cancel_rows(
    tx: &mut Tx,
    rows: &[SqliteRow],
    by: &str,
    why: &str,
    now: Timestamp,
) -> Result<Vec<(JobId, CancelOutcome)>> {
    let mut outcomes = Vec::with_capacity(rows.len());
    for row in rows {
        let id = rows::job(row)?.id;
        // Read again: ending a parent has ended its children.
        let draft = load(tx, id).await?;
        if !matches!(draft.job.status.state, JobState::Other(_)) {
            outcomes.push((id, cancel(tx, draft, by, Some(why), now).await?));
        }
    }
    Ok(outcomes)
}

async fn cancel(tx: &mut Tx, draft: Draft, by: &str, why: Option<&str>, now: Timestamp) -> Result<CancelOutcome> {
    let status = &draft.job.status;
    if status.state.is_terminal() {
        return Ok(CancelOutcome::AlreadyTerminal(status.state.clone()));
    }
    if status.requested == Some(Control::Cancel) {
        return Ok(CancelOutcome::Requested);
    }
    let running = status.state == JobState::InProgress;
    let mut message = if running { "cancel requested" } else { "canceled" }.to_owned();
    if let Some(why) = why {
        message = format!("{message}: {why}");
    }
    step(tx, draft, Trigger::Cancel, Note::by(by).saying(&message), now).await?;
    Ok(if running { CancelOutcome::Requested } else { CancelOutcome::Canceled })
}

async fn pause(tx: &mut Tx, draft: Draft, by: &str, now: Timestamp) -> Result<PauseOutcome> {
    let job = &draft.job;
    let (outcome, message) = match (&job.status.state, job.status.requested) {
        (JobState::Paused, _) => return Ok(PauseOutcome::AlreadyPaused),
        (JobState::InProgress, Some(Control::Pause)) => return Ok(PauseOutcome::Pausing),
        (JobState::InProgress, Some(Control::Cancel)) => {
            let source = IllegalTransition { status: job.status.clone(), trigger: Trigger::Pause };
            return Err(CatalogError::IllegalTransition { job: job.id, source });
        }
        (JobState::InProgress, None) if job.phase == PHASE_COMMITTING => {
            return Ok(PauseOutcome::Committing);
        }
        (JobState::InProgress, None) => (PauseOutcome::Pausing, "pause requested"),
        // The table of transitions decides about the rest.
        _ => (PauseOutcome::Paused, "paused"),
    };
    step(tx, draft, Trigger::Pause, Note::by(by).saying(message), now).await?;
    Ok(outcome)
}
