//! Text and binary form of `numeric`.

use arrow::datatypes::i256;
use bytes::{BufMut, BytesMut};

use crate::settings::Format;
use crate::types::NUMERIC;

/// Most base-10000 groups of a Decimal256 with any scale of Arrow.
const GROUPS_MAX: usize = 96;

/// Appends a decimal of 128 bits.
pub(crate) fn put_i128(out: &mut BytesMut, unscaled: i128, scale: i8, format: Format) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(unscaled.unsigned_abs()).as_bytes();
    put(out, unscaled < 0, digits, scale.into(), format);
}

/// Appends a value of [`NUMERIC`]. Its scale is that of the type and not the value's, so
/// zeros at its end were not given by anybody, and are left out.
pub(crate) fn put_unconstrained(out: &mut BytesMut, mut unscaled: i128, format: Format) {
    let mut scale = NUMERIC.1;
    while scale > 0 && unscaled % 10 == 0 {
        unscaled /= 10;
        scale -= 1;
    }
    put_i128(out, unscaled, scale, format);
}

/// Appends a decimal of 256 bits.
pub(crate) fn put_i256(out: &mut BytesMut, unscaled: i256, scale: i8, format: Format) {
    if let Some(narrow) = unscaled.to_i128() {
        return put_i128(out, narrow, scale, format);
    }
    let text = unscaled.to_string();
    let digits = text.strip_prefix('-').unwrap_or(&text);
    let negative = digits.len() < text.len();
    put(out, negative, digits.as_bytes(), scale.into(), format);
}

fn put(out: &mut BytesMut, negative: bool, digits: &[u8], scale: i32, format: Format) {
    match format {
        Format::Text => put_text(out, negative, digits, scale),
        Format::Binary => put_binary(out, negative, digits, scale),
    }
}

fn put_text(out: &mut BytesMut, negative: bool, digits: &[u8], scale: i32) {
    if negative {
        out.put_u8(b'-');
    }
    if scale <= 0 {
        out.put_slice(digits);
        if digits != b"0" {
            out.put_bytes(b'0', scale.unsigned_abs() as usize);
        }
        return;
    }
    let scale = scale as usize;
    if digits.len() > scale {
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        out.put_slice(whole);
        out.put_u8(b'.');
        out.put_slice(fraction);
    } else {
        out.put_slice(b"0.");
        out.put_bytes(b'0', scale - digits.len());
        out.put_slice(digits);
    }
}

/// Appends the form of `numeric_send`: count, weight, sign and scale, then
/// groups of four decimal digits without leading and trailing zero groups.
fn put_binary(out: &mut BytesMut, negative: bool, digits: &[u8], scale: i32) {
    let digit = |power: i32| {
        let index = digits.len() as i32 - 1 - (power + scale);
        let digit = usize::try_from(index).ok().and_then(|index| digits.get(index));
        digit.map_or(0, |digit| u16::from(digit - b'0'))
    };
    let highest = (digits.len() as i32 - 1 - scale).div_euclid(4);
    let lowest = (-scale).div_euclid(4);
    let mut groups = [0u16; GROUPS_MAX];
    let mut count = 0;
    let mut weight = 0;
    for group in (lowest..=highest).rev() {
        let power = group * 4;
        let value = digit(power) + 10 * digit(power + 1) + 100 * digit(power + 2) + 1000 * digit(power + 3);
        if count == 0 && value == 0 {
            continue;
        }
        if count == 0 {
            weight = group;
        }
        if let Some(slot) = groups.get_mut(count) {
            *slot = value;
            count += 1;
        }
    }
    while count > 0 && groups[count - 1] == 0 {
        count -= 1;
    }
    out.put_u16(count as u16);
    out.put_i16(if count == 0 { 0 } else { weight as i16 });
    out.put_u16(if negative && count > 0 { 0x4000 } else { 0 });
    out.put_u16(scale.max(0) as u16);
    for group in &groups[..count] {
        out.put_u16(*group);
    }
}
