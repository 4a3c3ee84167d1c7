//! Numbers: from one type to another as PostgreSQL takes them, and division of `numeric`.
//!
//! Arrow makes a float of a decimal by floating-point division, which gives the neighbour
//! of the nearest float now and then, and divides decimals to four more digits, which are cut off.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Float64Type, i256};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use datafusion::scalar::ScalarValue;

use super::udf::ArrayFunction;
use crate::error::SqlError;
use crate::sqlstate::SqlState;

/// The most digits of a decimal of 128 bits.
const DIGITS_MAX: u8 = 38;
/// How many digits PostgreSQL gives a quotient behind the point, at most, as a rule.
const QUOTIENT_SCALE: u8 = 20;
/// Whole numbers up to here, and powers of ten up to 10^22, are floats exactly.
const EXACT_MAX: u128 = 1 << 53;
const EXACT_POWER_MAX: i8 = 22;

/// The functions that conversions of numbers become.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    /// The nearest `double precision`.
    pub(crate) to_double: Arc<ScalarUDF>,
    /// Halves go to the even neighbour.
    pub(crate) round_even: Arc<ScalarUDF>,
    pub(crate) floor: Arc<ScalarUDF>,
}

impl Numbers {
    pub(crate) fn new() -> Self {
        Self {
            to_double: Arc::new(ArrayFunction::define("numeric_to_double", DataType::Float64, |arguments| {
                doubles(&arguments[0])
            })),
            round_even: Arc::new(ArrayFunction::define("round", DataType::Float64, |arguments| {
                let values = cast(&arguments[0], &DataType::Float64)?;
                Ok(Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even)))
            })),
            floor: Arc::new(ArrayFunction::define("floor", DataType::Float64, |arguments| {
                let values = cast(&arguments[0], &DataType::Float64)?;
                Ok(Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::floor)))
            })),
        }
    }
}

/// Returns the nearest double of a decimal literal.
pub(crate) fn double_of(value: &ScalarValue) -> Option<f64> {
    match value {
        ScalarValue::Decimal128(Some(value), _, scale) => Some(double(*value, *scale)),
        ScalarValue::Decimal256(Some(value), _, scale) => Some(parsed(&value.to_string(), *scale)),
        _ => None,
    }
}

fn double(value: i128, scale: i8) -> f64 {
    if value.unsigned_abs() <= EXACT_MAX && (0..=EXACT_POWER_MAX).contains(&scale) {
        // One division of exact floats is rounded once.
        return value as f64 / 10_f64.powi(scale.into());
    }
    parsed(&value.to_string(), scale)
}

fn parsed(digits: &str, scale: i8) -> f64 {
    format!("{digits}e{}", -i32::from(scale)).parse().unwrap_or(f64::NAN)
}

fn doubles(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Decimal128(_, scale) => {
            let values = array.as_primitive::<Decimal128Type>();
            Arc::new(values.unary::<_, Float64Type>(|value| double(value, *scale)))
        }
        DataType::Decimal256(_, scale) => {
            let values = array.as_primitive::<Decimal256Type>().iter();
            let doubles = values.map(|value| value.map(|value| parsed(&value.to_string(), *scale)));
            Arc::new(doubles.collect::<Float64Array>())
        }
        _ => cast(array, &DataType::Float64)?,
    })
}

/// Returns the function that divides numbers of these types, if they are exact.
pub(crate) fn division(left: &DataType, right: &DataType) -> Option<ScalarUDF> {
    let (left, right) = (digits_of(left)?, digits_of(right)?);
    // Digits that the quotient may have before the point: those are kept.
    let whole = (i16::from(left.0) - i16::from(left.1) + i16::from(right.1)).clamp(1, i16::from(DIGITS_MAX));
    let room = u8::try_from(i16::from(DIGITS_MAX) - whole).unwrap_or_default();
    let least = u8::try_from(left.1.max(right.1)).unwrap_or_default().saturating_add(6);
    let scale = room.clamp(least.min(QUOTIENT_SCALE), QUOTIENT_SCALE);
    let returns = DataType::Decimal128(DIGITS_MAX, i8::try_from(scale).ok()?);
    Some(ArrayFunction::typed("numeric_div", returns, quotients))
}

