//! One option: a name and a value that is not yet checked.

use std::fmt;

use crate::ast::Position;
use crate::name::{Literal, Quoted, write_separated};

/// An option as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlOption {
    /// The name, lower case.
    pub name: String,
    /// The value.
    pub value: OptionValue,
    /// Where the name stands.
    pub position: Position,
}

impl SqlOption {
    /// Returns an option that does not come from a text.
    pub fn new(name: impl AsRef<str>, value: OptionValue) -> Self {
        Self { name: name.as_ref().to_ascii_lowercase(), value, position: Position::default() }
    }
}

/// A value before its type is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionValue {
    /// A string literal.
    String(String),
    /// A number with its sign, as written.
    Number(String),
    /// `true` or `false`.
    Boolean(bool),
    /// A bare word, folded.
    Word(String),
}

impl OptionValue {
    /// Returns the value without quotes.
    pub fn as_str(&self) -> &str {
        match self {
            Self::String(text) | Self::Number(text) | Self::Word(text) => text,
            Self::Boolean(true) => "true",
            Self::Boolean(false) => "false",
        }
    }

    /// Returns the boolean that PostgreSQL reads from the value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self.as_str().to_ascii_lowercase().as_str() {
            "true" | "on" | "yes" | "1" => Some(true),
            "false" | "off" | "no" | "0" => Some(false),
            _ => None,
        }
    }
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(text) => Literal(text).fmt(f),
            Self::Number(number) => f.write_str(number),
            Self::Boolean(value) => value.fmt(f),
            Self::Word(word) => Quoted(word).fmt(f),
        }
    }
}

impl fmt::Display for SqlOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", Quoted(&self.name), self.value)
    }
}

/// Displays a set of options as ` WITH (…)`, or nothing when it is empty.
#[derive(Debug)]
pub struct WithClause(pub(crate) String);

impl fmt::Display for WithClause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " WITH ({})", self.0) }
    }
}

/// Writes ` WITH (…)`, or nothing without options.
pub(crate) fn write_with(f: &mut fmt::Formatter<'_>, options: &[SqlOption]) -> fmt::Result {
    if options.is_empty() {
        return Ok(());
    }
    f.write_str(" WITH (")?;
    write_separated(f, options, ", ")?;
    f.write_str(")")
}
