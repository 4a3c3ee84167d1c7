//! Frames between the gateway and a worker, and what is believed of them.
//!
//! A frame is `LGF1`, kind (u32), header bytes (u32), body bytes (u64), all little endian; then a JSON header and a
//! body that is an Arrow IPC stream. **Everything a worker sends is hostile:** lengths are bounded before memory is
//! reserved and reserved only as bytes arrive; compressed and dictionary messages are refused; the schema must be the
//! one that was asked for and the number of rows the one that was sent; arrays are validated in full, offsets and UTF-8
//! included. Nothing is unpickled.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::read_record_batch;
use arrow::ipc::writer::StreamWriter;
use arrow::ipc::{MessageHeader, convert, root_as_message};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const MAGIC: &[u8; 4] = b"LGF1";
const HEAD_BYTES: usize = 20;
/// The longest header, beside what per-row errors take.
const HEADER_BYTES_MAX: u64 = 1 << 20;
/// What one row may add to a header.
const HEADER_BYTES_PER_ROW: u64 = 8 << 10;
/// Longest text of an exception that is kept, in characters.
const MESSAGE_CHARS_MAX: usize = 1_024;

/// Kinds of frames; the numbers are part of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Initialize = 1,
    Initialized = 2,
    Call = 3,
    Result = 4,
    Failed = 5,
    Heartbeat = 6,
    Progress = 7,
    Shutdown = 8,
    Hello = 9,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        use Kind::{Call, Failed, Heartbeat, Hello, Initialize, Initialized, Progress, Result, Shutdown};
        [Initialize, Initialized, Call, Result, Failed, Heartbeat, Progress, Shutdown, Hello]
            .into_iter()
            .find(|kind| *kind as u32 == number)
    }
}

/// A frame as it arrived.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) header: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// Why a frame was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The other side is gone.
    #[error("the worker closed its connection")]
    Closed,
    /// The socket failed.
    #[error("connection to the worker: {0}")]
    Io(#[from] std::io::Error),
    /// It is not what the protocol allows.
    #[error("the worker broke the protocol: {0}")]
    Protocol(String),
}

/// An exception of user code.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
pub struct Raised {
    /// The name of its class.
    #[serde(rename = "type")]
    pub error_type: String,
    /// Its text.
    pub message: String,
    /// Line and function of the source, if known.
    #[serde(default, rename = "where")]
    pub place: String,
}

impl Raised {
    /// Cuts what is longer than a record keeps.
    pub(crate) fn bounded(mut self) -> Self {
        for (text, limit) in
            [(&mut self.error_type, 200), (&mut self.message, MESSAGE_CHARS_MAX), (&mut self.place, 300)]
        {
            if let Some((end, _)) = text.char_indices().nth(limit) {
                text.truncate(end);
            }
        }
        self
    }
}

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.error_type, self.message)?;
        if self.place.is_empty() { Ok(()) } else { write!(f, " ({})", self.place) }
    }
}

/// A row that raised.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RaisedRow {
    pub(crate) row: usize,
    #[serde(flatten)]
    pub(crate) raised: Raised,
}

#[derive(Debug, Deserialize)]
struct ResultHeader {
    id: u64,
    errors: Vec<RaisedRow>,
}

#[derive(Debug, Deserialize)]
struct AnswerHeader {
    id: u64,
}

/// Returns whether a frame names a call before `id`. What names none is left to the checks of an answer.
pub(crate) fn answers_before(frame: &Frame, id: u64) -> bool {
    serde_json::from_slice::<AnswerHeader>(&frame.header).is_ok_and(|header| header.id < id)
}

/// What a call may send back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) rows: usize,
    pub(crate) body_bytes: u64,
}

