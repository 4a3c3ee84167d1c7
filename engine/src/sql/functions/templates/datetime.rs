//! Templates of dates and times: written and read.

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};

use crate::error::SqlError;
use crate::sqlstate::SqlState;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];
/// Names of months and days are filled with blanks to this width.
const NAME_WIDTH: usize = 9;
/// The Julian day number of the day before the first one of the common era.
const JULIAN_EPOCH: i32 = 1_721_425;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    /// The last digits of the year, 4 for all; of the ISO week-numbering year.
    Year(usize),
    IsoYear(usize),
    YearWithComma,
    Century,
    Quarter,
    Month,
    MonthName,
    MonthShort,
    MonthRoman,
    WeekOfMonth,
    Week,
    IsoWeek,
    DayOfYear,
    IsoDayOfYear,
    Day,
    DayName,
    DayShort,
    Weekday,
    IsoWeekday,
    Julian,
    Hour24,
    Hour12,
    Minute,
    Second,
    SecondOfDay,
    /// Digits of the fraction of a second.
    Fraction(usize),
    /// AM, with points or without.
    HalfDay(bool),
    /// AD, with points or without.
    Era(bool),
    Zone,
    ZoneHour,
    ZoneMinute,
    Offset,
}

/// A longer name comes before one that it begins with.
const FIELDS: [(&str, Field); 50] = [
    ("Y,YYY", Field::YearWithComma),
    ("YYYY", Field::Year(4)),
    ("YYY", Field::Year(3)),
    ("YY", Field::Year(2)),
    ("Y", Field::Year(1)),
    ("IYYY", Field::IsoYear(4)),
    ("IYY", Field::IsoYear(3)),
    ("IY", Field::IsoYear(2)),
    ("IDDD", Field::IsoDayOfYear),
    ("ID", Field::IsoWeekday),
    ("IW", Field::IsoWeek),
    ("I", Field::IsoYear(1)),
    ("CC", Field::Century),
    ("Q", Field::Quarter),
    ("MONTH", Field::MonthName),
    ("MON", Field::MonthShort),
    ("MM", Field::Month),
    ("MI", Field::Minute),
    ("MS", Field::Fraction(3)),
    ("RM", Field::MonthRoman),
    ("WW", Field::Week),
    ("W", Field::WeekOfMonth),
    ("DAY", Field::DayName),
    ("DDD", Field::DayOfYear),
    ("DD", Field::Day),
    ("DY", Field::DayShort),
    ("D", Field::Weekday),
    ("J", Field::Julian),
    ("HH24", Field::Hour24),
    ("HH12", Field::Hour12),
    ("HH", Field::Hour12),
    ("SSSSS", Field::SecondOfDay),
    ("SSSS", Field::SecondOfDay),
    ("SS", Field::Second),
    ("US", Field::Fraction(6)),
    ("FF1", Field::Fraction(1)),
    ("FF2", Field::Fraction(2)),
    ("FF3", Field::Fraction(3)),
    ("FF4", Field::Fraction(4)),
    ("FF5", Field::Fraction(5)),
    ("FF6", Field::Fraction(6)),
    ("A.M.", Field::HalfDay(true)),
    ("P.M.", Field::HalfDay(true)),
    ("AM", Field::HalfDay(false)),
    ("PM", Field::HalfDay(false)),
    ("A.D.", Field::Era(true)),
    ("B.C.", Field::Era(true)),
    ("AD", Field::Era(false)),
    ("BC", Field::Era(false)),
    ("OF", Field::Offset),
];
const ZONES: [(&str, Field); 3] = [("TZH", Field::ZoneHour), ("TZM", Field::ZoneMinute), ("TZ", Field::Zone)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Upper,
    Capital,
    Lower,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// What stands for itself: one character, or what was in quotes.
    Plain(String),
    Field {
        field: Field,
        case: Case,
        fill: bool,
        ordinal: Option<Case>,
    },
}

/// A template that was taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

