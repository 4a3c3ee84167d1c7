//! Rows as Arrow IPC streams, in both directions, without holding them all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt as _};
use lancegate_engine::error::SqlError;
use lancegate_engine::sqlstate::SqlState;
use tokio::sync::Mutex;

use super::caller::Caller;
use super::error::{RestError, Result};
use super::frames::Frames;

/// The media type of an Arrow IPC stream.
pub(super) const STREAM: &str = "application/vnd.apache.arrow.stream";
/// The longest stream without its schema in bytes.
const SCHEMA_BYTES_MAX: u64 = 16 << 20;
/// Nested types deeper than this are refused.
const DEPTH_MAX: usize = 64;

/// How long a client may pause in the middle of its rows.
const STALL_MAX: Duration = Duration::from_secs(60);
/// What a refused request may still send before its answer, in bytes.
const DRAINED_BYTES_MAX: usize = 64 << 20;

/// What has not been read of a body.
#[derive(Clone)]
pub(super) struct Rest(Arc<Mutex<Pin<Box<BodyDataStream>>>>);

impl Rest {
    /// Reads on and gives it away: a client that is still sending would lose the
    /// answer.
    pub(super) async fn drain(self) {
        let mut body = self.0.lock().await;
        let mut drained = 0;
        while let Ok(Some(Ok(data))) = tokio::time::timeout(STALL_MAX, body.next()).await {
            drained += data.len();
            if drained > DRAINED_BYTES_MAX {
                return;
            }
        }
    }
}

/// Rows that a client sends.
pub(super) struct Incoming {
    body: Rest,
    frames: Frames,
    decoder: StreamDecoder,
    pending: Buffer,
    left: u64,
    read: u64,
    first: Option<RecordBatch>,
    schema: SchemaRef,
    ended: bool,
}

impl Incoming {
    /// Reads the schema.
    ///
    /// # Errors
    /// 400 if the body is no Arrow stream, 413 if it is too long.
    pub(super) async fn open(body: Body, bytes_max: u64) -> Result<Self> {
        let body = Rest(Arc::new(Mutex::new(Box::pin(body.into_data_stream()))));
        let opened = Self::begin(body.clone(), bytes_max).await;
        if opened.is_err() {
            body.drain().await;
        }
        opened
    }

    async fn begin(body: Rest, bytes_max: u64) -> Result<Self> {
        let mut incoming = Self {
            body,
            frames: Frames::default(),
            decoder: StreamDecoder::new(),
            pending: Buffer::from(Vec::<u8>::new()),
            left: bytes_max,
            read: 0,
            first: None,
            schema: Arc::new(Schema::empty()),
            ended: false,
        };
        while incoming.decoder.schema().is_none() {
            incoming.first = incoming.next().await?;
            if incoming.ended && incoming.decoder.schema().is_none() {
                return Err(bad("it ends before its schema").into());
            }
            if incoming.decoder.schema().is_none() && incoming.read > SCHEMA_BYTES_MAX {
                return Err(bad("its schema is too long").into());
            }
        }
        let schema = incoming.decoder.schema().unwrap_or_else(|| Arc::new(Schema::empty()));
        match is_too_deep(&schema) {
            true => Err(bad("its types are nested too deeply").into()),
            false => Ok(Self { schema, ..incoming }),
        }
    }

