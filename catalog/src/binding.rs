//! What the refreshes of a computed column, or of a materialized view, have come to, as far as the next automatic one
//! depends on it.
//!
//! A *binding* is a computed column of a table generation on a branch, or the query of a materialized view; its key is
//! the exclusive key of its refreshes. Its *revision* says which declaration: a column that is declared again is another
//! one, whatever its field id is.
//! The history changes with the end of a job, in the transaction that ends it.

use crate::Timestamp;
use crate::ids::{JobId, TableId};
use crate::job::{Job, JobKind, JobState};

/// See the module documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefreshHistory {
    /// The exclusive key of the refreshes.
    pub key: String,
    /// The declaration that this is the history of.
    pub revision: String,
    /// Automatic refreshes that failed since one succeeded, or since an explicit one did.
    pub failure_streak: u32,
    /// The canceled refresh because of which no automatic one runs.
    pub blocked_by: Option<JobId>,
    /// The last refresh that succeeded.
    pub succeeded: Option<(JobId, Timestamp)>,
    /// The last one that did not.
    pub failed: Option<FailedRefresh>,
    /// The last one that ended.
    last: JobId,
}

/// A refresh that ended without success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedRefresh {
    /// The job.
    pub job: JobId,
    /// How it ended: failed, timed out or canceled.
    pub state: JobState,
    /// Whether nobody asked for it.
    pub automatic: bool,
    /// When it ended.
    pub at: Timestamp,
    /// What it failed with.
    pub message: Option<String>,
}

/// A refresh that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveRefresh {
    /// The job.
    pub job: JobId,
    /// The binding.
    pub key: String,
    /// The table generation.
    pub table: Option<TableId>,
    /// The job's state.
    pub state: JobState,
    /// Whether nobody asked for it.
    pub automatic: bool,
}

impl RefreshHistory {
    /// Returns the history after the end of `job`, a refresh of this binding; `None` if the job says nothing about
    /// it. `gone` says that what the job was of does not exist any more, which nobody has asked for.
    ///
    /// | end | automatic | explicit |
    /// |---|---|---|
    /// | succeeded | the streak ends | the streak and a block end |
    /// | failed, timed out | the streak grows | noted |
    /// | canceled, of a Function | blocks | blocks |
    /// | canceled, of an expression or a view | the streak grows | noted |
    pub(crate) fn after(earlier: Option<Self>, job: &Job, gone: bool) -> Option<Self> {
        let (key, revision) = (job.exclusive_key.clone()?, job.binding.clone()?);
        if gone {
            return None;
        }
        let at = job.finished_at?;
        let of_this = earlier.as_ref().is_some_and(|earlier| earlier.revision == revision);
        if earlier.as_ref().is_some_and(|earlier| !of_this && earlier.last > job.id) {
            // The column was declared again while the job ran.
            return None;
        }
        let fresh =
            || Self { key, revision, failure_streak: 0, blocked_by: None, succeeded: None, failed: None, last: job.id };
        let mut history = earlier.filter(|_| of_this).unwrap_or_else(fresh);
        history.last = history.last.max(job.id);
        match &job.status.state {
            JobState::Succeeded => {
                history.failure_streak = 0;
                history.succeeded = Some((job.id, at));
                if !job.automatic {
                    history.blocked_by = None;
                }
                return Some(history);
            }
            JobState::Canceled if job.kind == JobKind::FunctionRefresh => history.blocked_by = Some(job.id),
            JobState::Failed | JobState::TimedOut | JobState::Canceled => {
                history.failure_streak = history.failure_streak.saturating_add(u32::from(job.automatic));
            }
            JobState::Created | JobState::Queued | JobState::InProgress | JobState::Paused | JobState::Other(_) => {
                return None;
            }
        }
        history.failed = Some(FailedRefresh {
            job: job.id,
            state: job.status.state.clone(),
            automatic: job.automatic,
            at,
            message: job.failure.as_ref().map(|failure| failure.message.clone()),
        });
        Some(history)
    }

    /// Returns the last job that ended.
    #[must_use]
    pub fn last(&self) -> JobId {
        self.last
    }

    /// Makes a history of what the store holds.
    pub(crate) fn stored(key: String, revision: String, last: JobId) -> Self {
        Self { key, revision, failure_streak: 0, blocked_by: None, succeeded: None, failed: None, last }
    }
}
