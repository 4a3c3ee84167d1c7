//! Arrays in text and binary form.
//!
//! Text follows `array_in`
//! (<https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO>).

use super::binary::{self, Cursor};
use super::text;
use super::value::ParameterValue;
use crate::error::{WireError, protocol};
use crate::settings::FormatSettings;

/// PostgreSQL's `MAXDIM`.
const DIMENSIONS_MAX: usize = 6;

/// Reads the form of `array_recv`.
pub(crate) fn decode_binary(element_oid: u32, cursor: &mut Cursor<'_>) -> Result<ParameterValue, WireError> {
    let count = cursor.i32()?;
    let flags = cursor.i32()?;
    let sent_oid = cursor.u32()?;
    let count = usize::try_from(count)
        .ok()
        .filter(|count| *count <= DIMENSIONS_MAX)
        .ok_or_else(|| invalid(format!("invalid number of dimensions: {count}")))?;
    if flags != 0 && flags != 1 {
        return Err(invalid("invalid array flags".into()));
    }
    if sent_oid != element_oid {
        return Err(invalid(format!(
            "binary data has array element type {sent_oid} instead of expected {element_oid}"
        )));
    }
    let mut dimensions = Vec::with_capacity(count);
    for _ in 0..count {
        let length = cursor.i32()?;
        let _lower_bound = cursor.i32()?;
        dimensions.push(usize::try_from(length).map_err(|_| invalid("invalid array length".into()))?);
    }
    let total = dimensions.iter().try_fold(1usize, |total, length| total.checked_mul(*length));
    // Every element has at least a length word.
    let total = total
        .filter(|total| total.checked_mul(4).is_some_and(|bytes| bytes <= cursor.bytes.len()))
        .ok_or_else(|| protocol("insufficient data left in message"));
    let total = if dimensions.is_empty() { 0 } else { total? };
    let mut values = Vec::with_capacity(total);
    for _ in 0..total {
        values.push(decode_element(element_oid, cursor)?);
    }
    if values.is_empty() {
        dimensions.clear();
    }
    Ok(ParameterValue::Array { element_oid, dimensions, values })
}

fn decode_element(element_oid: u32, cursor: &mut Cursor<'_>) -> Result<ParameterValue, WireError> {
    let length = cursor.i32()?;
    if length == -1 {
        return Ok(ParameterValue::Null);
    }
    let length = usize::try_from(length).map_err(|_| protocol("insufficient data left in message"))?;
    binary::decode(element_oid, cursor.take(length)?)
}

/// Reads an array literal.
pub(crate) fn decode_text(
    element_oid: u32,
    literal: &str,
    settings: &FormatSettings,
) -> Result<ParameterValue, WireError> {
    let malformed = || WireError::MalformedArray(literal.to_owned());
    let mut parser = Parser {
        rest: skip_bounds(literal.trim_matches(text::is_space)).ok_or_else(malformed)?,
        element_oid,
        settings,
        dimensions: Vec::new(),
        values: Vec::new(),
        leaf_depth: None,
        malformed: &malformed,
    };
    parser.list(0)?;
    if !parser.rest.is_empty() {
        return Err(malformed());
    }
    if parser.values.is_empty() {
        parser.dimensions.clear();
    }
    Ok(ParameterValue::Array { element_oid, dimensions: parser.dimensions, values: parser.values })
}

/// Skips a decoration such as `[0:2]=`; subscripts are not kept.
fn skip_bounds(literal: &str) -> Option<&str> {
    if !literal.starts_with('[') {
        return Some(literal);
    }
    let (bounds, rest) = literal.split_once('=')?;
    let plain = |byte: u8| byte.is_ascii_digit() || b"[]:+-".contains(&byte);
    bounds.bytes().all(plain).then_some(rest)
}

struct Parser<'a> {
    rest: &'a str,
    element_oid: u32,
    settings: &'a FormatSettings,
    dimensions: Vec<usize>,
    values: Vec<ParameterValue>,
    leaf_depth: Option<usize>,
    malformed: &'a dyn Fn() -> WireError,
}

