//! `to_char`, `to_date` and `to_timestamp` with templates (PostgreSQL documentation, "Data Type Formatting Functions").
//!
//! DataFusion's functions of these names take the patterns of `strftime`, in which a template of PostgreSQL is plain text.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeDelta};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{ScalarUDF, Volatility};
use datafusion::scalar::ScalarValue;
use lancegate_wire::FormatSettings;

use super::udf::{RowFunction, text, utf8};
use crate::error::SqlError;
use crate::sqlstate::SqlState;

mod datetime;
mod number;

use datetime::{Moment, Template};

const MICROS: i64 = 1_000_000;

/// The functions of a session, in whose zone times are written and read.
#[derive(Debug, Clone)]
pub(crate) struct Templates {
    /// `to_char(moment or interval, template)`
    pub(crate) of_moment: Arc<ScalarUDF>,
    /// `to_char(number, template)`
    pub(crate) of_number: Arc<ScalarUDF>,
    /// `to_date(text, template)`
    pub(crate) to_date: Arc<ScalarUDF>,
    /// `to_timestamp(text, template)`
    pub(crate) to_timestamp: Arc<ScalarUDF>,
}

impl Templates {
    pub(crate) fn new(settings: &FormatSettings) -> Self {
        let (writes, reads) = (settings.clone(), settings.clone());
        Self {
            of_moment: function("to_char", &DataType::Utf8, move |value, template| {
                Ok(utf8(Some(Template::of(template).write(&moment(value, &writes)?)?)))
            }),
            of_number: function("to_char", &DataType::Utf8, |value, template| {
                Ok(utf8(Some(number::write(value, template)?)))
            }),
            to_date: function("to_date", &DataType::Date32, |value, template| {
                let read = Template::of(template).read(&text(value).unwrap_or_default())?;
                let days = read.local.date().signed_duration_since(NaiveDate::default()).num_days();
                Ok(ScalarValue::Date32(i32::try_from(days).ok()))
            }),
            to_timestamp: function("to_timestamp", &zoned(), move |value, template| {
                let read = Template::of(template).read(&text(value).unwrap_or_default())?;
                let local = read.local.and_utc();
                let offset = read.offset.unwrap_or_else(|| reads.timezone.offset_of_local(local.timestamp()));
                let micros = local.timestamp_micros() - i64::from(offset) * MICROS;
                Ok(ScalarValue::TimestampMicrosecond(Some(micros), Some(Arc::from("UTC"))))
            }),
        }
    }
}

/// What is written behind a number that counts: `st`, `nd`, `rd` or `th`.
fn ordinal(digits: &str) -> &'static str {
    let last = |count: usize| &digits[digits.len().saturating_sub(count)..];
    match (last(2), last(1)) {
        ("11" | "12" | "13", _) => "th",
        (_, "1") => "st",
        (_, "2") => "nd",
        (_, "3") => "rd",
        _ => "th",
    }
}

fn zoned() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC")))
}

/// Returns a function of a value and a template, which is NULL where one of them is.
fn function(
    name: &str,
    returns: &DataType,
    body: impl Fn(&ScalarValue, &str) -> Result<ScalarValue, SqlError> + Send + Sync + 'static,
) -> Arc<ScalarUDF> {
    let none = returns.clone();
    Arc::new(RowFunction::define(name, &[2], returns.clone(), Volatility::Stable, move |arguments| match arguments {
        [value, template] if !value.is_null() && !template.is_null() => {
            let template = text(template).unwrap_or_default();
            body(value, &template).map_err(|error| DataFusionError::External(Box::new(error)))
        }
        _ => ScalarValue::try_from(&none),
    }))
}

/// Returns what a date, a time or an interval shows on the clock of the session.
fn moment(value: &ScalarValue, settings: &FormatSettings) -> Result<Moment, SqlError> {
    match value.data_type() {
        DataType::Interval(_) | DataType::Duration(_) => {
            match value.cast_to(&DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano))? {
                ScalarValue::IntervalMonthDayNano(Some(interval)) => {
                    Ok(Moment::of_interval(interval.months, interval.days, interval.nanoseconds / 1_000))
                }
                _ => Err(SqlError::internal("an interval has no parts")),
            }
        }
        DataType::Timestamp(_, Some(_)) => at(micros(value, &zoned())?, settings),
        // A date is its midnight in the zone of the session.
        DataType::Date32 => {
            let midnight = micros(value, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
            let offset = settings.timezone.offset_of_local(midnight.div_euclid(MICROS));
            at(midnight - i64::from(offset) * MICROS, settings)
        }
        DataType::Time64(_) | DataType::Time32(_) => match value.cast_to(&DataType::Time64(TimeUnit::Microsecond))? {
            ScalarValue::Time64Microsecond(Some(micros)) => Ok(Moment::of_interval(0, 0, micros)),
            _ => Err(SqlError::internal("a time has no value")),
        },
        _ => Ok(Moment::of_time(local(micros(value, &DataType::Timestamp(TimeUnit::Microsecond, None))?)?, None)),
    }
}

fn at(micros: i64, settings: &FormatSettings) -> Result<Moment, SqlError> {
    let seconds = micros.div_euclid(MICROS);
    let (offset, zone) = (settings.timezone.offset_at(seconds), settings.timezone.abbreviation_at(seconds));
    Ok(Moment::of_time(local(micros + i64::from(offset) * MICROS)?, Some((offset, zone))))
}

fn micros(value: &ScalarValue, kind: &DataType) -> Result<i64, SqlError> {
    match value.cast_to(kind)? {
        ScalarValue::TimestampMicrosecond(Some(micros), _) => Ok(micros),
        _ => Err(SqlError::internal("a timestamp has no value")),
    }
}

fn local(micros: i64) -> Result<NaiveDateTime, SqlError> {
    let out_of_range = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range");
    let seconds = DateTime::from_timestamp(micros.div_euclid(MICROS), 0).ok_or_else(out_of_range)?;
    Ok(seconds.naive_utc() + TimeDelta::microseconds(micros.rem_euclid(MICROS)))
}
