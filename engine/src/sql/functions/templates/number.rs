//! Templates of numbers.

use arrow::datatypes::{DataType, i256};
use datafusion::scalar::ScalarValue;

use super::ordinal;
use crate::error::SqlError;
use crate::sqlstate::SqlState;

/// Digits behind the point of a template, at most.
const FRACTION_MAX: usize = 60;

/// How the sign is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// `-` or a blank before the first digit.
    Leading,
    /// `S` at the start: `-` or `+` before the first digit; at the end: behind the number.
    Anchored,
    Trailing,
    /// `MI`, `SG`: at a place of its own.
    Placed,
    /// `PR`: `<12>`.
    Brackets,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// `9`, or `0`, which writes zeros.
    Digit(bool),
    /// `,` and `G`
    Group,
    /// `.` and `D`
    Point,
    Minus,
    Plus,
    Both,
    /// `TH`, in upper case or lower.
    Ordinal(bool),
    Plain(String),
}

/// A template that was taken apart.
#[derive(Debug)]
struct Template {
    parts: Vec<Part>,
    sign: Sign,
    fill: bool,
    /// Digits before and behind the point.
    whole: usize,
    fraction: usize,
}

/// Writes a number.
///
/// # Errors
/// 42601 for a template that contradicts itself, 0A000 for `EEEE`, `RN` and `V`.
pub(super) fn write(value: &ScalarValue, template: &str) -> Result<String, SqlError> {
    let template = Template::of(template)?;
    let number = Number::of(value, template.fraction)?;
    Ok(template.written(&number))
}

