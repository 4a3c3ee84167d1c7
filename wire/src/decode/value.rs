//! A decoded value, and its way into Arrow.

use std::sync::Arc;

use arrow::array::types::IntervalMonthDayNano;
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, FixedSizeBinaryBuilder,
    Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, NullArray,
    StringArray, Time64MicrosecondArray, TimestampMicrosecondArray, UInt32Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use arrow::datatypes::{DataType, Field, i256};

use super::numeric::Numeric;
use crate::error::WireError;
use crate::types::{arrow_type, oid};

/// A value of a parameter or of a COPY field.
#[derive(Debug, Clone, PartialEq)]
pub enum ParameterValue {
    /// NULL of any type.
    Null,
    /// `boolean`.
    Bool(bool),
    /// `smallint`.
    Int2(i16),
    /// `integer`.
    Int4(i32),
    /// `bigint`.
    Int8(i64),
    /// `oid` and the types that alias it.
    Oid(u32),
    /// `real`.
    Float4(f32),
    /// `double precision`.
    Float8(f64),
    /// `numeric`.
    Numeric(Numeric),
    /// `text` and its relatives, and values of unspecified type.
    Text(String),
    /// `json` or `jsonb`, checked.
    Json(String),
    /// `bytea`.
    Bytea(Vec<u8>),
    /// `date`: days from 1970-01-01; the ends of `i32` are the infinities.
    Date(i32),
    /// `time`: microseconds from midnight.
    Time(i64),
    /// `timestamp`: microseconds from 1970-01-01; the ends of `i64` are the
    /// infinities.
    Timestamp(i64),
    /// `timestamptz`, as `timestamp`, in UTC.
    Timestamptz(i64),
    /// `interval`.
    Interval {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// Microseconds.
        micros: i64,
    },
    /// `uuid`.
    Uuid([u8; 16]),
    /// An array. Values are in row-major order, as many as the product of the
    /// dimensions; an empty array has no dimension.
    Array {
        /// Type of the elements.
        element_oid: u32,
        /// Length of each dimension, outermost first.
        dimensions: Vec<usize>,
        /// Elements.
        values: Vec<ParameterValue>,
    },
}

impl ParameterValue {
    /// Returns the Arrow type that keeps the value unchanged.
    pub fn data_type(&self) -> DataType {
        natural_type(&[self])
    }

    /// Makes an array of one row.
    ///
    /// # Errors
    ///
    /// As [`array_from_values`].
    pub fn to_array(&self, data_type: &DataType) -> Result<ArrayRef, WireError> {
        convert(&[self], data_type)
    }
}

/// Makes an array of one row per value.
///
/// # Errors
///
/// [`WireError::OutOfRange`] if a value does not fit into `data_type`,
/// [`WireError::NotSupported`] if its type cannot be converted to it.
pub fn array_from_values(values: &[ParameterValue], data_type: &DataType) -> Result<ArrayRef, WireError> {
    convert(&values.iter().collect::<Vec<_>>(), data_type)
}

fn convert(values: &[&ParameterValue], data_type: &DataType) -> Result<ArrayRef, WireError> {
    let natural = natural_type(values);
    let array = build(values, &natural)?;
    if natural == *data_type {
        return Ok(array);
    }
    if !can_cast_types(&natural, data_type) {
        return Err(WireError::NotSupported(format!(
            "cannot convert a parameter of Arrow type {natural} to {data_type}"
        )));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&array, data_type, &options).map_err(|error| WireError::OutOfRange(error.to_string()))
}

