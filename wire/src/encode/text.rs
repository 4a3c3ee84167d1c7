//! Text form of one value.

use arrow::array::types::IntervalMonthDayNano;
use bytes::{BufMut, BytesMut};

use super::build::to_micros;
use super::column::{Column, Values};
use super::{array, datetime, float, json, numeric};
use crate::error::WireError;
use crate::settings::{ByteaOutput, Format, FormatSettings};
use crate::types::oid;

/// Appends the text of a value that is not NULL.
pub(crate) fn write(
    column: &Column,
    row: usize,
    settings: &FormatSettings,
    out: &mut BytesMut,
) -> Result<(), WireError> {
    let digits = settings.extra_float_digits;
    match &column.values {
        Values::Bool(array) => out.put_u8(if array.value(row) { b't' } else { b'f' }),
        Values::I8(array) => put_integer(out, array.value(row)),
        Values::I16(array) => put_integer(out, array.value(row)),
        Values::I32(array) => put_integer(out, array.value(row)),
        Values::I64(array) => put_integer(out, array.value(row)),
        Values::U8(array) => put_integer(out, array.value(row)),
        Values::U16(array) => put_integer(out, array.value(row)),
        Values::U32(array) => put_integer(out, array.value(row)),
        Values::U64(array) => put_integer(out, array.value(row)),
        Values::F16(array) => float::put_f32(out, array.value(row).to_f32(), digits),
        Values::F32(array) => float::put_f32(out, array.value(row), digits),
        Values::F64(array) => float::put_f64(out, array.value(row), digits),
        Values::Decimal(array, scale) => {
            numeric::put_i128(out, array.value(row), *scale, Format::Text);
        }
        Values::Numeric(array) => numeric::put_unconstrained(out, array.value(row), Format::Text),
        Values::Decimal256(array, scale) => {
            numeric::put_i256(out, array.value(row), *scale, Format::Text);
        }
        Values::Utf8(_) | Values::LargeUtf8(_) | Values::Utf8View(_) => {
            out.put_slice(column.str_at(row).unwrap_or_default().as_bytes());
        }
        Values::Binary(_) | Values::LargeBinary(_) | Values::BinaryView(_) | Values::FixedBinary(_) => {
            let bytes = column.bytes_at(row).unwrap_or_default();
            if column.wire.element.oid == oid::UUID {
                put_uuid(out, bytes);
            } else {
                put_bytea(out, bytes, settings.bytea_output);
            }
        }
        Values::Date(array) => datetime::put_date(out, datetime::date(array.value(row))?),
        Values::Time(array, unit) => datetime::put_time(out, time(array.value(row), *unit)?),
        Values::Timestamp(array, unit) => {
            let timestamp = datetime::timestamp(to_micros(array.value(row), *unit))?;
            let zoned = column.wire.element.oid == oid::TIMESTAMPTZ;
            let zone = zoned.then_some(&settings.timezone);
            datetime::put_timestamp(out, timestamp, zone, b' ');
        }
        Values::Duration(..) | Values::Months(_) | Values::DayTime(_) | Values::MonthDayNano(_) => {
            let (months, days, micros) = interval(column, row)?;
            datetime::put_interval(out, months, days, micros);
        }
        Values::List(..) if column.wire.array => array::write_text(column, row, settings, out)?,
        Values::List(..) | Values::Struct(_) | Values::Map(..) => {
            json::write(column, row, settings, out)?;
        }
        // `resolve` looks through dictionaries and reports NULL.
        Values::Null | Values::Dictionary(..) => {}
    }
    Ok(())
}

fn put_integer(out: &mut BytesMut, value: impl itoa::Integer) {
    out.put_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a UUID in its usual form.
pub(crate) fn put_uuid(out: &mut BytesMut, bytes: &[u8]) {
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.put_u8(b'-');
        }
        put_hex(out, *byte);
    }
}

/// Appends a `bytea`.
pub(crate) fn put_bytea(out: &mut BytesMut, bytes: &[u8], output: ByteaOutput) {
    match output {
        ByteaOutput::Hex => {
            out.reserve(2 + bytes.len() * 2);
            out.put_slice(b"\\x");
            for byte in bytes {
                put_hex(out, *byte);
            }
        }
        ByteaOutput::Escape => {
            for byte in bytes {
                match byte {
                    b'\\' => out.put_slice(b"\\\\"),
                    0x20..=0x7e => out.put_u8(*byte),
                    _ => out.put_slice(&[b'\\', b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)]),
                }
            }
        }
    }
}

fn put_hex(out: &mut BytesMut, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.put_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// Returns microseconds of a day; 24:00:00 is allowed, as in PostgreSQL.
pub(crate) fn time(ticks: i64, unit: arrow::datatypes::TimeUnit) -> Result<i64, WireError> {
    check_time(to_micros(ticks, unit).unwrap_or(-1))
}

/// Ensures that microseconds are within a day.
pub(crate) fn check_time(micros: i64) -> Result<i64, WireError> {
    if (0..=datetime::DAY_MICROS).contains(&micros) {
        return Ok(micros);
    }
    Err(WireError::DatetimeOutOfRange("time out of range".into()))
}

/// Returns months, days and microseconds of an interval.
pub(crate) fn interval(column: &Column, row: usize) -> Result<(i32, i32, i64), WireError> {
    Ok(match &column.values {
        Values::Months(array) => (array.value(row), 0, 0),
        Values::DayTime(array) => {
            let value = array.value(row);
            (0, value.days, i64::from(value.milliseconds) * 1_000)
        }
        Values::MonthDayNano(array) => {
            let IntervalMonthDayNano { months, days, nanoseconds } = array.value(row);
            (months, days, nanoseconds / 1_000)
        }
        Values::Duration(array, unit) => {
            let micros = to_micros(array.value(row), *unit);
            let error = || WireError::DatetimeOutOfRange("interval out of range".into());
            let micros = micros.ok_or_else(error)?;
            // The difference of two timestamps, which is days and time.
            let days = i32::try_from(micros / datetime::DAY_MICROS).map_err(|_| error())?;
            (0, days, micros % datetime::DAY_MICROS)
        }
        _ => return Err(WireError::Internal("not an interval".into())),
    })
}
