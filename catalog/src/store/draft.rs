//! Changing the row of a job: read, move by a trigger, compare and set.

use serde_json::json;

use super::bindings;
use super::children;
use super::events::Note;
use super::jobs::{find, select};
use super::metering;
use super::rows::{self, micros, signed};
use super::writer::Tx;
use crate::Timestamp;
use crate::error::{CatalogError, EntityKind, Result};
use crate::event::JobChange;
use crate::ids::{AttemptEpoch, JobId};
use crate::job::{Job, JobState, Status, Trigger, transition};

/// A job as read in the running transaction, and what to compare on writing.
pub(super) struct Draft {
    /// The job, to be changed freely before it is saved.
    pub(super) job: Job,
    read_status: Status,
    read_epoch: AttemptEpoch,
    /// Whether it ends because what it is of does not exist any more.
    pub(super) gone: bool,
}

impl From<Job> for Draft {
    fn from(job: Job) -> Self {
        Draft { read_status: job.status.clone(), read_epoch: job.epoch, gone: false, job }
    }
}

/// Reads a job in order to change it.
pub(super) async fn load(tx: &mut Tx, id: JobId) -> Result<Draft> {
    find(tx.connection(), id).await?.map(Draft::from).ok_or_else(|| CatalogError::not_found(EntityKind::Job, id))
}

/// Reads a job that the attempt with this epoch must still hold.
pub(super) async fn load_held(tx: &mut Tx, id: JobId, epoch: AttemptEpoch) -> Result<Draft> {
    let draft = load(tx, id).await?;
    let job = &draft.job;
    if job.epoch != epoch || job.status.state != JobState::InProgress {
        return Err(CatalogError::StaleEpoch {
            job: id,
            given: epoch,
            current: job.epoch,
            state: job.status.state.clone(),
        });
    }
    Ok(draft)
}

/// Moves a job by `trigger`, saves it with everything else that the draft
/// changed, and records the event. A job that ends takes its unfinished
/// children with it, so that none is listed as running for ever.
pub(super) async fn step(tx: &mut Tx, draft: Draft, trigger: Trigger, note: Note<'_>, now: Timestamp) -> Result<Job> {
    let Draft { mut job, read_status, read_epoch, gone } = draft;
    job.status =
        transition(&read_status, trigger).map_err(|source| CatalogError::IllegalTransition { job: job.id, source })?;
    settle(&mut job, trigger, now);
    save(tx, &job, &read_status, read_epoch).await?;
    note.record(tx, &job, now).await?;
    tx.job_changed(change_of(&job));
    let left = job.status.state != JobState::InProgress || trigger == Trigger::TakeOver;
    if read_status.state == JobState::InProgress && left && job.parent.is_none() {
        children::leave(tx, &job, read_epoch, now).await?;
    }
    if job.status.state.is_terminal() {
        bindings::ended(tx, &job, gone).await?;
        metering::ended(tx, &job).await?;
        end_children(tx, &job, now).await?;
    }
    Ok(job)
}

/// Sets the fields that follow from the status.
fn settle(job: &mut Job, trigger: Trigger, now: Timestamp) {
    job.updated_at = now;
    match &job.status.state {
        JobState::InProgress => {
            if matches!(trigger, Trigger::Claim | Trigger::TakeOver) {
                "starting".clone_into(&mut job.phase);
                job.queue_reason = None;
                job.not_before = None;
            }
            return;
        }
        JobState::Created | JobState::Queued => "queued".clone_into(&mut job.phase),
        JobState::Paused => "paused".clone_into(&mut job.phase),
        JobState::Succeeded => "finished".clone_into(&mut job.phase),
        JobState::Failed | JobState::TimedOut => "failed".clone_into(&mut job.phase),
        JobState::Canceled => "cancelled".clone_into(&mut job.phase),
        JobState::Other(_) => {}
    }
    job.gateway = None;
    job.lease_expires_at = None;
    job.queue_reason = None;
    if job.status.state.is_terminal() {
        job.finished_at = Some(now);
    }
}

/// Tells listeners what a job is now.
pub(super) fn change_of(job: &Job) -> JobChange {
    JobChange {
        job_id: job.id,
        state: job.status.state.clone(),
        phase: job.phase.clone(),
        database: job.database.clone(),
        child: job.parent.is_some(),
    }
}

async fn end_children(tx: &mut Tx, parent: &Job, now: Timestamp) -> Result<()> {
    let children = sqlx::query(select("WHERE parent = $1 AND finished_at IS NULL"))
        .bind(parent.id.to_string())
        .fetch_all(tx.connection())
        .await?;
    for row in &children {
        let mut child = rows::job(row)?;
        if matches!(child.status.state, JobState::Other(_)) {
            continue;
        }
        let note = || Note::by("catalog").saying("parent ended");
        if child.status.state == JobState::InProgress {
            child = Box::pin(step(tx, child.into(), Trigger::Cancel, note(), now)).await?;
            Box::pin(step(tx, child.into(), Trigger::Stop, note(), now)).await?;
        } else {
            Box::pin(step(tx, child.into(), Trigger::Cancel, note(), now)).await?;
        }
    }
    Ok(())
}

/// Writes what can change about a job, if it still is as it was read.
async fn save(tx: &mut Tx, job: &Job, read_status: &Status, read_epoch: AttemptEpoch) -> Result<()> {
    let failure = job.failure.as_ref().map(|failure| json!(failure).to_string());
    let source_version = job.source_version.map(|version| signed("source_version", version)).transpose()?;
    let changed = sqlx::query(
        "UPDATE jobs SET state = $1, requested = $2, phase = $3, queue_reason = $4, result = $5,
            failure = $6, source_version = $7, epoch = $8, attempt = $9, gateway = $10,
            lease_expires_at = $11, not_before = $12, updated_at = $13, started_at = $14,
            finished_at = $15
         WHERE job_id = $16 AND state = $17 AND epoch = $18",
    )
    .bind(job.status.state.as_str())
    .bind(job.status.requested.map(|control| control.as_str()))
    .bind(&job.phase)
    .bind(&job.queue_reason)
    .bind(job.result.as_ref().map(ToString::to_string))
    .bind(failure)
    .bind(source_version)
    .bind(signed("epoch", job.epoch.0)?)
    .bind(i64::from(job.attempt))
    .bind(job.gateway.as_ref().map(|gateway| gateway.as_str().to_owned()))
    .bind(job.lease_expires_at.map(micros))
    .bind(job.not_before.map(micros))
    .bind(micros(job.updated_at))
    .bind(job.started_at.map(micros))
    .bind(job.finished_at.map(micros))
    .bind(job.id.to_string())
    .bind(read_status.state.as_str())
    .bind(signed("epoch", read_epoch.0)?)
    .execute(tx.connection())
    .await?;
    if changed.rows_affected() == 1 {
        return Ok(());
    }
    // Cannot happen while one writer runs one transaction at a time.
    Err(CatalogError::StaleEpoch {
        job: job.id,
        given: read_epoch,
        current: job.epoch,
        state: job.status.state.clone(),
    })
}
