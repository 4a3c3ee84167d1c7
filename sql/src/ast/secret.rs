//! Secrets and API keys. Values never print.
//!
//! ```sql
//! CREATE SECRET [IF NOT EXISTS] <name> [TYPE = GENERIC_STRING]
//!     SECRET_STRING = {'<value>' | $<tag>$<value>$<tag>$ | $1}
//! ALTER SECRET [IF EXISTS] <name> [SET] SECRET_STRING = {'<value>' | $<tag>$<value>$<tag>$ | $1}
//! DROP SECRET [IF EXISTS] <name>
//! CREATE API KEY <name> [FOR USER <user>] [VALID UNTIL '<time>']
//! DROP API KEY [IF EXISTS] <name>
//! SHOW API KEYS
//! ```
//!
//! Example: `CREATE SECRET hub_token TYPE = GENERIC_STRING SECRET_STRING = $1`
//!
//! Example: `ALTER SECRET IF EXISTS hub_token SECRET_STRING = $1`
//!
//! Example: `DROP SECRET IF EXISTS hub_token`
//!
//! Example: `CREATE API KEY ci FOR USER ada VALID UNTIL '2030-01-01'`

use std::fmt;

use super::Password;
use super::database::if_not_exists;
use super::table::write_drop;
use crate::name::{Ident, Literal, ObjectName};

/// `CREATE SECRET`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSecret {
    /// The new secret.
    pub name: ObjectName,
    /// Whether an existing secret of the name is no error.
    pub if_not_exists: bool,
    /// Its value.
    pub value: SecretValue,
}

/// `ALTER SECRET`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterSecret {
    /// The secret.
    pub name: ObjectName,
    /// Whether a missing secret is no error.
    pub if_exists: bool,
    /// Its new value.
    pub value: SecretValue,
}

/// `DROP SECRET`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropSecret {
    /// The secret.
    pub name: ObjectName,
    /// Whether a missing secret is no error.
    pub if_exists: bool,
}

/// The value of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretValue {
    /// Written in the statement.
    Text(Password),
    /// A parameter of the statement, counted from 1.
    Parameter(u16),
}

/// `CREATE API KEY`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateApiKey {
    /// The new key's name.
    pub name: Ident,
    /// Whose key it is; the caller's without it.
    pub user: Option<Ident>,
    /// When it stops working, as written.
    pub valid_until: Option<String>,
}

/// `DROP API KEY`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropApiKey {
    /// The key's name.
    pub name: Ident,
    /// Whether a missing key is no error.
    pub if_exists: bool,
}

/// `SHOW API KEYS`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShowApiKeys;

impl fmt::Display for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => text.fmt(f),
            Self::Parameter(number) => write!(f, "${number}"),
        }
    }
}

impl fmt::Display for CreateSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exists = if_not_exists(self.if_not_exists);
        write!(f, "CREATE SECRET {exists}{} TYPE = GENERIC_STRING SECRET_STRING = {}", self.name, self.value)
    }
}

impl fmt::Display for AlterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exists = if self.if_exists { "IF EXISTS " } else { "" };
        write!(f, "ALTER SECRET {exists}{} SECRET_STRING = {}", self.name, self.value)
    }
}

impl fmt::Display for DropSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_drop(f, "SECRET", self.if_exists, &[&self.name], None)
    }
}

impl fmt::Display for CreateApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE API KEY {}", self.name)?;
        if let Some(user) = &self.user {
            write!(f, " FOR USER {user}")?;
        }
        match &self.valid_until {
            None => Ok(()),
            Some(time) => write!(f, " VALID UNTIL {}", Literal(time)),
        }
    }
}

impl fmt::Display for DropApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_drop(f, "API KEY", self.if_exists, &[&self.name], None)
    }
}

impl fmt::Display for ShowApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SHOW API KEYS")
    }
}
