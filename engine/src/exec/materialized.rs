//! Runs CREATE, ALTER, DROP, DESCRIBE and REFRESH MATERIALIZED VIEW.
//!
//! A materialized view is a Lance table whose rows only refreshes write. Each is a job
//! of kind `sql` ([`refresh`]) and one commit that replaces all rows, so that readers see
//! the rows of one refresh, never a mixture. Creating a view fills it by the same job.

use lancegate_catalog::{CatalogError, Job, JobKind, NewJob, Table, TableId};
use lancegate_sql::ViewOptions;
use serde_json::json;

use crate::error::{Result, SqlError};
use crate::exec::refresh::{blocked, reads_registry, wants_handle};
use crate::exec::{Engine, Outcome, session as block, tables};
use crate::failpoint::reach;
use crate::jobs::rights;
use crate::session::{CancelReason, NoticeSeverity, Session, StatementContext, TransactionStatus};
use crate::sql::plan::materialized::{CreateMaterializedPlan, MaterializedPlan, RefreshMaterializedPlan};
use crate::sql::resolve::object_of;
use crate::sqlstate::SqlState;
use crate::storage::{StorageError, durable};
use crate::system::{columns, materialized_views};

pub(crate) mod answer;
pub(crate) mod refresh;
pub(crate) mod state;

use self::answer::Answer;
use self::state::ViewState;

/// The field of a job's document that says whether everything is computed again.
pub(crate) const FULL: &str = "full";

/// Runs one statement.
pub(super) async fn run(
    engine: &Engine,
    session: &mut Session,
    plan: &MaterializedPlan,
    ctx: &StatementContext,
) -> Result<Outcome> {
    match plan {
        MaterializedPlan::Create(plan) => Box::pin(create(engine, session, plan, ctx)).await,
        MaterializedPlan::Alter { view, options } => alter(engine, session, view.as_ref(), options).await,
        MaterializedPlan::Drop { views, missing, cascaded } => drop(engine, session, (views, cascaded), missing).await,
        MaterializedPlan::Describe { view, .. } => {
            let registry = reads_registry(engine, &session.principal).await?;
            let row = materialized_views::row(engine, view.clone(), registry).await?;
            Ok(Outcome::batch(columns::batch(&materialized_views::columns(), &[row])?, "DESCRIBE"))
        }
        MaterializedPlan::Refresh(plan) => Box::pin(refresh_view(engine, session, plan, ctx)).await,
    }
}

/// Makes a view and fills it. A view that cannot be filled is not left behind.
async fn create(
    engine: &Engine,
    session: &mut Session,
    plan: &CreateMaterializedPlan,
    ctx: &StatementContext,
) -> Result<Outcome> {
    const TAG: &str = "CREATE MATERIALIZED VIEW";
    if session.names.have_changed() {
        // Its rows are read by a job, which knows the names that everybody knows.
        let message = format!("{TAG} cannot run inside a transaction block that has changed names");
        return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message).hint("Run it after COMMIT."));
    }
    let name = plan.record.name.name.as_str();
    if tables::exists(engine, session, &plan.record.name, plan.if_not_exists).await? {
        return Ok(Outcome::batch(Answer::created(name, "exists").created_batch()?, TAG));
    }
    let place = tables::free_location(engine, &plan.record.name).await?;
    let location = place.location().to_owned();
    let record = Table { location: location.clone(), ..plan.record.clone() };
    let schema = ViewState::new(&plan.options).schema(&record, &plan.schema);
    let dataset = tables::write_empty(engine, &location, &schema).await?;
    durable::sync_commit(&dataset, None).await?;
    tables::name_record(engine, &session.principal, record.clone(), Vec::new()).await?;
    // It is taken again by whoever drops the view, which this statement may do itself.
    std::mem::drop(place);
    // Its rows are a job's, which is not part of a block.
    block::changed(session, &record.name.name);
    warn_of_options(engine, session, name, &plan.options);
    if !plan.with_data {
        return Ok(Outcome::batch(Answer::created(name, "created").created_batch()?, TAG));
    }
    let registry = reads_registry(engine, &session.principal).await?;
    let first = RefreshMaterializedPlan::new(record.clone(), true, format!("{TAG} {name}"), None);
    let filled = match submit(engine, session, &first, registry).await {
        Ok(job) => blocked::until_ended(engine, session, job.id, ctx).await,
        Err(error) => Err(error),
    };
    match filled {
        Ok(job) => Ok(Outcome::batch(Answer::filled(name, &job, registry).created_batch()?, TAG)),
        Err(error) => {
            // Without its client, or in the next process, the job goes on.
            if !matches!(ctx.reason.get(), Some(CancelReason::ClientGone | CancelReason::Shutdown)) {
                tables::drop_tables(engine, session.principal.user.as_str(), &[record]).await?;
            }
            Err(error)
        }
    }
}

