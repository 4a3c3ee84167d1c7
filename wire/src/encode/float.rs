//! Text of floating-point numbers as `float4out` and `float8out` print it.
//!
//! With `extra_float_digits` above zero that is the shortest text that reads
//! back as the same number *under every rounding mode*: PostgreSQL does not
//! accept a decimal exactly half-way to the neighbour (so 1e23 is printed as
//! 9.999999999999999e+22), while `ryu` does. [`is_half_way`] finds those.

use bytes::{BufMut, BytesMut};

/// Digits and exponent: `digits * 10^exponent`, without trailing zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Decimal {
    digits: u64,
    exponent: i32,
}

/// Appends a `float8`.
pub(crate) fn put_f64(out: &mut BytesMut, value: f64, extra_float_digits: i32) {
    if put_special(out, value) {
        return;
    }
    if extra_float_digits <= 0 {
        return put_rounded(out, value, 15 + extra_float_digits);
    }
    let mut buffer = ryu::Buffer::new();
    let text = buffer.format_finite(value);
    let magnitude = value.abs();
    if (1e-4..1e15).contains(&magnitude) {
        return put_fixed(out, text);
    }
    let mut decimal = parse(text);
    let bits = value.to_bits();
    let (mantissa, exponent) = parts(bits & ((1 << 52) - 1), (bits >> 52) as i32 & 0x7ff, 52, 1023);
    if magnitude >= 4e15 && is_half_way(decimal, mantissa, exponent) {
        decimal = longer(
            17,
            decimal,
            |digits| {
                let text = format!("{:.*e}", digits - 1, magnitude);
                (text.parse::<f64>() == Ok(magnitude)).then(|| parse(&text))
            },
            mantissa,
            exponent,
        );
    }
    put_scientific(out, value < 0.0, decimal);
}

/// Appends a `float4`.
pub(crate) fn put_f32(out: &mut BytesMut, value: f32, extra_float_digits: i32) {
    if put_special(out, value.into()) {
        return;
    }
    if extra_float_digits <= 0 {
        return put_rounded(out, value.into(), 6 + extra_float_digits);
    }
    let mut buffer = ryu::Buffer::new();
    let text = buffer.format_finite(value);
    let magnitude = value.abs();
    if (1e-4..1e6).contains(&magnitude) {
        return put_fixed(out, text);
    }
    let mut decimal = parse(text);
    let bits = u64::from(value.to_bits());
    let (mantissa, exponent) = parts(bits & ((1 << 23) - 1), (bits >> 23) as i32 & 0xff, 23, 127);
    if magnitude >= 4e6 && is_half_way(decimal, mantissa, exponent) {
        decimal = longer(
            9,
            decimal,
            |digits| {
                let text = format!("{:.*e}", digits - 1, magnitude);
                (text.parse::<f32>() == Ok(magnitude)).then(|| parse(&text))
            },
            mantissa,
            exponent,
        );
    }
    put_scientific(out, value < 0.0, decimal);
}

fn put_special(out: &mut BytesMut, value: f64) -> bool {
    let text: &[u8] = if value.is_nan() {
        b"NaN"
    } else if value == f64::INFINITY {
        b"Infinity"
    } else if value == f64::NEG_INFINITY {
        b"-Infinity"
    } else if value == 0.0 {
        if value.is_sign_negative() { b"-0" } else { b"0" }
    } else {
        return false;
    };
    out.put_slice(text);
    true
}

/// Appends what `ryu` printed without an exponent.
fn put_fixed(out: &mut BytesMut, text: &str) {
    out.put_slice(text.strip_suffix(".0").unwrap_or(text).as_bytes());
}

fn put_scientific(out: &mut BytesMut, negative: bool, decimal: Decimal) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(decimal.digits).as_bytes();
    if negative {
        out.put_u8(b'-');
    }
    out.put_u8(digits[0]);
    if digits.len() > 1 {
        out.put_u8(b'.');
        out.put_slice(&digits[1..]);
    }
    let exponent = decimal.exponent + digits.len() as i32 - 1;
    put_exponent(out, exponent);
}

fn put_exponent(out: &mut BytesMut, exponent: i32) {
    out.put_slice(if exponent < 0 { b"e-" } else { b"e+" });
    if exponent.abs() < 10 {
        out.put_u8(b'0');
    }
    out.put_slice(itoa::Buffer::new().format(exponent.abs()).as_bytes());
}

