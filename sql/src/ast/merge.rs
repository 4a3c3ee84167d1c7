//! `MERGE`. The native tree has no `DO NOTHING`, so this is one of our own.
//!
//! Example: `MERGE INTO docs USING news ON docs.id = news.id WHEN MATCHED THEN DELETE`

use std::fmt;

use sqlparser::ast as native;

/// `MERGE INTO … USING … ON … WHEN …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    /// The table that changes, with its alias.
    pub target: native::TableFactor,
    /// The rows that are merged into it.
    pub source: native::TableFactor,
    /// Which rows belong together.
    pub on: native::Expr,
    /// What is done with them; the first one that applies counts.
    pub clauses: Vec<MergeClause>,
}

/// `WHEN … [AND …] THEN …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeClause {
    /// Which rows it is about.
    pub matching: Matching,
    /// What must hold for them besides.
    pub condition: Option<native::Expr>,
    /// What is done.
    pub action: MergeAction,
}

/// Which pairs of rows a clause is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// `MATCHED`
    Matched,
    /// `NOT MATCHED [BY TARGET]`: rows of the source alone.
    NotMatchedByTarget,
    /// `NOT MATCHED BY SOURCE`: rows of the target alone.
    NotMatchedBySource,
}

/// What a clause does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeAction {
    /// `UPDATE SET …`
    Update(Vec<native::Assignment>),
    /// `DELETE`
    Delete,
    /// `INSERT [(…)] {VALUES (…) | DEFAULT VALUES}`
    Insert {
        /// The columns that are named; empty for all.
        columns: Vec<native::Ident>,
        /// Their values; `None` for `DEFAULT VALUES`.
        values: Option<Vec<native::Expr>>,
    },
    /// `DO NOTHING`
    Nothing,
}

impl fmt::Display for Merge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MERGE INTO {} USING {} ON {}", self.target, self.source, self.on)?;
        self.clauses.iter().try_for_each(|clause| write!(f, " {clause}"))
    }
}

impl fmt::Display for MergeClause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let matching = match self.matching {
            Matching::Matched => "MATCHED",
            Matching::NotMatchedByTarget => "NOT MATCHED",
            Matching::NotMatchedBySource => "NOT MATCHED BY SOURCE",
        };
        write!(f, "WHEN {matching}")?;
        if let Some(condition) = &self.condition {
            write!(f, " AND {condition}")?;
        }
        write!(f, " THEN {}", self.action)
    }
}

impl fmt::Display for MergeAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Update(assignments) => {
                write!(f, "UPDATE SET {}", listed(assignments))
            }
            Self::Delete => f.write_str("DELETE"),
            Self::Nothing => f.write_str("DO NOTHING"),
            Self::Insert { columns, values } => {
                f.write_str("INSERT")?;
                if !columns.is_empty() {
                    write!(f, " ({})", listed(columns))?;
                }
                match values {
                    Some(values) => write!(f, " VALUES ({})", listed(values)),
                    None => f.write_str(" DEFAULT VALUES"),
                }
            }
        }
    }
}

fn listed<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
