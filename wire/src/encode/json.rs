//! Nested values as JSON text, with scalars as PostgreSQL's `to_json` prints
//! them.

use bytes::{BufMut, BytesMut};

use super::build::to_micros;
use super::column::{Column, Values};
use super::{datetime, float};
use crate::error::WireError;
use crate::settings::{Format, FormatSettings};
use crate::types::oid;

/// Appends a value that is not NULL.
pub(crate) fn write(
    column: &Column,
    row: usize,
    settings: &FormatSettings,
    out: &mut BytesMut,
) -> Result<(), WireError> {
    match &column.values {
        Values::Bool(array) => {
            let text: &[u8] = if array.value(row) { b"true" } else { b"false" };
            out.put_slice(text);
        }
        Values::F16(array) => {
            let value = array.value(row).to_f32();
            float::put_json(out, value.is_finite(), |out| {
                float::put_f32(out, value, settings.extra_float_digits);
            });
        }
        Values::F32(array) => {
            let value = array.value(row);
            float::put_json(out, value.is_finite(), |out| {
                float::put_f32(out, value, settings.extra_float_digits);
            });
        }
        Values::F64(array) => {
            let value = array.value(row);
            float::put_json(out, value.is_finite(), |out| {
                float::put_f64(out, value, settings.extra_float_digits);
            });
        }
        Values::I8(_)
        | Values::I16(_)
        | Values::I32(_)
        | Values::I64(_)
        | Values::U8(_)
        | Values::U16(_)
        | Values::U32(_)
        | Values::U64(_)
        | Values::Decimal(..)
        | Values::Numeric(_)
        | Values::Decimal256(..) => column.write_value(row, Format::Text, settings, out)?,
        Values::Timestamp(array, unit) => {
            let timestamp = datetime::timestamp(to_micros(array.value(row), *unit))?;
            let zoned = column.wire.element.oid == oid::TIMESTAMPTZ;
            let zone = zoned.then_some(&settings.timezone);
            out.put_u8(b'"');
            datetime::put_timestamp(out, timestamp, zone, b'T');
            out.put_u8(b'"');
        }
        Values::List(offsets, items) => {
            let (start, end) = offsets.range(row);
            write_items(items, start, end, settings, out)?;
        }
        Values::Struct(members) => {
            out.put_u8(b'{');
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.put_u8(b',');
                }
                put_string(out, name);
                out.put_u8(b':');
                write_or_null(member, row, settings, out)?;
            }
            out.put_u8(b'}');
        }
        Values::Map(offsets, keys, values) => {
            let range = offsets[row] as usize..offsets[row + 1] as usize;
            write_map(keys, values, range, settings, out)?;
        }
        _ => write_text(column, row, settings, out)?,
    }
    Ok(())
}

/// Appends a value or `null`.
fn write_or_null(column: &Column, row: usize, settings: &FormatSettings, out: &mut BytesMut) -> Result<(), WireError> {
    match column.resolve(row) {
        Some((column, row)) => write(column, row, settings, out),
        None => {
            out.put_slice(b"null");
            Ok(())
        }
    }
}

fn write_items(
    items: &Column,
    start: usize,
    end: usize,
    settings: &FormatSettings,
    out: &mut BytesMut,
) -> Result<(), WireError> {
    out.put_u8(b'[');
    for index in start..end {
        if index > start {
            out.put_u8(b',');
        }
        write_or_null(items, index, settings, out)?;
    }
    out.put_u8(b']');
    Ok(())
}

/// Appends a map as an object; keys that are not text become their text.
fn write_map(
    keys: &Column,
    values: &Column,
    range: std::ops::Range<usize>,
    settings: &FormatSettings,
    out: &mut BytesMut,
) -> Result<(), WireError> {
    out.put_u8(b'{');
    let start = range.start;
    for index in range {
        if index > start {
            out.put_u8(b',');
        }
        match keys.resolve(index) {
            Some((key, row)) => write_quoted(key, row, settings, out)?,
            None => out.put_slice(b"\"\""),
        }
        out.put_u8(b':');
        write_or_null(values, index, settings, out)?;
    }
    out.put_u8(b'}');
    Ok(())
}

/// Appends JSON as it is and any other value as a string.
fn write_text(column: &Column, row: usize, settings: &FormatSettings, out: &mut BytesMut) -> Result<(), WireError> {
    let is_json = matches!(column.wire.element.oid, oid::JSON | oid::JSONB) && !column.wire.array;
    if is_json {
        column.write_value(row, Format::Text, settings, out)
    } else {
        write_quoted(column, row, settings, out)
    }
}

fn write_quoted(column: &Column, row: usize, settings: &FormatSettings, out: &mut BytesMut) -> Result<(), WireError> {
    if let Some(text) = column.str_at(row) {
        put_string(out, text);
        return Ok(());
    }
    let mut text = BytesMut::new();
    column.write_value(row, Format::Text, settings, &mut text)?;
    put_string(out, &String::from_utf8_lossy(&text));
    Ok(())
}

/// Appends a JSON string.
fn put_string(out: &mut BytesMut, text: &str) {
    out.put_u8(b'"');
    let mut plain = 0;
    let bytes = text.as_bytes();
    for (index, byte) in bytes.iter().enumerate() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0x08 => b"\\b",
            0x0c => b"\\f",
            0..=0x1f => b"",
            _ => continue,
        };
        out.put_slice(&bytes[plain..index]);
        plain = index + 1;
        if escape.is_empty() {
            out.put_slice(format!("\\u{byte:04x}").as_bytes());
        } else {
            out.put_slice(escape);
        }
    }
    out.put_slice(&bytes[plain..]);
    out.put_u8(b'"');
}
