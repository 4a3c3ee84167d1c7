//! Text parameters, as PostgreSQL's input functions read them.

use super::numeric::Numeric;
use super::value::ParameterValue;
use super::{array, datetime, interval, is_text, type_name};
use crate::error::WireError;
use crate::settings::FormatSettings;
use crate::types::{element_of, oid};

/// Returns whether PostgreSQL's `isspace` skips a character.
pub(crate) fn is_space(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Reads a text value.
pub(crate) fn decode(type_oid: u32, text: &str, settings: &FormatSettings) -> Result<ParameterValue, WireError> {
    use ParameterValue as V;
    if let Some(element) = element_of(type_oid) {
        return array::decode_text(element.oid, text, settings);
    }
    if is_text(type_oid) {
        return Ok(V::Text(text.to_owned()));
    }
    let trimmed = text.trim_matches(is_space);
    let invalid = || WireError::InvalidText { type_name: type_name(type_oid), value: text.to_owned() };
    Ok(match type_oid {
        oid::BOOL => V::Bool(bool_of(trimmed).ok_or_else(invalid)?),
        oid::INT2 => V::Int2(integer(type_oid, text)?),
        oid::INT4 => V::Int4(integer(type_oid, text)?),
        oid::INT8 => V::Int8(integer(type_oid, text)?),
        oid::OID | oid::XID | oid::CID => V::Oid(object_id(type_oid, text)?),
        oid::REGPROC | oid::REGPROCEDURE | oid::REGCLASS | oid::REGTYPE | oid::REGNAMESPACE | oid::REGROLE => {
            match trimmed.parse() {
                Ok(id) => V::Oid(id),
                // A name; only the catalog can resolve it.
                Err(_) => V::Text(text.to_owned()),
            }
        }
        oid::FLOAT4 => {
            let value: f32 = float(trimmed).ok_or_else(invalid)?;
            ensure_float(value.is_infinite(), value == 0.0, trimmed, "real")?;
            V::Float4(value)
        }
        oid::FLOAT8 => {
            let value: f64 = float(trimmed).ok_or_else(invalid)?;
            ensure_float(value.is_infinite(), value == 0.0, trimmed, "double precision")?;
            V::Float8(value)
        }
        oid::NUMERIC => V::Numeric(Numeric::from_text(trimmed).ok_or_else(invalid)??),
        oid::BYTEA => V::Bytea(bytea(text)?),
        oid::DATE => V::Date(datetime::date(text)?),
        oid::TIME => V::Time(datetime::time(text)?),
        oid::TIMESTAMP => V::Timestamp(datetime::timestamp(text)?),
        oid::TIMESTAMPTZ => V::Timestamptz(datetime::timestamptz(text, &settings.timezone)?),
        oid::INTERVAL => {
            let (months, days, micros) = interval::parse(text)?;
            V::Interval { months, days, micros }
        }
        oid::UUID => V::Uuid(uuid(text).ok_or_else(invalid)?),
        oid::JSON => V::Json(json("json", text)?),
        oid::JSONB => V::Json(json("jsonb", text)?),
        // A type that is not known here is whatever the caller makes of it.
        _ => V::Text(text.to_owned()),
    })
}

/// Accepts unique prefixes of the words, as `boolin` does.
fn bool_of(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let prefix_of = |word: &str, length_min: usize| text.len() >= length_min && word.starts_with(&text);
    if prefix_of("true", 1) || prefix_of("yes", 1) || text == "on" || text == "1" {
        return Some(true);
    }
    if prefix_of("false", 1) || prefix_of("no", 1) || prefix_of("off", 2) || text == "0" {
        return Some(false);
    }
    None
}

fn integer<T: std::str::FromStr>(type_oid: u32, text: &str) -> Result<T, WireError> {
    let trimmed = text.trim_matches(is_space);
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(WireError::InvalidText { type_name: type_name(type_oid), value: text.to_owned() });
    }
    trimmed.parse().map_err(|_| WireError::NumberOutOfRange { type_name: type_name(type_oid), value: text.to_owned() })
}

/// Reads an object id; a negative one is its unsigned complement.
fn object_id(type_oid: u32, text: &str) -> Result<u32, WireError> {
    let value: i64 = integer(type_oid, text)?;
    u32::try_from(value)
        .or_else(|_| i32::try_from(value).map(|value| value as u32))
        .map_err(|_| WireError::NumberOutOfRange { type_name: type_name(type_oid), value: text.to_owned() })
}

fn float<T: std::str::FromStr>(text: &str) -> Option<T> {
    // Rust reads all forms of PostgreSQL but also a signed NaN.
    let signed = text.starts_with(['+', '-']);
    if signed && text[1..].eq_ignore_ascii_case("nan") {
        return None;
    }
    text.parse().ok()
}

fn ensure_float(infinite: bool, zero: bool, text: &str, type_name: &str) -> Result<(), WireError> {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let overflow = infinite && text.bytes().any(|byte| byte.is_ascii_digit());
    let underflow = zero && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if overflow || underflow {
        return Err(WireError::OutOfRange(format!("\"{text}\" is out of range for type {type_name}")));
    }
    Ok(())
}

fn bytea(text: &str) -> Result<Vec<u8>, WireError> {
    if let Some(digits) = text.strip_prefix("\\x") {
        return hex(digits);
    }
    let invalid = || WireError::InvalidText { type_name: "bytea", value: text.to_owned() };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        match after {
            [b'\\', after @ ..] => {
                bytes.push(b'\\');
                rest = after;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => return Err(invalid()),
        }
    }
    Ok(bytes)
}

fn hex(digits: &str) -> Result<Vec<u8>, WireError> {
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    let mut high: Option<u32> = None;
    for char in digits.chars() {
        if high.is_none() && is_space(char) {
            continue;
        }
        let digit = char
            .to_digit(16)
            .ok_or_else(|| WireError::InvalidParameter(format!("invalid hexadecimal digit: \"{char}\"")))?;
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push((high << 4 | digit) as u8),
        }
    }
    if high.is_some() {
        return Err(WireError::InvalidParameter("invalid hexadecimal data: odd number of digits".into()));
    }
    Ok(bytes)
}

/// Reads 32 hexadecimal digits with a hyphen after any group of four, in
/// braces or not.
pub(crate) fn uuid(text: &str) -> Option<[u8; 16]> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut bytes = [0u8; 16];
    let mut count = 0;
    for char in inner.chars() {
        if char == '-' {
            if count == 0 || count % 4 != 0 || count == 32 || inner.contains("--") {
                return None;
            }
            continue;
        }
        let digit = char.to_digit(16)? as u8;
        let byte = bytes.get_mut(count / 2)?;
        *byte = *byte << 4 | digit;
        count += 1;
    }
    (count == 32).then_some(bytes)
}

/// Ensures that a text is one JSON value, nested at most 128 deep.
pub(crate) fn json(type_name: &'static str, text: &str) -> Result<String, WireError> {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(WireError::InvalidJson(type_name)),
    }
}