impl Template {
    pub(super) fn of(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (part, after) = match first {
                '"' => quoted(&rest[1..]),
                '\\' if rest[1..].starts_with('"') => (Part::Plain("\"".to_owned()), &rest[2..]),
                _ => field(rest).unwrap_or_else(|| (Part::Plain(first.to_string()), &rest[first.len_utf8()..])),
            };
            parts.push(part);
            rest = after;
        }
        Self(parts)
    }

    /// Writes a moment.
    ///
    /// # Errors
    /// 22007 for a part that an interval does not have.
    pub(super) fn write(&self, moment: &Moment) -> Result<String, SqlError> {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Plain(text) => out.push_str(text),
                Part::Field { field, case, fill, ordinal } => {
                    let written = moment.written(*field, *case, *fill)?;
                    out.push_str(&written);
                    if let Some(case) = ordinal.filter(|_| written.ends_with(|c: char| c.is_ascii_digit())) {
                        out.push_str(&cased(super::ordinal(&written), case));
                    }
                }
            }
        }
        Ok(out)
    }
}

/// Takes a text in quotes, to its end if there is no second one.
fn quoted(rest: &str) -> (Part, &str) {
    let mut plain = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (Part::Plain(plain), &rest[at + 1..]),
            '\\' => plain.extend(chars.next().map(|(_, escaped)| escaped)),
            other => plain.push(other),
        }
    }
    (Part::Plain(plain), "")
}

fn field(text: &str) -> Option<(Part, &str)> {
    let (mut rest, mut fill) = (text, true);
    // FM leaves out what fills, TM names months as the locale does and fills nothing, FX is about reading.
    while let Some(prefix) = rest.get(..2)
        && ["FM", "TM", "FX"].iter().any(|known| prefix.eq_ignore_ascii_case(known))
    {
        fill &= prefix.eq_ignore_ascii_case("FX");
        rest = &rest[2..];
    }
    let starts = |name: &str| rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let found = ZONES.iter().chain(&FIELDS).find(|(name, _)| starts(name));
    let Some((name, field)) = found else {
        // A prefix before something else is left away, as PostgreSQL does.
        return (rest.len() < text.len()).then(|| (Part::Plain(String::new()), rest));
    };
    let (written, after) = rest.split_at(name.len());
    let mut letters = written.chars().filter(char::is_ascii_alphabetic);
    let case = match (letters.next(), letters.next()) {
        (Some(first), _) if first.is_ascii_lowercase() => Case::Lower,
        (_, Some(second)) if second.is_ascii_lowercase() => Case::Capital,
        _ => Case::Upper,
    };
    let (ordinal, after) = match after.get(..2) {
        Some("TH") => (Some(Case::Upper), &after[2..]),
        Some("th") => (Some(Case::Lower), &after[2..]),
        _ => (None, after),
    };
    Some((Part::Field { field: *field, case, fill, ordinal }, after))
}

fn cased(text: &str, case: Case) -> String {
    match case {
        Case::Upper => text.to_ascii_uppercase(),
        Case::Lower => text.to_ascii_lowercase(),
        Case::Capital => text.to_owned(),
    }
}

/// What a clock and a calendar show, or the parts of an interval.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    /// Absent for intervals.
    date: Option<NaiveDate>,
    year: i32,
    month: u32,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    /// Seconds east, and the name of the zone.
    zone: Option<(i32, String)>,
}

impl Moment {
    pub(super) fn of_time(local: NaiveDateTime, zone: Option<(i32, String)>) -> Self {
        Self {
            date: Some(local.date()),
            year: local.year(),
            month: local.month(),
            day: local.day().into(),
            hour: local.hour().into(),
            minute: local.minute().into(),
            second: local.second().into(),
            micros: (local.nanosecond() / 1_000).into(),
            zone,
        }
    }

    pub(super) fn of_interval(months: i32, days: i32, micros: i64) -> Self {
        let seconds = micros / 1_000_000;
        Self {
            date: None,
            year: months / 12,
            month: (months % 12).unsigned_abs(),
            day: days.into(),
            hour: seconds / 3_600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            micros: micros % 1_000_000,
            zone: None,
        }
    }

    fn date(&self) -> Result<NaiveDate, SqlError> {
        self.date.ok_or_else(|| {
            SqlError::new(SqlState::INVALID_DATETIME_FORMAT, "invalid format specification for an interval value")
                .hint("Intervals are not tied to specific calendar dates.")
        })
    }

