//! The versions of tables that a block at REPEATABLE READ or SERIALIZABLE reads: each as it was
//! when the block first read a table. A table that the block writes to is read as its last
//! statement left it, with what others have committed before that; rows that others have changed
//! since the block began are not changed again (40001).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use lance::Dataset;
use lancegate_catalog::TableId;

/// A table on a branch; `None` is main.
pub(crate) type Key = (TableId, Option<String>);

/// The versions of one session's open block.
#[derive(Debug, Default)]
pub struct Pins(Mutex<Option<Reading>>);

#[derive(Debug, Default)]
struct Reading {
    /// When the first table was read.
    since: Option<DateTime<Utc>>,
    tables: HashMap<Key, Option<Arc<Dataset>>>,
}

/// Which version of a table a block reads.
#[derive(Debug)]
pub(crate) enum Pin {
    /// The newest: there is no block.
    None,
    /// This one.
    At(Arc<Dataset>),
    /// The newest, and from now on the same: the block has written to it.
    Newest,
    /// The newest of that time, and from now on the same.
    Since(DateTime<Utc>),
}

impl Pins {
    /// Begins a block.
    pub(crate) fn begin(&self) {
        *self.reading() = Some(Reading::default());
    }

    /// Ends the block.
    pub(crate) fn end(&self) {
        *self.reading() = None;
    }

    /// Returns whether there is a block.
    pub(crate) fn are_kept(&self) -> bool {
        self.reading().is_some()
    }

    /// Returns which version of a table is to be read.
    pub(crate) fn of(&self, key: &Key) -> Pin {
        let mut reading = self.reading();
        let Some(reading) = reading.as_mut() else { return Pin::None };
        match reading.tables.get(key) {
            Some(Some(dataset)) => Pin::At(Arc::clone(dataset)),
            Some(None) => Pin::Newest,
            None => Pin::Since(*reading.since.get_or_insert_with(Utc::now)),
        }
    }

    /// Keeps the version that was read.
    pub(crate) fn keep(&self, key: Key, dataset: &Arc<Dataset>) {
        if let Some(reading) = self.reading().as_mut() {
            reading.tables.insert(key, Some(Arc::clone(dataset)));
        }
    }

    /// Notes that the block has written to a table.
    pub(crate) fn wrote(&self, key: Key) {
        if let Some(reading) = self.reading().as_mut() {
            reading.tables.insert(key, None);
        }
    }

    fn reading(&self) -> MutexGuard<'_, Option<Reading>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
