//! Statements that must not run beside each other on one table take turns here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError, Weak};

use lancegate_catalog::TableId;
use tokio::sync::Mutex;

use crate::exec::Engine;

/// One lock for each table that somebody waits for; others are forgotten.
#[derive(Debug, Default)]
pub(in crate::exec) struct Turns {
    locks: StdMutex<HashMap<TableId, Weak<Mutex<()>>>>,
}

impl Turns {
    fn of(&self, table: TableId) -> Arc<Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(&table).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(Mutex::new(()));
        locks.insert(table, Arc::downgrade(&lock));
        lock
    }
}

impl Engine {
    /// Returns the lock that statements hold which look for keys of a table and add
    /// those that are not there.
    pub(in crate::exec) fn turn(&self, table: TableId) -> Arc<Mutex<()>> {
        self.inner.turns.of(table)
    }
}
