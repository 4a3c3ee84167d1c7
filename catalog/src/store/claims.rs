//! Leases: which attempt holds a job, and how the next one gets it.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use serde_json::json;
use sqlx::{AssertSqlSafe, SqliteConnection};

use super::draft::{Draft, load, load_held, step};
use super::events::Note;
use super::jobs::select;
use super::rows::{self, JOB_COLUMNS, micros};
use super::writer::Tx;
use super::{Catalog, Durability};
use crate::Timestamp;
use crate::error::Result;
use crate::ids::{AttemptEpoch, GatewayId, JobId};
use crate::job::{Control, Job, JobKind, JobState, Trigger};

impl Catalog {
    /// Takes a job that can run now: one whose attempt has let its lease expire, the
    /// one that is lost longest first, and otherwise a queued one. Users take turns,
    /// and so do the tables of a user; the jobs of a table go oldest first. Children
    /// are never handed out, and neither are kinds that this software does not know.
    ///
    /// A job whose lost attempt was asked to pause or cancel, and left no
    /// receipt, is parked or ended here. With receipts it is handed out with
    /// the request still pending: what was being committed must be settled
    /// first.
    ///
    /// Not flushed to disk: what an attempt publishes or notes is on disk only after
    /// its claim, and after power loss there is no attempt.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store).
    pub async fn claim_next(&self, gateway: &GatewayId, lease: Duration, now: Timestamp) -> Result<Option<Job>> {
        let claim = Claim { gateway: gateway.clone(), lease, now };
        let turns = Arc::clone(&self.inner.turns);
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                expire_requested(tx, now).await?;
                if let Some(lost) = find_lost(tx.connection(), now).await? {
                    return claim.take(tx, lost.into()).await.map(Some);
                }
                let Some(queued) = turns.next(tx.connection(), now).await? else { return Ok(None) };
                let job = claim.take(tx, queued.into()).await?;
                turns.took(&job);
                Ok(Some(job))
            })
        })
        .await
    }

    /// Returns the earliest time at which a queued job that waits for a time may
    /// be claimed.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store).
    pub async fn next_claim_at(&self) -> Result<Option<Timestamp>> {
        let earliest: Option<i64> =
            sqlx::query_scalar("SELECT MIN(not_before) FROM jobs WHERE state = 'queued' AND parent IS NULL")
                .fetch_one(self.readers())
                .await?;
        earliest.map(|at| rows::timestamp("not_before", at)).transpose()
    }

    /// Takes this job, which must be queued or left by a lost attempt. For children, and for work that
    /// is run by whoever submitted it. Flushed as [`Self::claim_next`] is.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::CatalogError::NotFound),
    /// [`IllegalTransition`](crate::CatalogError::IllegalTransition) when the
    /// job is not queued and its lease, if it has one, has not expired.
    pub async fn claim(&self, id: JobId, gateway: &GatewayId, lease: Duration, now: Timestamp) -> Result<Job> {
        let claim = Claim { gateway: gateway.clone(), lease, now };
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                let draft = load(tx, id).await?;
                claim.take(tx, draft).await
            })
        })
        .await
    }

    /// Counts the lease of a held job anew from `now`, and returns what a user
    /// has asked of the attempt since.
    ///
    /// Not flushed to disk: a lease that is too short after power loss only
    /// lets the next process start sooner.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch): the attempt must stop
    /// without committing.
    pub async fn renew_lease(
        &self,
        id: JobId,
        epoch: AttemptEpoch,
        lease: Duration,
        now: Timestamp,
    ) -> Result<Option<Control>> {
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                let job = load_held(tx, id, epoch).await?.job;
                sqlx::query("UPDATE jobs SET lease_expires_at = $1 WHERE job_id = $2")
                    .bind(micros(end_of(lease, now)))
                    .bind(id.to_string())
                    .execute(tx.connection())
                    .await?;
                Ok(job.status.requested)
            })
        })
        .await
    }

    /// Takes away every lease, without waiting for its end, and returns how
    /// many there were. For start-up: this store has one process at a time, so
    /// whoever held them is gone. No job rests any longer either: how long a rest
    /// is was told by a clock that may have been set since.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store).
    pub async fn abandon_leases(&self, now: Timestamp) -> Result<u64> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let abandoned = sqlx::query(
                    "UPDATE jobs SET lease_expires_at = $1
                     WHERE state = 'in_progress' AND parent IS NULL
                        AND (lease_expires_at IS NULL OR lease_expires_at > $1)",
                )
                .bind(micros(now))
                .execute(tx.connection())
                .await?
                .rows_affected();
                expire_requested(tx, now).await?;
                expire_plain(tx, now).await?;
                sqlx::query("UPDATE jobs SET not_before = NULL WHERE state = 'queued' AND not_before > $1")
                    .bind(micros(now))
                    .execute(tx.connection())
                    .await?;
                Ok(abandoned)
            })
        })
        .await
    }
}

