//! Why a text is not a statement of ours.
//!
//! The messages are PostgreSQL's where PostgreSQL has one, so that drivers and
//! people who match on them are served alike. This module assigns no SQLSTATE;
//! [`ParseErrorKind`] carries what the gateway needs to choose one.

use thiserror::Error;

/// A text that could not be turned into statements.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ParseError {
    /// The primary message, lower case and without a full stop.
    pub message: String,
    /// 1-based position in characters from the start of the whole text.
    pub position: Option<usize>,
    /// What went wrong, for the choice of an SQLSTATE.
    pub kind: ParseErrorKind,
    /// What to do about it, as a sentence.
    pub hint: Option<String>,
    /// More about the error, as a sentence.
    pub detail: Option<String>,
}

/// The classes of parse errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParseErrorKind {
    /// The text follows no known grammar.
    Syntax,
    /// An option name that the statement does not have.
    UnknownOption,
    /// An option value of the wrong type or out of its range.
    BadOptionValue,
    /// The same option twice.
    DuplicateOption,
    /// Understood and refused.
    NotSupported,
    /// Too long, too deep or too many terms.
    LimitExceeded,
}

impl ParseError {
    /// Returns an error of `kind` without position, hint or detail.
    pub fn new(kind: ParseErrorKind, message: impl Into<String>) -> Self {
        Self { message: message.into(), position: None, kind, hint: None, detail: None }
    }

    /// Returns the error with its position set.
    #[must_use]
    pub fn at(mut self, position: Option<usize>) -> Self {
        self.position = position;
        self
    }

    /// Returns the error with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the error with a detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn not_supported(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(ParseErrorKind::NotSupported, message).with_hint(hint)
    }
}
