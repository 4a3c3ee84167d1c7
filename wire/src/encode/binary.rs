//! Binary form of one value, as PostgreSQL's send functions write it.

use bytes::{BufMut, BytesMut};

use super::build::to_micros;
use super::column::{Column, Values};
use super::datetime::{self, Moment};
use super::{array, json, numeric, text};
use crate::error::WireError;
use crate::settings::{Format, FormatSettings};
use crate::types::oid;

/// Appends the binary form of a value that is not NULL.
pub(crate) fn write(
    column: &Column,
    row: usize,
    settings: &FormatSettings,
    out: &mut BytesMut,
) -> Result<(), WireError> {
    match &column.values {
        Values::Bool(array) => out.put_u8(array.value(row).into()),
        Values::I32(array) if column.wire.element.oid == oid::INT4 => out.put_i32(array.value(row)),
        Values::I64(array) if column.wire.element.oid == oid::INT8 => out.put_i64(array.value(row)),
        Values::I8(_)
        | Values::I16(_)
        | Values::I32(_)
        | Values::I64(_)
        | Values::U8(_)
        | Values::U16(_)
        | Values::U32(_)
        | Values::U64(_) => write_integer(column, row, out)?,
        Values::F16(array) => out.put_f32(array.value(row).to_f32()),
        Values::F32(array) => out.put_f32(array.value(row)),
        Values::F64(array) => out.put_f64(array.value(row)),
        Values::Decimal(array, scale) => {
            numeric::put_i128(out, array.value(row), *scale, Format::Binary);
        }
        Values::Numeric(array) => numeric::put_unconstrained(out, array.value(row), Format::Binary),
        Values::Decimal256(array, scale) => {
            numeric::put_i256(out, array.value(row), *scale, Format::Binary);
        }
        Values::Utf8(_) | Values::LargeUtf8(_) | Values::Utf8View(_) => {
            write_str(column, column.str_at(row).unwrap_or_default(), settings, out)?;
        }
        Values::Binary(_) | Values::LargeBinary(_) | Values::BinaryView(_) | Values::FixedBinary(_) => {
            out.put_slice(column.bytes_at(row).unwrap_or_default())
        }
        Values::Date(array) => out.put_i32(match datetime::date(array.value(row))? {
            Moment::NegInfinity => i32::MIN,
            Moment::Finite(days) => days - datetime::EPOCH_DAYS,
            Moment::Infinity => i32::MAX,
        }),
        Values::Time(array, unit) => out.put_i64(text::time(array.value(row), *unit)?),
        Values::Timestamp(array, unit) => {
            let timestamp = datetime::timestamp(to_micros(array.value(row), *unit))?;
            out.put_i64(match timestamp {
                Moment::NegInfinity => i64::MIN,
                Moment::Finite(micros) => micros - datetime::EPOCH_MICROS,
                Moment::Infinity => i64::MAX,
            });
        }
        Values::Duration(..) | Values::Months(_) | Values::DayTime(_) | Values::MonthDayNano(_) => {
            let (months, days, micros) = text::interval(column, row)?;
            out.put_i64(micros);
            out.put_i32(days);
            out.put_i32(months);
        }
        Values::List(..) if column.wire.array => array::write_binary(column, row, settings, out)?,
        Values::List(..) | Values::Struct(_) | Values::Map(..) => {
            json::write(column, row, settings, out)?;
        }
        // `resolve` looks through dictionaries and reports NULL.
        Values::Null | Values::Dictionary(..) => {}
    }
    Ok(())
}

/// Appends an integer in the width of its PostgreSQL type.
fn write_integer(column: &Column, row: usize, out: &mut BytesMut) -> Result<(), WireError> {
    let value = column.integer_at(row).unwrap_or_default();
    let element = column.wire.element;
    let out_of_range = || WireError::NumberOutOfRange { type_name: element.sql_name, value: value.to_string() };
    match element.oid {
        oid::INT2 => out.put_i16(i16::try_from(value).map_err(|_| out_of_range())?),
        oid::INT4 => out.put_i32(i32::try_from(value).map_err(|_| out_of_range())?),
        oid::INT8 => out.put_i64(i64::try_from(value).map_err(|_| out_of_range())?),
        oid::NUMERIC => numeric::put_i128(out, value, 0, Format::Binary),
        // Object ids are unsigned; catalogs may keep them in a signed column.
        _ => match u32::try_from(value) {
            Ok(value) => out.put_u32(value),
            Err(_) => out.put_i32(i32::try_from(value).map_err(|_| out_of_range())?),
        },
    }
    Ok(())
}

/// Appends the binary form of a value that is kept as text.
fn write_str(column: &Column, value: &str, settings: &FormatSettings, out: &mut BytesMut) -> Result<(), WireError> {
    if column.wire.array {
        return array::write_literal_binary(column.wire.oid(), value, settings, out);
    }
    let element = column.wire.element;
    match element.oid {
        oid::JSONB => {
            out.put_u8(1);
            out.put_slice(value.as_bytes());
        }
        oid::CHAR => out.put_u8(value.bytes().next().unwrap_or(0)),
        oid::UUID => {
            let uuid = crate::decode::uuid_from_text(value);
            out.put_slice(&uuid.ok_or_else(|| no_binary(element.sql_name))?);
        }
        oid::INT2VECTOR | oid::OIDVECTOR => write_vector(element.oid, value, out)?,
        oid::OID
        | oid::XID
        | oid::CID
        | oid::REGPROC
        | oid::REGPROCEDURE
        | oid::REGCLASS
        | oid::REGTYPE
        | oid::REGNAMESPACE
        | oid::REGROLE => {
            let id = value.parse::<u32>();
            out.put_u32(id.map_err(|_| no_binary(element.sql_name))?);
        }
        oid::ACLITEM => return Err(no_binary(element.sql_name)),
        _ => out.put_slice(value.as_bytes()),
    }
    Ok(())
}

/// Appends `int2vector` or `oidvector`: an array whose first subscript is 0.
fn write_vector(type_oid: u32, value: &str, out: &mut BytesMut) -> Result<(), WireError> {
    let is_int2 = type_oid == oid::INT2VECTOR;
    let items = value.split_ascii_whitespace();
    let items = items.map(str::parse::<i64>).collect::<Result<Vec<_>, _>>();
    let items = items.map_err(|_| no_binary("int2vector"))?;
    out.put_i32(1);
    out.put_i32(0);
    out.put_u32(if is_int2 { oid::INT2 } else { oid::OID });
    out.put_i32(items.len() as i32);
    out.put_i32(0);
    for item in items {
        if is_int2 {
            out.put_i32(2);
            out.put_i16(item as i16);
        } else {
            out.put_i32(4);
            out.put_u32(item as u32);
        }
    }
    Ok(())
}

fn no_binary(type_name: &str) -> WireError {
    WireError::NotSupported(format!("no binary output for this value of type {type_name}"))
}
