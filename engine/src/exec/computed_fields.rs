//! Computed fields inside columns, in statements that write the whole column.
//!
//! Writing the column is how its other fields change, so it is allowed; a value
//! for the computed field is not, as for any generated column (428C9). INSERT
//! leaves it NULL for the next refresh, UPDATE leaves what is stored. A column that
//! becomes NULL has no fields; when it is no longer NULL, the next refresh sees that
//! it was.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::compute::{is_null, nullif};
use arrow::datatypes::{DataType, Field};

use crate::error::{Result, SqlError};
use crate::sql::plan::dml::{non_default, only_default};
use crate::storage::computed::{holds_computed, is_computed};
use crate::storage::nested;

/// Refuses rows of an INSERT that give a computed field inside `column` a value.
///
/// # Errors
/// 428C9.
pub(super) fn ensure_none_given(table: &str, column: &Field, given: &ArrayRef) -> Result<()> {
    if !holds_computed(column) {
        return Ok(());
    }
    visit(&mut vec![column.name()], column, given, &mut |path, values| {
        let given = values.null_count() < values.len();
        if given { Err(non_default(path, table)) } else { Ok(()) }
    })
}

/// Returns what an UPDATE writes to `column`: what it gives, with the computed
/// fields that are stored. Giving a computed field the value that it has, as
/// `SET info = info` does, gives it none.
///
/// # Errors
/// 428C9 for another value.
pub(super) fn keep(table: &str, column: &Field, given: &ArrayRef, stored: &ArrayRef) -> Result<ArrayRef> {
    keep_below(&mut vec![column.name()], table, column, given, stored)
}

fn keep_below<'a>(
    path: &mut Vec<&'a str>,
    table: &str,
    field: &'a Field,
    given: &ArrayRef,
    stored: &ArrayRef,
) -> Result<ArrayRef> {
    if is_computed(field) {
        let same = |row| given.is_null(row) || given.slice(row, 1).to_data() == stored.slice(row, 1).to_data();
        return match (0..given.len()).all(same) {
            true => Ok(Arc::clone(stored)),
            false => Err(only_default(&nested::path_text(path), table)),
        };
    }
    let DataType::Struct(fields) = field.data_type() else { return Ok(Arc::clone(given)) };
    if !holds_computed(field) {
        return Ok(Arc::clone(given));
    }
    let (given, stored) = (as_struct(given)?, as_struct(stored)?);
    let mut children = Vec::with_capacity(fields.len());
    for (index, child) in fields.iter().enumerate() {
        path.push(child.name());
        let kept = keep_below(path, table, child, &visible(given, index)?, &visible(stored, index)?)?;
        path.pop();
        children.push(kept);
    }
    Ok(Arc::new(StructArray::try_new(fields.clone(), children, given.nulls().cloned())?))
}

fn visit<'a>(
    path: &mut Vec<&'a str>,
    field: &'a Field,
    given: &ArrayRef,
    found: &mut impl FnMut(&str, &ArrayRef) -> Result<()>,
) -> Result<()> {
    if is_computed(field) {
        // A computed column itself is refused when the statement is planned.
        return if path.len() > 1 { found(&nested::path_text(path), given) } else { Ok(()) };
    }
    let DataType::Struct(fields) = field.data_type() else { return Ok(()) };
    let given = as_struct(given)?;
    for (index, child) in fields.iter().enumerate() {
        path.push(child.name());
        visit(path, child, &visible(given, index)?, found)?;
        path.pop();
    }
    Ok(())
}

/// Returns the values of a field, NULL where the struct is.
fn visible(parent: &StructArray, index: usize) -> Result<ArrayRef> {
    Ok(nullif(parent.column(index), &is_null(parent)?)?)
}

fn as_struct(array: &ArrayRef) -> Result<&StructArray> {
    array.as_struct_opt().ok_or_else(|| SqlError::internal(format!("a struct came as {}", array.data_type())))
}
