//! Prepared statements: a text that was bound once, and the values that its
//! parameters have got since.

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use arrow_flight::FlightData;
use arrow_flight::sql::{ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult};
use bytes::Bytes;
use datafusion::scalar::ScalarValue;
use lancegate_engine::error::Result;
use tonic::Streaming;

use super::caller::Caller;
use super::registry::{Handle, Registry};
use super::rows::{Incoming, parameters, row_of, schema_bytes};
use super::statement::{Source, columns};

/// A statement that a client comes back for.
pub(super) struct Prepared {
    /// The statement.
    pub(super) source: Source,
    /// The columns of its rows.
    pub(super) columns: SchemaRef,
    /// The values of its parameters.
    pub(super) values: Vec<ScalarValue>,
}

/// Binds a statement and keeps it.
///
/// # Errors
/// What the statement answers at this stage; 53400 if there are too many.
pub(super) async fn create(
    caller: &Caller,
    registry: &Registry<Prepared>,
    request: ActionCreatePreparedStatementRequest,
) -> Result<ActionCreatePreparedStatementResult> {
    let source = Source::parse(&caller.engine, request.query).await?;
    let plan = caller.plan(&source, &[]).await?;
    let columns = columns(&plan);
    let types = plan.parameter_types().iter().enumerate();
    let named = |(at, field): (usize, &FieldRef)| Field::new(format!("${}", at + 1), field.data_type().clone(), true);
    let fields: Vec<Field> = types.map(named).collect();
    let told = |schema: &Schema| if schema.fields().is_empty() { Ok(Bytes::new()) } else { schema_bytes(schema) };
    let (dataset_schema, parameter_schema) = (told(&columns)?, told(&Schema::new(fields))?);
    let bytes = source.bytes();
    let prepared = Prepared { source, columns, values: Vec::new() };
    let handle = registry.insert(&caller.owner, Arc::new(prepared), bytes)?;
    Ok(ActionCreatePreparedStatementResult {
        prepared_statement_handle: handle.bytes(),
        dataset_schema,
        parameter_schema,
    })
}

/// Gives the parameters of a statement their values, for the next time that it is run.
///
/// # Errors
/// What is wrong with the values; 53400 if they take too much memory.
pub(super) async fn bind(
    caller: &Caller,
    registry: &Registry<Prepared>,
    (handle, prepared): (Handle, Arc<Prepared>),
    (first, rest): (FlightData, Streaming<FlightData>),
) -> Result<()> {
    let values = if first.data_header.is_empty() { Vec::new() } else { parameters(first, rest).await? };
    // With other types of values the columns may have other types.
    let plan = caller.plan_with(&prepared.source, &values).await?;
    let bytes = prepared.source.bytes() + values.iter().map(ScalarValue::size).sum::<usize>();
    let bound = Prepared { source: prepared.source.clone(), columns: columns(&plan), values };
    registry.replace(handle, &caller.owner, Arc::new(bound), bytes)
}

/// Runs a statement once for each row of values, or once without any. What was done
/// before an error stays done.
///
/// # Errors
/// What the statement answers.
pub(super) async fn update(
    caller: &mut Caller,
    prepared: &Prepared,
    (first, rest): (FlightData, Streaming<FlightData>),
    bytes_max: u64,
) -> Result<i64> {
    if first.data_header.is_empty() {
        return caller.update(&prepared.source, prepared.values.clone()).await;
    }
    let mut incoming = Incoming::open(first, rest, bytes_max).await?;
    let mut count: i64 = 0;
    while let Some(batch) = incoming.next().await? {
        for row in 0..batch.num_rows() {
            count = count.saturating_add(caller.update(&prepared.source, row_of(&batch, row)?).await?);
        }
    }
    Ok(count)
}
