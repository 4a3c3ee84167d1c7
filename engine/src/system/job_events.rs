//! `system.public.job_events`: what SHOW JOB EVENTS lists.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use lancegate_auth::Requirement;
use lancegate_catalog::{JobEvent, JobFilter};

use super::columns::{self, borrowed, made};
use super::{SystemContext, SystemRelation, jobs};
use crate::error::Result;

type Column = columns::Column<JobEvent>;

/// Returns the columns.
pub fn columns() -> Vec<Column> {
    vec![
        Column::text("event_id", |event| borrowed(&event.event_id)).not_null(),
        Column::text("job_id", |event| made(event.job_id)).not_null(),
        Column::timestamp("at", |event| Some(event.at)).not_null(),
        Column::text("state", |event| borrowed(event.state.as_str())).not_null(),
        Column::text("phase", |event| borrowed(&event.phase)),
        Column::text("emitted_by", |event| borrowed(&event.emitted_by)).not_null(),
        Column::text("worker", |event| event.worker.as_deref().and_then(borrowed)),
        Column::text("message", |event| borrowed(&event.message)).not_null(),
        Column::json("details", |event| event.details.as_ref().and_then(made)),
    ]
}

/// The relation: events of the jobs of the connected database.
#[derive(Debug)]
pub struct JobEvents;

impl SystemRelation for JobEvents {
    fn name(&self) -> &'static str {
        "job_events"
    }

    fn schema(&self) -> SchemaRef {
        columns::schema(&columns())
    }

    fn requirements(&self) -> Vec<Requirement> {
        Requirement::job_registry().into()
    }

    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move {
            let catalog = context.engine.catalog();
            let filter = JobFilter { database: Some(context.caller.database.clone()), ..JobFilter::default() };
            // Every job has at least one event, so no more jobs than rows are needed.
            let jobs = jobs::read(catalog, filter, limit).await?;
            let limit = limit.unwrap_or(usize::MAX);
            let mut events = Vec::new();
            for job in jobs {
                events.extend(catalog.events(job.id, JobFilter::LIMIT_MAX).await?);
                if events.len() >= limit {
                    break;
                }
            }
            events.truncate(limit);
            columns::batch(&columns(), &events)
        })
    }

    fn rows_of_job<'a>(
        &'a self,
        context: &'a SystemContext,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<RecordBatch>>> {
        Box::pin(async move {
            let events = match jobs::one_of(context, id).await? {
                Some(job) => context.engine.catalog().events(job.id, JobFilter::LIMIT_MAX).await?,
                None => Vec::new(),
            };
            columns::batch(&columns(), &events).map(Some)
        })
    }
}
