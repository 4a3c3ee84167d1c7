//! Numbers for rows that are added, or set to DEFAULT: those of serial and identity columns.
//!
//! They are drawn from the metadata store as the rows come, one draw for a batch, where a
//! row gives none. A statement that fails leaves a gap, as in PostgreSQL.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use lancegate_catalog::{Drawn, TableId};

use crate::error::{Result, SqlError};
use crate::exec::Engine;
use crate::sql::resolve::BoundTable;
use crate::sqlstate::SqlState;
use crate::storage::defaults::{self, Numbering};

/// The numbers that a session has drawn last, for `currval()` and `lastval()`.
#[derive(Debug, Default)]
pub(crate) struct Latest(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    of: HashMap<(TableId, i32), i64>,
    last: Option<i64>,
}

impl Latest {
    fn note(&self, sequence: (TableId, i32), number: i64) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.of.insert(sequence, number);
        state.last = Some(number);
    }

    pub(crate) fn of(&self, sequence: (TableId, i32)) -> Option<i64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).of.get(&sequence).copied()
    }

    pub(crate) fn last(&self) -> Option<i64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).last
    }
}

/// A sequence: the column that owns it.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    engine: Engine,
    in_table: BoundTable,
    column: String,
    field_id: i32,
    data_type: DataType,
    max: i64,
}

impl Sequence {
    /// Returns the sequence of a column, if it has one.
    ///
    /// # Errors
    /// 0A000 for one that this version does not know how to number.
    pub(crate) fn of(engine: &Engine, table: &BoundTable, field: &Field) -> Result<Option<Self>> {
        let Some(numbering) = defaults::numbering_of(field) else { return Ok(None) };
        let max = defaults::number_max(field.data_type()).filter(|_| numbering != Numbering::Unknown);
        let stored = table.dataset.schema().fields.iter().find(|stored| stored.name == *field.name());
        let (Some(max), Some(stored)) = (max, stored) else {
            let message = format!("column \"{}\" is numbered in a way that is not known here", field.name());
            return Err(SqlError::not_supported(message).hint("A later version of lancegate has declared it."));
        };
        Ok(Some(Self {
            engine: engine.clone(),
            in_table: table.clone(),
            column: field.name().clone(),
            field_id: stored.id,
            data_type: field.data_type().clone(),
            max,
        }))
    }

    /// Returns what names it in [`Latest`].
    pub(crate) fn key(&self) -> (TableId, i32) {
        (self.in_table.record.id, self.field_id)
    }

    /// Draws numbers that follow one another and returns the first.
    ///
    /// # Errors
    /// 2200H when there are not as many left, and if the metadata store fails.
    pub(crate) async fn draw(&self, count: u32, latest: &Latest) -> Result<i64> {
        let catalog = self.engine.catalog();
        let mut drawn = catalog.draw(self.in_table.record.id, self.field_id, count, self.max).await?;
        if drawn == Drawn::Unknown {
            // The table came with numbers that another store has given.
            let next = defaults::greatest(&self.in_table.dataset, &self.column)
                .await?
                .map_or(1, |greatest| greatest.saturating_add(1))
                .max(1);
            catalog.set_sequence(self.in_table.record.id, self.field_id, next, true).await?;
            drawn = catalog.draw(self.in_table.record.id, self.field_id, count, self.max).await?;
        }
        match drawn {
            Drawn::From(first) => {
                latest.note(self.key(), first + i64::from(count.max(1)) - 1);
                Ok(first)
            }
            Drawn::Exhausted => {
                let name = defaults::sequence_name(self.in_table.name(), &self.column);
                let message = format!("nextval: reached maximum value of sequence \"{name}\" ({})", self.max);
                Err(SqlError::new(SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED, message))
            }
            Drawn::Unknown => Err(SqlError::internal("a sequence is not known after it was begun")),
        }
    }

