//! The splits of a running refresh: which worker is at which, since when, and how often it was begun.
//!
//! A split is a fragment with work. It is here from the plan until the registry has a note of its file. What of it was
//! begun and not noted is told to the registry ([`Splits::begun`]), so that an attempt that takes the job over knows
//! how often a split was begun before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

use crate::clock::now;

/// A split that is not noted yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    /// The first row to compute, as a physical offset.
    pub row_start: Option<u32>,
    /// One more than the last.
    pub row_end: Option<u64>,
    /// When a worker began with it; `None` as long as it waits.
    pub started_at: Option<DateTime<Utc>>,
    /// How it is run; `None` as long as it waits.
    pub execution: Option<Execution>,
    /// Bytes of stored columns that were read for it so far, as they are in memory.
    pub bytes_read: u64,
    /// How often an attempt of the job has begun it before.
    pub begun_before: u64,
    /// Whether its worker gave it up.
    pub failed: bool,
}

/// One run of a split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// Who ran it: the gateway and the number of the worker in it.
    pub worker: String,
    /// How often the split was begun, this time included.
    pub attempts: u64,
    /// How often a worker of this attempt of the job gave the split up with an error.
    pub errors: u64,
}

/// How often splits were begun that are not noted, by fragment.
pub type Begun = BTreeMap<u64, u64>;

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Splits {
    gateway: String,
    /// Numbers of the workers that are inside a split.
    workers: Mutex<BTreeSet<u64>>,
    tasks: Mutex<BTreeMap<u64, Task>>,
    before: Mutex<Begun>,
    errors: Mutex<BTreeMap<u64, u64>>,
}

impl Splits {
    /// Returns none yet, of an attempt that this gateway runs.
    pub(super) fn of(gateway: String) -> Self {
        Self { gateway, ..Self::default() }
    }

    /// Takes over what the registry knows of splits that an earlier attempt has begun.
    pub(super) fn resume(&self, before: Begun) {
        *lock(&self.before) = before;
    }

    /// Makes these fragments, with the rows to compute, the ones that are not done.
    pub(super) fn queue<'a>(&self, fragments: impl Iterator<Item = (u64, &'a RoaringBitmap)>) {
        let before = lock(&self.before);
        let task = |fragment: u64, rows: &RoaringBitmap| Task {
            begun_before: before.get(&fragment).copied().unwrap_or_default(),
            ..Task::of(rows)
        };
        *lock(&self.tasks) = fragments.map(|(fragment, rows)| (fragment, task(fragment, rows))).collect();
    }

    /// Marks rows of a fragment as being computed, by the worker that is returned; it is one until that is dropped.
    pub(super) fn begin(&self, fragment: u64, rows: &RoaringBitmap) -> Worker<'_> {
        let mut workers = lock(&self.workers);
        let number = (0..).find(|number| !workers.contains(number)).expect("there are fewer workers than numbers");
        workers.insert(number);
        drop(workers);
        let before = lock(&self.before).get(&fragment).copied().unwrap_or_default();
        let execution = Execution {
            worker: format!("{}/{number}", self.gateway),
            attempts: before + 1,
            errors: lock(&self.errors).get(&fragment).copied().unwrap_or_default(),
        };
        let task = Task {
            started_at: Some(now()),
            execution: Some(execution.clone()),
            begun_before: before,
            ..Task::of(rows)
        };
        lock(&self.tasks).insert(fragment, task);
        Worker { splits: self, number, fragment, execution }
    }

    /// Takes fragments out: the registry knows of their files now.
    pub(super) fn noted(&self, fragments: impl Iterator<Item = u64>) {
        let (mut tasks, mut before) = (lock(&self.tasks), lock(&self.before));
        for fragment in fragments {
            tasks.remove(&fragment);
            before.remove(&fragment);
        }
    }

    /// Returns how often each split was begun that is not noted.
    pub(super) fn begun(&self) -> Begun {
        let mut begun = lock(&self.before).clone();
        for (fragment, task) in lock(&self.tasks).iter() {
            if let Some(execution) = &task.execution {
                begun.insert(*fragment, execution.attempts);
            }
        }
        begun
    }

    /// Returns the fragments that are not done, by their ids.
    pub fn tasks(&self) -> BTreeMap<u64, Task> {
        lock(&self.tasks).clone()
    }

    /// Returns how many workers are inside a split.
    pub(super) fn active(&self) -> u64 {
        lock(&self.workers).len() as u64
    }
}

impl Task {
    fn of(rows: &RoaringBitmap) -> Self {
        let row_end = rows.max().map(|last| u64::from(last) + 1);
        Self { row_start: rows.min(), row_end, ..Self::default() }
    }
}

/// A worker inside a split.
#[derive(Debug)]
pub struct Worker<'a> {
    splits: &'a Splits,
    number: u64,
    fragment: u64,
    execution: Execution,
}

impl Worker<'_> {
    /// Returns the run.
    pub fn execution(&self) -> &Execution {
        &self.execution
    }

    /// Counts bytes that were read.
    pub fn read(&self, bytes: u64) {
        if let Some(task) = lock(&self.splits.tasks).get_mut(&self.fragment) {
            task.bytes_read += bytes;
        }
    }

    /// Returns the bytes that were read.
    pub fn bytes_read(&self) -> u64 {
        lock(&self.splits.tasks).get(&self.fragment).map_or(0, |task| task.bytes_read)
    }

    /// Says that the worker gives the split up with an error.
    pub fn gives_up(&self) {
        let mut errors = lock(&self.splits.errors);
        let errors = errors.entry(self.fragment).or_default();
        *errors += 1;
        if let Some(task) = lock(&self.splits.tasks).get_mut(&self.fragment) {
            task.failed = true;
            if let Some(execution) = &mut task.execution {
                execution.errors = *errors;
            }
        }
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        lock(&self.splits.workers).remove(&self.number);
    }
}

/// None of the guarded values is ever left half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(offsets: std::ops::Range<u32>) -> RoaringBitmap {
        offsets.collect()
    }

    #[test]
    fn prog_08_workers_have_the_smallest_free_number_and_splits_count_their_beginnings() {
        let splits = Splits::of("gw".to_owned());
        splits.resume(Begun::from([(7, 2)]));
        splits.queue([(3, &rows(0..10)), (7, &rows(5..9))].into_iter());
        assert_eq!(splits.tasks()[&7].begun_before, 2);
        let first = splits.begin(3, &rows(0..10));
        let second = splits.begin(7, &rows(5..9));
        assert_eq!(first.execution(), &Execution { worker: "gw/0".into(), attempts: 1, errors: 0 });
        assert_eq!(second.execution(), &Execution { worker: "gw/1".into(), attempts: 3, errors: 0 });
        assert_eq!((splits.active(), splits.begun()), (2, Begun::from([(3, 1), (7, 3)])));
        first.read(100);
        assert_eq!((first.bytes_read(), splits.tasks()[&3].bytes_read), (100, 100));
        drop(first);
        splits.noted([3].into_iter());
        let third = splits.begin(4, &rows(0..1));
        assert_eq!(third.execution().worker, "gw/0", "the number is free again");
        second.gives_up();
        let task = splits.tasks().remove(&7).unwrap();
        assert_eq!((task.failed, task.execution.unwrap().errors), (true, 1));
        drop(second);
        assert_eq!(splits.begin(7, &rows(5..9)).execution().errors, 1, "what failed stays counted");
    }
}
