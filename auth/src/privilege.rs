//! The fourteen privileges and the kinds of object each is valid on.
//!
//! Owns spellings, numbers and the validity matrix; never who holds what.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::object::ObjectKind;

/// What a grant allows. The order is that of the wire numbers (LanceDB's
/// access-control enumeration).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Privilege {
    /// Full authority over one object, including granting; one holder per object.
    Ownership,
    /// Traverse a database or namespace, bind a secret or function, see jobs.
    Usage,
    /// Read rows.
    Select,
    /// Append rows.
    Insert,
    /// Modify rows; rotate a secret.
    Update,
    /// Delete rows.
    Delete,
    /// Create a database.
    CreateDatabase,
    /// Create an immediate child namespace.
    CreateNamespace,
    /// Create a table.
    CreateTable,
    /// Create a materialized view.
    CreateMaterializedView,
    /// Create a view.
    CreateView,
    /// Create a secret.
    CreateSecret,
    /// Create a function.
    CreateFunction,
    /// Operate the deployment: configuration, role bindings, job control.
    Operate,
}

/// Says that a text names none of the fourteen privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown privilege")]
pub struct UnknownPrivilege;

impl Privilege {
    /// Every privilege, in the order of [`Privilege::code`].
    pub const ALL: [Self; 14] = [
        Self::Ownership,
        Self::Usage,
        Self::Select,
        Self::Insert,
        Self::Update,
        Self::Delete,
        Self::CreateDatabase,
        Self::CreateNamespace,
        Self::CreateTable,
        Self::CreateMaterializedView,
        Self::CreateView,
        Self::CreateSecret,
        Self::CreateFunction,
        Self::Operate,
    ];

    /// Returns the spelling of `GRANT`, words separated by blanks. A namespace
    /// is a schema in SQL.
    pub fn as_sql(self) -> &'static str {
        match self {
            Self::Ownership => "OWNERSHIP",
            Self::Usage => "USAGE",
            Self::Select => "SELECT",
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::CreateDatabase => "CREATE DATABASE",
            Self::CreateNamespace => "CREATE SCHEMA",
            Self::CreateTable => "CREATE TABLE",
            Self::CreateMaterializedView => "CREATE MATERIALIZED VIEW",
            Self::CreateView => "CREATE VIEW",
            Self::CreateSecret => "CREATE SECRET",
            Self::CreateFunction => "CREATE FUNCTION",
            Self::Operate => "OPERATE",
        }
    }

    /// Returns the spelling of the access-control wire, words joined with `_`.
    pub fn as_acl(self) -> &'static str {
        match self {
            Self::Ownership => "OWNERSHIP",
            Self::Usage => "USAGE",
            Self::Select => "SELECT",
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::CreateDatabase => "CREATE_DATABASE",
            Self::CreateNamespace => "CREATE_NAMESPACE",
            Self::CreateTable => "CREATE_TABLE",
            Self::CreateMaterializedView => "CREATE_MATERIALIZED_VIEW",
            Self::CreateView => "CREATE_VIEW",
            Self::CreateSecret => "CREATE_SECRET",
            Self::CreateFunction => "CREATE_FUNCTION",
            Self::Operate => "OPERATE",
        }
    }

    /// Reads the SQL spelling in any case, any run of blanks between words;
    /// `CREATE NAMESPACE` is a synonym of `CREATE SCHEMA`.
    ///
    /// # Errors
    /// [`UnknownPrivilege`] for anything else, `ALL` included.
    pub fn from_sql(text: &str) -> Result<Self, UnknownPrivilege> {
        let words: Vec<String> = text.split_ascii_whitespace().map(str::to_ascii_uppercase).collect();
        let spelled = words.join(" ");
        if spelled == "CREATE NAMESPACE" {
            return Ok(Self::CreateNamespace);
        }
        Self::find(|privilege| privilege.as_sql() == spelled)
    }

    /// Reads the spelling of the access-control wire, exactly.
    ///
    /// # Errors
    /// [`UnknownPrivilege`] for anything else, including privileges of newer
    /// servers: whoever stores those must keep the text and not act on it.
    pub fn from_acl(text: &str) -> Result<Self, UnknownPrivilege> {
        Self::find(|privilege| privilege.as_acl() == text)
    }

    fn find(matches: impl Fn(Self) -> bool) -> Result<Self, UnknownPrivilege> {
        Self::ALL.into_iter().find(|privilege| matches(*privilege)).ok_or(UnknownPrivilege)
    }

    /// Returns the wire number, 0 to 13.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Says whether the privilege can be granted on an object of `kind`.
    ///
    /// The matrix is LanceDB's; a materialized view counts as a table, and a
    /// storage integration takes `OWNERSHIP` and `USAGE`. Nobody owns the system.
    pub fn valid_on(self, kind: ObjectKind) -> bool {
        match kind {
            ObjectKind::System => match self {
                Self::Usage | Self::Operate | Self::CreateDatabase => true,
                Self::Ownership
                | Self::Select
                | Self::Insert
                | Self::Update
                | Self::Delete
                | Self::CreateNamespace
                | Self::CreateTable
                | Self::CreateMaterializedView
                | Self::CreateView
                | Self::CreateSecret
                | Self::CreateFunction => false,
            },
            ObjectKind::Database => {
                matches!(self, Self::Ownership | Self::Usage | Self::CreateNamespace)
            }
            ObjectKind::Namespace => match self {
                Self::Ownership
                | Self::Usage
                | Self::CreateNamespace
                | Self::CreateTable
                | Self::CreateMaterializedView
                | Self::CreateView
                | Self::CreateSecret
                | Self::CreateFunction => true,
                Self::Select | Self::Insert | Self::Update | Self::Delete | Self::CreateDatabase | Self::Operate => {
                    false
                }
            },
            ObjectKind::Table | ObjectKind::MaterializedView => {
                matches!(self, Self::Ownership | Self::Select | Self::Insert | Self::Update | Self::Delete)
            }
            ObjectKind::View => matches!(self, Self::Ownership | Self::Select),
            ObjectKind::Secret => matches!(self, Self::Ownership | Self::Usage | Self::Update),
            ObjectKind::Function | ObjectKind::StorageIntegration => {
                matches!(self, Self::Ownership | Self::Usage)
            }
        }
    }
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_sql())
    }
}

