//! Runs the statements about jobs.

use arrow::datatypes::SchemaRef;
use lancegate_catalog::{CancelOutcome, Job};
use lancegate_sql::ast::JobFormat;
use std::time::Duration;

use crate::error::{Result, SqlError};
use crate::exec::refresh::{self, blocked};
use crate::exec::{Engine, Outcome, show};
use crate::session::{NoticeSeverity, Session, StatementContext};
use crate::sql::plan::JobsPlan;
use crate::sql::plan::jobs::JobsAction;
use crate::sqlstate::SqlState;
use crate::system::columns::{self, borrowed};
use crate::system::{describe_job, explain_job, function_errors, job_splits};

/// Lists, describes or controls jobs.
///
/// # Errors
/// 42704 for an unknown job, 55000 for one that is not in a state for this.
pub(crate) async fn run(
    engine: &Engine,
    session: &mut Session,
    plan: &JobsPlan,
    ctx: &StatementContext,
) -> Result<Outcome> {
    match &plan.action {
        JobsAction::Show { table, limit } => show::jobs(engine, session, table.as_ref(), *limit).await,
        JobsAction::Children { id, limit } => show::children(engine, session, id, *limit).await,
        JobsAction::Events { id, filter, limit } => show::events(engine, session, id, filter.as_deref(), *limit).await,
        JobsAction::Splits { id } => {
            let job = find(engine, id).await?;
            let splits = job_splits::read(engine, &job).await?;
            Ok(Outcome::batch(columns::batch(&job_splits::columns(), &splits)?, "SHOW"))
        }
        JobsAction::Describe { id, format } => describe(engine, id, *format).await,
        JobsAction::Explain { id, verbose } => {
            let job = find(engine, id).await?;
            let rows = refresh::explain_job(engine, &session.principal, &job, *verbose).await?;
            Ok(Outcome::batch(columns::batch(&explain_job::columns(), &rows)?, "EXPLAIN"))
        }
        JobsAction::Errors { table, job, limit } => {
            let limit = limit.unwrap_or(ERROR_ROWS);
            // One more than asked for, to say if there is more.
            let mut rows = function_errors::read(engine.catalog(), table, job.as_deref(), limit + 1).await?;
            if rows.len() > limit as usize {
                rows.truncate(limit as usize);
                let message = format!("only the first {limit} errors are listed");
                let notice = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message)
                    .hint("Raise LIMIT, or select from function_errors('<table>').");
                session.notify(NoticeSeverity::Notice, notice);
            }
            Ok(Outcome::batch(columns::batch(&function_errors::columns(), &rows)?, "SHOW"))
        }
        JobsAction::Pause { id } => {
            let job = controllable(engine, id).await?;
            let outcome = engine.catalog().request_pause(job.id, by(session), crate::clock::now()).await?;
            control(&job, outcome.as_str(), "PAUSE JOB")
        }
        JobsAction::Resume { id } => {
            let job = controllable(engine, id).await?;
            let outcome = engine.catalog().resume(job.id, by(session), crate::clock::now()).await?;
            control(&job, outcome.as_str(), "RESUME JOB")
        }
        JobsAction::Cancel { id } => {
            let job = controllable(engine, id).await?;
            let outcome = engine.catalog().request_cancel(job.id, by(session), crate::clock::now()).await?;
            control(&job, cancel_word(&outcome), "CANCEL JOB")
        }
        JobsAction::Wait { id, timeout } => wait(engine, id, *timeout, ctx).await,
        JobsAction::GpuClasses => show::gpu_classes(engine),
    }
}

/// Rows of SHOW ERRORS without LIMIT.
const ERROR_ROWS: u32 = 10_000;

/// Returns a job by the text of its id.
///
/// # Errors
/// 42704, also for a text that is no job id.
pub(crate) async fn find(engine: &Engine, id: &str) -> Result<Job> {
    let unknown = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("job \"{id}\" does not exist"));
    let parsed = id.parse().map_err(|_| unknown())?;
    engine.catalog().job(parsed).await?.ok_or_else(unknown)
}

/// Returns a job that users may pause, resume and cancel.
///
/// # Errors
/// 42704; 55000 for a part of another job, which goes with it.
async fn controllable(engine: &Engine, id: &str) -> Result<Job> {
    let job = find(engine, id).await?;
    match job.parent {
        None => Ok(job),
        Some(parent) => {
            let message = format!("job \"{}\" is a part of job \"{parent}\"", job.id);
            Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                .hint("Pause, resume or cancel that one."))
        }
    }
}

fn by(session: &Session) -> &str {
    session.principal.user.as_str()
}

async fn describe(engine: &Engine, id: &str, format: JobFormat) -> Result<Outcome> {
    let job = find(engine, id).await?;
    Ok(Outcome::batch(describe_job::describe(&job, format)?, "DESCRIBE"))
}

/// Waits for the end of a job; canceling the statement leaves the job alone.
async fn wait(engine: &Engine, id: &str, timeout: Option<Duration>, ctx: &StatementContext) -> Result<Outcome> {
    let job = find(engine, id).await?;
    let wait = engine.jobs().wait(job.id, ctx);
    let ended = match timeout {
        None => wait.await?,
        Some(timeout) => match tokio::time::timeout(timeout, wait).await {
            Ok(ended) => ended?,
            Err(_) => return Err(out_of_time(engine, id).await),
        },
    };
    let job = ended.ok_or_else(|| ctx.error())?;
    show::one(engine, blocked::outcome(job)?, "WAIT JOB")
}

async fn out_of_time(engine: &Engine, id: &str) -> SqlError {
    let error = SqlError::canceled("timeout of WAIT JOB");
    match find(engine, id).await {
        Ok(job) => error.detail(format!("Job {} goes on; it is {}.", job.id, job.status.state)),
        Err(_) => error,
    }
}

/// The answer of PAUSE, RESUME and CANCEL JOB.
struct ControlRow {
    job_id: String,
    status: String,
}

type ControlColumn = columns::Column<ControlRow>;

fn control_columns() -> Vec<ControlColumn> {
    vec![
        ControlColumn::text("job_id", |row| borrowed(&row.job_id)).not_null(),
        ControlColumn::text("status", |row| borrowed(&row.status)).not_null(),
    ]
}

/// Returns the columns of PAUSE, RESUME and CANCEL JOB.
pub(crate) fn control_schema() -> SchemaRef {
    columns::schema(&control_columns())
}

fn control(job: &Job, status: &str, tag: &str) -> Result<Outcome> {
    let row = ControlRow { job_id: job.id.to_string(), status: status.to_owned() };
    Ok(Outcome::batch(columns::batch(&control_columns(), &[row])?, tag))
}

/// Canceling a job that has ended changes nothing and is no error.
fn cancel_word(outcome: &CancelOutcome) -> &str {
    match outcome {
        CancelOutcome::Canceled => "canceled",
        CancelOutcome::Requested => "canceling",
        CancelOutcome::AlreadyTerminal(state) => state.as_str(),
    }
}
