//! Binary parameters, as PostgreSQL's receive functions read them.

use super::numeric::Numeric;
use super::value::ParameterValue;
use super::{array, is_text, text, type_name};
use crate::encode::datetime::{EPOCH_DAYS, EPOCH_MICROS, date, timestamp};
use crate::error::{WireError, protocol, strict_text};
use crate::types::{element_of, oid};

/// Reads a value from the front.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let Some((front, rest)) = self.bytes.split_at_checked(count) else {
            return Err(protocol("insufficient data left in message"));
        };
        self.bytes = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let Some((front, rest)) = self.bytes.split_first_chunk::<N>() else {
            return Err(protocol("insufficient data left in message"));
        };
        self.bytes = rest;
        Ok(*front)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, WireError> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, WireError> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, WireError> {
        self.array().map(i64::from_be_bytes)
    }
}

/// Reads a binary value; all bytes must belong to it.
pub(crate) fn decode(type_oid: u32, bytes: &[u8]) -> Result<ParameterValue, WireError> {
    let mut cursor = Cursor { bytes };
    let value = decode_value(type_oid, &mut cursor)?;
    if cursor.bytes.is_empty() {
        return Ok(value);
    }
    Err(WireError::InvalidBinary(format!("incorrect binary data format for type {}", type_name(type_oid))))
}

fn decode_value(type_oid: u32, cursor: &mut Cursor<'_>) -> Result<ParameterValue, WireError> {
    use ParameterValue as V;
    if let Some(element) = element_of(type_oid) {
        return array::decode_binary(element.oid, cursor);
    }
    Ok(match type_oid {
        oid::BOOL => V::Bool(cursor.take(1)? != [0]),
        oid::INT2 => V::Int2(cursor.i16()?),
        oid::INT4 => V::Int4(cursor.i32()?),
        oid::INT8 => V::Int8(cursor.i64()?),
        oid::OID
        | oid::XID
        | oid::CID
        | oid::REGPROC
        | oid::REGPROCEDURE
        | oid::REGCLASS
        | oid::REGTYPE
        | oid::REGNAMESPACE
        | oid::REGROLE => V::Oid(cursor.u32()?),
        oid::FLOAT4 => V::Float4(f32::from_bits(cursor.u32()?)),
        oid::FLOAT8 => V::Float8(f64::from_bits(cursor.i64()? as u64)),
        oid::NUMERIC => V::Numeric(Numeric::from_binary(cursor)?),
        oid::BYTEA => V::Bytea(cursor.take(cursor.bytes.len())?.to_vec()),
        oid::DATE => V::Date(decode_date(cursor.i32()?)?),
        oid::TIME => V::Time(decode_time(cursor.i64()?)?),
        oid::TIMESTAMP => V::Timestamp(decode_timestamp(cursor.i64()?)?),
        oid::TIMESTAMPTZ => V::Timestamptz(decode_timestamp(cursor.i64()?)?),
        oid::INTERVAL => {
            let micros = cursor.i64()?;
            let days = cursor.i32()?;
            let months = cursor.i32()?;
            V::Interval { months, days, micros }
        }
        oid::UUID => V::Uuid(cursor.array()?),
        oid::JSON => V::Json(text::json("json", rest(cursor)?)?),
        oid::JSONB => {
            if cursor.take(1)? != [1] {
                return Err(WireError::InvalidBinary("unsupported jsonb version number".into()));
            }
            V::Json(text::json("jsonb", rest(cursor)?)?)
        }
        // Vectors have a binary form of their own, which nobody sends.
        oid::INT2VECTOR | oid::OIDVECTOR | oid::ACLITEM | oid::PG_NODE_TREE => {
            return Err(no_binary(type_oid));
        }
        _ if is_text(type_oid) => V::Text(rest(cursor)?.to_owned()),
        _ => return Err(no_binary(type_oid)),
    })
}

fn rest<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str, WireError> {
    strict_text(cursor.take(cursor.bytes.len())?)
}

fn no_binary(type_oid: u32) -> WireError {
    WireError::NotSupported(format!(
        "no binary input function available for type {} (oid {type_oid})",
        type_name(type_oid)
    ))
}

fn decode_date(days: i32) -> Result<i32, WireError> {
    if days == i32::MAX || days == i32::MIN {
        return Ok(days);
    }
    let error = || WireError::DatetimeOutOfRange("date out of range".into());
    let days = days.checked_add(EPOCH_DAYS).ok_or_else(error)?;
    date(days).map(|_| days)
}

fn decode_time(micros: i64) -> Result<i64, WireError> {
    crate::encode::check_time(micros)
}

fn decode_timestamp(micros: i64) -> Result<i64, WireError> {
    if micros == i64::MAX || micros == i64::MIN {
        return Ok(micros);
    }
    let micros = micros.checked_add(EPOCH_MICROS);
    timestamp(micros)?;
    micros.ok_or_else(|| WireError::DatetimeOutOfRange("timestamp out of range".into()))
}