impl Template {
    fn of(text: &str) -> Result<Self, SqlError> {
        let mut all = Self { parts: Vec::new(), sign: Sign::Leading, fill: true, whole: 0, fraction: 0 };
        let mut rest = text;
        let mut behind = false;
        while let Some(first) = rest.chars().next() {
            let two = rest.get(..2).unwrap_or_default().to_ascii_uppercase();
            let (part, length) = match (two.as_str(), first) {
                ("FM", _) => {
                    all.fill = false;
                    (None, 2)
                }
                ("MI", _) => (Some(all.placed(Part::Minus)), 2),
                // Beside a plus at its place stands the minus before the number.
                ("PL", _) => (Some(Part::Plus), 2),
                ("SG", _) => (Some(all.placed(Part::Both)), 2),
                ("PR", _) => {
                    all.sign = Sign::Brackets;
                    (None, 2)
                }
                ("TH", letter) => (Some(Part::Ordinal(letter == 'T')), 2),
                ("EE" | "RN", _) => return Err(unsupported(&two)),
                (_, 'V' | 'v') => return Err(unsupported("V")),
                (_, 'S' | 's') => {
                    all.sign = if all.whole + all.fraction == 0 { Sign::Anchored } else { Sign::Trailing };
                    (None, 1)
                }
                (_, digit @ ('0' | '9')) => {
                    *(if behind { &mut all.fraction } else { &mut all.whole }) += 1;
                    (Some(Part::Digit(digit == '0')), 1)
                }
                (_, '.' | 'D' | 'd') if behind => {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "multiple decimal points"));
                }
                (_, '.' | 'D' | 'd') => {
                    behind = true;
                    (Some(Part::Point), 1)
                }
                (_, ',' | 'G' | 'g') => (Some(Part::Group), 1),
                // A zero is no blank in PostgreSQL either.
                (_, 'B' | 'b') => (None, 1),
                // The currency of the C locale has no symbol.
                (_, 'L' | 'l') => (Some(Part::Plain(" ".to_owned())), 1),
                (_, '"') => {
                    let inner: String = rest[1..].chars().take_while(|c| *c != '"').collect();
                    let length = (inner.len() + 2).min(rest.len());
                    (Some(Part::Plain(inner)), length)
                }
                (_, '\\') if rest.len() > 1 => {
                    let plain: String = rest.chars().skip(1).take(1).collect();
                    let length = 1 + plain.len();
                    (Some(Part::Plain(plain)), length)
                }
                (_, other) => (Some(Part::Plain(other.to_string())), other.len_utf8()),
            };
            all.parts.extend(part);
            rest = &rest[length..];
        }
        if all.fraction > FRACTION_MAX {
            return Err(SqlError::not_supported(format!(
                "templates of more than {FRACTION_MAX} decimals are not supported"
            )));
        }
        Ok(all)
    }

    fn placed(&mut self, part: Part) -> Part {
        self.sign = Sign::Placed;
        part
    }

    fn written(&self, number: &Number) -> String {
        let overflows = number.whole.len() > self.whole;
        let mut out = String::new();
        // Of the digits behind the point FM leaves out the zeros at the end, as far as they stand for `9`.
        let mut left = if overflows { self.fraction } else { self.fraction_kept(number) };
        // Zero has to have one digit.
        let bare = !self.fill && number.is_zero && self.fraction > 0 && left == 0;
        let whole = if bare { "0" } else { number.whole.as_str() };
        // Digits that the template has places for before the first one of the number.
        let mut before = self.whole.saturating_sub(whole.len());
        let mut zeros = false;
        let mut started = false;
        let mut behind = false;
        let mut digits = whole.chars();
        let mut fraction = number.fraction.chars();
        let signed = |out: &mut String, started: &mut bool| {
            if !*started {
                self.put_sign(out, number);
                *started = true;
            }
        };
        for part in &self.parts {
            match part {
                Part::Digit(_) if overflows => {
                    if !behind || left > 0 {
                        signed(&mut out, &mut started);
                        out.push('#');
                    }
                    left = left.saturating_sub(usize::from(behind));
                }
                Part::Digit(_) if behind => {
                    let digit = fraction.next().unwrap_or('0');
                    if left > 0 {
                        out.push(digit);
                        left -= 1;
                    }
                }
                Part::Digit(zero) => {
                    zeros |= zero;
                    if before > 0 {
                        before -= 1;
                        match (zeros, self.fill) {
                            (true, _) => {
                                signed(&mut out, &mut started);
                                out.push('0');
                            }
                            (false, true) => out.push(' '),
                            (false, false) => {}
                        }
                    } else {
                        signed(&mut out, &mut started);
                        out.extend(digits.next());
                    }
                }
                Part::Group if started && !behind => out.push(','),
                Part::Group => out.push_str(if self.fill && !behind { " " } else { "" }),
                Part::Point => {
                    signed(&mut out, &mut started);
                    behind = true;
                    if self.fraction > 0 || overflows {
                        out.push('.');
                    }
                }
                Part::Minus => out.push_str(if number.negative { "-" } else { self.blank() }),
                Part::Plus => out.push_str(if number.negative { self.blank() } else { "+" }),
                Part::Both => out.push(if number.negative { '-' } else { '+' }),
                Part::Ordinal(upper) => {
                    let suffix = ordinal(&number.whole);
                    match (number.negative || self.fraction > 0 || overflows, upper) {
                        (true, _) => {}
                        (false, true) => out.push_str(&suffix.to_ascii_uppercase()),
                        (false, false) => out.push_str(suffix),
                    }
                }
                Part::Plain(text) => out.push_str(text),
            }
        }
        match (self.sign, number.negative) {
            (Sign::Trailing, negative) => out.push(if negative { '-' } else { '+' }),
            (Sign::Brackets, true) => out.push('>'),
            (Sign::Brackets, false) => out.push_str(self.blank()),
            _ => {}
        }
        out
    }

    fn blank(&self) -> &'static str {
        if self.fill { " " } else { "" }
    }

    fn fraction_kept(&self, number: &Number) -> usize {
        if self.fill {
            return self.fraction;
        }
        let behind = self.parts.iter().skip_while(|part| **part != Part::Point);
        let zeros: Vec<bool> = behind
            .filter_map(|part| match part {
                Part::Digit(zero) => Some(*zero),
                _ => None,
            })
            .collect();
        let fixed = zeros.iter().rposition(|zero| *zero).map_or(0, |at| at + 1);
        fixed.max(number.fraction.trim_end_matches('0').len())
    }

    /// Puts the sign before the first digit.
    fn put_sign(&self, out: &mut String, number: &Number) {
        match (self.sign, number.negative) {
            (Sign::Leading | Sign::Anchored, true) => out.push('-'),
            (Sign::Anchored, false) => out.push('+'),
            (Sign::Leading, false) => out.push_str(self.blank()),
            (Sign::Brackets, true) => out.push('<'),
            (Sign::Brackets, false) => out.push_str(self.blank()),
            (Sign::Trailing | Sign::Placed, _) => {}
        }
    }
}

fn unsupported(what: &str) -> SqlError {
    let what = if what == "EE" { "EEEE" } else { what };
    SqlError::not_supported(format!("\"{what}\" in templates of numbers is not supported"))
}

/// A number that was rounded.
#[derive(Debug)]
struct Number {
    negative: bool,
    is_zero: bool,
    /// Digits before the point; none if they are zero and others follow.
    whole: String,
    fraction: String,
}

impl Number {
    fn of(value: &ScalarValue, decimals: usize) -> Result<Self, SqlError> {
        let text = match value.data_type() {
            DataType::Float32 | DataType::Float64 => match value.cast_to(&DataType::Float64)? {
                ScalarValue::Float64(Some(float)) if float.is_finite() => format!("{float:.decimals$}"),
                _ => return Err(SqlError::not_supported("to_char of infinity and NaN is not supported")),
            },
            _ => rounded(value, decimals)?,
        };
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.as_str()),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let whole = whole.trim_start_matches('0');
        let is_zero = whole.is_empty() && fraction.bytes().all(|digit| digit == b'0');
        let whole = if whole.is_empty() && decimals == 0 { "0" } else { whole };
        Ok(Self { negative: negative && !is_zero, is_zero, whole: whole.to_owned(), fraction: fraction.to_owned() })
    }
}

