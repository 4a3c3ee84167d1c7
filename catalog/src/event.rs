//! The history of jobs, and news of their changes within this process.

use crate::Timestamp;
use crate::ids::JobId;
use crate::job::JobState;

/// One line of the history of a job. Written in the transaction of the change
/// that it tells of, never changed, removed by retention only.
#[derive(Debug, Clone, PartialEq)]
pub struct JobEvent {
    /// Its id, unique among all events.
    pub event_id: String,
    /// The job.
    pub job_id: JobId,
    /// When it happened.
    pub at: Timestamp,
    /// The state of the job after it.
    pub state: JobState,
    /// The phase of the job after it.
    pub phase: String,
    /// Who reports: a user, a gateway, or `catalog` for the store itself.
    pub emitted_by: String,
    /// The worker that it is about.
    pub worker: Option<String>,
    /// What happened, one word or sentence.
    pub message: String,
    /// More about it.
    pub details: Option<serde_json::Value>,
}

/// An event to be added by a runner.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// Who reports.
    pub emitted_by: String,
    /// The worker that it is about.
    pub worker: Option<String>,
    /// What happened.
    pub message: String,
    /// More about it.
    pub details: Option<serde_json::Value>,
}

/// Tells that a job has changed. Sent after the change is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobChange {
    /// The job.
    pub job_id: JobId,
    /// Its state now.
    pub state: JobState,
    /// Its phase now.
    pub phase: String,
    /// Its database.
    pub database: String,
    /// Whether it is a part of another job.
    pub child: bool,
}
