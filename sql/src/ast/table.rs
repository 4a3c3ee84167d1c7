//! Tables: create, clone, drop.
//!
//! ```sql
//! CREATE [TEMPORARY] TABLE [IF NOT EXISTS] <table> (<column> <type> [NOT NULL], …)
//! CREATE [TEMPORARY] TABLE [IF NOT EXISTS] <table> AS <query> [WITH [NO] DATA]
//! CREATE TABLE [IF NOT EXISTS] <table> CLONE <table>
//!     [AT {<version> | VERSION <version> | TAG '<tag>' | [TIMESTAMP] '<time>'}]
//! DROP {TABLE | VIEW} [IF EXISTS] <name>, … [CASCADE | RESTRICT]
//! ```
//!
//! Example: `CREATE TABLE IF NOT EXISTS docs (id bigint NOT NULL, body text)`

use std::fmt;

use sqlparser::ast as native;

use super::DropBehavior;
use crate::name::{Literal, ObjectName, write_separated};

/// `CREATE TABLE` with columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTable {
    /// The new table.
    pub table: ObjectName,
    /// The native tree: columns, types, `IF NOT EXISTS`, `TEMPORARY`, constraints.
    pub native: Box<native::CreateTable>,
}

impl CreateTable {
    /// Returns whether an existing table of the name is no error.
    pub fn if_not_exists(&self) -> bool {
        self.native.if_not_exists
    }

    /// Returns whether the table lives as long as the session.
    pub fn temporary(&self) -> bool {
        self.native.temporary
    }

    /// Returns the columns in order.
    pub fn columns(&self) -> &[native::ColumnDef] {
        &self.native.columns
    }
}

/// `CREATE TABLE … AS`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTableAs {
    /// The new table.
    pub table: ObjectName,
    /// The native tree; `query` is always set.
    pub native: Box<native::CreateTable>,
    /// False after `WITH NO DATA`: only the columns are taken.
    pub with_data: bool,
}

impl CreateTableAs {
    /// Returns the query that fills the table.
    pub fn query(&self) -> Option<&native::Query> {
        self.native.query.as_deref()
    }
}

/// `CREATE TABLE … CLONE …`: a new table that shares the source's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneTable {
    /// The new table.
    pub table: ObjectName,
    /// Whether an existing table of the name is no error.
    pub if_not_exists: bool,
    /// The table to clone.
    pub source: ObjectName,
    /// The version to clone; the newest without one.
    pub at: Option<VersionReference>,
}

/// A version of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionReference {
    /// By number.
    Version(u64),
    /// By tag.
    Tag(String),
    /// The newest at a time, in RFC 3339.
    Timestamp(String),
}

/// `DROP TABLE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropTable {
    /// Whether a missing table is no error.
    pub if_exists: bool,
    /// The tables, at least one.
    pub tables: Vec<ObjectName>,
    /// What happens to dependants.
    pub behavior: Option<DropBehavior>,
}

/// `DROP VIEW`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropView {
    /// Whether a missing view is no error.
    pub if_exists: bool,
    /// The views, at least one.
    pub views: Vec<ObjectName>,
    /// What happens to dependants.
    pub behavior: Option<DropBehavior>,
}

impl VersionReference {
    /// Reads `FOR SYSTEM_TIME AS OF {VERSION <n> | TAG '<tag>' | TIMESTAMP '<time>'}`
    /// of a table in a query, or `None` when it says something else.
    pub fn from_native(version: &native::TableVersion) -> Option<Self> {
        let native::TableVersion::ForSystemTimeAsOf(expr) = version else {
            return None;
        };
        match expr {
            native::Expr::TypedString(text) => match &text.value.value {
                native::Value::SingleQuotedString(time) => Some(Self::Timestamp(time.clone())),
                _ => None,
            },
            native::Expr::Function(function) => {
                let native::FunctionArguments::List(list) = &function.args else {
                    return None;
                };
                let [native::FunctionArg::Unnamed(native::FunctionArgExpr::Expr(native::Expr::Value(value)))] =
                    list.args.as_slice()
                else {
                    return None;
                };
                match (function.name.to_string().to_ascii_lowercase().as_str(), &value.value) {
                    ("version", native::Value::Number(number, _)) => number.parse().ok().map(Self::Version),
                    ("tag", native::Value::SingleQuotedString(tag)) => Some(Self::Tag(tag.clone())),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

impl fmt::Display for CreateTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.native.fmt(f)
    }
}

impl fmt::Display for CreateTableAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.native.fmt(f)?;
        if self.with_data { Ok(()) } else { f.write_str(" WITH NO DATA") }
    }
}

impl fmt::Display for CloneTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CREATE TABLE ")?;
        if self.if_not_exists {
            f.write_str("IF NOT EXISTS ")?;
        }
        write!(f, "{} CLONE {}", self.table, self.source)?;
        match &self.at {
            None => Ok(()),
            Some(at) => write!(f, " AT {at}"),
        }
    }
}

impl fmt::Display for VersionReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "VERSION {version}"),
            Self::Tag(tag) => write!(f, "TAG {}", Literal(tag)),
            Self::Timestamp(time) => write!(f, "TIMESTAMP {}", Literal(time)),
        }
    }
}

impl fmt::Display for DropTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_drop(f, "TABLE", self.if_exists, &self.tables, self.behavior)
    }
}

impl fmt::Display for DropView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_drop(f, "VIEW", self.if_exists, &self.views, self.behavior)
    }
}

/// Writes the form that all `DROP` statements share.
pub(super) fn write_drop<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    kind: &str,
    if_exists: bool,
    names: &[T],
    behavior: Option<DropBehavior>,
) -> fmt::Result {
    write!(f, "DROP {kind} ")?;
    if if_exists {
        f.write_str("IF EXISTS ")?;
    }
    write_separated(f, names, ", ")?;
    match behavior {
        None => Ok(()),
        Some(behavior) => write!(f, " {behavior}"),
    }
}
