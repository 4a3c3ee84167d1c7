//! How much SQL is read.
//!
//! The parser recurses into nested text, and the trees of long flat chains are
//! dropped recursively, so both are bounded on the token stream, before a tree
//! exists. A stack overflow cannot be caught; this is the only guard.

/// Bounds on one SQL text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The longest text in bytes.
    pub sql_bytes_max: usize,
    /// How deep parentheses, brackets, `CASE` and casts may nest in a statement.
    pub nesting_depth_max: usize,
    /// How many tokens a text may have, comments and blanks not counted.
    pub tokens_max: usize,
    /// How many terms a chain of operators, set operations, joins, casts or
    /// subscripts without parentheses may have.
    pub chain_terms_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sql_bytes_max: 16 * 1024 * 1024,
            nesting_depth_max: 32,
            tokens_max: 1_000_000,
            chain_terms_max: 1_000,
        }
    }
}
