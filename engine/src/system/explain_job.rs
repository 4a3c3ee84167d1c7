//! EXPLAIN JOB and the table function `explain_job(id)`.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use lancegate_auth::Requirement;

use super::columns::{self, borrowed};
use super::{SystemContext, SystemRelation};
use crate::error::Result;
use crate::exec::jobs::find;
use crate::exec::refresh::explain_job;

/// One row of a plan: its type and its text.
pub type PlanRow = (String, String);

type Column = columns::Column<PlanRow>;

/// Returns the columns of EXPLAIN.
pub fn columns() -> Vec<Column> {
    vec![
        Column::text("plan_type", |row| borrowed(&row.0)).not_null(),
        Column::text("plan", |row| borrowed(&row.1)).not_null(),
    ]
}

/// Returns the schema of EXPLAIN.
pub fn schema() -> SchemaRef {
    columns::schema(&columns())
}

/// The rows of `explain_job(id)`.
#[derive(Debug)]
pub struct ExplainJob {
    /// The job as the caller spells it.
    pub id: String,
}

impl SystemRelation for ExplainJob {
    fn name(&self) -> &'static str {
        "explain_job"
    }

    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn requirements(&self) -> Vec<Requirement> {
        Requirement::job_registry().into()
    }

    fn rows<'a>(&'a self, context: &'a SystemContext, _limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move {
            let job = find(&context.engine, &self.id).await?;
            let rows = explain_job(&context.engine, &context.caller.principal, &job, false).await?;
            columns::batch(&columns(), &rows)
        })
    }
}
