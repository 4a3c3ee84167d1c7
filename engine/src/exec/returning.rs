//! The rows that a change keeps for its RETURNING list.
//!
//! They are answered after the commit, so they are held in memory until then: within
//! the memory that all queries share, or the statement fails before it commits.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::cast;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::error::{Result, SqlError};
use crate::exec::{Engine, Outcome, RowsTag, query};
use crate::session::StatementContext;
use crate::sql::plan::dml::Returning;

/// See the module documentation. Clones keep for the same list.
#[derive(Debug, Clone)]
pub(super) struct Keeper {
    returning: Arc<Returning>,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug)]
struct Kept {
    batches: Vec<RecordBatch>,
    reservation: MemoryReservation,
}

impl Keeper {
    /// Returns a keeper, if there is a list to keep for.
    pub(super) fn of(engine: &Engine, returning: Option<&Returning>) -> Option<Self> {
        let returning = Arc::new(returning?.clone());
        let reservation = engine.memory("RETURNING");
        Some(Self { returning, kept: Arc::new(Mutex::new(Kept { batches: Vec::new(), reservation })) })
    }

    /// Keeps rows; columns of the table that the batch lacks are NULL.
    ///
    /// # Errors
    /// 53200 when the memory is used up.
    pub(super) fn keep(&self, batch: &RecordBatch) -> Result<()> {
        let columns = self.returning.rows().fields().iter().map(|field| match batch.column_by_name(field.name()) {
            Some(column) if column.data_type() == field.data_type() => Ok(Arc::clone(column)),
            Some(column) => Ok(cast(column, field.data_type())?),
            None => Ok(new_null_array(field.data_type(), batch.num_rows())),
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(self.returning.rows()), columns, &options)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.reservation.try_grow(rows.get_array_memory_size())?;
        kept.batches.push(rows);
        Ok(())
    }

    /// Forgets what was kept: the change is computed again.
    pub(super) fn reset(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.batches.clear();
        kept.reservation.free();
    }

    /// Answers the list over what was kept, under the tag of the change.
    ///
    /// # Errors
    /// What its expressions raise. The change is committed by then.
    pub(super) async fn answer(self, engine: &Engine, tag: String, ctx: &StatementContext) -> Result<Outcome> {
        let batches = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut kept.batches)
        };
        let plan = self.returning.over(batches)?;
        let rows = query::rows(engine, &plan, Vec::new(), ctx).await?;
        let schema = Arc::clone(self.returning.columns());
        let stream = query::described(rows, &schema);
        Ok(Outcome::Rows { schema, stream, tag: RowsTag::Fixed(tag) })
    }
}

/// Answers a change: its tag alone, or the rows of its list.
///
/// # Errors
/// As [`Keeper::answer`].
pub(super) async fn answer(
    keeper: Option<Keeper>,
    engine: &Engine,
    tag: String,
    ctx: &StatementContext,
) -> Result<Outcome, SqlError> {
    match keeper {
        Some(keeper) => keeper.answer(engine, tag, ctx).await,
        None => Ok(Outcome::Done(tag)),
    }
}
