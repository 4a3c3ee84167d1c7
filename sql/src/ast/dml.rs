//! Changes of rows. The native trees say all there is to say; the wrappers only
//! give each statement a type of its own.
//!
//! Example: `INSERT INTO docs (id, body) VALUES (1, 'a') RETURNING id`

use std::fmt;

use sqlparser::ast as native;

/// `INSERT INTO … {VALUES | SELECT | DEFAULT VALUES} [ON CONFLICT …] [RETURNING …]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insert(pub Box<native::Insert>);

/// `UPDATE … SET … [FROM …] [WHERE …] [RETURNING …]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update(pub Box<native::Update>);

/// `DELETE FROM … [USING …] [WHERE …] [RETURNING …]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete(pub Box<native::Delete>);

/// `TRUNCATE [TABLE] …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truncate(pub Box<native::Truncate>);

impl Insert {
    /// Returns the native statement.
    pub fn into_native(self) -> native::Statement {
        native::Statement::Insert(*self.0)
    }
}

impl Update {
    /// Returns the native statement.
    pub fn into_native(self) -> native::Statement {
        native::Statement::Update(*self.0)
    }
}

impl Delete {
    /// Returns the native statement.
    pub fn into_native(self) -> native::Statement {
        native::Statement::Delete(*self.0)
    }
}

impl Truncate {
    /// Returns the native statement.
    pub fn into_native(self) -> native::Statement {
        native::Statement::Truncate(*self.0)
    }
}

impl fmt::Display for Insert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Delete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Truncate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
