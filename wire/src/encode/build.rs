//! The downcast of an Arrow array into a [`Column`].

use arrow::array::types::{
    Decimal128Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalDayTimeType, IntervalMonthDayNanoType, IntervalYearMonthType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, PrimitiveArray, UInt64Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date64Type, Decimal32Type, Decimal64Type, Field, Fields, IntervalUnit, TimeUnit,
};

use super::column::{Column, Offsets, Values};
use crate::error::WireError;
use crate::types::{NUMERIC, WireType, wire_type};

/// Downcasts `array`, whose values are to be written as `wire`.
pub(crate) fn column(array: &ArrayRef, field: &Field, wire: WireType) -> Result<Column, WireError> {
    if array.data_type() != field.data_type() {
        return Err(unsupported(array.data_type()));
    }
    if let DataType::RunEndEncoded(_, values) = array.data_type() {
        let flat = flatten_runs(array)?;
        return column(&flat, values, wire);
    }
    if let DataType::ListView(item) | DataType::LargeListView(item) = array.data_type() {
        let flat = DataType::LargeList(std::sync::Arc::clone(item));
        let list = cast(array, &flat).map_err(internal)?;
        return column(&list, &Field::new(field.name(), flat, true), wire);
    }
    Ok(Column { nulls: array.nulls().cloned(), values: values(array, wire)?, wire })
}

fn values(array: &ArrayRef, wire: WireType) -> Result<Values, WireError> {
    Ok(match array.data_type() {
        DataType::Null => Values::Null,
        DataType::Boolean => Values::Bool(array.as_boolean().clone()),
        DataType::Int8 => Values::I8(primitive::<Int8Type>(array)),
        DataType::Int16 => Values::I16(primitive::<Int16Type>(array)),
        DataType::Int32 => Values::I32(primitive::<Int32Type>(array)),
        DataType::Int64 => Values::I64(primitive::<Int64Type>(array)),
        DataType::UInt8 => Values::U8(primitive::<UInt8Type>(array)),
        DataType::UInt16 => Values::U16(primitive::<UInt16Type>(array)),
        DataType::UInt32 => Values::U32(primitive::<UInt32Type>(array)),
        DataType::UInt64 => Values::U64(primitive::<UInt64Type>(array)),
        DataType::Float16 => Values::F16(primitive::<Float16Type>(array)),
        DataType::Float32 => Values::F32(primitive::<Float32Type>(array)),
        DataType::Float64 => Values::F64(primitive::<Float64Type>(array)),
        DataType::Decimal32(_, scale) => {
            let narrow = array.as_primitive::<Decimal32Type>();
            Values::Decimal(narrow.unary::<_, Decimal128Type>(i128::from), *scale)
        }
        DataType::Decimal64(_, scale) => {
            let narrow = array.as_primitive::<Decimal64Type>();
            Values::Decimal(narrow.unary::<_, Decimal128Type>(i128::from), *scale)
        }
        DataType::Decimal128(precision, scale) if (*precision, *scale) == NUMERIC => {
            Values::Numeric(primitive::<Decimal128Type>(array))
        }
        DataType::Decimal128(_, scale) => Values::Decimal(primitive::<Decimal128Type>(array), *scale),
        DataType::Decimal256(_, scale) => Values::Decimal256(array.as_primitive().clone(), *scale),
        DataType::Utf8 => Values::Utf8(array.as_string().clone()),
        DataType::LargeUtf8 => Values::LargeUtf8(array.as_string().clone()),
        DataType::Utf8View => Values::Utf8View(array.as_string_view().clone()),
        DataType::Binary => Values::Binary(array.as_binary().clone()),
        DataType::LargeBinary => Values::LargeBinary(array.as_binary().clone()),
        DataType::BinaryView => Values::BinaryView(array.as_binary_view().clone()),
        DataType::FixedSizeBinary(_) => Values::FixedBinary(array.as_fixed_size_binary().clone()),
        DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_)
        | DataType::Interval(_) => temporal(array)?,
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(_, _)
        | DataType::Struct(_)
        | DataType::Map(_, _)
        | DataType::Dictionary(_, _) => nested(array, wire)?,
        DataType::RunEndEncoded(_, _) | DataType::ListView(_) | DataType::LargeListView(_) | DataType::Union(_, _) => {
            return Err(unsupported(array.data_type()));
        }
    })
}

fn temporal(array: &ArrayRef) -> Result<Values, WireError> {
    Ok(match array.data_type() {
        DataType::Date32 => Values::Date(as_i32(array)?),
        DataType::Date64 => {
            let millis = array.as_primitive::<Date64Type>();
            // Saturation keeps days far outside PostgreSQL's range outside it.
            Values::Date(millis.unary(|millis| {
                let days = millis.div_euclid(86_400_000);
                i32::try_from(days).unwrap_or(if days < 0 { i32::MIN + 1 } else { i32::MAX - 1 })
            }))
        }
        DataType::Time32(unit) => {
            let narrow = as_i32(array)?;
            Values::Time(narrow.unary::<_, Int64Type>(i64::from), *unit)
        }
        DataType::Time64(unit) => Values::Time(as_i64(array)?, *unit),
        DataType::Timestamp(unit, _) => Values::Timestamp(as_i64(array)?, *unit),
        DataType::Duration(unit) => Values::Duration(as_i64(array)?, *unit),
        DataType::Interval(IntervalUnit::YearMonth) => {
            let months = array.as_primitive::<IntervalYearMonthType>();
            Values::Months(months.reinterpret_cast::<Int32Type>())
        }
        DataType::Interval(IntervalUnit::DayTime) => Values::DayTime(primitive::<IntervalDayTimeType>(array)),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            Values::MonthDayNano(primitive::<IntervalMonthDayNanoType>(array))
        }
        other => return Err(unsupported(other)),
    })
}

