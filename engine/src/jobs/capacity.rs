//! Why a job waits, as far as this process sees it at this moment. Nothing of it is stored: what was true a moment ago is
//! no reason any more.

use lancegate_catalog::{JobState, JobSummary, Timestamp};

/// Attempts that may run at one time, and how many more may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// All.
    pub slots: usize,
    /// Those that are free.
    pub available: usize,
}

/// Returns why a job waits; none for one that is not queued, and for one that is about to be taken. Neither a place in
/// the queue nor a time is known.
pub fn queue_reason(job: &JobSummary, capacity: Capacity, now: Timestamp) -> Option<String> {
    if job.state != JobState::Queued {
        return None;
    }
    if let Some(at) = job.not_before.filter(|at| *at > now) {
        let at = at.format("%Y-%m-%dT%H:%M:%SZ");
        return Some(format!("waiting until {at} after attempt {} failed", job.attempt));
    }
    let Capacity { slots, available } = capacity;
    (available == 0).then(|| format!("waiting for executor capacity: 1 worker slot requested, 0 of {slots} available"))
}
