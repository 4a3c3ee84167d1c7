//! Fields of the csv format.

use bytes::{Bytes, BytesMut};

use super::{CopyOptions, CopyRow, copy_error};
use crate::error::WireError;

/// Quotes the field that begins at `start`, in place, if it needs quotes.
pub(crate) fn quote_from(out: &mut BytesMut, start: usize, options: &CopyOptions, force: bool, is_only_column: bool) {
    let field = &out[start..];
    let needs_quotes = force
        || field == options.null.as_bytes()
        // A line of its own would end the data.
        || is_only_column && field == b"\\."
        || field.iter().any(|byte| {
            *byte == options.delimiter || *byte == options.quote || matches!(byte, b'\n' | b'\r')
        });
    if !needs_quotes {
        return;
    }
    let is_special = |byte: u8| byte == options.quote || byte == options.escape;
    let count = field.iter().filter(|byte| is_special(**byte)).count();
    let mut read = out.len();
    let mut write = read + count + 2;
    out.resize(write, options.quote);
    write -= 1;
    // From the end, so that nothing is overwritten before it was moved.
    while read > start {
        read -= 1;
        write -= 1;
        let byte = out[read];
        out[write] = byte;
        if is_special(byte) {
            write -= 1;
            out[write] = options.escape;
        }
    }
    out[start] = options.quote;
}

/// Splits a record, without its end, into fields.
pub(crate) fn split(record: &Bytes, options: &CopyOptions) -> Result<CopyRow, WireError> {
    let mut fields = Vec::new();
    let mut start = 0;
    loop {
        let plain = record[start..].iter().position(|byte| *byte == options.delimiter || *byte == options.quote);
        let end = plain.map_or(record.len(), |length| start + length);
        if record.get(end) == Some(&options.quote) {
            let (value, after) = quoted(record, start, options)?;
            fields.push(Some(value));
            start = after;
        } else {
            let raw = record.slice(start..end);
            fields.push((raw != options.null.as_bytes()).then_some(raw));
            start = end;
        }
        if start >= record.len() {
            return Ok(fields);
        }
        start += 1;
    }
}

/// Reads a field with quotes in it; returns it and where its delimiter is.
fn quoted(record: &[u8], start: usize, options: &CopyOptions) -> Result<(Bytes, usize), WireError> {
    let mut value = Vec::new();
    let mut inside = false;
    let mut index = start;
    while let Some(&byte) = record.get(index) {
        let next = record.get(index + 1).copied();
        if inside && byte == options.escape && next.is_some_and(|next| next == options.quote || next == options.escape)
        {
            value.extend(next);
            index += 2;
            continue;
        }
        if byte == options.quote {
            inside = !inside;
        } else if !inside && byte == options.delimiter {
            break;
        } else {
            value.push(byte);
        }
        index += 1;
    }
    if inside {
        return Err(copy_error("unterminated CSV quoted field"));
    }
    Ok((value.into(), index))
}
