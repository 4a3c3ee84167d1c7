//! Portals, and the sending of their rows.
//!
//! Rows go out as they come: a batch is encoded in slices of about one output
//! buffer, and the producer waits while the socket is full. Between two Execute
//! messages a portal holds its stream and at most one batch.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::BytesMut;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::scalar::ScalarValue;
use futures::{FutureExt, StreamExt};
use lancegate_sql::ast::FetchDirection;
use lancegate_wire::copy::{CopyEncoder, CopyOptions};
use lancegate_wire::{Format, FormatSettings, RowEncoder, WireError, backend};

use crate::pg::connection::OUT_BYTES_MAX;
use crate::pg::drive::Chunks;
use crate::pg::extended::Prepared;
use crate::pg::reply;
use crate::pg::scroll::Scroll;
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::exec::RowsTag;
use lancegate_engine::session::StatementContext;

/// Rows that the first slice of a result has; later ones follow its size.
const FIRST_ROWS: usize = 64;
const SLICE_ROWS_MAX: usize = 8_192;

/// A statement with its parameters, perhaps run in part.
#[derive(Debug)]
pub(in crate::pg) struct Portal {
    pub(in crate::pg) prepared: Arc<Prepared>,
    pub(in crate::pg) result_formats: Vec<i16>,
    pub(in crate::pg) state: PortalState,
    /// A cursor that was declared WITH HOLD.
    pub(in crate::pg) hold: bool,
}

/// How far a portal has come.
pub(in crate::pg) enum PortalState {
    /// Not run yet.
    Bound(Vec<ScalarValue>),
    /// Some rows were sent.
    Suspended(Box<RowSource>),
    /// All rows were sent; running it again gives none, with this tag.
    Exhausted(RowsTag),
    /// It ran and cannot run again.
    Finished,
}

/// Parameters may be secrets, so they do not print.
impl std::fmt::Debug for PortalState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bound(parameters) => f.debug_tuple("Bound").field(&parameters.len()).finish(),
            Self::Suspended(source) => f.debug_tuple("Suspended").field(source).finish(),
            Self::Exhausted(tag) => f.debug_tuple("Exhausted").field(tag).finish(),
            Self::Finished => f.write_str("Finished"),
        }
    }
}

impl Portal {
    pub(in crate::pg) fn outlives_transaction(&self) -> bool {
        self.hold
    }
}

/// A result that is being sent.
pub(in crate::pg) struct RowSource {
    schema: SchemaRef,
    /// Streams are not `Sync`, sessions must be; it is never locked.
    stream: Mutex<SendableRecordBatchStream>,
    encoder: Encoder,
    tag: RowsTag,
    /// The batch that is being sent and its first unsent row.
    current: Option<(RecordBatch, usize)>,
    slice_rows: usize,
    /// What a cursor that goes both ways has read.
    scroll: Option<Scroll>,
}

/// The messages that rows become.
enum Encoder {
    /// DataRow.
    Rows(RowEncoder),
    /// CopyData.
    Copy(Box<CopyEncoder>, Format),
}

impl Encoder {
    fn encode(
        &mut self,
        batch: &RecordBatch,
        rows: std::ops::Range<usize>,
        out: &mut BytesMut,
    ) -> Result<(), WireError> {
        match self {
            Self::Rows(encoder) => encoder.encode_rows(batch, rows, out),
            Self::Copy(encoder, _) => encoder.encode_rows(batch, rows, out),
        }
    }
}

impl std::fmt::Debug for RowSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowSource").field("tag", &self.tag).finish_non_exhaustive()
    }
}

/// What one run of a portal sent.
#[derive(Debug)]
pub(in crate::pg) struct Sent {
    pub(in crate::pg) rows: u64,
    /// Whether the result is at its end.
    pub(in crate::pg) ended: bool,
}

impl RowSource {
    /// Returns a source that encodes with the formats of Bind.
    ///
    /// # Errors
    /// 08P01 or 22023 if the formats do not fit the columns.
    pub(in crate::pg) fn new(
        schema: SchemaRef,
        stream: SendableRecordBatchStream,
        tag: RowsTag,
        (formats, settings): (&[i16], &FormatSettings),
    ) -> Result<Self> {
        let encoder = RowEncoder::new(&schema, formats, settings).map_err(|error| reply::from_wire(&error))?;
        Ok(Self::with(schema, stream, tag, Encoder::Rows(encoder)))
    }

    /// Returns a source that encodes as COPY TO does.
    ///
    /// # Errors
    /// 22023 if the options do not go together.
    pub(in crate::pg) fn copy(
        schema: SchemaRef,
        stream: SendableRecordBatchStream,
        tag: RowsTag,
        (options, settings): (&CopyOptions, &FormatSettings),
    ) -> Result<Self> {
        let encoder = CopyEncoder::new(&schema, options, settings).map_err(|error| reply::from_wire(&error))?;
        Ok(Self::with(schema, stream, tag, Encoder::Copy(Box::new(encoder), options.field_format())))
    }

