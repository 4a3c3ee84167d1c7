//! `SET` and its relatives, and prepared statements.

use sqlparser::tokenizer::Token;

use super::transactions::modes;
use crate::ast::{
    Deallocate, Discard, Execute, Prepare, Reset, Set, SetItem, SetScope, SetTransaction, SetValue, Statement,
};
use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::parser::query;

/// Parses `SET …`.
pub(super) fn set(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.expect(&["SET"])?;
    if cursor.take(&["TRANSACTION"]) {
        return set_transaction(cursor, false);
    }
    if cursor.take(&["SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"]) {
        return set_transaction(cursor, true);
    }
    if cursor.looking_at(&["CONSTRAINTS"]) {
        let hint = "There are no deferrable constraints; leave it out.";
        return Err(cursor.refuse("SET CONSTRAINTS", hint));
    }
    let scope = match cursor.take_one(&["SESSION", "LOCAL"]) {
        Some("LOCAL") => SetScope::Local,
        _ => SetScope::Session,
    };
    if cursor.take(&["TIME", "ZONE"]) {
        return time_zone(cursor, scope);
    }
    if cursor.take(&["NAMES"]) {
        let value = if cursor.at_end() { SetValue::Default } else { values(cursor)? };
        return Ok(Statement::Set(Set { scope, name: "client_encoding".to_owned(), value }));
    }
    if cursor.take(&["SESSION", "AUTHORIZATION"]) || cursor.take(&["AUTHORIZATION"]) {
        let value = values(cursor)?;
        return Ok(Statement::Set(Set { scope, name: "session_authorization".to_owned(), value }));
    }
    if cursor.looking_at(&["ROLE"]) && !matches!(cursor.peek_nth(1), Some(Token::Eq)) && !cursor.is_keyword(1, "TO") {
        cursor.advance();
        let value = values(cursor)?;
        return Ok(Statement::Set(Set { scope, name: "role".to_owned(), value }));
    }
    let name = cursor.dotted()?.join(".").to_ascii_lowercase();
    if !cursor.take(&["TO"]) {
        cursor.expect_token(&Token::Eq)?;
    }
    Ok(Statement::Set(Set { scope, name, value: values(cursor)? }))
}

fn set_transaction(cursor: &mut Cursor<'_>, session: bool) -> Result<Statement, ParseError> {
    if cursor.looking_at(&["SNAPSHOT"]) {
        let hint = "Read an earlier version with FOR SYSTEM_TIME AS OF.";
        return Err(cursor.refuse("SET TRANSACTION SNAPSHOT", hint));
    }
    let modes = modes(cursor)?;
    if modes.is_empty() {
        return Err(cursor.unexpected());
    }
    Ok(Statement::SetTransaction(SetTransaction { session, modes }))
}

/// Takes the value of `SET TIME ZONE`, which has words of its own.
fn time_zone(cursor: &mut Cursor<'_>, scope: SetScope) -> Result<Statement, ParseError> {
    let value = if cursor.take(&["LOCAL"]) {
        SetValue::Default
    } else if cursor.take(&["INTERVAL"]) {
        let offset = cursor.string()?;
        // The fields after an interval only say how precise it is.
        if cursor.take(&["HOUR"]) && cursor.take(&["TO"]) {
            cursor.expect(&["MINUTE"])?;
        }
        SetValue::Items(vec![SetItem::String(offset)])
    } else {
        values(cursor)?
    };
    Ok(Statement::Set(Set { scope, name: "timezone".to_owned(), value }))
}

fn values(cursor: &mut Cursor<'_>) -> Result<SetValue, ParseError> {
    if cursor.take(&["DEFAULT"]) {
        return Ok(SetValue::Default);
    }
    cursor.comma_separated(item).map(SetValue::Items)
}

fn item(cursor: &mut Cursor<'_>) -> Result<SetItem, ParseError> {
    if cursor.is_string(0) {
        return cursor.string().map(SetItem::String);
    }
    match cursor.peek() {
        Some(Token::Number(..) | Token::Minus | Token::Plus) => cursor.number().map(SetItem::Number),
        // ON, TRUE and NONE are values though they are reserved words.
        _ => cursor.any_word().map(SetItem::Word),
    }
}

/// Takes the name of a setting for `SHOW` and `RESET`.
pub(in crate::parser) fn setting_name(cursor: &mut Cursor<'_>) -> Result<String, ParseError> {
    if cursor.take(&["TIME", "ZONE"]) {
        return Ok("timezone".to_owned());
    }
    if cursor.take(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
        return Ok("transaction_isolation".to_owned());
    }
    if cursor.take(&["SESSION", "AUTHORIZATION"]) {
        return Ok("session_authorization".to_owned());
    }
    Ok(cursor.dotted()?.join(".").to_ascii_lowercase())
}

/// Parses `RESET …`.
pub(super) fn reset(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.expect(&["RESET"])?;
    if cursor.take(&["ALL"]) {
        return Ok(Statement::Reset(Reset::All));
    }
    Ok(Statement::Reset(Reset::Setting(setting_name(cursor)?)))
}

/// Parses `DISCARD …`.
pub(super) fn discard(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.expect(&["DISCARD"])?;
    let what = match cursor.take_one(&["ALL", "PLANS", "SEQUENCES", "TEMP", "TEMPORARY"]) {
        Some("ALL") => Discard::All,
        Some("PLANS") => Discard::Plans,
        Some("SEQUENCES") => Discard::Sequences,
        Some(_) => Discard::Temp,
        None => return Err(cursor.unexpected()),
    };
    Ok(Statement::Discard(what))
}

/// Parses `PREPARE … AS …`.
pub(super) fn prepare(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let start = cursor.clone();
    cursor.expect(&["PREPARE"])?;
    if cursor.looking_at(&["TRANSACTION"]) {
        return Err(start.refuse("PREPARE TRANSACTION", "Commit the block instead."));
    }
    let name = cursor.ident()?;
    let mut types = Vec::new();
    if cursor.take_token(&Token::LParen) {
        types = cursor.native(|parser| parser.parse_comma_separated(|p| p.parse_data_type()))?;
        cursor.expect_token(&Token::RParen)?;
    }
    cursor.expect(&["AS"])?;
    let mark = cursor.mark();
    // Asked before, because PREPARE within PREPARE would recurse.
    if !query::starts_query_or_change(cursor) {
        return Err(cursor.unexpected());
    }
    let statement = crate::parser::statement(cursor)?;
    let text = cursor.text_since(mark).to_owned();
    Ok(Statement::Prepare(Prepare { name, types, statement: Box::new(statement), text }))
}

/// Parses `EXECUTE …`.
pub(super) fn execute(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.expect(&["EXECUTE"])?;
    let name = cursor.ident()?;
    let mut arguments = Vec::new();
    if cursor.take_token(&Token::LParen) {
        arguments = cursor.native(|parser| parser.parse_comma_separated(|p| p.parse_expr()))?;
        cursor.expect_token(&Token::RParen)?;
    }
    Ok(Statement::Execute(Execute { name, arguments }))
}

/// Parses `DEALLOCATE …`.
pub(super) fn deallocate(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.expect(&["DEALLOCATE"])?;
    if cursor.looking_at(&["PREPARE"]) && cursor.peek_nth(1).is_some() {
        cursor.advance();
    }
    let name = if cursor.take(&["ALL"]) { None } else { Some(cursor.ident()?) };
    Ok(Statement::Deallocate(Deallocate { name }))
}