fn nested(array: &ArrayRef, wire: WireType) -> Result<Values, WireError> {
    Ok(match array.data_type() {
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let items = column(list.values(), item, item_type(item, wire))?;
            Values::List(Offsets::I32(list.offsets().clone()), Box::new(items))
        }
        DataType::LargeList(item) => {
            let list = array.as_list::<i64>();
            let items = column(list.values(), item, item_type(item, wire))?;
            Values::List(Offsets::I64(list.offsets().clone()), Box::new(items))
        }
        DataType::FixedSizeList(item, size) => {
            let list = array.as_fixed_size_list();
            let items = column(list.values(), item, item_type(item, wire))?;
            let size = usize::try_from(*size).unwrap_or(0);
            Values::List(Offsets::Fixed(size), Box::new(items))
        }
        DataType::Struct(fields) => Values::Struct(members(array.as_struct().columns(), fields)?),
        DataType::Map(_, _) => {
            let map = array.as_map();
            let (keys, values) = map.entries_fields();
            let keys = column(map.keys(), keys, wire_type(keys))?;
            let values = column(map.values(), values, wire_type(values))?;
            Values::Map(map.offsets().clone(), Box::new(keys), Box::new(values))
        }
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let values = dictionary.values();
            let field = Field::new("item", values.data_type().clone(), true);
            let column = column(values, &field, wire)?;
            // An empty dictionary has no key to clamp to: every row is NULL.
            if values.is_empty() {
                return Ok(Values::Null);
            }
            Values::Dictionary(dictionary.normalized_keys(), Box::new(column))
        }
        other => return Err(unsupported(other)),
    })
}

/// Items of an array have its element type, on every level; items of a list
/// that is JSON have their own.
fn item_type(item: &Field, list: WireType) -> WireType {
    if !list.array {
        return wire_type(item);
    }
    let array = matches!(
        item.data_type(),
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(_, _)
            | DataType::ListView(_)
            | DataType::LargeListView(_)
    );
    WireType { array, ..list }
}

fn members(arrays: &[ArrayRef], fields: &Fields) -> Result<Vec<(String, Column)>, WireError> {
    let members = arrays.iter().zip(fields);
    members
        .map(|(array, field)| {
            let column = column(array, field, wire_type(field))?;
            Ok((field.name().clone(), column))
        })
        .collect()
}

fn flatten_runs(array: &ArrayRef) -> Result<ArrayRef, WireError> {
    fn indices<R: arrow::datatypes::RunEndIndexType>(array: &ArrayRef) -> Option<(UInt64Array, ArrayRef)> {
        let runs = array.as_run_opt::<R>()?;
        let physical = (0..runs.len()).map(|row| runs.get_physical_index(row) as u64);
        let values = std::sync::Arc::clone(runs.values());
        Some((UInt64Array::from_iter_values(physical), values))
    }
    let (rows, values) = indices::<Int16Type>(array)
        .or_else(|| indices::<Int32Type>(array))
        .or_else(|| indices::<Int64Type>(array))
        .ok_or_else(|| unsupported(array.data_type()))?;
    take(&values, &rows, None).map_err(internal)
}

fn primitive<T: ArrowPrimitiveType>(array: &ArrayRef) -> PrimitiveArray<T> {
    array.as_primitive::<T>().clone()
}

fn as_i32(array: &ArrayRef) -> Result<Int32Array, WireError> {
    let integers = cast(array, &DataType::Int32).map_err(internal)?;
    Ok(integers.as_primitive::<Int32Type>().clone())
}

fn as_i64(array: &ArrayRef) -> Result<Int64Array, WireError> {
    let integers = cast(array, &DataType::Int64).map_err(internal)?;
    Ok(integers.as_primitive::<Int64Type>().clone())
}

/// Returns how many microseconds a tick has, or how many ticks a microsecond.
pub(crate) fn to_micros(ticks: i64, unit: TimeUnit) -> Option<i64> {
    match unit {
        TimeUnit::Second => ticks.checked_mul(1_000_000),
        TimeUnit::Millisecond => ticks.checked_mul(1_000),
        TimeUnit::Microsecond => Some(ticks),
        TimeUnit::Nanosecond => Some(ticks.div_euclid(1_000)),
    }
}

fn unsupported(data_type: &DataType) -> WireError {
    WireError::NotSupported(format!("values of Arrow type {data_type} cannot be sent"))
}

fn internal(error: arrow::error::ArrowError) -> WireError {
    WireError::Internal(error.to_string())
}
