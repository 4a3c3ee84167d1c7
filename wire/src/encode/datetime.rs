//! Text of dates, times and intervals in the ISO and postgres styles, and the
//! calendar behind it.
//!
//! <https://www.postgresql.org/docs/current/datatype-datetime.html>

use bytes::{BufMut, BytesMut};

use crate::error::WireError;
use crate::settings::TimeZone;

/// Days from 1970-01-01 to PostgreSQL's epoch, 2000-01-01.
pub(crate) const EPOCH_DAYS: i32 = 10_957;
/// Microseconds of a day.
pub(crate) const DAY_MICROS: i64 = 86_400_000_000;
/// Microseconds from 1970-01-01 to 2000-01-01.
pub(crate) const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * DAY_MICROS;

/// First and last day from 1970-01-01: 4714-11-24 BC and 5874897-12-31.
const DAYS: std::ops::RangeInclusive<i64> = -2_440_588..=2_145_042_905;
/// First microsecond, from 2000-01-01, and the first one too many.
const MICROS: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;

/// A date: infinite or a number of days from 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment<T> {
    NegInfinity,
    Finite(T),
    Infinity,
}

/// Checks an Arrow date against PostgreSQL's range; the ends of `i32` are the
/// infinities.
pub(crate) fn date(days: i32) -> Result<Moment<i32>, WireError> {
    match days {
        i32::MAX => Ok(Moment::Infinity),
        i32::MIN => Ok(Moment::NegInfinity),
        days if DAYS.contains(&days.into()) => Ok(Moment::Finite(days)),
        _ => Err(WireError::DatetimeOutOfRange("date out of range".into())),
    }
}

/// Checks microseconds from 1970-01-01 against PostgreSQL's range; the ends of
/// `i64` are the infinities, `None` is a number beyond them.
pub(crate) fn timestamp(micros: Option<i64>) -> Result<Moment<i64>, WireError> {
    match micros {
        Some(i64::MAX) => Ok(Moment::Infinity),
        Some(i64::MIN) => Ok(Moment::NegInfinity),
        Some(micros) if micros.checked_sub(EPOCH_MICROS).is_some_and(|micros| MICROS.contains(&micros)) => {
            Ok(Moment::Finite(micros))
        }
        _ => Err(WireError::DatetimeOutOfRange("timestamp out of range".into())),
    }
}

/// Appends a date.
pub(crate) fn put_date(out: &mut BytesMut, date: Moment<i32>) {
    let Some(days) = put_infinity(out, date) else {
        return;
    };
    let (year, month, day) = civil_from_days(days.into());
    put_civil(out, year, month, day);
    put_era(out, year);
}

/// Appends a time of day.
pub(crate) fn put_time(out: &mut BytesMut, micros: i64) {
    put_clock(out, micros / 1_000_000);
    put_fraction(out, micros % 1_000_000);
}

/// Appends a timestamp; with a zone, in local time and with its offset.
/// `separator` stands between date and time.
pub(crate) fn put_timestamp(out: &mut BytesMut, timestamp: Moment<i64>, zone: Option<&TimeZone>, separator: u8) {
    let Some(micros) = put_infinity(out, timestamp) else {
        return;
    };
    let offset = zone.map(|zone| zone.offset_at(micros.div_euclid(1_000_000)));
    let local = micros.saturating_add(i64::from(offset.unwrap_or(0)) * 1_000_000);
    let (year, month, day) = civil_from_days(local.div_euclid(DAY_MICROS));
    put_civil(out, year, month, day);
    out.put_u8(separator);
    put_time(out, local.rem_euclid(DAY_MICROS));
    if let Some(offset) = offset {
        put_offset(out, offset, separator == b'T');
    }
    put_era(out, year);
}