    fn written(&self, field: Field, case: Case, fill: bool) -> Result<String, SqlError> {
        let number = |value: i64, width: usize| match (fill, value < 0) {
            (false, _) => value.to_string(),
            (true, false) => format!("{value:0width$}"),
            (true, true) => format!("-{:0width$}", -value),
        };
        let name = |name: &str| {
            let written = cased(name, case);
            if fill { format!("{written:NAME_WIDTH$}") } else { written }
        };
        let digits = |year: i32, count: usize| {
            let year = i64::from(if year <= 0 && self.date.is_some() { 1 - year } else { year });
            if count == 4 { number(year, 4) } else { number(year % 10_i64.pow(count as u32), count) }
        };
        let (hours, minutes) =
            self.zone.as_ref().map_or((0, 0), |(offset, _)| (offset / 3_600, offset.abs() / 60 % 60));
        let signed = |hours: i32| format!("{}{:02}", if hours < 0 { '-' } else { '+' }, hours.abs());
        Ok(match field {
            Field::Year(count) => digits(self.year, count),
            Field::YearWithComma => format!("{},{:03}", self.year / 1_000, self.year % 1_000),
            Field::IsoYear(count) => digits(self.date()?.iso_week().year(), count),
            Field::Century => {
                let year = self.year;
                number(if year > 0 { (year - 1) / 100 + 1 } else { year / 100 - 1 }.into(), 2)
            }
            Field::Quarter => ((self.month.max(1) - 1) / 3 + 1).to_string(),
            Field::Month => number(self.month.into(), 2),
            Field::MonthName => name(MONTHS[self.date()?.month0() as usize]),
            Field::MonthShort => cased(&MONTHS[self.date()?.month0() as usize][..3], case),
            Field::MonthRoman => {
                let written = cased(ROMAN[self.date()?.month0() as usize], case);
                if fill { format!("{written:4}") } else { written }
            }
            Field::WeekOfMonth => ((self.day - 1) / 7 + 1).to_string(),
            Field::Week => number(i64::from(self.date()?.ordinal0() / 7 + 1), 2),
            Field::IsoWeek => number(self.date()?.iso_week().week().into(), 2),
            Field::DayOfYear => number(self.date()?.ordinal().into(), 3),
            Field::IsoDayOfYear => {
                let date = self.date()?;
                let week = i64::from(date.iso_week().week0());
                number(week * 7 + i64::from(date.weekday().number_from_monday()), 3)
            }
            Field::Day => number(self.day, 2),
            Field::DayName => name(DAYS[self.date()?.weekday().num_days_from_sunday() as usize]),
            Field::DayShort => cased(&DAYS[self.date()?.weekday().num_days_from_sunday() as usize][..3], case),
            Field::Weekday => self.date()?.weekday().number_from_sunday().to_string(),
            Field::IsoWeekday => self.date()?.weekday().number_from_monday().to_string(),
            Field::Julian => (self.date()?.num_days_from_ce() + JULIAN_EPOCH).to_string(),
            Field::Hour24 => number(self.hour, 2),
            Field::Hour12 => number(if self.hour % 12 == 0 { 12 } else { self.hour % 12 }, 2),
            Field::Minute => number(self.minute, 2),
            Field::Second => number(self.second, 2),
            Field::SecondOfDay => (self.hour * 3_600 + self.minute * 60 + self.second).to_string(),
            Field::Fraction(count) => {
                let all = format!("{:06}", self.micros.abs());
                all[..count].to_owned()
            }
            Field::HalfDay(points) => {
                let after = self.hour % 24 >= 12;
                let word = match (after, points) {
                    (false, false) => "am",
                    (true, false) => "pm",
                    (false, true) => "a.m.",
                    (true, true) => "p.m.",
                };
                if case == Case::Upper { word.to_ascii_uppercase() } else { word.to_owned() }
            }
            Field::Era(points) => {
                let word = match (self.year <= 0, points) {
                    (false, false) => "ad",
                    (true, false) => "bc",
                    (false, true) => "a.d.",
                    (true, true) => "b.c.",
                };
                if case == Case::Upper { word.to_ascii_uppercase() } else { word.to_owned() }
            }
            Field::Zone => {
                let zone = self.zone.as_ref().map_or("", |(_, zone)| zone);
                if case == Case::Lower { zone.to_ascii_lowercase() } else { zone.to_owned() }
            }
            Field::ZoneHour => signed(hours),
            Field::ZoneMinute => format!("{minutes:02}"),
            Field::Offset if minutes == 0 => signed(hours),
            Field::Offset => format!("{}:{minutes:02}", signed(hours)),
        })
    }
}

/// What a template has read from a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) local: NaiveDateTime,
    /// Seconds east, if the text says so.
    pub(super) offset: Option<i32>,
}

