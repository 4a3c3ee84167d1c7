//! Transaction blocks.

use sqlparser::tokenizer::Token;

use crate::ast::{
    Begin, Commit, IsolationLevel, Release, Rollback, RollbackTo, Savepoint, Statement, TransactionModes,
};
use crate::cursor::Cursor;
use crate::error::ParseError;

/// Parses the statements that open, end and move within a block.
pub(super) fn transaction(cursor: &mut Cursor<'_>, first: &str) -> Result<Statement, ParseError> {
    let start = cursor.clone();
    cursor.advance();
    match first {
        "BEGIN" => {
            block_word(cursor);
            Ok(Statement::Begin(Begin { start: false, modes: modes(cursor)? }))
        }
        "START" => {
            cursor.expect(&["TRANSACTION"])?;
            Ok(Statement::Begin(Begin { start: true, modes: modes(cursor)? }))
        }
        "SAVEPOINT" => Ok(Statement::Savepoint(Savepoint { name: cursor.ident()? })),
        "RELEASE" => Ok(Statement::Release(Release { name: savepoint(cursor)? })),
        _ if cursor.looking_at(&["PREPARED"]) => {
            Err(start.refuse(format!("{first} PREPARED"), "There are no prepared transactions."))
        }
        "ROLLBACK" => {
            block_word(cursor);
            if cursor.take(&["TO"]) {
                return Ok(Statement::RollbackTo(RollbackTo { name: savepoint(cursor)? }));
            }
            Ok(Statement::Rollback(Rollback { chain: chain(cursor)? }))
        }
        "ABORT" => {
            block_word(cursor);
            Ok(Statement::Rollback(Rollback { chain: chain(cursor)? }))
        }
        _ => {
            block_word(cursor);
            Ok(Statement::Commit(Commit { chain: chain(cursor)? }))
        }
    }
}

fn block_word(cursor: &mut Cursor<'_>) {
    cursor.take_one(&["WORK", "TRANSACTION"]);
}

fn savepoint(cursor: &mut Cursor<'_>) -> Result<crate::Ident, ParseError> {
    if cursor.looking_at(&["SAVEPOINT"]) && matches!(cursor.peek_nth(1), Some(Token::Word(_))) {
        cursor.advance();
    }
    cursor.ident()
}

fn chain(cursor: &mut Cursor<'_>) -> Result<bool, ParseError> {
    if !cursor.take(&["AND"]) {
        return Ok(false);
    }
    let chain = !cursor.take(&["NO"]);
    cursor.expect(&["CHAIN"])?;
    Ok(chain)
}

/// Takes modes until something else comes; commas between them are optional.
pub(super) fn modes(cursor: &mut Cursor<'_>) -> Result<TransactionModes, ParseError> {
    let mut modes = TransactionModes::default();
    let mut comma = false;
    loop {
        if cursor.take(&["ISOLATION"]) {
            cursor.expect(&["LEVEL"])?;
            modes.isolation = Some(isolation(cursor)?);
        } else if cursor.take(&["READ", "ONLY"]) {
            modes.read_only = Some(true);
        } else if cursor.take(&["READ", "WRITE"]) {
            modes.read_only = Some(false);
        } else if cursor.take(&["NOT", "DEFERRABLE"]) {
            modes.deferrable = Some(false);
        } else if cursor.take(&["DEFERRABLE"]) {
            modes.deferrable = Some(true);
        } else if comma {
            return Err(cursor.unexpected());
        } else {
            return Ok(modes);
        }
        comma = cursor.take_token(&Token::Comma);
    }
}

fn isolation(cursor: &mut Cursor<'_>) -> Result<IsolationLevel, ParseError> {
    if cursor.take(&["SERIALIZABLE"]) {
        Ok(IsolationLevel::Serializable)
    } else if cursor.take(&["REPEATABLE", "READ"]) {
        Ok(IsolationLevel::RepeatableRead)
    } else if cursor.take(&["READ", "COMMITTED"]) {
        Ok(IsolationLevel::ReadCommitted)
    } else if cursor.take(&["READ", "UNCOMMITTED"]) {
        Ok(IsolationLevel::ReadUncommitted)
    } else {
        Err(cursor.unexpected())
    }
}
