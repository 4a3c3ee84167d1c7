//! Queries, row changes, their plans, and bulk transfer.

use std::ops::ControlFlow;

use sqlparser::ast as native;
use sqlparser::ast::{SetExpr, Visit, Visitor};
use sqlparser::tokenizer::Token;

use crate::ast::{Copy, Delete, Explain, ExplainFormat, ExplainOptions, Insert, Statement, Truncate, Update};
use crate::cursor::Cursor;
use crate::error::{ParseError, ParseErrorKind};
use crate::parser::with::{self, Refused};

const CHANGE_IN_QUERY_HINT: &str = "Run the change as a statement of its own.";

/// Parses `SELECT`, `WITH`, `VALUES`, `TABLE` and what stands in parentheses.
pub(super) fn query_statement(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let start = cursor.clone();
    if !starts_query(cursor) {
        return Err(cursor.unexpected());
    }
    let query = cursor.native(|parser| parser.parse_query())?;
    let (with, body) = match *query {
        native::Query { with: Some(with), body, .. } if is_change(&body) => (with, body),
        query => {
            ensure_reads_only(&query, &start)?;
            return Ok(Statement::Query(Box::new(native::Statement::Query(Box::new(query)))));
        }
    };
    change_with_ctes(with, *body, &start)
}

/// Parses a query and nothing else, with its source.
pub(super) fn query(cursor: &mut Cursor<'_>) -> Result<(Box<native::Query>, String), ParseError> {
    let (start, mark) = (cursor.clone(), cursor.mark());
    if !starts_query(cursor) {
        return Err(cursor.unexpected());
    }
    let query = cursor.native(|parser| parser.parse_query())?;
    ensure_reads_only(&query, &start)?;
    Ok((query, cursor.text_since(mark).to_owned()))
}

fn starts_query(cursor: &Cursor<'_>) -> bool {
    cursor.peek() == Some(&Token::LParen)
        || ["SELECT", "WITH", "VALUES", "TABLE"].iter().any(|word| cursor.is_keyword(0, word))
}

/// Returns whether a query or a change of rows stands next.
pub(super) fn starts_query_or_change(cursor: &Cursor<'_>) -> bool {
    let changes = ["INSERT", "UPDATE", "DELETE", "MERGE"];
    starts_query(cursor) || changes.iter().any(|word| cursor.is_keyword(0, word))
}

/// Parses `INSERT`, `UPDATE`, `DELETE`, `MERGE` and `TRUNCATE`.
pub(super) fn row_change(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    if cursor.looking_at(&["MERGE"]) {
        return super::merge::merge(cursor);
    }
    let start = cursor.clone();
    let statement = cursor.native(|parser| parser.parse_statement())?;
    ensure_reads_only(&statement, &start)?;
    wrap_change(statement).ok_or_else(|| start.unexpected())
}

fn wrap_change(statement: native::Statement) -> Option<Statement> {
    Some(match statement {
        native::Statement::Insert(insert) => Statement::Insert(Insert(Box::new(insert))),
        native::Statement::Update(update) => Statement::Update(Update(Box::new(update))),
        native::Statement::Delete(delete) => Statement::Delete(Delete(Box::new(delete))),
        native::Statement::Truncate(truncate) => Statement::Truncate(Truncate(Box::new(truncate))),
        _ => return None,
    })
}

