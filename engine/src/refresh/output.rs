//! The computed column inside the batches that a stage reads and writes.
//!
//! A column of the table is an array of its own. The columns that a Function fills together are computed as one struct,
//! which is taken apart where it is written; a row without a struct has NULL in all of them. A field inside a struct column is
//! read together with its siblings, whose only use is to say which rows have a
//! struct, and is written inside that struct: where a row has none, it has no
//! value of the field either.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StructArray, make_array, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;

use super::snapshot::Snapshot;
use crate::storage::nested;

/// See the module documentation.
#[derive(Debug, Clone)]
pub(super) struct Output {
    schema: SchemaRef,
    path: Vec<String>,
    data_type: DataType,
    /// The columns of several outputs, in the order of the struct; empty for one.
    columns: Vec<String>,
}

impl Output {
    /// Returns the output of a snapshot's column.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let columns = snapshot.output_names();
        Self {
            schema: Arc::new(Schema::from(&snapshot.output_schema())),
            path: nested::parts(&snapshot.column.name),
            data_type: snapshot.value_type(),
            columns: if columns.len() > 1 { columns } else { Vec::new() },
        }
    }

    /// Returns NULL for every row.
    pub(super) fn null(&self, rows: usize) -> ArrayRef {
        new_null_array(&self.data_type, rows)
    }

    /// Returns the values that a batch read from the table holds.
    pub(super) fn stored(&self, batch: &RecordBatch) -> ArrayRef {
        if let DataType::Struct(fields) = &self.data_type
            && !self.columns.is_empty()
        {
            let column = |(name, field): (&String, &Arc<Field>)| match batch.column_by_name(name) {
                Some(column) => Arc::clone(column),
                None => new_null_array(field.data_type(), batch.num_rows()),
            };
            let columns = self.columns.iter().zip(fields).map(column).collect();
            return Arc::new(StructArray::new(fields.clone(), columns, None));
        }
        let (root, inner) = self.path.split_first().expect("a path is never empty");
        let mut column = batch.column_by_name(root);
        for name in inner {
            column = column.and_then(|column| column.as_struct_opt()).and_then(|column| column.column_by_name(name));
        }
        column.map_or_else(|| self.null(batch.num_rows()), Arc::clone)
    }

    /// Returns values as the batch to write; `read` is what was read for these rows.
    ///
    /// # Errors
    /// If the values are not of the column's type.
    pub(super) fn batch(&self, values: ArrayRef, read: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        if !self.columns.is_empty() {
            return self.apart(&values);
        }
        let (root, inner) = self.path.split_first().expect("a path is never empty");
        let field = self.schema.field(0);
        let column = wrap(field, inner, values, read.column_by_name(root))?;
        RecordBatch::try_new(Arc::clone(&self.schema), vec![column])
    }
}

impl Output {
    /// Makes columns of the fields of a struct.
    fn apart(&self, values: &ArrayRef) -> Result<RecordBatch, ArrowError> {
        let missing = || ArrowError::SchemaError("the result is no struct of the outputs".to_owned());
        let values = values.as_struct_opt().ok_or_else(missing)?;
        let column = |field: &Arc<Field>| {
            let position = self.columns.iter().position(|name| name == field.name());
            let column = position.and_then(|position| values.columns().get(position)).ok_or_else(missing)?;
            let nulls = NullBuffer::union(column.nulls(), values.nulls());
            Ok(make_array(column.to_data().into_builder().nulls(nulls).build()?))
        };
        let columns = self.schema.fields().iter().map(column).collect::<Result<Vec<_>, ArrowError>>()?;
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }
}

/// Puts values inside the structs of a path, NULL where the read ones are.
fn wrap(field: &Field, path: &[String], values: ArrayRef, read: Option<&ArrayRef>) -> Result<ArrayRef, ArrowError> {
    let (Some((name, rest)), DataType::Struct(children)) = (path.split_first(), field.data_type()) else {
        return Ok(values);
    };
    let read = read.and_then(|read| read.as_struct_opt());
    let inner = wrap(&children[0], rest, values, read.and_then(|read| read.column_by_name(name)))?;
    let nulls = read.and_then(|read| read.nulls().cloned());
    Ok(Arc::new(StructArray::try_new(children.clone(), vec![inner], nulls)?))
}

/// Returns the batch with fields inside structs that say nothing but name and
/// type: their metadata is part of Arrow's type, and a refresh changes it.
///
/// # Errors
/// Internal errors only.
pub(super) fn without_metadata(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    let fields: Vec<Field> = schema.fields().iter().map(|field| plain(field)).collect();
    project(batch, &Arc::new(Schema::new(fields)))
}

fn plain(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Struct(children) => DataType::Struct(children.iter().map(|child| plain(child)).collect()),
        other => other.clone(),
    };
    Field::new(field.name(), data_type, field.is_nullable())
}

/// Returns the columns of `wanted` out of a batch that may hold more of each, by name.
///
/// # Errors
/// If one is not there.
pub(super) fn project(batch: &RecordBatch, wanted: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = pick(wanted.fields(), &|name| batch.column_by_name(name))?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(wanted), columns, &options)
}

fn pick<'a>(fields: &Fields, column: &dyn Fn(&str) -> Option<&'a ArrayRef>) -> Result<Vec<ArrayRef>, ArrowError> {
    let picked = fields.iter().map(|field| {
        let missing = || ArrowError::SchemaError(format!("column \"{}\" was not read", field.name()));
        let found = column(field.name()).ok_or_else(missing)?;
        if found.data_type() == field.data_type() {
            return Ok(Arc::clone(found));
        }
        let (DataType::Struct(children), Some(outer)) = (field.data_type(), found.as_struct_opt()) else {
            return Ok(Arc::clone(found));
        };
        let inner = pick(children, &|name| outer.column_by_name(name))?;
        Ok(Arc::new(StructArray::try_new(children.clone(), inner, outer.nulls().cloned())?) as ArrayRef)
    });
    picked.collect()
}
