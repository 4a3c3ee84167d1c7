//! SQL types of CREATE TABLE and ADD COLUMN as Arrow fields.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};
use lancegate_wire::types::{NUMERIC, PG_TYPE_KEY};
use sqlparser::ast::{ArrayElemTypeDef, DataType as SqlType, ExactNumberInfo, ObjectName, TimezoneInfo};

use crate::error::{Result, SqlError};
use crate::sqlstate::SqlState;

/// The numeric that holds most: what `numeric` without precision becomes.
const NUMERIC_PRECISION_MAX: u64 = 76;
/// The key under which Arrow names an extension type.
pub(crate) const EXTENSION_NAME: &str = "ARROW:extension:name";
/// Arrow's type of UUIDs.
pub(crate) const ARROW_UUID: &str = "arrow.uuid";

/// Returns the Arrow field of a column of a SQL type.
///
/// # Errors
/// 42704 for an unknown type, 0A000 for one that cannot be stored, 22023 for a
/// precision out of range.
pub fn field(name: &str, sql_type: &SqlType, nullable: bool) -> Result<Field> {
    let plain = |data_type| Ok(Field::new(name, data_type, nullable));
    match sql_type {
        SqlType::Uuid => Ok(marked(name, DataType::FixedSizeBinary(16), nullable, EXTENSION_NAME, ARROW_UUID)),
        // Text that is shown as json: Lance would turn Arrow's own JSON type
        // into a binary form that text functions cannot read.
        SqlType::JSON | SqlType::JSONB => Ok(marked(name, DataType::Utf8, nullable, PG_TYPE_KEY, "json")),
        SqlType::Array(element) => plain(array(element)?),
        other => plain(scalar(other)?),
    }
}

fn marked(name: &str, data_type: DataType, nullable: bool, key: &str, value: &str) -> Field {
    let metadata = HashMap::from([(key.to_owned(), value.to_owned())]);
    Field::new(name, data_type, nullable).with_metadata(metadata)
}

/// `real[]` is a list; `real[384]` is a vector of that length.
fn array(element: &ArrayElemTypeDef) -> Result<DataType> {
    let (element, length) = match element {
        ArrayElemTypeDef::SquareBracket(element, length) => (element, *length),
        ArrayElemTypeDef::AngleBracket(element) | ArrayElemTypeDef::Parenthesis(element) => (element, None),
        ArrayElemTypeDef::None => return Err(SqlError::not_supported("an array type needs an element type")),
    };
    let item = Arc::new(field("item", element, true)?);
    let Some(length) = length else { return Ok(DataType::List(item)) };
    let length = i32::try_from(length)
        .ok()
        .filter(|length| *length > 0)
        .ok_or_else(|| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid vector length {length}")))?;
    Ok(DataType::FixedSizeList(item, length))
}

fn scalar(sql_type: &SqlType) -> Result<DataType> {
    Ok(match sql_type {
        SqlType::Boolean | SqlType::Bool => DataType::Boolean,
        SqlType::TinyInt(_) => DataType::Int8,
        SqlType::SmallInt(_) | SqlType::Int2(_) => DataType::Int16,
        SqlType::Int(_) | SqlType::Integer(_) | SqlType::Int4(_) => DataType::Int32,
        SqlType::BigInt(_) | SqlType::Int8(_) => DataType::Int64,
        SqlType::TinyIntUnsigned(_) => DataType::UInt8,
        SqlType::SmallIntUnsigned(_) => DataType::UInt16,
        SqlType::IntUnsigned(_) | SqlType::IntegerUnsigned(_) => DataType::UInt32,
        SqlType::BigIntUnsigned(_) => DataType::UInt64,
        SqlType::Real | SqlType::Float4 => DataType::Float32,
        SqlType::Float(ExactNumberInfo::Precision(bits)) if *bits <= 24 => DataType::Float32,
        SqlType::Float(_) | SqlType::Double(_) | SqlType::DoublePrecision | SqlType::Float8 => DataType::Float64,
        SqlType::Text
        | SqlType::Varchar(_)
        | SqlType::CharVarying(_)
        | SqlType::CharacterVarying(_)
        | SqlType::Nvarchar(_)
        | SqlType::Char(_)
        | SqlType::Character(_)
        | SqlType::String(_) => DataType::Utf8,
        SqlType::Bytea | SqlType::Binary(_) | SqlType::Varbinary(_) | SqlType::Blob(_) => DataType::Binary,
        SqlType::Numeric(info) | SqlType::Decimal(info) | SqlType::Dec(info) => numeric(info)?,
        SqlType::Date => DataType::Date32,
        SqlType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => DataType::Time64(TimeUnit::Microsecond),
        SqlType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        SqlType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
            DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC")))
        }
        SqlType::Custom(name, arguments) => custom(name, arguments)?,
        other => return Err(SqlError::not_supported(format!("columns of type {other} are not supported"))),
    })
}

fn numeric(info: &ExactNumberInfo) -> Result<DataType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => return Ok(DataType::Decimal128(NUMERIC.0, NUMERIC.1)),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    if precision == 0 || precision > NUMERIC_PRECISION_MAX {
        let message = format!("NUMERIC precision {precision} must be between 1 and {NUMERIC_PRECISION_MAX}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let scale = i8::try_from(scale).ok().filter(|scale| i64::from(*scale) <= precision as i64 && *scale >= 0);
    let scale = scale.ok_or_else(|| {
        let message = format!("NUMERIC scale must be between 0 and precision {precision}");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })?;
    let digits = precision as u8;
    Ok(if digits <= 38 { DataType::Decimal128(digits, scale) } else { DataType::Decimal256(digits, scale) })
}

/// Type names that the native parser has no word for: `timestamptz` is one in
/// some dialects, `vector(384)` is pgvector's.
fn custom(name: &ObjectName, arguments: &[String]) -> Result<DataType> {
    let base = name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.to_ascii_lowercase());
    let base = base.unwrap_or_default();
    Ok(match (base.as_str(), arguments) {
        ("timestamptz", _) => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
        ("float4", _) => DataType::Float32,
        ("float8", _) => DataType::Float64,
        ("int2", _) => DataType::Int16,
        ("int4", _) => DataType::Int32,
        ("int8", _) => DataType::Int64,
        ("bool", _) => DataType::Boolean,
        ("text" | "varchar" | "bpchar" | "name" | "char", _) => DataType::Utf8,
        ("bytea", _) => DataType::Binary,
        ("date", _) => DataType::Date32,
        ("numeric", _) => DataType::Decimal128(NUMERIC.0, NUMERIC.1),
        ("vector", [length]) => {
            let length = length.parse().ok().filter(|length: &i32| *length > 0).ok_or_else(|| {
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid vector length {length}"))
            })?;
            DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Float32, true)), length)
        }
        _ => return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))),
    })
}

/// Returns the type that a query's column is stored as: Lance keeps no view
/// types, and what has no type is text.
pub fn stored(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Null | DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) => {
            let item = item.as_ref().clone();
            let inner = stored(item.data_type());
            DataType::List(Arc::new(item.with_data_type(inner)))
        }
        DataType::FixedSizeList(item, length) => {
            let item = item.as_ref().clone();
            let inner = stored(item.data_type());
            DataType::FixedSizeList(Arc::new(item.with_data_type(inner)), *length)
        }
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| {
                let field = field.as_ref().clone();
                let inner = stored(field.data_type());
                field.with_data_type(inner)
            });
            DataType::Struct(fields.collect())
        }
        DataType::Dictionary(_, value) => stored(value),
        other => other.clone(),
    }
}
