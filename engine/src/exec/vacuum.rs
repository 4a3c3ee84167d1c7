//! Runs VACUUM: what many small writes have left is written anew (see [`crate::storage::compact`]).
//!
//! It reads and writes beside everybody else, and a change of the same rows comes first: its work is done again then.
//! A table that is being refreshed is passed over, because the refresh would have to place its values anew. ANALYZE
//! does nothing: Lance keeps the statistics that queries use in the files themselves.

use std::sync::Arc;
use std::time::Duration;

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
    let mut attempts = Attempts::default();
    let fragments = loop {
        match compacted(engine, session, table, plan.statement.full, ctx).await {
            Err(error) if lost_race(&error) => attempts.another(table, error, ctx).await?,
            done => break done?,
        }
    };
    let indexes = loop {
        match extended(engine, session, table, ctx).await {
            Err(error) if lost_race(&error) => attempts.another(table, error, ctx).await?,
            done => break done?,
        }
    };
    if plan.statement.verbose {
        let (gone, new) = fragments;
        let message = format!("vacuumed \"{name}\": {gone} fragments became {new}, {indexes} indexes were extended");
        session.notify(NoticeSeverity::Info, SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
    }
    Ok(())
}

/// Returns how many fragments went, and how many came for them.
async fn compacted(
    engine: &Engine,
    session: &Session,
    table: &BoundTable,
    all_deletions: bool,
    ctx: &StatementContext,
) -> Result<(usize, usize)> {
    let newest = newest(engine, session, table, None).await?;
    let dataset = Arc::clone(&newest.dataset);
    let rewriting = async move { Ok(compact::rewrite(dataset, all_deletions).await?) };
    let Some(rewritten) = cancellable(engine.runtime().run(rewriting), ctx).await? else { return Ok((0, 0)) };
    reach("vacuum.rewritten").await?;
    let fragments = rewritten.fragments();
    committed(engine, &newest, compact::commit(rewritten)).await?;
    Ok(fragments)
}

/// Returns how many indexes know more rows now.
async fn extended(engine: &Engine, session: &Session, table: &BoundTable, ctx: &StatementContext) -> Result<usize> {
    let newest = newest(engine, session, table, None).await?;
    let dataset = Arc::clone(&newest.dataset);
    let extending = async move { Ok(compact::extend_indexes(dataset).await?) };
    let Some(extended) = cancellable(engine.runtime().run(extending), ctx).await? else { return Ok(0) };
    let indexes = extended.indexes();
    committed(engine, &newest, compact::commit_indexes(extended)).await?;
    Ok(indexes)
}

/// How often other commits came first.
#[derive(Default)]
struct Attempts(u32);

impl Attempts {
    /// Waits before another attempt at a newer version.
    ///
    /// # Errors
    /// 40001 after too many, 57014.
    async fn another(&mut self, table: &BoundTable, error: SqlError, ctx: &StatementContext) -> Result<()> {
        self.0 += 1;
        if self.0 == ATTEMPTS_MAX {
            return Err(gave_up());
        }
        tracing::info!(attempt = self.0, %error, table = %table.record.name, "vacuuming again at a newer version");
        let pause = tokio::time::sleep(Duration::from_millis(5) * self.0 * self.0);
        let waited = async move {
            pause.await;
            Ok(())
        };
        cancellable(waited, ctx).await
    }
}

/// Commits what was made of a version of a table, also if the statement is given up meanwhile.
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
