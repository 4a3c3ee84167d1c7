//! What a configuration key allows: one reading of text (environment, flags,
//! defaults), one check of a file's value, one phrase that says what is allowed.

use std::net::SocketAddr;
use std::str::FromStr;

use toml::Value;
use tracing_subscriber::EnvFilter;

use super::value::{BYTE_SIZE_FORM, ByteSize, DURATION_FORM, Duration};

/// The most characters of a GPU class name (a DNS label).
const CLASS_NAME_CHARS_MAX: usize = 63;

/// What a key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer { min: i64, max: i64 },
    /// A [`Duration`] with its bounds as text.
    Duration { min: &'static str, max: &'static str },
    /// A [`ByteSize`] with its bounds as text.
    ByteSize { min: &'static str, max: &'static str },
    /// An IP address and a port.
    Listen,
    /// The path of a file or folder.
    Path,
    /// Any text that is not empty.
    Text,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// A folder or an s3:// URI.
    Data,
    /// The path of an SQLite file.
    Metadata,
    /// A secret that only the environment may set.
    Password,
    /// A DNS label other than `default`.
    ClassName,
    /// Directives of `tracing_subscriber::EnvFilter`.
    LogFilter,
}

impl Kind {
    /// Returns what is allowed, as the end of the sentence "use …".
    pub(super) fn allowed(self) -> String {
        match self {
            Self::Boolean => "true or false".to_owned(),
            Self::Integer { min, max: i64::MAX } => format!("a whole number from {min}"),
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::Duration { min, max } => format!("{DURATION_FORM}, from {min} to {max}"),
            Self::ByteSize { min, max } => format!("{BYTE_SIZE_FORM}, from {min} to {max}"),
            Self::Listen => "an IP address and a port such as 127.0.0.1:5433 or [::1]:5433".to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Text => "a text that is not empty".to_owned(),
            Self::Choice(words) => words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or "),
            Self::Data => "a folder or an s3:// URI".to_owned(),
            Self::Metadata => {
                "the path of an SQLite file (a postgres:// store is not supported by this version)".to_owned()
            }
            Self::Password => "the environment variable LANCEGATE_PASSWORD with a text that is not empty".to_owned(),
            Self::ClassName => format!(
                "1 to {CLASS_NAME_CHARS_MAX} lowercase letters, digits and hyphens, no hyphen at either end, and not \
                 \"default\" (which [gpu_default] describes)"
            ),
            Self::LogFilter => {
                "error, warn, info, debug or trace, also per module: info,lancegate::jobs=debug".to_owned()
            }
        }
    }

    /// Returns whether a file's value is allowed.
    pub(super) fn allows(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Boolean, Value::Boolean(_)) => true,
            (Self::Integer { min, max }, Value::Integer(number)) => (min..=max).contains(number),
            (_, Value::String(text)) => self.allows_text(text),
            _ => false,
        }
    }

    /// Reads a value as the environment and flags give it; `None` if it is not allowed.
    pub(super) fn read(self, text: &str) -> Option<Value> {
        let value = match self {
            Self::Boolean => Value::Boolean(text.parse().ok()?),
            Self::Integer { .. } => Value::Integer(text.parse().ok()?),
            _ => Value::String(text.to_owned()),
        };
        self.allows(&value).then_some(value)
    }

    /// Returns whether the example and messages may show the value.
    pub(super) fn is_secret(self) -> bool {
        // A metadata URI may carry a password.
        matches!(self, Self::Password | Self::Metadata)
    }

    fn allows_text(self, text: &str) -> bool {
        match self {
            Self::Boolean | Self::Integer { .. } => false,
            Self::Duration { min, max } => within::<Duration>(text, min, max),
            Self::ByteSize { min, max } => within::<ByteSize>(text, min, max),
            Self::Listen => text.parse::<SocketAddr>().is_ok(),
            Self::Path | Self::Text | Self::Password => !text.is_empty(),
            Self::Choice(words) => words.contains(&text),
            Self::Data => is_data(text),
            Self::Metadata => !text.is_empty() && !text.contains("://"),
            Self::ClassName => is_class_name(text),
            Self::LogFilter => !text.is_empty() && EnvFilter::builder().parse(text).is_ok(),
        }
    }
}

fn within<T: FromStr + PartialOrd>(text: &str, min: &str, max: &str) -> bool {
    let Ok(value) = text.parse::<T>() else {
        return false;
    };
    let above = min.parse::<T>().is_ok_and(|min| value >= min);
    above && max.parse::<T>().is_ok_and(|max| value <= max)
}

fn is_data(text: &str) -> bool {
    match text.split_once("://") {
        Some((scheme, rest)) => scheme == "s3" && !rest.is_empty(),
        None => !text.is_empty(),
    }
}

fn is_class_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=CLASS_NAME_CHARS_MAX).contains(&text.len())
        && text.chars().all(allowed)
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text != super::gpu::DEFAULT_CLASS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, allowed: &[&str], refused: &[&str]) {
        for text in allowed {
            assert!(kind.read(text).is_some(), "{kind:?} should allow {text:?}");
        }
        for text in refused {
            assert!(kind.read(text).is_none(), "{kind:?} should refuse {text:?}");
        }
    }

    #[test]
    fn each_kind_allows_what_it_says() {
        check(Kind::Boolean, &["true", "false"], &["", "yes", "1", "True"]);
        check(Kind::Integer { min: 1, max: 10 }, &["1", "10"], &["0", "11", "-1", "1.0", "one", ""]);
        check(Kind::Duration { min: "1s", max: "1m" }, &["1s", "60s", "1m"], &["999ms", "61s", "30", ""]);
        check(Kind::ByteSize { min: "1KiB", max: "1MiB" }, &["1KiB", "1024B"], &["1B", "2MiB", "1024"]);
        check(Kind::Listen, &["127.0.0.1:0", "[::1]:5433"], &["localhost:1", "127.0.0.1", ":5433", "1.2.3.4:70000"]);
        check(Kind::Choice(&["a", "b"]), &["a", "b"], &["c", "A", ""]);
        check(Kind::Data, &["./x", "/x", "s3://b/x"], &["", "s3://", "gs://b", "http://x"]);
        check(Kind::Metadata, &["m.db"], &["", "postgres://u@h/d"]);
        check(Kind::ClassName, &["a", "a100-80", "1"], &["", "-a", "a-", "A100", "a_b", "default"]);
        check(Kind::ClassName, &[&*"a".repeat(63)], &[&*"a".repeat(64)]);
        check(Kind::LogFilter, &["info", "info,lancegate::jobs=debug"], &["", "info,lancegate=loud"]);
    }

    #[test]
    fn a_file_value_of_the_wrong_type_is_refused() {
        assert!(!Kind::Boolean.allows(&Value::String("true".to_owned())));
        assert!(!Kind::Integer { min: 0, max: 9 }.allows(&Value::Float(1.0)));
        assert!(!Kind::Duration { min: "0s", max: "1d" }.allows(&Value::Integer(30)));
        assert!(!Kind::Path.allows(&Value::Array(Vec::new())));
    }
}
