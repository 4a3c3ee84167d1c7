//! A client that waits for a job: notices while it runs, its end, and what a
//! CancelRequest or a lost connection means for it.

use lancegate_catalog::{Job, JobId, JobKind, JobState};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::error::{Result, SqlError};
use crate::exec::Engine;
use crate::jobs::progress;
use crate::session::{CancelReason, NoticeSeverity, Session, StatementContext};
use crate::sqlstate::SqlState;

/// Waits for the end of a refresh and returns the job if it succeeded. Says how far it is meanwhile.
///
/// A client that cancels the statement cancels the job; one that has gone, or
/// a gateway that stops, leaves it running.
///
/// # Errors
/// What the job failed with; 57014 if it was canceled.
pub(crate) async fn until_ended(engine: &Engine, session: &Session, id: JobId, ctx: &StatementContext) -> Result<Job> {
    match with_notices(engine, session, id, ctx).await? {
        Some(job) => outcome(job),
        None => interrupted(engine, session, id, ctx).await,
    }
}

/// [`until_ended`] without a word: the client did not ask to wait and is not told that it does (HAND-03).
///
/// # Errors
/// As [`until_ended`].
pub(crate) async fn until_ended_quietly(
    engine: &Engine,
    session: &Session,
    id: JobId,
    ctx: &StatementContext,
) -> Result<Job> {
    match engine.jobs().wait(id, ctx).await? {
        Some(job) => outcome(job),
        None => interrupted(engine, session, id, ctx).await,
    }
}

async fn with_notices(engine: &Engine, session: &Session, id: JobId, ctx: &StatementContext) -> Result<Option<Job>> {
    let period = engine.jobs().notice_interval();
    let mut notices = interval_at(Instant::now() + period, period);
    notices.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = String::new();
    let wait = engine.jobs().wait(id, ctx);
    tokio::pin!(wait);
    loop {
        tokio::select! {
            biased;
            ended = &mut wait => return Ok(ended?),
            _ = notices.tick() => {
                let now = describe(engine, id).await?;
                if let Some(now) = now.filter(|now| *now != last) {
                    session.notify(NoticeSeverity::Notice, SqlError::new(SqlState::SUCCESSFUL_COMPLETION, &now));
                    last = now;
                }
            }
        }
    }
}

/// Says how far a job is, without its id: the caller may have no access to the
/// registry.
async fn describe(engine: &Engine, id: JobId) -> Result<Option<String>> {
    let Some(job) = engine.catalog().job(id).await? else { return Ok(None) };
    let sample = progress::shown(&job);
    let counter = |name| progress::counter(sample.as_ref(), name);
    let what = refresh_of(&job);
    Ok(Some(match (counter("rows_computed"), counter("rows_planned")) {
        (Some(computed), Some(planned)) if planned > 0 => {
            format!("{what}: {}, {computed} of {planned} rows computed", job.phase)
        }
        _ => format!("{what}: {}", job.phase),
    }))
}

/// Says what a job does, for messages.
fn refresh_of(job: &Job) -> String {
    match (&job.column, &job.kind) {
        (Some(column), _) => format!("refresh of column \"{column}\""),
        (None, JobKind::Sql) => format!("refresh of materialized view \"{}\"", job.table_name),
        (None, kind) => format!("job of type {kind}"),
    }
}

async fn interrupted(engine: &Engine, session: &Session, id: JobId, ctx: &StatementContext) -> Result<Job> {
    match ctx.reason.get() {
        Some(CancelReason::ClientGone | CancelReason::Shutdown) => return Err(ctx.error()),
        Some(CancelReason::User | CancelReason::StatementTimeout(_)) | None => {}
    }
    let by = session.principal.user.as_str();
    engine.catalog().request_cancel(id, by, crate::clock::now()).await?;
    // The answer tells what became of the job, so it waits for its end. A job
    // whose last commit was faster than the request has succeeded.
    let ended = engine.jobs().wait(id, &StatementContext::new()).await?;
    match ended {
        Some(job) if job.status.state == JobState::Canceled => Err(ctx.error()),
        Some(job) => outcome(job),
        None => Err(ctx.error()),
    }
}

/// Returns the job if it succeeded.
///
/// # Errors
/// What it failed with; 57014 if it was canceled.
pub(crate) fn outcome(job: Job) -> Result<Job> {
    match &job.status.state {
        JobState::Succeeded => Ok(job),
        JobState::Canceled => Err(canceled(&job)),
        JobState::Failed | JobState::TimedOut => Err(failed(&job)),
        JobState::Created | JobState::Queued | JobState::InProgress | JobState::Paused | JobState::Other(_) => {
            Err(SqlError::internal(format!("job {} was waited for and is {}", job.id, job.status.state)))
        }
    }
}

fn canceled(job: &Job) -> SqlError {
    let what = refresh_of(job);
    SqlError::new(SqlState::QUERY_CANCELED, format!("{what} was canceled")).detail("What it has published stays.")
}

fn failed(job: &Job) -> SqlError {
    let Some(failure) = job.failure.clone() else {
        return SqlError::internal(format!("job {} is {} without a reason", job.id, job.status.state));
    };
    let code = failure.sqlstate.as_deref().map_or(SqlState::INTERNAL_ERROR, SqlState::parse);
    let detail = match failure.detail {
        Some(detail) => format!("{}: {detail}", failure.error_code),
        None => format!("Error name: {}.", failure.error_code),
    };
    let mut error = SqlError::new(code, failure.message).detail(detail);
    error.hint = failure.hint;
    error.error_name = Some(failure.error_code.into());
    error
}