/// Writes a frame.
pub(crate) async fn write<W: AsyncWrite + Unpin>(
    writer: &mut W,
    kind: Kind,
    header: &[u8],
    body: &[u8],
) -> std::io::Result<()> {
    let mut head = Vec::with_capacity(HEAD_BYTES + header.len());
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&(kind as u32).to_le_bytes());
    head.extend_from_slice(&u32::try_from(header.len()).unwrap_or(u32::MAX).to_le_bytes());
    head.extend_from_slice(&(body.len() as u64).to_le_bytes());
    head.extend_from_slice(header);
    writer.write_all(&head).await?;
    writer.write_all(body).await
}

/// Reads a frame.
pub(crate) async fn read<R: AsyncRead + Unpin>(reader: &mut R, bounds: Bounds) -> Result<Frame, FrameError> {
    let mut head = [0_u8; HEAD_BYTES];
    if let Err(error) = reader.read_exact(&mut head).await {
        return Err(match error.kind() {
            std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset => FrameError::Closed,
            _ => error.into(),
        });
    }
    if head[..4] != *MAGIC {
        return Err(FrameError::Protocol("no frame where one must begin".to_owned()));
    }
    let number = u32::from_le_bytes(head[4..8].try_into().expect("four bytes"));
    let kind = Kind::of(number).ok_or_else(|| FrameError::Protocol(format!("frame of kind {number}")))?;
    let header_bytes = u64::from(u32::from_le_bytes(head[8..12].try_into().expect("four bytes")));
    let body_bytes = u64::from_le_bytes(head[12..].try_into().expect("eight bytes"));
    if header_bytes > HEADER_BYTES_MAX + HEADER_BYTES_PER_ROW * bounds.rows as u64 {
        return Err(FrameError::Protocol(format!("header of {header_bytes} bytes")));
    }
    if body_bytes > bounds.body_bytes {
        let limit = bounds.body_bytes;
        return Err(FrameError::Protocol(format!("result of {body_bytes} bytes; at most {limit} are taken")));
    }
    let header = read_bytes(reader, header_bytes).await?;
    let body = read_bytes(reader, body_bytes).await?;
    Ok(Frame { kind, header, body })
}

async fn read_bytes<R: AsyncRead + Unpin>(reader: &mut R, count: u64) -> Result<Vec<u8>, FrameError> {
    // Memory follows what arrives, not what was announced.
    let mut bytes = Vec::with_capacity(usize::try_from(count.min(1 << 20)).unwrap_or_default());
    reader.take(count).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 == count { Ok(bytes) } else { Err(FrameError::Closed) }
}

/// Encodes a batch as an IPC stream.
///
/// # Errors
/// For a type that Arrow's format has not.
pub fn encode(batch: &RecordBatch) -> Result<Vec<u8>, arrow::error::ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(batch)?;
    writer.into_inner()
}

/// Encodes a schema as an IPC message.
pub(crate) fn encode_schema(schema: &SchemaRef) -> Result<Vec<u8>, arrow::error::ArrowError> {
    StreamWriter::try_new(Vec::new(), schema)?.into_inner()
}

/// Checks and decodes the answer to call `id` over `rows` rows: the values, and the rows that raised, in order.
///
/// # Errors
/// What is wrong with it, for people.
pub(crate) fn decode_result(
    frame: &Frame,
    id: u64,
    rows: usize,
    expected: &SchemaRef,
) -> Result<(ArrayRef, Vec<RaisedRow>), String> {
    let header: ResultHeader = serde_json::from_slice(&frame.header).map_err(|error| error.to_string())?;
    if header.id != id {
        return Err(format!("answer to call {} instead of {id}", header.id));
    }
    if header.errors.windows(2).any(|pair| pair[0].row >= pair[1].row)
        || header.errors.last().is_some_and(|last| last.row >= rows)
    {
        return Err("errors of rows that were not sent, or twice".to_owned());
    }
    // Arrow's reader may panic on bytes that no writer makes.
    let values = catch_unwind(AssertUnwindSafe(|| decode_batch(&frame.body, rows, expected)))
        .unwrap_or_else(|_| Err("bytes that are no Arrow data".to_owned()))?;
    if let Some(kept) = header.errors.iter().find(|error| !values.is_null(error.row)) {
        return Err(format!("a value and an error for row {}", kept.row));
    }
    let errors = header.errors.into_iter().map(|row| RaisedRow { raised: row.raised.bounded(), ..row }).collect();
    Ok((values, errors))
}

