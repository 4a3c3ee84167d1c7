//! Functions that answer about the search path: which of its schemas there are
//! now (PostgreSQL, "Session Information Functions").

use std::sync::Arc;

use arrow::array::{ListArray, StringArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use datafusion::logical_expr::{ScalarUDF, Volatility};
use datafusion::scalar::ScalarValue;

use super::udf::RowFunction;

/// The functions. A schema may come or go between two statements of a session.
pub const NAMES: [&str; 2] = ["current_schema", "current_schemas"];

/// Returns the functions of one statement. `path` are the schemas of the search
/// path that exist, `explicit` those of them that objects can be made in.
pub fn functions(path: Vec<String>, explicit: Vec<String>) -> [ScalarUDF; 2] {
    let current = ScalarValue::Utf8(explicit.first().cloned());
    let (all, explicit) = (list(path), list(explicit));
    let schemas = RowFunction::define("current_schemas", &[1], all.data_type(), Volatility::Stable, move |arguments| {
        Ok(match arguments {
            [ScalarValue::Boolean(Some(true))] => all.clone(),
            _ => explicit.clone(),
        })
    });
    [RowFunction::constant("current_schema", current), schemas]
}

fn list(values: Vec<String>) -> ScalarValue {
    let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
    let offsets = OffsetBuffer::from_lengths([values.len()]);
    ScalarValue::List(Arc::new(ListArray::new(item, offsets, Arc::new(StringArray::from(values)), None)))
}
