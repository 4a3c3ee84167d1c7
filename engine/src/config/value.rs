//! Values with a unit: a length of time and a number of bytes.
//!
//! A bare number in a configuration hides its unit, so neither type reads one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

/// A length of time, written `250ms`, `30s`, `5m`, `12h`, `30d` or a sum such
/// as `1h30m`; `0s` is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(std::time::Duration);

/// A number of bytes, written `512B`, `64KiB`, `256MiB`, `1GiB`, `2TiB` or in
/// powers of ten `10kB`, `10MB`, `10GB`, `1TB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

/// The text is not a value of the type; carries what is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(&'static str);

/// What [`Duration`] reads, in words.
pub(super) const DURATION_FORM: &str = "a length of time such as 250ms, 30s, 5m, 12h or 30d";
/// What [`ByteSize`] reads, in words.
pub(super) const BYTE_SIZE_FORM: &str = "a size such as 512B, 64KiB, 256MiB or 1GiB";

/// Milliseconds of each unit, the longest first.
const DURATION_UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Bytes of each unit; those that `Display` may choose come first, longest first.
const BYTE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
];

impl Duration {
    /// Returns a duration of whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(std::time::Duration::from_secs(seconds))
    }

    /// Returns the same length as the standard library's type.
    pub const fn get(self) -> std::time::Duration {
        self.0
    }

    /// Returns `true` for `0s`.
    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

impl ByteSize {
    /// Returns a size of so many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns the number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number of bytes, or the largest number that the machine can address.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Splits the leading digits off; `None` if there are none or they overflow.
fn leading_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// Reads one `<number><unit>` and returns its milliseconds and what follows.
fn leading_term(text: &str) -> Option<(u64, &str)> {
    let (number, rest) = leading_number(text)?;
    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let (_, millis) = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?;
    Some((number.checked_mul(*millis)?, rest))
}

impl FromStr for Duration {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let refused = ValueError(DURATION_FORM);
        let (mut total, mut rest) = leading_term(text.trim()).ok_or(refused)?;
        while !rest.is_empty() {
            let (millis, next) = leading_term(rest).ok_or(refused)?;
            total = total.checked_add(millis).ok_or(refused)?;
            rest = next;
        }
        Ok(Self(std::time::Duration::from_millis(total)))
    }
}

impl FromStr for ByteSize {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let refused = ValueError(BYTE_SIZE_FORM);
        let (number, unit) = leading_number(text.trim()).ok_or(refused)?;
        let unit = unit.trim_start();
        let (_, bytes) = BYTE_UNITS.iter().find(|(name, _)| *name == unit).ok_or(refused)?;
        number.checked_mul(*bytes).map(Self).ok_or(refused)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        if millis == 0 {
            return f.write_str("0s");
        }
        let (name, unit) = DURATION_UNITS
            .iter()
            .find(|(_, unit)| millis.is_multiple_of(u128::from(*unit)))
            .expect("the last unit is 1");
        write!(f, "{}{name}", millis / u128::from(*unit))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit) =
            BYTE_UNITS.iter().find(|(_, unit)| self.0 >= *unit && self.0.is_multiple_of(*unit)).unwrap_or(&("B", 1));
        write!(f, "{}{name}", self.0 / unit)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_their_units_and_print_the_longest_exact_one() {
        for (text, millis, printed) in [
            ("0s", 0, "0s"),
            ("250ms", 250, "250ms"),
            ("30s", 30_000, "30s"),
            ("90s", 90_000, "90s"),
            ("1h30m", 5_400_000, "90m"),
            ("24h", 86_400_000, "1d"),
            ("30d", 30 * 86_400_000, "30d"),
        ] {
            let value: Duration = text.parse().unwrap();
            assert_eq!(value.get().as_millis(), millis, "{text}");
            assert_eq!(value.to_string(), printed, "{text}");
        }
    }

    #[test]
    fn durations_without_a_unit_or_past_the_range_are_refused() {
        for text in ["", "30", "s", "-1s", "1.5s", "1 week", "1m30", "99999999999999999999s", "1S"] {
            assert_eq!(text.parse::<Duration>(), Err(ValueError(DURATION_FORM)), "{text}");
        }
    }

    #[test]
    fn sizes_read_their_units_and_print_the_longest_exact_one() {
        for (text, bytes, printed) in [
            ("0B", 0, "0B"),
            ("512B", 512, "512B"),
            ("1000B", 1000, "1000B"),
            ("64KiB", 65_536, "64KiB"),
            ("256MiB", 268_435_456, "256MiB"),
            ("1024 MiB", 1 << 30, "1GiB"),
            ("10MB", 10_000_000, "10000000B"),
        ] {
            let value: ByteSize = text.parse().unwrap();
            assert_eq!(value.get(), bytes, "{text}");
            assert_eq!(value.to_string(), printed, "{text}");
        }
    }

    #[test]
    fn sizes_without_a_unit_or_past_the_range_are_refused() {
        for text in ["", "1024", "MiB", "-1B", "1.5GiB", "1gib", "99999999TiB"] {
            assert_eq!(text.parse::<ByteSize>(), Err(ValueError(BYTE_SIZE_FORM)), "{text}");
        }
    }
}