/// Returns the narrowest type that keeps all values; values of one parameter
/// or column have one PostgreSQL type.
fn natural_type(values: &[&ParameterValue]) -> DataType {
    let first = values.iter().find(|value| !matches!(value, ParameterValue::Null));
    let type_oid = match first {
        None => return DataType::Null,
        Some(ParameterValue::Numeric(_)) => return numeric_type(values),
        Some(ParameterValue::Array { element_oid, dimensions, .. }) => {
            let items: Vec<_> = values.iter().flat_map(|value| elements(value)).collect();
            let leaf = match natural_type(&items) {
                DataType::Null => arrow_type(*element_oid).unwrap_or(DataType::Utf8),
                leaf => leaf,
            };
            return (0..dimensions.len().max(1)).fold(leaf, |item, _| list_of(item));
        }
        Some(ParameterValue::Null) => oid::TEXT,
        Some(ParameterValue::Bool(_)) => oid::BOOL,
        Some(ParameterValue::Int2(_)) => oid::INT2,
        Some(ParameterValue::Int4(_)) => oid::INT4,
        Some(ParameterValue::Int8(_)) => oid::INT8,
        Some(ParameterValue::Oid(_)) => oid::OID,
        Some(ParameterValue::Float4(_)) => oid::FLOAT4,
        Some(ParameterValue::Float8(_)) => oid::FLOAT8,
        Some(ParameterValue::Text(_) | ParameterValue::Json(_)) => oid::TEXT,
        Some(ParameterValue::Bytea(_)) => oid::BYTEA,
        Some(ParameterValue::Date(_)) => oid::DATE,
        Some(ParameterValue::Time(_)) => oid::TIME,
        Some(ParameterValue::Timestamp(_)) => oid::TIMESTAMP,
        Some(ParameterValue::Timestamptz(_)) => oid::TIMESTAMPTZ,
        Some(ParameterValue::Interval { .. }) => oid::INTERVAL,
        Some(ParameterValue::Uuid(_)) => oid::UUID,
    };
    arrow_type(type_oid).unwrap_or(DataType::Utf8)
}

fn elements(value: &ParameterValue) -> &[ParameterValue] {
    match value {
        ParameterValue::Array { values, .. } => values,
        _ => &[],
    }
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Field::new("item", item, true).into())
}

fn numeric_type(values: &[&ParameterValue]) -> DataType {
    let mut scale = 0;
    let mut whole = 1;
    for value in values {
        match value {
            ParameterValue::Numeric(Numeric::Finite { unscaled, scale: own }) => {
                let digits = unscaled.to_string().trim_start_matches('-').len();
                scale = scale.max(*own);
                whole = whole.max(digits.saturating_sub(*own as usize));
            }
            ParameterValue::Numeric(_) => return DataType::Float64,
            _ => {}
        }
    }
    if whole + scale as usize <= 38 {
        DataType::Decimal128(38, scale as i8)
    } else {
        DataType::Decimal256(76, scale.min(76) as i8)
    }
}

macro_rules! primitive {
    ($array:ty, $values:expr, $($pattern:pat => $value:expr),+) => {
        Arc::new($values.iter().map(|value| match value {
            $($pattern => Some($value),)+
            _ => None,
        }).collect::<$array>()) as ArrayRef
    };
}