/// The parts that have been read.
#[derive(Debug, Default)]
struct Parts {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    of_day: Option<i64>,
    after_noon: Option<bool>,
    before_christ: bool,
    julian: Option<i64>,
    zone_hours: Option<i64>,
    zone_minutes: i64,
}

impl Template {
    /// Reads a text. What is missing is that of the first day of the year 1, at midnight.
    ///
    /// # Errors
    /// 22007 for a text that is none of the template, 22008 for a date or a time that there is not; 0A000 for fields
    /// that are only written.
    pub(super) fn read(&self, text: &str) -> Result<Read, SqlError> {
        let mut parts = Parts::default();
        let mut rest = text;
        for (index, part) in self.0.iter().enumerate() {
            match part {
                Part::Plain(plain) => {
                    for wanted in plain.chars() {
                        rest = skipped(rest, wanted);
                    }
                }
                Part::Field { field, .. } => {
                    let next_is_field = matches!(self.0.get(index + 1), Some(Part::Field { .. }));
                    rest = parts.read(*field, rest.trim_start(), next_is_field)?;
                }
            }
            if rest.is_empty() {
                break;
            }
        }
        parts.whole(text)
    }
}

/// Leaves out what stands for a character of the template: a separator for any other, blanks before it.
fn skipped(rest: &str, wanted: char) -> &str {
    let rest = if wanted.is_whitespace() { rest } else { rest.trim_start() };
    match rest.chars().next() {
        Some(found)
            if found == wanted || !wanted.is_alphanumeric() && !found.is_alphanumeric() && !"+-".contains(found) =>
        {
            &rest[found.len_utf8()..]
        }
        Some(found) if wanted.is_alphanumeric() && found.is_alphanumeric() => &rest[found.len_utf8()..],
        _ => rest,
    }
}

impl Parts {
    /// Takes a field from the start of a text and returns the rest.
    fn read<'a>(&mut self, field: Field, text: &'a str, next_is_field: bool) -> Result<&'a str, SqlError> {
        let within = |width: usize| digits(text, width, field);
        let (place, (value, rest)): (&mut Option<i64>, _) = match field {
            Field::Year(4) => {
                // Before something else than a field it goes on as far as its digits.
                (&mut self.year, within(if next_is_field { 4 } else { 6 })?)
            }
            Field::Year(count) => {
                let (short, rest) = within(count)?;
                (&mut self.year, (full_year(short, count), rest))
            }
            Field::YearWithComma => {
                let (thousands, rest) = digits(text, 3, field)?;
                let (ones, rest) = digits(rest.trim_start_matches(','), 3, field)?;
                (&mut self.year, (thousands * 1_000 + ones, rest))
            }
            Field::Month => (&mut self.month, within(2)?),
            Field::MonthName | Field::MonthShort => (&mut self.month, named(text, &MONTHS, field)?),
            Field::Day => (&mut self.day, within(2)?),
            Field::DayOfYear => (&mut self.day_of_year, within(3)?),
            Field::Julian => (&mut self.julian, within(9)?),
            Field::SecondOfDay => (&mut self.of_day, within(5)?),
            Field::Hour24 | Field::Hour12 => {
                let (hour, rest) = within(2)?;
                self.hour = hour;
                if field == Field::Hour12 {
                    self.after_noon.get_or_insert(false);
                }
                return Ok(rest);
            }
            Field::Minute => {
                let (minute, rest) = within(2)?;
                self.minute = minute;
                return Ok(rest);
            }
            Field::Second => {
                let (second, rest) = within(2)?;
                self.second = second;
                return Ok(rest);
            }
            Field::Fraction(count) => {
                let (value, rest) = within(count)?;
                let given = text.len() - rest.len();
                self.micros = value * 10_i64.pow(6_u32.saturating_sub(given as u32));
                return Ok(rest);
            }
            Field::HalfDay(_) => {
                let (after, rest) = one_of(text, &["p.m.", "pm"], &["a.m.", "am"], field)?;
                self.after_noon = Some(after);
                return Ok(rest);
            }
            Field::Era(_) => {
                let (before, rest) = one_of(text, &["b.c.", "bc"], &["a.d.", "ad"], field)?;
                self.before_christ = before;
                return Ok(rest);
            }
            Field::DayName | Field::DayShort => return Ok(named(text, &DAYS, field)?.1),
            Field::ZoneHour => {
                let (sign, rest) = sign(text);
                let (hours, rest) = digits(rest, 2, field)?;
                (&mut self.zone_hours, (sign * hours, rest))
            }
            Field::ZoneMinute => {
                let (minutes, rest) = within(2)?;
                self.zone_minutes = minutes;
                return Ok(rest);
            }
            _ => {
                let message = format!("formatting field \"{}\" is only supported in to_char", spelled(field));
                return Err(SqlError::not_supported(message));
            }
        };
        *place = Some(value);
        Ok(rest)
    }

    fn whole(self, text: &str) -> Result<Read, SqlError> {
        let refused = || {
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date/time field value out of range: \"{text}\""))
        };
        let hour = match self.after_noon {
            None => self.hour,
            Some(_) if !(1..=12).contains(&self.hour) => {
                let message = format!("hour \"{}\" is invalid for the 12-hour clock", self.hour);
                return Err(SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
                    .hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            Some(after) => self.hour % 12 + if after { 12 } else { 0 },
        };
        let seconds = self.of_day.unwrap_or(hour * 3_600 + self.minute * 60 + self.second);
        let plausible = self.minute < 60 && self.second < 60 && self.hour < 24;
        let time = u32::try_from(seconds)
            .ok()
            .filter(|_| plausible)
            .and_then(|seconds| {
                NaiveTime::from_num_seconds_from_midnight_opt(seconds, u32::try_from(self.micros).ok()? * 1_000)
            })
            .ok_or_else(refused)?;
        let year = self.year.unwrap_or(1);
        let year = i32::try_from(if self.before_christ { 1 - year } else { year }).map_err(|_| refused())?;
        let small = |value: i64| u32::try_from(value).ok();
        let date = match (self.julian, self.day_of_year) {
            (Some(days), _) => {
                i32::try_from(days).ok().and_then(|days| NaiveDate::from_num_days_from_ce_opt(days - JULIAN_EPOCH))
            }
            (None, Some(day)) if self.month.is_none() => small(day).and_then(|day| NaiveDate::from_yo_opt(year, day)),
            _ => small(self.month.unwrap_or(1))
                .zip(small(self.day.unwrap_or(1)))
                .and_then(|(month, day)| NaiveDate::from_ymd_opt(year, month, day)),
        };
        let offset = self.zone_hours.map(|hours| {
            let minutes = if hours < 0 { -self.zone_minutes } else { self.zone_minutes };
            i32::try_from(hours * 3_600 + minutes * 60).unwrap_or_default()
        });
        Ok(Read { local: date.ok_or_else(refused)?.and_time(time), offset })
    }
}

