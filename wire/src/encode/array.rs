//! Text and binary form of arrays.
//!
//! Text follows `array_out`
//! (<https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO>), binary
//! `array_send`. A PostgreSQL array is rectangular. A list of lists of different lengths
//! is still printed as text, because the reader sees what is stored; it has no
//! binary form.

use arrow::array::Array;
use bytes::{BufMut, BytesMut};

use super::column::{Column, Values};
use super::float;
use crate::error::WireError;
use crate::settings::{Format, FormatSettings};

/// PostgreSQL's `MAXDIM`.
const DIMENSIONS_MAX: usize = 6;

/// Appends an array as text.
pub(crate) fn write_text(
    column: &Column,
    row: usize,
    settings: &FormatSettings,
    out: &mut BytesMut,
) -> Result<(), WireError> {
    let Values::List(offsets, items) = &column.values else {
        return Err(not_a_list());
    };
    let (start, end) = offsets.range(row);
    if !has_leaf(items, start, end) {
        out.put_slice(b"{}");
        return Ok(());
    }
    out.put_u8(b'{');
    if let (Values::F32(array), None) = (&items.values, &items.nulls) {
        for index in start..end {
            if index > start {
                out.put_u8(b',');
            }
            float::put_f32(out, array.value(index), settings.extra_float_digits);
        }
    } else {
        for index in start..end {
            if index > start {
                out.put_u8(b',');
            }
            write_item_text(items, index, settings, out)?;
        }
    }
    out.put_u8(b'}');
    Ok(())
}

fn write_item_text(
    items: &Column,
    index: usize,
    settings: &FormatSettings,
    out: &mut BytesMut,
) -> Result<(), WireError> {
    let Some((column, row)) = items.resolve(index) else {
        out.put_slice(b"NULL");
        return Ok(());
    };
    let start = out.len();
    column.write_value(row, Format::Text, settings, out)?;
    let is_list = matches!(column.values, Values::List(..)) && column.wire.array;
    if !is_list && !column.is_plain_text() {
        quote_from(out, start);
    }
    Ok(())
}

/// Puts the element that begins at `start` into quotes if it needs them.
fn quote_from(out: &mut BytesMut, start: usize) {
    let element = &out[start..];
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\');
    let needs_quotes = element.is_empty()
        || element.eq_ignore_ascii_case(b"null")
        || element.iter().any(|byte| {
            is_special(byte) || matches!(byte, b'{' | b'}' | b',' | b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
        });
    if !needs_quotes {
        return;
    }
    let escapes = element.iter().filter(|byte| is_special(byte)).count();
    let mut read = out.len();
    let mut write = read + escapes + 2;
    out.resize(write, b'"');
    write -= 1;
    // From the end, so that nothing is overwritten before it was moved.
    while read > start {
        read -= 1;
        write -= 1;
        let byte = out[read];
        out[write] = byte;
        if is_special(&byte) {
            write -= 1;
            out[write] = b'\\';
        }
    }
    out[start] = b'"';
}

/// Returns whether there is any element; an array of empty arrays is empty.
fn has_leaf(items: &Column, start: usize, end: usize) -> bool {
    let Values::List(offsets, inner) = &items.values else {
        return start < end;
    };
    if !items.wire.array {
        return start < end;
    }
    (start..end).any(|index| match items.resolve(index) {
        None => true,
        Some(_) => {
            let (start, end) = offsets.range(index);
            has_leaf(inner, start, end)
        }
    })
}

/// Appends an array in binary form.
pub(crate) fn write_binary(
    column: &Column,
    row: usize,
    settings: &FormatSettings,
    out: &mut BytesMut,
) -> Result<(), WireError> {
    let Values::List(offsets, items) = &column.values else {
        return Err(not_a_list());
    };
    let (start, end) = offsets.range(row);
    let mut dimensions = Vec::new();
    if has_leaf(items, start, end) {
        measure(items, start, end, 0, &mut dimensions)?;
    }
    out.put_i32(dimensions.len() as i32);
    let has_null = out.len();
    out.put_i32(0);
    out.put_u32(column.wire.element.oid);
    for dimension in &dimensions {
        out.put_i32(i32::try_from(*dimension).map_err(|_| WireError::RaggedArray)?);
        out.put_i32(1);
    }
    if !dimensions.is_empty() && write_items(items, start, end, settings, out)? {
        out[has_null + 3] = 1;
    }
    Ok(())
}

/// Collects the lengths of all dimensions and ensures that they agree.
fn measure(
    items: &Column,
    start: usize,
    end: usize,
    level: usize,
    dimensions: &mut Vec<usize>,
) -> Result<(), WireError> {
    if level == DIMENSIONS_MAX {
        return Err(WireError::LimitExceeded(format!(
            "number of array dimensions exceeds the maximum allowed ({DIMENSIONS_MAX})"
        )));
    }
    match dimensions.get(level) {
        None => dimensions.push(end - start),
        Some(known) if *known == end - start => {}
        Some(_) => return Err(WireError::RaggedArray),
    }
    let Values::List(offsets, inner) = &items.values else {
        return Ok(());
    };
    for index in start..end {
        if items.resolve(index).is_none() {
            return Err(WireError::RaggedArray);
        }
        let (start, end) = offsets.range(index);
        measure(inner, start, end, level + 1, dimensions)?;
    }
    Ok(())
}

/// Appends all elements and returns whether one was NULL.
fn write_items(
    items: &Column,
    start: usize,
    end: usize,
    settings: &FormatSettings,
    out: &mut BytesMut,
) -> Result<bool, WireError> {
    let mut has_null = false;
    match (&items.values, &items.nulls) {
        (Values::List(offsets, inner), _) => {
            for index in start..end {
                let (start, end) = offsets.range(index);
                has_null |= write_items(inner, start, end, settings, out)?;
            }
        }
        (Values::F32(array), None) => {
            out.reserve((end - start) * 8);
            for value in &array.values()[start..end] {
                out.put_u64(4 << 32 | u64::from(value.to_bits()));
            }
        }
        _ => {
            for index in start..end {
                has_null |= items.resolve(index).is_none();
                items.write_field(index, Format::Binary, settings, out)?;
            }
        }
    }
    Ok(has_null)
}

/// Appends the binary form of an array that is kept as an array literal.
pub(crate) fn write_literal_binary(
    array_oid: u32,
    literal: &str,
    settings: &FormatSettings,
    out: &mut BytesMut,
) -> Result<(), WireError> {
    let value = crate::decode::decode_parameter_with(array_oid, Format::Text, Some(literal.as_bytes()), settings)?;
    let array = value.to_array(&value.data_type())?;
    let field = arrow::datatypes::Field::new("item", array.data_type().clone(), true);
    let wire = crate::types::array_wire_type(array_oid)
        .ok_or_else(|| WireError::Internal(format!("type {array_oid} is not an array")))?;
    let column = super::build::column(&array, &field, wire)?;
    match column.resolve(0) {
        Some((column, row)) => column.write_value(row, Format::Binary, settings, out),
        None => Ok(()),
    }
}

fn not_a_list() -> WireError {
    WireError::Internal("array type without list values".into())
}
