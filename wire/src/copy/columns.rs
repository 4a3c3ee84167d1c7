//! Rows of COPY FROM as Arrow columns.
//!
//! A field is read as a parameter of the column's type is. The common types are
//! parsed into their arrays at once; what that does not take, and every other
//! type, goes through [`decode_parameter_with`], which also finds the message.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Builder, Int32Builder, Int64Builder, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use bytes::Bytes;

use super::CopyRow;
use crate::decode::{array_from_values, decode_parameter_with};
use crate::error::{WireError, strict_text};
use crate::settings::{Format, FormatSettings};
use crate::types::{oid, wire_type};

/// Makes batches of the rows that a [`super::CopyDecoder`] gives.
#[derive(Debug)]
pub struct CopyColumns {
    schema: SchemaRef,
    oids: Vec<u32>,
    format: Format,
    settings: FormatSettings,
}

/// A field that its column does not take.
#[derive(Debug)]
pub struct FieldError {
    /// Index of the row among those given.
    pub row: usize,
    /// Index of the column.
    pub column: usize,
    /// Why not.
    pub error: WireError,
}

impl CopyColumns {
    /// Returns a reader of rows with the columns of `schema`.
    pub fn new(schema: SchemaRef, format: Format, settings: FormatSettings) -> Self {
        let oids = schema.fields().iter().map(|field| wire_type(field).oid()).collect();
        let nullable = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        // NULL where the table takes none is for the table to refuse.
        let schema = Arc::new(Schema::new(nullable.collect::<Vec<_>>()));
        Self { schema, oids, format, settings }
    }

    /// Returns the columns of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Makes a batch. Every row has a field for each column.
    ///
    /// # Errors
    ///
    /// The first field of the first column that cannot be read.
    pub fn batch(&self, rows: &[CopyRow]) -> Result<RecordBatch, FieldError> {
        let columns = (0..self.oids.len()).map(|column| self.column(column, rows)).collect::<Result<Vec<_>, _>>()?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(|error| FieldError {
            row: 0,
            column: 0,
            error: WireError::Internal(error.to_string()),
        })
    }

    fn column(&self, column: usize, rows: &[CopyRow]) -> Result<ArrayRef, FieldError> {
        if let Some(array) = self.parsed(column, rows) {
            return Ok(array);
        }
        let mut values = Vec::with_capacity(rows.len());
        for (row, fields) in rows.iter().enumerate() {
            let value =
                decode_parameter_with(self.oids[column], self.format, fields[column].as_deref(), &self.settings);
            values.push(value.map_err(|error| FieldError { row, column, error })?);
        }
        let data_type = self.schema.field(column).data_type();
        array_from_values(&values, data_type).map_err(|error| {
            // The row is found by making each value alone.
            let failed = |value: &crate::ParameterValue| value.to_array(data_type).is_err();
            FieldError { row: values.iter().position(failed).unwrap_or(0), column, error }
        })
    }

    /// Parses a column of a common type; `None` if a field needs a closer look.
    fn parsed(&self, column: usize, rows: &[CopyRow]) -> Option<ArrayRef> {
        let fields = rows.iter().map(|row| row[column].as_ref());
        let count = rows.len();
        Some(match (self.format, self.oids[column], self.schema.field(column).data_type()) {
            (Format::Text, oid::INT4, DataType::Int32) => {
                let mut builder = Int32Builder::with_capacity(count);
                for field in fields {
                    builder.append_option(parse_option(field)?);
                }
                Arc::new(builder.finish())
            }
            (Format::Text, oid::INT8, DataType::Int64) => {
                let mut builder = Int64Builder::with_capacity(count);
                for field in fields {
                    builder.append_option(parse_option(field)?);
                }
                Arc::new(builder.finish())
            }
            (Format::Text, oid::FLOAT8, DataType::Float64) => {
                let mut builder = Float64Builder::with_capacity(count);
                for field in fields {
                    builder.append_option(parse_float(field)?);
                }
                Arc::new(builder.finish())
            }
            (_, oid::TEXT | oid::VARCHAR, DataType::Utf8) => {
                let mut builder = StringBuilder::with_capacity(count, 16 * count);
                for field in fields {
                    match field {
                        Some(bytes) => builder.append_value(strict_text(bytes).ok()?),
                        None => builder.append_null(),
                    }
                }
                Arc::new(builder.finish())
            }
            _ => return None,
        })
    }
}

/// Reads plain digits with a minus sign; `None` leaves the rest to the caller.
fn parse_option<T: std::str::FromStr>(field: Option<&Bytes>) -> Option<Option<T>> {
    let Some(bytes) = field else { return Some(None) };
    let plain = bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-');
    let text = plain.then(|| std::str::from_utf8(bytes).ok()).flatten()?;
    text.parse().ok().map(Some)
}

/// As [`parse_option`], for finite numbers with a point and an exponent.
fn parse_float(field: Option<&Bytes>) -> Option<Option<f64>> {
    let Some(bytes) = field else { return Some(None) };
    let plain = bytes.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'e' | b'E' | b'+'));
    let text = plain.then(|| std::str::from_utf8(bytes).ok()).flatten()?;
    // A number that is too large or too small is for the caller, too.
    let value: f64 = text.parse().ok()?;
    (value.is_finite() && (value != 0.0 || !text.bytes().any(|byte| matches!(byte, b'1'..=b'9'))))
        .then_some(Some(value))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{Field, Int64Type};

    use super::*;

    fn columns(data_type: DataType, format: Format) -> CopyColumns {
        let schema = Arc::new(Schema::new(vec![Field::new("c", data_type, true)]));
        CopyColumns::new(schema, format, FormatSettings::default())
    }

    fn rows(fields: &[Option<&'static str>]) -> Vec<CopyRow> {
        fields.iter().map(|field| vec![field.map(|text| Bytes::from_static(text.as_bytes()))]).collect()
    }

    #[test]
    fn plain_and_unusual_numbers_are_read_alike() {
        let reader = columns(DataType::Int64, Format::Text);
        for fields in
            [[Some("-5"), None, Some("9223372036854775807")], [Some(" -5 "), None, Some("+9223372036854775807")]]
        {
            let batch = reader.batch(&rows(&fields)).unwrap();
            let values: Vec<_> = batch.column(0).as_primitive::<Int64Type>().iter().collect();
            assert_eq!(values, [Some(-5), None, Some(i64::MAX)]);
        }
    }

    #[test]
    fn the_field_that_cannot_be_read_is_named() {
        let reader = columns(DataType::Int64, Format::Text);
        let failed = reader.batch(&rows(&[Some("1"), Some("x2")])).unwrap_err();
        assert_eq!((failed.row, failed.column), (1, 0));
        assert_eq!(failed.error.to_string(), "invalid input syntax for type bigint: \"x2\"");
        let failed = columns(DataType::Float64, Format::Text).batch(&rows(&[Some("1e400")])).unwrap_err();
        assert_eq!(failed.error.sqlstate(), "22003");
    }

    #[test]
    fn text_keeps_every_character_and_refuses_what_is_none() {
        let reader = columns(DataType::Utf8, Format::Text);
        let batch = reader.batch(&rows(&[Some("ä\tb"), Some(""), None])).unwrap();
        let texts = batch.column(0).as_string::<i32>();
        assert_eq!((texts.value(0), texts.value(1), texts.is_null(2)), ("ä\tb", "", true));
        let failed = reader.batch(&[vec![Some(Bytes::from_static(b"\xff"))]]).unwrap_err();
        assert_eq!(failed.error.sqlstate(), "22021");
    }
}
