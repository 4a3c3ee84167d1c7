//! Dates and times in the ISO forms that drivers send, with PostgreSQL's
//! additions: BC, infinity, zones by name.
//!
//! Orders other than year-month-day and names of months are not read.

use crate::encode::datetime::{DAY_MICROS, days_from_civil};
use crate::error::WireError;
use crate::settings::{TimeZone, parse_offset};

use super::text::is_space;

/// What a text holds, before it is put together.
#[derive(Debug, Default)]
struct Parts<'a> {
    days: Option<i64>,
    micros: Option<i64>,
    zone: Option<&'a str>,
}

/// Reads a date; a time behind it is dropped.
pub(crate) fn date(text: &str) -> Result<i32, WireError> {
    let out_of_range = || WireError::DatetimeOutOfRange(format!("date out of range: \"{text}\""));
    match special(text) {
        Some(Special::Infinity) => return Ok(i32::MAX),
        Some(Special::NegInfinity) => return Ok(i32::MIN),
        Some(Special::Epoch) => return Ok(0),
        None => {}
    }
    let days = parse("date", text)?.days.ok_or_else(|| invalid("date", text))?;
    let days = i32::try_from(days).map_err(|_| out_of_range())?;
    crate::encode::datetime::date(days).map_err(|_| out_of_range())?;
    Ok(days)
}

/// Reads a time of day; a date or an offset is dropped.
pub(crate) fn time(text: &str) -> Result<i64, WireError> {
    let parts = parse("time", text)?;
    parts.micros.ok_or_else(|| invalid("time", text))
}

/// Reads a timestamp; an offset is dropped.
pub(crate) fn timestamp(text: &str) -> Result<i64, WireError> {
    if let Some(special) = special(text) {
        return Ok(special.micros());
    }
    local("timestamp", text).map(|(micros, _)| micros)
}

/// Reads a timestamp with time zone; without an offset it is in `zone`.
pub(crate) fn timestamptz(text: &str, zone: &TimeZone) -> Result<i64, WireError> {
    if let Some(special) = special(text) {
        return Ok(special.micros());
    }
    let (micros, own) = local("timestamp with time zone", text)?;
    let named;
    let zone = match own {
        None => zone,
        Some(name) => {
            named = zone_of(name)
                .ok_or_else(|| WireError::InvalidParameter(format!("time zone \"{name}\" not recognized")))?;
            &named
        }
    };
    let offset = zone.offset_of_local(micros.div_euclid(1_000_000));
    let utc = micros.checked_sub(i64::from(offset) * 1_000_000);
    checked(utc, text)
}

enum Special {
    Infinity,
    NegInfinity,
    Epoch,
}

impl Special {
    fn micros(&self) -> i64 {
        match self {
            Self::Infinity => i64::MAX,
            Self::NegInfinity => i64::MIN,
            Self::Epoch => 0,
        }
    }
}

fn special(text: &str) -> Option<Special> {
    match text.trim_matches(is_space).to_ascii_lowercase().as_str() {
        "infinity" | "+infinity" => Some(Special::Infinity),
        "-infinity" => Some(Special::NegInfinity),
        "epoch" => Some(Special::Epoch),
        _ => None,
    }
}

fn local<'a>(type_name: &'static str, text: &'a str) -> Result<(i64, Option<&'a str>), WireError> {
    let parts = parse(type_name, text)?;
    let days = parts.days.ok_or_else(|| invalid(type_name, text))?;
    let micros = days.checked_mul(DAY_MICROS).and_then(|micros| micros.checked_add(parts.micros.unwrap_or(0)));
    Ok((checked(micros, text)?, parts.zone))
}

fn checked(micros: Option<i64>, text: &str) -> Result<i64, WireError> {
    let error = || WireError::DatetimeOutOfRange(format!("timestamp out of range: \"{text}\""));
    crate::encode::datetime::timestamp(micros).map_err(|_| error())?;
    micros.ok_or_else(error)
}

fn zone_of(name: &str) -> Option<TimeZone> {
    TimeZone::parse(name).or_else(|| name.eq_ignore_ascii_case("gmt").then_some(TimeZone::UTC))
}

fn parse<'a>(type_name: &'static str, text: &'a str) -> Result<Parts<'a>, WireError> {
    let trimmed = text.trim_matches(is_space);
    let (body, is_bc) = match strip_suffix_word(trimmed, "bc") {
        Some(body) => (body, true),
        None => (strip_suffix_word(trimmed, "ad").unwrap_or(trimmed), false),
    };
    let mut parts = Parts::default();
    let mut rest = body;
    if let Some((date, after)) = split_date(body) {
        parts.days =
            Some(date_days(date, is_bc).ok_or_else(|| {
                if date.is_well_formed() { field_out_of_range(text) } else { invalid(type_name, text) }
            })?);
        rest = after;
        let after_space = rest.trim_start_matches(is_space);
        rest = match after_space.strip_prefix(['T', 't']) {
            Some(time) if time.starts_with(|char: char| char.is_ascii_digit()) => time,
            _ => after_space,
        };
    }
    if rest.starts_with(|char: char| char.is_ascii_digit()) {
        let end = rest.find(|char: char| !char.is_ascii_digit() && !matches!(char, ':' | '.')).unwrap_or(rest.len());
        let (clock, after) = rest.split_at(end);
        let micros = clock_micros(clock).ok_or_else(|| invalid(type_name, text))?;
        let micros = micros.ok_or_else(|| field_out_of_range(text))?;
        let (micros, after) = half_of_day(micros, after).ok_or_else(|| field_out_of_range(text))?;
        parts.micros = Some(micros);
        rest = after;
    }
    let zone = rest.trim_matches(is_space);
    if !zone.is_empty() {
        let plausible = zone.starts_with(['+', '-']) && parse_offset(zone.as_bytes()).is_some()
            || zone.starts_with(|char: char| char.is_ascii_alphabetic());
        if !plausible || zone.contains(is_space) {
            return Err(invalid(type_name, text));
        }
        parts.zone = Some(zone);
    }
    if parts.days.is_none() && parts.micros.is_none() {
        return Err(invalid(type_name, text));
    }
    Ok(parts)
}

