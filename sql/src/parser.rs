//! From tokens to statements: which family reads which first words.

mod alter;
mod create;
mod drop;
mod function;
mod grant;
mod job;
mod merge;
mod options;
mod query;
mod refresh;
mod session;
mod show;
mod user;
mod with;

use crate::ast::Statement;
use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::limits::Limits;
use crate::{Parsed, lexer, sensitive};

/// Splits a script and parses its statements.
pub(crate) fn script(sql: &str, limits: &Limits) -> Result<Vec<Parsed>, ParseError> {
    limits.ensure_text(sql)?;
    let lexemes = lexer::tokenize(sql)?;
    let mut parsed = Vec::new();
    for (tokens, terminator) in lexer::split(&lexemes) {
        limits.ensure_statement(tokens)?;
        let mut cursor = Cursor::new(sql, tokens, terminator);
        let (start, text) = (cursor.start(), cursor.rest().to_owned());
        let statement = whole_statement(&mut cursor).map_err(|error| sensitive::in_statement(tokens, error))?;
        parsed.push(Parsed { statement, start, text });
    }
    Ok(parsed)
}

/// Parses one statement and refuses what is left over.
fn whole_statement(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let statement = statement(cursor)?;
    cursor.expect_end()?;
    Ok(statement)
}

/// Parses one statement; what is left over is the caller's to refuse.
fn statement(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let Some(first) = cursor.keyword_upper(0) else {
        return query::query_statement(cursor);
    };
    match first.as_str() {
        "SELECT" | "WITH" | "VALUES" | "TABLE" => query::query_statement(cursor),
        "INSERT" | "UPDATE" | "DELETE" | "MERGE" | "TRUNCATE" => query::row_change(cursor),
        "EXPLAIN" => query::explain(cursor),
        "COPY" => query::copy(cursor),
        "CREATE" => create::create(cursor),
        "ATTACH" => create::attach(cursor),
        "ALTER" => alter::alter(cursor),
        "DROP" => drop::drop(cursor),
        "COMMENT" => alter::comment(cursor),
        "REFRESH" => refresh::refresh(cursor),
        "PAUSE" | "RESUME" | "CANCEL" | "WAIT" => job::control(cursor),
        "DESCRIBE" | "DESC" => show::describe(cursor),
        "SHOW" => show::show(cursor),
        "GRANT" => grant::grant(cursor),
        "REVOKE" => grant::revoke(cursor),
        _ => session::session(cursor, &first),
    }
}
