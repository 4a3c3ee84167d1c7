//! Functions that write SQL, and the ones that [rewrites](crate::sql::rewrite)
//! call: quoting, `format`, patterns with another escape, subscripts.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ScalarUDF, Volatility};
use datafusion::scalar::ScalarValue;

use super::udf::{ArrayFunction, RowFunction, number, text, utf8};
use crate::error::SqlError;
use crate::sqlstate::SqlState;

/// What `LIKE p ESCAPE e` calls for its pattern.
pub(crate) const LIKE_PATTERN: &str = "pg_like_pattern";
/// What `SIMILAR TO p ESCAPE e` calls for its pattern.
pub(crate) const SIMILAR_PATTERN: &str = "pg_similar_pattern";
/// What `generate_subscripts` calls: array, first subscript, dimension.
pub(crate) const SUBSCRIPTS: &str = "pg_subscripts";
/// What `_pg_expandarray` calls.
pub(crate) const EXPANDED: &str = "pg_expanded";
/// What takes an `oidvector` of PostgreSQL's own rows apart, which is text here.
pub(crate) const OIDS: &str = "pg_oids";
/// As [`OIDS`], with the names of types.
pub(crate) const TYPE_NAMES: &str = "pg_type_names";
/// The largest width in `format`.
const WIDTH_MAX: usize = 10_000;
/// Arguments of `format`, at most.
const FORMAT_ARGUMENTS_MAX: usize = 16;

