//! Checks and canonical spellings of parameter values.

use lancegate_wire::settings::TimeZone;

use crate::error::{Result, SqlError};
use crate::sqlstate::SqlState;

/// PostgreSQL's limit of a role, application or identifier name, in bytes.
const NAME_BYTES_MAX: usize = 63;
const TIME_UNITS: &[(&str, f64)] =
    &[("us", 0.001), ("ms", 1.0), ("min", 60_000.0), ("s", 1_000.0), ("h", 3_600_000.0), ("d", 86_400_000.0)];
const SIZE_UNITS: &[(&str, f64)] =
    &[("kB", 1.0), ("MB", 1_024.0), ("GB", 1_048_576.0), ("TB", 1_073_741_824.0), ("B", 1.0 / 1_024.0)];

/// What values a parameter takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Bool,
    /// `standard_conforming_strings`: a Boolean that must be true.
    OnlyOn,
    /// One word is accepted, others are real in PostgreSQL but not here.
    Only(&'static str),
    Enum(&'static [&'static str]),
    Integer {
        min: i64,
        max: i64,
    },
    Millis,
    Kilobytes {
        min: u64,
    },
    Text,
    ApplicationName,
    Encoding,
    DateStyle,
    TimeZone,
    IdentifierList,
}

impl Kind {
    /// Returns the value as SHOW prints it.
    pub(super) fn canonical(self, name: &str, value: &str) -> Result<String> {
        match self {
            Self::Bool => boolean(name, value),
            Self::OnlyOn => only_on(name, value),
            Self::Only(word) => only(name, value, word),
            Self::Enum(words) => enumerated(name, value, words),
            Self::Integer { min, max } => integer(name, value, min, max),
            Self::Millis => millis(name, value),
            Self::Kilobytes { min } => kilobytes(name, value, min),
            Self::Text => Ok(value.to_owned()),
            Self::ApplicationName => Ok(application_name(value)),
            Self::Encoding => encoding(name, value),
            Self::DateStyle => date_style(name, value),
            Self::TimeZone => time_zone(name, value),
            Self::IdentifierList => match identifier_list(value) {
                Some(_) => Ok(value.trim().to_owned()),
                None => Err(invalid(name, value).detail("List syntax is invalid.")),
            },
        }
    }

    /// Returns `pg_settings.vartype`.
    pub(super) fn vartype(self) -> &'static str {
        match self {
            Self::Bool | Self::OnlyOn => "bool",
            Self::Enum(_) => "enum",
            Self::Integer { .. } | Self::Millis | Self::Kilobytes { .. } => "integer",
            Self::Only(_)
            | Self::Text
            | Self::ApplicationName
            | Self::Encoding
            | Self::DateStyle
            | Self::TimeZone
            | Self::IdentifierList => "string",
        }
    }

    /// Returns `pg_settings.unit`.
    pub(super) fn unit(self) -> Option<&'static str> {
        match self {
            Self::Millis => Some("ms"),
            Self::Kilobytes { .. } => Some("kB"),
            Self::Bool
            | Self::OnlyOn
            | Self::Only(_)
            | Self::Enum(_)
            | Self::Integer { .. }
            | Self::Text
            | Self::ApplicationName
            | Self::Encoding
            | Self::DateStyle
            | Self::TimeZone
            | Self::IdentifierList => None,
        }
    }
}

/// Returns PostgreSQL's 22023 for a value.
pub(super) fn invalid(name: &str, value: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid value for parameter \"{name}\": \"{value}\""))
}

/// Returns the milliseconds of `5s`, `100ms`, `1.5 min` or a bare number.
pub(super) fn parse_millis(value: &str) -> Option<u64> {
    let millis = quantity(value, 1.0, TIME_UNITS)?;
    (0.0..=f64::from(i32::MAX)).contains(&millis).then(|| rounded(millis))
}

/// Splits `"$user", public` into names: bare ones in lower case, quoted ones as
/// they are. Returns `None` if the list is malformed.
pub(super) fn identifier_list(value: &str) -> Option<Vec<String>> {
    let mut rest = value.trim();
    let mut names = Vec::new();
    if rest.is_empty() {
        return Some(names);
    }
    loop {
        let (name, after) = if rest.starts_with('"') { quoted_name(rest)? } else { bare_name(rest)? };
        names.push(name);
        let after = after.trim_start();
        if after.is_empty() {
            // PostgreSQL writes the empty path as "".
            names.retain(|name| !name.is_empty());
            return Some(names);
        }
        rest = after.strip_prefix(',')?.trim_start();
    }
}

