//! The options of `REFRESH COLUMN` and `REFRESH MATERIALIZED VIEW`.

use std::fmt;

use super::list::OptionReader;
use super::{OptionPositions, SqlOption, WithClause};
use crate::error::{ParseError, ParseErrorKind};
use crate::name::Literal;

const MIB: u64 = 1024 * 1024;
/// The smallest memory budget of a refresh.
const MEMORY_BYTES_MIN: u64 = 64 * MIB;
/// The longest row and start-up deadline, a day.
const TIMEOUT_SECONDS_MAX: u32 = 86_400;
const NUM_WORKERS_MAX: u32 = 1_024;
const BATCH_SIZE_MAX: u32 = 1_000_000;
/// The longest DNS label, which a GPU class is.
const GPU_CLASS_CHARS_MAX: usize = 63;
const BRANCH_CHARS_MAX: usize = 64;

/// What happens when a row fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorPolicy {
    /// The job fails with the first failed row.
    Fail,
    /// The row becomes null and is recorded.
    Skip,
}

impl ErrorPolicy {
    /// Returns the spelling in options.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Skip => "skip",
        }
    }
}

/// The options of `REFRESH COLUMN`; `None` is what the text does not name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RefreshOptions {
    /// Workers of an expression column, 1 to 1,024.
    pub num_workers: Option<u32>,
    /// CPU budget of all workers in thousandths of a CPU, at least 1.
    pub cpu_millis: Option<u64>,
    /// Memory budget of all workers in bytes, at least 64 MiB.
    pub memory_bytes: Option<u64>,
    /// GPUs of all workers; zero only in a complete budget.
    pub gpu_count: Option<u32>,
    /// The class of the GPUs, a DNS label.
    pub gpu_class: Option<String>,
    /// The most rows of one call, 1 to 1,000,000.
    pub batch_size: Option<u32>,
    /// What happens when a row fails.
    pub error_policy: Option<ErrorPolicy>,
    /// The share of failed rows that fails the job, 0 to 1.
    pub max_failed_fraction: Option<f64>,
    /// The number of failed rows that the job survives.
    pub max_failed_rows: Option<u64>,
    /// The deadline of a row in seconds, 1 to 86,400.
    pub row_timeout_seconds: Option<u32>,
    /// The deadline of a worker's start in seconds, 1 to 86,400.
    pub init_timeout_seconds: Option<u32>,
    /// The most processes of one worker, at least 1.
    pub max_executor_processes_per_worker: Option<u32>,
    /// Publishes a version each time this many rows wait for it, at least 1.
    pub publication_interval_rows: Option<u64>,
    /// The branch to refresh.
    pub branch: Option<String>,
    /// Where each option stands in the text.
    pub positions: OptionPositions,
}

