//! Runs REFRESH COLUMN, EXPLAIN REFRESH COLUMN and EXPLAIN JOB.

use std::sync::Arc;

use lancegate_auth::{Object, Principal, Privilege};
use lancegate_catalog::{CatalogError, Job, JobId, JobKind, NewJob, TableId};
use lancegate_sql::ast::Wait;
use serde_json::json;

use crate::error::{Result, SqlError};
use crate::exec::{Engine, Outcome};
use crate::failpoint::reach;
use crate::jobs::rights;
use crate::refresh::explain::{self, PlanRow};
use crate::refresh::snapshot::Snapshot;
use crate::refresh::{RefreshSpec, explain::explain as explain_refresh, status};
use crate::session::{NoticeSeverity, Session, StatementContext, TransactionStatus};
use crate::sql::plan::{ExplainRefreshPlan, RefreshPlan};
use crate::sql::resolve::object_of;
use crate::sqlstate::SqlState;
use crate::system::{columns, explain_job};

pub(crate) mod answer;
pub(crate) mod blocked;

use self::answer::Answer;

/// The branch that has no name of its own.
const MAIN: &str = "main";
/// The field of a job's document that holds the statement, for EXPLAIN JOB.
const STATEMENT: &str = "statement";

/// Submits a refresh and answers with its handle, or waits for its end.
///
/// # Errors
/// 55006 if the column is being refreshed, and what the job ends with.
pub(crate) async fn refresh(
    engine: &Engine,
    session: &mut Session,
    plan: &RefreshPlan,
    ctx: &StatementContext,
) -> Result<Outcome> {
    if session.names.has_made(plan.table.record.id) {
        return defer(engine, session, plan).await;
    }
    if session.transaction == TransactionStatus::InBlock {
        let notice =
            SqlError::new(SqlState::SUCCESSFUL_COMPLETION, "REFRESH COLUMN is not part of the transaction block")
                .detail("It is submitted at once, and ROLLBACK does not undo it.");
        session.notify(NoticeSeverity::Notice, notice);
    }
    let registry = reads_registry(engine, &session.principal).await?;
    // Asked before the job is there, which would count itself.
    let wanted = registry && wants_handle(session, plan.statement.wait);
    let early = wanted && !engine.jobs().retained_full().await?;
    reach("submit.before").await?;
    let job = submit(engine, session, plan, registry).await?;
    reach("submit.after").await?;
    let answer = if early {
        Answer::submitted(&job)
    } else {
        let ended = match wanted {
            true => blocked::until_ended_quietly(engine, session, job.id, ctx).await?,
            false => blocked::until_ended(engine, session, job.id, ctx).await?,
        };
        Answer::succeeded(&ended, registry)
    };
    reach("submit.acknowledge").await?;
    Ok(Outcome::batch(answer.batch()?, "REFRESH COLUMN"))
}

/// Keeps a refresh of a table that the open block has made for its COMMIT, and answers with its
/// handle. ROLLBACK forgets it.
///
/// # Errors
/// 25001 if it was to be waited for, 55006 if the block has one of the column already.
async fn defer(engine: &Engine, session: &Session, plan: &RefreshPlan) -> Result<Outcome> {
    let registry = reads_registry(engine, &session.principal).await?;
    if !registry || !wants_handle(session, plan.statement.wait) {
        let message = format!("cannot wait for a refresh of table \"{}\" before COMMIT", plan.table.name());
        return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message)
            .detail("This transaction block has made the table, and nobody else knows it yet.")
            .hint("Run the statement after COMMIT."));
    }
    let mut job = new_job(plan, session.principal.user.as_str())?;
    let id = JobId::new(crate::clock::now());
    job.id = Some(id);
    job.idempotency_key.clone_from(&session.idempotency_key);
    let answer = Answer::handle(&job, id);
    if session.names.defer(engine.jobs().limited(job)) {
        return Err(busy(plan, None));
    }
    let message = "REFRESH COLUMN is submitted by COMMIT, with the table that this block has made";
    session.notify(NoticeSeverity::Notice, SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
    Ok(Outcome::batch(answer.batch()?, "REFRESH COLUMN"))
}

/// Whether the caller may know of jobs at all (HAND-04).
pub async fn reads_registry(engine: &Engine, principal: &Principal) -> Result<bool> {
    Ok(engine.allows(principal, Privilege::Usage, Object::System).await?
        && engine.allows(principal, Privilege::Operate, Object::System).await?)
}

/// Whether the caller is answered before the job has ended, if he may know of jobs.
pub(crate) fn wants_handle(session: &Session, wait: Option<Wait>) -> bool {
    match wait {
        Some(Wait::Wait) => false,
        Some(Wait::NoWait) => true,
        None => session.settings.early_job_handle(),
    }
}

async fn submit(engine: &Engine, session: &Session, plan: &RefreshPlan, registry: bool) -> Result<Job> {
    let mut job = new_job(plan, session.principal.user.as_str())?;
    job.idempotency_key.clone_from(&session.idempotency_key);
    match engine.jobs().submit(job).await {
        Ok(job) => Ok(job),
        Err(CatalogError::Busy { active }) => Err(busy(plan, registry.then(|| active.to_string()))),
        Err(error) => Err(error.into()),
    }
}

