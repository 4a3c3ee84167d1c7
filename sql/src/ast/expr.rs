//! Parts that several statements share.

use std::fmt;

use sqlparser::ast::Expr;

/// Where something stood in the text; all positions compare equal, so that two
/// statements that say the same are the same.
#[derive(Debug, Clone, Copy, Default)]
pub struct Position(pub Option<usize>);

impl Position {
    /// Returns the 1-based position in characters from the start of the text.
    pub fn get(self) -> Option<usize> {
        self.0
    }
}

impl PartialEq for Position {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Position {}

/// An expression together with the text it was written as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceExpr {
    /// The tree; its spans count lines and columns of the whole text.
    pub expr: Expr,
    /// The exact source, from the first token to the last.
    pub text: String,
    /// Where the source starts.
    pub position: Position,
}

impl fmt::Display for SourceExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