impl TryFrom<String> for Privilege {
    type Error = UnknownPrivilege;

    fn try_from(text: String) -> Result<Self, UnknownPrivilege> {
        Self::from_acl(&text)
    }
}

impl From<Privilege> for &'static str {
    fn from(privilege: Privilege) -> Self {
        privilege.as_acl()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_numbers_are_0_to_13_in_the_published_order() {
        let numbered: Vec<(u8, &str)> = Privilege::ALL.iter().map(|p| (p.code(), p.as_acl())).collect();
        let expected = [
            (0, "OWNERSHIP"),
            (1, "USAGE"),
            (2, "SELECT"),
            (3, "INSERT"),
            (4, "UPDATE"),
            (5, "DELETE"),
            (6, "CREATE_DATABASE"),
            (7, "CREATE_NAMESPACE"),
            (8, "CREATE_TABLE"),
            (9, "CREATE_MATERIALIZED_VIEW"),
            (10, "CREATE_VIEW"),
            (11, "CREATE_SECRET"),
            (12, "CREATE_FUNCTION"),
            (13, "OPERATE"),
        ];
        assert_eq!(numbered, expected);
    }

    #[test]
    fn both_spellings_read_back() {
        for privilege in Privilege::ALL {
            assert_eq!(Privilege::from_sql(privilege.as_sql()), Ok(privilege));
            assert_eq!(Privilege::from_acl(privilege.as_acl()), Ok(privilege));
        }
    }

    #[test]
    fn sql_is_lenient_and_the_wire_is_exact() {
        let sql = |text, expected| assert_eq!(Privilege::from_sql(text), expected, "{text:?}");
        sql(" create \t table ", Ok(Privilege::CreateTable));
        sql("CREATE NAMESPACE", Ok(Privilege::CreateNamespace));
        sql("create schema", Ok(Privilege::CreateNamespace));
        sql("CREATE_TABLE", Err(UnknownPrivilege));
        sql("ALL", Err(UnknownPrivilege));
        sql("", Err(UnknownPrivilege));
        let acl = |text, expected| assert_eq!(Privilege::from_acl(text), expected, "{text:?}");
        acl("select", Err(UnknownPrivilege));
        acl("CREATE_SCHEMA", Err(UnknownPrivilege));
        acl("PRIVILEGE14", Err(UnknownPrivilege));
    }

    #[test]
    fn each_kind_of_object_takes_the_documented_privileges() {
        let check = |kind, expected: &str| {
            let valid: Vec<&str> =
                Privilege::ALL.into_iter().filter(|p| p.valid_on(kind)).map(Privilege::as_acl).collect();
            assert_eq!(valid.join(" "), expected, "{kind:?}");
        };
        check(ObjectKind::System, "USAGE CREATE_DATABASE OPERATE");
        check(ObjectKind::Database, "OWNERSHIP USAGE CREATE_NAMESPACE");
        check(
            ObjectKind::Namespace,
            "OWNERSHIP USAGE CREATE_NAMESPACE CREATE_TABLE CREATE_MATERIALIZED_VIEW CREATE_VIEW \
             CREATE_SECRET CREATE_FUNCTION",
        );
        let rows = "OWNERSHIP SELECT INSERT UPDATE DELETE";
        check(ObjectKind::Table, rows);
        check(ObjectKind::MaterializedView, rows);
        check(ObjectKind::View, "OWNERSHIP SELECT");
        check(ObjectKind::Secret, "OWNERSHIP USAGE UPDATE");
        check(ObjectKind::Function, "OWNERSHIP USAGE");
        check(ObjectKind::StorageIntegration, "OWNERSHIP USAGE");
    }
}
