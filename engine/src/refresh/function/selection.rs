//! Which rows of a batch a Function is called with, and in which order: FILTER, IGNORE NULLS and OVER of its binding.
//!
//! A row that is left out is NULL. It is current all the same: what the filter reads is among the inputs of the column,
//! so a change that lets the row in makes it stale.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{take, take_record_batch};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use lancegate_functions::{Evaluated, ExecutorError};

use super::arguments::{Source, at};
use crate::refresh::RefreshError;
use crate::refresh::expression::{Evaluator, ExpressionError};
use crate::storage::computed::Application;
use crate::storage::nested;

/// See the module documentation.
#[derive(Debug, Clone, Default)]
pub(super) struct Selection {
    filter: Option<Evaluator>,
    ignore_nulls: bool,
    partition_by: Vec<Vec<String>>,
}

/// The rows of a batch that are called, in the order of the call, and the sizes of the groups that follow each other.
#[derive(Debug, PartialEq)]
pub(super) struct Chosen {
    rows: Vec<u32>,
    groups: Vec<usize>,
    /// Rows of the batch.
    all: usize,
}

impl Selection {
    /// Prepares the clauses of a binding for batches of these columns.
    ///
    /// # Errors
    /// A filter that does not fit the columns any more.
    pub(super) fn new(application: &Application, inputs: &SchemaRef) -> Result<Self, ExpressionError> {
        let evaluator = |text: &String| Evaluator::new(text, SchemaRef::clone(inputs), &DataType::Boolean);
        Ok(Self {
            filter: application.filter.as_ref().map(evaluator).transpose()?,
            ignore_nulls: application.ignore_nulls,
            partition_by: application.partition_by.iter().map(|path| nested::parts(path)).collect(),
        })
    }

    /// Chooses rows of a batch, whose arguments are `arguments`; `None` is all of them as they stand.
    ///
    /// # Errors
    /// What the filter raises.
    pub(super) fn choose(
        &self,
        batch: &RecordBatch,
        sources: &[Source],
        arguments: &RecordBatch,
    ) -> Result<Option<Chosen>, RefreshError> {
        if self.filter.is_none() && !self.ignore_nulls && self.partition_by.is_empty() {
            return Ok(None);
        }
        let passes = match &self.filter {
            Some(filter) => Some(filter.evaluate(batch).map_err(RefreshError::Evaluate)?),
            None => None,
        };
        let passes: Option<&BooleanArray> = passes.as_ref().map(|passes| passes.as_boolean());
        let columns = sources.iter().zip(arguments.columns()).filter(|(source, _)| matches!(source, Source::Path(_)));
        let strict: Vec<&ArrayRef> =
            if self.ignore_nulls { columns.map(|(_, column)| column).collect() } else { Vec::new() };
        let called = |row: &usize| {
            passes.is_none_or(|passes| passes.is_valid(*row) && passes.value(*row))
                && strict.iter().all(|column| column.is_valid(*row))
        };
        let rows: Vec<usize> = (0..batch.num_rows()).filter(called).collect();
        self.grouped(batch, rows).map(Some).map_err(|error| RefreshError::Evaluate(error.into()))
    }

    /// Puts rows with the same values next to each other, otherwise as they stand.
    fn grouped(&self, batch: &RecordBatch, mut rows: Vec<usize>) -> Result<Chosen, ArrowError> {
        let all = batch.num_rows();
        let mut groups = vec![rows.len()];
        if !self.partition_by.is_empty() {
            let columns = self.partition_by.iter().map(|path| at(batch, path)).collect::<Result<Vec<_>, _>>()?;
            let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
            let keys = RowConverter::new(fields)?.convert_columns(&columns)?;
            rows.sort_by(|one, two| keys.row(*one).cmp(&keys.row(*two)));
            groups = rows.chunk_by(|one, two| keys.row(*one) == keys.row(*two)).map(<[usize]>::len).collect();
        }
        let number = |row| u32::try_from(row).map_err(|_| ArrowError::ComputeError("a batch is too large".to_owned()));
        Ok(Chosen { rows: rows.into_iter().map(number).collect::<Result<_, _>>()?, groups, all })
    }
}

impl Chosen {
    pub(super) fn groups(&self) -> &[usize] {
        &self.groups
    }

