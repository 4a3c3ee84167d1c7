//! Cuts an Arrow IPC stream into its messages, and looks at each before Arrow does.
//!
//! A compressed buffer begins with its length when it is not (Arrow, "Serialization and Interprocess Communication",
//! `BodyCompression`). Arrow asks for so much memory at once, and where there is not so much the process ends. So what a
//! message says, or has if that is more, is added up first, and more than [`MESSAGE_BYTES_MAX`] is refused (54000). Every
//! byte is looked at once: buffers that are longer than all of the body name some bytes twice, which no writer does, and
//! are refused too.

use arrow::ipc::{CompressionType, Message, root_as_message};
use bytes::{Bytes, BytesMut};
use lancegate_engine::error::SqlError;
use lancegate_engine::sqlstate::SqlState;

use super::lz4::unpacked_bytes;

/// The most bytes of one message, as it is sent and as it says that it is once it is decompressed.
pub(crate) const MESSAGE_BYTES_MAX: u64 = 1 << 31;
/// The longest description of a message in bytes.
const HEADER_BYTES_MAX: usize = 16 << 20;

/// What has come of a stream and is not read yet.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: BytesMut,
    /// Whether a message has been read; what begins otherwise may be anything.
    has_begun: bool,
    /// How many bytes there have to be before it is worth a look.
    needed: usize,
    /// Whether the rest goes on as it is: behind the end of the stream, and where Arrow will say what is wrong.
    is_over: bool,
}

impl Frames {
    pub(super) fn push(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
    }

    /// Returns the next message, once all of it is there.
    ///
    /// # Errors
    /// 54000 for one that is too long.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, SqlError> {
        if self.is_over {
            return Ok(Some(self.rest()).filter(|rest| !rest.is_empty()));
        }
        if self.bytes.len() < self.needed {
            return Ok(None);
        }
        let Some((start, length)) = prefix(&self.bytes) else { return Ok(None) };
        if length > HEADER_BYTES_MAX {
            if self.has_begun {
                return Err(too_long());
            }
            self.is_over = true;
            return self.next();
        }
        let (header, body) = (start..start + length, start + length);
        let Some(header) = self.bytes.get(header) else {
            self.needed = body;
            return Ok(None);
        };
        let Ok(message) = root_as_message(header) else {
            self.is_over = true;
            return self.next();
        };
        let Some(length) = u64::try_from(message.bodyLength()).ok().filter(|length| *length <= MESSAGE_BYTES_MAX)
        else {
            return Err(too_long());
        };
        let end = body + usize::try_from(length).map_err(|_| too_long())?;
        let Some(body) = self.bytes.get(body..end) else {
            self.needed = end;
            return Ok(None);
        };
        if decompressed(&message, body) > MESSAGE_BYTES_MAX {
            return Err(too_long());
        }
        self.needed = 0;
        self.has_begun = true;
        Ok(Some(self.bytes.split_to(end).freeze()))
    }

    /// Returns what there is of a message that does not go on.
    pub(super) fn rest(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }
}

/// Returns where the description of a message begins and how long it is. The end of a stream has none, and is left to
/// Arrow as well.
fn prefix(bytes: &[u8]) -> Option<(usize, usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk::<4>()?));
    let (start, length) = match word(0)? {
        u32::MAX => (8, word(4)?),
        // Before version 0.15 the length came first.
        length => (4, length),
    };
    Some((start, usize::try_from(length).unwrap_or(usize::MAX)))
}

