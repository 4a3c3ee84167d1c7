//! Rewrites for queries that clients send to the catalog.
//!
//! DataFusion has no type whose values are names of objects, and plans a scalar
//! subquery only where an aggregate or LIMIT shows that it gives one row. Both
//! are harmless to help along where only catalog relations are read: names
//! become subqueries over the catalog, and a subquery that PostgreSQL would
//! check at run time is taken at its first row.

use std::ops::ControlFlow;

use datafusion_pg_catalog::sql::rules::{
    RemoveSubqueryFromProjection, RewriteRegCastToSubquery, SqlStatementRewriteRule,
};
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, GroupByExpr, Ident,
    ObjectName, Query, SelectItem, SetExpr, Statement, VisitMut, VisitorMut,
};

/// Replaces `'name'::regclass` and its kin, and gives scalar subqueries one row.
pub fn rewrite(statement: Statement) -> Statement {
    let mut statement = RewriteRegCastToSubquery::new().rewrite(statement);
    let _ = statement.visit(&mut OneRow);
    statement
}

/// The last resort for a catalog query that still cannot be bound: correlated
/// subqueries of its select list become NULL, as if nothing were declared.
pub fn without_subqueries(statement: Statement) -> Statement {
    RemoveSubqueryFromProjection.rewrite(RewriteRegCastToSubquery::new().rewrite(statement))
}

struct OneRow;

impl VisitorMut for OneRow {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Subquery(query) = expr {
            first_row(query);
        }
        ControlFlow::Continue(())
    }
}

/// `(SELECT e FROM … WHERE …)` becomes `(SELECT first_value(e) FROM … WHERE …)`.
fn first_row(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if exprs.is_empty());
    if grouped || select.having.is_some() || select.distinct.is_some() || select.from.is_empty() {
        return;
    }
    let [item] = select.projection.as_mut_slice() else { return };
    let expr = match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr,
        _ => return,
    };
    if is_aggregate(expr) {
        return;
    }
    *expr = call("first_value", expr.clone());
    query.limit_clause = None;
    query.order_by = None;
}

fn is_aggregate(expr: &Expr) -> bool {
    const AGGREGATES: [&str; 9] =
        ["count", "max", "min", "sum", "avg", "array_agg", "string_agg", "bool_or", "first_value"];
    match expr {
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident());
            let aggregate = name.is_some_and(|name| AGGREGATES.contains(&name.value.to_ascii_lowercase().as_str()));
            aggregate || arguments(function).any(is_aggregate)
        }
        Expr::Cast { expr, .. } | Expr::Nested(expr) => is_aggregate(expr),
        Expr::BinaryOp { left, right, .. } => is_aggregate(left) || is_aggregate(right),
        _ => false,
    }
}

fn arguments(function: &Function) -> impl Iterator<Item = &Expr> {
    let list = match &function.args {
        FunctionArguments::List(list) => list.args.as_slice(),
        _ => &[],
    };
    list.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

fn call(name: &str, argument: Expr) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
