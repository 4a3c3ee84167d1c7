//! Users.

use crate::ast::{AlterUser, CreateUser, Password, Statement, UserOptions};
use crate::cursor::Cursor;
use crate::error::{ParseError, ParseErrorKind};

/// Parses what follows `CREATE USER`.
pub(super) fn create(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let if_not_exists = cursor.if_not_exists();
    let name = cursor.ident()?;
    let options = options(cursor)?;
    Ok(Statement::CreateUser(CreateUser { name, if_not_exists, options }))
}

/// Parses what follows `ALTER USER`.
pub(super) fn alter(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let if_exists = cursor.if_exists();
    let name = cursor.ident()?;
    if cursor.looking_at(&["SET"]) || cursor.looking_at(&["RENAME"]) {
        let hint = "The password, its end and the number of connections can be changed.";
        return Err(cursor.refuse("this form of ALTER USER", hint));
    }
    let start = cursor.clone();
    let options = options(cursor)?;
    if options == UserOptions::default() {
        return Err(start.unexpected());
    }
    Ok(Statement::AlterUser(AlterUser { name, if_exists, options }))
}

fn options(cursor: &mut Cursor<'_>) -> Result<UserOptions, ParseError> {
    cursor.take(&["WITH"]);
    let mut options = UserOptions::default();
    while !cursor.at_end() {
        let start = cursor.clone();
        let again = if cursor.looking_at(&["ENCRYPTED"]) || cursor.looking_at(&["PASSWORD"]) {
            cursor.take(&["ENCRYPTED"]);
            cursor.expect(&["PASSWORD"])?;
            let password = match cursor.take(&["NULL"]) {
                true => None,
                false => Some(Password::new(cursor.string()?)),
            };
            options.password.replace(password).is_some()
        } else if cursor.take(&["VALID", "UNTIL"]) {
            options.valid_until.replace(cursor.string()?).is_some()
        } else if cursor.take(&["CONNECTION", "LIMIT"]) {
            options.connection_limit.replace(connection_limit(cursor)?).is_some()
        } else if cursor.take(&["LOGIN"]) {
            // What every user is.
            false
        } else {
            return Err(role_attribute(cursor));
        };
        if again {
            return Err(ParseError::new(ParseErrorKind::DuplicateOption, "conflicting or redundant options")
                .at(start.position().get()));
        }
    }
    Ok(options)
}

fn connection_limit(cursor: &mut Cursor<'_>) -> Result<i32, ParseError> {
    let position = cursor.position().get();
    let limit: i32 = cursor.integer()?;
    if limit < -1 {
        return Err(ParseError::new(ParseErrorKind::BadOptionValue, format!("invalid connection limit: {limit}"))
            .with_detail("CONNECTION LIMIT takes -1 for no limit, or a number from 0.")
            .at(position));
    }
    Ok(limit)
}

fn role_attribute(cursor: &Cursor<'_>) -> ParseError {
    const ATTRIBUTES: &[&str] = &[
        "SUPERUSER",
        "NOSUPERUSER",
        "CREATEDB",
        "NOCREATEDB",
        "CREATEROLE",
        "NOCREATEROLE",
        "INHERIT",
        "NOINHERIT",
        "NOLOGIN",
        "REPLICATION",
        "NOREPLICATION",
        "BYPASSRLS",
        "NOBYPASSRLS",
        "IN",
        "ROLE",
        "ADMIN",
        "SYSID",
    ];
    match ATTRIBUTES.iter().find(|attribute| cursor.is_keyword(0, attribute)) {
        Some(attribute) => cursor.refuse(
            format!("role attribute {attribute}"),
            "Grant privileges with GRANT … ON …, and roles with GRANT ROLE.",
        ),
        None => cursor.unexpected(),
    }
}
