//! `age`, `justify_days`, `justify_hours` and `justify_interval` (PostgreSQL, "Date/Time Functions and Operators").

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Timelike};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

const NANOS_PER_DAY: i64 = 86_400_000_000_000;
const DAYS_PER_MONTH: i64 = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Call {
    Age,
    Days,
    Hours,
    Interval,
}

/// Returns the functions.
pub(super) fn functions() -> [ScalarUDF; 4] {
    [Call::Age, Call::Days, Call::Hours, Call::Interval].map(|call| {
        let signature = match call {
            Call::Age => Signature::any(2, Volatility::Immutable),
            _ => Signature::one_of(vec![TypeSignature::Exact(vec![INTERVAL])], Volatility::Immutable),
        };
        ScalarUDF::new_from_impl(Function { call, signature })
    })
}

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    call: Call,
    signature: Signature,
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.call {
            Call::Age => "age",
            Call::Days => "justify_days",
            Call::Hours => "justify_hours",
            Call::Interval => "justify_interval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let values: IntervalMonthDayNanoArray = match self.call {
            Call::Age => {
                let [later, earlier] = [&arrays[0], &arrays[1]].map(moments);
                later?.into_iter().zip(earlier?).map(|(later, earlier)| Some(age(later?, earlier?))).collect()
            }
            call => {
                let given = arrays[0].as_primitive::<IntervalMonthDayNanoType>();
                given.iter().map(|value| value.map(|value| justified(call, value))).collect()
            }
        };
        Ok(ColumnarValue::Array(Arc::new(values) as ArrayRef))
    }
}

/// Returns dates, timestamps and texts as local times.
fn moments(array: &ArrayRef) -> Result<Vec<Option<NaiveDateTime>>> {
    let local = cast(array, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
    let local = local.as_primitive::<TimestampMicrosecondType>();
    let moment = |micros: i64| DateTime::from_timestamp_micros(micros).map(|moment| moment.naive_utc());
    Ok((0..local.len()).map(|row| local.is_valid(row).then(|| moment(local.value(row))).flatten()).collect())
}

/// Returns what is between two moments in years, months and days as a calendar counts them: where the days of the later
/// month do not reach, those of the earlier one are added (PostgreSQL's `timestamp_age`).
fn age(one: NaiveDateTime, other: NaiveDateTime) -> IntervalMonthDayNano {
    let (later, earlier, sign) = if one >= other { (one, other, 1) } else { (other, one, -1) };
    let nanos = |moment: NaiveDateTime| {
        i64::from(moment.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(moment.nanosecond())
    };
    let months = |moment: NaiveDateTime| moment.year() * 12 + moment.month0().cast_signed();
    let (mut month, mut day) =
        (months(later) - months(earlier), later.day().cast_signed() - earlier.day().cast_signed());
    let mut nano = nanos(later) - nanos(earlier);
    if nano < 0 {
        nano += NANOS_PER_DAY;
        day -= 1;
    }
    if day < 0 {
        day += days_of_month(earlier);
        month -= 1;
    }
    IntervalMonthDayNano::new(sign * month, sign * day, i64::from(sign) * nano)
}

fn days_of_month(moment: NaiveDateTime) -> i32 {
    let first = |year, month| NaiveDate::from_ymd_opt(year, month, 1);
    let (year, month) = (moment.year(), moment.month());
    let next = if month == 12 { first(year + 1, 1) } else { first(year, month + 1) };
    let days = first(year, month).zip(next).map(|(this, next)| (next - this).num_days());
    days.and_then(|days| i32::try_from(days).ok()).unwrap_or(31)
}

/// Carries whole days of the time, and whole months of the days, so that all have one sign.
fn justified(call: Call, value: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let (mut months, mut days, mut nanos) = (i64::from(value.months), i64::from(value.days), value.nanoseconds);
    if matches!(call, Call::Hours | Call::Interval) {
        days += nanos / NANOS_PER_DAY;
        nanos %= NANOS_PER_DAY;
    }
    if matches!(call, Call::Days | Call::Interval) {
        months += days / DAYS_PER_MONTH;
        days %= DAYS_PER_MONTH;
    }
    if call == Call::Interval {
        if months > 0 && (days < 0 || (days == 0 && nanos < 0)) {
            (months, days) = (months - 1, days + DAYS_PER_MONTH);
        } else if months < 0 && (days > 0 || (days == 0 && nanos > 0)) {
            (months, days) = (months + 1, days - DAYS_PER_MONTH);
        }
    }
    if matches!(call, Call::Hours | Call::Interval) {
        if days > 0 && nanos < 0 {
            (days, nanos) = (days - 1, nanos + NANOS_PER_DAY);
        } else if days < 0 && nanos > 0 {
            (days, nanos) = (days + 1, nanos - NANOS_PER_DAY);
        }
    } else if months > 0 && days < 0 {
        (months, days) = (months - 1, days + DAYS_PER_MONTH);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - DAYS_PER_MONTH);
    }
    let small = |number: i64| i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX });
    IntervalMonthDayNano::new(small(months), small(days), nanos)
}
