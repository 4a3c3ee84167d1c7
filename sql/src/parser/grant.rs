//! Privileges and roles.

use sqlparser::tokenizer::Token;

use crate::ast::{Grant, GrantRole, GrantTarget, Grantee, Identity, Privilege, Revoke, RevokeRole, Statement};
use crate::cursor::Cursor;
use crate::error::ParseError;

/// Parses `GRANT …`.
pub(super) fn grant(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.expect(&["GRANT"])?;
    if cursor.take(&["ROLE"]) {
        let roles = cursor.comma_separated(Cursor::ident)?;
        cursor.expect(&["TO"])?;
        let grantees = members(cursor)?;
        ensure_no_option(cursor)?;
        return Ok(Statement::GrantRole(GrantRole { roles, grantees }));
    }
    let privileges = privileges(cursor)?;
    cursor.expect(&["ON"])?;
    let position = cursor.position();
    let target = target(cursor)?;
    cursor.expect(&["TO"])?;
    let grantees = grantees(cursor)?;
    ensure_no_option(cursor)?;
    Ok(Statement::Grant(Grant { privileges, target, grantees, position }))
}

/// Parses `REVOKE …`.
pub(super) fn revoke(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.expect(&["REVOKE"])?;
    if cursor.looking_at(&["GRANT", "OPTION"]) || cursor.looking_at(&["ADMIN", "OPTION"]) {
        return Err(cursor.refuse("REVOKE … OPTION FOR", OPTION_HINT));
    }
    if cursor.take(&["ROLE"]) {
        let roles = cursor.comma_separated(Cursor::ident)?;
        cursor.expect(&["FROM"])?;
        let grantees = members(cursor)?;
        return Ok(Statement::RevokeRole(RevokeRole { roles, grantees }));
    }
    let privileges = privileges(cursor)?;
    cursor.expect(&["ON"])?;
    let position = cursor.position();
    let target = target(cursor)?;
    cursor.expect(&["FROM"])?;
    let grantees = grantees(cursor)?;
    if cursor.looking_at(&["CASCADE"]) {
        let hint = "Nothing depends on a privilege; leave CASCADE out.";
        return Err(cursor.refuse("REVOKE … CASCADE", hint));
    }
    cursor.take(&["RESTRICT"]);
    Ok(Statement::Revoke(Revoke { privileges, target, grantees, position }))
}

const OPTION_HINT: &str = "Only the owner of an object grants on it; GRANT OWNERSHIP hands it over.";

fn ensure_no_option(cursor: &Cursor<'_>) -> Result<(), ParseError> {
    if cursor.looking_at(&["WITH", "GRANT"]) || cursor.looking_at(&["WITH", "HIERARCHY"]) {
        return Err(cursor.refuse("WITH GRANT OPTION", OPTION_HINT));
    }
    if cursor.looking_at(&["WITH"]) {
        return Err(cursor.refuse("WITH ADMIN OPTION", OPTION_HINT));
    }
    Ok(())
}

fn privileges(cursor: &mut Cursor<'_>) -> Result<Vec<Privilege>, ParseError> {
    if cursor.looking_at(&["ALL"]) {
        return Err(cursor.refuse("GRANT ALL", "Name the privileges, or grant OWNERSHIP."));
    }
    cursor.comma_separated(privilege)
}

fn privilege(cursor: &mut Cursor<'_>) -> Result<Privilege, ParseError> {
    if cursor.take(&["CREATE", "NAMESPACE"]) {
        return Ok(Privilege::CreateNamespace);
    }
    let found = Privilege::ALL.into_iter().find(|privilege| {
        let words: Vec<&str> = privilege.as_sql().split(' ').collect();
        cursor.take(&words)
    });
    let known = Privilege::ALL.map(Privilege::as_sql).join(", ");
    found.ok_or_else(|| cursor.unexpected().with_hint(format!("Privileges are {known}.")))
}

