//! What statements and jobs may use, and how long their traces are kept.

use std::path::PathBuf;

use serde::Deserialize;

use super::value::{ByteSize, Duration};

/// `[query]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryConfig {
    /// Memory that all statements share.
    pub memory: ByteSize,
    /// Where to spill; unset: the system's folder for temporary files.
    pub spill_directory: Option<PathBuf>,
    /// What all spill files together may take.
    pub spill_max: ByteSize,
    /// Compute threads; unset: one for each processor.
    pub threads: Option<usize>,
    /// The default of the session setting, and the most time of a request of REST; zero is no limit.
    pub statement_timeout: Duration,
}

impl QueryConfig {
    /// Returns the number of compute threads.
    pub fn thread_count(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.threads.unwrap_or_else(processors)
    }
}

/// `[jobs]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobsConfig {
    /// How long a job is listed after its end.
    pub retention: Duration,
    /// How long its events are.
    pub event_retention: Duration,
    /// How long what refreshes have used is listed.
    pub metering_retention: Duration,
    /// Unfinished jobs of one user beyond which others are refused; zero is no limit.
    pub user_unfinished_max: u32,
    /// How often what is old, and what refreshes have left, is looked for.
    pub sweep_interval: Duration,
    /// How long a claim lasts without a sign of life of a gateway that still runs.
    pub lease: Duration,
    /// Jobs that run at one time.
    pub max_active: usize,
    /// Unfinished jobs kept for their submitters; when full, a refresh is synchronous.
    pub retained_runs_max: usize,
    /// How long one attempt may run; zero is no limit.
    pub execution_limit: Duration,
    /// The shortest time between two progress notices.
    pub notice_interval: Duration,
}

/// `[secrets]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretsConfig {
    /// The keys; unset: beside the metadata store.
    pub(super) key_file: Option<PathBuf>,
}

/// `[column_refresh]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnRefreshConfig {
    /// Whether automatic refreshes run.
    pub enabled: bool,
    /// The least time from a success to the next one, unless the column says.
    pub interval: Duration,
    /// The longest time until a change is noticed.
    pub look_interval: Duration,
    /// Refreshes of one table beyond which no automatic one begins.
    pub in_flight_per_table: usize,
    /// The wait after a failure; it doubles with each further one.
    pub retry_delay: Duration,
    /// Failures in a row after which none runs; zero is no limit.
    pub failures_max: u32,
    /// How long an attempt of one may run.
    pub execution_limit: Duration,
    /// Fragments computed at one time by one job; unset: one for each compute thread.
    pub workers: Option<usize>,
    /// Fragments that make a publication; more on tables of many fragments.
    pub publish_fragments: usize,
    /// The longest time between two publications while anything is staged.
    pub publish_interval: Duration,
}

/// `[functions]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionsConfig {
    /// The Python that workers run.
    pub python: PathBuf,
    /// Where environments are built.
    pub environments: PathBuf,
    /// Where models are kept.
    pub models: PathBuf,
    /// The hub that models come from; unset: `HF_ENDPOINT`, or huggingface.co.
    pub model_endpoint: Option<String>,
    /// The largest snapshot of a model.
    pub model_bytes: ByteSize,
    /// How much of the sandbox must be there.
    pub sandbox: lancegate_functions::sandbox::Mode,
    /// How long a worker may take to make its instance.
    pub init_timeout: Duration,
    /// Memory of a worker.
    pub memory: ByteSize,
    /// What a worker may write to its /tmp.
    pub tmp: ByteSize,
    /// Processes and threads of a worker.
    pub processes_max: usize,
}

/// `[log]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// Directives of `tracing_subscriber::EnvFilter`.
    pub level: String,
    /// How an event is written.
    pub format: LogFormat,
}

/// How an event is written to standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One line of text.
    Text,
    /// One JSON object on a line.
    Json,
}