/// Takes up to `width` digits.
fn digits(text: &str, width: usize, field: Field) -> Result<(i64, &str), SqlError> {
    let end = text.bytes().take(width).take_while(u8::is_ascii_digit).count();
    match text[..end].parse() {
        Ok(number) => Ok((number, &text[end..])),
        Err(_) => Err(invalid(text, field).detail("Value must be an integer.")),
    }
}

fn sign(text: &str) -> (i64, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// The year of this age that is nearest to 2020.
fn full_year(short: i64, digits: usize) -> i64 {
    match digits {
        1 => 2_000 + short,
        2 if short < 70 => 2_000 + short,
        2 => 1_900 + short,
        _ if short >= 520 => 1_000 + short,
        _ => 2_000 + short,
    }
}

/// Takes a name, or its first three letters, and returns its number from 1 on.
fn named<'a>(text: &'a str, names: &[&str], field: Field) -> Result<(i64, &'a str), SqlError> {
    let starts = |name: &str| text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    for (number, name) in (1..).zip(names) {
        for spelled in [name, &name[..3]] {
            if starts(spelled) {
                return Ok((number, &text[spelled.len()..]));
            }
        }
    }
    Err(invalid(text, field).detail("The given value did not match any of the allowed values for this field."))
}

fn one_of<'a>(text: &'a str, yes: &[&str], no: &[&str], field: Field) -> Result<(bool, &'a str), SqlError> {
    let starts = |word: &str| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    for (words, answer) in [(yes, true), (no, false)] {
        if let Some(word) = words.iter().find(|word| starts(word)) {
            return Ok((answer, &text[word.len()..]));
        }
    }
    Err(invalid(text, field).detail("The given value did not match any of the allowed values for this field."))
}

fn spelled(field: Field) -> &'static str {
    ZONES.iter().chain(&FIELDS).find(|(_, known)| *known == field).map_or("", |(name, _)| name)
}