    fn with(schema: SchemaRef, stream: SendableRecordBatchStream, tag: RowsTag, encoder: Encoder) -> Self {
        Self { schema, stream: Mutex::new(stream), encoder, tag, current: None, slice_rows: FIRST_ROWS, scroll: None }
    }

    /// Returns whether the rows are those of a COPY, which a client is not told
    /// the columns of.
    pub(in crate::pg) fn is_copy(&self) -> bool {
        matches!(self.encoder, Encoder::Copy(..))
    }

    /// Appends what comes before the rows of a COPY.
    ///
    /// # Errors
    /// If the line of names exceeds a message.
    pub(in crate::pg) fn begin_copy(&self, out: &mut BytesMut) -> Result<()> {
        if let Encoder::Copy(encoder, format) = &self.encoder {
            backend::copy_out_response(out, *format, self.schema.fields().len());
            encoder.start(out).map_err(|error| reply::from_wire(&error))?;
        }
        Ok(())
    }

    fn end_copy(&self, out: &mut BytesMut) -> Result<()> {
        if let Encoder::Copy(encoder, _) = &self.encoder {
            encoder.finish(out).map_err(|error| reply::from_wire(&error))?;
            backend::copy_done(out);
        }
        Ok(())
    }

    /// Sends later rows in other formats.
    ///
    /// # Errors
    /// As [`RowSource::new`].
    pub(in crate::pg) fn reformat(&mut self, formats: &[i16], settings: &FormatSettings) -> Result<()> {
        let encoder = RowEncoder::new(&self.schema, formats, settings).map_err(|error| reply::from_wire(&error))?;
        self.encoder = Encoder::Rows(encoder);
        Ok(())
    }

    /// Returns the columns.
    pub(in crate::pg) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns how the tag is made.
    pub(in crate::pg) fn tag(&self) -> &RowsTag {
        &self.tag
    }

    /// Keeps what is read from now on, so that the cursor goes both ways.
    pub(in crate::pg) fn keep_rows(&mut self, reservation: MemoryReservation) {
        self.scroll = Some(Scroll::new(reservation));
    }

    /// Returns whether [`RowSource::fetch`] can go back.
    pub(in crate::pg) fn scrolls(&self) -> bool {
        self.scroll.is_some()
    }

    /// Goes in `direction` and encodes the rows on the way, if `sends`. Returns their number.
    ///
    /// # Errors
    /// As [`RowSource::send`]; 53200 when the memory for kept rows is used up.
    pub(in crate::pg) async fn fetch(
        &mut self,
        (direction, sends): (FetchDirection, bool),
        ctx: &StatementContext,
        (out, chunks): (&mut BytesMut, &Chunks),
    ) -> Result<u64> {
        while self.scroll()?.lacks(direction) {
            let batch = self.next_batch(ctx, out, chunks).await?;
            self.scroll()?.keep(batch)?;
        }
        let pass = self.scroll()?.pass(direction);
        for nth in 0..if sends { pass.count } else { 0 } {
            if ctx.cancel.is_cancelled() {
                return Err(ctx.error());
            }
            let number = if pass.backward { pass.first + pass.count - 1 - nth } else { pass.first + nth };
            let lost = || SqlError::internal("a row that was kept is gone");
            let (batch, row) = self.scroll()?.row(number).ok_or_else(lost)?;
            let batch = batch.clone();
            self.encoder.encode(&batch, row..row + 1, out).map_err(|error| reply::from_wire(&error))?;
            if out.len() >= OUT_BYTES_MAX {
                hand_over(out, chunks, ctx).await?;
            }
        }
        self.scroll()?.went(pass);
        Ok(pass.count)
    }

    fn scroll(&mut self) -> Result<&mut Scroll> {
        self.scroll.as_mut().ok_or_else(|| SqlError::internal("a cursor that keeps no rows was asked to go back"))
    }

    /// Encodes up to `limit` rows. Full buffers go to `chunks`; what is left in
    /// `out` is the caller's to send.
    ///
    /// # Errors
    /// What the stream or the encoder answers, or the reason of the cancel.
    pub(in crate::pg) async fn send(
        &mut self,
        limit: Option<u64>,
        ctx: &StatementContext,
        (out, chunks): (&mut BytesMut, &Chunks),
    ) -> Result<Sent> {
        let mut rows = 0;
        loop {
            let left = limit.map_or(u64::MAX, |limit| limit - rows);
            if left == 0 {
                return Ok(Sent { rows, ended: false });
            }
            if ctx.cancel.is_cancelled() {
                return Err(ctx.error());
            }
            let Some((batch, at)) = self.current.take() else {
                match self.next_batch(ctx, out, chunks).await? {
                    Some(batch) => self.current = Some((batch, 0)),
                    None => {
                        self.end_copy(out)?;
                        return Ok(Sent { rows, ended: true });
                    }
                }
                continue;
            };
            let end = self.slice_end(&batch, at, left);
            self.encode(&batch, at..end, out)?;
            rows += (end - at) as u64;
            if end < batch.num_rows() {
                self.current = Some((batch, end));
            }
            if out.len() >= OUT_BYTES_MAX {
                hand_over(out, chunks, ctx).await?;
            }
        }
    }