/// Returns the numbers of `23 25`, or of `[23, 25]`.
fn oids(vector: Option<&ScalarValue>) -> Vec<i32> {
    let text = vector.and_then(text).unwrap_or_default();
    text.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

/// The length of bytes; DataFusion counts the characters that they would be.
pub(crate) fn octets() -> ScalarUDF {
    ArrayFunction::define("length", DataType::Int32, |arguments| {
        let bytes = cast(&arguments[0], &DataType::Binary)?;
        let lengths =
            bytes.as_binary::<i32>().iter().map(|bytes| Some(i32::try_from(bytes?.len()).unwrap_or(i32::MAX)));
        Ok(Arc::new(lengths.collect::<Int32Array>()))
    })
}

/// Returns the functions.
pub(super) fn functions() -> Vec<ScalarUDF> {
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let names = Arc::new(Field::new_list_field(DataType::Utf8, true));
    let arguments: Vec<usize> = (1..=FORMAT_ARGUMENTS_MAX).collect();
    vec![
        RowFunction::define(EXPANDED, &[1], DataType::List(expanded_item()), Volatility::Immutable, |arguments| {
            Ok(expanded(&elements(arguments.first())))
        }),
        RowFunction::define(OIDS, &[1], DataType::List(Arc::clone(&item)), Volatility::Immutable, |arguments| {
            let oids = oids(arguments.first()).into_iter().map(|oid| ScalarValue::Int32(Some(oid)));
            Ok(ScalarValue::List(ScalarValue::new_list_nullable(&oids.collect::<Vec<_>>(), &DataType::Int32)))
        }),
        RowFunction::define(TYPE_NAMES, &[1], DataType::List(names), Volatility::Immutable, |arguments| {
            if arguments.first().is_none_or(ScalarValue::is_null) {
                let none = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
                return ScalarValue::try_from(&none);
            }
            let names = oids(arguments.first()).into_iter().map(|oid| {
                let oid = u32::try_from(oid).unwrap_or_default();
                utf8(Some(lancegate_wire::types::format_type(oid, -1)))
            });
            Ok(ScalarValue::List(ScalarValue::new_list_nullable(&names.collect::<Vec<_>>(), &DataType::Utf8)))
        }),
        // Of an integer it has eight digits, of a bigint sixteen.
        RowFunction::define("to_hex", &[1], DataType::Utf8, Volatility::Immutable, |arguments| {
            Ok(utf8(match arguments.first() {
                Some(ScalarValue::Int64(Some(number))) => Some(format!("{number:x}")),
                Some(other) => number(other).map(|number| match i32::try_from(number) {
                    Ok(number) => format!("{number:x}"),
                    Err(_) => format!("{number:x}"),
                }),
                None => None,
            }))
        }),
        RowFunction::define("quote_literal", &[1], DataType::Utf8, Volatility::Immutable, |arguments| {
            Ok(utf8(arguments.first().and_then(text).map(|value| quote_literal(&value))))
        }),
        RowFunction::define("quote_nullable", &[1], DataType::Utf8, Volatility::Immutable, |arguments| {
            let value = arguments.first().and_then(text);
            Ok(utf8(Some(value.map_or_else(|| "NULL".to_owned(), |value| quote_literal(&value)))))
        }),
        RowFunction::define("format", &arguments, DataType::Utf8, Volatility::Stable, |arguments| {
            let Some(pattern) = arguments.first().and_then(text) else { return Ok(ScalarValue::Utf8(None)) };
            Ok(utf8(Some(format(&pattern, arguments.get(1..).unwrap_or_default())?)))
        }),
        RowFunction::define(LIKE_PATTERN, &[2], DataType::Utf8, Volatility::Immutable, |arguments| {
            let [pattern, escape] = arguments else { return Ok(ScalarValue::Utf8(None)) };
            let (Some(pattern), Some(escape)) = (text(pattern), text(escape)) else {
                return Ok(ScalarValue::Utf8(None));
            };
            Ok(utf8(Some(like_pattern(&pattern, &escape)?)))
        }),
        RowFunction::define(SIMILAR_PATTERN, &[2], DataType::Utf8, Volatility::Immutable, |arguments| {
            let [pattern, escape] = arguments else { return Ok(ScalarValue::Utf8(None)) };
            let (Some(pattern), Some(escape)) = (text(pattern), text(escape)) else {
                return Ok(ScalarValue::Utf8(None));
            };
            Ok(utf8(Some(similar_pattern(&pattern, &escape)?)))
        }),
        RowFunction::define(SUBSCRIPTS, &[3, 4], DataType::List(item), Volatility::Immutable, |arguments| {
            let length = elements(arguments.first()).len();
            let first = arguments.get(1).and_then(number).unwrap_or(1);
            let one_dimension = arguments.get(2).and_then(number) == Some(1);
            Ok(subscripts(first, if one_dimension { length } else { 0 }))
        }),
    ]
}

/// The numbers in an array, or in a vector that is shown as text, as PostgreSQL writes it.
fn elements(array: Option<&ScalarValue>) -> Vec<Option<i32>> {
    match array {
        Some(ScalarValue::List(list)) if list.is_valid(0) => {
            let values = list.value(0);
            let value = |index| ScalarValue::try_from_array(&values, index).ok().as_ref().and_then(number);
            (0..values.len()).map(|index| value(index).and_then(|value| i32::try_from(value).ok())).collect()
        }
        Some(other) => {
            text(other).map_or_else(Vec::new, |text| text.split_whitespace().map(|part| part.parse().ok()).collect())
        }
        None => Vec::new(),
    }
}

/// `x` is the element and `n` its number from 1 on.
fn expanded_item() -> FieldRef {
    let fields = ["x", "n"].map(|name| Field::new(name, DataType::Int32, true));
    Arc::new(Field::new_list_field(DataType::Struct(Fields::from_iter(fields)), true))
}

fn expanded(elements: &[Option<i32>]) -> ScalarValue {
    let item = expanded_item();
    let DataType::Struct(fields) = item.data_type().clone() else { return ScalarValue::Null };
    let x: ArrayRef = Arc::new(elements.iter().copied().collect::<Int32Array>());
    let n: ArrayRef = Arc::new((1..).take(elements.len()).map(Some).collect::<Int32Array>());
    let rows = StructArray::new(fields, vec![x, n], None);
    let offsets = OffsetBuffer::from_lengths([elements.len()]);
    ScalarValue::List(Arc::new(ListArray::new(item, offsets, Arc::new(rows), None)))
}

fn subscripts(first: i64, length: usize) -> ScalarValue {
    let values = (first..).take(length).filter_map(|value| i32::try_from(value).ok());
    let values: Int32Array = values.collect();
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let offsets = OffsetBuffer::from_lengths([values.len()]);
    ScalarValue::List(Arc::new(ListArray::new(item, offsets, Arc::new(values), None)))
}

/// A literal that reads as the text; one with a backslash is written as `E'…'`.
fn quote_literal(value: &str) -> String {
    let doubled = value.replace('\'', "''");
    if doubled.contains('\\') { format!("E'{}'", doubled.replace('\\', "\\\\")) } else { format!("'{doubled}'") }
}

/// An identifier that reads as the name; quotes are left away where they change nothing. As in PostgreSQL, every keyword
/// but an unreserved one has them.
fn quote_ident(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !lancegate_sql::is_reserved(name)
        && !COLUMN_NAME_KEYWORDS.contains(&name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Keywords that a column may be called, but no function or type (PostgreSQL documentation, appendix C).
const COLUMN_NAME_KEYWORDS: [&str; 51] = [
    "between",
    "bigint",
    "bit",
    "boolean",
    "char",
    "character",
    "coalesce",
    "dec",
    "decimal",
    "exists",
    "extract",
    "float",
    "greatest",
    "grouping",
    "inout",
    "int",
    "integer",
    "interval",
    "least",
    "national",
    "nchar",
    "none",
    "normalize",
    "nullif",
    "numeric",
    "out",
    "overlay",
    "position",
    "precision",
    "real",
    "row",
    "setof",
    "smallint",
    "substring",
    "time",
    "timestamp",
    "treat",
    "trim",
    "values",
    "varchar",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

/// PostgreSQL documentation, "format": `%s`, `%I`, `%L`, `%%`, each with a position `n$` and a width, before which `-`
/// puts the value to the left. A width that is an argument, `*`, is not read.
fn format(pattern: &str, arguments: &[ScalarValue]) -> Result<String> {
    let mut out = String::with_capacity(pattern.len());
    let mut next = 0;
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let position = after.get(digits..).and_then(|tail| tail.strip_prefix('$'));
        let spec = match position {
            Some(tail) if digits > 0 => {
                next = after[..digits].parse::<usize>().ok().and_then(|n| n.checked_sub(1)).ok_or_else(few)?;
                tail
            }
            _ => after,
        };
        let (to_the_left, spec) = spec.strip_prefix('-').map_or((false, spec), |spec| (true, spec));
        let digits = spec.find(|c: char| !c.is_ascii_digit()).unwrap_or(spec.len());
        let (width, spec) = spec.split_at(digits);
        let width =
            if width.is_empty() { 0 } else { width.parse().ok().filter(|w| *w <= WIDTH_MAX).ok_or_else(wide)? };
        let Some(kind) = spec.chars().next() else { return Err(invalid("unterminated format() type specifier")) };
        rest = &spec[kind.len_utf8()..];
        if kind == '%' {
            out.push('%');
            continue;
        }
        let argument = arguments.get(next).ok_or_else(few)?;
        next += 1;
        let value = match (kind, text(argument)) {
            ('s', value) => value.unwrap_or_default(),
            ('I', Some(value)) => quote_ident(&value),
            ('I', None) => {
                let message = "null values cannot be formatted as an SQL identifier";
                return Err(external(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message)));
            }
            ('L', value) => value.map_or_else(|| "NULL".to_owned(), |value| quote_literal(&value)),
            (other, _) => return Err(invalid(&format!("unrecognized format() type specifier \"{other}\""))),
        };
        out.push_str(&if to_the_left { format!("{value:<width$}") } else { format!("{value:>width$}") });
    }
    out.push_str(rest);
    Ok(out)
}

fn wide() -> DataFusionError {
    invalid("the width of a format() specifier is too large")
}

fn few() -> DataFusionError {
    invalid("too few arguments for format()")
}

fn invalid(message: &str) -> DataFusionError {
    external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Returns a pattern of LIKE whose escape is `\`. An empty `escape` means that there is none.
///
/// # Errors
/// 22025 for an escape that is no single character, or that ends the pattern.
pub(crate) fn like_pattern(pattern: &str, escape: &str) -> Result<String> {
    let refused = |message: &str| external(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, message));
    let mut chars = escape.chars();
    let escape = chars.next();
    if chars.next().is_some() {
        return Err(refused("invalid escape string"));
    }
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            out.push('\\');
            out.push(chars.next().ok_or_else(|| refused("LIKE pattern must not end with escape character"))?);
        } else {
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
        }
    }
    Ok(out)
}

/// Returns the regular expression of a pattern of SIMILAR TO (PostgreSQL documentation, "SIMILAR TO Regular Expressions").
///
/// # Errors
/// 22025 for an escape that is no single character, or that ends the pattern.
pub(crate) fn similar_pattern(pattern: &str, escape: &str) -> Result<String> {
    let refused = |message: &str| external(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, message));
    let mut chars = escape.chars();
    let escape = chars.next();
    if chars.next().is_some() {
        return Err(refused("invalid escape string"));
    }
    let mut out = "(?s)^(?:".to_owned();
    let mut in_class = false;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            c if Some(c) == escape => {
                let plain =
                    chars.next().ok_or_else(|| refused("SIMILAR TO pattern must not end with escape character"))?;
                if !plain.is_alphanumeric() {
                    out.push('\\');
                }
                out.push(plain);
            }
            '\\' => out.push_str("\\\\"),
            c if in_class => {
                in_class = c != ']';
                out.push(c);
            }
            '[' => {
                in_class = true;
                out.push(c);
            }
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '.' | '^' | '$' => out.extend(['\\', c]),
            other => out.push(other),
        }
    }
    out.push_str(")$");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_patterns_become_regular_expressions() {
        for (pattern, escape, expected) in [
            ("H%", "\\", "(?s)^(?:H.*)$"),
            ("(a|b)_", "\\", "(?s)^(?:(?:a|b).)$"),
            ("a.b$", "\\", "(?s)^(?:a\\.b\\$)$"),
            ("100#%", "#", "(?s)^(?:100\\%)$"),
            ("[%_]+", "\\", "(?s)^(?:[%_]+)$"),
        ] {
            assert_eq!(similar_pattern(pattern, escape).unwrap(), expected, "{pattern}");
        }
        assert!(similar_pattern("a\\", "\\").is_err());
    }

    #[test]
    fn patterns_get_the_usual_escape() {
        let cases = [("pg/_%", "/", "pg\\_%"), ("a//b", "/", "a\\/b"), ("a\\b", "/", "a\\\\b"), ("a\\%", "", "a\\\\%")];
        for (pattern, escape, expected) in cases {
            assert_eq!(like_pattern(pattern, escape).unwrap(), expected, "{pattern}");
        }
        assert!(like_pattern("a/", "/").is_err());
        assert!(like_pattern("a", "xy").is_err());
    }

    #[test]
    fn text_becomes_sql_as_postgresql_writes_it() {
        assert_eq!(quote_literal("a'b"), "'a''b'");
        assert_eq!(quote_literal("a\\b"), "E'a\\\\b'");
        for (name, expected) in [
            ("a1", "a1"),
            ("A", "\"A\""),
            ("select", "\"select\""),
            ("values", "\"values\""),
            ("name", "name"),
            ("a\"b", "\"a\"\"b\""),
        ] {
            assert_eq!(quote_ident(name), expected);
        }
        let arguments = [ScalarValue::from("My t"), ScalarValue::from("it's"), ScalarValue::Utf8(None)];
        let written = format("%I = %L, %s%% %1$s %3$L", &arguments).unwrap();
        assert_eq!(written, "\"My t\" = 'it''s', % My t NULL");
        assert!(format("%99999s", &arguments).is_err());
        assert_eq!(format("%8s|%1$-8s|", &arguments).unwrap(), "    My t|My t    |");
        assert!(format("%s %s", &arguments[..1]).is_err());
        assert!(format("%", &arguments).is_err());
    }
}