impl RefreshOptions {
    /// The names of all options.
    pub const SUPPORTED: &'static [&'static str] = &[
        "num_workers",
        "cpu_millis",
        "memory_bytes",
        "gpu_count",
        "gpu_class",
        "batch_size",
        "error_policy",
        "max_failed_fraction",
        "max_failed_rows",
        "row_timeout_seconds",
        "init_timeout_seconds",
        "max_executor_processes_per_worker",
        "publication_interval_rows",
        "branch",
    ];

    /// Reads the options from pairs of names and values.
    ///
    /// # Errors
    /// `UnknownOption`, `DuplicateOption`, or `BadOptionValue` for a value out of
    /// its range and for a budget that is not complete.
    pub fn from_options(options: &[SqlOption]) -> Result<Self, ParseError> {
        let mut reader = OptionReader::new("REFRESH COLUMN", Self::SUPPORTED);
        let mut set = Self::default();
        for option in options {
            let option = reader.known(option)?;
            match option.name {
                "num_workers" => set.num_workers = Some(option.integer_u32(1, NUM_WORKERS_MAX)?),
                "cpu_millis" => set.cpu_millis = Some(option.integer(1, u64::MAX)?),
                "memory_bytes" => {
                    set.memory_bytes = Some(option.integer(MEMORY_BYTES_MIN, u64::MAX)?);
                }
                "gpu_count" => set.gpu_count = Some(option.integer_u32(0, u32::MAX)?),
                "gpu_class" => set.gpu_class = Some(gpu_class(&option)?),
                "batch_size" => set.batch_size = Some(option.integer_u32(1, BATCH_SIZE_MAX)?),
                "error_policy" => set.error_policy = Some(error_policy(&option)?),
                "max_failed_fraction" => {
                    let range = |share| (0.0..=1.0).contains(&share);
                    set.max_failed_fraction = Some(option.number(range, "a number from 0 to 1")?);
                }
                "max_failed_rows" => set.max_failed_rows = Some(option.integer(0, u64::MAX)?),
                "row_timeout_seconds" => {
                    set.row_timeout_seconds = Some(option.integer_u32(1, TIMEOUT_SECONDS_MAX)?);
                }
                "init_timeout_seconds" => {
                    set.init_timeout_seconds = Some(option.integer_u32(1, TIMEOUT_SECONDS_MAX)?);
                }
                "max_executor_processes_per_worker" => {
                    set.max_executor_processes_per_worker = Some(option.integer_u32(1, u32::MAX)?);
                }
                "publication_interval_rows" => {
                    set.publication_interval_rows = Some(option.integer(1, u64::MAX)?);
                }
                "branch" => set.branch = Some(branch(&option)?),
                name => unreachable!("the reader knows no option {name}"),
            }
        }
        set.positions = reader.into_positions();
        ensure_budget(set.cpu_millis, set.memory_bytes, set.gpu_count, &set.positions)?;
        Ok(set)
    }

    /// Returns the options that are set, as name and value in SQL.
    pub fn pairs(&self) -> Vec<(&'static str, String)> {
        let text = |text: &String| Literal(text).to_string();
        let pairs = [
            ("num_workers", self.num_workers.map(|n| n.to_string())),
            ("cpu_millis", self.cpu_millis.map(|n| n.to_string())),
            ("memory_bytes", self.memory_bytes.map(|n| n.to_string())),
            ("gpu_count", self.gpu_count.map(|n| n.to_string())),
            ("gpu_class", self.gpu_class.as_ref().map(text)),
            ("batch_size", self.batch_size.map(|n| n.to_string())),
            ("error_policy", self.error_policy.map(|p| Literal(p.as_str()).to_string())),
            ("max_failed_fraction", self.max_failed_fraction.map(|n| n.to_string())),
            ("max_failed_rows", self.max_failed_rows.map(|n| n.to_string())),
            ("row_timeout_seconds", self.row_timeout_seconds.map(|n| n.to_string())),
            ("init_timeout_seconds", self.init_timeout_seconds.map(|n| n.to_string())),
            ("max_executor_processes_per_worker", self.max_executor_processes_per_worker.map(|n| n.to_string())),
            ("publication_interval_rows", self.publication_interval_rows.map(|n| n.to_string())),
            ("branch", self.branch.as_ref().map(text)),
        ];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Returns the names of the set options that an expression column refuses.
    pub fn function_only(&self) -> Vec<&'static str> {
        self.pairs()
            .into_iter()
            .map(|(name, _)| name)
            .filter(|name| !matches!(*name, "num_workers" | "branch"))
            .collect()
    }

    /// Returns the position of an option's name in the text.
    pub fn position_of(&self, name: &str) -> Option<usize> {
        self.positions.get(name)
    }

    /// Displays the options as ` WITH (…)`, or nothing without any.
    pub fn with_clause(&self) -> WithClause {
        WithClause(join_pairs(self.pairs()))
    }
}

impl fmt::Display for RefreshOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&join_pairs(self.pairs()))
    }
}

/// The options of `REFRESH MATERIALIZED VIEW`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RefreshViewOptions {
    /// Whether everything is computed again.
    pub full: Option<bool>,
    /// CPU budget in thousandths of a CPU, at least 1.
    pub cpu_millis: Option<u64>,
    /// Memory budget in bytes, at least 64 MiB.
    pub memory_bytes: Option<u64>,
    /// GPUs; zero only in a complete budget.
    pub gpu_count: Option<u32>,
    /// The class of the GPUs, a DNS label.
    pub gpu_class: Option<String>,
    /// Where each option stands in the text.
    pub positions: OptionPositions,
}

