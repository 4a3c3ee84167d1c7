//! The locks of SELECT … FOR UPDATE and FOR SHARE.
//!
//! A lock is of all rows of a table that the query names, and ends with the transaction; outside of a block with the
//! statement. Meanwhile UPDATE, DELETE, MERGE, TRUNCATE, ALTER and DROP of other sessions wait, and so do their locks,
//! unless both are FOR SHARE. INSERT does not wait, as it does not in PostgreSQL. Who waits for each other in a circle
//! is told so (40P01). A query reads its tables when it has all its locks, so it sees what it has waited for.
//!
//! The locks are those of this gateway's own sessions: they are no protection against other writers of the files.

use std::sync::atomic::{AtomicI32, Ordering};

use lancegate_catalog::Table;

use crate::activity::advisory::{Held, Key, Mode, Number, Refused, Until};
use crate::error::{Result, SqlError};
use crate::exec::Engine;
use crate::session::{Session, StatementContext, TransactionStatus};
use crate::sql::plan::Plan;
use crate::sql::plan::query::RowLock;
use crate::sql::rewrite::locking::Wait;
use crate::sqlstate::SqlState;

/// Sessions without a number of their own, such as those of requests, get one below zero for a statement.
static NEXT: AtomicI32 = AtomicI32::new(-1);

/// Takes the locks of a query, in the order of the tables' ids. Returns whether it has all of them; without, SKIP
/// LOCKED finds no row.
///
/// # Errors
/// 55P03 if NOWAIT or `lock_timeout` gives up, 40P01, 53200 for too many.
pub(super) async fn take(
    engine: &Engine,
    session: &Session,
    locks: &[RowLock],
    ctx: &StatementContext,
) -> Result<bool> {
    if session.transaction == TransactionStatus::Idle && session.id == 0 {
        // It would end before the answer is read.
        return Ok(true);
    }
    let held = engine.activity().advisory();
    for lock in locks {
        let (key, name) = (key(&lock.table), &lock.table.name.name);
        let mode = if lock.shared { Mode::Shared } else { Mode::Exclusive };
        let taken = match lock.wait {
            Wait::Block => waited(session, ctx, held.lock(session.id, &key, mode, Until::Transaction)).await?,
            Wait::Fail | Wait::Skip => held.try_lock(session.id, &key, mode, Until::Transaction),
        };
        match taken {
            Err(Refused::Held) if lock.wait == Wait::Skip => return Ok(false),
            taken => taken.map_err(|refused| of_rows(refused, name))?,
        }
    }
    Ok(true)
}

/// Waits until no other session has locked rows of the tables that a statement is about to change; they lock none
/// until the answer is dropped.
///
/// # Errors
/// As [`take`].
pub(super) async fn writing(
    engine: &Engine,
    session: &Session,
    plan: &Plan,
    ctx: &StatementContext,
) -> Result<Vec<Held>> {
    let mut tables = changed(plan);
    tables.sort_by_key(|table| table.id);
    tables.dedup_by_key(|table| table.id);
    let pid = if session.id == 0 { NEXT.fetch_sub(1, Ordering::Relaxed).min(-1) } else { session.id };
    let mut all = Vec::with_capacity(tables.len());
    for table in tables {
        let key = key(table);
        let held = waited(session, ctx, engine.activity().advisory().hold(pid, &key, Mode::Writing)).await?;
        all.push(held.map_err(|refused| of_rows(refused, &table.name.name))?);
    }
    Ok(all)
}

/// Returns the tables whose rows a statement changes, or that it changes itself.
fn changed(plan: &Plan) -> Vec<&Table> {
    match plan {
        Plan::Update(plan) => vec![&plan.table.record],
        Plan::Delete(plan) => vec![&plan.table.record],
        Plan::Merge(plan) => vec![&plan.table.record],
        Plan::Truncate(plan) => plan.tables.iter().map(|table| &table.record).collect(),
        Plan::AlterTable(plan) => plan.table.iter().map(|table| &table.record).collect(),
        Plan::DropTable(plan) => plan.tables.iter().collect(),
        _ => Vec::new(),
    }
}

fn key(table: &Table) -> Key {
    Key { database: table.name.database.clone(), number: Number::Rows(table.id) }
}

/// Waits for a lock for as long as the statement and `lock_timeout` let it.
async fn waited<T>(session: &Session, ctx: &StatementContext, lock: impl Future<Output = T>) -> Result<T> {
    let timeout = async {
        match session.settings.lock_timeout() {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => Err(ctx.error()),
        taken = lock => Ok(taken),
        () = timeout => Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout")),
    }
}

fn of_rows(refused: Refused, table: &str) -> SqlError {
    match refused {
        Refused::Held => {
            SqlError::new(SqlState::LOCK_NOT_AVAILABLE, format!("could not obtain lock on row in relation \"{table}\""))
        }
        Refused::Deadlock => SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
            .detail(format!("A session that has locked rows of \"{table}\" waits for one that this session holds."))
            .hint("Run the transaction again."),
        Refused::Full => {
            SqlError::new(SqlState::OUT_OF_MEMORY, "there are too many locks").hint("End transactions that hold some.")
        }
    }
}