/// Returns the zone in Arrow's spelling; the input is canonical already.
pub(super) fn arrow_time_zone(canonical: &str) -> String {
    match canonical.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((offset, _)) if offset.contains(':') => offset.to_owned(),
        Some((offset, _)) => format!("{offset}:00"),
        None => canonical.to_owned(),
    }
}

fn quoted_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, char)) = chars.next() {
        if char != '"' {
            name.push(char);
        } else if chars.next_if(|(_, next)| *next == '"').is_some() {
            name.push('"');
        } else {
            return Some((name, &text[at + 1..]));
        }
    }
    None
}

fn bare_name(text: &str) -> Option<(String, &str)> {
    let end = text.find(|char: char| char == ',' || char.is_whitespace()).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    (!name.is_empty() && !name.contains('"')).then(|| (name.to_lowercase(), rest))
}

/// Reads a Boolean as PostgreSQL does: any unambiguous prefix of its words.
fn parse_boolean(value: &str) -> Option<bool> {
    let word = value.trim().to_ascii_lowercase();
    match word.as_str() {
        "" | "o" => None,
        "on" | "1" => Some(true),
        "of" | "off" | "0" => Some(false),
        word if "true".starts_with(word) || "yes".starts_with(word) => Some(true),
        word if "false".starts_with(word) || "no".starts_with(word) => Some(false),
        _ => None,
    }
}

fn boolean(name: &str, value: &str) -> Result<String> {
    let message = || format!("parameter \"{name}\" requires a Boolean value");
    let on = parse_boolean(value).ok_or_else(|| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message()))?;
    Ok(if on { "on" } else { "off" }.to_owned())
}

fn only_on(name: &str, value: &str) -> Result<String> {
    match boolean(name, value)?.as_str() {
        "on" => Ok("on".to_owned()),
        _ => Err(SqlError::not_supported(format!("parameter \"{name}\" cannot be turned off"))),
    }
}

fn only(name: &str, value: &str, word: &str) -> Result<String> {
    if value.trim().eq_ignore_ascii_case(word) {
        return Ok(word.to_owned());
    }
    Err(invalid(name, value).detail(format!("Only \"{word}\" is supported.")))
}

fn enumerated(name: &str, value: &str, words: &[&str]) -> Result<String> {
    let wanted = value.trim();
    let wanted = match parse_boolean(wanted) {
        // synchronous_commit takes Booleans beside its words.
        Some(on) if words.contains(&"on") => {
            if on {
                "on"
            } else {
                "off"
            }
        }
        _ => wanted,
    };
    let found = words.iter().find(|word| word.eq_ignore_ascii_case(wanted));
    let hint = || format!("Available values: {}.", words.join(", "));
    found.map(|word| (*word).to_owned()).ok_or_else(|| invalid(name, value).hint(hint()))
}

fn integer(name: &str, value: &str, min: i64, max: i64) -> Result<String> {
    let number: i64 = value.trim().parse().map_err(|_| invalid(name, value))?;
    ensure_within(name, number, min, max)?;
    Ok(number.to_string())
}

