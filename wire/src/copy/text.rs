//! Fields of the text format.

use bytes::{Bytes, BytesMut};

use super::{CopyOptions, CopyRow};

/// Returns the letter that stands for a control character.
fn letter_of(byte: u8) -> Option<u8> {
    match byte {
        0x08 => Some(b'b'),
        0x0c => Some(b'f'),
        b'\n' => Some(b'n'),
        b'\r' => Some(b'r'),
        b'\t' => Some(b't'),
        0x0b => Some(b'v'),
        _ => None,
    }
}

/// Escapes the field that begins at `start`, in place.
pub(crate) fn escape_from(out: &mut BytesMut, start: usize, delimiter: u8) {
    let is_special = |byte: u8| byte == b'\\' || byte == delimiter || letter_of(byte).is_some();
    let count = out[start..].iter().filter(|byte| is_special(**byte)).count();
    if count == 0 {
        return;
    }
    let mut read = out.len();
    let mut write = read + count;
    out.resize(write, 0);
    // From the end, so that nothing is overwritten before it was moved.
    while read > start {
        read -= 1;
        write -= 1;
        let byte = out[read];
        out[write] = letter_of(byte).unwrap_or(byte);
        if is_special(byte) {
            write -= 1;
            out[write] = b'\\';
        }
    }
}

/// Splits a line, without its end, into fields.
pub(crate) fn split(line: &Bytes, options: &CopyOptions) -> CopyRow {
    let mut fields = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    let mut index = 0;
    while index < line.len() {
        let byte = line[index];
        if byte == b'\\' {
            escaped = true;
            index += 2;
            continue;
        }
        if byte == options.delimiter {
            fields.push(field(line.slice(start..index), escaped, options));
            start = index + 1;
            escaped = false;
        }
        index += 1;
    }
    fields.push(field(line.slice(start..), escaped, options));
    fields
}

fn field(raw: Bytes, escaped: bool, options: &CopyOptions) -> Option<Bytes> {
    // NULL is recognized before escapes are.
    if raw == options.null.as_bytes() {
        return None;
    }
    Some(if escaped { unescape(&raw).into() } else { raw })
}

fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            value.push(byte);
            continue;
        }
        let Some((&code, after)) = rest.split_first() else {
            value.push(b'\\');
            break;
        };
        rest = after;
        match code {
            b'b' => value.push(0x08),
            b'f' => value.push(0x0c),
            b'n' => value.push(b'\n'),
            b'r' => value.push(b'\r'),
            b't' => value.push(b'\t'),
            b'v' => value.push(0x0b),
            b'0'..=b'7' => {
                let (number, length) = digits(raw_from(code, after), 8, 3);
                value.push(number);
                rest = &after[length - 1..];
            }
            b'x' => match digits(after.iter().copied(), 16, 2) {
                (_, 0) => value.push(b'x'),
                (number, length) => {
                    value.push(number);
                    rest = &after[length..];
                }
            },
            other => value.push(other),
        }
    }
    value
}

fn raw_from(first: u8, after: &[u8]) -> impl Iterator<Item = u8> + '_ {
    std::iter::once(first).chain(after.iter().copied())
}

/// Reads up to `max` digits; returns their value, modulo 256, and their count.
fn digits(bytes: impl Iterator<Item = u8>, radix: u32, max: usize) -> (u8, usize) {
    let mut number = 0u32;
    let mut length = 0;
    for digit in bytes.take(max).map_while(|byte| char::from(byte).to_digit(radix)) {
        number = number * radix + digit;
        length += 1;
    }
    (number as u8, length)
}
