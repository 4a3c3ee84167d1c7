//! What a job is: its row, and the words for its kind and its outcome.
//!
//! The states and the only legal moves between them are in [`state`].

mod state;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::state::{Control, IllegalTransition, JobState, Status, Trigger, transition};
use crate::Timestamp;
use crate::ids::{AttemptEpoch, GatewayId, JobId, TableId};

/// What a job does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// Refreshes a column computed by a SQL expression.
    ComputedRefresh,
    /// Refreshes a column computed by a Function.
    FunctionRefresh,
    /// Builds and checks a Function.
    CreateFunction,
    /// Builds an index.
    CreateIndex,
    /// Merges small fragments.
    Compact,
    /// Removes old versions and orphaned files.
    Cleanup,
    /// Deletes the files of a dropped table.
    DropTable,
    /// Runs a query, as for a materialized view.
    Sql,
    /// Removes old jobs and events of a database.
    JobRegistryArchive,
    /// A part of a refresh: builds the environment of its Function.
    BuildEnvironment,
    /// A part of a refresh: computes and publishes the rows of one plan.
    RefreshSplits,
    /// A kind written by newer software. Read and listed, never claimed.
    Other(String),
}

impl JobKind {
    /// Every kind that this software can run.
    pub const KNOWN: [JobKind; 11] = [
        JobKind::ComputedRefresh,
        JobKind::FunctionRefresh,
        JobKind::CreateFunction,
        JobKind::CreateIndex,
        JobKind::Compact,
        JobKind::Cleanup,
        JobKind::DropTable,
        JobKind::Sql,
        JobKind::JobRegistryArchive,
        JobKind::BuildEnvironment,
        JobKind::RefreshSplits,
    ];

    /// Returns the word used in listings and in the store.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            JobKind::ComputedRefresh => "computed_refresh",
            JobKind::FunctionRefresh => "function_refresh",
            JobKind::CreateFunction => "create_function",
            JobKind::CreateIndex => "create_index",
            JobKind::Compact => "compact",
            JobKind::Cleanup => "cleanup",
            JobKind::DropTable => "drop_table",
            JobKind::Sql => "sql",
            JobKind::JobRegistryArchive => "job_registry_archive",
            JobKind::BuildEnvironment => "build_environment",
            JobKind::RefreshSplits => "refresh_splits",
            JobKind::Other(word) => word,
        }
    }

    pub(crate) fn is_known(&self) -> bool {
        !matches!(self, JobKind::Other(_))
    }
}

