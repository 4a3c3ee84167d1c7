//! Users who log in with a password.
//!
//! ```sql
//! CREATE USER <name> [WITH] [PASSWORD {'<password>' | NULL}] [VALID UNTIL '<time>']
//!     [CONNECTION LIMIT <n>]
//! ALTER USER [IF EXISTS] <name> [WITH] [PASSWORD …] [VALID UNTIL …] [CONNECTION LIMIT …]
//! DROP USER [IF EXISTS] <name>, …
//! SHOW USERS
//! ```
//!
//! Example: `CREATE USER ada PASSWORD 'correct horse battery' CONNECTION LIMIT 5`

use std::fmt;

use lancegate_auth::Secret;

use super::table::write_drop;
use crate::name::{Ident, Literal};

/// `CREATE USER`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateUser {
    /// The new user.
    pub name: Ident,
    /// Whether an existing user of the name is no error.
    pub if_not_exists: bool,
    /// What is set.
    pub options: UserOptions,
}

/// `ALTER USER`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterUser {
    /// The user.
    pub name: Ident,
    /// Whether a missing user is no error.
    pub if_exists: bool,
    /// What is changed.
    pub options: UserOptions,
}

/// `DROP USER`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropUser {
    /// Whether a missing user is no error.
    pub if_exists: bool,
    /// The users, at least one.
    pub names: Vec<Ident>,
}

/// `SHOW USERS`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShowUsers;

/// Settings of a user; what is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserOptions {
    /// The password; `Some(None)` takes it away.
    pub password: Option<Option<Password>>,
    /// When the password stops working, as written.
    pub valid_until: Option<String>,
    /// How many connections the user may have; -1 for no limit.
    pub connection_limit: Option<i32>,
}

/// A password or the value of a secret. It prints as `<redacted>` wherever it is
/// formatted, and its memory is wiped on drop.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Secret<String>);

impl Password {
    /// Returns the password.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Secret::new(text.into()))
    }

    /// Returns the text, to make a verifier of it or to seal it, and for nothing
    /// else.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

impl fmt::Display for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("'<redacted>'")
    }
}

impl fmt::Display for UserOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.password {
            None => {}
            Some(None) => f.write_str(" PASSWORD NULL")?,
            Some(Some(password)) => write!(f, " PASSWORD {password}")?,
        }
        if let Some(time) = &self.valid_until {
            write!(f, " VALID UNTIL {}", Literal(time))?;
        }
        if let Some(limit) = self.connection_limit {
            write!(f, " CONNECTION LIMIT {limit}")?;
        }
        Ok(())
    }
}

impl fmt::Display for CreateUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CREATE USER ")?;
        if self.if_not_exists {
            f.write_str("IF NOT EXISTS ")?;
        }
        write!(f, "{}{}", self.name, self.options)
    }
}

impl fmt::Display for AlterUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ALTER USER ")?;
        if self.if_exists {
            f.write_str("IF EXISTS ")?;
        }
        write!(f, "{}{}", self.name, self.options)
    }
}

impl fmt::Display for DropUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_drop(f, "USER", self.if_exists, &self.names, None)
    }
}

impl fmt::Display for ShowUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SHOW USERS")
    }
}
