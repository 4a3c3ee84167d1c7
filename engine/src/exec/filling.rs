//! Columns that rows from a client lack and that have a default.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use crate::sql::plan::dml::default::Filling;

/// Adds the columns to the rows.
pub(super) fn filled(rows: SendableRecordBatchStream, filling: &Filling) -> SendableRecordBatchStream {
    if filling.0.is_empty() {
        return rows;
    }
    let mut fields: Vec<FieldRef> = rows.schema().fields().iter().cloned().collect();
    fields.extend(filling.0.iter().map(|(field, _)| Arc::clone(field)));
    let schema = Arc::new(Schema::new(fields));
    let (output, filling) = (Arc::clone(&schema), filling.clone());
    let rows = rows.map(move |batch| with_columns(&batch?, &filling, &output));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

fn with_columns(batch: &RecordBatch, filling: &Filling, schema: &SchemaRef) -> Result<RecordBatch, DataFusionError> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let nothing = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
    let mut columns = batch.columns().to_vec();
    for (_, value) in &filling.0 {
        columns.push(value.evaluate(&nothing)?.into_array(batch.num_rows())?);
    }
    // Whether a value may be NULL is checked where the rows are written.
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}
