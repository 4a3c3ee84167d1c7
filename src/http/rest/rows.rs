//! The rows of a statement, read by the names of their columns.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Int64Type, Schema, TimeUnit};
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::TryStreamExt as _;
use lancegate_engine::error::SqlError;
use serde_json::Value;

use super::error::{RestError, Result};

/// The most rows that are read as a whole.
const ROWS_MAX: usize = 200_000;

/// A few rows.
#[derive(Debug)]
pub(super) struct Rows {
    batch: RecordBatch,
    tag: Option<String>,
}

impl Rows {
    /// Reads all rows of a stream.
    ///
    /// # Errors
    /// What the stream raises.
    pub(super) async fn of(mut stream: SendableRecordBatchStream) -> Result<Self> {
        let schema = stream.schema();
        let mut batches = Vec::new();
        let mut count = 0;
        while let Some(batch) = stream.try_next().await.map_err(SqlError::from)? {
            count += batch.num_rows();
            if count > ROWS_MAX {
                return Err(RestError::invalid(format!("the answer has more than {ROWS_MAX} rows")));
            }
            batches.push(batch);
        }
        let batch = concat_batches(&schema, &batches).map_err(RestError::internal)?;
        Ok(Self { batch, tag: None })
    }

    /// Returns the end of a statement without rows.
    pub(super) fn done(tag: String) -> Self {
        Self { batch: RecordBatch::new_empty(Schema::empty().into()), tag: Some(tag) }
    }

    /// Returns how many rows there are.
    pub(super) fn len(&self) -> usize {
        self.batch.num_rows()
    }

    /// Returns the number at the end of the command tag, as in `UPDATE 5`.
    pub(super) fn affected(&self) -> u64 {
        let number = self.tag.as_deref().and_then(|tag| tag.rsplit(' ').next()?.parse().ok());
        number.unwrap_or_default()
    }

    /// Returns a value as text, `None` if it is NULL or the column is not there.
    pub(super) fn text(&self, row: usize, column: &str) -> Option<String> {
        let values = cast(self.batch.column_by_name(column)?, &DataType::Utf8).ok()?;
        let values = values.as_string::<i32>();
        values.is_valid(row).then(|| values.value(row).to_owned())
    }

    /// Returns a value as a whole number.
    pub(super) fn number(&self, row: usize, column: &str) -> Option<i64> {
        let values = cast(self.batch.column_by_name(column)?, &DataType::Int64).ok()?;
        let values = values.as_primitive::<Int64Type>();
        values.is_valid(row).then(|| values.value(row))
    }

    /// Returns a point in time as milliseconds since 1970.
    pub(super) fn millis(&self, row: usize, column: &str) -> Option<i64> {
        let values =
            cast(self.batch.column_by_name(column)?, &DataType::Timestamp(TimeUnit::Millisecond, None)).ok()?;
        let values = cast(&values, &DataType::Int64).ok()?;
        let values = values.as_primitive::<Int64Type>();
        values.is_valid(row).then(|| values.value(row))
    }

    /// Returns a JSON document that is kept as text.
    pub(super) fn json(&self, row: usize, column: &str) -> Option<Value> {
        serde_json::from_str(&self.text(row, column)?).ok()
    }

    /// Returns the rows of several, at most so many.
    ///
    /// # Errors
    /// Internal errors only; they must have the same columns.
    pub(super) fn joined(parts: Vec<Self>, most: Option<u32>) -> Result<RecordBatch> {
        let schema = parts.first().map(|part| part.batch.schema());
        let schema = schema.ok_or_else(|| RestError::internal("nothing to join"))?;
        let batch = concat_batches(&schema, parts.iter().map(|part| &part.batch)).map_err(RestError::internal)?;
        let most = most.map_or(batch.num_rows(), |most| batch.num_rows().min(most as usize));
        Ok(batch.slice(0, most))
    }

    /// Returns the first value.
    pub(super) fn first_text(&self) -> Option<String> {
        let name = self.batch.schema_ref().fields().first()?.name().clone();
        self.text(0, &name)
    }

    /// Returns the texts of a column.
    pub(super) fn texts(&self, column: &str) -> Vec<String> {
        (0..self.len()).filter_map(|row| self.text(row, column)).collect()
    }
}