impl From<&str> for JobKind {
    fn from(word: &str) -> Self {
        JobKind::KNOWN.into_iter().find(|kind| kind.as_str() == word).unwrap_or_else(|| JobKind::Other(word.to_owned()))
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A job to be submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// Its id, if somebody has been told it already; none is a new one.
    pub id: Option<JobId>,
    /// What to do.
    pub kind: JobKind,
    /// The database that the job is listed under.
    pub database: String,
    /// The namespace of the table; empty for the root.
    pub namespace: Vec<String>,
    /// The table, or the object that the work is about.
    pub table_name: String,
    /// The generation of the table.
    pub table_id: Option<TableId>,
    /// The refreshed column.
    pub column: Option<String>,
    /// The branch; none is the main branch.
    pub branch: Option<String>,
    /// The user whose privileges the job runs with.
    pub submitted_by: String,
    /// The work, in the form that the job's runner reads.
    pub spec: serde_json::Value,
    /// The job that this one is a part of. Such a job is claimed by id only,
    /// never by [`Catalog::claim_next`](crate::Catalog::claim_next).
    pub parent: Option<JobId>,
    /// At most one unfinished job exists for each key.
    pub exclusive_key: Option<String>,
    /// A repeated submission of the same work with the same key within 24 h
    /// by the same user to the same database returns the first job.
    pub idempotency_key: Option<String>,
    /// Whether nobody asked for it. Such a job is not made for a table that is gone.
    pub automatic: bool,
    /// Which declaration of the column or view it refreshes; see [`RefreshHistory`](crate::RefreshHistory).
    pub binding: Option<String>,
    /// It is refused if its user has so many unfinished ones already; none is no limit.
    pub unfinished_max: Option<u32>,
}

impl NewJob {
    /// Returns a job with the required fields; the others are empty.
    #[must_use]
    pub fn new(
        kind: JobKind,
        database: impl Into<String>,
        table_name: impl Into<String>,
        submitted_by: impl Into<String>,
    ) -> Self {
        NewJob {
            id: None,
            kind,
            database: database.into(),
            namespace: Vec::new(),
            table_name: table_name.into(),
            table_id: None,
            column: None,
            branch: None,
            submitted_by: submitted_by.into(),
            spec: serde_json::Value::Null,
            parent: None,
            exclusive_key: None,
            idempotency_key: None,
            automatic: false,
            binding: None,
            unfinished_max: None,
        }
    }
}

/// A job as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// What it does.
    pub kind: JobKind,
    /// The database that it is listed under.
    pub database: String,
    /// The namespace of the table; empty for the root.
    pub namespace: Vec<String>,
    /// The table, or the object that the work is about.
    pub table_name: String,
    /// The generation of the table.
    pub table_id: Option<TableId>,
    /// The refreshed column.
    pub column: Option<String>,
    /// The branch; none is the main branch.
    pub branch: Option<String>,
    /// The user whose privileges the job runs with.
    pub submitted_by: String,
    /// The work.
    pub spec: serde_json::Value,
    /// The job that this one is a part of.
    pub parent: Option<JobId>,
    /// At most one unfinished job exists for each key.
    pub exclusive_key: Option<String>,
    /// Whether nobody asked for it.
    pub automatic: bool,
    /// Which declaration of the column it refreshes.
    pub binding: Option<String>,
    /// State and pending request.
    pub status: Status,
    /// Where the work is, one word.
    pub phase: String,
    /// The last sample of progress.
    pub progress: Option<serde_json::Value>,
    /// Why it waits, from a current observation only.
    pub queue_reason: Option<String>,
    /// What it produced; set when it succeeded.
    pub result: Option<serde_json::Value>,
    /// Why it failed, or why the last attempt did.
    pub failure: Option<Failure>,
    /// The table version that it reads.
    pub source_version: Option<u64>,
    /// The current fence; 0 before the first claim.
    pub epoch: AttemptEpoch,
    /// How often it was claimed.
    pub attempt: u32,
    /// Who holds it.
    pub gateway: Option<GatewayId>,
    /// When others may take it over.
    pub lease_expires_at: Option<Timestamp>,
    /// Not claimed before this time.
    pub not_before: Option<Timestamp>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was first claimed.
    pub started_at: Option<Timestamp>,
    /// When it reached a terminal state.
    pub finished_at: Option<Timestamp>,
}

/// What listings show of a job: without documents, which may be large and are read by whoever runs the job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSummary {
    /// Its id.
    pub id: JobId,
    /// What it does.
    pub kind: JobKind,
    /// The namespace of the table; empty for the root.
    pub namespace: Vec<String>,
    /// The table, or the object that the work is about.
    pub table_name: String,
    /// The user whose privileges the job runs with.
    pub submitted_by: String,
    /// Where it is in its life.
    pub state: JobState,
    /// Where the work is, one word.
    pub phase: String,
    /// The last sample of progress, a JSON object as text.
    pub progress: Option<String>,
    /// Why it waits, from a current observation only.
    pub queue_reason: Option<String>,
    /// Rows that failed, of a job that succeeded and counted them.
    pub rows_failed: Option<u64>,
    /// Why it failed, or why the last attempt did.
    pub error: Option<String>,
    /// The current fence; 0 before the first claim.
    pub epoch: AttemptEpoch,
    /// How often it was claimed.
    pub attempt: u32,
    /// Not claimed before this time.
    pub not_before: Option<Timestamp>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it reached a terminal state.
    pub finished_at: Option<Timestamp>,
}

