//! Intervals in the postgres style, the verbose style with units, and ISO
//! 8601 with designators.
//!
//! <https://www.postgresql.org/docs/current/datatype-datetime.html#DATATYPE-INTERVAL-INPUT>

use super::datetime::fraction_micros;
use super::text::is_space;
use crate::encode::datetime::DAY_MICROS;
use crate::error::WireError;

/// Months, days and microseconds, wide enough to add up before the check.
#[derive(Debug, Default, Clone, Copy)]
struct Total {
    months: i128,
    days: i128,
    micros: i128,
}

/// Reads months, days and microseconds.
pub(crate) fn parse(text: &str) -> Result<(i32, i32, i64), WireError> {
    let trimmed = text.trim_matches(is_space);
    let total = match trimmed.strip_prefix(['P', 'p']) {
        Some(rest) => iso(rest),
        None => verbose(trimmed),
    };
    let total = total.ok_or_else(|| WireError::InvalidDatetime { type_name: "interval", value: text.to_owned() })?;
    let narrow = |total: Total| {
        let months = i32::try_from(total.months).ok()?;
        let days = i32::try_from(total.days).ok()?;
        let micros = i64::try_from(total.micros).ok()?;
        Some((months, days, micros))
    };
    narrow(total).ok_or_else(|| WireError::DatetimeOutOfRange(format!("interval field value out of range: \"{text}\"")))
}

/// A number with six decimals.
#[derive(Debug, Clone, Copy)]
struct Number {
    whole: i128,
    /// Millionths, with the sign of the number.
    fraction: i128,
}

fn number(text: &str) -> Option<Number> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() == 0 || whole.len() > 18 {
        return None;
    }
    if !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    Some(Number { whole: sign * whole, fraction: sign * i128::from(fraction_micros(fraction)?) })
}

impl Total {
    fn add_months(&mut self, number: Number, factor: i128) {
        self.months += number.whole * factor;
        let millionths = number.fraction * factor;
        if factor > 1 {
            self.months += millionths / 1_000_000;
            return;
        }
        // The rest of a month counts as days of thirty.
        let days = Number { whole: millionths * 30 / 1_000_000, fraction: millionths * 30 % 1_000_000 };
        self.add_days(days, 1);
    }

    fn add_days(&mut self, number: Number, factor: i128) {
        self.days += number.whole * factor;
        let millionths = number.fraction * factor;
        self.days += millionths / 1_000_000;
        self.micros += millionths % 1_000_000 * i128::from(DAY_MICROS) / 1_000_000;
    }

    fn add_micros(&mut self, number: Number, unit: i128) {
        self.micros += number.whole * unit + number.fraction * unit / 1_000_000;
    }

    /// Adds a number of a unit; `None` if there is no such unit.
    fn add(&mut self, number: Number, unit: &str) -> Option<()> {
        match unit {
            "y" | "yr" | "yrs" | "year" | "years" => self.add_months(number, 12),
            "mon" | "mons" | "month" | "months" => self.add_months(number, 1),
            "dec" | "decade" | "decades" => self.add_months(number, 120),
            "c" | "cent" | "century" | "centuries" => self.add_months(number, 1_200),
            "mil" | "mils" | "millennium" | "millennia" => self.add_months(number, 12_000),
            "w" | "week" | "weeks" => self.add_days(number, 7),
            "d" | "day" | "days" => self.add_days(number, 1),
            "h" | "hr" | "hrs" | "hour" | "hours" => self.add_micros(number, 3_600_000_000),
            "m" | "min" | "mins" | "minute" | "minutes" => self.add_micros(number, 60_000_000),
            "s" | "sec" | "secs" | "second" | "seconds" => self.add_micros(number, 1_000_000),
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => {
                self.add_micros(number, 1_000);
            }
            "us" | "usec" | "usecs" | "microsecond" | "microseconds" => self.add_micros(number, 1),
            _ => return None,
        }
        Some(())
    }
}

fn verbose(text: &str) -> Option<Total> {
    let lower = text.to_ascii_lowercase();
    let lower = lower.strip_prefix('@').unwrap_or(&lower);
    let mut total = Total::default();
    let mut pending: Option<Number> = None;
    let mut count = 0;
    let mut ago = false;
    for word in lower.split(is_space).filter(|word| !word.is_empty()) {
        if ago {
            return None;
        }
        count += 1;
        if word == "ago" {
            ago = true;
        } else if word.contains(':') {
            total.micros += clock(word)?;
        } else if word.starts_with(|char: char| char.is_ascii_alphabetic()) {
            total.add(pending.take()?, word)?;
        } else {
            if pending.is_some() {
                return None;
            }
            let split = word.find(|char: char| char.is_ascii_alphabetic());
            let (digits, unit) = word.split_at(split.unwrap_or(word.len()));
            let number = number(digits)?;
            if unit.is_empty() {
                pending = Some(number);
            } else {
                total.add(number, unit)?;
            }
        }
    }
    // A bare number at the end counts seconds.
    if let Some(number) = pending {
        total.add_micros(number, 1_000_000);
    }
    if ago {
        total = Total { months: -total.months, days: -total.days, micros: -total.micros };
    }
    (count > 0).then_some(total)
}

/// Reads `[-]hh:mm[:ss[.fraction]]`; hours may exceed a day.
fn clock(text: &str) -> Option<i128> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (clock, fraction) = match rest.split_once('.') {
        Some((clock, fraction)) => (clock, fraction_micros(fraction)?),
        None => (rest, 0),
    };
    let mut fields = clock.split(':').map(|field| {
        let valid = !field.is_empty() && field.len() <= 12;
        let digits = field.bytes().all(|byte| byte.is_ascii_digit());
        (valid && digits).then(|| field.parse::<i128>().ok()).flatten()
    });
    let hours = fields.next()??;
    let minutes = fields.next()??;
    let seconds = fields.next().unwrap_or(Some(0))?;
    if fields.next().is_some() || minutes > 59 || seconds > 60 {
        return None;
    }
    Some(sign * (((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + i128::from(fraction)))
}

/// Reads what follows the `P` of ISO 8601.
fn iso(text: &str) -> Option<Total> {
    let mut total = Total::default();
    let mut in_time = false;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(['T', 't']) {
            if in_time || after.is_empty() {
                return None;
            }
            in_time = true;
            rest = after;
            continue;
        }
        let end = rest.find(|char: char| char.is_ascii_alphabetic())?;
        let number = number(&rest[..end])?;
        let unit = match (in_time, rest.as_bytes()[end].to_ascii_uppercase()) {
            (false, b'Y') => "year",
            (false, b'M') => "mon",
            (false, b'W') => "week",
            (false, b'D') => "day",
            (true, b'H') => "hour",
            (true, b'M') => "min",
            (true, b'S') => "sec",
            _ => return None,
        };
        total.add(number, unit)?;
        rest = &rest[end + 1..];
    }
    Some(total)
}
