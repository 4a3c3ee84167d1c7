//! The settings that change how values are written.

use chrono::{Offset, TimeZone as _};
use chrono_tz::{OffsetName, TZ_VARIANTS, Tz};

use crate::error::WireError;

/// Text or binary form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// Code 0.
    #[default]
    Text,
    /// Code 1.
    Binary,
}

impl Format {
    /// Returns the code in messages.
    pub fn code(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }

    /// Reads a code.
    ///
    /// # Errors
    ///
    /// [`WireError::InvalidParameter`] for anything but 0 and 1.
    pub fn from_code(code: i16) -> Result<Self, WireError> {
        match code {
            0 => Ok(Self::Text),
            1 => Ok(Self::Binary),
            other => Err(WireError::InvalidParameter(format!("unsupported format code: {other}"))),
        }
    }

    /// Spreads the codes of a Bind message over `count` items: none means
    /// text, one means all.
    ///
    /// # Errors
    ///
    /// [`WireError::Protocol`] if the number of codes is neither 0, 1 nor
    /// `count`; [`WireError::InvalidParameter`] for an unknown code.
    pub fn spread(codes: &[i16], count: usize) -> Result<Vec<Self>, WireError> {
        match codes {
            [] => Ok(vec![Self::Text; count]),
            [code] => Ok(vec![Self::from_code(*code)?; count]),
            codes if codes.len() == count => codes.iter().map(|c| Self::from_code(*c)).collect(),
            codes => Err(WireError::Protocol(format!(
                "bind message has {} result formats but query has {count} columns",
                codes.len()
            ))),
        }
    }
}

/// Text form of `bytea`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ByteaOutput {
    /// `\x` and two digits a byte.
    #[default]
    Hex,
    /// Printable bytes as they are, others as `\nnn`.
    Escape,
}

/// The session's `TimeZone`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeZone {
    /// A constant offset in seconds east of Greenwich.
    Fixed(i32),
    /// A zone of the IANA data base.
    Named(Tz),
}

impl TimeZone {
    /// Coordinated universal time.
    pub const UTC: Self = Self::Fixed(0);

    /// Reads a zone name, `UTC`, or an ISO offset such as `+05:30`.
    ///
    /// This is the sign of ISO 8601, as in timestamp text and in Arrow; the
    /// POSIX sign of `SET TimeZone = 'UTC+5'` is the caller's to turn round.
    pub fn parse(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("utc") || name.eq_ignore_ascii_case("z") {
            return Some(Self::UTC);
        }
        if name.starts_with(['+', '-']) {
            return parse_offset(name.as_bytes()).map(Self::Fixed);
        }
        let exact = name.parse().ok();
        let any_case = || {
            let mut zones = TZ_VARIANTS.iter();
            zones.find(|zone| zone.name().eq_ignore_ascii_case(name)).copied()
        };
        exact.or_else(any_case).map(Self::Named)
    }

    /// Returns the offset, in seconds east, at a moment.
    pub fn offset_at(&self, unix_seconds: i64) -> i32 {
        match self {
            Self::Fixed(seconds) => *seconds,
            Self::Named(zone) => match zone.timestamp_opt(unix_seconds, 0).single() {
                Some(moment) => moment.offset().fix().local_minus_utc(),
                None => 0,
            },
        }
    }

    /// Returns what the zone is called at a moment: `CET`, or its offset where it has no name.
    pub fn abbreviation_at(&self, unix_seconds: i64) -> String {
        let moment = match self {
            Self::Fixed(0) => return "UTC".to_owned(),
            Self::Fixed(_) => None,
            Self::Named(zone) => zone.timestamp_opt(unix_seconds, 0).single(),
        };
        let name = moment.and_then(|moment| moment.offset().abbreviation().map(str::to_owned));
        name.unwrap_or_else(|| {
            let seconds = self.offset_at(unix_seconds);
            let sign = if seconds < 0 { '-' } else { '+' };
            let (hours, minutes) = (seconds.abs() / 3_600, seconds.abs() / 60 % 60);
            if minutes == 0 { format!("{sign}{hours:02}") } else { format!("{sign}{hours:02}:{minutes:02}") }
        })
    }

    /// Returns the offset of a local wall-clock time. In the hour that occurs
    /// twice the standard time is taken, in the hour that does not exist the
    /// offset before it, as PostgreSQL does.
    pub fn offset_of_local(&self, local_seconds: i64) -> i32 {
        let Self::Named(_) = self else {
            return self.offset_at(local_seconds);
        };
        let before = self.offset_at(local_seconds.saturating_sub(86_400));
        let after = self.offset_at(local_seconds.saturating_add(86_400));
        if before == after {
            let offset = self.offset_at(local_seconds.saturating_sub(before.into()));
            return offset;
        }
        let holds = |offset: i32| self.offset_at(local_seconds.saturating_sub(offset.into())) == offset;
        match (holds(before), holds(after)) {
            (true, true) => before.min(after),
            (false, true) => after,
            (true, false) | (false, false) => before,
        }
    }
}

/// Reads `+hh`, `+hhmm`, `+hh:mm` or `+hh:mm:ss` as seconds.
pub(crate) fn parse_offset(text: &[u8]) -> Option<i32> {
    let (sign, rest) = match text.split_first()? {
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => return None,
    };
    let digits: Vec<u8> = rest.iter().copied().filter(|byte| *byte != b':').collect();
    if digits.is_empty() || digits.len() > 6 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let pair = |at: usize| {
        let tens = i32::from(digits.get(at)? - b'0');
        let units = digits.get(at + 1).map(|unit| i32::from(unit - b'0'));
        Some(units.map_or(tens, |units| tens * 10 + units))
    };
    let hours = pair(0)?;
    let minutes = pair(2).unwrap_or(0);
    let seconds = pair(4).unwrap_or(0);
    if hours > 15 || minutes > 59 || seconds > 59 {
        return None;
    }
    Some(sign * (hours * 3600 + minutes * 60 + seconds))
}

/// How a session wants its values written. `DateStyle` is always ISO and
/// `IntervalStyle` always postgres.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatSettings {
    /// Above 0: shortest exact text of floats; else 15 (6) digits plus this.
    pub extra_float_digits: i32,
    /// Zone in which `timestamptz` is printed and read.
    pub timezone: TimeZone,
    /// Text form of `bytea`.
    pub bytea_output: ByteaOutput,
}

impl Default for FormatSettings {
    fn default() -> Self {
        Self { extra_float_digits: 1, timezone: TimeZone::UTC, bytea_output: ByteaOutput::Hex }
    }
}
