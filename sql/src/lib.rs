//! SQL text to typed statements.
//!
//! This crate reads text and nothing else: it knows no catalog, no storage and
//! no wire. [`parse`] splits a script, bounds what the recursive parser is given
//! and recognises our own statements; everything else is PostgreSQL's dialect
//! of the native parser, `sqlparser`.

pub mod ast;
mod cursor;
mod dialect;
mod error;
mod lexer;
mod limits;
mod name;
mod options;
mod parser;
mod sensitive;

pub use ast::Statement;
pub use error::{ParseError, ParseErrorKind};
pub use limits::Limits;
pub use name::{FieldPath, Ident, ObjectName, SchemaName, is_reserved};
pub use options::{
    ColumnOptions, ErrorPolicy, OptionPositions, OptionValue, RefreshOptions, RefreshViewOptions, SqlOption,
    ViewOptions, WithClause,
};

/// One statement of a script.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The statement.
    pub statement: Statement,
    /// Where it starts in the script, in bytes.
    pub start: usize,
    /// Its own text, trimmed, without the semicolon.
    pub text: String,
}

impl Parsed {
    /// Returns a text for logs and listings: the statement as written, or as
    /// printed, without the value, where it holds a password or a secret.
    pub fn loggable(&self) -> String {
        match &self.statement {
            Statement::CreateUser(_)
            | Statement::AlterUser(_)
            | Statement::CreateSecret(_)
            | Statement::AlterSecret(_)
            | Statement::CreateStorageIntegration(_) => self.statement.to_string(),
            _ => self.text.clone(),
        }
    }
}

/// Splits a script and parses its statements.
///
/// A text without statements gives an empty list.
///
/// # Errors
/// The first statement that does not parse, with the position in the script.
pub fn parse(sql: &str, limits: &Limits) -> Result<Vec<Parsed>, ParseError> {
    parser::script(sql, limits)
}
