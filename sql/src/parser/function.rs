//! Functions.

use sqlparser::tokenizer::Token;

use super::create::ensure_once;
use super::options;
use crate::ast::{
    AlterFunction, CreateFunction, DropFunction, FunctionBody, FunctionDefinition, FunctionParameter, Statement,
};
use crate::cursor::Cursor;
use crate::error::{ParseError, ParseErrorKind};
use crate::options::{SqlOption, unknown};

/// The options of a Function whose source is in the statement.
const SOURCE_OPTIONS: &[&str] = &[
    "pip",
    "conda",
    "conda_channels",
    "python_version",
    "gpu",
    "gpu_class",
    "mode",
    "initialization",
    "result_stability",
    "side_effects",
    "env",
    "secrets",
    "models",
    "network",
    "wait",
];
/// The options of a Function that a document registers.
const REGISTRATION_OPTIONS: &[&str] = &["wait"];
/// How deep a type may nest.
const TYPE_DEPTH_MAX: usize = 16;

/// Parses what follows `CREATE FUNCTION`.
pub(super) fn create(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let name = cursor.object_name()?;
    let (definition, supported) = if cursor.take(&["FROM"]) {
        (FunctionDefinition::Registration(cursor.string()?), REGISTRATION_OPTIONS)
    } else {
        (FunctionDefinition::Source(body(cursor)?), SOURCE_OPTIONS)
    };
    let options = options::with(cursor)?;
    ensure_known(&options, "CREATE FUNCTION", supported)?;
    Ok(Statement::CreateFunction(CreateFunction { name, definition, options }))
}

fn ensure_known(options: &[SqlOption], statement: &str, supported: &[&str]) -> Result<(), ParseError> {
    if let Some(option) = options.iter().find(|option| !supported.contains(&option.name.as_str())) {
        return Err(unknown(statement, &option.name, supported).at(option.position.get()));
    }
    ensure_once(options)
}

fn body(cursor: &mut Cursor<'_>) -> Result<FunctionBody, ParseError> {
    cursor.expect_token(&Token::LParen)?;
    let parameters =
        if cursor.peek() == Some(&Token::RParen) { Vec::new() } else { cursor.comma_separated(parameter)? };
    cursor.expect_token(&Token::RParen)?;
    cursor.expect(&["RETURNS"])?;
    let returns = arrow_type(cursor)?;
    cursor.expect(&["LANGUAGE"])?;
    let at = cursor.clone();
    let language = if cursor.is_string(0) { cursor.string()? } else { cursor.any_word()? };
    let language = language.to_ascii_lowercase();
    if language != "python" {
        return Err(at.refuse(format!("language \"{language}\""), "Functions are in python."));
    }
    cursor.expect(&["AS"])?;
    let position = cursor.position().get();
    let source = cursor.string()?;
    if source.trim().is_empty() {
        return Err(
            ParseError::new(ParseErrorKind::BadOptionValue, "the source of a Function must not be empty").at(position)
        );
    }
    Ok(FunctionBody { parameters, returns, language, source })
}

fn parameter(cursor: &mut Cursor<'_>) -> Result<FunctionParameter, ParseError> {
    let name = cursor.ident()?;
    let data_type = arrow_type(cursor)?;
    let nullable = !cursor.take(&["NOT", "NULL"]);
    Ok(FunctionParameter { name, data_type, nullable })
}

/// Takes an Arrow type as text: a name with `<…>` or `(…)` behind it, or a
/// string that holds its JSON.
fn arrow_type(cursor: &mut Cursor<'_>) -> Result<String, ParseError> {
    if cursor.is_string(0) {
        return cursor.string().map(|text| crate::name::Literal(&text).to_string());
    }
    let start = cursor.mark();
    if !matches!(cursor.peek(), Some(Token::Word(word)) if word.quote_style.is_none()) {
        return Err(cursor.unexpected());
    }
    cursor.advance();
    let mut open: Vec<Token> = Vec::new();
    loop {
        match cursor.peek() {
            Some(Token::Lt) => open.push(Token::Gt),
            Some(Token::LParen) => open.push(Token::RParen),
            Some(token @ (Token::Gt | Token::RParen)) if open.last() == Some(token) => {
                open.pop();
            }
            // Two that close at once are one token.
            Some(Token::ShiftRight) if open.len() >= 2 && open[open.len() - 2..].iter().all(|t| *t == Token::Gt) => {
                open.truncate(open.len() - 2);
            }
            Some(Token::Word(_) | Token::Number(..) | Token::Comma | Token::Colon) if !open.is_empty() => {}
            _ if open.is_empty() => break,
            _ => return Err(cursor.unexpected()),
        }
        if open.len() > TYPE_DEPTH_MAX {
            return Err(crate::limits::exceeded("type is nested too deeply").at(cursor.position().get()));
        }
        cursor.advance();
    }
    Ok(cursor.text_since(start).to_ascii_lowercase())
}

/// Parses what follows `ALTER FUNCTION`.
pub(super) fn alter(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let name = cursor.object_name()?;
    cursor.expect(&["SET"])?;
    let options = options::list(cursor)?;
    ensure_once(&options)?;
    Ok(Statement::AlterFunction(AlterFunction { name, options }))
}

/// Parses what follows `DROP FUNCTION`.
pub(super) fn drop(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let if_exists = cursor.if_exists();
    let name = cursor.object_name()?;
    let options = options::with(cursor)?;
    ensure_known(&options, "DROP FUNCTION", &["version", "cascade"])?;
    let mut drop = DropFunction { name, if_exists, version: None, cascade: false };
    for option in options {
        if option.name == "version" {
            drop.version = Some(option.value.as_str().to_owned());
        } else {
            drop.cascade = option.value.as_bool().ok_or_else(|| {
                ParseError::new(
                    ParseErrorKind::BadOptionValue,
                    format!("invalid value for option \"cascade\": \"{}\"", option.value.as_str()),
                )
                .with_detail("Option \"cascade\" takes true or false.")
                .at(option.position.get())
            })?;
        }
    }
    Ok(Statement::DropFunction(drop))
}