impl RefreshViewOptions {
    /// The names of all options.
    pub const SUPPORTED: &'static [&'static str] = &["full", "cpu_millis", "memory_bytes", "gpu_count", "gpu_class"];

    /// Reads the options from pairs of names and values.
    ///
    /// # Errors
    /// As [`RefreshOptions::from_options`].
    pub fn from_options(options: &[SqlOption]) -> Result<Self, ParseError> {
        let mut reader = OptionReader::new("REFRESH MATERIALIZED VIEW", Self::SUPPORTED);
        let mut set = Self::default();
        for option in options {
            let option = reader.known(option)?;
            match option.name {
                "full" => set.full = Some(option.boolean()?),
                "cpu_millis" => set.cpu_millis = Some(option.integer(1, u64::MAX)?),
                "memory_bytes" => {
                    set.memory_bytes = Some(option.integer(MEMORY_BYTES_MIN, u64::MAX)?);
                }
                "gpu_count" => set.gpu_count = Some(option.integer_u32(0, u32::MAX)?),
                "gpu_class" => set.gpu_class = Some(gpu_class(&option)?),
                name => unreachable!("the reader knows no option {name}"),
            }
        }
        set.positions = reader.into_positions();
        ensure_budget(set.cpu_millis, set.memory_bytes, set.gpu_count, &set.positions)?;
        Ok(set)
    }

    /// Returns the options that are set, as name and value in SQL.
    pub fn pairs(&self) -> Vec<(&'static str, String)> {
        let pairs = [
            ("full", self.full.map(|set| set.to_string())),
            ("cpu_millis", self.cpu_millis.map(|n| n.to_string())),
            ("memory_bytes", self.memory_bytes.map(|n| n.to_string())),
            ("gpu_count", self.gpu_count.map(|n| n.to_string())),
            ("gpu_class", self.gpu_class.as_ref().map(|text| Literal(text).to_string())),
        ];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Displays the options as ` WITH (…)`, or nothing without any.
    pub fn with_clause(&self) -> WithClause {
        WithClause(join_pairs(self.pairs()))
    }
}

/// Refuses a budget that names CPU or memory without naming all three, and one
/// of zero GPUs alone.
fn ensure_budget(
    cpu_millis: Option<u64>,
    memory_bytes: Option<u64>,
    gpu_count: Option<u32>,
    positions: &OptionPositions,
) -> Result<(), ParseError> {
    match (cpu_millis, memory_bytes, gpu_count) {
        (None, None, None | Some(1..)) | (Some(_), Some(_), Some(_)) => Ok(()),
        (None, None, Some(0)) => {
            Err(ParseError::new(ParseErrorKind::BadOptionValue, "invalid value for option \"gpu_count\": \"0\"")
                .with_detail("Option \"gpu_count\" must be at least 1 unless cpu_millis and memory_bytes are given.")
                .at(positions.get("gpu_count")))
        }
        (cpu, memory, gpu) => {
            let missing = [
                cpu.is_none().then_some("cpu_millis"),
                memory.is_none().then_some("memory_bytes"),
                gpu.is_none().then_some("gpu_count"),
            ];
            let missing: Vec<_> = missing.into_iter().flatten().collect();
            let given = if cpu.is_some() { "cpu_millis" } else { "memory_bytes" };
            Err(ParseError::new(
                ParseErrorKind::BadOptionValue,
                format!("option \"{given}\" needs {} too", missing.join(" and ")),
            )
            .with_detail("A budget names cpu_millis, memory_bytes and gpu_count together.")
            .with_hint("Set gpu_count = 0 for a budget without GPUs.")
            .at(positions.get(given)))
        }
    }
}

fn gpu_class(option: &super::list::KnownOption<'_>) -> Result<String, ParseError> {
    let label = |text: &str| {
        text.len() <= GPU_CLASS_CHARS_MAX
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    option.text(label, "1 to 63 lower case letters, digits and hyphens")
}

fn error_policy(option: &super::list::KnownOption<'_>) -> Result<ErrorPolicy, ParseError> {
    let text = option.text(|_| true, "'fail' or 'skip'")?;
    match text.to_ascii_lowercase().as_str() {
        "fail" => Ok(ErrorPolicy::Fail),
        "skip" => Ok(ErrorPolicy::Skip),
        _ => Err(option.invalid("'fail' or 'skip'")),
    }
}

pub(super) fn branch(option: &super::list::KnownOption<'_>) -> Result<String, ParseError> {
    option.text(|text| text.chars().count() <= BRANCH_CHARS_MAX, "a name of at most 64 characters")
}

pub(super) fn join_pairs(pairs: Vec<(&'static str, String)>) -> String {
    pairs.into_iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
}
