//! A search of a view, in the words of a SELECT.
//!
//! Filter and expressions are in Lance's dialect, where every name is as it is
//! stored and a backtick quotes. They are parsed as that, each as one expression,
//! and written again with PostgreSQL's quotes; so nothing in them can end the
//! statement that they become a part of.

use std::any::TypeId;
use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, Value, VisitMut, VisitorMut};
use sqlparser::dialect::{Dialect, GenericDialect};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};

use super::{CountRequest, SearchRequest, path_parts};
use crate::error::{Result, SqlError};
use crate::sql::plan::Planner;
use crate::sql::plan::query::QueryPlan;
use crate::sqlstate::SqlState;
use crate::storage::provider::is_system_column;
use crate::storage::search::{Projection, SEARCH_COLUMNS};

/// SQL as Lance reads it.
#[derive(Debug)]
struct Lance(GenericDialect);

impl Dialect for Lance {
    fn dialect(&self) -> TypeId {
        self.0.dialect()
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        self.0.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        self.0.is_identifier_part(ch)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`'
    }
}

/// Returns the tokens of a piece of SQL; `==` is `=`, as Lance has it.
fn tokens(sql: &str) -> Result<Vec<Token>> {
    let mut tokens = Tokenizer::new(&Lance(GenericDialect {}), sql).tokenize().map_err(syntax)?;
    tokens.iter_mut().filter(|token| **token == Token::DoubleEq).for_each(|token| *token = Token::Eq);
    Ok(tokens)
}

/// Parses one expression and nothing after it.
fn parsed(sql: &str) -> Result<Expr> {
    let dialect = Lance(GenericDialect {});
    let mut parser = Parser::new(&dialect).with_tokens(tokens(sql)?);
    let expression = parser.parse_expr().map_err(syntax)?;
    parser.expect_token(&Token::EOF).map_err(syntax)?;
    Ok(expression)
}

/// Returns the names and keywords of an expression. Lance itself reads what stands
/// in front of a semicolon or a LIMIT and passes over the rest.
///
/// # Errors
/// 42601 for anything but one expression.
pub(super) fn words(sql: &str) -> Result<Vec<String>> {
    parsed(sql)?;
    let words = tokens(sql)?.into_iter().filter_map(|token| match token {
        Token::Word(word) => Some(word.value),
        _ => None,
    });
    Ok(words.collect())
}

impl Planner {
    /// Binds a search of a view.
    ///
    /// # Errors
    /// 0A000 for what only a table has, and as SELECT.
    pub(super) async fn view_search(&self, request: &SearchRequest) -> Result<QueryPlan> {
        let search = &request.search;
        ensure_newest(request.version, request.branch.as_deref())?;
        if !search.vectors.is_empty() || search.full_text.is_some() {
            let name = &request.table.name;
            return Err(SqlError::not_supported(format!("\"{name}\" is a view, which cannot be searched"))
                .hint("Search the table that it reads."));
        }
        if search.with_row_id {
            return Err(SqlError::not_supported("rows of a view have no row ids"));
        }
        let columns = match &search.columns {
            Projection::All => "*".to_owned(),
            Projection::Names(names) => list(names.iter().map(|name| column(name)))?,
            Projection::Expressions(expressions) => {
                list(expressions.iter().map(|(name, sql)| Ok(format!("{} AS {}", rewritten(sql)?, quoted(name)))))?
            }
        };
        let mut text = format!("SELECT {columns} FROM {}", request.table);
        if let Some(filter) = &search.filter {
            text.push_str(&format!(" WHERE {}", rewritten(filter)?));
        }
        if !search.order_by.is_empty() {
            let keys = search.order_by.iter().map(|key| {
                let direction = if key.ascending { "ASC" } else { "DESC" };
                let nulls = if key.nulls_first { "FIRST" } else { "LAST" };
                Ok(format!("{} {direction} NULLS {nulls}", column(&key.column)?))
            });
            text.push_str(&format!(" ORDER BY {}", list(keys)?));
        }
        if let Some(limit) = search.bound() {
            text.push_str(&format!(" LIMIT {limit}"));
        }
        if let Some(offset) = search.offset.filter(|offset| *offset > 0) {
            text.push_str(&format!(" OFFSET {}", offset.min(i64::MAX.cast_unsigned())));
        }
        self.bind_text(&text).await
    }

    /// Binds a question for the rows of a view.
    ///
    /// # Errors
    /// As [`Self::view_search`].
    pub(super) async fn view_count(&self, request: &CountRequest) -> Result<QueryPlan> {
        ensure_newest(request.version, request.branch.as_deref())?;
        let mut text = format!("SELECT count(*) FROM {}", request.table);
        if let Some(filter) = &request.filter {
            text.push_str(&format!(" WHERE {}", rewritten(filter)?));
        }
        self.bind_text(&text).await
    }

    async fn bind_text(&self, text: &str) -> Result<QueryPlan> {
        let mut parsed = lancegate_sql::parse(text, self.engine.limits())?;
        let query = match (parsed.pop().map(|parsed| parsed.statement), parsed.is_empty()) {
            (Some(lancegate_sql::Statement::Query(query)), true) => *query,
            _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "the search of a view is not one query")),
        };
        let bound = self.bind_query(query).await.map_err(|error| error.at(None))?;
        match bound.parameters.reported.is_empty() {
            true => Ok(bound),
            false => Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, "a search has no parameters")),
        }
    }
}

fn ensure_newest(version: Option<u64>, branch: Option<&str>) -> Result<()> {
    if version.is_some() || branch.is_some_and(|branch| branch != "main") {
        return Err(SqlError::not_supported("a view has no versions and no branches"));
    }
    Ok(())
}

fn list(parts: impl Iterator<Item = Result<String>>) -> Result<String> {
    Ok(parts.collect::<Result<Vec<_>>>()?.join(", "))
}

fn column(path: &str) -> Result<String> {
    if is_system_column(path) || SEARCH_COLUMNS.contains(&path) {
        let message = format!("column \"{path}\" does not exist");
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).detail("Rows of a view have no system columns."));
    }
    Ok(path_parts(path).iter().map(|part| quoted(part)).collect::<Vec<_>>().join("."))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns an expression of Lance's dialect in PostgreSQL's.
fn rewritten(sql: &str) -> Result<String> {
    let mut expression = parsed(sql)?;
    let _ = expression.visit(&mut Requoted);
    Ok(format!("({expression})"))
}

struct Requoted;

impl VisitorMut for Requoted {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let requote = |ident: &mut Ident| ident.quote_style = Some('"');
        match expression {
            Expr::Identifier(ident) => requote(ident),
            Expr::CompoundIdentifier(idents) => idents.iter_mut().for_each(requote),
            Expr::Value(value) => {
                if let Value::DoubleQuotedString(text) = &value.value {
                    value.value = Value::SingleQuotedString(text.clone());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn syntax(error: impl std::fmt::Display) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in a filter or an expression").detail(format!("{error}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_case_and_quotes_change() {
        let cases = [
            ("`Id` > 10 AND x = 'a''b'", r#"("Id" > 10 AND "x" = 'a''b')"#),
            ("a == 1", r#"("a" = 1)"#),
            ("lower(Name) IN ('x')", r#"(lower("Name") IN ('x'))"#),
            ("`a\"b`.c IS NULL", r#"("a""b"."c" IS NULL)"#),
        ];
        for (lance, postgres) in cases {
            assert_eq!(rewritten(lance).unwrap(), postgres);
        }
    }

    #[test]
    fn only_one_expression_is_taken() {
        for sql in ["1 = 1; DROP TABLE t", "true) OR (true", "true LIMIT 1", "", "'open"] {
            assert_eq!(rewritten(sql).unwrap_err().code, SqlState::SYNTAX_ERROR, "{sql}");
        }
    }
}
