//! What succeeded refreshes of Function columns have used: kept longer than the jobs themselves.

use serde_json::Value;

use crate::Timestamp;
use crate::ids::JobId;
use crate::job::{Job, JobKind, JobState};
use crate::object::TableName;

/// One succeeded refresh of a Function column.
#[derive(Debug, Clone, PartialEq)]
pub struct MeteredRefresh {
    /// The job.
    pub job_id: JobId,
    /// The table, as it was named then.
    pub table: TableName,
    /// The column.
    pub column: String,
    /// The branch; `None` is main.
    pub branch: Option<String>,
    /// The Function.
    pub function: String,
    /// Its version.
    pub function_version: u64,
    /// With whose rights it ran.
    pub submitted_by: String,
    /// Whether nobody asked for it.
    pub automatic: bool,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it was claimed first.
    pub started_at: Option<Timestamp>,
    /// When it succeeded.
    pub finished_at: Timestamp,
    /// What it reported.
    pub result: Value,
}

impl MeteredRefresh {
    /// Returns what is kept of a job; `None` unless it is a succeeded refresh by a Function that its document names.
    pub(crate) fn of(job: &Job) -> Option<Self> {
        if job.kind != JobKind::FunctionRefresh || job.parent.is_some() || job.status.state != JobState::Succeeded {
            return None;
        }
        let function = job.spec.get("function")?;
        let (database, namespace, name) = (job.database.clone(), job.namespace.clone(), job.table_name.clone());
        Some(Self {
            job_id: job.id,
            table: TableName { database, namespace, name },
            column: job.column.clone().unwrap_or_default(),
            branch: job.branch.clone(),
            function: function.get("name")?.as_str()?.to_owned(),
            function_version: function.get("version")?.as_u64()?,
            submitted_by: job.submitted_by.clone(),
            automatic: job.automatic,
            created_at: job.created_at,
            started_at: job.started_at,
            finished_at: job.finished_at?,
            result: job.result.clone().unwrap_or_default(),
        })
    }
}
