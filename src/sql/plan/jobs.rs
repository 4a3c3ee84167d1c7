//! Statements about jobs: SHOW JOBS, SHOW JOB EVENTS, DESCRIBE JOB, SHOW ERRORS,
//! PAUSE, RESUME, CANCEL, WAIT JOB, EXPLAIN JOB, SHOW GPU CLASSES.

use arrow::datatypes::SchemaRef;
use lancegate_auth::Requirement;
use lancegate_sql::ast::Statement;

use super::{Plan, Planner};
use crate::error::Result;

/// A bound statement about jobs.
#[derive(Debug, Clone)]
pub struct JobsPlan {
    /// The statement; ids are looked up when it runs.
    pub statement: Statement,
    /// The columns of the answer, if it has rows.
    pub schema: Option<SchemaRef>,
    /// What the caller must hold.
    pub requirements: Vec<Requirement>,
}

impl JobsPlan {
    /// Returns the columns of the answer, if it has rows.
    pub fn columns(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }
}

impl Planner {
    /// Binds a statement about jobs.
    ///
    /// # Errors
    /// 42P01 for an unknown table; 0A000 for what is not built.
    pub(super) async fn plan_jobs(&self, statement: &Statement) -> Result<Plan> {
        Err(crate::error::SqlError::not_supported(format!("{statement} is not supported yet")))
    }
}
