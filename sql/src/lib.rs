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

pub use ast::Statement;
pub use error::{ParseError, ParseErrorKind};
pub use limits::Limits;
pub use name::{FieldPath, Ident, ObjectName, SchemaName};
pub use options::{
    ColumnOptions, ErrorPolicy, OptionPositions, OptionValue, RefreshOptions, RefreshViewOptions,
    SqlOption, ViewOptions, WithClause,
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

/// Splits a script and parses its statements.
///
/// A text without statements gives an empty list.
///
/// # Errors
/// The first statement that does not parse, with the position in the script.
pub fn parse(sql: &str, limits: &Limits) -> Result<Vec<Parsed>, ParseError> {
    parser::script(sql, limits)
}
