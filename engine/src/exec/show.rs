//! The SHOW statements over jobs: each reads the rows of the system relation of
//! the same name.

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{DataFrame, SessionContext};
use lancegate_catalog::{Job, JobFilter, JobSummary, TableName};

use crate::error::{Result, SqlError};
use crate::exec::jobs::find;
use crate::exec::{Engine, Outcome};
use crate::session::{NoticeSeverity, Session};
use crate::sqlstate::SqlState;
use crate::system::columns;
use crate::system::{gpu_classes as classes, job_events, jobs as listing};

/// Lists jobs of the connected database, or of one table.
///
/// # Errors
/// If the registry cannot be read.
pub(crate) async fn jobs(
    engine: &Engine,
    session: &Session,
    table: Option<&TableName>,
    limit: Option<u32>,
) -> Result<Outcome> {
    let database = table.map_or(&session.database, |table| &table.database);
    let filter = JobFilter {
        database: Some(database.clone()),
        table: table.map(|table| (table.namespace.clone(), table.name.clone())),
        ..JobFilter::default()
    };
    let jobs = read(engine, session, filter, limit).await?;
    let rows = listing::rows(jobs, engine);
    Ok(Outcome::batch(columns::batch(&listing::columns(), &rows)?, "SHOW"))
}

/// Lists the children of a job.
///
/// # Errors
/// 42704 for an unknown parent.
pub(crate) async fn children(engine: &Engine, session: &Session, id: &str, limit: Option<u32>) -> Result<Outcome> {
    let parent = find(engine, id).await?;
    let filter = JobFilter { parent: Some(parent.id), ..JobFilter::default() };
    let jobs = read(engine, session, filter, limit).await?;
    let rows = listing::rows(jobs, engine);
    Ok(Outcome::batch(columns::batch(&listing::child_columns(), &rows)?, "SHOW"))
}

/// Answers with one job.
///
/// # Errors
/// Internal errors only.
pub(crate) fn one(engine: &Engine, job: Job, tag: &str) -> Result<Outcome> {
    let rows = listing::rows(vec![(&job).into()], engine);
    Ok(Outcome::batch(columns::batch(&listing::columns(), &rows)?, tag))
}

/// Reads a listing; one more than asked for, to say if there is more.
async fn read(engine: &Engine, session: &Session, filter: JobFilter, limit: Option<u32>) -> Result<Vec<JobSummary>> {
    let limit_rows = limit.unwrap_or(JobFilter::LIMIT_DEFAULT) as usize;
    let mut jobs = listing::read_summaries(engine.catalog(), filter, Some(limit_rows + 1)).await?;
    if jobs.len() > limit_rows {
        jobs.truncate(limit_rows);
        let notice =
            SqlError::new(SqlState::SUCCESSFUL_COMPLETION, format!("only the newest {limit_rows} jobs are listed"))
                .hint("Raise LIMIT, or select from system.public.jobs.");
        session.notify(NoticeSeverity::Notice, notice);
    }
    Ok(jobs)
}

/// Lists the events of a job, newest first.
///
/// # Errors
/// 42704 for an unknown job, what evaluating the predicate reports.
pub(crate) async fn events(
    engine: &Engine,
    _session: &Session,
    id: &str,
    filter: Option<&str>,
    limit: Option<u32>,
) -> Result<Outcome> {
    let job = find(engine, id).await?;
    let limit = limit.unwrap_or(JobFilter::LIMIT_DEFAULT);
    // The limit is on what is listed, so a predicate looks at all events.
    let read = if filter.is_some() { JobFilter::LIMIT_MAX } else { limit };
    let events = engine.catalog().events(job.id, read).await?;
    let mut batch = columns::batch(&job_events::columns(), &events)?;
    if let Some(text) = filter {
        batch = filtered(engine, batch, text).await?;
    }
    let shown = batch.num_rows().min(limit as usize);
    Ok(Outcome::batch(batch.slice(0, shown), "SHOW"))
}

/// Refuses a predicate that does not fit the columns of events.
///
/// # Errors
/// 42601, 42703, 42804 and their kin.
pub(crate) fn ensure_event_filter(engine: &Engine, text: &str) -> Result<()> {
    let empty = columns::batch(&job_events::columns(), &[])?;
    frame(engine, empty, text).map(drop)
}

async fn filtered(engine: &Engine, batch: RecordBatch, text: &str) -> Result<RecordBatch> {
    let schema = batch.schema();
    let frame = frame(engine, batch, text)?;
    engine
        .runtime()
        .run(async move {
            let batches = frame.collect().await?;
            let all = concat_batches(&frame_schema(&batches, &schema), &batches).map_err(SqlError::internal)?;
            RecordBatch::try_new(schema, all.columns().to_vec()).map_err(SqlError::internal)
        })
        .await
}

fn frame_schema(batches: &[RecordBatch], otherwise: &arrow::datatypes::SchemaRef) -> arrow::datatypes::SchemaRef {
    batches.first().map_or_else(|| std::sync::Arc::clone(otherwise), RecordBatch::schema)
}

fn frame(engine: &Engine, batch: RecordBatch, text: &str) -> Result<DataFrame> {
    // One partition keeps the order of the rows.
    let config = engine.state().config().clone().with_target_partitions(1);
    let state = SessionStateBuilder::new_from_existing(engine.state().clone()).with_config(config).build();
    let frame = SessionContext::new_with_state(state).read_batch(batch)?;
    let predicate = frame.parse_sql_expr(text)?;
    Ok(frame.filter(predicate)?)
}

/// Lists the GPU classes.
///
/// # Errors
/// Internal errors only.
pub(crate) fn gpu_classes(engine: &Engine) -> Result<Outcome> {
    Ok(Outcome::batch(columns::batch(&classes::columns(), engine.gpu_classes())?, "SHOW"))
}
