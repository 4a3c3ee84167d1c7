//! Texts that are no value of a type, in PostgreSQL's words.

use crate::error::SqlError;
use crate::sqlstate::SqlState;

/// Returns the error for `Cannot cast string 'x' to value of Int32 type`, as Arrow says it.
pub(super) fn not_a_value(message: &str) -> Option<SqlError> {
    let (_, rest) = message.split_once("annot cast string '").or_else(|| message.split_once("annot cast value '"))?;
    let (text, rest) = rest.rsplit_once("' to value of ")?;
    let arrow = rest.split(" type").next().unwrap_or(rest);
    let name = type_name(arrow)?;
    let error = SqlError::new;
    Some(match name {
        "smallint" | "integer" | "bigint" | "numeric" if is_number(text) => {
            error(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("value \"{text}\" is out of range for type {name}"))
        }
        "date" | "timestamp" | "timestamp with time zone" | "time" if is_date(text) => {
            error(SqlState::DATETIME_FIELD_OVERFLOW, format!("date/time field value out of range: \"{text}\""))
        }
        "date" | "timestamp" | "timestamp with time zone" | "time" | "interval" => {
            error(SqlState::INVALID_DATETIME_FORMAT, format!("invalid input syntax for type {name}: \"{text}\""))
        }
        _ => error(SqlState::INVALID_TEXT_REPRESENTATION, format!("invalid input syntax for type {name}: \"{text}\"")),
    })
}

/// Returns the error for what DataFusion and Arrow say of values that a function or a cast does not take.
pub(super) fn not_an_argument(message: &str) -> Option<SqlError> {
    let error = |code, text: &str| Some(SqlError::new(code, text));
    let said = |words: &str| message.contains(words);
    if said(" to store in a Decimal") {
        return error(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow");
    }
    if said("negative substring length not allowed") {
        return error(SqlState::SUBSTRING_ERROR, "negative substring length not allowed");
    }
    if said("field position must not be zero") {
        return error(SqlState::INVALID_PARAMETER_VALUE, "field position must not be zero");
    }
    if let Some((_, rest)) = message.split_once("Unsupported date_trunc granularity: '") {
        let unit = rest.split('\'').next().unwrap_or_default();
        return error(SqlState::INVALID_PARAMETER_VALUE, &format!("unit \"{unit}\" not recognized"));
    }
    if let Some((_, parts)) = message.split_once("Unable to parse date from ") {
        let parts = parts.lines().next().unwrap_or_default().replace(", ", "-");
        let text = format!("date field value out of range: {parts}");
        return error(SqlState::DATETIME_FIELD_OVERFLOW, &text);
    }
    if said("For SELECT DISTINCT, ORDER BY expressions") {
        let text = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
        return error(SqlState::INVALID_COLUMN_REFERENCE, text);
    }
    if said("Physical plan does not support logical expression WindowFunction") {
        return error(SqlState::WINDOWING_ERROR, "window functions are not allowed in WHERE");
    }
    None
}

/// Returns PostgreSQL's name of a type that Arrow names.
fn type_name(arrow: &str) -> Option<&'static str> {
    let base = arrow.split('(').next().unwrap_or(arrow).trim();
    Some(match base {
        "Int8" | "Int16" | "UInt8" => "smallint",
        "Int32" | "UInt16" => "integer",
        "Int64" | "UInt32" | "UInt64" => "bigint",
        "Float16" | "Float32" => "real",
        "Float64" => "double precision",
        "Decimal32" | "Decimal64" | "Decimal128" | "Decimal256" => "numeric",
        "Boolean" => "boolean",
        "Date32" | "Date64" => "date",
        "Time32" | "Time64" => "time",
        "Interval" => "interval",
        "Timestamp" if arrow.contains("Some(") || arrow.contains('"') => "timestamp with time zone",
        "Timestamp" => "timestamp",
        _ => return None,
    })
}

/// A whole number, which only did not fit.
fn is_number(text: &str) -> bool {
    let digits = text.trim().trim_start_matches(['+', '-']);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Numbers of a date, which only are none of a calendar.
fn is_date(text: &str) -> bool {
    let date = text.trim().split([' ', 'T']).next().unwrap_or_default();
    let parts: Vec<&str> = date.split('-').collect();
    let number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrow_says_is_said_as_postgresql_says_it() {
        let cases = [
            (
                "Cannot cast value 'maybe' to value of Boolean type",
                "22P02 invalid input syntax for type boolean: \"maybe\"",
            ),
            ("Cannot cast string 'x' to value of Int32 type", "22P02 invalid input syntax for type integer: \"x\""),
            (
                "Cannot cast string '' to value of Float64 type",
                "22P02 invalid input syntax for type double precision: \"\"",
            ),
            (
                "Cannot cast string '99999999999' to value of Int32 type",
                "22003 value \"99999999999\" is out of range for type integer",
            ),
            (
                "Cannot cast string '2024-13-01' to value of Date32 type",
                "22008 date/time field value out of range: \"2024-13-01\"",
            ),
            (
                "Cannot cast string 'never' to value of Date32 type",
                "22007 invalid input syntax for type date: \"never\"",
            ),
            (
                "Cannot cast string 'it's' to value of Decimal128(38, 10) type",
                "22P02 invalid input syntax for type numeric: \"it's\"",
            ),
        ];
        for (message, expected) in cases {
            let error = not_a_value(message).unwrap();
            assert_eq!(format!("{} {}", error.code, error.message), expected);
        }
        assert!(not_a_value("Cannot cast string 'x' to value of Map type").is_none());
    }

    #[test]
    fn what_a_function_does_not_take_is_said_as_postgresql_says_it() {
        let cases = [
            ("12345.68 is too large to store in a Decimal128 of precision 6", "22003 numeric field overflow"),
            (
                "Unsupported date_trunc granularity: 'foo'. Supported values are: year",
                "22023 unit \"foo\" not recognized",
            ),
            ("Unable to parse date from 2023, 2, 29", "22008 date field value out of range: 2023-2-29"),
            ("field position must not be zero", "22023 field position must not be zero"),
        ];
        for (message, expected) in cases {
            let error = not_an_argument(message).unwrap();
            assert_eq!(format!("{} {}", error.code, error.message), expected);
        }
        assert!(not_an_argument("anything else").is_none());
    }
}