fn is_change(body: &SetExpr) -> bool {
    matches!(body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
}

/// Puts the queries of `WITH` into the change that follows it.
fn change_with_ctes(with: native::With, body: SetExpr, start: &Cursor<'_>) -> Result<Statement, ParseError> {
    ensure_reads_only(&with, start)?;
    let mut statement = match body {
        SetExpr::Insert(mut statement) => {
            // Its query has a place for them.
            if let native::Statement::Insert(native::Insert { source: Some(source), .. }) = &mut statement
                && source.with.is_none()
            {
                source.with = Some(with);
                ensure_reads_only(&statement, start)?;
                return wrap_change(statement).ok_or_else(|| start.unexpected());
            }
            statement
        }
        SetExpr::Update(statement) | SetExpr::Delete(statement) => statement,
        _ => return Err(start.refuse("WITH before MERGE", "Put its queries into the USING clause.")),
    };
    with::inline(with, &mut statement).map_err(|refused| match refused {
        Refused::Recursive => {
            start.refuse("WITH RECURSIVE before this statement", "Put it into a subquery of the statement.")
        }
        Refused::TooMany => start.refuse("WITH whose queries are read so often", "Put them into a temporary table."),
    })?;
    ensure_reads_only(&statement, start)?;
    wrap_change(statement).ok_or_else(|| start.unexpected())
}

/// Refuses row changes and new tables within a query. They parse, but whoever
/// asks what a query may do must be able to rely on it only reading.
pub(super) fn ensure_reads_only(tree: &impl Visit, start: &Cursor<'_>) -> Result<(), ParseError> {
    match tree.visit(&mut ReadsOnly) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(what) => Err(start.refuse(what, CHANGE_IN_QUERY_HINT)),
    }
}

struct ReadsOnly;

impl Visitor for ReadsOnly {
    type Break = &'static str;

