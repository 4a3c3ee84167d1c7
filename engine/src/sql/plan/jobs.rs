//! Statements about jobs: SHOW JOBS, SHOW JOB EVENTS, DESCRIBE JOB, SHOW ERRORS,
//! PAUSE, RESUME, CANCEL, WAIT JOB, EXPLAIN JOB, SHOW GPU CLASSES.
//!
//! Ids are looked up when the statement runs, after the privilege check: an
//! unknown id and one that the caller may not know answer alike.

use std::time::Duration;

use arrow::datatypes::SchemaRef;
use lancegate_auth::{Privilege, Requirement};
use lancegate_catalog::{Table, TableName};
use lancegate_sql::ast::{JobFormat, JobScope, Statement};

use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::exec::jobs::control_schema;
use crate::exec::show;
use crate::sql::resolve::{no_relation, object_of};
use crate::system::{columns, describe_job, explain_job, function_errors, gpu_classes, job_events, job_splits, jobs};

/// A bound statement about jobs.
#[derive(Debug, Clone)]
pub struct JobsPlan {
    /// What to do.
    pub action: JobsAction,
    /// The columns of the answer.
    pub schema: SchemaRef,
    /// What the caller must hold.
    pub requirements: Vec<Requirement>,
}

/// What a statement about jobs does.
#[derive(Debug, Clone, PartialEq)]
pub enum JobsAction {
    /// SHOW JOBS, of all tables or of one.
    Show {
        /// The table.
        table: Option<TableName>,
        /// The most rows.
        limit: Option<u32>,
    },
    /// SHOW JOBS FOR JOB.
    Children {
        /// The parent.
        id: String,
        /// The most rows.
        limit: Option<u32>,
    },
    /// SHOW JOB EVENTS.
    Events {
        /// The job.
        id: String,
        /// A predicate over the columns.
        filter: Option<String>,
        /// The most rows.
        limit: Option<u32>,
    },
    /// SHOW JOB SPLITS.
    Splits {
        /// The job.
        id: String,
    },
    /// DESCRIBE JOB.
    Describe {
        /// The job.
        id: String,
        /// The form of the answer.
        format: JobFormat,
    },
    /// EXPLAIN JOB.
    Explain {
        /// The job.
        id: String,
        /// Whether every step is shown.
        verbose: bool,
    },
    /// SHOW ERRORS.
    Errors {
        /// The table.
        table: Box<Table>,
        /// Only those of this job.
        job: Option<String>,
        /// The most rows.
        limit: Option<u32>,
    },
    /// PAUSE JOB.
    Pause {
        /// The job.
        id: String,
    },
    /// RESUME JOB.
    Resume {
        /// The job.
        id: String,
    },
    /// CANCEL JOB.
    Cancel {
        /// The job.
        id: String,
    },
    /// WAIT JOB.
    Wait {
        /// The job.
        id: String,
        /// How long.
        timeout: Option<Duration>,
    },
    /// SHOW GPU CLASSES.
    GpuClasses,
}

impl JobsPlan {
    fn registry(action: JobsAction, schema: SchemaRef) -> Self {
        Self { action, schema, requirements: Requirement::job_registry().into() }
    }

    /// Returns the columns of the answer.
    pub fn columns(&self) -> Option<&SchemaRef> {
        Some(&self.schema)
    }
}

impl Planner {
    /// Binds a statement about jobs.
    ///
    /// # Errors
    /// 42P01 for an unknown table, what is wrong with a predicate.
    pub(super) async fn plan_jobs(&self, statement: &Statement) -> Result<Plan> {
        let listing = || columns::schema(&jobs::columns());
        let plan = match statement {
            Statement::ShowJobs(show) => match &show.scope {
                JobScope::All => JobsPlan::registry(JobsAction::Show { table: None, limit: show.limit }, listing()),
                JobScope::ForTable(name) => {
                    let record = self.find(name).await?.ok_or_else(|| no_relation(name))?;
                    JobsPlan::registry(JobsAction::Show { table: Some(record.name), limit: show.limit }, listing())
                }
                JobScope::ForJob(id) => JobsPlan::registry(
                    JobsAction::Children { id: id.clone(), limit: show.limit },
                    columns::schema(&jobs::child_columns()),
                ),
            },
            Statement::ShowJobEvents(events) => {
                let filter = events.filter.as_ref().map(|filter| filter.text.clone());
                if let (Some(text), Some(source)) = (&filter, &events.filter) {
                    show::ensure_event_filter(&self.engine, text).map_err(|error| error.at(source.position.get()))?;
                }
                let action = JobsAction::Events { id: events.id.clone(), filter, limit: events.limit };
                JobsPlan::registry(action, columns::schema(&job_events::columns()))
            }
            Statement::ShowJobSplits(splits) => JobsPlan::registry(
                JobsAction::Splits { id: splits.id.clone() },
                columns::schema(&job_splits::columns()),
            ),
            Statement::DescribeJob(describe) => JobsPlan::registry(
                JobsAction::Describe { id: describe.id.clone(), format: describe.format },
                describe_job::schema(describe.format),
            ),
            Statement::ExplainJob(explain) => JobsPlan::registry(
                JobsAction::Explain { id: explain.job_id.clone(), verbose: explain.verbose },
                explain_job::schema(),
            ),
            Statement::ShowErrors(errors) => {
                let record = self.find(&errors.table).await?.ok_or_else(|| no_relation(&errors.table))?;
                JobsPlan {
                    schema: function_errors::schema(),
                    // The text of an error may hold values of the row.
                    requirements: vec![Requirement::new(Privilege::Select, object_of(&record))],
                    action: JobsAction::Errors {
                        table: Box::new(record),
                        job: errors.job_id.clone(),
                        limit: errors.limit,
                    },
                }
            }
            Statement::PauseJob(job) => JobsPlan::registry(JobsAction::Pause { id: job.id.clone() }, control_schema()),
            Statement::ResumeJob(job) => {
                JobsPlan::registry(JobsAction::Resume { id: job.id.clone() }, control_schema())
            }
            Statement::CancelJob(job) => {
                JobsPlan::registry(JobsAction::Cancel { id: job.id.clone() }, control_schema())
            }
            Statement::WaitJob(wait) => {
                JobsPlan::registry(JobsAction::Wait { id: wait.id.clone(), timeout: wait.timeout }, listing())
            }
            Statement::ShowGpuClasses(_) => JobsPlan {
                action: JobsAction::GpuClasses,
                schema: columns::schema(&gpu_classes::columns()),
                requirements: gpu_classes::requirements(),
            },
            other => return Err(SqlError::internal(format!("not a statement about jobs: {other}"))),
        };
        Ok(Plan::Jobs(Box::new(plan)))
    }
}
