//! Views and materialized views. Refreshing one is in `refresh.rs`.
//!
//! ```sql
//! CREATE [OR REPLACE] [TEMPORARY] VIEW [IF NOT EXISTS] <view> [(<column>, …)] AS <query>
//! CREATE MATERIALIZED VIEW [IF NOT EXISTS] <view> [WITH (<option> = <value>, …)] AS <query> [WITH [NO] DATA]
//! ALTER MATERIALIZED VIEW <view> SET (auto_refresh_enabled = …, auto_refresh_interval_seconds = …)
//! DROP MATERIALIZED VIEW [IF EXISTS] <view>, … [CASCADE | RESTRICT]
//! ```
//!
//! Example: `CREATE MATERIALIZED VIEW recent AS SELECT id FROM docs WHERE year > 2020`

use std::fmt;

use sqlparser::ast as native;

use super::table::write_drop;
use super::{DropBehavior, Position};
use crate::name::{ObjectName, write_separated};
use crate::options::ViewOptions;

/// `CREATE VIEW`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateView {
    /// The new view.
    pub view: ObjectName,
    /// The native tree: columns, query, `OR REPLACE`, `TEMPORARY`.
    pub native: Box<native::CreateView>,
    /// The query as it was written; what is stored should be this.
    pub query_text: String,
}

/// `CREATE MATERIALIZED VIEW`
#[derive(Debug, Clone, PartialEq)]
pub struct CreateMaterializedView {
    /// The new view.
    pub view: ObjectName,
    /// Whether an existing view of the name is no error.
    pub if_not_exists: bool,
    /// When the view is refreshed by itself.
    pub options: ViewOptions,
    /// False after `WITH NO DATA`: the view stays empty until it is refreshed.
    pub with_data: bool,
    /// The query that defines the rows.
    pub query: Box<native::Query>,
    /// The query as it was written.
    pub query_text: String,
    /// Where the query starts.
    pub position: Position,
}

/// `ALTER MATERIALIZED VIEW … SET (…)`
#[derive(Debug, Clone, PartialEq)]
pub struct AlterMaterializedView {
    /// The view.
    pub view: ObjectName,
    /// Whether a missing view is no error.
    pub if_exists: bool,
    /// The settings to change; at least one.
    pub options: ViewOptions,
}

/// `DROP MATERIALIZED VIEW`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropMaterializedView {
    /// Whether a missing view is no error.
    pub if_exists: bool,
    /// The views, at least one.
    pub views: Vec<ObjectName>,
    /// What happens to dependants.
    pub behavior: Option<DropBehavior>,
}

impl fmt::Display for CreateView {
    // Not the native form: it puts an alias before FOR SYSTEM_TIME, where it
    // cannot be read back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let native = &self.native;
        f.write_str("CREATE ")?;
        if native.or_replace {
            f.write_str("OR REPLACE ")?;
        }
        if native.temporary {
            f.write_str("TEMPORARY ")?;
        }
        f.write_str("VIEW ")?;
        if native.if_not_exists {
            f.write_str("IF NOT EXISTS ")?;
        }
        write!(f, "{}", native.name)?;
        if !native.columns.is_empty() {
            f.write_str(" (")?;
            write_separated(f, &native.columns, ", ")?;
            f.write_str(")")?;
        }
        write!(f, "{} AS {}", native.options, self.query_text)
    }
}

impl fmt::Display for CreateMaterializedView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CREATE MATERIALIZED VIEW ")?;
        if self.if_not_exists {
            f.write_str("IF NOT EXISTS ")?;
        }
        let no_data = if self.with_data { "" } else { " WITH NO DATA" };
        write!(f, "{}{} AS {}{no_data}", self.view, self.options.with_clause(), self.query_text)
    }
}

impl fmt::Display for AlterMaterializedView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ALTER MATERIALIZED VIEW ")?;
        if self.if_exists {
            f.write_str("IF EXISTS ")?;
        }
        write!(f, "{} SET ({})", self.view, self.options)
    }
}

impl fmt::Display for DropMaterializedView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_drop(f, "MATERIALIZED VIEW", self.if_exists, &self.views, self.behavior)
    }
}
