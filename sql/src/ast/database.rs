//! Databases, namespaces and storage integrations.
//!
//! ```sql
//! CREATE DATABASE [IF NOT EXISTS] <name>
//! ATTACH DATABASE [IF NOT EXISTS] <name> {FROM | LOCATION [=]} '<uri>'
//! DROP DATABASE [IF EXISTS] <name> [CASCADE | RESTRICT]
//! CREATE {SCHEMA <path> | NAMESPACE <component> [IN <schema>]} …
//!     [WITH [PROPERTIES] ('<key>' = '<value>', …)]           -- IF NOT EXISTS before the name
//! ALTER {SCHEMA … | NAMESPACE …} SET PROPERTIES ('<key>' = '<value>', …)
//! DROP {SCHEMA … | NAMESPACE …} [CASCADE | RESTRICT]         -- IF EXISTS before the name
//! CREATE STORAGE INTEGRATION [IF NOT EXISTS] <name> STORAGE_PROVIDER = '<provider>'
//!     STORAGE_PREFIX = '<uri>' [<option> = <value> …]
//! DROP STORAGE INTEGRATION [IF EXISTS] <name>
//! ```
//!
//! Example: `CREATE SCHEMA IF NOT EXISTS "team$ml"`

use std::fmt;

use super::table::write_drop;
use crate::name::{Ident, Literal, SchemaName, write_separated};
use crate::options::{OptionValue, SqlOption};

/// What a `DROP` does with objects that depend on the dropped one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropBehavior {
    /// Drops them too.
    Cascade,
    /// Refuses.
    Restrict,
}

/// `CREATE DATABASE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateDatabase {
    /// The new database.
    pub name: Ident,
    /// Whether an existing database of the name is no error.
    pub if_not_exists: bool,
}

/// `ATTACH DATABASE`: names a database that exists in object storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachDatabase {
    /// The name to give it.
    pub name: Ident,
    /// Whether an existing database of the name is no error.
    pub if_not_exists: bool,
    /// Its URI, or a path below the deployment's storage root.
    pub location: String,
}

/// `DROP DATABASE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropDatabase {
    /// The database.
    pub name: Ident,
    /// Whether a missing database is no error.
    pub if_exists: bool,
    /// What happens to its contents.
    pub behavior: Option<DropBehavior>,
}

/// `CREATE SCHEMA` and `CREATE NAMESPACE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSchema {
    /// The complete path.
    pub schema: SchemaName,
    /// Whether an existing namespace of the path is no error.
    pub if_not_exists: bool,
    /// Properties of the namespace.
    pub properties: Vec<Property>,
}

/// `ALTER SCHEMA … SET PROPERTIES` and `ALTER NAMESPACE … SET PROPERTIES`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterSchema {
    /// The complete path.
    pub schema: SchemaName,
    /// Properties to set; at least one.
    pub properties: Vec<Property>,
}

/// `DROP SCHEMA` and `DROP NAMESPACE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropSchema {
    /// The complete paths, at least one.
    pub schemas: Vec<SchemaName>,
    /// Whether a missing namespace is no error.
    pub if_exists: bool,
    /// What happens to its contents.
    pub behavior: Option<DropBehavior>,
}

/// A property of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Property {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
}

/// `CREATE STORAGE INTEGRATION`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateStorageIntegration {
    /// The new integration.
    pub name: Ident,
    /// Whether an existing integration of the name is no error.
    pub if_not_exists: bool,
    /// `STORAGE_PROVIDER`.
    pub provider: String,
    /// `STORAGE_PREFIX`.
    pub prefix: String,
    /// The provider's own options, lower case, in the order written.
    pub options: Vec<SqlOption>,
}

/// `DROP STORAGE INTEGRATION`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropStorageIntegration {
    /// The integration.
    pub name: Ident,
    /// Whether a missing integration is no error.
    pub if_exists: bool,
}

impl fmt::Display for DropBehavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cascade => "CASCADE",
            Self::Restrict => "RESTRICT",
        })
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", Literal(&self.key), Literal(&self.value))
    }
}

impl fmt::Display for CreateDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE DATABASE {}{}", if_not_exists(self.if_not_exists), self.name)
    }
}

impl fmt::Display for AttachDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exists = if_not_exists(self.if_not_exists);
        write!(f, "ATTACH DATABASE {exists}{} FROM {}", self.name, Literal(&self.location))
    }
}

impl fmt::Display for DropDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_drop(f, "DATABASE", self.if_exists, &[&self.name], self.behavior)
    }
}

impl fmt::Display for CreateSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE SCHEMA {}{}", if_not_exists(self.if_not_exists), self.schema)?;
        if self.properties.is_empty() {
            return Ok(());
        }
        f.write_str(" WITH PROPERTIES (")?;
        write_separated(f, &self.properties, ", ")?;
        f.write_str(")")
    }
}

impl fmt::Display for AlterSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER SCHEMA {} SET PROPERTIES (", self.schema)?;
        write_separated(f, &self.properties, ", ")?;
        f.write_str(")")
    }
}

impl fmt::Display for DropSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_drop(f, "SCHEMA", self.if_exists, &self.schemas, self.behavior)
    }
}

impl fmt::Display for CreateStorageIntegration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CREATE STORAGE INTEGRATION {}{} STORAGE_PROVIDER = {} STORAGE_PREFIX = {}",
            if_not_exists(self.if_not_exists),
            self.name,
            Literal(&self.provider),
            Literal(&self.prefix),
        )?;
        self.options.iter().try_for_each(|option| match &option.value {
            // A bare word names a secret object; a string may be one.
            OptionValue::String(_) if is_confidential(&option.name) => {
                write!(f, " {} = '<redacted>'", Ident::from(option.name.as_str()))
            }
            _ => write!(f, " {option}"),
        })
    }
}

impl fmt::Display for DropStorageIntegration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_drop(f, "STORAGE INTEGRATION", self.if_exists, &[&self.name], None)
    }
}

/// Returns whether an option of this name holds something to keep from logs.
fn is_confidential(name: &str) -> bool {
    ["key", "secret", "password", "token", "credential"].iter().any(|word| name.contains(word))
}

pub(super) fn if_not_exists(set: bool) -> &'static str {
    if set { "IF NOT EXISTS " } else { "" }
}
