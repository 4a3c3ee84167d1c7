//! Runs queries: parameters in, optimized, planned, streamed.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan, SendableRecordBatchStream};
use futures::{StreamExt, TryStreamExt};

use crate::error::{Result, SqlError};
use crate::exec::dml::gave_up;
use crate::exec::{Engine, Outcome, RowsTag, row_locks};
use crate::session::{Session, StatementContext};
use crate::sql::plan::QueryPlan;
use crate::sql::plan::query::Locking;

/// Runs a SELECT.
pub(super) async fn select(
    engine: &Engine,
    session: &Session,
    plan: &QueryPlan,
    parameters: Vec<ScalarValue>,
    ctx: &StatementContext,
) -> Result<Outcome> {
    if let Some(one_row) = &plan.one_row {
        let values = plan.parameters.bind(parameters)?;
        let columns = one_row.evaluate(&plan.logical, values, &plan.state)?;
        let batch = labeled(columns, 1, &plan.columns)?;
        return Ok(Outcome::rows(batch, Arc::clone(&plan.columns), RowsTag::Counted("SELECT")));
    }
    let stream = match &plan.locking {
        None => rows(engine, plan, parameters, ctx).await?,
        Some(locking) if row_locks::take(engine, session, &locking.locks, ctx).await? => {
            rows(engine, &again(engine, plan, locking).await?, parameters, ctx).await?
        }
        Some(_) => Box::pin(EmptyRecordBatchStream::new(Arc::clone(&plan.columns))),
    };
    let stream = described(stream, &plan.columns);
    Ok(Outcome::Rows { schema: Arc::clone(&plan.columns), stream, tag: RowsTag::Counted("SELECT") })
}

/// Binds a query again now that it has its locks: what it has waited for is there to be read.
async fn again(engine: &Engine, plan: &QueryPlan, locking: &Locking) -> Result<QueryPlan> {
    let binding = locking.clone();
    let newest = engine.runtime().run(async move { Box::pin(binding.bind()).await }).await?;
    // Its names may stand for something else now, which nobody has been asked for.
    match newest.reads == plan.reads && newest.columns == plan.columns {
        true => Ok(newest),
        false => Err(gave_up()),
    }
}

/// Returns the rows of a query. The stream ends with 57014 when `ctx` is cancelled.
///
/// # Errors
/// What optimizing and planning raise.
pub(crate) async fn rows(
    engine: &Engine,
    plan: &QueryPlan,
    parameters: Vec<ScalarValue>,
    ctx: &StatementContext,
) -> Result<SendableRecordBatchStream> {
    let (physical, task) = physical(engine, plan, parameters, ctx).await?;
    Ok(engine.runtime().stream(physical, task, ctx))
}

/// Plans a query for execution, on the query threads.
///
/// # Errors
/// 57014 when `ctx` is cancelled meanwhile.
pub(crate) async fn physical(
    engine: &Engine,
    plan: &QueryPlan,
    parameters: Vec<ScalarValue>,
    ctx: &StatementContext,
) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
    let values = plan.parameters.bind(parameters)?;
    let (logical, state) = (plan.logical.clone(), Arc::clone(&plan.state));
    let planning = engine.runtime().run(async move {
        let logical = if values.is_empty() { logical } else { logical.with_param_values(ParamValues::from(values))? };
        Ok((state.physical(&logical).await?, state.task()))
    });
    tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => Err(ctx.error()),
        planned = planning => planned,
    }
}

/// Gives the batches the columns that were described: names as the client sees
/// them. Types are the same; a NULL column that was described as text becomes it.
pub(crate) fn described(stream: SendableRecordBatchStream, columns: &SchemaRef) -> SendableRecordBatchStream {
    let schema = Arc::clone(columns);
    let relabeled = stream.map(move |batch| Ok(relabel(batch?, &schema)?));
    Box::pin(RecordBatchStreamAdapter::new(Arc::clone(columns), relabeled))
}

fn relabel(
    batch: arrow::array::RecordBatch,
    schema: &SchemaRef,
) -> Result<arrow::array::RecordBatch, arrow::error::ArrowError> {
    labeled(batch.columns().to_vec(), batch.num_rows(), schema)
}

fn labeled(
    columns: Vec<ArrayRef>,
    rows: usize,
    schema: &SchemaRef,
) -> Result<arrow::array::RecordBatch, arrow::error::ArrowError> {
    let columns = columns.into_iter().zip(schema.fields()).map(|(array, field)| {
        if array.data_type() == field.data_type() {
            return Ok(array);
        }
        arrow::compute::cast(&array, field.data_type())
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
    let unexpected = |(array, field): (&ArrayRef, &Arc<Field>)| !field.is_nullable() && array.null_count() > 0;
    let schema = if columns.iter().zip(schema.fields()).any(unexpected) {
        let nullable: Vec<_> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        Arc::new(Schema::new(nullable))
    } else {
        Arc::clone(schema)
    };
    arrow::array::RecordBatch::try_new_with_options(schema, columns, &options)
}

/// Reads all rows of a small query into one batch.
///
/// # Errors
/// What the query raises.
pub(crate) async fn collect(stream: SendableRecordBatchStream) -> Result<arrow::array::RecordBatch> {
    let schema = stream.schema();
    let batches: Vec<_> = stream.try_collect().await?;
    arrow::compute::concat_batches(&schema, &batches).map_err(SqlError::from)
}