    fn pre_visit_query(&mut self, query: &native::Query) -> ControlFlow<Self::Break> {
        if is_change(&query.body) {
            return ControlFlow::Break("a data-modifying statement in WITH");
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &native::Select) -> ControlFlow<Self::Break> {
        match select.into {
            None => ControlFlow::Continue(()),
            Some(_) => ControlFlow::Break("SELECT INTO"),
        }
    }
}

/// Parses `EXPLAIN` of queries, changes, refreshes and jobs.
pub(super) fn explain(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.expect(&["EXPLAIN"])?;
    let options = explain_options(cursor)?;
    if cursor.looking_at(&["REFRESH"]) || cursor.looking_at(&["JOB"]) {
        return super::refresh::explained(cursor, options);
    }
    let inner = cursor.clone();
    // Asked before, because EXPLAIN within EXPLAIN would recurse.
    let creates = ["CREATE", "DECLARE", "EXECUTE"];
    if !starts_query_or_change(cursor) && !creates.iter().any(|word| cursor.is_keyword(0, word)) {
        return Err(cursor.unexpected());
    }
    let statement = super::statement(cursor)?;
    match statement {
        Statement::Query(_)
        | Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Merge(_)
        | Statement::CreateTableAs(_)
        | Statement::CreateMaterializedView(_)
        | Statement::DeclareCursor(_)
        | Statement::Execute(_) => Ok(Statement::Explain(Explain { options, statement: Box::new(statement) })),
        _ => Err(inner.unexpected()),
    }
}

fn explain_options(cursor: &mut Cursor<'_>) -> Result<ExplainOptions, ParseError> {
    let mut options = ExplainOptions::default();
    // A parenthesis also starts a query; an option list starts with a bare word
    // that no query starts with.
    let listed = cursor.peek() == Some(&Token::LParen)
        && cursor.keyword_upper(1).is_some_and(|word| !matches!(word.as_str(), "SELECT" | "WITH" | "VALUES" | "TABLE"));
    if listed {
        cursor.parenthesized(|cursor| explain_option(cursor, &mut options))?;
        return Ok(options);
    }
    options.analyze = cursor.take(&["ANALYZE"]) || cursor.take(&["ANALYSE"]);
    options.verbose = cursor.take(&["VERBOSE"]);
    if cursor.take(&["FORMAT"]) {
        options.format = Some(explain_format(cursor)?);
    }
    Ok(options)
}

fn explain_option(cursor: &mut Cursor<'_>, options: &mut ExplainOptions) -> Result<(), ParseError> {
    let position = cursor.position();
    let name = cursor.any_word()?;
    match name.as_str() {
        "analyze" | "analyse" => options.analyze = boolean(cursor)?,
        "verbose" => options.verbose = boolean(cursor)?,
        "format" => options.format = Some(explain_format(cursor)?),
        // What PostgreSQL can show besides does not exist here; off is a promise
        // that is easy to keep.
        "costs" | "settings" | "generic_plan" | "buffers" | "wal" | "timing" | "summary" | "memory" => {
            boolean(cursor)?;
        }
        "serialize" => {
            cursor.any_word()?;
        }
        name => {
            return Err(ParseError::new(
                ParseErrorKind::UnknownOption,
                format!("unrecognized EXPLAIN option \"{name}\""),
            )
            .at(position.get()));
        }
    }
    Ok(())
}

fn explain_format(cursor: &mut Cursor<'_>) -> Result<ExplainFormat, ParseError> {
    let position = cursor.position();
    let name = if cursor.is_string(0) { cursor.string()? } else { cursor.any_word()? };
    match name.to_ascii_lowercase().as_str() {
        "text" | "indent" => Ok(ExplainFormat::Text),
        "json" | "pgjson" => Ok(ExplainFormat::Json),
        "tree" => Ok(ExplainFormat::Tree),
        _ => Err(ParseError::new(
            ParseErrorKind::BadOptionValue,
            format!("unrecognized value for EXPLAIN option \"format\": \"{name}\""),
        )
        .with_hint("Formats are TEXT, JSON and TREE.")
        .at(position.get())),
    }
}

/// Takes a boolean, which is true when left out.
fn boolean(cursor: &mut Cursor<'_>) -> Result<bool, ParseError> {
    match cursor.peek() {
        Some(Token::Comma | Token::RParen) | None => Ok(true),
        Some(_) => {
            let problem = cursor.unexpected();
            let text = match cursor.peek() {
                Some(Token::Number(..)) => cursor.number()?,
                _ if cursor.is_string(0) => cursor.string()?,
                _ => cursor.any_word()?,
            };
            match text.to_ascii_lowercase().as_str() {
                "true" | "on" | "1" => Ok(true),
                "false" | "off" | "0" => Ok(false),
                _ => Err(problem),
            }
        }
    }
}

/// Parses `COPY`.
pub(super) fn copy(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let start = cursor.clone();
    cursor.expect(&["COPY"])?;
    let spelled = cursor.respelled(copy_spelling);
    let mut native = Cursor::over(cursor, &spelled);
    let copy = native.native(|parser| parser.parse_copy())?;
    native.expect_end()?;
    cursor.rewind(cursor.end());
    ensure_reads_only(&copy, &start)?;
    Ok(Statement::Copy(Copy(Box::new(copy))))
}

/// Spells the options of `COPY` as the native parser knows them. `before` is the
/// word that stands before, in upper case; no token leaves it out. All columns, `*`,
/// are spelled as the list of one quoted star, which no column is called.
fn copy_spelling(before: &str, token: &Token) -> Vec<Token> {
    let word = match token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        Token::Number(digits, _) => digits.clone(),
        Token::EscapedStringLiteral(text) => return vec![Token::SingleQuotedString(text.clone())],
        Token::Mul if matches!(before, "FORCE_QUOTE" | "FORCE_NOT_NULL" | "FORCE_NULL") => {
            return vec![Token::LParen, Token::make_word("*", Some('"')), Token::RParen];
        }
        // The grammar before PostgreSQL 9.0: FORCE QUOTE *.
        Token::Mul if matches!(before, "QUOTE" | "NULL") => return vec![Token::make_word("*", Some('"'))],
        _ => return vec![token.clone()],
    };
    let switch = matches!(before, "FREEZE" | "HEADER");
    vec![match word.as_str() {
        "ON" | "1" if switch => Token::make_keyword("TRUE"),
        "OFF" | "0" if switch => Token::make_keyword("FALSE"),
        // The form of PostgreSQL 7.2, which libraries still send.
        "DELIMITERS" => Token::make_keyword("DELIMITER"),
        "WITH" if before == "DELIMITERS" => return Vec::new(),
        _ => token.clone(),
    }]
}