fn build(values: &[&ParameterValue], data_type: &DataType) -> Result<ArrayRef, WireError> {
    use ParameterValue as V;
    Ok(match data_type {
        DataType::Null => Arc::new(NullArray::new(values.len())),
        DataType::Boolean => primitive!(BooleanArray, values, V::Bool(value) => *value),
        DataType::Int16 => primitive!(Int16Array, values, V::Int2(value) => *value),
        DataType::Int32 => primitive!(Int32Array, values, V::Int4(value) => *value),
        DataType::Int64 => primitive!(Int64Array, values, V::Int8(value) => *value),
        DataType::UInt32 => primitive!(UInt32Array, values, V::Oid(value) => *value),
        DataType::Float32 => primitive!(Float32Array, values, V::Float4(value) => *value),
        DataType::Float64 => primitive!(
            Float64Array, values,
            V::Float8(value) => *value,
            V::Numeric(value) => value.to_f64()
        ),
        DataType::Utf8 => primitive!(
            StringArray, values,
            V::Text(value) => value.as_str(),
            V::Json(value) => value.as_str()
        ),
        DataType::Binary => primitive!(BinaryArray, values, V::Bytea(value) => value.as_slice()),
        DataType::Date32 => primitive!(Date32Array, values, V::Date(value) => *value),
        DataType::Time64(_) => primitive!(Time64MicrosecondArray, values, V::Time(value) => *value),
        DataType::Timestamp(_, zone) => {
            let array = values
                .iter()
                .map(|value| match value {
                    V::Timestamp(value) | V::Timestamptz(value) => Some(*value),
                    _ => None,
                })
                .collect::<TimestampMicrosecondArray>();
            Arc::new(array.with_timezone_opt(zone.clone()))
        }
        DataType::Interval(_) => primitive!(
            IntervalMonthDayNanoArray, values,
            V::Interval { months, days, micros } => IntervalMonthDayNano {
                months: *months,
                days: *days,
                nanoseconds: micros.saturating_mul(1_000),
            }
        ),
        DataType::FixedSizeBinary(_) => uuids(values)?,
        DataType::Decimal128(precision, scale) => {
            let unscaled = rescaled(values, *scale)?;
            let narrow = unscaled.into_iter().map(|value| value.and_then(|value| value.to_i128()));
            let array = narrow.collect::<Decimal128Array>();
            Arc::new(array.with_precision_and_scale(*precision, *scale).map_err(internal)?)
        }
        DataType::Decimal256(precision, scale) => {
            let array = rescaled(values, *scale)?.into_iter().collect::<Decimal256Array>();
            Arc::new(array.with_precision_and_scale(*precision, *scale).map_err(internal)?)
        }
        DataType::List(item) => lists(values, item.data_type())?,
        other => return Err(WireError::Internal(format!("no builder for {other}"))),
    })
}

fn uuids(values: &[&ParameterValue]) -> Result<ArrayRef, WireError> {
    let mut builder = FixedSizeBinaryBuilder::new(16);
    for value in values {
        match value {
            ParameterValue::Uuid(bytes) => builder.append_value(bytes).map_err(internal)?,
            _ => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn rescaled(values: &[&ParameterValue], scale: i8) -> Result<Vec<Option<i256>>, WireError> {
    values
        .iter()
        .map(|value| match value {
            ParameterValue::Numeric(numeric) => numeric.rescale(scale.into()).map(Some),
            _ => Ok(None),
        })
        .collect()
}

/// Builds one level of lists; an array of n dimensions is a list of arrays of
/// n - 1 dimensions.
fn lists(values: &[&ParameterValue], item: &DataType) -> Result<ArrayRef, WireError> {
    let mut lengths = Vec::with_capacity(values.len());
    let mut slices = Vec::new();
    let mut leaves = Vec::new();
    for value in values {
        let ParameterValue::Array { element_oid, dimensions, values } = value else {
            lengths.push(0);
            continue;
        };
        lengths.push(dimensions.first().copied().unwrap_or(0));
        match dimensions.get(1..) {
            Some(rest) if !rest.is_empty() => {
                let size = rest.iter().product::<usize>().max(1);
                slices.extend(values.chunks(size).map(|chunk| ParameterValue::Array {
                    element_oid: *element_oid,
                    dimensions: rest.to_vec(),
                    values: chunk.to_vec(),
                }));
            }
            _ => leaves.extend(values),
        }
    }
    let items: Vec<&ParameterValue> = if slices.is_empty() { leaves } else { slices.iter().collect() };
    let nulls = values.iter().map(|value| matches!(value, ParameterValue::Array { .. })).collect::<NullBuffer>();
    let items = build(&items, item)?;
    let field = Arc::new(Field::new("item", item.clone(), true));
    let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
    let list = ListArray::try_new(field, offsets, items, Some(nulls)).map_err(internal)?;
    Ok(Arc::new(list))
}

fn internal(error: arrow::error::ArrowError) -> WireError {
    WireError::Internal(error.to_string())
}