fn invalid(text: &str, field: Field) -> SqlError {
    let shown: String = text.chars().take(spelled(field).len()).collect();
    let message = format!("invalid value \"{shown}\" for \"{}\"", spelled(field));
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Moment {
        Moment::of_time(text.parse().unwrap(), Some((19_800, "IST".to_owned())))
    }

    /// The expected texts are those of PostgreSQL 15.
    #[test]
    fn moments_are_written_as_postgresql_writes_them() {
        let moment = at("2024-02-29T14:05:09.123456");
        for (template, expected) in [
            ("YYYY-MM-DD HH24:MI:SS.US", "2024-02-29 14:05:09.123456"),
            ("FMDD/FMMM/YY, HH12:MI am", "29/2/24, 02:05 pm"),
            ("Day, DD Month YYYY", "Thursday , 29 February  2024"),
            ("FMDay, FMDDth FMMonth", "Thursday, 29th February"),
            ("DY dy Dy MON mon Mon", "THU thu Thu FEB feb Feb"),
            ("Q IYYY-IW ID D DDD IDDD WW W", "1 2024-09 4 5 060 060 09 5"),
            ("CC J RM Y,YYY YYY Y", "21 2460370 II   2,024 024 4"),
            ("MS FF2 SSSS A.M. p.m. AD b.c.", "123 12 50709 P.M. p.m. AD a.d."),
            ("TZ tz TZH:TZM OF", "IST ist +05:30 +05:30"),
            ("\"week\" WW \\Y \\\"", "week 09 \\4 \""),
            ("TMMonth|Month|", "February|February |"),
            ("DDTH ddth MMth", "29TH 29th 02nd"),
        ] {
            assert_eq!(Template::of(template).write(&moment).unwrap(), expected, "{template}");
        }
        let interval = Moment::of_interval(14, 3, 90_061_000_000);
        assert_eq!(Template::of("YYYY MM DD HH24:MI:SS").write(&interval).unwrap(), "0001 02 03 25:01:01");
        assert!(Template::of("Month").write(&interval).is_err());
    }

    #[test]
    fn texts_are_read_as_postgresql_reads_them() {
        for (text, template, expected) in [
            ("2024-02-29", "YYYY-MM-DD", "2024-02-29T00:00:00"),
            ("20240229", "YYYYMMDD", "2024-02-29T00:00:00"),
            ("05 Dec 2000", "DD Mon YYYY", "2000-12-05T00:00:00"),
            ("31/01/24 11:30 PM", "DD/MM/YY HH12:MI AM", "2024-01-31T23:30:00"),
            ("2024-060", "YYYY-DDD", "2024-02-29T00:00:00"),
            ("2024-02-29T14:05:09.5", "YYYY-MM-DD\"T\"HH24:MI:SS.MS", "2024-02-29T14:05:09.500"),
            ("  2024   3 7", "YYYY MM DD", "2024-03-07T00:00:00"),
        ] {
            let read = Template::of(template).read(text).unwrap();
            assert_eq!(read.local, expected.parse::<NaiveDateTime>().unwrap(), "{text} {template}");
        }
        for (text, template, code) in [
            ("2024-13-01", "YYYY-MM-DD", "22008"),
            ("2024-02-30", "YYYY-MM-DD", "22008"),
            ("next year", "YYYY", "22007"),
            ("13:00 AM", "HH12:MI AM", "22007"),
            ("24", "WW", "0A000"),
        ] {
            assert_eq!(Template::of(template).read(text).unwrap_err().code.as_str(), code, "{text} {template}");
        }
    }

    #[test]
    fn no_template_and_no_text_panics() {
        let pieces = ["Y,YYY", "FM", "TH", "\"", "\\", "é", "HH24", "TZH", "-", " ", "9", "J", "MONTH", "US"];
        let moment = at("2024-02-29T14:05:09.123456");
        let mut seed = 7_usize;
        for _ in 0..5_000 {
            let mut template = String::new();
            let mut text = String::new();
            for _ in 0..6 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                template.push_str(pieces[seed / 65_536 % pieces.len()]);
                text.push_str(["12", "é", "-", "May", "999999999", " ", "pm"][seed / 4_096 % 7]);
            }
            let template = Template::of(&template);
            let _ = template.write(&moment);
            let _ = template.read(&text);
        }
    }
}
