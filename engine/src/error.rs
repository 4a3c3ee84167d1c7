//! The one error a client sees, and the mapping of every lower error to it.
//!
//! Lower layers keep their own enums and know neither SQLSTATE nor HTTP; this
//! module owns the exhaustive mapping. A message is written as PostgreSQL
//! writes it: lower case, no full stop, the object kind and its quoted name;
//! detail and hint are sentences.

use std::borrow::Cow;
use std::fmt;

use crate::sqlstate::SqlState;

mod input;
mod metadata;
pub mod position;
pub mod query;
mod refresh;
mod secrets;

/// An error (or notice) in the shape of PostgreSQL's ErrorResponse fields
/// (PostgreSQL documentation, "Error and Notice Message Fields").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    /// The five-character code.
    pub code: SqlState,
    /// One line, lower case, without a full stop.
    pub message: String,
    /// Sentences that say what is known besides.
    pub detail: Option<String>,
    /// Sentences that say what to do.
    pub hint: Option<String>,
    /// 1-based character position in the text that the client sent.
    pub position: Option<usize>,
    /// What was going on, for example the line of a COPY.
    pub context: Option<String>,
    /// The name kept in `failure.error_code` of a job, for example
    /// `ConcurrentWriteError`; absent for ordinary statement errors.
    pub error_name: Option<Cow<'static, str>>,
}

/// The result of everything that a client can ask for.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

impl SqlError {
    /// Returns an error with a code and a message and nothing else.
    pub fn new(code: SqlState, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            context: None,
            error_name: None,
        }
    }

    /// Says what was going on.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.context = Some(context.into());
        self
    }

    /// Adds the sentences of the DETAIL field.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds the sentences of the HINT field.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Points at a 1-based character of the client's text.
    #[must_use]
    pub fn at(mut self, position: Option<usize>) -> Self {
        self.position = position;
        self
    }

    /// Points at what the message names, if `text`, the client's, has it once; a position
    /// that is known already stays.
    #[must_use]
    pub fn located(self, text: &str) -> Self {
        if self.position.is_some() {
            return self;
        }
        let position = position::of_named(self.code.as_str(), &self.message, text);
        self.at(position)
    }

    /// Names the error as job failures record it.
    #[must_use]
    pub fn named(mut self, name: &'static str) -> Self {
        self.error_name = Some(Cow::Borrowed(name));
        self
    }

    /// Returns an error that must not happen; its cause goes to the log only.
    pub fn internal(cause: impl fmt::Display) -> Self {
        tracing::error!(%cause, "internal error");
        Self::new(SqlState::INTERNAL_ERROR, "internal error")
    }

    /// Returns the 57014 of a statement that its client or a deadline ended.
    pub fn canceled(why: &str) -> Self {
        Self::new(SqlState::QUERY_CANCELED, format!("canceling statement due to {why}"))
    }

    /// Returns a 0A000.
    pub fn not_supported(message: impl Into<String>) -> Self {
        Self::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    }

    /// Returns a 42501 that names the kind and the object.
    pub fn permission_denied(kind: &str, name: &str) -> Self {
        Self::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for {kind} {name}"))
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for SqlError {}