impl Parser<'_> {
    /// Reads one `{…}`; the depth is limited, so is the recursion.
    fn list(&mut self, depth: usize) -> Result<(), WireError> {
        if depth == DIMENSIONS_MAX {
            return Err(WireError::LimitExceeded(format!(
                "number of array dimensions exceeds the maximum allowed ({DIMENSIONS_MAX})"
            )));
        }
        self.expect('{')?;
        let mut length = 0;
        self.skip_space();
        if self.rest.starts_with('}') {
            self.rest = &self.rest[1..];
            return self.close(depth, length);
        }
        loop {
            self.skip_space();
            if self.rest.starts_with('{') {
                self.reserve(depth)?;
                self.list(depth + 1)?;
            } else {
                self.item(depth)?;
            }
            length += 1;
            self.skip_space();
            match self.rest.as_bytes().first() {
                Some(b',') => self.rest = &self.rest[1..],
                Some(b'}') => {
                    self.rest = &self.rest[1..];
                    return self.close(depth, length);
                }
                _ => return Err((self.malformed)()),
            }
        }
    }

    /// Keeps the place of an outer dimension until its length is known.
    fn reserve(&mut self, depth: usize) -> Result<(), WireError> {
        if self.leaf_depth.is_some_and(|leaf| leaf <= depth) {
            return Err((self.malformed)());
        }
        while self.dimensions.len() <= depth {
            self.dimensions.push(usize::MAX);
        }
        Ok(())
    }

    fn close(&mut self, depth: usize, length: usize) -> Result<(), WireError> {
        match self.dimensions.get_mut(depth) {
            None => self.dimensions.push(length),
            Some(known) if *known == usize::MAX => *known = length,
            Some(known) if *known == length => {}
            Some(_) => return Err((self.malformed)()),
        }
        Ok(())
    }

    fn item(&mut self, depth: usize) -> Result<(), WireError> {
        if *self.leaf_depth.get_or_insert(depth) != depth || self.dimensions.len() > depth + 1 {
            return Err((self.malformed)());
        }
        let value = if self.rest.starts_with('"') {
            let text = self.quoted()?;
            text::decode(self.element_oid, &text, self.settings)?
        } else {
            let (text, escaped) = self.unquoted()?;
            if !escaped && text.eq_ignore_ascii_case("null") {
                ParameterValue::Null
            } else {
                text::decode(self.element_oid, &text, self.settings)?
            }
        };
        self.values.push(value);
        Ok(())
    }

    fn quoted(&mut self) -> Result<String, WireError> {
        let mut text = String::new();
        let mut chars = self.rest[1..].char_indices();
        while let Some((index, char)) = chars.next() {
            match char {
                '"' => {
                    self.rest = &self.rest[1 + index + 1..];
                    return Ok(text);
                }
                '\\' => text.push(chars.next().ok_or_else(self.malformed)?.1),
                char => text.push(char),
            }
        }
        Err((self.malformed)())
    }

    fn unquoted(&mut self) -> Result<(String, bool), WireError> {
        let mut text = String::new();
        let mut escaped = false;
        let mut kept = 0;
        let mut chars = self.rest.char_indices();
        while let Some((index, char)) = chars.next() {
            match char {
                ',' | '}' => {
                    self.rest = &self.rest[index..];
                    // White space at the end is not part of the element.
                    let trimmed = text[kept..].trim_end_matches(text::is_space).len();
                    text.truncate(kept + trimmed);
                    if text.is_empty() {
                        return Err((self.malformed)());
                    }
                    return Ok((text, escaped));
                }
                '{' | '"' => return Err((self.malformed)()),
                '\\' => {
                    text.push(chars.next().ok_or_else(self.malformed)?.1);
                    escaped = true;
                    kept = text.len();
                }
                char => text.push(char),
            }
        }
        Err((self.malformed)())
    }

    fn expect(&mut self, char: char) -> Result<(), WireError> {
        self.rest = self.rest.strip_prefix(char).ok_or_else(self.malformed)?;
        Ok(())
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches(text::is_space);
    }
}

fn invalid(text: String) -> WireError {
    WireError::InvalidBinary(text)
}