/// Takes what a privilege is granted on.
pub(super) fn target(cursor: &mut Cursor<'_>) -> Result<GrantTarget, ParseError> {
    if cursor.looking_at(&["ALL"]) {
        let hint = "Name each object, or grant on its schema.";
        return Err(cursor.refuse("GRANT ON ALL", hint));
    }
    let kinds =
        ["SYSTEM", "DATABASE", "SCHEMA", "NAMESPACE", "TABLE", "VIEW", "MATERIALIZED", "SECRET", "STORAGE", "FUNCTION"];
    Ok(match cursor.take_one(&kinds) {
        Some("SYSTEM") => GrantTarget::System,
        Some("DATABASE") => GrantTarget::Database(cursor.ident()?),
        Some("SCHEMA") => GrantTarget::Schema(cursor.schema_name()?),
        Some("NAMESPACE") => GrantTarget::Schema(super::create::namespace_path(cursor)?),
        Some("TABLE") => GrantTarget::Table(cursor.object_name()?),
        Some("VIEW") => GrantTarget::View(cursor.object_name()?),
        Some("MATERIALIZED") => {
            cursor.expect(&["VIEW"])?;
            GrantTarget::MaterializedView(cursor.object_name()?)
        }
        Some("SECRET") => GrantTarget::Secret(cursor.object_name()?),
        Some("STORAGE") => {
            cursor.expect(&["INTEGRATION"])?;
            GrantTarget::StorageIntegration(cursor.ident()?)
        }
        Some(_) => GrantTarget::Function(cursor.object_name()?),
        None => {
            return Err(cursor.unexpected().with_hint("Say what the name is, for example TABLE or SCHEMA."));
        }
    })
}

/// Which kind of grantee a name without a keyword is.
#[derive(Debug, Clone, Copy)]
enum GranteeKind {
    Role,
    User,
    Group,
}

fn grantees(cursor: &mut Cursor<'_>) -> Result<Vec<Grantee>, ParseError> {
    let mut kind = None;
    cursor.comma_separated(|cursor| next_grantee(cursor, &mut kind))
}

/// Takes users and groups; a role is not a member of a role.
fn members(cursor: &mut Cursor<'_>) -> Result<Vec<Grantee>, ParseError> {
    let start = cursor.clone();
    let grantees = grantees(cursor)?;
    if grantees.iter().any(|grantee| matches!(grantee, Grantee::Role(_))) {
        let hint = "Grant the role to each user or group.";
        return Err(start.refuse("a role as a member of a role", hint));
    }
    Ok(grantees)
}

/// Takes one grantee with its keyword.
pub(super) fn grantee(cursor: &mut Cursor<'_>) -> Result<Grantee, ParseError> {
    next_grantee(cursor, &mut None)
}

fn next_grantee(cursor: &mut Cursor<'_>, kind: &mut Option<GranteeKind>) -> Result<Grantee, ParseError> {
    if cursor.looking_at(&["PUBLIC"]) {
        return Err(cursor.refuse("PUBLIC as a grantee", "Grant to a role that all users have."));
    }
    // A keyword is one only before a name; otherwise it is the name.
    let named = matches!(cursor.peek_nth(1), Some(Token::Word(_)));
    if named {
        match cursor.take_one(&["ROLE", "USER", "GROUP"]) {
            Some("ROLE") => *kind = Some(GranteeKind::Role),
            Some("USER") => *kind = Some(GranteeKind::User),
            Some(_) => *kind = Some(GranteeKind::Group),
            None => {}
        }
    }
    let Some(kind) = *kind else {
        let hint = "The first grantee needs its kind: ROLE, USER or GROUP.";
        return Err(cursor.unexpected().with_hint(hint));
    };
    Ok(match kind {
        GranteeKind::Role => Grantee::Role(cursor.ident()?),
        GranteeKind::User => Grantee::User(identity(cursor)?),
        GranteeKind::Group => Grantee::Group(identity(cursor)?),
    })
}

fn identity(cursor: &mut Cursor<'_>) -> Result<Identity, ParseError> {
    if cursor.looking_at(&["ID"]) && cursor.is_string(1) {
        cursor.advance();
        return cursor.string().map(Identity::Id);
    }
    cursor.ident().map(Identity::Name)
}
