//! The type grammar of CREATE FUNCTION: Arrow names to Arrow types and back.
//!
//! `bool`, `int8` … `int64`, `uint8` … `uint64`, `float16/32/64`, `utf8`, `large_utf8`, `binary`, `large_binary`,
//! `date32`, `date64`, `list<T>`, `large_list<T>`, `fixed_size_list<T, n>`, and for several outputs
//! `struct<name: T, …>`. The items of a list are not nullable and are called `item`; the fields of a struct are
//! nullable. SQL names such as `bigint` are refused with the name to use.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};

/// How deep a type may nest.
const DEPTH_MAX: usize = 16;
/// The longest fixed-size list.
const LIST_SIZE_MAX: i32 = 1_000_000;

/// A text that is no Arrow type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not an Arrow type{}", hint.map(|hint| format!("; use {hint}")).unwrap_or_default())]
pub struct TypeError {
    /// The part that was not understood.
    pub text: String,
    /// What was probably meant.
    pub hint: Option<&'static str>,
}

/// Parses the name of an Arrow type.
///
/// # Errors
/// [`TypeError`] with the part that was not understood.
pub fn parse_type(text: &str) -> Result<DataType, TypeError> {
    let mut parser = Parser { text, at: 0 };
    let parsed = parser.data_type(0)?;
    parser.spaces();
    if parser.at == text.len() { Ok(parsed) } else { Err(error(&text[parser.at..])) }
}

/// Prints the name of an Arrow type; [`parse_type`] reads it back. Types outside the grammar print as Arrow does.
pub fn print_type(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "bool".to_owned(),
        DataType::List(item) => format!("list<{}>", print_type(item.data_type())),
        DataType::LargeList(item) => format!("large_list<{}>", print_type(item.data_type())),
        DataType::FixedSizeList(item, size) => format!("fixed_size_list<{}, {size}>", print_type(item.data_type())),
        DataType::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("{}: {}", field.name(), print_type(field.data_type()))).collect();
            format!("struct<{}>", fields.join(", "))
        }
        other => NAMES
            .iter()
            .find(|(_, known)| known == other)
            .map_or_else(|| other.to_string(), |(name, _)| (*name).to_owned()),
    }
}

const NAMES: &[(&str, DataType)] = &[
    ("bool", DataType::Boolean),
    ("int8", DataType::Int8),
    ("int16", DataType::Int16),
    ("int32", DataType::Int32),
    ("int64", DataType::Int64),
    ("uint8", DataType::UInt8),
    ("uint16", DataType::UInt16),
    ("uint32", DataType::UInt32),
    ("uint64", DataType::UInt64),
    ("float16", DataType::Float16),
    ("float32", DataType::Float32),
    ("float64", DataType::Float64),
    ("utf8", DataType::Utf8),
    ("large_utf8", DataType::LargeUtf8),
    ("binary", DataType::Binary),
    ("large_binary", DataType::LargeBinary),
    ("date32", DataType::Date32),
    ("date64", DataType::Date64),
];

const SQL_NAMES: &[(&str, &str)] = &[
    ("smallint", "int16"),
    ("int", "int32"),
    ("integer", "int32"),
    ("bigint", "int64"),
    ("real", "float32"),
    ("double", "float64"),
    ("float", "float64"),
    ("text", "utf8"),
    ("varchar", "utf8"),
    ("string", "utf8"),
    ("boolean", "bool"),
    ("bytea", "binary"),
    ("date", "date32"),
];

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn spaces(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn word(&mut self) -> &str {
        self.spaces();
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn expect(&mut self, token: char) -> Result<(), TypeError> {
        if self.take(token) { Ok(()) } else { Err(error(&self.text[self.at..])) }
    }

    fn take(&mut self, token: char) -> bool {
        self.spaces();
        let found = self.text[self.at..].starts_with(token);
        self.at += if found { token.len_utf8() } else { 0 };
        found
    }

    fn data_type(&mut self, depth: usize) -> Result<DataType, TypeError> {
        if depth > DEPTH_MAX {
            return Err(error("…"));
        }
        let word = self.word().to_ascii_lowercase();
        if let Some((_, known)) = NAMES.iter().find(|(name, _)| *name == word) {
            return Ok(known.clone());
        }
        match word.as_str() {
            "list" => Ok(DataType::List(self.item(depth)?)),
            "large_list" => Ok(DataType::LargeList(self.item(depth)?)),
            "fixed_size_list" => self.fixed_size_list(depth),
            "struct" => self.fields(depth),
            _ => {
                let hint = SQL_NAMES.iter().find(|(name, _)| *name == word).map(|(_, hint)| *hint);
                Err(TypeError { text: if word.is_empty() { self.text[self.at..].to_owned() } else { word }, hint })
            }
        }
    }

    fn item(&mut self, depth: usize) -> Result<Arc<Field>, TypeError> {
        self.expect('<')?;
        let item = self.data_type(depth + 1)?;
        self.expect('>')?;
        Ok(Arc::new(Field::new("item", item, false)))
    }

    fn fixed_size_list(&mut self, depth: usize) -> Result<DataType, TypeError> {
        self.expect('<')?;
        let item = self.data_type(depth + 1)?;
        self.expect(',')?;
        let digits = self.word().to_owned();
        let size: i32 = digits.parse().map_err(|_| error(&digits))?;
        if !(1..=LIST_SIZE_MAX).contains(&size) {
            return Err(error(&digits));
        }
        self.expect('>')?;
        Ok(DataType::FixedSizeList(Arc::new(Field::new("item", item, false)), size))
    }

    fn fields(&mut self, depth: usize) -> Result<DataType, TypeError> {
        self.expect('<')?;
        let mut fields: Vec<Field> = Vec::new();
        loop {
            let name = self.word().to_owned();
            if name.is_empty() || fields.iter().any(|field| *field.name() == name) {
                return Err(error(&self.text[self.at..]));
            }
            self.expect(':')?;
            fields.push(Field::new(name, self.data_type(depth + 1)?, true));
            if self.take('>') {
                return Ok(DataType::Struct(Fields::from(fields)));
            }
            self.expect(',')?;
        }
    }
}

fn error(text: &str) -> TypeError {
    TypeError { text: text.chars().take(64).collect(), hint: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_prints_as_it_was_read() {
        let texts = [
            "list<float32>",
            "fixed_size_list<float32, 768>",
            "large_list<list<utf8>>",
            "struct<a: int64, b: list<utf8>>",
        ];
        for text in NAMES.iter().map(|(name, _)| *name).chain(texts) {
            assert_eq!(parse_type(text).map(|parsed| print_type(&parsed)).as_deref(), Ok(text));
        }
        assert_eq!(parse_type(" List < Int64 > "), parse_type("list<int64>"));
    }

    #[test]
    fn what_is_no_arrow_type_is_refused() {
        for text in
            ["", "bigint", "list<", "list<int64", "int64>", "fixed_size_list<int8, 0>", "struct<a int8>", "list"]
        {
            assert!(parse_type(text).is_err(), "{text}");
        }
        assert_eq!(parse_type("bigint").unwrap_err().to_string(), "\"bigint\" is not an Arrow type; use int64");
        assert!(parse_type(&"list<".repeat(100_000)).is_err());
    }
}
