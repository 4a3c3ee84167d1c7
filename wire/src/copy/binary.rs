//! The binary format.

use bytes::{Buf, BytesMut};

use super::{CopyRow, copy_error};
use crate::error::WireError;

/// First bytes of binary COPY data.
pub(crate) const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// Signature, flags and the length of the header extension.
const HEADER_BYTES: usize = SIGNATURE.len() + 8;

/// What stands at the front of the buffer.
#[derive(Debug)]
pub(crate) enum Item {
    /// Not complete yet.
    Partial,
    /// A row.
    Row(CopyRow),
    /// The trailer.
    End,
}

/// Takes the header out of the buffer; returns whether it was complete.
pub(crate) fn take_header(buffer: &mut BytesMut, bytes_max: usize) -> Result<bool, WireError> {
    let seen = buffer.len().min(SIGNATURE.len());
    if buffer[..seen] != SIGNATURE[..seen] {
        return Err(copy_error("COPY file signature not recognized"));
    }
    let Some(mut header) = buffer.get(SIGNATURE.len()..HEADER_BYTES) else {
        return Ok(false);
    };
    let flags = header.get_u32();
    let extension = header.get_i32();
    if flags & 1 << 16 != 0 {
        return Err(copy_error("invalid COPY file header (WITH OIDS)"));
    }
    if flags >> 16 != 0 {
        return Err(copy_error("unrecognized critical flags in COPY file header"));
    }
    let extension = usize::try_from(extension)
        .ok()
        .filter(|length| *length <= bytes_max)
        .ok_or_else(|| copy_error("invalid COPY file header (wrong length)"))?;
    if buffer.len() < HEADER_BYTES + extension {
        return Ok(false);
    }
    buffer.advance(HEADER_BYTES + extension);
    Ok(true)
}

/// Takes a row or the trailer out of the buffer.
pub(crate) fn take_item(buffer: &mut BytesMut, columns: usize, bytes_max: usize) -> Result<Item, WireError> {
    let Some(count) = buffer.first_chunk::<2>() else {
        return Ok(Item::Partial);
    };
    let count = i16::from_be_bytes(*count);
    if count == -1 {
        buffer.advance(2);
        return Ok(Item::End);
    }
    if usize::try_from(count) != Ok(columns) {
        return Err(copy_error(format!("row field count is {count}, expected {columns}")));
    }
    let Some(end) = measure(buffer, columns, bytes_max)? else {
        return Ok(Item::Partial);
    };
    let mut row = buffer.split_to(end).freeze();
    row.advance(2);
    let fields = (0..columns).map(|_| {
        let length = row.get_i32();
        usize::try_from(length).ok().map(|length| row.split_to(length))
    });
    Ok(Item::Row(fields.collect()))
}

/// Returns where the row at the front ends, or `None` if it is not complete.
fn measure(buffer: &[u8], columns: usize, bytes_max: usize) -> Result<Option<usize>, WireError> {
    let mut end = 2;
    for _ in 0..columns {
        let Some(length) = buffer.get(end..).and_then(|rest| rest.first_chunk::<4>()) else {
            return Ok(None);
        };
        end += 4;
        let length = i32::from_be_bytes(*length);
        if length < -1 {
            return Err(copy_error("invalid field size"));
        }
        end += usize::try_from(length).unwrap_or(0);
        if end > bytes_max {
            return Err(WireError::LimitExceeded(format!("COPY row exceeds the limit of {bytes_max} bytes")));
        }
    }
    Ok((end <= buffer.len()).then_some(end))
}