impl From<&Job> for JobSummary {
    fn from(job: &Job) -> Self {
        let rows_failed = job.result.as_ref().and_then(|result| result.get("rows_failed")?.as_u64());
        Self {
            id: job.id,
            kind: job.kind.clone(),
            namespace: job.namespace.clone(),
            table_name: job.table_name.clone(),
            submitted_by: job.submitted_by.clone(),
            state: job.status.state.clone(),
            phase: job.phase.clone(),
            progress: job.progress.as_ref().map(ToString::to_string),
            queue_reason: job.queue_reason.clone(),
            rows_failed: rows_failed.filter(|_| job.status.state == JobState::Succeeded),
            error: job.failure.as_ref().map(|failure| failure.message.clone()),
            epoch: job.epoch,
            attempt: job.attempt,
            not_before: job.not_before,
            created_at: job.created_at,
            updated_at: job.updated_at,
            finished_at: job.finished_at,
        }
    }
}

impl JobSummary {
    /// Returns the place of this job in listings.
    #[must_use]
    pub fn cursor(&self) -> JobCursor {
        JobCursor { created_at: self.created_at, id: self.id }
    }
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The documented error name, for example `ConcurrentWriteError`.
    pub error_code: String,
    /// What a user reads.
    pub message: String,
    /// What is known besides, in sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What to do, in sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The five-character code, if the runner knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sqlstate: Option<String>,
}

/// Selects jobs for a listing, newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobFilter {
    /// Of this database; none is all databases.
    pub database: Option<String>,
    /// Of the table with this namespace and name in `database`.
    pub table: Option<(Vec<String>, String)>,
    /// Direct children of this job.
    pub parent: Option<JobId>,
    /// In one of these states; none is any state.
    pub states: Option<Vec<JobState>>,
    /// Older than this place in the listing.
    pub before: Option<JobCursor>,
    /// At most so many; none is [`JobFilter::LIMIT_DEFAULT`].
    pub limit: Option<u32>,
}

impl JobFilter {
    /// Rows returned when no limit is given.
    pub const LIMIT_DEFAULT: u32 = 1_000;
    /// The largest limit that is honoured.
    pub const LIMIT_MAX: u32 = 10_000;

    pub(crate) fn effective_limit(&self) -> u32 {
        self.limit.unwrap_or(Self::LIMIT_DEFAULT).min(Self::LIMIT_MAX)
    }
}

/// A place in a listing of jobs: the last job already seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobCursor {
    /// Its creation time.
    pub created_at: Timestamp,
    /// Its id.
    pub id: JobId,
}

impl Job {
    /// Returns the place of this job in listings.
    #[must_use]
    pub fn cursor(&self) -> JobCursor {
        JobCursor { created_at: self.created_at, id: self.id }
    }
}

/// A durable note of a running attempt: a staged part, a commit intent.
#[derive(Debug, Clone, PartialEq)]
pub struct Receipt {
    /// Names the note within its job.
    pub key: String,
    /// The attempt that wrote it.
    pub epoch: AttemptEpoch,
    /// What was noted.
    pub value: serde_json::Value,
}

/// What became of a request to cancel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelOutcome {
    /// Nothing was running; the job is canceled.
    Canceled,
    /// The running attempt was asked to stop.
    Requested,
    /// The job had ended before, in this state.
    AlreadyTerminal(JobState),
}

/// What became of a request to pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseOutcome {
    /// Nothing was running; the job is parked.
    Paused,
    /// The running attempt was asked to drain.
    Pausing,
    /// The job was parked before.
    AlreadyPaused,
    /// The job publishes its results and cannot be parked now.
    Committing,
}

impl PauseOutcome {
    /// Returns the word of `PAUSE JOB`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            // The documented words do not tell a job that had nothing to drain.
            PauseOutcome::Paused | PauseOutcome::Pausing => "pausing",
            PauseOutcome::AlreadyPaused => "already_paused",
            PauseOutcome::Committing => "committing",
        }
    }
}

/// What became of a request to resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeOutcome {
    /// The job is queued again.
    Resumed,
    /// Its attempt has not confirmed the drain yet.
    StillPausing,
    /// It was not parked.
    NotPaused,
}

impl ResumeOutcome {
    /// Returns the word of `RESUME JOB`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ResumeOutcome::Resumed => "resumed",
            ResumeOutcome::StillPausing => "still_pausing",
            ResumeOutcome::NotPaused => "not_paused",
        }
    }
}