fn ensure_within(name: &str, number: i64, min: i64, max: i64) -> Result<()> {
    if (min..=max).contains(&number) {
        return Ok(());
    }
    let message = format!("{number} is outside the valid range for parameter \"{name}\" ({min} .. {max})");
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

fn millis(name: &str, value: &str) -> Result<String> {
    const HINT: &str = "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".";
    let millis = quantity(value, 1.0, TIME_UNITS).ok_or_else(|| invalid(name, value).hint(HINT))?;
    ensure_within(name, signed(millis), 0, i64::from(i32::MAX))?;
    Ok(in_largest_unit(rounded(millis), &[("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)], "ms"))
}

fn kilobytes(name: &str, value: &str, min: u64) -> Result<String> {
    const HINT: &str = "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".";
    let size = quantity(value, 1.0, SIZE_UNITS).ok_or_else(|| invalid(name, value).hint(HINT))?;
    ensure_within(name, signed(size), signed(min as f64), i64::from(i32::MAX))?;
    Ok(in_largest_unit(rounded(size), &[("TB", 1 << 30), ("GB", 1 << 20), ("MB", 1 << 10)], "kB"))
}

/// Reads a number with an optional unit, in multiples of the base unit.
fn quantity(value: &str, bare: f64, units: &[(&str, f64)]) -> Option<f64> {
    let value = value.trim();
    let end = value.find(|char: char| char.is_ascii_alphabetic() || char == ' ').unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let unit = unit.trim();
    let factor = match unit {
        "" => bare,
        _ => units.iter().find(|(name, _)| *name == unit)?.1,
    };
    let number: f64 = number.parse().ok()?;
    number.is_finite().then_some(number * factor)
}

fn in_largest_unit(amount: u64, units: &[(&str, u64)], base: &str) -> String {
    if amount == 0 {
        return "0".to_owned();
    }
    match units.iter().find(|(_, size)| amount.is_multiple_of(*size)) {
        Some((unit, size)) => format!("{}{unit}", amount / size),
        None => format!("{amount}{base}"),
    }
}

/// Float to integer casts saturate, so an absurd value stays out of range.
fn signed(amount: f64) -> i64 {
    amount.round() as i64
}

fn rounded(amount: f64) -> u64 {
    amount.round() as u64
}

fn application_name(value: &str) -> String {
    let clean = value.chars().map(|char| if (' '..='~').contains(&char) { char } else { '?' });
    clean.take(NAME_BYTES_MAX).collect()
}

/// Accepts every spelling of UTF-8 that clients send, asyncpg's quoted one
/// included.
fn encoding(name: &str, value: &str) -> Result<String> {
    let word: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
    match word.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => Ok("UTF8".to_owned()),
        _ => Err(invalid(name, value).detail("Only UTF8 is supported.")),
    }
}

fn date_style(name: &str, value: &str) -> Result<String> {
    let mut order = "MDY";
    for word in value.split([',', ' ']).filter(|word| !word.is_empty()) {
        match word.to_ascii_uppercase().as_str() {
            "ISO" | "DEFAULT" => {}
            "MDY" | "US" | "NONEURO" | "NONEUROPEAN" => order = "MDY",
            "DMY" | "EURO" | "EUROPEAN" => order = "DMY",
            "YMD" => order = "YMD",
            "SQL" | "POSTGRES" | "GERMAN" => {
                return Err(SqlError::not_supported(format!("DateStyle \"{word}\" is not supported"))
                    .hint("Only ISO output is supported."));
            }
            _ => return Err(invalid(name, value).detail(format!("Unrecognized key word: \"{word}\"."))),
        }
    }
    Ok(format!("ISO, {order}"))
}

/// Accepts IANA names in any case and plain offsets in hours, which PostgreSQL
/// shows as `<-07>+07`.
fn time_zone(name: &str, value: &str) -> Result<String> {
    let wanted = value.trim().trim_matches('\'').trim();
    let posix = wanted.strip_prefix('<').and_then(|rest| rest.split_once('>')).map(|(hours, _)| hours);
    if let Some(minutes) = offset_minutes(posix.unwrap_or(wanted)) {
        return Ok(posix_offset(minutes));
    }
    match wanted.to_ascii_lowercase().as_str() {
        "default" | "utc" | "z" | "zulu" => Ok("UTC".to_owned()),
        word if !word.starts_with(|char: char| char.is_ascii_alphabetic()) => Err(invalid(name, value)),
        word => match TimeZone::parse(word) {
            Some(TimeZone::Named(zone)) => Ok(zone.name().to_owned()),
            Some(TimeZone::Fixed(_)) | None => Err(invalid(name, value)),
        },
    }
}

/// Returns the minutes east of Greenwich of `-7`, `+05:30` or `5.5`.
fn offset_minutes(text: &str) -> Option<i64> {
    let negative = text.starts_with('-');
    let digits = text.trim_start_matches(['+', '-']);
    let minutes = match digits.split_once(':') {
        Some((hours, minutes)) => hours.parse::<u32>().ok()? * 60 + minutes.parse::<u32>().ok()?,
        None if digits.starts_with(|char: char| char.is_ascii_digit()) => {
            rounded(digits.parse::<f64>().ok()? * 60.0) as u32
        }
        None => return None,
    };
    let minutes = i64::from(minutes);
    (minutes <= 15 * 60).then_some(if negative { -minutes } else { minutes })
}

fn posix_offset(minutes: i64) -> String {
    let (east, west) = if minutes < 0 { ('-', '+') } else { ('+', '-') };
    let (hours, rest) = (minutes.abs() / 60, minutes.abs() % 60);
    match rest {
        0 => format!("<{east}{hours:02}>{west}{hours:02}"),
        _ => format!("<{east}{hours:02}:{rest:02}>{west}{hours:02}:{rest:02}"),
    }
}
