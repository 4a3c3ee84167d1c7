//! Listings, descriptions and comments of catalog objects.
//!
//! ```sql
//! SHOW <objects> [{IN | FROM} <scope>] [LIKE '<pattern>'] [WHERE name > '<name>'] [LIMIT <n> [FROM '<page token>']]
//! <objects> ::= TABLES | VIEWS | MATERIALIZED VIEWS | FUNCTIONS | FUNCTION VERSIONS
//!             | SECRETS | STORAGE INTEGRATIONS | SCHEMAS | NAMESPACES | DATABASES
//!             | COLUMNS | INDEXES                        -- the last two IN a table
//! {DESCRIBE | DESC} [TABLE | VIEW] <name>
//! {DESCRIBE | DESC} {MATERIALIZED VIEW | FUNCTION | SECRET | DATABASE | SCHEMA | NAMESPACE
//!     | STORAGE INTEGRATION | INDEX} <name>
//! COMMENT ON {TABLE | VIEW | MATERIALIZED VIEW | COLUMN | SCHEMA | DATABASE | FUNCTION} <name>
//!     IS {'<text>' | NULL}
//! ```
//!
//! Example: `SHOW TABLES IN "team$ml" LIMIT 100`

use std::fmt;

use crate::name::{Ident, Literal, ObjectName, SchemaName};

/// `SHOW <objects>`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogListing {
    /// What is listed.
    pub object: CatalogObject,
    /// Where; without it, every namespace of the connected database.
    pub scope: Option<ListingScope>,
    /// Only names like this pattern.
    pub like: Option<String>,
    /// Only names after this one; how older clients ask for the next page.
    pub name_after: Option<String>,
    /// The most rows on this page.
    pub limit: Option<u32>,
    /// The page to go on with; only with a limit.
    pub page_token: Option<String>,
}

/// The kinds of objects that can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CatalogObject {
    /// Tables.
    Tables,
    /// Views.
    Views,
    /// Materialized views.
    MaterializedViews,
    /// Functions, all versions.
    Functions,
    /// The versions of one Function.
    FunctionVersions,
    /// Secrets, names only.
    Secrets,
    /// Storage integrations.
    StorageIntegrations,
    /// Namespaces.
    Schemas,
    /// Databases.
    Databases,
    /// Columns of a table.
    Columns,
    /// Indexes of a table.
    Indexes,
}

impl CatalogObject {
    /// Returns the SQL spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tables => "TABLES",
            Self::Views => "VIEWS",
            Self::MaterializedViews => "MATERIALIZED VIEWS",
            Self::Functions => "FUNCTIONS",
            Self::FunctionVersions => "FUNCTION VERSIONS",
            Self::Secrets => "SECRETS",
            Self::StorageIntegrations => "STORAGE INTEGRATIONS",
            Self::Schemas => "SCHEMAS",
            Self::Databases => "DATABASES",
            Self::Columns => "COLUMNS",
            Self::Indexes => "INDEXES",
        }
    }
}

/// Where a listing looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListingScope {
    /// One namespace, not its children.
    Schema(SchemaName),
    /// One object: a table for columns and indexes, a Function for versions.
    Object(ObjectName),
}

/// `DESCRIBE` of a table or view: its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeTable {
    /// The table or view.
    pub table: ObjectName,
}

/// `DESCRIBE` of any other object. Jobs are in `job.rs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Describe {
    /// What is described.
    pub target: DescribeTarget,
}

/// What [`Describe`] describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DescribeTarget {
    /// A materialized view.
    MaterializedView(ObjectName),
    /// A Function.
    Function(ObjectName),
    /// A secret, never its value.
    Secret(ObjectName),
    /// A database.
    Database(Ident),
    /// A namespace.
    Schema(SchemaName),
    /// A storage integration.
    StorageIntegration(Ident),
    /// An index, named `<table>.<index>` or by itself.
    Index(ObjectName),
}

/// `COMMENT ON`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// What is commented.
    pub target: CommentTarget,
    /// The text; `None` removes it.
    pub comment: Option<String>,
}

/// What a comment is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommentTarget {
    /// A table.
    Table(ObjectName),
    /// A view.
    View(ObjectName),
    /// A materialized view.
    MaterializedView(ObjectName),
    /// A column of a table or view.
    Column {
        /// The table or view.
        table: ObjectName,
        /// The column.
        column: Ident,
    },
    /// A namespace.
    Schema(SchemaName),
    /// A database.
    Database(Ident),
    /// A Function.
    Function(ObjectName),
}

impl fmt::Display for CatalogListing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHOW {}", self.object.as_str())?;
        match &self.scope {
            None => {}
            Some(ListingScope::Schema(schema)) => write!(f, " IN {schema}")?,
            Some(ListingScope::Object(object)) => write!(f, " IN {object}")?,
        }
        if let Some(pattern) = &self.like {
            write!(f, " LIKE {}", Literal(pattern))?;
        }
        if let Some(name) = &self.name_after {
            write!(f, " WHERE name > {}", Literal(name))?;
        }
        if let Some(limit) = self.limit {
            write!(f, " LIMIT {limit}")?;
        }
        match &self.page_token {
            None => Ok(()),
            Some(token) => write!(f, " FROM {}", Literal(token)),
        }
    }
}

impl fmt::Display for DescribeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DESCRIBE TABLE {}", self.table)
    }
}

impl fmt::Display for Describe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DESCRIBE ")?;
        match &self.target {
            DescribeTarget::MaterializedView(name) => write!(f, "MATERIALIZED VIEW {name}"),
            DescribeTarget::Function(name) => write!(f, "FUNCTION {name}"),
            DescribeTarget::Secret(name) => write!(f, "SECRET {name}"),
            DescribeTarget::Database(name) => write!(f, "DATABASE {name}"),
            DescribeTarget::Schema(name) => write!(f, "SCHEMA {name}"),
            DescribeTarget::StorageIntegration(name) => write!(f, "STORAGE INTEGRATION {name}"),
            DescribeTarget::Index(name) => write!(f, "INDEX {name}"),
        }
    }
}

impl fmt::Display for Comment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("COMMENT ON ")?;
        match &self.target {
            CommentTarget::Table(name) => write!(f, "TABLE {name}")?,
            CommentTarget::View(name) => write!(f, "VIEW {name}")?,
            CommentTarget::MaterializedView(name) => write!(f, "MATERIALIZED VIEW {name}")?,
            CommentTarget::Column { table, column } => write!(f, "COLUMN {table}.{column}")?,
            CommentTarget::Schema(name) => write!(f, "SCHEMA {name}")?,
            CommentTarget::Database(name) => write!(f, "DATABASE {name}")?,
            CommentTarget::Function(name) => write!(f, "FUNCTION {name}")?,
        }
        match &self.comment {
            None => f.write_str(" IS NULL"),
            Some(text) => write!(f, " IS {}", Literal(text)),
        }
    }
}