    /// Returns the next batch. Before it waits, what is encoded goes out: the
    /// first rows are not held back for the last ones.
    async fn next_batch(
        &mut self,
        ctx: &StatementContext,
        out: &mut BytesMut,
        chunks: &Chunks,
    ) -> Result<Option<RecordBatch>> {
        let stream = self.stream.get_mut().unwrap_or_else(PoisonError::into_inner);
        let next = match stream.next().now_or_never() {
            Some(next) => next,
            None => {
                if !out.is_empty() {
                    hand_over(out, chunks, ctx).await?;
                }
                tokio::select! {
                    biased;
                    () = ctx.cancel.cancelled() => return Err(ctx.error()),
                    next = stream.next() => next,
                }
            }
        };
        next.transpose().map_err(SqlError::from)
    }

    fn slice_end(&self, batch: &RecordBatch, at: usize, left: u64) -> usize {
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        batch.num_rows().min(at.saturating_add(self.slice_rows.min(left)))
    }

    /// Encodes a slice and sizes the next one after it.
    fn encode(&mut self, batch: &RecordBatch, rows: std::ops::Range<usize>, out: &mut BytesMut) -> Result<()> {
        let (count, before) = (rows.len(), out.len());
        self.encoder.encode(batch, rows, out).map_err(|error| reply::from_wire(&error))?;
        if let Some(row_bytes) = (out.len() - before).checked_div(count) {
            self.slice_rows = (OUT_BYTES_MAX / row_bytes.max(1)).clamp(1, SLICE_ROWS_MAX);
        }
        Ok(())
    }
}

async fn hand_over(out: &mut BytesMut, chunks: &Chunks, ctx: &StatementContext) -> Result<()> {
    // The other end closes when the client is gone.
    chunks.send(out.split()).await.map_err(|_| ctx.error())
}

/// Returns the command tag of a result of which `rows` rows went out.
pub(in crate::pg) fn command_tag(tag: &RowsTag, rows: u64) -> String {
    match tag {
        RowsTag::Counted(word) => format!("{word} {rows}"),
        RowsTag::Fixed(tag) => tag.clone(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::error::DataFusionError;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use tokio::sync::mpsc;

    use super::*;

    fn source(batches: Vec<Result<usize, DataFusionError>>) -> RowSource {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let batch = {
            let schema = Arc::clone(&schema);
            move |rows: usize| {
                let numbers = Int64Array::from_iter_values(0..rows as i64);
                RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(numbers)]).unwrap()
            }
        };
        let stream = futures::stream::iter(batches.into_iter().map(move |rows| rows.map(&batch)));
        let stream = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), stream));
        let settings = FormatSettings::default();
        RowSource::new(schema, stream, RowsTag::Counted("SELECT"), (&[], &settings)).unwrap()
    }

    async fn send(source: &mut RowSource, limit: Option<u64>) -> Result<(u64, bool, usize)> {
        let (sender, mut receiver) = mpsc::channel(1_000);
        let mut out = BytesMut::new();
        let sent = source.send(limit, &StatementContext::new(), (&mut out, &sender)).await?;
        drop(sender);
        let mut bytes = out.len();
        while let Some(chunk) = receiver.recv().await {
            bytes += chunk.len();
        }
        Ok((sent.rows, sent.ended, bytes))
    }

    #[tokio::test]
    async fn a_limit_stops_inside_a_batch_and_the_next_run_goes_on() {
        let mut source = source(vec![Ok(5), Ok(0), Ok(5)]);
        assert_eq!(send(&mut source, Some(3)).await.unwrap(), (3, false, 36));
        assert_eq!(send(&mut source, Some(4)).await.unwrap(), (4, false, 48));
        assert_eq!(send(&mut source, Some(3)).await.unwrap(), (3, false, 36));
        assert_eq!(send(&mut source, Some(3)).await.unwrap(), (0, true, 0));
    }

    #[tokio::test]
    async fn a_large_result_goes_out_in_chunks() {
        let mut source = source(vec![Ok(100_000)]);
        let (sender, mut receiver) = mpsc::channel(1_000);
        let mut out = BytesMut::new();
        source.send(None, &StatementContext::new(), (&mut out, &sender)).await.unwrap();
        drop(sender);
        let mut chunks = 0;
        while let Some(chunk) = receiver.recv().await {
            assert!(chunk.len() < 4 * OUT_BYTES_MAX);
            chunks += 1;
        }
        assert!(chunks > 10);
    }

    #[tokio::test]
    async fn an_error_of_the_stream_is_the_answer() {
        let mut source = source(vec![Ok(2), Err(DataFusionError::Execution("no".to_owned()))]);
        assert!(send(&mut source, None).await.is_err());
    }

    #[tokio::test]
    async fn a_cancelled_result_stops_with_the_reason() {
        let mut source = source(vec![Ok(2)]);
        let ctx = StatementContext::new();
        ctx.cancel(lancegate_engine::session::CancelReason::User);
        let (sender, _receiver) = mpsc::channel(1);
        let error = source.send(None, &ctx, (&mut BytesMut::new(), &sender)).await.unwrap_err();
        assert_eq!(error.code.as_str(), "57014");
    }
}