    /// Makes `value` the number that is drawn next, or that was drawn last.
    ///
    /// # Errors
    /// 22003 if it is not between 1 and the greatest; if the metadata store fails.
    pub(crate) async fn set(&self, value: i64, is_drawn: bool) -> Result<()> {
        let name = defaults::sequence_name(self.in_table.name(), &self.column);
        if value < 1 || value > self.max {
            let message = format!("setval: value {value} is out of bounds for sequence \"{name}\" (1..{})", self.max);
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        // None is above the greatest but one, so there is a number after it.
        let next = value + i64::from(is_drawn);
        Ok(self.engine.catalog().set_sequence(self.in_table.record.id, self.field_id, next, false).await?)
    }
}

/// What numbers the rows that are added to a table.
#[derive(Debug, Clone)]
pub(super) struct Numbers {
    sequences: Arc<Vec<Sequence>>,
    latest: Arc<Latest>,
}

impl Numbers {
    /// Returns it; nothing for a table without such columns.
    ///
    /// # Errors
    /// As [`Sequence::of`].
    pub(super) fn of(engine: &Engine, table: &BoundTable, latest: Option<&Arc<Latest>>) -> Result<Option<Self>> {
        let stored = Schema::from(table.dataset.schema());
        let found = stored.fields().iter().map(|field| Sequence::of(engine, table, field));
        let sequences: Vec<Sequence> = found.filter_map(Result::transpose).collect::<Result<_>>()?;
        let latest = latest.map(Arc::clone).unwrap_or_default();
        Ok((!sequences.is_empty()).then(|| Self { sequences: Arc::new(sequences), latest }))
    }

    /// Returns what numbers these columns alone; nothing without any of them.
    pub(super) fn only(&self, columns: &[String]) -> Option<Self> {
        let named = self.sequences.iter().filter(|sequence| columns.contains(&sequence.column));
        let sequences: Vec<Sequence> = named.cloned().collect();
        (!sequences.is_empty()).then(|| Self { sequences: Arc::new(sequences), latest: Arc::clone(&self.latest) })
    }

    /// Numbers the rows of a stream.
    pub(super) fn stream(self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let schema = self.schema(&rows.schema());
        let output = Arc::clone(&schema);
        let numbered = rows.then(move |batch| {
            let (numbers, schema) = (self.clone(), Arc::clone(&schema));
            async move {
                let numbered = numbers.number(&batch?, &schema).await;
                numbered.map_err(|error| DataFusionError::External(Box::new(error)))
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(output, numbered))
    }

    /// Returns the columns of rows with those that they lack.
    pub(super) fn schema(&self, given: &Schema) -> SchemaRef {
        let mut fields: Vec<Field> = given.fields().iter().map(|field| field.as_ref().clone()).collect();
        for sequence in self.sequences.iter() {
            let numbered = Field::new(&sequence.column, sequence.data_type.clone(), true);
            match given.index_of(&sequence.column) {
                Ok(at) => fields[at] = numbered,
                Err(_) => fields.push(numbered),
            }
        }
        Arc::new(Schema::new(fields))
    }

    /// Returns rows with a number where they had none; `schema` is what [`Self::schema`]
    /// makes of theirs.
    ///
    /// # Errors
    /// As [`Sequence::draw`].
    pub(super) async fn number(&self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
        for sequence in self.sequences.iter() {
            let at = batch.schema().index_of(&sequence.column).ok();
            let given = at.and_then(|at| columns.get(at).cloned());
            let missing = given.as_ref().map_or(batch.num_rows(), |given| given.logical_null_count());
            let count = u32::try_from(missing).map_err(|_| SqlError::internal("a batch has too many rows"))?;
            let first = if count == 0 { 1 } else { sequence.draw(count, &self.latest).await? };
            let given = given.map(|given| cast(&given, &DataType::Int64)).transpose()?;
            let given = given.as_ref().map(|given| given.as_primitive::<Int64Type>());
            let mut next = first..;
            let numbers: Int64Array = (0..batch.num_rows())
                .map(|row| match given.filter(|given| given.is_valid(row)) {
                    Some(given) => Some(given.value(row)),
                    None => next.next(),
                })
                .collect();
            let numbers = cast(&numbers, &sequence.data_type)?;
            match at {
                Some(at) => columns[at] = numbers,
                None => columns.push(numbers),
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }
}