/// Takes `AM` or `PM` behind a time, whose hour is 1 to 12 then; `None` if it is another.
fn half_of_day(micros: i64, rest: &str) -> Option<(i64, &str)> {
    const HOUR: i64 = 3_600_000_000;
    let word = rest.trim_start_matches(is_space);
    let after_noon = match word.get(..2) {
        Some(half) if half.eq_ignore_ascii_case("pm") => true,
        Some(half) if half.eq_ignore_ascii_case("am") => false,
        _ => return Some((micros, rest)),
    };
    let after = &word[2..];
    if after.starts_with(|char: char| char.is_ascii_alphanumeric()) {
        // The name of a zone begins so.
        return Some((micros, rest));
    }
    let hour = micros / HOUR;
    (1..=12).contains(&hour).then_some((micros % (12 * HOUR) + if after_noon { 12 * HOUR } else { 0 }, after))
}

fn strip_suffix_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let at = text.len().checked_sub(word.len())?;
    let (body, suffix) = text.split_at_checked(at)?;
    let separated = body.ends_with(is_space);
    (separated && suffix.eq_ignore_ascii_case(word)).then(|| body.trim_end_matches(is_space))
}

/// Year, month and day as text.
#[derive(Debug, Clone, Copy)]
struct DateText<'a> {
    year: &'a str,
    month: &'a str,
    day: &'a str,
}

impl DateText<'_> {
    fn is_well_formed(&self) -> bool {
        (3..=7).contains(&self.year.len()) && (1..=2).contains(&self.month.len()) && (1..=2).contains(&self.day.len())
    }
}

/// Splits `2024-02-29…` or `20240229…` off the front.
fn split_date(text: &str) -> Option<(DateText<'_>, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let year = digits(text);
    let after_year = &text[year..];
    if year == 8 && !after_year.starts_with(['-', ':', '.']) {
        let date = DateText { year: &text[..4], month: &text[4..6], day: &text[6..8] };
        return Some((date, after_year));
    }
    let month_text = after_year.strip_prefix('-')?;
    let month = digits(month_text);
    let day_text = month_text[month..].strip_prefix('-')?;
    let day = digits(day_text);
    if year == 0 || month == 0 || day == 0 {
        return None;
    }
    let date = DateText { year: &text[..year], month: &month_text[..month], day: &day_text[..day] };
    Some((date, &day_text[day..]))
}

fn date_days(date: DateText<'_>, is_bc: bool) -> Option<i64> {
    if !date.is_well_formed() {
        return None;
    }
    let year: i64 = date.year.parse().ok()?;
    if year == 0 {
        return None;
    }
    let year = if is_bc { 1 - year } else { year };
    days_from_civil(year, date.month.parse().ok()?, date.day.parse().ok()?)
}

/// Reads `hh:mm[:ss[.fraction]]`, rounding to microseconds. The outer `None`
/// is a wrong form, the inner one a field out of range.
fn clock_micros(text: &str) -> Option<Option<i64>> {
    let (clock, fraction) = match text.split_once('.') {
        Some((clock, fraction)) => (clock, fraction_micros(fraction)?),
        None => (text, 0),
    };
    let mut fields = clock.split(':').map(|field| {
        let valid = (1..=2).contains(&field.len());
        valid.then(|| field.parse::<i64>().ok()).flatten()
    });
    let hours = fields.next()??;
    let minutes = fields.next()??;
    let seconds = fields.next().unwrap_or(Some(0))?;
    if fields.next().is_some() {
        return None;
    }
    if minutes > 59 || seconds > 60 {
        return Some(None);
    }
    let micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction;
    Some((micros <= DAY_MICROS).then_some(micros))
}

/// Reads the digits after a decimal point as microseconds, rounded.
pub(crate) fn fraction_micros(digits: &str) -> Option<i64> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut micros = 0;
    for index in 0..6 {
        let digit = digits.as_bytes().get(index).map_or(0, |byte| byte - b'0');
        micros = micros * 10 + i64::from(digit);
    }
    let round_up = digits.as_bytes().get(6).is_some_and(|byte| *byte >= b'5');
    Some(micros + i64::from(round_up))
}

fn field_out_of_range(text: &str) -> WireError {
    WireError::DatetimeOutOfRange(format!("date/time field value out of range: \"{text}\""))
}

fn invalid(type_name: &'static str, text: &str) -> WireError {
    WireError::InvalidDatetime { type_name, value: text.to_owned() }
}
