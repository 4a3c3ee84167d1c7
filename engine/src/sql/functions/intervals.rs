//! Intervals: their lengths, and arithmetic with numbers and times of day.
//!
//! PostgreSQL compares intervals by their length, a month being thirty days and a day
//! twenty-four hours (`interval_cmp_value`), and multiplies them by numbers part by part
//! (`interval_mul`). Arrow has the parts compared one after the other, and multiplies by
//! whole numbers only. The difference of two timestamps is a duration here, which is an
//! interval of days and time.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, IntervalMonthDayNanoArray, Time64MicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    Time64MicrosecondType, TimeUnit,
};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;

use super::udf::ArrayFunction;
use crate::error::SqlError;
use crate::sqlstate::SqlState;

pub(crate) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DAY_NANOS: i64 = 86_400_000_000_000;
const DAY_MICROS: i64 = DAY_NANOS / 1_000;
const DAYS_PER_MONTH: i128 = 30;
/// Holds the length of any interval, in nanoseconds.
const LENGTH: DataType = DataType::Decimal128(38, 0);

/// The functions that operators over intervals become.
#[derive(Debug, Clone)]
pub(crate) struct Intervals {
    /// The length, to compare by.
    pub(crate) length: Arc<ScalarUDF>,
    /// A duration as days and time.
    pub(crate) of_duration: Arc<ScalarUDF>,
    pub(crate) times: Arc<ScalarUDF>,
    pub(crate) divided: Arc<ScalarUDF>,
    pub(crate) negated: Arc<ScalarUDF>,
    pub(crate) time_plus: Arc<ScalarUDF>,
    pub(crate) time_minus: Arc<ScalarUDF>,
}

impl Intervals {
    pub(crate) fn new() -> Self {
        let define = |name, returns, body| Arc::new(ArrayFunction::define(name, returns, body));
        Self {
            length: define("interval_length", LENGTH, lengths),
            of_duration: define("interval_of", INTERVAL, |arguments| intervals(&arguments[0])),
            times: define("interval_mul", INTERVAL, |arguments| scaled(arguments, |part, by| part * by)),
            divided: define("interval_div", INTERVAL, |arguments| {
                let by = arguments[1].as_primitive::<Float64Type>();
                if by.iter().flatten().any(|by| by == 0.0) {
                    return Err(raised(SqlState::DIVISION_BY_ZERO, "division by zero"));
                }
                scaled(arguments, |part, by| part / by)
            }),
            negated: define("interval_um", INTERVAL, |arguments| {
                each(&arguments[0], |value| {
                    let months = value.months.checked_neg().ok_or_else(out_of_range)?;
                    let days = value.days.checked_neg().ok_or_else(out_of_range)?;
                    Ok((months, days, value.nanoseconds.checked_neg().ok_or_else(out_of_range)?))
                })
            }),
            time_plus: define("time_pl_interval", TIME, |arguments| moved(arguments, 1)),
            time_minus: define("time_mi_interval", TIME, |arguments| moved(arguments, -1)),
        }
    }
}

/// A time of day, as tables have it.
pub(crate) const TIME: DataType = DataType::Time64(TimeUnit::Microsecond);

/// Whether values of a type are intervals for PostgreSQL.
pub(crate) fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_) | DataType::Duration(_))
}

/// Returns the length of an interval, by which it is compared.
pub(crate) fn length(value: IntervalMonthDayNano) -> i128 {
    let days = i128::from(value.months) * DAYS_PER_MONTH + i128::from(value.days);
    days * i128::from(DAY_NANOS) + i128::from(value.nanoseconds)
}

fn raised(code: SqlState, message: &str) -> DataFusionError {
    DataFusionError::External(Box::new(SqlError::new(code, message)))
}

pub(super) fn out_of_range() -> DataFusionError {
    raised(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

/// Returns intervals of one form; a duration has days and time.
fn intervals(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Duration(unit) => {
            // Nanoseconds of centuries do not fit 64 bits.
            let nanos_of_one = i128::from(match unit {
                TimeUnit::Second => 1_000_000_000,
                TimeUnit::Millisecond => 1_000_000,
                TimeUnit::Microsecond => 1_000,
                TimeUnit::Nanosecond => 1,
            });
            let day = i128::from(DAY_NANOS);
            let counts = cast(array, &DataType::Int64)?;
            let interval = |count: i64| -> Result<IntervalMonthDayNano> {
                let nanos = i128::from(count) * nanos_of_one;
                let days = i32::try_from(nanos / day).map_err(|_| out_of_range())?;
                Ok(IntervalMonthDayNano::new(0, days, (nanos % day) as i64))
            };
            let values = counts.as_primitive::<Int64Type>().iter().map(|count| count.map(interval).transpose());
            Arc::new(values.collect::<Result<IntervalMonthDayNanoArray>>()?)
        }
        _ => cast(array, &INTERVAL)?,
    })
}

