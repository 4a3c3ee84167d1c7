//! Rows of Arrow batches as DataRow messages.
//!
//! Arrays are downcast once per batch; a value is then written straight into
//! the output buffer and its length filled in afterwards, without a `String`
//! in between. Text forms are those of PostgreSQL's output functions, binary
//! forms those of its send functions.

mod array;
mod binary;
mod build;
mod column;
pub(crate) mod datetime;
mod float;
mod json;
mod numeric;
mod text;

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use bytes::{BufMut, BytesMut};

use crate::error::WireError;
use crate::settings::{Format, FormatSettings};
use crate::types::{WireType, wire_type};

pub(crate) use column::Column;
pub(crate) use text::check_time;

/// Largest message body; PostgreSQL's `MaxAllocSize`.
pub(crate) const MESSAGE_BYTES_MAX: usize = 0x3fff_ffff;

/// Writes the rows of one result. Reusable for all batches of the result.
#[derive(Debug, Clone)]
pub struct RowEncoder {
    types: Vec<WireType>,
    formats: Vec<Format>,
    settings: FormatSettings,
}

impl RowEncoder {
    /// Makes an encoder for batches of `schema`. `result_formats` are the codes
    /// of Bind: none, one for all columns, or one a column.
    ///
    /// # Errors
    ///
    /// As [`Format::spread`]; [`WireError::LimitExceeded`] for more columns
    /// than a DataRow can count.
    pub fn new(schema: &Schema, result_formats: &[i16], settings: &FormatSettings) -> Result<Self, WireError> {
        let count = schema.fields().len();
        if count > i16::MAX as usize {
            return Err(WireError::LimitExceeded("target lists can have at most 1664 entries".into()));
        }
        Ok(Self {
            types: schema.fields().iter().map(|field| wire_type(field)).collect(),
            formats: Format::spread(result_formats, count)?,
            settings: settings.clone(),
        })
    }

    /// Appends one DataRow message for each row of `range`.
    ///
    /// On an error `out` ends with the last complete message.
    ///
    /// # Errors
    ///
    /// [`WireError::Internal`] if the batch has another schema; otherwise what
    /// a value has no form for, such as a timestamp out of PostgreSQL's range.
    pub fn encode_rows(&self, batch: &RecordBatch, range: Range<usize>, out: &mut BytesMut) -> Result<(), WireError> {
        let columns = build_columns(&self.types, batch, &range)?;
        for row in 0..range.len() {
            let start = out.len();
            if let Err(error) = self.encode_row(&columns, row, out) {
                out.truncate(start);
                return Err(error);
            }
        }
        Ok(())
    }

    fn encode_row(&self, columns: &[Column], row: usize, out: &mut BytesMut) -> Result<(), WireError> {
        out.put_u8(b'D');
        let start = out.len();
        out.put_u32(0);
        out.put_u16(columns.len() as u16);
        for (column, format) in columns.iter().zip(&self.formats) {
            column.write_field(row, *format, &self.settings, out)?;
        }
        patch_message_length(out, start)
    }
}

/// Downcasts the columns of the rows in `range`.
pub(crate) fn build_columns(
    types: &[WireType],
    batch: &RecordBatch,
    range: &Range<usize>,
) -> Result<Vec<Column>, WireError> {
    if batch.num_columns() != types.len() {
        return Err(WireError::Internal(format!(
            "batch has {} columns, the row description {}",
            batch.num_columns(),
            types.len()
        )));
    }
    if range.start > range.end || range.end > batch.num_rows() {
        return Err(WireError::Internal(format!("rows {range:?} of a batch of {}", batch.num_rows())));
    }
    let schema = batch.schema_ref();
    let arrays = batch.columns().iter().zip(schema.fields()).zip(types);
    arrays
        .map(|((array, field), wire)| {
            let rows = array.slice(range.start, range.len());
            build::column(&rows, field, *wire)
        })
        .collect()
}

/// Fills in the length of the message whose length word is at `start`.
pub(crate) fn patch_message_length(out: &mut BytesMut, start: usize) -> Result<(), WireError> {
    let length = out.len() - start;
    if length > MESSAGE_BYTES_MAX {
        return Err(WireError::LimitExceeded(format!(
            "row of {length} bytes exceeds the limit of {MESSAGE_BYTES_MAX} bytes"
        )));
    }
    out[start..start + 4].copy_from_slice(&(length as u32).to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests;