/// What a claim writes.
struct Claim {
    gateway: GatewayId,
    lease: Duration,
    now: Timestamp,
}

impl Claim {
    async fn take(self, tx: &mut Tx, mut draft: Draft) -> Result<Job> {
        let expired = draft.job.lease_expires_at.is_some_and(|at| at <= self.now);
        let trigger = if expired { Trigger::TakeOver } else { Trigger::Claim };
        let job = &mut draft.job;
        job.epoch = AttemptEpoch(job.epoch.0 + 1);
        job.attempt = job.attempt.saturating_add(1);
        job.lease_expires_at = Some(end_of(self.lease, self.now));
        job.started_at = job.started_at.or(Some(self.now));
        job.gateway = Some(self.gateway.clone());
        let details = json!({ "epoch": job.epoch, "attempt": job.attempt });
        let note = Note::by(self.gateway.as_str()).saying(trigger.as_str()).with(details);
        step(tx, draft, trigger, note, self.now).await
    }
}

/// Returns the job that is without its attempt for the longest time.
async fn find_lost(connection: &mut SqliteConnection, now: Timestamp) -> Result<Option<Job>> {
    let row = sqlx::query(lost()).bind(micros(now)).fetch_optional(connection).await?;
    row.map(|row| rows::job(&row)).transpose()
}

pub(super) fn lost() -> AssertSqlSafe<String> {
    let kinds = JobKind::KNOWN.map(|kind| format!("'{}'", kind.as_str())).join(", ");
    // All parts are constants of this crate.
    AssertSqlSafe(format!(
        "SELECT {JOB_COLUMNS} FROM jobs
         WHERE state = 'in_progress' AND lease_expires_at <= $1 AND parent IS NULL AND kind IN ({kinds})
         ORDER BY lease_expires_at LIMIT 1"
    ))
}

/// Parks or ends the jobs whose lost attempt was asked to, unless receipts say
/// that something may be half published.
async fn expire_requested(tx: &mut Tx, now: Timestamp) -> Result<()> {
    let condition = "WHERE state = 'in_progress' AND lease_expires_at <= $1 AND parent IS NULL
        AND requested IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM job_receipts WHERE job_receipts.job_id = jobs.job_id)";
    expire(tx, condition, now).await
}

/// Queues the jobs whose attempt is lost and was not asked for anything.
async fn expire_plain(tx: &mut Tx, now: Timestamp) -> Result<()> {
    let condition = "WHERE state = 'in_progress' AND lease_expires_at <= $1 AND parent IS NULL
        AND requested IS NULL";
    expire(tx, condition, now).await
}

async fn expire(tx: &mut Tx, condition: &'static str, now: Timestamp) -> Result<()> {
    let rows = sqlx::query(select(condition)).bind(micros(now)).fetch_all(tx.connection()).await?;
    for row in &rows {
        let job = rows::job(row)?;
        // Ending a job ends its children, which may be among the rows.
        let draft = load(tx, job.id).await?;
        if draft.job.status.state == JobState::InProgress {
            step(tx, draft, Trigger::Expire, Note::by("catalog").saying("lease expired"), now).await?;
        }
    }
    Ok(())
}

fn end_of(lease: Duration, now: Timestamp) -> Timestamp {
    TimeDelta::from_std(lease).ok().and_then(|lease| now.checked_add_signed(lease)).unwrap_or(Timestamp::MAX_UTC)
}