/// Returns precision and scale of a number that is exact.
fn digits_of(data_type: &DataType) -> Option<(u8, i8)> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        DataType::Decimal128(precision, scale) if *scale >= 0 => (*precision, *scale),
        _ => return None,
    })
}

fn quotients(arguments: &[ArrayRef], returns: &DataType) -> Result<ArrayRef> {
    let DataType::Decimal128(precision, scale) = returns else {
        return Err(DataFusionError::Internal(format!("a quotient of type {returns}")));
    };
    let (left, left_scale) = exact(&arguments[0])?;
    let (right, right_scale) = exact(&arguments[1])?;
    let power = i16::from(*scale) - i16::from(left_scale) + i16::from(right_scale);
    let pairs = left.as_primitive::<Decimal128Type>().iter().zip(right.as_primitive::<Decimal128Type>());
    let quotients = pairs.map(|pair| match pair {
        (Some(left), Some(right)) => quotient(left, right, power).map(Some),
        _ => Ok(None),
    });
    let quotients = quotients.collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(quotients.with_precision_and_scale(*precision, *scale)?))
}

fn exact(array: &ArrayRef) -> Result<(ArrayRef, i8)> {
    match array.data_type() {
        DataType::Decimal128(_, scale) => Ok((Arc::clone(array), *scale)),
        _ => Ok((cast(array, &DataType::Decimal128(20, 0))?, 0)),
    }
}

/// Divides to `power` digits more, halves away from zero.
fn quotient(left: i128, right: i128, power: i16) -> Result<i128> {
    let raised = |code, message: &str| DataFusionError::External(Box::new(SqlError::new(code, message)));
    if right == 0 {
        return Err(raised(SqlState::DIVISION_BY_ZERO, "division by zero"));
    }
    let overflow = || raised(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow");
    let ten = |power: i16| i256::from_i128(10).checked_pow(u32::from(power.unsigned_abs())).ok_or_else(overflow);
    let (mut left, mut right) = (i256::from_i128(left), i256::from_i128(right));
    if power >= 0 {
        left = left.checked_mul(ten(power)?).ok_or_else(overflow)?;
    } else {
        right = right.checked_mul(ten(power)?).ok_or_else(overflow)?;
    }
    let (whole, rest) = (left.checked_div(right), left.checked_rem(right));
    let (Some(whole), Some(rest)) = (whole, rest) else { return Err(overflow()) };
    let away = rest.wrapping_abs() >= right.wrapping_abs().wrapping_sub(rest.wrapping_abs());
    let sign = if (left < i256::ZERO) == (right < i256::ZERO) { i256::ONE } else { i256::MINUS_ONE };
    let rounded = if away { whole.wrapping_add(sign) } else { whole };
    rounded.to_i128().ok_or_else(overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_is_the_double_that_its_text_is() {
        for text in
            ["79675463696223509.0", "57112798.198519346", "99473892814.86781", "0.1", "-2.5", "1000000000000000"]
        {
            let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len()) as i8;
            let value: i128 = text.replace('.', "").parse().unwrap();
            assert_eq!(double(value, scale), text.parse::<f64>().unwrap(), "{text}");
        }
    }

    #[test]
    fn quotients_are_rounded() {
        let cases = [(1, 3, 4, 3333), (2, 3, 4, 6667), (-2, 3, 4, -6667), (1, -2, 0, -1), (1, 2, 0, 1), (4, 2, 1, 20)];
        for (left, right, power, expected) in cases {
            assert_eq!(quotient(left, right, power).unwrap(), expected, "{left} / {right}");
        }
        assert!(quotient(1, 0, 0).is_err());
    }
}