/// Decodes what a worker could answer to a call over so many rows: the entry point of a fuzzer, see `fuzz/`.
#[doc(hidden)]
pub fn decode_answer(header: &[u8], body: &[u8], rows: usize, expected: &SchemaRef) -> Result<ArrayRef, String> {
    let frame = Frame { kind: Kind::Result, header: header.to_vec(), body: body.to_vec() };
    decode_result(&frame, 7, rows, expected).map(|(values, _)| values)
}

fn decode_batch(body: &[u8], rows: usize, expected: &SchemaRef) -> Result<ArrayRef, String> {
    let mut messages = Messages { bytes: body };
    let (head, _) = messages.next()?;
    let message = root_as_message(head).map_err(|error| error.to_string())?;
    let schema = message.header_as_schema().ok_or("no schema")?;
    let schema = convert::fb_to_schema(schema);
    let (got, wanted) = (schema.fields(), expected.fields());
    if got.len() != 1 || got[0].data_type() != wanted[0].data_type() {
        return Err(format!("values of type {} instead of {}", shown(got), shown(wanted)));
    }
    let (head, data) = messages.next()?;
    let message = root_as_message(head).map_err(|error| error.to_string())?;
    if message.header_type() != MessageHeader::RecordBatch {
        return Err("a message that is no record batch".to_owned());
    }
    let batch = message.header_as_record_batch().ok_or("no record batch")?;
    if batch.compression().is_some() {
        return Err("compressed data".to_owned());
    }
    if usize::try_from(batch.length()) != Ok(rows) {
        return Err(format!("{} rows instead of {rows}", batch.length()));
    }
    let decoded = read_record_batch(
        &Buffer::from(data),
        batch,
        Arc::clone(expected),
        &Default::default(),
        None,
        &message.version(),
    )
    .map_err(|error| error.to_string())?;
    let values = decoded.column(0);
    values.to_data().validate_full().map_err(|error| error.to_string())?;
    if values.len() != rows {
        return Err(format!("{} rows instead of {rows}", values.len()));
    }
    Ok(Arc::clone(values))
}

fn shown(fields: &arrow::datatypes::Fields) -> String {
    fields.iter().map(|field| crate::types::print_type(field.data_type())).collect::<Vec<_>>().join(", ")
}

/// The encapsulated messages of a stream: metadata and body.
struct Messages<'a> {
    bytes: &'a [u8],
}

