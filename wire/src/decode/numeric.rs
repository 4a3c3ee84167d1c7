//! Reading of `numeric`.
//!
//! PostgreSQL's numeric has 131,072 digits before the point; Arrow's widest
//! decimal has 76 in all, which is the limit here.

use arrow::datatypes::i256;

use super::binary::Cursor;
use crate::error::WireError;

/// Most decimal digits of an Arrow decimal.
const DIGITS_MAX: usize = 76;

/// A value of `numeric`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numeric {
    /// `unscaled * 10^-scale`.
    Finite {
        /// All digits.
        unscaled: i256,
        /// Digits after the point, 0 to 76.
        scale: i16,
    },
    /// Not a number.
    NaN,
    /// Positive infinity.
    Infinity,
    /// Negative infinity.
    NegInfinity,
}

impl Numeric {
    /// Returns the nearest `float8`.
    pub fn to_f64(&self) -> f64 {
        match self {
            Self::Finite { unscaled, scale } => format!("{unscaled}e-{scale}").parse().unwrap_or(f64::NAN),
            Self::NaN => f64::NAN,
            Self::Infinity => f64::INFINITY,
            Self::NegInfinity => f64::NEG_INFINITY,
        }
    }

    /// Returns the digits at a larger or equal scale.
    pub(crate) fn rescale(&self, to: i16) -> Result<i256, WireError> {
        let Self::Finite { unscaled, scale } = self else {
            return Err(out_of_range("NaN or infinity"));
        };
        let power = u32::try_from(to - scale).map_err(|_| out_of_range("scale"))?;
        i256::from_i128(10)
            .checked_pow(power)
            .and_then(|factor| unscaled.checked_mul(factor))
            .ok_or_else(|| out_of_range(&unscaled.to_string()))
    }

    /// Reads text that has no white space around it.
    pub(crate) fn from_text(text: &str) -> Option<Result<Self, WireError>> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if rest.eq_ignore_ascii_case("infinity") || rest.eq_ignore_ascii_case("inf") {
            return Some(Ok(if negative { Self::NegInfinity } else { Self::Infinity }));
        }
        if text.eq_ignore_ascii_case("nan") {
            return Some(Ok(Self::NaN));
        }
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent_of(exponent)?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let scale = i64::try_from(fraction.len()).ok()? - exponent;
        Some(Self::from_digits(negative, &[whole, fraction].concat(), scale))
    }

    fn from_digits(negative: bool, digits: &str, scale: i64) -> Result<Self, WireError> {
        let significant = digits.trim_start_matches('0');
        let zeros = usize::try_from(-scale).unwrap_or(0);
        let zeros = if significant.is_empty() { 0 } else { zeros };
        let scale = scale.max(0);
        if significant.len().saturating_add(zeros) > DIGITS_MAX || scale > DIGITS_MAX as i64 {
            return Err(out_of_range(digits));
        }
        let sign = if negative { "-" } else { "" };
        let unscaled = format!("{sign}0{significant}{}", "0".repeat(zeros));
        let unscaled = i256::from_string(&unscaled).ok_or_else(|| out_of_range(digits))?;
        Ok(Self::Finite { unscaled, scale: scale as i16 })
    }

    /// Reads the form of `numeric_recv`.
    pub(crate) fn from_binary(cursor: &mut Cursor<'_>) -> Result<Self, WireError> {
        let count = usize::from(cursor.u16()?);
        let weight = i64::from(cursor.i16()?);
        let sign = cursor.u16()?;
        let scale = i64::from(cursor.u16()?);
        let groups = (0..count).map(|_| cursor.u16()).collect::<Result<Vec<_>, _>>()?;
        if groups.iter().any(|group| *group > 9999) {
            return Err(WireError::InvalidBinary("invalid digit in external \"numeric\" value".into()));
        }
        let negative = match sign {
            0x0000 => false,
            0x4000 => true,
            0xc000 => return Ok(Self::NaN),
            0xd000 => return Ok(Self::Infinity),
            0xf000 => return Ok(Self::NegInfinity),
            _ => {
                return Err(WireError::InvalidBinary("invalid sign in external \"numeric\" value".into()));
            }
        };
        if scale > 0x3fff {
            return Err(WireError::InvalidBinary("invalid scale in external \"numeric\" value".into()));
        }
        if groups.len() > DIGITS_MAX || weight > DIGITS_MAX as i64 || weight < -(DIGITS_MAX as i64) {
            return Err(out_of_range("numeric"));
        }
        let mut digits: String = groups.iter().map(|group| format!("{group:04}")).collect();
        // The digits stand for a fraction of this many; show `scale` of them.
        let own_scale = 4 * (count as i64 - 1 - weight);
        if scale >= own_scale {
            digits.push_str(&"0".repeat((scale - own_scale).min(200) as usize));
        } else {
            let surplus = usize::try_from(own_scale - scale).unwrap_or(usize::MAX);
            digits.truncate(digits.len().saturating_sub(surplus));
        }
        Self::from_digits(negative, &digits, scale)
    }
}

fn exponent_of(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

fn out_of_range(value: &str) -> WireError {
    WireError::NumberOutOfRange { type_name: "numeric", value: value.to_owned() }
}