/// Writes an exact number with so many decimals, halves away from zero.
fn rounded(value: &ScalarValue, decimals: usize) -> Result<String, SqlError> {
    let (digits, scale) = match value {
        ScalarValue::Decimal128(Some(digits), _, scale) => (i256::from_i128(*digits), *scale),
        ScalarValue::Decimal256(Some(digits), _, scale) => (*digits, *scale),
        other => match other.cast_to(&DataType::Int64)? {
            ScalarValue::Int64(Some(number)) => (i256::from_i128(number.into()), 0),
            _ => return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, "to_char takes a number or a time")),
        },
    };
    // `1e6` is one million as one digit.
    let zeros = usize::try_from(-i16::from(scale)).unwrap_or_default();
    let scale = usize::try_from(scale).unwrap_or_default();
    let text = digits.to_string() + &"0".repeat(zeros);
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let mut digits = format!("{digits:0>width$}", width = scale + 1);
    let mut whole = digits.len() - scale;
    if decimals < scale {
        let cut = whole + decimals;
        let up = digits.as_bytes()[cut] >= b'5';
        digits.truncate(cut);
        if up && increment(&mut digits) {
            whole += 1;
        }
    } else {
        digits.extend(std::iter::repeat_n('0', decimals - scale));
    }
    let (whole, fraction) = digits.split_at(whole);
    Ok(if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}

/// Adds one to a row of digits; tells whether it has become longer.
fn increment(digits: &mut String) -> bool {
    let nines = digits.bytes().rev().take_while(|digit| *digit == b'9').count();
    let kept = digits.len() - nines;
    let mut next: String = digits[..kept].to_owned();
    let longer = match next.pop() {
        Some(digit) => {
            next.push(char::from(digit as u8 + 1));
            false
        }
        None => {
            next.push('1');
            true
        }
    };
    next.extend(std::iter::repeat_n('0', nines));
    *digits = next;
    longer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(digits: i128, scale: i8) -> ScalarValue {
        ScalarValue::Decimal128(Some(digits), 38, scale)
    }

    /// The expected texts are those of PostgreSQL 15.
    #[test]
    fn numbers_are_written_as_postgresql_writes_them() {
        for (value, template, expected) in [
            (decimal(12, 0), "999", "  12"),
            (decimal(-12, 0), "999", " -12"),
            (decimal(12, 0), "FM999", "12"),
            (decimal(12, 0), "0999", " 0012"),
            (decimal(1_234_567, 0), "9,999,999", " 1,234,567"),
            (decimal(567, 0), "9,999,999", "       567"),
            (decimal(5, 1), "9.99", "  .50"),
            (decimal(5, 1), "0.99", " 0.50"),
            (decimal(0, 0), "9", " 0"),
            (decimal(5, 1), "FM9.99", ".5"),
            (decimal(15, 1), "FM990.00", "1.50"),
            (decimal(148, 0), "99", " ##"),
            (decimal(-485, 0), "999S", "485-"),
            (decimal(-485, 0), "999MI", "485-"),
            (decimal(485, 0), "999MI", "485 "),
            (decimal(485, 0), "FM999MI", "485"),
            (decimal(-485, 0), "999PR", "<485>"),
            (decimal(485, 0), "SG999", "+485"),
            (decimal(485, 0), "S999", "+485"),
            (decimal(-485, 0), "S9999", " -485"),
            (decimal(482, 0), "999th", " 482nd"),
            (decimal(9_995, 2), "999.9", " 100.0"),
            (decimal(-5, 2), "99.9", "  -.1"),
            (decimal(1_485, 1), "999D999", " 148.500"),
            (decimal(4_858, 1), "\"Good number:\"999", "Good number: 486"),
            (ScalarValue::Float64(Some(1234.5)), "FM9,999.00", "1,234.50"),
            (ScalarValue::Int32(Some(7)), "000", " 007"),
            (decimal(0, 0), "FM9999.99", "0."),
            (decimal(1, -6), "9,999,999", " 1,000,000"),
            (decimal(0, 0), "9999.99", "     .00"),
            (decimal(-1, 0), "PL9999", "    -1"),
            (decimal(1, 0), "PL9999", "+    1"),
            (decimal(1, 0), "99.", "  1"),
            (decimal(12_345, 0), "FM99.99", "##.##"),
            (decimal(12_345, 0), "999th", " ###"),
        ] {
            assert_eq!(write(&value, template).unwrap(), expected, "{value} {template}");
        }
        for (template, code) in [("9.9.9", "42601"), ("9.99EEEE", "0A000"), ("RN", "0A000")] {
            assert_eq!(write(&decimal(1, 0), template).unwrap_err().code.as_str(), code, "{template}");
        }
    }
}
