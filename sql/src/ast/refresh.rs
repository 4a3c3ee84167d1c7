//! Refreshing computed columns and materialized views, and previews of it.
//!
//! ```sql
//! REFRESH COLUMN <column> ON [TABLE] <table> [WHERE <predicate>]
//!     [WITH (<option> = <value>, …)] [WAIT | NOWAIT]
//! REFRESH MATERIALIZED VIEW <view> [WITH (<option> = <value>, …)] [WAIT | NOWAIT]
//! EXPLAIN [VERBOSE] REFRESH COLUMN …
//! EXPLAIN [VERBOSE] JOB '<job id>'
//! ```
//!
//! Example: `REFRESH COLUMN words ON docs WHERE id < 10 WITH (num_workers = 2) WAIT`

use std::fmt;

use super::SourceExpr;
use crate::name::{FieldPath, Literal, ObjectName};
use crate::options::{RefreshOptions, RefreshViewOptions};

/// `REFRESH COLUMN`
#[derive(Debug, Clone, PartialEq)]
pub struct RefreshColumn {
    /// The computed column, or a field inside it.
    pub column: FieldPath,
    /// The table.
    pub table: ObjectName,
    /// The rows to recompute; without it, the rows that are not current.
    pub filter: Option<SourceExpr>,
    /// The options of the `WITH` list.
    pub options: RefreshOptions,
    /// Whether the statement waits, against the session's setting.
    pub wait: Option<Wait>,
}

/// Whether a statement that starts a job waits for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Until the job has ended.
    Wait,
    /// Only until the job exists.
    NoWait,
}

/// `REFRESH MATERIALIZED VIEW`
#[derive(Debug, Clone, PartialEq)]
pub struct RefreshMaterializedView {
    /// The view.
    pub view: ObjectName,
    /// The options of the `WITH` list.
    pub options: RefreshViewOptions,
    /// Whether the statement waits, against the session's setting.
    pub wait: Option<Wait>,
}

/// `EXPLAIN REFRESH COLUMN`: the plan of a refresh that is not run.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainRefresh {
    /// Whether every step of the planner is shown.
    pub verbose: bool,
    /// The refresh.
    pub refresh: RefreshColumn,
}

/// `EXPLAIN JOB`: the plan of a submitted job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainJob {
    /// Whether every step of the planner is shown.
    pub verbose: bool,
    /// The job.
    pub job_id: String,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wait => "WAIT",
            Self::NoWait => "NOWAIT",
        })
    }
}

impl fmt::Display for RefreshColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "REFRESH COLUMN {} ON {}", self.column, self.table)?;
        if let Some(filter) = &self.filter {
            write!(f, " WHERE {filter}")?;
        }
        write!(f, "{}", self.options.with_clause())?;
        match self.wait {
            None => Ok(()),
            Some(wait) => write!(f, " {wait}"),
        }
    }
}

impl fmt::Display for RefreshMaterializedView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "REFRESH MATERIALIZED VIEW {}{}", self.view, self.options.with_clause())?;
        match self.wait {
            None => Ok(()),
            Some(wait) => write!(f, " {wait}"),
        }
    }
}

impl fmt::Display for ExplainRefresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verbose = if self.verbose { "VERBOSE " } else { "" };
        write!(f, "EXPLAIN {verbose}{}", self.refresh)
    }
}

impl fmt::Display for ExplainJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verbose = if self.verbose { "VERBOSE " } else { "" };
        write!(f, "EXPLAIN {verbose}JOB {}", Literal(&self.job_id))
    }
}
