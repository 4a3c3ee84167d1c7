//! Cursors.

use sqlparser::tokenizer::Token;

use crate::ast::{CloseCursor, DeclareCursor, Fetch, FetchDirection, Move, Statement};
use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::parser::query;

/// Parses `DECLARE … CURSOR`.
pub(super) fn declare(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.expect(&["DECLARE"])?;
    let name = cursor.ident()?;
    let (mut binary, mut scroll) = (false, None);
    loop {
        if cursor.take(&["BINARY"]) {
            binary = true;
        } else if cursor.take(&["NO", "SCROLL"]) {
            scroll = Some(false);
        } else if cursor.take(&["SCROLL"]) {
            scroll = Some(true);
        } else if cursor.take_one(&["INSENSITIVE", "ASENSITIVE"]).is_none() {
            break;
        }
    }
    cursor.expect(&["CURSOR"])?;
    let hold = cursor.take(&["WITH", "HOLD"]);
    if !hold {
        cursor.take(&["WITHOUT", "HOLD"]);
    }
    cursor.expect(&["FOR"])?;
    let (query, query_text) = query::query(cursor)?;
    Ok(Statement::DeclareCursor(DeclareCursor { name, binary, scroll, hold, query, query_text }))
}

/// Parses `FETCH`, `MOVE` and `CLOSE`.
pub(super) fn move_or_close(cursor: &mut Cursor<'_>, first: &str) -> Result<Statement, ParseError> {
    cursor.advance();
    if first == "CLOSE" {
        let name = if cursor.take(&["ALL"]) { None } else { Some(cursor.ident()?) };
        return Ok(Statement::CloseCursor(CloseCursor { cursor: name }));
    }
    let direction = direction(cursor)?;
    cursor.take_one(&["FROM", "IN"]);
    let name = cursor.ident()?;
    Ok(match first {
        "FETCH" => Statement::Fetch(Fetch { direction, cursor: name }),
        _ => Statement::Move(Move { direction, cursor: name }),
    })
}

fn direction(cursor: &mut Cursor<'_>) -> Result<FetchDirection, ParseError> {
    // A direction's word is a cursor's name when nothing follows it.
    if cursor.peek_nth(1).is_none() {
        return Ok(FetchDirection::Forward(1));
    }
    let words = &["NEXT", "PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE", "ALL"];
    Ok(match cursor.take_one(words) {
        Some("NEXT") => FetchDirection::Forward(1),
        Some("PRIOR") => FetchDirection::Backward(1),
        Some("FIRST") => FetchDirection::Absolute(1),
        Some("LAST") => FetchDirection::Absolute(-1),
        Some("ABSOLUTE") => FetchDirection::Absolute(cursor.integer()?),
        Some("RELATIVE") => FetchDirection::Relative(cursor.integer()?),
        Some(_) => FetchDirection::ForwardAll,
        None if cursor.take(&["FORWARD"]) => match count(cursor)? {
            Some(rows) => steps(rows),
            None if cursor.take(&["ALL"]) => FetchDirection::ForwardAll,
            None => FetchDirection::Forward(1),
        },
        None if cursor.take(&["BACKWARD"]) => match count(cursor)? {
            // Zero stays where it is in either direction.
            Some(0) => FetchDirection::Forward(0),
            Some(rows) => steps(rows.saturating_neg()),
            None if cursor.take(&["ALL"]) => FetchDirection::BackwardAll,
            None => FetchDirection::Backward(1),
        },
        None => count(cursor)?.map_or(FetchDirection::Forward(1), steps),
    })
}

fn count(cursor: &mut Cursor<'_>) -> Result<Option<i64>, ParseError> {
    match cursor.peek() {
        Some(Token::Number(..) | Token::Minus | Token::Plus) => cursor.integer().map(Some),
        _ => Ok(None),
    }
}

fn steps(rows: i64) -> FetchDirection {
    if rows < 0 { FetchDirection::Backward(rows.unsigned_abs()) } else { FetchDirection::Forward(rows.unsigned_abs()) }
}
