//! Runs VACUUM: what many small writes have left is written anew (see [`crate::storage::compact`]).
//!
//! It reads and writes beside everybody else, and a change of the same rows comes first: its work is done again then.
//! A table that is being refreshed is passed over, because the refresh would have to place its values anew. ANALYZE
//! does nothing: Lance keeps the statistics that queries use in the files themselves.

use std::sync::Arc;
use std::time::Duration;

use lance::Dataset;
use lancegate_catalog::JobState;

use crate::error::{Result, SqlError};
use crate::exec::indexes::{cancellable, gave_up, lost_race, newest};
use crate::exec::turns::Committer;
use crate::exec::{Engine, Outcome};
use crate::failpoint::reach;
use crate::session::{NoticeSeverity, Session, StatementContext, TransactionStatus};
use crate::sql::plan::vacuum::VacuumPlan;
use crate::sql::resolve::BoundTable;
use crate::sqlstate::SqlState;
use crate::storage::{StorageError, compact};

/// Offers of one table while other commits come first.
const ATTEMPTS_MAX: u32 = 8;

/// Runs VACUUM or ANALYZE, a table at a time.
pub(super) async fn run(
    engine: &Engine,
    session: &mut Session,
    plan: &VacuumPlan,
    ctx: &StatementContext,
) -> Result<Outcome> {
    if plan.statement.vacuum && session.transaction != TransactionStatus::Idle {
        let message = "VACUUM cannot run inside a transaction block";
        return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
    }
    let command = plan.tag().to_lowercase();
    for name in &plan.skipped {
        let message = format!("skipping \"{name}\" --- cannot {command} non-tables or special system tables");
        session.notify(NoticeSeverity::Warning, SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    if plan.statement.vacuum {
        for table in &plan.tables {
            one(engine, session, plan, table, ctx).await?;
        }
    }
    Ok(Outcome::Done(plan.tag().to_owned()))
}

async fn one(
    engine: &Engine,
    session: &Session,
    plan: &VacuumPlan,
    table: &BoundTable,
    ctx: &StatementContext,
) -> Result<()> {
    let name = table.name();
    if is_being_refreshed(engine, table).await? {
        let message = format!("skipping vacuum of \"{name}\" --- it is being refreshed");
        session.notify(NoticeSeverity::Warning, SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message));
        return Ok(());
    }
    let (mut fragments, mut indexes) = ((0, 0), 0);
    let all_deletions = plan.statement.full;
    repeated(engine, session, table, ctx, async |dataset| {
        let rewriting = async move { Ok(compact::rewrite(dataset, all_deletions).await?) };
        let Some(rewritten) = cancellable(engine.runtime().run(rewriting), ctx).await? else { return Ok(()) };
        reach("vacuum.rewritten").await?;
        fragments = rewritten.fragments();
        committed(engine, table, async move { compact::commit(rewritten).await }).await
    })
    .await?;
    repeated(engine, session, table, ctx, async |dataset| {
        let extending = async move { Ok(compact::extend_indexes(dataset).await?) };
        let Some(extended) = cancellable(engine.runtime().run(extending), ctx).await? else { return Ok(()) };
        indexes = extended.indexes();
        committed(engine, table, async move { compact::commit_indexes(extended).await }).await
    })
    .await?;
    if plan.statement.verbose {
        let (gone, new) = fragments;
        let message = format!("vacuumed \"{name}\": {gone} fragments became {new}, {indexes} indexes were extended");
        session.notify(NoticeSeverity::Info, SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
    }
    Ok(())
}

/// Does the work on the newest version of a table, again and again while others commit first.
async fn repeated(
    engine: &Engine,
    session: &Session,
    table: &BoundTable,
    ctx: &StatementContext,
    mut work: impl AsyncFnMut(Arc<Dataset>) -> Result<()>,
) -> Result<()> {
    for attempt in 1..=ATTEMPTS_MAX {
        let dataset = newest(engine, session, table, None).await?.dataset;
        match work(dataset).await {
            Err(error) if lost_race(&error) && attempt < ATTEMPTS_MAX => {
                tracing::info!(attempt, %error, table = %table.record.name, "vacuuming again at a newer version");
                let pause = tokio::time::sleep(Duration::from_millis(5) * attempt * attempt);
                cancellable(async { Ok(pause.await) }, ctx).await?;
            }
            done => return done,
        }
    }
    Err(gave_up())
}

/// Commits, also if the statement is given up meanwhile.
async fn committed(
    engine: &Engine,
    table: &BoundTable,
    commit: impl Future<Output = Result<(), StorageError>> + Send + 'static,
) -> Result<()> {
    let (committer, base) = (Committer::new(engine, &table.record), Arc::clone(&table.dataset));
    let committing = async move {
        let _share = committer.enter(&base).await?;
        commit.await.map_err(SqlError::from)
    };
    engine.runtime().run_to_end(committing).await
}

async fn is_being_refreshed(engine: &Engine, table: &BoundTable) -> Result<bool> {
    let active = engine.catalog().active_jobs().await?;
    Ok(active.iter().any(|job| job.table_id == Some(table.record.id) && job.status.state == JobState::InProgress))
}
