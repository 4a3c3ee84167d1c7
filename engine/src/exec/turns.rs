//! Statements that must not run beside each other on one table take turns here.
//!
//! A statement that looks for keys and adds those that are not there holds the turn
//! of the table from its begin to its end. Others that add rows hold a share of the
//! gate while they commit. Who has the turn and has lost to them more than once closes
//! the gate, so that a table that is added to all the time can be merged into, too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError, Weak};

use lancegate_catalog::TableId;
use tokio::sync::{Mutex, RwLock};

use crate::exec::Engine;

/// The locks of one table.
#[derive(Debug, Default)]
pub(in crate::exec) struct Turn {
    /// Held by who looks for keys.
    pub(in crate::exec) merging: Arc<Mutex<()>>,
    /// Shared by who commits rows.
    pub(in crate::exec) gate: Arc<RwLock<()>>,
}

/// The locks of each table that somebody uses; others are forgotten.
#[derive(Debug, Default)]
pub(in crate::exec) struct Turns {
    turns: StdMutex<HashMap<TableId, Weak<Turn>>>,
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

impl Engine {
    /// Returns the locks of a table. They are its locks only while this is kept.
    pub(in crate::exec) fn turn(&self, table: TableId) -> Arc<Turn> {
        self.inner.turns.of(table)
    }
}