/// Stores options. A refresh that runs meanwhile is done again, with them.
async fn alter(engine: &Engine, session: &mut Session, view: Option<&Table>, options: &ViewOptions) -> Result<Outcome> {
    let done = Ok(Outcome::Done("ALTER MATERIALIZED VIEW".to_owned()));
    let Some(view) = view else { return done };
    warn_of_options(engine, session, &view.name.name, options);
    let location = view.location.clone();
    let (store, options) = (engine.store().clone(), options.clone());
    let change = engine.runtime().run_to_end(async move {
        let before = store.open(&location).await?;
        let mut dataset = before.as_ref().clone();
        let entry = ViewState::readable(&dataset)?.with(&options).entry();
        dataset.update_schema_metadata([entry]).await.map_err(StorageError::from)?;
        durable::sync_commit(&dataset, Some(&before)).await?;
        Ok(())
    });
    change.await?;
    block::changed(session, &view.name.name);
    done
}

/// Says so if an option does not do what it says as the gateway is configured.
fn warn_of_options(engine: &Engine, session: &Session, view: &str, options: &ViewOptions) {
    if options.auto_refresh_enabled == Some(true) && !engine.jobs().auto().enabled {
        let message = format!("materialized view \"{view}\" is not refreshed by itself, because that is switched off");
        let hint = "The option is kept. Set column_refresh.enabled, or run REFRESH MATERIALIZED VIEW.";
        session.notify(NoticeSeverity::Warning, SqlError::new(SqlState::WARNING, message).hint(hint));
    }
}

/// Removes views: jobs are cancelled, names taken away, files deleted.
async fn drop(
    engine: &Engine,
    session: &mut Session,
    (views, cascaded): (&[Table], &[Table]),
    missing: &[String],
) -> Result<Outcome> {
    for name in missing {
        let message = format!("materialized view \"{name}\" does not exist, skipping");
        session.notify(NoticeSeverity::Notice, SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
    }
    tables::drop_with(engine, session, views, cascaded).await?;
    Ok(Outcome::Done("DROP MATERIALIZED VIEW".to_owned()))
}

/// Submits a refresh and answers with its handle, or waits for its end, by the rules of
/// REFRESH COLUMN.
async fn refresh_view(
    engine: &Engine,
    session: &mut Session,
    plan: &RefreshMaterializedPlan,
    ctx: &StatementContext,
) -> Result<Outcome> {
    if session.transaction == TransactionStatus::InBlock {
        let message = "REFRESH MATERIALIZED VIEW is not part of the transaction block";
        let notice = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message)
            .detail("It is submitted at once, and ROLLBACK does not undo it.");
        session.notify(NoticeSeverity::Notice, notice);
    }
    let registry = reads_registry(engine, &session.principal).await?;
    let wanted = registry && wants_handle(session, plan.wait);
    let early = wanted && !engine.jobs().retained_full().await?;
    reach("submit.before").await?;
    let job = submit(engine, session, plan, registry).await?;
    reach("submit.after").await?;
    let job = match (early, wanted) {
        (true, _) => job,
        (false, true) => blocked::until_ended_quietly(engine, session, job.id, ctx).await?,
        (false, false) => blocked::until_ended(engine, session, job.id, ctx).await?,
    };
    reach("submit.acknowledge").await?;
    Ok(Outcome::batch(Answer::refreshed(&job, registry).refreshed_batch()?, "REFRESH MATERIALIZED VIEW"))
}

async fn submit(engine: &Engine, session: &Session, plan: &RefreshMaterializedPlan, registry: bool) -> Result<Job> {
    let mut job = new_job(plan, session.principal.user.as_str());
    job.idempotency_key.clone_from(&session.idempotency_key);
    match engine.jobs().submit(job).await {
        Ok(job) => Ok(job),
        Err(CatalogError::Busy { active }) => Err(busy(&plan.view, registry.then(|| active.to_string()))),
        Err(error) => Err(error.into()),
    }
}

/// Returns the exclusive key of the refreshes of a view.
pub(in crate::exec) fn view_key(view: TableId) -> String {
    format!("view/{view}")
}

/// Returns the job of a refresh.
pub(in crate::exec) fn new_job(plan: &RefreshMaterializedPlan, user: &str) -> NewJob {
    let view = &plan.view;
    let mut job = NewJob::new(JobKind::Sql, &view.name.database, &view.name.name, user);
    job.namespace.clone_from(&view.name.namespace);
    job.table_id = Some(view.id);
    job.exclusive_key = Some(view_key(view.id));
    job.binding = Some(state::query_digest(view));
    job.spec = json!({
        // Whose folder is written to; see the making of tables.
        "location": view.location,
        "statement": plan.statement,
        FULL: plan.full,
        rights::REQUIRES: rights::stored(&plan.requirements(), &object_of(view)),
    });
    job
}

/// The id is part of the registry: only those who may read that see it.
fn busy(view: &Table, active: Option<String>) -> SqlError {
    let message = format!("materialized view \"{}\" is already being refreshed", view.name.name);
    let error = SqlError::new(SqlState::OBJECT_IN_USE, message);
    match active {
        Some(id) => error
            .detail(format!("Job {id} is active."))
            .hint(format!("Wait for it with WAIT JOB '{id}', or end it with CANCEL JOB '{id}'.")),
        None => error.hint("Run the statement again when it has ended."),
    }
}
