//! Watching and steering jobs.
//!
//! ```sql
//! SHOW JOBS [FOR TABLE <table> | FOR JOB '<job id>'] [LIMIT <n>]
//! SHOW JOB EVENTS '<job id>' [WHERE <predicate>] [LIMIT <n>]
//! SHOW JOB SPLITS '<job id>'
//! {DESCRIBE JOB | DESC JOB | SHOW JOB SUMMARY} '<job id>' [FORMAT {TEXT | TABLE | JSON}]
//! SHOW ERRORS ON [TABLE] <table> [FOR JOB '<job id>'] [LIMIT <n>]
//! {PAUSE | RESUME | CANCEL} JOB '<job id>'
//! WAIT JOB '<job id>' [TIMEOUT '<interval>']
//! SHOW GPU CLASSES
//! ```
//!
//! Example: `SHOW JOBS FOR TABLE docs LIMIT 10`

use std::fmt;
use std::time::Duration;

use super::SourceExpr;
use crate::name::{Literal, ObjectName};

/// `SHOW JOBS`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShowJobs {
    /// Which jobs.
    pub scope: JobScope,
    /// The most rows, 1 to 10,000; 1,000 without it.
    pub limit: Option<u32>,
}

/// Which jobs `SHOW JOBS` lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobScope {
    /// Those of the connected database.
    All,
    /// Those of one table.
    ForTable(ObjectName),
    /// The children of one job.
    ForJob(String),
}

/// `SHOW JOB EVENTS`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShowJobEvents {
    /// The job.
    pub id: String,
    /// Which of its events.
    pub filter: Option<SourceExpr>,
    /// The most rows, 1 to 10,000; 1,000 without it.
    pub limit: Option<u32>,
}

/// `SHOW JOB SPLITS`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShowJobSplits {
    /// The job.
    pub id: String,
}

/// `DESCRIBE JOB`: where a finished job spent its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeJob {
    /// The job.
    pub id: String,
    /// The form of the answer.
    pub format: JobFormat,
}

/// The forms of a job's description.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum JobFormat {
    /// A line of text per row.
    #[default]
    Text,
    /// Typed rows.
    Table,
    /// One JSON document.
    Json,
}

/// `SHOW ERRORS`: the row errors of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShowErrors {
    /// The table.
    pub table: ObjectName,
    /// Only those of this job.
    pub job_id: Option<String>,
    /// The most rows, 1 to 100,000; 10,000 without it.
    pub limit: Option<u32>,
}

/// `PAUSE JOB`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseJob {
    /// The job.
    pub id: String,
}

/// `RESUME JOB`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeJob {
    /// The job.
    pub id: String,
}

/// `CANCEL JOB`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelJob {
    /// The job.
    pub id: String,
}

/// `WAIT JOB`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitJob {
    /// The job.
    pub id: String,
    /// How long to wait; without end when there is none.
    pub timeout: Option<Duration>,
}

/// `SHOW GPU CLASSES`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShowGpuClasses;

impl fmt::Display for ShowJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SHOW JOBS")?;
        match &self.scope {
            JobScope::All => {}
            JobScope::ForTable(table) => write!(f, " FOR TABLE {table}")?,
            JobScope::ForJob(id) => write!(f, " FOR JOB {}", Literal(id))?,
        }
        write_limit(f, self.limit)
    }
}

impl fmt::Display for ShowJobEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHOW JOB EVENTS {}", Literal(&self.id))?;
        if let Some(filter) = &self.filter {
            write!(f, " WHERE {filter}")?;
        }
        write_limit(f, self.limit)
    }
}

impl fmt::Display for ShowJobSplits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHOW JOB SPLITS {}", Literal(&self.id))
    }
}

impl fmt::Display for DescribeJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DESCRIBE JOB {}", Literal(&self.id))?;
        match self.format {
            JobFormat::Text => Ok(()),
            JobFormat::Table => f.write_str(" FORMAT TABLE"),
            JobFormat::Json => f.write_str(" FORMAT JSON"),
        }
    }
}

impl fmt::Display for ShowErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHOW ERRORS ON {}", self.table)?;
        if let Some(id) = &self.job_id {
            write!(f, " FOR JOB {}", Literal(id))?;
        }
        write_limit(f, self.limit)
    }
}

impl fmt::Display for PauseJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PAUSE JOB {}", Literal(&self.id))
    }
}

impl fmt::Display for ResumeJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RESUME JOB {}", Literal(&self.id))
    }
}

impl fmt::Display for CancelJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CANCEL JOB {}", Literal(&self.id))
    }
}

impl fmt::Display for WaitJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WAIT JOB {}", Literal(&self.id))?;
        match self.timeout {
            None => Ok(()),
            Some(timeout) => write!(f, " TIMEOUT '{} ms'", timeout.as_millis()),
        }
    }
}

impl fmt::Display for ShowGpuClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SHOW GPU CLASSES")
    }
}

fn write_limit(f: &mut fmt::Formatter<'_>, limit: Option<u32>) -> fmt::Result {
    match limit {
        None => Ok(()),
        Some(limit) => write!(f, " LIMIT {limit}"),
    }
}
