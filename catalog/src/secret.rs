//! Secrets: names, and values that the gateway has sealed.

use std::fmt;

use lancegate_auth::Object;
use lancegate_auth::object::ROOT_NAMESPACE;

use crate::Timestamp;

/// The full name of a secret. Secrets have a space of names of their own: a
/// table may have the same one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretName {
    /// The database.
    pub database: String,
    /// The namespace; empty for the root.
    pub namespace: Vec<String>,
    /// The name.
    pub name: String,
}

impl SecretName {
    /// Returns the object that grants on it name.
    #[must_use]
    pub fn object(&self) -> Object {
        let Self { database, namespace, name } = self.clone();
        Object::Secret { database, namespace, name }
    }

    /// Returns the namespace that holds it.
    #[must_use]
    pub fn home(&self) -> Object {
        Object::Namespace { database: self.database.clone(), path: self.namespace.clone() }
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = if self.namespace.is_empty() { ROOT_NAMESPACE.to_owned() } else { self.namespace.join("$") };
        write!(f, "{}.{schema}.{}", self.database, self.name)
    }
}

/// A value that only the holder of a key can read. What it holds is the
/// gateway's business; the store keeps it as it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Which key opens it.
    pub key_id: String,
    /// The sealed value as text.
    pub text: String,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// A secret as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRecord {
    /// The full name.
    pub name: SecretName,
    /// Counts the sealed values that the secret has had, from 1.
    pub version: u64,
    /// The value.
    pub sealed: Sealed,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was given its value.
    pub updated_at: Timestamp,
}
