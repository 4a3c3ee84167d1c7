//! The rows of a batch that are still to be called, and how they are taken apart.

use std::collections::VecDeque;
use std::ops::Range;

/// Rows that are still to be called.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) rows: Range<usize>,
    /// Called with this size and no larger one.
    pub(super) whole: bool,
    /// Out of memory once: no other call of the job runs beside it.
    pub(super) alone: bool,
    /// Its worker ended once.
    pub(super) lost: bool,
    /// The first half of rows that raised together: if it passes, the rows behind it raise.
    pub(super) doubted: bool,
}

impl Pending {
    /// Rows that nothing is known of.
    pub(super) fn new(rows: Range<usize>) -> Self {
        Self { rows, whole: false, alone: false, lost: false, doubted: false }
    }
}

/// Puts the halves of rows in front. `raised` says that the rows raised, so that one half passes only if the other does
/// not; what took too long or too much may pass in halves.
pub(super) fn halve(failed: Pending, pending: &mut VecDeque<Pending>, raised: bool) {
    let Range { start, end } = failed.rows;
    let middle = start + (end - start) / 2;
    pending.push_front(Pending { rows: middle..end, whole: true, doubted: false, ..failed.clone() });
    pending.push_front(Pending { rows: start..middle, whole: true, doubted: raised, ..failed });
}

pub(super) fn isolate(failed: Pending, row: usize, pending: &mut VecDeque<Pending>) {
    let Range { start, end } = failed.rows;
    let at = start + row;
    for rows in [at + 1..end, at..at + 1, start..at] {
        pending.push_front(Pending { rows, doubted: false, ..failed.clone() });
    }
}
