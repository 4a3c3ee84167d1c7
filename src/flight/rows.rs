//! Rows as Flight carries them, in both directions, without holding them all.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::{FlightData, IpcMessage, SchemaAsIpc};
use bytes::Bytes;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::scalar::ScalarValue;
use futures::stream::BoxStream;
use futures::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _};
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::sqlstate::SqlState;
use prost::Message as _;
use tonic::{Status, Streaming};

use super::error;
use super::statement::Rows;
use crate::http::rest;

/// How long a client may pause in the middle of its rows.
const STALL_MAX: Duration = Duration::from_secs(60);
/// The parameters of one statement, in bytes.
const PARAMETER_BYTES_MAX: u64 = 16 << 20;

/// What a call answers with rows.
pub(super) type Answer = BoxStream<'static, Result<FlightData, Status>>;

/// Returns the columns as a client is told them before it reads.
///
/// # Errors
/// Internal errors only.
pub(super) fn schema_bytes(schema: &Schema) -> Result<Bytes> {
    let IpcMessage(bytes) =
        SchemaAsIpc::new(&told(schema), &arrow::ipc::writer::IpcWriteOptions::default()).try_into()?;
    Ok(bytes)
}

/// Returns the columns as they are sent: the values behind a dictionary, not their
/// numbers, so that what is told before and what comes are the same.
pub(super) fn told(schema: &Schema) -> Schema {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Dictionary(_, value) => Arc::new(field.as_ref().clone().with_data_type(value.as_ref().clone())),
        _ => Arc::clone(field),
    };
    Schema::new_with_metadata(schema.fields().iter().map(field).collect::<Vec<_>>(), schema.metadata().clone())
}

/// Answers with the rows of a statement as they come. `kept` lives as long as they do.
pub(super) fn answer<K: Send + 'static>(rows: Rows, schema: SchemaRef, kept: K) -> Answer {
    let batches = futures::stream::try_unfold((rows, kept), |(mut rows, kept)| async move {
        match rows.next().await {
            Ok(batch) => Ok(batch.map(|batch| (batch, (rows, kept)))),
            Err(error) => Err(FlightError::from(error::ended(rows.ctx(), &error))),
        }
    });
    encoded(batches, schema)
}

/// Answers with a few rows.
pub(super) fn whole(batch: RecordBatch) -> Answer {
    let schema = batch.schema();
    encoded(futures::stream::once(async move { Ok(batch) }), schema)
}

fn encoded(
    batches: impl Stream<Item = Result<RecordBatch, FlightError>> + Send + 'static,
    schema: SchemaRef,
) -> Answer {
    // The encoder splits what would exceed the message of a common client.
    let encoder = FlightDataEncoderBuilder::new().with_schema(schema).build(batches);
    encoder.map_err(Status::from).boxed()
}

/// Rows that a client sends.
pub(super) struct Incoming {
    decoder: FlightDataDecoder,
    schema: SchemaRef,
}

impl Incoming {
    /// Reads the schema. `first` is the message that had the descriptor.
    ///
    /// # Errors
    /// 22P03 if they are no Arrow messages, 54000 if there are more bytes than allowed.
    pub(super) async fn open(first: FlightData, rest: Streaming<FlightData>, bytes_max: u64) -> Result<Self> {
        let messages = messages(first, rest, bytes_max);
        let mut incoming = Self { decoder: FlightDataDecoder::new(messages), schema: Arc::new(Schema::empty()) };
        match incoming.next_payload().await? {
            Some(DecodedPayload::Schema(schema)) => {
                if rest::is_too_deep(&schema) {
                    return Err(bad("their types are nested too deeply"));
                }
                incoming.schema = schema;
                Ok(incoming)
            }
            _ => Err(bad("they do not begin with a schema")),
        }
    }