    /// Returns the chosen rows of the arguments.
    ///
    /// # Errors
    /// What Arrow reports.
    pub(super) fn of(&self, arguments: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        take_record_batch(arguments, &UInt32Array::from(self.rows.clone()))
    }

    /// Puts values and errors back to where their rows stand in the batch; the other rows are NULL.
    ///
    /// # Errors
    /// What Arrow reports.
    pub(super) fn scatter(&self, mut evaluated: Evaluated) -> Result<Evaluated, ArrowError> {
        let mut places: Vec<Option<u32>> = vec![None; self.all];
        for (place, row) in (0..).zip(&self.rows) {
            places[*row as usize] = Some(place);
        }
        evaluated.values = take(&evaluated.values, &UInt32Array::from(places), None)?;
        for error in &mut evaluated.errors {
            error.row = self.rows[error.row] as usize;
        }
        evaluated.errors.sort_by_key(|error| error.row);
        Ok(evaluated)
    }

    /// Names the first row of a failed call by its place in the batch.
    pub(super) fn placed(&self, error: ExecutorError) -> ExecutorError {
        match error {
            ExecutorError::Row { rows, raised } => {
                let row = self.rows[rows.start] as usize;
                ExecutorError::Row { rows: row..row + 1, raised }
            }
            other => other,
        }
    }
}

/// Whether rows can be put together by values of a type.
pub fn groups_by(data_type: &DataType) -> bool {
    RowConverter::supports_fields(&[SortField::new(data_type.clone())])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{Field, Schema};
    use lancegate_functions::{Raised, RowError};

    use super::*;

    fn batch() -> RecordBatch {
        let schema = Schema::new(vec![Field::new("x", DataType::Int64, true), Field::new("c", DataType::Utf8, true)]);
        let x = Int64Array::from(vec![Some(0), None, Some(2), Some(3), Some(4), Some(5)]);
        let c = StringArray::from(vec![Some("b"), Some("a"), None, Some("a"), Some("b"), None]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(x), Arc::new(c)]).unwrap()
    }

    fn choose(application: Application) -> Option<(Vec<u32>, Vec<usize>)> {
        let batch = batch();
        let selection = Selection::new(&application, &batch.schema()).unwrap();
        let sources = [Source::Path(vec!["x".to_owned()])];
        let chosen = selection.choose(&batch, &sources, &batch.project(&[0]).unwrap()).unwrap();
        chosen.map(|chosen| (chosen.rows, chosen.groups))
    }

    #[test]
    fn clauses_choose_rows_and_keep_groups_together() {
        let partition_by = vec!["c".to_owned()];
        assert_eq!(choose(Application::default()), None);
        let filter = Application { filter: Some("x > 2 OR x IS NULL".to_owned()), ..Application::default() };
        assert_eq!(choose(filter.clone()), Some((vec![1, 3, 4, 5], vec![4])), "a NULL of the predicate is no match");
        assert_eq!(choose(Application { ignore_nulls: true, ..filter.clone() }), Some((vec![3, 4, 5], vec![3])));
        let groups = Application { partition_by: partition_by.clone(), ..Application::default() };
        assert_eq!(choose(groups), Some((vec![2, 5, 1, 3, 0, 4], vec![2, 2, 2])), "NULL is a group");
        let none = Application { filter: Some("x > 9".to_owned()), partition_by, ..Application::default() };
        assert_eq!(choose(none), Some((vec![], vec![])));
    }

    #[test]
    fn values_go_back_to_their_rows() {
        let chosen = Chosen { rows: vec![4, 1, 3], groups: vec![2, 1], all: 5 };
        let values = Arc::new(Int64Array::from(vec![Some(40), None, Some(30)]));
        let raised = Raised { error_type: "E".to_owned(), ..Raised::default() };
        let errors = vec![RowError { row: 1, raised: raised.clone(), quarantined: false }];
        let scattered = chosen.scatter(Evaluated { values, errors }).unwrap();
        let expected: ArrayRef = Arc::new(Int64Array::from(vec![None, None, None, Some(30), Some(40)]));
        assert_eq!((&scattered.values, scattered.errors[0].row), (&expected, 1));
        let placed = chosen.placed(ExecutorError::Row { rows: 2..3, raised });
        assert!(matches!(placed, ExecutorError::Row { rows, .. } if rows == (3..4)));
    }
}
