//! What a running refresh lets others see, and how others stop it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use lancegate_functions::Fleet;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::RefreshError;
use super::splits::Splits;

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
    /// Taken back, and not planned again yet.
    rows_discarded: AtomicU64,
    /// Taken back, and planned again.
    rows_rejected: AtomicU64,
    fragments_planned: AtomicU64,
    fragments_completed: AtomicU64,
    phase: Mutex<&'static str>,
    fleet: Fleet,
    splits: Splits,
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

    /// As [`Self::new`], of an attempt that this gateway runs.
    pub fn of_gateway(cancel: CancellationToken, gateway: String) -> Self {
        Self { cancel, splits: Splits::of(gateway), ..Self::default() }
    }

    /// Returns the splits that are not done.
    pub fn splits(&self) -> &Splits {
        &self.splits
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

    /// Adds work to the plan.
    pub fn planned(&self, fragments: u64, rows: u64) {
        self.fragments_planned.fetch_add(fragments, Ordering::Relaxed);
        // What was discarded is part of this plan now, and no longer of the one before.
        let again = self.rows_discarded.swap(0, Ordering::Relaxed);
        self.rows_rejected.fetch_add(again, Ordering::Relaxed);
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

    /// Takes staged rows back: their file was not accepted. They are due until what is left of them is planned anew.
    pub fn discarded(&self, rows: u64) {
        self.rows_discarded.fetch_add(rows, Ordering::Relaxed);
        self.rows_staged.fetch_sub(rows, Ordering::Relaxed);
    }

    /// Counts published fragments and rows, staged before.
    pub fn published(&self, fragments: u64, rows: u64) {
        self.fragments_completed.fetch_add(fragments, Ordering::Relaxed);
        self.rows_published.fetch_add(rows, Ordering::Relaxed);
        self.rows_staged.fetch_sub(rows, Ordering::Relaxed);
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
            rows_remaining: planned.saturating_sub(published + staged + read(&self.rows_rejected)),
            fragments_planned: read(&self.fragments_planned),
            fragments_completed: read(&self.fragments_completed),
            active_workers: self.splits.active(),
        }
    }
}
