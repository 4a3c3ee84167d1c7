//! Settings, transactions, prepared statements, cursors and channels.

mod cursors;
mod settings;
mod transactions;

use crate::ast::{Listen, Statement, Unlisten, Vacuum};
use crate::cursor::Cursor;
use crate::error::{ParseError, ParseErrorKind};

pub(super) use settings::setting_name;

use sqlparser::tokenizer::Token;

/// Parses what starts with `first` and no other family knows.
pub(super) fn session(cursor: &mut Cursor<'_>, first: &str) -> Result<Statement, ParseError> {
    match first {
        "SET" => settings::set(cursor),
        "RESET" => settings::reset(cursor),
        "DISCARD" => settings::discard(cursor),
        "PREPARE" => settings::prepare(cursor),
        "EXECUTE" => settings::execute(cursor),
        "DEALLOCATE" => settings::deallocate(cursor),
        "BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "ABORT" | "SAVEPOINT" | "RELEASE" => {
            transactions::transaction(cursor, first)
        }
        "DECLARE" => cursors::declare(cursor),
        "FETCH" | "MOVE" | "CLOSE" => cursors::move_or_close(cursor, first),
        "LISTEN" | "UNLISTEN" => listen(cursor),
        "VACUUM" | "ANALYZE" | "ANALYSE" => vacuum(cursor),
        "NOTIFY" => Err(cursor.refuse("NOTIFY", "LISTEN lancegate_jobs tells of changes of jobs.")),
        "LOCK" => Err(cursor.refuse("LOCK", "Writers never block readers; leave it out.")),
        "CALL" | "DO" => Err(cursor.refuse(first, "Write the statements themselves.")),
        "CHECKPOINT" | "CLUSTER" | "REINDEX" | "LOAD" | "REASSIGN" | "SECURITY" | "IMPORT" => {
            Err(cursor.refuse(first, "The server does this work by itself where it applies."))
        }
        _ => Err(cursor.unexpected()),
    }
}

fn listen(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    if cursor.take(&["LISTEN"]) {
        return Ok(Statement::Listen(Listen { channel: cursor.ident()? }));
    }
    cursor.expect(&["UNLISTEN"])?;
    let channel = if cursor.take_token(&Token::Mul) { None } else { Some(cursor.ident()?) };
    Ok(Statement::Unlisten(Unlisten { channel }))
}

fn vacuum(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let vacuum = cursor.take(&["VACUUM"]);
    if !vacuum {
        cursor.advance();
    }
    let mut options = Vacuum { vacuum, analyze: !vacuum, full: false, verbose: false, tables: Vec::new() };
    if cursor.peek() == Some(&Token::LParen) {
        cursor.parenthesized(|cursor| vacuum_option(cursor, &mut options))?;
    }
    while let Some(word) = cursor.take_one(&["FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE"]) {
        options.full |= word == "FULL";
        options.verbose |= word == "VERBOSE";
        options.analyze |= word.starts_with("ANALY");
    }
    if !cursor.at_end() {
        options.tables = cursor.comma_separated(|cursor| {
            let table = cursor.object_name()?;
            if cursor.peek() == Some(&Token::LParen) {
                cursor.parenthesized(Cursor::ident)?;
            }
            Ok(table)
        })?;
    }
    Ok(Statement::Vacuum(options))
}

fn vacuum_option(cursor: &mut Cursor<'_>, options: &mut Vacuum) -> Result<(), ParseError> {
    let position = cursor.position();
    let name = cursor.any_word()?;
    let mut set = true;
    if !matches!(cursor.peek(), Some(Token::Comma | Token::RParen)) {
        let value = if cursor.is_string(0) { cursor.string()? } else { word_or_number(cursor)? };
        set = !matches!(value.to_ascii_lowercase().as_str(), "false" | "off" | "0");
    }
    match name.as_str() {
        "full" => options.full = set,
        "verbose" => options.verbose = set,
        "analyze" | "analyse" if options.vacuum => options.analyze = set,
        // What they ask for is so, or means nothing to this storage.
        "skip_locked" | "buffer_usage_limit" => {}
        "freeze"
        | "disable_page_skipping"
        | "index_cleanup"
        | "process_main"
        | "process_toast"
        | "truncate"
        | "parallel"
        | "skip_database_stats"
        | "only_database_stats"
            if options.vacuum => {}
        _ => {
            let command = if options.vacuum { "VACUUM" } else { "ANALYZE" };
            let message = format!("unrecognized {command} option \"{name}\"");
            return Err(ParseError::new(ParseErrorKind::UnknownOption, message).at(position.get()));
        }
    }
    Ok(())
}

fn word_or_number(cursor: &mut Cursor<'_>) -> Result<String, ParseError> {
    match cursor.peek() {
        Some(Token::Number(..)) => cursor.number(),
        _ => cursor.any_word(),
    }
}
