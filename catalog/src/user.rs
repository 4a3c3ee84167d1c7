//! Users as the store keeps them. Checking passwords is not done here.

use std::fmt;

use lancegate_auth::UserName;

use crate::Timestamp;

/// A user who may log in.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: UserName,
    /// The stored form of the password; none cannot log in with a password.
    pub verifier: Option<String>,
    /// No login after this time.
    pub valid_until: Option<Timestamp>,
    /// At most so many sessions at once; none is no limit.
    pub connection_limit: Option<u32>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .field("verifier", &redacted(self.verifier.as_ref()))
            .field("valid_until", &self.valid_until)
            .field("connection_limit", &self.connection_limit)
            .field("created_at", &self.created_at)
            .finish()
    }
}

/// A user to be created.
#[derive(Clone, PartialEq, Eq)]
pub struct NewUser {
    /// The name.
    pub name: UserName,
    /// The stored form of the password.
    pub verifier: Option<String>,
    /// No login after this time.
    pub valid_until: Option<Timestamp>,
    /// At most so many sessions at once.
    pub connection_limit: Option<u32>,
}

impl NewUser {
    /// Returns a user who cannot log in with a password and has no limits.
    #[must_use]
    pub fn new(name: UserName) -> Self {
        NewUser { name, verifier: None, valid_until: None, connection_limit: None }
    }
}

impl fmt::Debug for NewUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewUser")
            .field("name", &self.name)
            .field("verifier", &redacted(self.verifier.as_ref()))
            .field("valid_until", &self.valid_until)
            .field("connection_limit", &self.connection_limit)
            .finish()
    }
}

/// A change of a user. A field that is none stays; the inner none clears it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UserChange {
    /// The stored form of the password.
    pub verifier: Option<Option<String>>,
    /// No login after this time.
    pub valid_until: Option<Option<Timestamp>>,
    /// At most so many sessions at once.
    pub connection_limit: Option<Option<u32>>,
}

impl fmt::Debug for UserChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserChange")
            .field("verifier", &redacted(self.verifier.as_ref()))
            .field("valid_until", &self.valid_until)
            .field("connection_limit", &self.connection_limit)
            .finish()
    }
}

fn redacted<T>(secret: Option<&T>) -> Option<&'static str> {
    secret.map(|_| "<redacted>")
}
