//! Mistakes that are looked for in the syntax tree, because once a query is bound they have no place in its text.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, Query, Select, SelectItem, SetExpr, SetOperator, Spanned, Statement, Visit, Visitor,
};
use sqlparser::tokenizer::Location;

use super::rewrite::{AGGREGATES, last_name};
use crate::error::SqlError;
use crate::sqlstate::SqlState;

/// Returns the first mistake of a statement, and where it is.
pub(crate) fn mistake(statement: &Statement) -> Option<(SqlError, Location)> {
    match statement.visit(&mut Queries) {
        ControlFlow::Break(found) => Some(found),
        ControlFlow::Continue(()) => None,
    }
}

struct Queries;

impl Visitor for Queries {
    type Break = (SqlError, Location);

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        widths(&query.body)
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Self::Break> {
        match &select.selection {
            Some(selection) => selection.visit(&mut Aggregates { depth: 0 }),
            None => ControlFlow::Continue(()),
        }
    }
}

/// Refuses rows of VALUES, and sides of UNION, of which one is longer than the other.
fn widths(body: &SetExpr) -> ControlFlow<(SqlError, Location)> {
    match body {
        SetExpr::Values(values) => {
            let width = values.rows.first().map_or(0, |row| row.content.len());
            let other = values.rows.iter().find(|row| row.content.len() != width);
            match other.and_then(|row| row.content.first()) {
                Some(first) => refuse("VALUES lists must all be the same length".to_owned(), first),
                None => ControlFlow::Continue(()),
            }
        }
        SetExpr::SetOperation { left, right, op, .. } => {
            widths(left)?;
            widths(right)?;
            match (width(left), width(right)) {
                (Some(left), Some((other, first))) if left.0 != other => {
                    let word = match op {
                        SetOperator::Intersect => "INTERSECT",
                        SetOperator::Except | SetOperator::Minus => "EXCEPT",
                        SetOperator::Union => "UNION",
                    };
                    refuse(format!("each {word} query must have the same number of columns"), first)
                }
                _ => ControlFlow::Continue(()),
            }
        }
        // Others are visited as queries of their own.
        _ => ControlFlow::Continue(()),
    }
}

/// Returns the number of columns of a SELECT without `*`, and the first of them.
fn width(body: &SetExpr) -> Option<(usize, &SelectItem)> {
    match body {
        SetExpr::Select(select) => {
            let plain =
                |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
            let first = select.projection.first()?;
            select.projection.iter().all(plain).then_some((select.projection.len(), first))
        }
        SetExpr::SetOperation { left, .. } => width(left),
        SetExpr::Query(query) => width(&query.body),
        _ => None,
    }
}

fn refuse(message: String, at: &impl Spanned) -> ControlFlow<(SqlError, Location)> {
    ControlFlow::Break((SqlError::new(SqlState::SYNTAX_ERROR, message), at.span().start))
}

/// Looks for aggregates outside of subqueries, where they are of the rows that are looked for.
struct Aggregates {
    depth: usize,
}

impl Visitor for Aggregates {
    type Break = (SqlError, Location);

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        match expr {
            Expr::Function(function) if self.depth == 0 && is_aggregate(function) => {
                let error = SqlError::new(SqlState::GROUPING_ERROR, "aggregate functions are not allowed in WHERE");
                ControlFlow::Break((error, function.name.span().start))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn is_aggregate(function: &Function) -> bool {
    function.over.is_none()
        && function.name.0.len() == 1
        && last_name(&function.name).is_some_and(|name| AGGREGATES.contains(&name.as_str()))
}
