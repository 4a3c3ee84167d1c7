//! Lists of options.

use sqlparser::tokenizer::Token;

use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::options::{OptionValue, SqlOption};

/// Takes `WITH (<name> = <value>, …)` if it stands next; an empty list without.
pub(super) fn with(cursor: &mut Cursor<'_>) -> Result<Vec<SqlOption>, ParseError> {
    if cursor.looking_at(&["WITH"]) && cursor.peek_nth(1) == Some(&Token::LParen) {
        cursor.advance();
        return list(cursor);
    }
    Ok(Vec::new())
}

/// Takes `(<name> = <value>, …)`.
pub(super) fn list(cursor: &mut Cursor<'_>) -> Result<Vec<SqlOption>, ParseError> {
    cursor.parenthesized(option)
}

/// Takes `<name> = <value>`.
pub(super) fn option(cursor: &mut Cursor<'_>) -> Result<SqlOption, ParseError> {
    let position = cursor.position();
    let name = cursor.any_word()?.to_ascii_lowercase();
    cursor.expect_token(&Token::Eq)?;
    Ok(SqlOption { name, value: value(cursor)?, position })
}

fn value(cursor: &mut Cursor<'_>) -> Result<OptionValue, ParseError> {
    if cursor.is_string(0) {
        return cursor.string().map(OptionValue::String);
    }
    match cursor.peek() {
        Some(Token::Number(..) | Token::Minus | Token::Plus) => cursor.number().map(OptionValue::Number),
        Some(Token::Word(word)) if word.quote_style.is_some() => cursor.any_word().map(OptionValue::Word),
        Some(Token::Word(_)) => Ok(match cursor.any_word()?.as_str() {
            "true" => OptionValue::Boolean(true),
            "false" => OptionValue::Boolean(false),
            word => OptionValue::Word(word.to_owned()),
        }),
        _ => Err(cursor.unexpected()),
    }
}
