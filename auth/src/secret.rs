//! A wrapper for values that must not be printed.
//!
//! Owns redaction and wiping. Never guards against a caller that prints what
//! [`Secret::expose`] and [`Secret::expose_mut`] hand out.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// What stands in for a secret in `Debug` output and serialized form.
pub const REDACTED: &str = "<redacted>";

/// Holds a value that `Debug` and serialization show as `<redacted>` and whose
/// memory is wiped on drop. It has no `Display`.
///
/// Serializing loses the value on purpose: an effective configuration can be
/// printed, and a secret cannot reach a file that way.
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    /// Wraps `value`.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value. The name marks the place in a review.
    pub fn expose(&self) -> &T {
        &self.0
    }

    /// Returns the value to be changed. What outgrows its memory leaves a copy
    /// behind that is not wiped: reserve first.
    pub fn expose_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<T: Zeroize + Clone> Clone for Secret<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Zeroize> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// Compares in a time that depends on the lengths only.
impl<T: Zeroize + AsRef<[u8]>> PartialEq for Secret<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ref().ct_eq(other.0.as_ref()).into()
    }
}

impl<T: Zeroize + AsRef<[u8]>> Eq for Secret<T> {}

impl<T: Zeroize> Serialize for Secret<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

impl<'de, T: Zeroize + Deserialize<'de>> Deserialize<'de> for Secret<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_as_redacted_inside_other_values() {
        let secret = Secret::new("canary".to_owned());
        assert_eq!(format!("{:?}", Some(&secret)), "Some(<redacted>)");
        assert_eq!(secret.expose(), "canary");
    }

    #[test]
    fn secrets_compare_by_value() {
        let secret = |text: &str| Secret::new(text.to_owned());
        assert_eq!(secret("a"), secret("a").clone());
        assert_ne!(secret("a"), secret("b"));
        assert_ne!(secret("a"), secret("aa"));
    }
}
