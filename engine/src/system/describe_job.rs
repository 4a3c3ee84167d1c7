//! DESCRIBE JOB in its three forms, and the table function `describe_job(id)`.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use lancegate_auth::Requirement;
use lancegate_catalog::Job;
use lancegate_sql::ast::JobFormat;

use super::columns::{self, Column, borrowed};
use super::{SystemContext, SystemRelation};
use crate::error::Result;
use crate::exec::jobs::find;
use crate::jobs::profile::{JobProfile, ProfileLine};

/// Returns the typed columns.
pub fn columns() -> Vec<Column<ProfileLine>> {
    vec![
        Column::text("section", |line: &ProfileLine| borrowed(line.section)).not_null(),
        Column::text("phase", |line| line.phase.as_deref().and_then(borrowed)),
        Column::text("component", |line| line.component.as_deref().and_then(borrowed)),
        Column::timestamp("started_at", |line| line.started_at),
        Column::bigint("millis", |line| line.millis),
        Column::text("unit", |line| line.unit.and_then(borrowed)),
        Column::double("share", |line| line.share),
        Column::bigint("count", |line| line.count),
    ]
}

fn text_columns() -> Vec<Column<String>> {
    vec![Column::text("summary", |line: &String| borrowed(line)).not_null()]
}

fn json_columns() -> Vec<Column<String>> {
    vec![Column::json("summary", |document: &String| borrowed(document)).not_null()]
}

/// Returns the columns of a form.
pub fn schema(format: JobFormat) -> SchemaRef {
    match format {
        JobFormat::Text => columns::schema(&text_columns()),
        JobFormat::Table => columns::schema(&columns()),
        JobFormat::Json => columns::schema(&json_columns()),
    }
}

/// Describes a job; one that has not ended gives no rows.
///
/// # Errors
/// Internal errors only.
pub fn describe(job: &Job, format: JobFormat) -> Result<RecordBatch> {
    let profile = JobProfile::of(job);
    match format {
        JobFormat::Text => columns::batch(&text_columns(), &profile.map(|profile| profile.text()).unwrap_or_default()),
        JobFormat::Table => columns::batch(&columns(), &profile.map(|profile| profile.lines).unwrap_or_default()),
        JobFormat::Json => {
            let document: Vec<String> = profile.iter().map(|profile| profile.json().to_string()).collect();
            columns::batch(&json_columns(), &document)
        }
    }
}

/// The rows of `describe_job(id)`.
#[derive(Debug)]
pub struct DescribeJob {
    /// The job as the caller spells it.
    pub id: String,
}

impl SystemRelation for DescribeJob {
    fn name(&self) -> &'static str {
        "describe_job"
    }

    fn schema(&self) -> SchemaRef {
        schema(JobFormat::Table)
    }

    fn requirements(&self) -> Vec<Requirement> {
        Requirement::job_registry().into()
    }

    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move {
            let job = find(&context.engine, &self.id).await?;
            let rows = describe(&job, JobFormat::Table)?;
            Ok(rows.slice(0, limit.map_or(rows.num_rows(), |limit| limit.min(rows.num_rows()))))
        })
    }
}