/// Returns how many bytes the compressed buffers of a message say that they have, or have, up to the first beyond
/// [`MESSAGE_BYTES_MAX`]; none for any other message.
pub(crate) fn decompressed(message: &Message<'_>, body: &[u8]) -> u64 {
    let batch = message.header_as_record_batch();
    let batch = batch.or_else(|| message.header_as_dictionary_batch()?.data());
    let Some((compression, buffers)) = batch.and_then(|batch| batch.compression().zip(batch.buffers())) else {
        return 0;
    };
    let is_lz4 = compression.codec() == CompressionType::LZ4_FRAME;
    let (mut sum, mut looked_at) = (0_u64, 0_usize);
    for buffer in buffers {
        let at = usize::try_from(buffer.offset()).unwrap_or(usize::MAX);
        let Some((told, rest)) = body.get(at..).and_then(|rest| rest.split_first_chunk::<8>()) else { continue };
        // Zero is nothing, and -1 says that the buffer is not compressed after all.
        let Some(told) = u64::try_from(i64::from_le_bytes(*told)).ok().filter(|told| *told > 0) else { continue };
        let length = usize::try_from(buffer.length()).unwrap_or(usize::MAX).saturating_sub(8).min(rest.len());
        looked_at += length;
        if looked_at > body.len() {
            return u64::MAX;
        }
        // The other codec stops where it was said that it ends.
        let has = if is_lz4 { unpacked_bytes(&rest[..length]) } else { 0 };
        sum = sum.saturating_add(told.max(has));
        if sum > MESSAGE_BYTES_MAX {
            break;
        }
    }
    sum
}

/// Why a message is refused.
pub(crate) fn too_long() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a message of the rows is too long")
        .detail(format!("A message may have {MESSAGE_BYTES_MAX} bytes, compressed or not."))
        .hint("Send the rows in smaller batches.")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};

    use super::*;

    fn stream(compression: Option<CompressionType>) -> Vec<u8> {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![7; 10_000]));
        let batch = RecordBatch::try_from_iter([("x", values)]).unwrap();
        let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    }

    fn cut(stream: &[u8], step: usize) -> Result<Vec<Bytes>, SqlError> {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        for data in stream.chunks(step) {
            frames.push(data);
            while let Some(frame) = frames.next()? {
                found.push(frame);
            }
        }
        found.push(frames.rest());
        Ok(found)
    }

    #[test]
    fn r02_a_stream_is_cut_where_its_messages_end_however_it_comes() {
        for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
            let stream = stream(compression);
            for step in [1, 7, 4_096, stream.len()] {
                let frames = cut(&stream, step).unwrap();
                assert_eq!(frames.concat(), stream);
                assert!(frames.len() >= 4, "schema, two batches and the end: {}", frames.len());
            }
        }
    }

    #[test]
    fn r02_a_length_that_is_only_said_is_not_believed() {
        let mut stream = stream(Some(CompressionType::LZ4_FRAME));
        let told = 80_000_i64.to_le_bytes();
        let at = stream.windows(8).position(|window| window == told).expect("the length of the values");
        stream[at..at + 8].copy_from_slice(&(1_i64 << 60).to_le_bytes());
        let refused = cut(&stream, 1_000).unwrap_err();
        assert_eq!(refused.code, SqlState::PROGRAM_LIMIT_EXCEEDED);
    }

    #[test]
    fn r02_a_length_that_is_said_to_be_small_is_not_believed_either() {
        let mut stream = stream(Some(CompressionType::LZ4_FRAME));
        let told = 80_000_i64.to_le_bytes();
        let at = stream.windows(8).position(|window| window == told).expect("the length of the values");
        stream[at..at + 8].copy_from_slice(&8_i64.to_le_bytes());
        let frames = cut(&stream, stream.len()).unwrap();
        let (start, length) = prefix(&frames[1]).unwrap();
        let message = root_as_message(&frames[1][start..start + length]).unwrap();
        assert!(decompressed(&message, &frames[1][start + length..]) >= 80_000);
    }

    #[test]
    fn what_is_no_message_goes_on_as_it_is() {
        for text in [&b"{}"[..], b"not an Arrow stream, but long enough", &[0xff; 64]] {
            match cut(text, 3) {
                Ok(frames) => assert_eq!(frames.concat(), text),
                Err(error) => assert_eq!(error.code, SqlState::PROGRAM_LIMIT_EXCEEDED),
            }
        }
    }
}