/// Appends an interval in the style `postgres`.
pub(crate) fn put_interval(out: &mut BytesMut, months: i32, days: i32, micros: i64) {
    let mut first = true;
    let mut before = false;
    let parts = [(months / 12, "year"), (months % 12, "mon"), (days, "day")];
    for (value, unit) in parts {
        if value == 0 {
            continue;
        }
        if !first {
            out.put_u8(b' ');
        }
        if before && value > 0 {
            out.put_u8(b'+');
        }
        put_integer(out, value.into());
        out.put_u8(b' ');
        out.put_slice(unit.as_bytes());
        if value != 1 {
            out.put_u8(b's');
        }
        before = value < 0;
        first = false;
    }
    if !first && micros == 0 {
        return;
    }
    if !first {
        out.put_u8(b' ');
    }
    if micros < 0 {
        out.put_u8(b'-');
    } else if before {
        out.put_u8(b'+');
    }
    let micros = micros.unsigned_abs();
    put_clock(out, (micros / 1_000_000) as i64);
    put_fraction(out, (micros % 1_000_000) as i64);
}

/// Returns year, month and day of a day from 1970-01-01 in the proleptic
/// Gregorian calendar; year 0 is 1 BC.
pub(crate) fn civil_from_days(days: i64) -> (i64, u32, u32) {
    // Years start in March, so that the leap day is the last of a year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Returns the day from 1970-01-01 of a date, or `None` if there is no such
/// day in its month.
pub(crate) fn days_from_civil(year: i64, month: u32, day: u32) -> Option<i64> {
    if !(1..=12).contains(&month) || day < 1 || !(-10_000_000..=10_000_000).contains(&year) {
        return None;
    }
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let shifted_month = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    (civil_from_days(days) == (year, month, day)).then_some(days)
}

fn put_infinity<T>(out: &mut BytesMut, moment: Moment<T>) -> Option<T> {
    match moment {
        Moment::Finite(value) => return Some(value),
        Moment::Infinity => out.put_slice(b"infinity"),
        Moment::NegInfinity => out.put_slice(b"-infinity"),
    }
    None
}

fn put_civil(out: &mut BytesMut, year: i64, month: u32, day: u32) {
    let shown = if year <= 0 { 1 - year } else { year };
    if shown < 10_000 {
        put_two(out, (shown / 100) as u32);
        put_two(out, (shown % 100) as u32);
    } else {
        put_integer(out, shown);
    }
    out.put_u8(b'-');
    put_two(out, month);
    out.put_u8(b'-');
    put_two(out, day);
}

fn put_era(out: &mut BytesMut, year: i64) {
    if year <= 0 {
        out.put_slice(b" BC");
    }
}

fn put_clock(out: &mut BytesMut, seconds: i64) {
    let hours = seconds / 3600;
    if hours < 100 {
        put_two(out, hours as u32);
    } else {
        put_integer(out, hours);
    }
    out.put_u8(b':');
    put_two(out, (seconds / 60 % 60) as u32);
    out.put_u8(b':');
    put_two(out, (seconds % 60) as u32);
}

/// Appends microseconds without trailing zeros.
fn put_fraction(out: &mut BytesMut, micros: i64) {
    if micros == 0 {
        return;
    }
    let mut text = *b".000000";
    let mut rest = micros;
    for byte in text[1..].iter_mut().rev() {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let mut end = text.len();
    while text[end - 1] == b'0' {
        end -= 1;
    }
    out.put_slice(&text[..end]);
}

fn put_offset(out: &mut BytesMut, offset: i32, minutes_always: bool) {
    out.put_u8(if offset < 0 { b'-' } else { b'+' });
    let seconds = offset.unsigned_abs();
    put_two(out, seconds / 3600);
    if !seconds.is_multiple_of(3600) || minutes_always {
        out.put_u8(b':');
        put_two(out, seconds / 60 % 60);
    }
    if !seconds.is_multiple_of(60) {
        out.put_u8(b':');
        put_two(out, seconds % 60);
    }
}

fn put_integer(out: &mut BytesMut, value: i64) {
    out.put_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn put_two(out: &mut BytesMut, value: u32) {
    out.put_slice(&[b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8]);
}
