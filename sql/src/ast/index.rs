//! Indexes.
//!
//! ```sql
//! CREATE [UNIQUE] INDEX [CONCURRENTLY] [[IF NOT EXISTS] <name>] ON <table>
//!     [USING <method>] (<column>, …) [WITH (<option> = <value>, …)]
//! DROP INDEX [CONCURRENTLY] [IF EXISTS] [<table>.]<index>, … [CASCADE | RESTRICT]
//! ```
//!
//! `USING` may also stand after the columns.
//!
//! Example: `CREATE INDEX ON docs USING fts (body) WITH (with_position = true)`

use std::fmt;

use super::DropBehavior;
use super::table::write_drop;
use crate::name::{FieldPath, Ident, ObjectName, write_separated};
use crate::options::{SqlOption, write_with};

/// `CREATE INDEX`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateIndex {
    /// The index; the server picks a name without one.
    pub name: Option<Ident>,
    /// Whether an existing index of the name is no error.
    pub if_not_exists: bool,
    /// Whether uniqueness was asked for.
    pub unique: bool,
    /// The table.
    pub table: ObjectName,
    /// The method, lower case; the server picks one without it.
    pub method: Option<String>,
    /// The columns, at least one.
    pub columns: Vec<FieldPath>,
    /// The options of the `WITH` list.
    pub options: Vec<SqlOption>,
}

/// `DROP INDEX`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropIndex {
    /// Whether a missing index is no error.
    pub if_exists: bool,
    /// The indexes, at least one, as dotted names whose last part is the index
    /// and whose part before that is a table or a schema.
    pub indexes: Vec<FieldPath>,
    /// What happens to dependants.
    pub behavior: Option<DropBehavior>,
}

impl fmt::Display for CreateIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.unique { "CREATE UNIQUE INDEX " } else { "CREATE INDEX " })?;
        if let Some(name) = &self.name {
            let exists = if self.if_not_exists { "IF NOT EXISTS " } else { "" };
            write!(f, "{exists}{name} ")?;
        }
        write!(f, "ON {}", self.table)?;
        if let Some(method) = &self.method {
            write!(f, " USING {}", Ident::from(method.as_str()))?;
        }
        f.write_str(" (")?;
        write_separated(f, &self.columns, ", ")?;
        f.write_str(")")?;
        write_with(f, &self.options)
    }
}

impl fmt::Display for DropIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_drop(f, "INDEX", self.if_exists, &self.indexes, self.behavior)
    }
}