/// Appends the number as `printf("%.*g")` does, with at least one digit.
fn put_rounded(out: &mut BytesMut, value: f64, digits: i32) {
    let precision = digits.max(1);
    let text = format!("{:.*e}", precision as usize - 1, value.abs());
    let decimal = parse(&text);
    let mut buffer = itoa::Buffer::new();
    let shown = buffer.format(decimal.digits).as_bytes();
    let exponent = decimal.exponent + shown.len() as i32 - 1;
    if exponent < -4 || exponent >= precision {
        return put_scientific(out, value < 0.0, decimal);
    }
    if value < 0.0 {
        out.put_u8(b'-');
    }
    if exponent < 0 {
        out.put_slice(b"0.");
        out.put_bytes(b'0', (-exponent - 1) as usize);
        out.put_slice(shown);
        return;
    }
    let whole = exponent as usize + 1;
    if shown.len() <= whole {
        out.put_slice(shown);
        out.put_bytes(b'0', whole - shown.len());
        return;
    }
    out.put_slice(&shown[..whole]);
    out.put_u8(b'.');
    out.put_slice(&shown[whole..]);
}

/// Reads the output of `ryu` or of `{:e}`.
fn parse(text: &str) -> Decimal {
    let mut decimal = Decimal { digits: 0, exponent: 0 };
    let mut fraction = false;
    let mut bytes = text.bytes();
    for byte in bytes.by_ref() {
        match byte {
            b'0'..=b'9' => {
                decimal.digits = decimal.digits.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
                decimal.exponent -= i32::from(fraction);
            }
            b'.' => fraction = true,
            b'e' => break,
            _ => {}
        }
    }
    let mut exponent = 0;
    let mut negative = false;
    for byte in bytes {
        match byte {
            b'0'..=b'9' => exponent = exponent * 10 + i32::from(byte - b'0'),
            b'-' => negative = true,
            _ => {}
        }
    }
    decimal.exponent += if negative { -exponent } else { exponent };
    while decimal.digits != 0 && decimal.digits.is_multiple_of(10) {
        decimal.digits /= 10;
        decimal.exponent += 1;
    }
    decimal
}

/// Returns mantissa and exponent of `mantissa * 2^exponent`.
fn parts(fraction: u64, biased: i32, fraction_bits: i32, bias: i32) -> (u64, i32) {
    if biased == 0 {
        (fraction, 1 - bias - fraction_bits)
    } else {
        (fraction | 1 << fraction_bits, biased - bias - fraction_bits)
    }
}

/// Returns whether a decimal lies exactly half-way between the number
/// `mantissa * 2^exponent` and one of its neighbours.
fn is_half_way(decimal: Decimal, mantissa: u64, exponent: i32) -> bool {
    let above = 4 * mantissa + 2;
    // The lower neighbour of a power of two is only half as far away.
    let below = 4 * mantissa - if mantissa.is_power_of_two() { 1 } else { 2 };
    [above, below].into_iter().any(|middle| is_equal(decimal, middle, exponent - 2))
}

/// Returns whether `digits * 10^k` equals `middle * 2^q`, exactly.
fn is_equal(decimal: Decimal, middle: u64, q: i32) -> bool {
    let k = decimal.exponent;
    // Beyond these powers of five no such pair exists: the odd factors differ.
    if !(-27..=27).contains(&k) {
        return false;
    }
    let five = 5u128.pow(k.unsigned_abs());
    let (left, right) = if k >= 0 {
        (u128::from(decimal.digits).checked_mul(five), Some(u128::from(middle)))
    } else {
        (Some(u128::from(decimal.digits)), u128::from(middle).checked_mul(five))
    };
    let (Some(left), Some(right)) = (left, right) else {
        return false;
    };
    let left_twos = left.trailing_zeros() as i32;
    let right_twos = right.trailing_zeros() as i32;
    left >> left_twos == right >> right_twos && left_twos + k == right_twos + q
}

/// Returns the shortest decimal of more digits that is not half-way.
fn longer(
    digits_max: usize,
    shortest: Decimal,
    rounded: impl Fn(usize) -> Option<Decimal>,
    mantissa: u64,
    exponent: i32,
) -> Decimal {
    (1..=digits_max).filter_map(rounded).find(|decimal| !is_half_way(*decimal, mantissa, exponent)).unwrap_or(shortest)
}

/// Appends a finite or special float to a JSON text; JSON has no NaN, so those
/// become strings as in PostgreSQL's `to_json`.
pub(crate) fn put_json(out: &mut BytesMut, finite: bool, write: impl FnOnce(&mut BytesMut)) {
    if finite {
        return write(out);
    }
    out.put_u8(b'"');
    write(out);
    out.put_u8(b'"');
}