/// Returns the job of a refresh, which runs with the rights of `user`.
///
/// # Errors
/// If the column is not understood.
pub(crate) fn new_job(plan: &RefreshPlan, user: &str) -> Result<NewJob> {
    let record = &plan.table.record;
    let branch = plan.statement.options.branch.clone().filter(|branch| branch != MAIN);
    let mut spec = json!(plan.spec());
    spec[STATEMENT] = json!(plan.statement.to_string());
    let kind = if plan.function.is_some() { JobKind::FunctionRefresh } else { JobKind::ComputedRefresh };
    spec[rights::REQUIRES] = rights::stored(&plan.requirements(), &plan.table.object());
    let mut job = NewJob::new(kind, &record.name.database, &record.name.name, user);
    job.namespace.clone_from(&record.name.namespace);
    job.table_id = Some(record.id);
    job.column = Some(plan.column.name.clone());
    // One active refresh per table generation, branch and column (RC-16).
    job.exclusive_key = Some(binding_key(record.id, branch.as_deref(), plan.column.field_id));
    job.branch = branch;
    job.spec = spec;
    let snapshot = Snapshot::of(Arc::clone(&plan.table.dataset), &plan.column.name)?;
    job.binding = Some(status::revision(&snapshot));
    Ok(job)
}

/// Names a computed column of a table generation on a branch (`None` is main).
/// The field id stays the column's own when it is renamed.
pub(crate) fn binding_key(table: TableId, branch: Option<&str>, field_id: i32) -> String {
    format!("refresh/{table}/{}/{field_id}", branch.unwrap_or(""))
}

/// The id is part of the registry: only those who may read that see it.
fn busy(plan: &RefreshPlan, active: Option<String>) -> SqlError {
    let (column, table) = (&plan.column.name, plan.table.name());
    let message = format!("column \"{column}\" of table \"{table}\" is already being refreshed");
    let error = SqlError::new(SqlState::OBJECT_IN_USE, message);
    match active {
        Some(id) => error
            .detail(format!("Job {id} is active."))
            .hint(format!("Wait for it with WAIT JOB '{id}', or end it with CANCEL JOB '{id}'.")),
        None => error.hint("Run the statement again when it has ended."),
    }
}

/// Shows what a refresh would do.
///
/// # Errors
/// As the planning of the refresh itself.
pub(crate) async fn explain(
    engine: &Engine,
    _session: &Session,
    plan: &ExplainRefreshPlan,
    ctx: &StatementContext,
) -> Result<Outcome> {
    let logical = logical_plan(&plan.refresh.statement.to_string());
    let rows = plan_rows(engine, plan.refresh.spec(), logical, Vec::new(), plan.verbose);
    let rows = tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => return Err(ctx.error()),
        rows = rows => rows?,
    };
    Ok(Outcome::batch(columns::batch(&explain_job::columns(), &rows)?, "EXPLAIN"))
}

/// Renders the plan that a job would have if it began now, with the registry's
/// view on the root. A job whose work is not a plan, and one on a table that the
/// caller may not read or that is gone, is its root alone.
///
/// # Errors
/// As the planning of the refresh.
pub(crate) async fn explain_job(
    engine: &Engine,
    principal: &Principal,
    job: &Job,
    verbose: bool,
) -> Result<Vec<PlanRow>> {
    let root = root_attributes(job);
    match readable_spec(engine, principal, job).await? {
        Some(spec) => {
            let statement = job.spec.get(STATEMENT).and_then(|text| text.as_str()).unwrap_or_default();
            match plan_rows(engine, spec, logical_plan(statement), root.clone(), verbose).await {
                // The column or the branch is gone: there is nothing to plan any more.
                Err(error) if error.code == SqlState::UNDEFINED_COLUMN || error.code == SqlState::UNDEFINED_TABLE => {
                    Ok(root_alone(job, &root))
                }
                rows => rows,
            }
        }
        None => Ok(root_alone(job, &root)),
    }
}

fn root_alone(job: &Job, root: &[(String, String)]) -> Vec<PlanRow> {
    let attributes: Vec<String> = root.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let attributes = attributes.join(", ");
    let text = match &job.kind {
        JobKind::ComputedRefresh => format!("RefreshJobExec: {attributes}"),
        kind => format!("JobExec: job_type={kind}, {attributes}"),
    };
    vec![("physical_plan".to_owned(), text)]
}

fn logical_plan(statement: &str) -> String {
    format!("RefreshColumn: {statement}")
}

async fn plan_rows(
    engine: &Engine,
    spec: RefreshSpec,
    logical: String,
    root: Vec<(String, String)>,
    verbose: bool,
) -> Result<Vec<explain::PlanRow>> {
    let (store, limits) = (engine.store().clone(), engine.jobs().limits());
    let work = async move { Ok(explain_refresh(&store, &spec, &logical, &limits, &root, verbose).await?) };
    engine.runtime().run(work).await
}

/// Returns the work of a refresh on a table that exists and that the caller may read.
async fn readable_spec(engine: &Engine, principal: &Principal, job: &Job) -> Result<Option<RefreshSpec>> {
    if !matches!(job.kind, JobKind::ComputedRefresh | JobKind::FunctionRefresh) {
        return Ok(None);
    }
    let Some(id) = job.table_id else { return Ok(None) };
    let Some(record) = engine.catalog().table_by_id(id).await? else { return Ok(None) };
    if !engine.allows(principal, Privilege::Select, object_of(&record)).await? {
        return Ok(None);
    }
    Ok(serde_json::from_value(job.spec.clone()).ok())
}

fn root_attributes(job: &Job) -> Vec<(String, String)> {
    let progress = crate::jobs::progress::shown(job);
    let counter = |name| crate::jobs::progress::counter(progress.as_ref(), name);
    let mut root = vec![("state".to_owned(), job.status.state.to_string())];
    if let (Some(computed), Some(planned)) = (counter("rows_computed"), counter("rows_planned")) {
        root.push(("progress".to_owned(), format!("{computed}/{planned}")));
    }
    let option = |name: &str| job.spec.get(name).filter(|value| !value.is_null()).cloned();
    for name in ["num_workers", "branch"] {
        if let Some(value) = option(name) {
            root.push((name.to_owned(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        }
    }
    root
}