impl<'a> Messages<'a> {
    fn next(&mut self) -> Result<(&'a [u8], &'a [u8]), String> {
        let cut = || "Arrow data that ends early".to_owned();
        let length = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let mut at = 4;
        let mut size = length(self.bytes.get(..4).ok_or_else(cut)?);
        if size == u32::MAX {
            size = length(self.bytes.get(4..8).ok_or_else(cut)?);
            at = 8;
        }
        let end = at + usize::try_from(size).map_err(|_| cut())?;
        let head = self.bytes.get(at..end).ok_or_else(cut)?;
        let message = root_as_message(head).map_err(|error| error.to_string())?;
        let body_end = usize::try_from(message.bodyLength()).ok().and_then(|length| end.checked_add(length));
        let body = self.bytes.get(end..body_end.ok_or_else(cut)?).ok_or_else(cut)?;
        self.bytes = &self.bytes[end + body.len()..];
        Ok((head, body))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn schema(data_type: DataType) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("value", data_type, true)]))
    }

    fn frame(header: &str, body: Vec<u8>) -> Frame {
        Frame { kind: Kind::Result, header: header.as_bytes().to_vec(), body }
    }

    fn strings() -> (SchemaRef, Vec<u8>) {
        let schema = schema(DataType::Utf8);
        let values = StringArray::from(vec![Some("one"), None, Some("three")]);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)]).unwrap();
        (schema, encode(&batch).unwrap())
    }

    #[test]
    fn w13_what_was_asked_for_is_taken() {
        let (schema, body) = strings();
        let header = r#"{"id":7,"errors":[{"row":1,"type":"ValueError","message":"no"}]}"#;
        let (values, errors) = decode_result(&frame(header, body), 7, 3, &schema).unwrap();
        assert_eq!((values.len(), errors[0].row), (3, 1));
    }

    #[test]
    fn w13_wrong_ids_rows_types_and_errors_are_refused() {
        let (strings_schema, body) = strings();
        let none = r#"{"id":7,"errors":[]}"#;
        let kept = r#"{"id":7,"errors":[{"row":0,"type":"E","message":""}]}"#;
        let beyond = r#"{"id":7,"errors":[{"row":3,"type":"E","message":""}]}"#;
        let twice = r#"{"id":7,"errors":[{"row":1,"type":"E","message":""},{"row":1,"type":"E","message":""}]}"#;
        for (header, id, rows, expected) in [
            (none, 8, 3, &strings_schema),
            (none, 7, 2, &strings_schema),
            (none, 7, 4, &strings_schema),
            (none, 7, 3, &schema(DataType::Int64)),
            (kept, 7, 3, &strings_schema),
            (beyond, 7, 3, &strings_schema),
            (twice, 7, 3, &strings_schema),
            ("{", 7, 3, &strings_schema),
        ] {
            assert!(decode_result(&frame(header, body.clone()), id, rows, expected).is_err(), "{header} {id} {rows}");
        }
    }

    #[test]
    fn w13_no_change_of_a_byte_gives_an_invalid_array_or_a_panic() {
        let (schema, body) = strings();
        let header = r#"{"id":7,"errors":[]}"#;
        for at in 0..body.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = body.clone();
                changed[at] = value;
                if let Ok((values, _)) = decode_result(&frame(header, changed), 7, 3, &schema) {
                    assert_eq!(values.len(), 3);
                    values.to_data().validate_full().unwrap();
                }
            }
        }
        for end in 0..body.len() - 8 {
            assert!(decode_result(&frame(header, body[..end].to_vec()), 7, 3, &schema).is_err(), "{end}");
        }
    }

    #[tokio::test]
    async fn w13_a_length_that_lies_reserves_nothing() {
        let bounds = Bounds { rows: 10, body_bytes: 1 << 40 };
        let mut lie = b"LGF1\x04\0\0\0\0\0\0\0".to_vec();
        lie.extend_from_slice(&(1_u64 << 40).to_le_bytes());
        assert!(matches!(read(&mut lie.as_slice(), bounds).await, Err(FrameError::Closed)));
        let bounds = Bounds { rows: 10, body_bytes: 1 << 20 };
        assert!(matches!(read(&mut lie.as_slice(), bounds).await, Err(FrameError::Protocol(_))));
        assert!(matches!(read(&mut b"print('hello, worker')".as_slice(), bounds).await, Err(FrameError::Protocol(_))));
    }

    #[tokio::test]
    async fn a_frame_arrives_as_it_was_sent() {
        let batch =
            RecordBatch::try_new(schema(DataType::Int64), vec![Arc::new(Int64Array::from(vec![1, 2]))]).unwrap();
        let mut bytes = Vec::new();
        write(&mut bytes, Kind::Call, b"{}", &encode(&batch).unwrap()).await.unwrap();
        let frame = read(&mut bytes.as_slice(), Bounds { rows: 2, body_bytes: 1 << 20 }).await.unwrap();
        assert_eq!((frame.kind, frame.header.as_slice()), (Kind::Call, b"{}".as_slice()));
    }
}
