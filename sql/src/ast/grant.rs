//! Privileges and roles.
//!
//! ```sql
//! GRANT  <privilege>, … ON <target> TO   <grantee>, …
//! REVOKE <privilege>, … ON <target> FROM <grantee>, …
//! GRANT ROLE <role>, … TO <grantee>, …
//! REVOKE ROLE <role>, … FROM <grantee>, …
//! SHOW GRANTS [FOR <grantee> | ON <target>]
//! SHOW ROLES
//!
//! <target>  ::= SYSTEM | DATABASE <name> | SCHEMA <path> | NAMESPACE <component> [IN <schema>]
//!             | TABLE <name> | VIEW <name> | MATERIALIZED VIEW <name> | SECRET <name>
//!             | STORAGE INTEGRATION <name> | FUNCTION <name>
//! <grantee> ::= [ROLE] <role> | [USER] {<name> | ID '<id>'} | [GROUP] {<name> | ID '<id>'}
//! ```
//!
//! The first grantee names its kind; the ones after it inherit the kind before.
//!
//! Example: `GRANT SELECT, UPDATE ON TABLE docs TO USER ada, grace`

use std::fmt;

pub use lancegate_auth::Privilege;

use super::expr::Position;
use crate::name::{Ident, Literal, ObjectName, SchemaName, write_separated};

/// `GRANT … ON …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// What is allowed; at least one.
    pub privileges: Vec<Privilege>,
    /// On what.
    pub target: GrantTarget,
    /// To whom; at least one.
    pub grantees: Vec<Grantee>,
    /// Where the target's name stands.
    pub position: Position,
}

/// `REVOKE … ON …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoke {
    /// What is no longer allowed; at least one.
    pub privileges: Vec<Privilege>,
    /// On what.
    pub target: GrantTarget,
    /// From whom; at least one.
    pub grantees: Vec<Grantee>,
    /// Where the target's name stands.
    pub position: Position,
}

/// `GRANT ROLE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRole {
    /// The roles; at least one.
    pub roles: Vec<Ident>,
    /// Users and groups; at least one.
    pub grantees: Vec<Grantee>,
}

/// `REVOKE ROLE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokeRole {
    /// The roles; at least one.
    pub roles: Vec<Ident>,
    /// Users and groups; at least one.
    pub grantees: Vec<Grantee>,
}

/// `SHOW GRANTS`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShowGrants {
    /// Everything that the caller may see.
    All,
    /// What one grantee may do.
    For(Grantee),
    /// Who may do something on one object.
    On(GrantTarget),
}

/// `SHOW ROLES`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShowRoles;

/// What a privilege is granted on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GrantTarget {
    /// The deployment.
    System,
    /// A database.
    Database(Ident),
    /// A namespace; both the `SCHEMA` and the `NAMESPACE` form.
    Schema(SchemaName),
    /// A table.
    Table(ObjectName),
    /// A view.
    View(ObjectName),
    /// A materialized view; a table for authorization.
    MaterializedView(ObjectName),
    /// A secret.
    Secret(ObjectName),
    /// A storage integration.
    StorageIntegration(Ident),
    /// A Function.
    Function(ObjectName),
}

/// Who a privilege or role is granted to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Grantee {
    /// A role.
    Role(Ident),
    /// A user.
    User(Identity),
    /// A group.
    Group(Identity),
}

/// How a user or group is named.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Identity {
    /// By name.
    Name(Ident),
    /// By the identity provider's id.
    Id(String),
}

impl fmt::Display for GrantTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("SYSTEM"),
            Self::Database(name) => write!(f, "DATABASE {name}"),
            Self::Schema(name) => write!(f, "SCHEMA {name}"),
            Self::Table(name) => write!(f, "TABLE {name}"),
            Self::View(name) => write!(f, "VIEW {name}"),
            Self::MaterializedView(name) => write!(f, "MATERIALIZED VIEW {name}"),
            Self::Secret(name) => write!(f, "SECRET {name}"),
            Self::StorageIntegration(name) => write!(f, "STORAGE INTEGRATION {name}"),
            Self::Function(name) => write!(f, "FUNCTION {name}"),
        }
    }
}

impl fmt::Display for Grantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role(name) => write!(f, "ROLE {name}"),
            Self::User(identity) => write!(f, "USER {identity}"),
            Self::Group(identity) => write!(f, "GROUP {identity}"),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Id(id) => write!(f, "ID {}", Literal(id)),
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GRANT ")?;
        write_separated(f, &self.privileges, ", ")?;
        write!(f, " ON {} TO ", self.target)?;
        write_separated(f, &self.grantees, ", ")
    }
}

impl fmt::Display for Revoke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("REVOKE ")?;
        write_separated(f, &self.privileges, ", ")?;
        write!(f, " ON {} FROM ", self.target)?;
        write_separated(f, &self.grantees, ", ")
    }
}

impl fmt::Display for GrantRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GRANT ROLE ")?;
        write_separated(f, &self.roles, ", ")?;
        f.write_str(" TO ")?;
        write_separated(f, &self.grantees, ", ")
    }
}

impl fmt::Display for RevokeRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("REVOKE ROLE ")?;
        write_separated(f, &self.roles, ", ")?;
        f.write_str(" FROM ")?;
        write_separated(f, &self.grantees, ", ")
    }
}

impl fmt::Display for ShowGrants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SHOW GRANTS")?;
        match self {
            Self::All => Ok(()),
            Self::For(grantee) => write!(f, " FOR {grantee}"),
            Self::On(target) => write!(f, " ON {target}"),
        }
    }
}

impl fmt::Display for ShowRoles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SHOW ROLES")
    }
}
