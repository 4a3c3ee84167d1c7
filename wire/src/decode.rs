//! Parameter values in text and binary form.
//!
//! The readers follow PostgreSQL's input and receive functions, including
//! their messages; limits that are ours are named where they apply.

mod array;
mod binary;
mod datetime;
mod interval;
mod numeric;
mod text;
mod value;

use crate::error::WireError;
use crate::settings::{Format, FormatSettings};
use crate::types::{builtin, element_of, oid};

pub use numeric::Numeric;
pub use value::{ParameterValue, array_from_values};

pub(crate) use text::uuid as uuid_from_text;

/// Reads a parameter as `type_oid`, in UTC; see [`decode_parameter_with`].
///
/// # Errors
///
/// As [`decode_parameter_with`].
pub fn decode_parameter(type_oid: u32, format: Format, value: Option<&[u8]>) -> Result<ParameterValue, WireError> {
    decode_parameter_with(type_oid, format, value, &FormatSettings::default())
}

/// Reads a parameter as `type_oid`; `timestamptz` text without an offset is in
/// the session's time zone. Type 0 is unspecified and read as text.
///
/// # Errors
///
/// 22P02, 22007, 22003 or 22008 for text that the type cannot read, 22021 for
/// text that is not UTF-8, 22P03 or 08P01 for binary values of the wrong
/// shape, 0A000 for a binary value of an unknown type.
pub fn decode_parameter_with(
    type_oid: u32,
    format: Format,
    value: Option<&[u8]>,
    settings: &FormatSettings,
) -> Result<ParameterValue, WireError> {
    let Some(bytes) = value else {
        return Ok(ParameterValue::Null);
    };
    match format {
        Format::Text => text::decode(type_oid, crate::error::strict_text(bytes)?, settings),
        Format::Binary => binary::decode(type_oid, bytes),
    }
}

/// Returns the name of a type in messages.
fn type_name(type_oid: u32) -> &'static str {
    match builtin(type_oid) {
        Some(builtin) => builtin.sql_name,
        None if element_of(type_oid).is_some() => "array",
        None => "unknown",
    }
}

/// Returns whether values of a type are kept as their text.
fn is_text(type_oid: u32) -> bool {
    matches!(
        type_oid,
        0 | oid::TEXT
            | oid::VARCHAR
            | oid::BPCHAR
            | oid::NAME
            | oid::CHAR
            | oid::UNKNOWN
            | oid::ACLITEM
            | oid::PG_NODE_TREE
            | oid::INT2VECTOR
            | oid::OIDVECTOR
    )
}

#[cfg(test)]
mod tests;
