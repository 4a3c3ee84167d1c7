//! The versions of tables that a block at REPEATABLE READ or SERIALIZABLE reads: each as it was
//! when the block first read a table. A table that the block writes to is read as its last
//! statement left it, with what others have committed before that; rows that others have changed
//! since the block began are not changed again (40001). Where the block's own commit came after
//! others', theirs cannot be told apart any more, so no rows are changed there at all (40001).

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
    tables: HashMap<Key, Seen>,
}

/// What a block has seen of a table.
#[derive(Debug, Default)]
struct Seen {
    /// The version that it reads, once it has been opened.
    dataset: Option<Arc<Dataset>>,
    /// The version that its own last change of rows has made.
    wrote: Option<u64>,
    /// Whether that has changes of others in it, which it had not seen before.
    mixed: bool,
}

/// Which version of a table a block reads.
#[derive(Debug)]
pub(crate) enum Pin {
    /// The newest: there is no block.
    None,
    /// This one.
    At(Arc<Dataset>),
    /// That of this number, which the block has made.
    Version(u64),
    /// The newest, and from now on the same: the block has changed its columns.
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
            Some(Seen { dataset: Some(dataset), .. }) => Pin::At(Arc::clone(dataset)),
            Some(Seen { wrote: Some(version), .. }) => Pin::Version(*version),
            Some(_) => Pin::Newest,
            None => Pin::Since(*reading.since.get_or_insert_with(Utc::now)),
        }
    }

    /// Keeps the version that was read.
    pub(crate) fn keep(&self, key: Key, dataset: &Arc<Dataset>) {
        if let Some(reading) = self.reading().as_mut() {
            reading.tables.entry(key).or_default().dataset = Some(Arc::clone(dataset));
        }
    }

    /// Notes that the block has changed rows, and which version has them; none has if there were none.
    pub(crate) fn wrote(&self, key: Key, version: Option<u64>) {
        let mut reading = self.reading();
        let (Some(reading), Some(version)) = (reading.as_mut(), version) else { return };
        let seen = reading.tables.entry(key).or_default();
        let before = seen.dataset.take().map(|dataset| dataset.version_id()).or(seen.wrote);
        seen.mixed |= before.is_some_and(|before| version != before + 1);
        seen.wrote = Some(version);
    }

    /// Notes that the block has changed the table itself.
    pub(crate) fn altered(&self, key: Key) {
        if let Some(reading) = self.reading().as_mut() {
            reading.tables.insert(key, Seen::default());
        }
    }

    /// Returns whether the block reads changes of others that it cannot tell from its own.
    pub(crate) fn is_mixed(&self, key: &Key) -> bool {
        self.reading().as_ref().is_some_and(|reading| reading.tables.get(key).is_some_and(|seen| seen.mixed))
    }

    fn reading(&self) -> MutexGuard<'_, Option<Reading>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
