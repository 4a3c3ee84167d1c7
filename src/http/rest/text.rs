//! Expressions of requests, which are in Lance's dialect, in ours.
//!
//! There, a name is what it is spelled, in any case, and backticks quote it; in
//! PostgreSQL an unquoted name is folded. So every name of a column is quoted.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, VisitMut, VisitorMut};
use sqlparser::dialect::Dialect;
use sqlparser::parser::Parser;

use super::error::{RestError, Result};

/// The longest expression in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// How deep an expression may be nested.
const DEPTH_MAX: usize = 128;

/// What LanceDB's clients write.
#[derive(Debug)]
struct LanceDialect;

impl Dialect for LanceDialect {
    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`' || ch == '"'
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_'
    }
}

/// Quotes names as PostgreSQL does.
struct Quote;

impl VisitorMut for Quote {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => quote(name),
            Expr::CompoundIdentifier(names) => names.iter_mut().for_each(quote),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn quote(name: &mut Ident) {
    name.quote_style = Some('"');
}

/// Returns an expression of a request in PostgreSQL's spelling.
///
/// # Errors
/// 400 if it is none, is too long or is nested too deeply.
pub(super) fn expression(text: &str) -> Result<String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(RestError::invalid("the expression is too long"));
    }
    let bad = |error: &dyn std::fmt::Display| RestError::invalid(format!("\"{text}\" is not an expression: {error}"));
    let parser = Parser::new(&LanceDialect).with_recursion_limit(DEPTH_MAX);
    let mut parser = parser.try_with_sql(text).map_err(|error| bad(&error))?;
    let mut expr = parser.parse_expr().map_err(|error| bad(&error))?;
    parser.expect_token(&sqlparser::tokenizer::Token::EOF).map_err(|error| bad(&error))?;
    let _ = expr.visit(&mut Quote);
    Ok(expr.to_string())
}

/// Returns an expression that is stored with a table: as it was written where both
/// dialects read it the same, so that other software finds its own words.
///
/// # Errors
/// As [`expression`].
pub(super) fn stored_expression(text: &str) -> Result<String> {
    let quoted = expression(text)?;
    let plain = |c: char| c.is_ascii() && c != '`' && c != '"' && !c.is_ascii_uppercase();
    Ok(if text.chars().all(plain) { text.trim().to_owned() } else { quoted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_spelling_and_functions_theirs() {
        let told = |text: &str| expression(text).unwrap();
        assert_eq!(told("`B` > 10 and lower(a) = 'it''s'"), "\"B\" > 10 AND lower(\"a\") = 'it''s'");
        assert_eq!(told("Info.words + 1"), "\"Info\".\"words\" + 1");
        assert_eq!(told("cast(NULL as int)"), "CAST(NULL AS INT)");
        assert_eq!(stored_expression(" id  * 2 ").unwrap(), "id  * 2");
        assert_eq!(stored_expression("Id * 2").unwrap(), "\"Id\" * 2");
        for bad in ["", "a >", "a; drop table t", "a b", "'a"] {
            assert!(expression(bad).is_err(), "{bad}");
        }
        let deep = format!("{}1{}", "(".repeat(1_000), ")".repeat(1_000));
        assert!(expression(&deep).is_err());
    }
}
