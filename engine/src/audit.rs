//! What is recorded of statements: what each needed, whether that was held, and
//! what became of a change of users, privileges, keys and secrets.
//!
//! The engine says what happened; where and whether that is written is the
//! business of whoever gives it an [`Audit`]. Records name objects and never hold
//! text of a statement, so no literal, password or value of a secret can be in one.

use std::fmt;

use lancegate_auth::{Requirement, UserName};

use crate::error::{Result, SqlError};
use crate::session::Session;
use crate::sql::plan::Plan;

mod describe;

pub use describe::{administration, changes, command};

/// Takes records.
pub trait Audit: fmt::Debug + Send + Sync {
    /// Records what was decided about a statement, before it runs.
    ///
    /// # Errors
    /// What the statement answers instead of running, because it cannot be recorded.
    fn decided(&self, record: &Decided<'_>) -> Result<()>;

    /// Records what became of an administrative statement. It has happened, so
    /// there is nothing left to refuse.
    fn administered(&self, record: &Administered<'_>);
}

/// One privilege that a statement needs.
#[derive(Debug, Clone, Copy)]
pub struct Checked<'a> {
    /// The privilege and its object.
    pub requirement: &'a Requirement,
    /// Who has to hold it, if that is not the caller: the owner of a view.
    pub on_behalf_of: Option<&'a UserName>,
    /// Whether it is held.
    pub held: bool,
}

/// A decision.
#[derive(Debug)]
pub struct Decided<'a> {
    /// Who asks.
    pub session: &'a Session,
    /// The statement.
    pub plan: &'a Plan,
    /// What was looked at, in order; after one that is not held nothing is.
    pub checked: &'a [Checked<'a>],
    /// What the caller is told if it was denied.
    pub denied: Option<&'a SqlError>,
}

/// The end of an administrative statement.
#[derive(Debug)]
pub struct Administered<'a> {
    /// Who asked.
    pub session: &'a Session,
    /// The statement's command.
    pub command: &'static str,
    /// What it was about, one entry for each change.
    pub changes: &'a [String],
    /// Its error, if it failed.
    pub error: Option<&'a SqlError>,
}