fn lengths(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let values = intervals(&arguments[0])?;
    let lengths = values.as_primitive::<IntervalMonthDayNanoType>().iter().map(|value| value.map(length));
    Ok(Arc::new(lengths.collect::<Decimal128Array>().with_precision_and_scale(38, 0)?))
}

fn each(array: &ArrayRef, change: impl Fn(IntervalMonthDayNano) -> Result<(i32, i32, i64)>) -> Result<ArrayRef> {
    let values = intervals(array)?;
    let changed = values.as_primitive::<IntervalMonthDayNanoType>().iter().map(|value| {
        let changed = value.map(&change).transpose()?;
        Ok(changed.map(|(months, days, nanos)| IntervalMonthDayNano::new(months, days, nanos)))
    });
    Ok(Arc::new(changed.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

fn scaled(arguments: &[ArrayRef], by: fn(f64, f64) -> f64) -> Result<ArrayRef> {
    let values = intervals(&arguments[0])?;
    let factors = arguments[1].as_primitive::<Float64Type>();
    let scaled = values.as_primitive::<IntervalMonthDayNanoType>().iter().zip(factors).map(|pair| match pair {
        (Some(value), Some(factor)) => scale(value, |part| by(part, factor)).map(Some),
        _ => Ok(None),
    });
    Ok(Arc::new(scaled.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

/// Scales each part and hands its fraction down to the next smaller one.
pub(super) fn scale(value: IntervalMonthDayNano, by: impl Fn(f64) -> f64) -> Result<IntervalMonthDayNano> {
    let narrow = |part: f64| {
        let fits = part.is_finite() && part.abs() <= f64::from(i32::MAX);
        if fits { Ok(part.trunc()) } else { Err(out_of_range()) }
    };
    // What floating point makes of a part is exact to a microsecond.
    let exact = |part: f64| (part * 1e6).round_ties_even() / 1e6;
    let (months, days) = (by(value.months.into()), by(value.days.into()));
    let (whole_months, mut whole_days) = (narrow(months)?, narrow(days)?);
    let more_days = exact((months - whole_months) * 30.0);
    let mut seconds = exact((days - whole_days + more_days - more_days.trunc()) * 86_400.0);
    if seconds.abs() >= 86_400.0 {
        let carried = (seconds / 86_400.0).trunc();
        whole_days += carried;
        seconds -= carried * 86_400.0;
    }
    whole_days = narrow(whole_days + more_days.trunc())?;
    let micros = (by(value.nanoseconds as f64 / 1e3) + seconds * 1e6).round_ties_even();
    if !micros.is_finite() || micros.abs() > i64::MAX as f64 / 1e3 {
        return Err(out_of_range());
    }
    Ok(IntervalMonthDayNano::new(whole_months as i32, whole_days as i32, micros as i64 * 1_000))
}

/// Moves a time of day around the clock.
fn moved(arguments: &[ArrayRef], sign: i64) -> Result<ArrayRef> {
    let (times, by) = (cast(&arguments[0], &TIME)?, intervals(&arguments[1])?);
    let times = times.as_primitive::<Time64MicrosecondType>().iter();
    let moved = times
        .zip(by.as_primitive::<IntervalMonthDayNanoType>())
        .map(|(time, by)| Some((time? + sign * (by?.nanoseconds / 1_000 % DAY_MICROS)).rem_euclid(DAY_MICROS)));
    Ok(Arc::new(moved.collect::<Time64MicrosecondArray>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_scaled_as_postgresql_scales_it() {
        let day = DAY_NANOS;
        // What PostgreSQL 15 answers.
        let cases = [
            ((0, 1, 0), 2.0, (0, 2, 0)),
            ((0, 1, 0), 0.5, (0, 0, day / 2)),
            ((1, 0, 0), 0.5, (0, 15, 0)),
            ((1, 1, 0), 1.5, (1, 16, day / 2)),
            ((0, 0, 3_600_000_000_000), -1.5, (0, 0, -5_400_000_000_000)),
        ];
        for ((months, days, nanos), by, expected) in cases {
            let value = scale(IntervalMonthDayNano::new(months, days, nanos), |part| part * by).unwrap();
            assert_eq!((value.months, value.days, value.nanoseconds), expected, "{months} {days} {nanos} * {by}");
        }
        assert!(scale(IntervalMonthDayNano::new(i32::MAX, 0, 0), |part| part * 2.0).is_err());
    }

    #[test]
    fn intervals_of_one_length_are_equal() {
        let equal = [((0, 1, 0), (0, 0, DAY_NANOS)), ((1, 0, 0), (0, 30, 0)), ((1, -30, 0), (0, 0, 0))];
        let of = |(months, days, nanos)| length(IntervalMonthDayNano::new(months, days, nanos));
        for (one, other) in equal {
            assert_eq!(of(one), of(other));
        }
        assert!(of((1, 0, 0)) < of((0, 31, 0)));
    }
}
