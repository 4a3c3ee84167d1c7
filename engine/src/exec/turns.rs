//! Statements that must not run beside each other on one table take turns here.
//!
//! A statement that looks for keys and adds those that are not there holds the turn
//! of the table from its begin to its end. All that write rows hold a share of the
//! gate while they commit. Who has the turn and has lost to them more than once closes
//! the gate, so that a table that is added to all the time can be merged into, too.
//! DROP TABLE and ALTER TABLE close it as well: whoever comes through afterwards asks
//! whether the table and its columns are still those that its rows were made for. A
//! commit to a table that is gone would make its folder anew.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError, Weak};

use lance::Dataset;
use lancegate_catalog::{Table, TableId};
use tokio::sync::{Mutex, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::error::{Result, SqlError};
use crate::exec::{Engine, adopt};
use crate::failpoint::reach;
use crate::session::temp::is_temporary;
use crate::sqlstate::SqlState;
use crate::storage::defaults;

/// The locks of one table.
#[derive(Debug, Default)]
pub(in crate::exec) struct Turn {
    /// Held by who looks for keys.
    pub(in crate::exec) merging: Arc<Mutex<()>>,
    /// Shared by who commits rows.
    gate: Arc<RwLock<()>>,
}

/// The locks of each table that somebody uses; others are forgotten.
#[derive(Debug, Default)]
pub(in crate::exec) struct Turns {
    turns: StdMutex<HashMap<TableId, Weak<Turn>>>,
    /// The version that the last ALTER of a table has made, since the start.
    altered: StdMutex<HashMap<TableId, u64>>,
}

impl Turns {
    fn of(&self, table: TableId) -> Arc<Turn> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(&table).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Turn::default());
        turns.insert(table, Arc::downgrade(&turn));
        turn
    }
}

/// A share of a table's gate: while it is kept, the table is neither dropped nor altered.
#[derive(Debug)]
pub(in crate::exec) struct Share {
    _gate: OwnedRwLockReadGuard<()>,
    /// The gate is the table's only while its turn is kept.
    _turn: Arc<Turn>,
}

/// The gate of a table, closed: while it is kept, nobody else commits rows.
#[derive(Debug)]
pub(in crate::exec) struct Closed {
    _gate: OwnedRwLockWriteGuard<()>,
    _turn: Arc<Turn>,
}

impl Engine {
    /// Returns the locks of a table. They are its locks only while this is kept.
    pub(in crate::exec) fn turn(&self, table: TableId) -> Arc<Turn> {
        self.inner.turns.of(table)
    }

    /// Waits for those who commit to a table and keeps others from it. May be given up.
    pub(in crate::exec) async fn close(&self, table: TableId) -> Closed {
        let turn = self.turn(table);
        Closed { _gate: Arc::clone(&turn.gate).write_owned().await, _turn: turn }
    }

    /// Remembers what an ALTER has made. Called while the gate is closed.
    pub(in crate::exec) fn note_altered(&self, table: TableId, version: u64) {
        self.inner.turns.altered.lock().unwrap_or_else(PoisonError::into_inner).insert(table, version);
    }

    /// Forgets what is remembered of tables that are gone.
    pub(in crate::exec) fn forget_altered(&self, tables: &[Table]) {
        let mut altered = self.inner.turns.altered.lock().unwrap_or_else(PoisonError::into_inner);
        for table in tables {
            altered.remove(&table.id);
        }
    }

    fn altered_after(&self, table: TableId, version: u64) -> bool {
        let altered = self.inner.turns.altered.lock().unwrap_or_else(PoisonError::into_inner);
        altered.get(&table).is_some_and(|altered| *altered > version)
    }

    /// Returns whether a table has been dropped. A temporary one, and one that an open block has
    /// made, has no record, and is dropped by the session alone that uses it.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub(crate) async fn is_dropped(&self, table: &Table) -> Result<bool> {
        if is_temporary(&table.name.namespace) || self.is_unnamed(table.id) {
            return Ok(false);
        }
        // What the name stands for is most often in memory.
        let named = self.catalog().table(&table.name).await?;
        if named.is_some_and(|named| named.id == table.id) {
            return Ok(false);
        }
        Ok(self.catalog().table_by_id(table.id).await?.is_none())
    }

    /// Refuses to go on with a table that was dropped.
    ///
    /// # Errors
    /// 42P01.
    pub(in crate::exec) async fn ensure_there(&self, table: &Table) -> Result<()> {
        if self.is_dropped(table).await? { Err(gone(table)) } else { Ok(()) }
    }

    /// Returns why a statement that writes to tables has failed: that one of them is gone,
    /// where it is so, and not which of its files was missing.
    pub(in crate::exec) async fn failed_on(&self, tables: &[&Table], error: SqlError) -> SqlError {
        for table in tables {
            if self.is_dropped(table).await.is_ok_and(|dropped| dropped) {
                adopt::mark_leavings(self, table).await;
                return gone(table);
            }
        }
        error
    }
}

/// Returns the 42P01 of a table that was dropped after a statement had found it.
pub(crate) fn gone(table: &Table) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", table.name.name))
}

/// Returns the 40001 of rows that were made for columns which an ALTER has changed.
pub(in crate::exec) fn altered() -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent ALTER TABLE")
        .hint("Run the statement again.")
}

/// Who commits rows to a table.
#[derive(Debug, Clone)]
pub(in crate::exec) struct Committer {
    engine: Engine,
    table: Table,
    /// Whether the table has its name, so that others may drop it.
    is_named: bool,
    /// The gate, if its holder has closed it. A commit that goes on when the statement is
    /// given up still has it.
    closed: Option<Arc<Closed>>,
}

impl Committer {
    pub(in crate::exec) fn new(engine: &Engine, table: &Table) -> Self {
        Self { engine: engine.clone(), table: table.clone(), is_named: true, closed: None }
    }

    /// Returns that of a table that is being made.
    pub(in crate::exec) fn unnamed(engine: &Engine, table: &Table) -> Self {
        Self { is_named: false, ..Self::new(engine, table) }
    }

    /// Returns that of a statement that has closed the gate, if it has.
    pub(in crate::exec) fn holding(self, closed: Option<Arc<Closed>>) -> Self {
        Self { closed, ..self }
    }

    pub(in crate::exec) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns what is kept during the commit of rows that were made for `dataset`.
    ///
    /// # Errors
    /// 42P01 if the table is gone, 40001 if its columns have changed.
    pub(in crate::exec) async fn enter(&self, dataset: &Dataset) -> Result<Option<Share>> {
        reach("write.computed").await?;
        let share = match self.closed {
            Some(_) => None,
            None => {
                let turn = self.engine.turn(self.table.id);
                Some(Share { _gate: Arc::clone(&turn.gate).read_owned().await, _turn: turn })
            }
        };
        reach("write.entered").await?;
        if self.is_named {
            self.engine.ensure_there(&self.table).await?;
        }
        // Only main is altered.
        let on_main = dataset.manifest().branch.is_none();
        if on_main && self.engine.altered_after(self.table.id, dataset.version_id()) {
            let newest = self.engine.store().open(&self.table.location).await?;
            if !defaults::takes_rows_of(&newest, dataset) {
                return Err(altered());
            }
        }
        Ok(share)
    }
}
