//! Expressions and queries of requests, which are in Lance's dialect, in ours.
//!
//! There, a name is what it is spelled, in any case, and backticks quote it; in
//! PostgreSQL an unquoted name is folded. So every name of a column is quoted, and in
//! queries every name of a relation and every alias.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, TableFactor, VisitMut, VisitorMut,
    visit_relations,
};
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

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        for part in &mut relation.0 {
            if let ObjectNamePart::Identifier(name) = part {
                quote(name);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for table in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            quote(&mut table.alias.name);
        }
        quote_aliases(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } = factor
        {
            quote(&mut alias.name);
        }
        ControlFlow::Continue(())
    }
}

/// Quotes the names that a query gives its columns. The depth is that of set
/// operations, which the parser has bounded.
fn quote_aliases(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                if let SelectItem::ExprWithAlias { alias, .. } = item {
                    quote(alias);
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            quote_aliases(left);
            quote_aliases(right);
        }
        _ => {}
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

/// Returns a whole query of a request in PostgreSQL's spelling. What it may hold is
/// checked where it is planned.
///
/// # Errors
/// 400 if it is none, is too long or is nested too deeply.
pub(super) fn query(text: &str) -> Result<String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(RestError::invalid("the query is too long"));
    }
    let bad = |error: &dyn std::fmt::Display| RestError::invalid(format!("\"{text}\" is not a query: {error}"));
    let parser = Parser::new(&LanceDialect).with_recursion_limit(DEPTH_MAX);
    let mut parser = parser.try_with_sql(text).map_err(|error| bad(&error))?;
    let mut query = parser.parse_query().map_err(|error| bad(&error))?;
    parser.expect_token(&sqlparser::tokenizer::Token::EOF).map_err(|error| bad(&error))?;
    if !matches!(
        *query.body,
        SetExpr::Select(_) | SetExpr::SetOperation { .. } | SetExpr::Query(_) | SetExpr::Values(_)
    ) {
        return Err(bad(&"it changes rows"));
    }
    let _ = query.visit(&mut Quote);
    Ok(query.to_string())
}

/// Returns the parts of the name of the first relation that a stored query names.
pub(super) fn first_relation(text: &str) -> Option<Vec<String>> {
    let dialect = sqlparser::dialect::PostgreSqlDialect {};
    let parser = Parser::new(&dialect).with_recursion_limit(DEPTH_MAX);
    let query = parser.try_with_sql(text).ok()?.parse_query().ok()?;
    let found = visit_relations(&query, |relation| ControlFlow::Break(relation.clone()));
    let ControlFlow::Break(ObjectName(parts)) = found else { return None };
    let parts = parts.into_iter().filter_map(|part| match part {
        ObjectNamePart::Identifier(name) => Some(lancegate_sql::Ident::from_native(&name).into_string()),
        ObjectNamePart::Function(_) => None,
    });
    Some(parts.collect()).filter(|parts: &Vec<String>| !parts.is_empty())
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
        let both = "SELECT `Id` AS \"Id\", x + 1 as Y FROM \"t\" WHERE Id > 1 LIMIT 3";
        let told = query(both).unwrap();
        assert_eq!(told, "SELECT \"Id\" AS \"Id\", \"x\" + 1 AS \"Y\" FROM \"t\" WHERE \"Id\" > 1 LIMIT 3");
        assert_eq!(first_relation(&told), Some(vec!["t".to_owned()]));
        for bad in ["", "SELECT", "SELECT 1; SELECT 2", "DELETE FROM t", "SELECT `a FROM t"] {
            assert!(query(bad).is_err(), "{bad}");
        }
        let deep = format!("{}1{}", "(".repeat(1_000), ")".repeat(1_000));
        assert!(expression(&deep).is_err());
    }
}
