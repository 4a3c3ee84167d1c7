//! Transaction blocks.
//!
//! ```sql
//! {BEGIN [WORK | TRANSACTION] | START TRANSACTION} [<mode>, …]
//! {COMMIT | END} [WORK | TRANSACTION] [AND [NO] CHAIN]
//! {ROLLBACK | ABORT} [WORK | TRANSACTION] [AND [NO] CHAIN]
//! SAVEPOINT <name>
//! RELEASE [SAVEPOINT] <name>
//! ROLLBACK [WORK | TRANSACTION] TO [SAVEPOINT] <name>
//! SET {TRANSACTION | SESSION CHARACTERISTICS AS TRANSACTION} <mode>, …
//! <mode> ::= ISOLATION LEVEL <level> | READ ONLY | READ WRITE | [NOT] DEFERRABLE
//! ```
//!
//! Example: `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`

use std::fmt;

use crate::name::Ident;

/// `BEGIN` and `START TRANSACTION`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// Whether it was spelled `START TRANSACTION`, which has its own tag.
    pub start: bool,
    /// The block's modes.
    pub modes: TransactionModes,
}

/// `COMMIT` and `END`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Whether a new block with the same modes follows at once.
    pub chain: bool,
}

/// `ROLLBACK` and `ABORT`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollback {
    /// Whether a new block with the same modes follows at once.
    pub chain: bool,
}

/// `SAVEPOINT`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Savepoint {
    /// The savepoint.
    pub name: Ident,
}

/// `RELEASE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The savepoint.
    pub name: Ident,
}

/// `ROLLBACK TO`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackTo {
    /// The savepoint.
    pub name: Ident,
}

/// `SET TRANSACTION` and `SET SESSION CHARACTERISTICS`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetTransaction {
    /// Whether the modes are the session's default.
    pub session: bool,
    /// The modes; at least one.
    pub modes: TransactionModes,
}

/// Modes of a block; what is absent stays at the session's default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// How much of concurrent work is seen.
    pub isolation: Option<IsolationLevel>,
    /// Whether writes are refused.
    pub read_only: Option<bool>,
    /// Whether a serializable block waits for a safe snapshot.
    pub deferrable: Option<bool>,
}

/// The isolation levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IsolationLevel {
    /// `READ UNCOMMITTED`
    ReadUncommitted,
    /// `READ COMMITTED`
    ReadCommitted,
    /// `REPEATABLE READ`
    RepeatableRead,
    /// `SERIALIZABLE`
    Serializable,
}

impl IsolationLevel {
    /// Returns the spelling of the setting `transaction_isolation`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadUncommitted => "read uncommitted",
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Serializable => "serializable",
        }
    }
}

impl TransactionModes {
    /// Returns whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for TransactionModes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let isolation = self.isolation.map(|level| format!("ISOLATION LEVEL {}", level.as_str().to_uppercase()));
        let modes = [
            isolation.as_deref(),
            self.read_only.map(|only| if only { "READ ONLY" } else { "READ WRITE" }),
            self.deferrable.map(|set| if set { "DEFERRABLE" } else { "NOT DEFERRABLE" }),
        ];
        f.write_str(&modes.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Display for Begin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.start { "START TRANSACTION" } else { "BEGIN" })?;
        if self.modes.is_empty() { Ok(()) } else { write!(f, " {}", self.modes) }
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.chain { "COMMIT AND CHAIN" } else { "COMMIT" })
    }
}

impl fmt::Display for Rollback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.chain { "ROLLBACK AND CHAIN" } else { "ROLLBACK" })
    }
}

impl fmt::Display for Savepoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SAVEPOINT {}", self.name)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RELEASE SAVEPOINT {}", self.name)
    }
}

impl fmt::Display for RollbackTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ROLLBACK TO SAVEPOINT {}", self.name)
    }
}

impl fmt::Display for SetTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.session { "SET SESSION CHARACTERISTICS AS TRANSACTION " } else { "SET TRANSACTION " })?;
        self.modes.fmt(f)
    }
}
