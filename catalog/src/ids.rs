//! Identifiers. Opaque to users, sortable by creation, never reused.

use std::fmt;
use std::str::FromStr;

use rand::TryRngCore;
use rand::rngs::OsRng;
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::Timestamp;

/// A text that is not an identifier of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {kind} id \"{text}\"")]
pub struct InvalidId {
    /// What was expected: `job` or `table`.
    pub kind: &'static str,
    /// The text as given.
    pub text: String,
}

/// Identifies a job: `job_` and a ULID.
///
/// The random half holds 80 bits from the operating system, so that an id
/// cannot be guessed from another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(Ulid);

/// Identifies one generation of a table: `tbl_` and a ULID.
///
/// A table that is dropped and created again under the same name gets another
/// id, so that work begun for the old one cannot reach the new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TableId(Ulid);

macro_rules! prefixed_ulid {
    ($type:ident, $kind:literal, $prefix:literal) => {
        impl $type {
            /// Returns a fresh id created at `now`.
            ///
            /// # Panics
            ///
            /// When the operating system has no random source.
            #[must_use]
            pub fn new(now: Timestamp) -> Self {
                Self(ulid_at(now))
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $type {
            type Err = InvalidId;

            /// Accepts exactly what `Display` prints.
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let parsed = text.strip_prefix($prefix).and_then(|digits| Ulid::from_string(digits).ok()).map(Self);
                match parsed {
                    // Lower case and overflowing first digits parse, too.
                    Some(id) if id.to_string() == text => Ok(id),
                    _ => Err(InvalidId { kind: $kind, text: text.to_owned() }),
                }
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(id: $type) -> String {
                id.to_string()
            }
        }
    };
}

prefixed_ulid!(JobId, "job", "job_");
prefixed_ulid!(TableId, "table", "tbl_");

fn ulid_at(now: Timestamp) -> Ulid {
    let mut random = [0; 16];
    OsRng.try_fill_bytes(&mut random).expect("the operating system provides random bytes");
    let millis = u64::try_from(now.timestamp_millis()).unwrap_or(0);
    Ulid::from_parts(millis, u128::from_le_bytes(random))
}

/// Counts the claims of a job. The number fences: a write that carries an
/// older epoch than the job's comes from an attempt that lost its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AttemptEpoch(pub u64);

impl fmt::Display for AttemptEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Names one run of one gateway process.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GatewayId(String);

impl GatewayId {
    /// Returns a fresh name for this process.
    ///
    /// # Panics
    ///
    /// When the operating system has no random source.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self(format!("gw_{}", ulid_at(now)))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for GatewayId {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl fmt::Display for GatewayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use chrono::DateTime;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        DateTime::from_timestamp_millis(millis).unwrap()
    }

    #[test]
    fn an_id_is_read_back_exactly() {
        let id = JobId::new(at(1_700_000_000_000));
        let text = id.to_string();
        assert_eq!(text.len(), "job_".len() + 26);
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(serde_json::to_value(id).unwrap(), text.as_str());
    }

    #[test]
    fn anything_but_the_canonical_form_is_refused() {
        let text = JobId::new(at(1_700_000_000_000)).to_string();
        let cases = [
            String::new(),
            "job_".to_owned(),
            text.to_lowercase(),
            text.replace("job_", "tbl_"),
            format!("{text}0"),
            format!(" {text}"),
            "job_ZZZZZZZZZZZZZZZZZZZZZZZZZZ".to_owned(),
            "job_8ZZZZZZZZZZZZZZZZZZZZZZZZZ".to_owned(),
        ];
        for case in cases {
            assert!(case.parse::<JobId>().is_err(), "{case}");
        }
    }

    #[test]
    fn ids_sort_by_creation_and_differ_within_a_millisecond() {
        assert!(TableId::new(at(1)).to_string() < TableId::new(at(2)).to_string());
        let same: HashSet<JobId> = (0..1000).map(|_| JobId::new(at(5))).collect();
        assert_eq!(same.len(), 1000);
    }
}