    /// Returns the columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the rows.
    pub(super) fn rows(self) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let stream = futures::stream::try_unfold(self, |mut incoming| async move {
            let batch = match incoming.first.take() {
                Some(batch) => Some(batch),
                None => incoming.next().await.map_err(|error| DataFusionError::External(Box::new(error)))?,
            };
            Ok::<_, DataFusionError>(batch.map(|batch| (batch, incoming)))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, stream))
    }

    /// Returns the rest of the body, for when the rows are not wanted.
    pub(super) fn rest(&self) -> Rest {
        self.body.clone()
    }

    /// Returns the next rows, `None` at the end or once the schema was read.
    async fn next(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        let had_schema = self.decoder.schema().is_some();
        loop {
            if let Some(batch) = self.decode()? {
                return Ok(Some(batch));
            }
            if !had_schema && self.decoder.schema().is_some() || self.ended {
                return Ok(None);
            }
            let mut body = self.body.0.lock().await;
            let data = tokio::time::timeout(STALL_MAX, body.next()).await.map_err(|_| {
                let message = format!("no rows came for {STALL_MAX:?}");
                SqlError::new(SqlState::CONNECTION_FAILURE, message)
            })?;
            drop(body);
            match data {
                Some(Ok(data)) => self.take(data)?,
                Some(Err(error)) => {
                    let message = format!("the rows ended in the middle: {error}");
                    return Err(SqlError::new(SqlState::CONNECTION_FAILURE, message));
                }
                None => {
                    self.pending = Buffer::from(self.frames.rest());
                    while !self.pending.is_empty() {
                        // Of a message that does not go on there are no rows.
                        self.read_pending()?;
                    }
                    self.decoder.finish().map_err(|error| bad(&error.to_string()))?;
                    self.ended = true;
                }
            }
        }
    }

    fn take(&mut self, data: Bytes) -> Result<(), SqlError> {
        self.read += data.len() as u64;
        self.left = self.left.checked_sub(data.len() as u64).ok_or_else(|| {
            SqlError::new(SqlState::parse("54000"), "the rows are longer than http.upload_bytes_max allows")
        })?;
        self.frames.push(&data);
        Ok(())
    }

    fn decode(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        loop {
            if self.pending.is_empty() {
                let Some(message) = self.frames.next()? else { return Ok(None) };
                self.pending = Buffer::from(message);
            }
            if let Some(batch) = self.read_pending()? {
                return Ok(Some(batch));
            }
        }
    }

    fn read_pending(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        let (decoder, pending) = (&mut self.decoder, &mut self.pending);
        // Arrow checks what it reads, but not everything before it uses it.
        let decoded = catch_unwind(AssertUnwindSafe(|| decoder.decode(pending)));
        let decoded = decoded.map_err(|_| bad("its layout is broken"))?;
        decoded.map_err(|error| bad(&error.to_string()))
    }
}

fn bad(why: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, format!("the body is not an Arrow IPC stream: {why}"))
}

/// Returns whether the types of rows that a client sends are nested deeper than is read.
pub(crate) fn is_too_deep(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| depth(field) > DEPTH_MAX)
}

fn depth(field: &Field) -> usize {
    1 + match field.data_type() {
        DataType::Struct(fields) => fields.iter().map(|field| depth(field)).max().unwrap_or_default(),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => depth(field),
        _ => 0,
    }
}

/// Answers with rows as they come, of the caller whose statement they are of. An error after the first rows ends the body in
/// the middle of the stream, which no reader takes for its end.
///
/// # Errors
/// What the rows raise before the first of them.
pub(super) async fn answer(rows: SendableRecordBatchStream, caller: Caller) -> Result<Response> {
    let schema = rows.schema();
    let mut rows = rows.peekable();
    if let Some(Err(_)) = Pin::new(&mut rows).peek().await {
        let error = rows.next().await.and_then(|first| first.err()).map(SqlError::from);
        return Err(error.map_or_else(|| RestError::internal("an error went away"), RestError::from));
    }
    let writer = StreamWriter::try_new(Vec::new(), &schema).map_err(RestError::internal)?;
    let body = Body::from_stream(chunks(rows, (writer, caller)));
    Ok(([(header::CONTENT_TYPE, STREAM)], body).into_response())
}

fn chunks(
    rows: impl Stream<Item = Result<RecordBatch, DataFusionError>> + Send + Unpin + 'static,
    kept: (StreamWriter<Vec<u8>>, Caller),
) -> impl Stream<Item = Result<Bytes, SqlError>> + Send + 'static {
    futures::stream::try_unfold(Some((rows, kept)), |state| async move {
        let Some((mut rows, (mut writer, caller))) = state else { return Ok(None) };
        match rows.next().await {
            Some(batch) => {
                let batch = batch.map_err(SqlError::from)?;
                writer.write(&batch).map_err(SqlError::internal)?;
                let bytes = Bytes::from(std::mem::take(writer.get_mut()));
                Ok(Some((bytes, Some((rows, (writer, caller))))))
            }
            None => {
                writer.finish().map_err(SqlError::internal)?;
                Ok(Some((Bytes::from(std::mem::take(writer.get_mut())), None)))
            }
        }
    })
}

/// Returns a few rows as a whole stream.
///
/// # Errors
/// Internal errors only.
pub(super) fn whole(batch: &RecordBatch) -> Result<Response> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).map_err(RestError::internal)?;
    writer.write(batch).and_then(|()| writer.finish()).map_err(RestError::internal)?;
    let bytes = writer.into_inner().map_err(RestError::internal)?;
    Ok(([(header::CONTENT_TYPE, STREAM)], bytes).into_response())
}
