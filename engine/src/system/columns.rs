//! Columns of relations made from row structs: name, type and value stand in one
//! place, so that what is described and what is sent cannot differ.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use lancegate_catalog::Timestamp;

use crate::error::{Result, SqlError};

/// The field metadata key that names a PostgreSQL type which Arrow has no type for.
pub const PG_TYPE_KEY: &str = "lancegate:pg_type";

/// One column over rows of `R`.
#[derive(Debug)]
pub struct Column<R> {
    name: &'static str,
    nullable: bool,
    value: Value<R>,
}

#[derive(Debug)]
enum Value<R> {
    Text(fn(&R) -> Option<Cow<'_, str>>),
    Json(fn(&R) -> Option<Cow<'_, str>>),
    BigInt(fn(&R) -> Option<i64>),
    Integer(fn(&R) -> Option<i32>),
    Double(fn(&R) -> Option<f64>),
    Boolean(fn(&R) -> Option<bool>),
    Timestamp(fn(&R) -> Option<Timestamp>),
}

impl<R> Column<R> {
    /// A `text` column.
    pub fn text(name: &'static str, value: fn(&R) -> Option<Cow<'_, str>>) -> Self {
        Self { name, nullable: true, value: Value::Text(value) }
    }

    /// A `json` column.
    pub fn json(name: &'static str, value: fn(&R) -> Option<Cow<'_, str>>) -> Self {
        Self { name, nullable: true, value: Value::Json(value) }
    }

    /// An `int8` column.
    pub fn bigint(name: &'static str, value: fn(&R) -> Option<i64>) -> Self {
        Self { name, nullable: true, value: Value::BigInt(value) }
    }

    /// An `int4` column.
    pub fn integer(name: &'static str, value: fn(&R) -> Option<i32>) -> Self {
        Self { name, nullable: true, value: Value::Integer(value) }
    }

    /// A `float8` column.
    pub fn double(name: &'static str, value: fn(&R) -> Option<f64>) -> Self {
        Self { name, nullable: true, value: Value::Double(value) }
    }

    /// A `bool` column.
    pub fn boolean(name: &'static str, value: fn(&R) -> Option<bool>) -> Self {
        Self { name, nullable: true, value: Value::Boolean(value) }
    }

    /// A `timestamptz` column.
    pub fn timestamp(name: &'static str, value: fn(&R) -> Option<Timestamp>) -> Self {
        Self { name, nullable: true, value: Value::Timestamp(value) }
    }

    /// Every row has a value.
    #[must_use]
    pub fn not_null(self) -> Self {
        Self { nullable: false, ..self }
    }

    fn field(&self) -> Field {
        let data_type = match self.value {
            Value::Text(_) | Value::Json(_) => DataType::Utf8,
            Value::BigInt(_) => DataType::Int64,
            Value::Integer(_) => DataType::Int32,
            Value::Double(_) => DataType::Float64,
            Value::Boolean(_) => DataType::Boolean,
            Value::Timestamp(_) => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
        };
        let field = Field::new(self.name, data_type, self.nullable);
        match self.value {
            Value::Json(_) => field.with_metadata([(PG_TYPE_KEY.to_owned(), "json".to_owned())].into()),
            _ => field,
        }
    }

    fn array(&self, rows: &[R]) -> ArrayRef {
        match self.value {
            Value::Text(value) | Value::Json(value) => Arc::new(rows.iter().map(value).collect::<StringArray>()),
            Value::BigInt(value) => Arc::new(rows.iter().map(value).collect::<Int64Array>()),
            Value::Integer(value) => Arc::new(rows.iter().map(value).collect::<Int32Array>()),
            Value::Double(value) => Arc::new(rows.iter().map(value).collect::<Float64Array>()),
            Value::Boolean(value) => Arc::new(rows.iter().map(value).collect::<BooleanArray>()),
            Value::Timestamp(value) => {
                let micros = rows.iter().map(|row| value(row).map(|at| at.timestamp_micros()));
                Arc::new(micros.collect::<TimestampMicrosecondArray>().with_timezone("UTC"))
            }
        }
    }
}

/// Returns the schema of these columns.
pub fn schema<R>(columns: &[Column<R>]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(Column::field).collect::<Vec<_>>()))
}

/// Returns the rows as a batch with the schema of these columns.
///
/// # Errors
/// An internal error if a column that is never null is.
pub fn batch<R>(columns: &[Column<R>], rows: &[R]) -> Result<RecordBatch> {
    let arrays = columns.iter().map(|column| column.array(rows)).collect();
    RecordBatch::try_new(schema(columns), arrays).map_err(SqlError::internal)
}

/// Returns a text that the row owns.
pub fn borrowed(text: &str) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(text))
}

/// Returns a text that is made for this column.
pub fn made<'a>(value: impl ToString) -> Option<Cow<'a, str>> {
    Some(Cow::Owned(value.to_string()))
}

/// Returns a counter as SQL has it; none if it is larger than `int8`.
pub fn count(value: u64) -> Option<i64> {
    i64::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_the_described_columns_also_without_rows() {
        struct Row {
            name: String,
            size: Option<i64>,
        }
        let columns = [
            Column::<Row>::text("name", |row| borrowed(&row.name)).not_null(),
            Column::bigint("size", |row| row.size),
            Column::json("document", |_| None),
        ];
        let described = schema(&columns);
        let kinds: Vec<_> = described.fields().iter().map(|field| field.metadata().get(PG_TYPE_KEY).cloned()).collect();
        assert_eq!(kinds, [None, None, Some("json".to_owned())]);
        for rows in [vec![], vec![Row { name: "a".into(), size: None }, Row { name: "b".into(), size: Some(2) }]] {
            let batch = batch(&columns, &rows).unwrap();
            assert_eq!((batch.schema(), batch.num_rows()), (Arc::clone(&described), rows.len()));
        }
    }
}
