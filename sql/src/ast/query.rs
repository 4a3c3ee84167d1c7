//! Queries and their plans.
//!
//! ```sql
//! EXPLAIN [ANALYZE] [VERBOSE] <query or row change>
//! EXPLAIN (ANALYZE [<boolean>], VERBOSE [<boolean>], FORMAT {TEXT | JSON | TREE}, …) <…>
//! ```
//!
//! Example: `EXPLAIN (ANALYZE, FORMAT JSON) SELECT 1`

use std::fmt;

use super::Statement;

/// A `SELECT`, `WITH`, `VALUES` or `TABLE` statement of the native parser.
pub type Query = sqlparser::ast::Statement;

/// `EXPLAIN` of a query or a row change.
#[derive(Debug, Clone, PartialEq)]
pub struct Explain {
    /// What the plan shows.
    pub options: ExplainOptions,
    /// The explained statement.
    pub statement: Box<Statement>,
}

/// The options of `EXPLAIN`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExplainOptions {
    /// Whether the statement is run.
    pub analyze: bool,
    /// Whether every step of the planner is shown.
    pub verbose: bool,
    /// The form of the answer; `None` when the text names none.
    pub format: Option<ExplainFormat>,
}

/// The forms of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExplainFormat {
    /// Lines of text.
    Text,
    /// One JSON document.
    Json,
    /// Boxes that are joined by lines.
    Tree,
}

impl ExplainFormat {
    /// Returns the keyword.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "TEXT",
            Self::Json => "JSON",
            Self::Tree => "TREE",
        }
    }
}

impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EXPLAIN ")?;
        let ExplainOptions { analyze, verbose, format } = self.options;
        let format = format.map(|format| format!("FORMAT {}", format.as_str()));
        let options: Vec<&str> = [analyze.then_some("ANALYZE"), verbose.then_some("VERBOSE"), format.as_deref()]
            .into_iter()
            .flatten()
            .collect();
        if !options.is_empty() {
            write!(f, "({}) ", options.join(", "))?;
        }
        write!(f, "{}", self.statement)
    }
}