    /// Returns the columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the next rows.
    ///
    /// # Errors
    /// As [`Incoming::open`].
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self.next_payload().await? {
            Some(DecodedPayload::RecordBatch(batch)) => Ok(Some(batch)),
            // What has metadata only, as a client may end with.
            Some(DecodedPayload::None) => Ok(Some(RecordBatch::new_empty(Arc::clone(&self.schema)))),
            Some(DecodedPayload::Schema(_)) => Err(bad("there is a second schema")),
            None => Ok(None),
        }
    }

    /// Returns the rows.
    pub(super) fn rows(self) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let stream = futures::stream::try_unfold(self, |mut incoming| async move {
            let batch = incoming.next().await.map_err(|error| DataFusionError::External(Box::new(error)))?;
            Ok::<_, DataFusionError>(batch.map(|batch| (batch, incoming)))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, stream))
    }

    async fn next_payload(&mut self) -> Result<Option<DecodedPayload>> {
        // Arrow checks what it reads, but not everything before it uses it.
        let decoded = AssertUnwindSafe(self.decoder.next()).catch_unwind().await;
        match decoded.map_err(|_| bad("their layout is broken"))? {
            None => Ok(None),
            Some(Ok(decoded)) => Ok(Some(decoded.payload)),
            Some(Err(FlightError::ExternalError(error))) => {
                Err(error.downcast::<SqlError>().map_or_else(|error| bad(&error.to_string()), |error| *error))
            }
            Some(Err(error)) => Err(bad(&error.to_string())),
        }
    }
}

/// Returns all messages of a client, bounded in length and silence.
fn messages(
    first: FlightData,
    rest: Streaming<FlightData>,
    bytes_max: u64,
) -> impl Stream<Item = Result<FlightData, FlightError>> + Send + 'static {
    let state = (Some(first), rest, bytes_max);
    futures::stream::try_unfold(state, |(mut first, mut rest, left)| async move {
        let message = match first.take() {
            Some(first) => Some(first),
            None => next_message(&mut rest).await.map_err(|error| FlightError::ExternalError(Box::new(error)))?,
        };
        let Some(message) = message else { return Ok(None) };
        let bytes = length(&message)?;
        let left = left.checked_sub(bytes).ok_or_else(|| {
            let message = "the rows are longer than is allowed here";
            FlightError::ExternalError(Box::new(SqlError::new(SqlState::parse("54000"), message)))
        })?;
        Ok::<_, FlightError>(Some((message, (first, rest, left))))
    })
}

/// Returns how many bytes a message has, and says that it has once it is decompressed.
fn length(message: &FlightData) -> Result<u64, FlightError> {
    let sent = message.encoded_len().max(1) as u64;
    // The decoder says what is wrong with a header.
    let Ok(header) = arrow::ipc::root_as_message(&message.data_header) else { return Ok(sent) };
    match rest::decompressed(&header, &message.data_body) {
        told if told > rest::MESSAGE_BYTES_MAX => Err(FlightError::ExternalError(Box::new(rest::too_long()))),
        told => Ok(sent.saturating_add(told)),
    }
}

/// Waits for the next message of a client.
///
/// # Errors
/// 08006 if it does not come or the client is gone.
pub(super) async fn next_message(rest: &mut Streaming<FlightData>) -> Result<Option<FlightData>> {
    let failed = |message: String| SqlError::new(SqlState::CONNECTION_FAILURE, message);
    match tokio::time::timeout(STALL_MAX, rest.message()).await {
        Ok(message) => message.map_err(|status| failed(format!("the rows ended in the middle: {}", status.message()))),
        Err(_) => Err(failed(format!("no rows came for {STALL_MAX:?}"))),
    }
}

/// Reads the values of the parameters of one statement: no row is no value.
///
/// # Errors
/// As [`Incoming::open`]; 0A000 for several rows.
pub(super) async fn parameters(first: FlightData, rest: Streaming<FlightData>) -> Result<Vec<ScalarValue>> {
    let mut incoming = Incoming::open(first, rest, PARAMETER_BYTES_MAX).await?;
    let mut values: Option<Vec<ScalarValue>> = None;
    while let Some(batch) = incoming.next().await? {
        for row in 0..batch.num_rows() {
            if values.is_some() {
                let message = "a query takes one row of parameters";
                return Err(SqlError::not_supported(message).hint("Run it once for each row."));
            }
            values = Some(row_of(&batch, row)?);
        }
    }
    Ok(values.unwrap_or_default())
}

/// Returns a row as the values of `$1`, `$2`, ….
///
/// # Errors
/// 0A000 for a type that cannot be a parameter.
pub(super) fn row_of(batch: &RecordBatch, row: usize) -> Result<Vec<ScalarValue>> {
    let values = batch.columns().iter().map(|column| {
        let value = ScalarValue::try_from_array(column, row)?;
        Ok(match value {
            ScalarValue::Dictionary(_, value) => *value,
            value => value,
        })
    });
    Ok(values.collect::<Result<Vec<_>, DataFusionError>>()?)
}

fn bad(why: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, format!("the rows are not Arrow messages: {why}"))
}
