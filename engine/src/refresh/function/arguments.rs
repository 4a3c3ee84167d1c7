//! From the columns of a batch to the arguments of a call.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::scalar::ScalarValue;
use lancegate_functions::Definition;

use crate::refresh::RefreshError;
use crate::refresh::expression::{Evaluator, ExpressionError};
use crate::storage::computed::Argument;
use crate::storage::nested;

/// Where the values of a parameter come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// A column of the batch, or a field inside one.
    Path(Vec<String>),
    /// The same value for each row.
    Constant(ScalarValue),
}

/// Evaluates an expression without columns to one value of a type.
///
/// # Errors
/// As an expression of a computed column; also one that names a column.
pub fn constant(text: &str, data_type: &DataType) -> Result<ScalarValue, ExpressionError> {
    let nothing: SchemaRef = Arc::new(Schema::empty());
    let evaluator = Evaluator::new(text, Arc::clone(&nothing), data_type)?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(nothing, vec![], &options).map_err(DataFusionError::from)?;
    Ok(ScalarValue::try_from_array(&evaluator.evaluate(&row)?, 0)?)
}

/// Prepares the arguments of a binding.
///
/// # Errors
/// What a literal raises.
pub(super) fn sources(arguments: &[Argument], definition: &Definition) -> Result<Vec<Source>, ExpressionError> {
    let parameters = definition.parameters.iter();
    let source = |(argument, parameter): (&Argument, &lancegate_functions::definition::Parameter)| match argument {
        Argument::Column(path) => Ok(Source::Path(nested::parts(path))),
        Argument::Literal { literal } => constant(literal, &parameter.arrow_type.0).map(Source::Constant),
    };
    arguments.iter().zip(parameters).map(source).collect()
}

/// Returns the arguments for the rows of a batch, one column for each parameter.
///
/// # Errors
/// If a column is not there.
pub(super) fn batch(
    sources: &[Source],
    definition: &Definition,
    batch: &RecordBatch,
) -> Result<RecordBatch, RefreshError> {
    let rows = batch.num_rows();
    let failed = |error: DataFusionError| RefreshError::Evaluate(error);
    let column = |source: &Source| match source {
        Source::Path(path) => at(batch, path).map_err(|error| failed(error.into())),
        Source::Constant(value) => value.to_array_of_size(rows).map_err(failed),
    };
    let columns = sources.iter().map(column).collect::<Result<Vec<ArrayRef>, _>>()?;
    let parameters = definition.input_schema();
    let fields = parameters.fields().iter().zip(&columns);
    let fields = fields
        .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()).with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(|error| failed(error.into()))
}

/// Returns a field inside a column; it is NULL where something around it is.
pub(super) fn at(batch: &RecordBatch, path: &[String]) -> Result<ArrayRef, ArrowError> {
    let missing = || ArrowError::SchemaError(format!("column \"{}\" was not read", path.join(".")));
    let (root, inner) = path.split_first().ok_or_else(missing)?;
    let mut column = Arc::clone(batch.column_by_name(root).ok_or_else(missing)?);
    for name in inner {
        let outer = column.as_struct_opt().ok_or_else(missing)?;
        let field = outer.column_by_name(name).ok_or_else(missing)?;
        let nulls = NullBuffer::union(field.nulls(), outer.nulls());
        column = make_array(field.to_data().into_builder().nulls(nulls).build()?);
    }
    Ok(column)
}
