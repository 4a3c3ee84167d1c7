//! What a running refresh lets others see, and how others stop it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use lancegate_functions::Fleet;
use roaring::RoaringBitmap;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::RefreshError;

/// Counters that workers raise and samplers read. Totals are exact when the
/// job has ended; in between they are what was true a moment ago.
#[derive(Debug, Default)]
pub struct Progress {
    cancel: CancellationToken,
    rows_planned: AtomicU64,
    rows_computed: AtomicU64,
    rows_skipped: AtomicU64,
    rows_published: AtomicU64,
    rows_staged: AtomicU64,
    fragments_planned: AtomicU64,
    fragments_completed: AtomicU64,
    active_workers: AtomicU64,
    phase: Mutex<&'static str>,
    fleet: Fleet,
    tasks: Mutex<BTreeMap<u64, Task>>,
}

/// A fragment of the plan whose file is not noted yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// The first row to compute, as a physical offset.
    pub row_start: Option<u32>,
    /// One more than the last.
    pub row_end: Option<u64>,
    /// When a worker began with it; `None` as long as it waits.
    pub started_at: Option<DateTime<Utc>>,
}

/// One look at the counters (PROG-03).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Rows that the plan holds; grows when conflicts plan rows again.
    pub rows_planned: u64,
    /// Rows evaluated, rows evaluated again included.
    pub rows_computed: u64,
    /// Those of them that failed and are NULL, by the policy `skip`.
    pub rows_skipped: u64,
    /// Evaluated rows that a commit made visible.
    pub rows_published: u64,
    /// Rows staged in files that no commit references yet.
    pub rows_retained: u64,
    /// Rows of the plan that no finished file covers yet.
    pub rows_remaining: u64,
    /// Fragments with work.
    pub fragments_planned: u64,
    /// Fragments published.
    pub fragments_completed: u64,
    /// Workers inside a fragment.
    pub active_workers: u64,
}

impl Progress {
    /// Returns counters at zero; `cancel` ends the work.
    pub fn new(cancel: CancellationToken) -> Self {
        Self { cancel, ..Self::default() }
    }

    /// Returns [`RefreshError::Canceled`] once the work should stop.
    ///
    /// # Errors
    /// Only that one.
    pub fn ensure_running(&self) -> Result<(), RefreshError> {
        if self.cancel.is_cancelled() { Err(RefreshError::Canceled) } else { Ok(()) }
    }

    /// Completes when the work should stop.
    pub async fn stopped(&self) {
        self.cancel.cancelled().await;
    }

    /// Returns the Function workers of the job.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Enters a phase of the job's timeline.
    pub fn enter(&self, phase: &'static str) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    /// Returns the phase entered last; empty before the first.
    pub fn phase(&self) -> &'static str {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes these fragments, with the rows to compute, the ones that are not done.
    pub fn queue<'a>(&self, fragments: impl Iterator<Item = (u64, &'a RoaringBitmap)>) {
        let task = |rows: &RoaringBitmap| Task {
            row_start: rows.min(),
            row_end: rows.max().map(|last| u64::from(last) + 1),
            started_at: None,
        };
        *self.tasks_mut() = fragments.map(|(fragment, rows)| (fragment, task(rows))).collect();
    }

    /// Marks a fragment as being computed.
    pub fn begin(&self, fragment: u64) {
        if let Some(task) = self.tasks_mut().get_mut(&fragment) {
            task.started_at = Some(Utc::now());
        }
    }

    /// Takes fragments out: the registry knows of their files now.
    pub fn noted(&self, fragments: impl Iterator<Item = u64>) {
        let mut tasks = self.tasks_mut();
        for fragment in fragments {
            tasks.remove(&fragment);
        }
    }

    /// Returns the fragments that are not done, by their ids.
    pub fn tasks(&self) -> BTreeMap<u64, Task> {
        self.tasks_mut().clone()
    }

    fn tasks_mut(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds work to the plan.
    pub fn planned(&self, fragments: u64, rows: u64) {
        self.fragments_planned.fetch_add(fragments, Ordering::Relaxed);
        self.rows_planned.fetch_add(rows, Ordering::Relaxed);
    }

    /// Takes work back out of the plan.
    pub fn unplanned(&self, fragments: u64, rows: u64) {
        self.fragments_planned.fetch_sub(fragments, Ordering::Relaxed);
        self.rows_planned.fetch_sub(rows, Ordering::Relaxed);
    }

    /// Counts evaluated rows.
    pub fn rows_computed(&self, rows: u64) {
        self.rows_computed.fetch_add(rows, Ordering::Relaxed);
    }

    /// Counts rows that failed and are skipped.
    pub fn rows_skipped(&self, rows: u64) {
        self.rows_skipped.fetch_add(rows, Ordering::Relaxed);
    }

    /// Counts a staged file's rows.
    pub fn staged(&self, rows: u64) {
        self.rows_staged.fetch_add(rows, Ordering::Relaxed);
    }

    /// Takes staged rows back: their file was not accepted.
    pub fn discarded(&self, rows: u64) {
        self.rows_staged.fetch_sub(rows, Ordering::Relaxed);
    }

    /// Counts published fragments and rows, staged before.
    pub fn published(&self, fragments: u64, rows: u64) {
        self.fragments_completed.fetch_add(fragments, Ordering::Relaxed);
        self.rows_published.fetch_add(rows, Ordering::Relaxed);
        self.rows_staged.fetch_sub(rows, Ordering::Relaxed);
    }

    /// Marks a worker as active until the guard drops.
    pub fn worker(&self) -> ActiveWorker<'_> {
        self.active_workers.fetch_add(1, Ordering::Relaxed);
        ActiveWorker(self)
    }

    /// Reads all counters.
    pub fn sample(&self) -> Sample {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (planned, published, staged) =
            (read(&self.rows_planned), read(&self.rows_published), read(&self.rows_staged));
        Sample {
            rows_planned: planned,
            rows_computed: read(&self.rows_computed),
            rows_skipped: read(&self.rows_skipped),
            rows_published: published,
            rows_retained: staged,
            rows_remaining: planned.saturating_sub(published + staged),
            fragments_planned: read(&self.fragments_planned),
            fragments_completed: read(&self.fragments_completed),
            active_workers: read(&self.active_workers),
        }
    }
}

/// See [`Progress::worker`].
#[derive(Debug)]
pub struct ActiveWorker<'a>(&'a Progress);

impl Drop for ActiveWorker<'_> {
    fn drop(&mut self) {
        self.0.active_workers.fetch_sub(1, Ordering::Relaxed);
    }
}
