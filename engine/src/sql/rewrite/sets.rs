//! Subqueries that are sets: `= ANY (…)`, `IN (…)` where a value is expected, and subqueries among VALUES.

use std::ops::ControlFlow;

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, FunctionArg, FunctionArgExpr, Ident, OrderBy, OrderByExpr, OrderByKind,
    OrderByOptions, Query, Select, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
    Value, Values, Visit, Visitor,
};

use super::forms::{call_with, row, united};
use super::{build, outside};
use crate::sql::opaque;

/// What a set is called inside of a rewritten expression, and its column.
const SET: &str = "__set";
const MEMBER: &str = "member";
/// What VALUES are called that are made queries, and the column that numbers them.
const ROWS: &str = "__rows";
const ORDINAL: &str = "ordinal";

/// Puts `= ANY (query)` and `<> ALL (query)` as IN. The other comparisons get a name around their query: DataFusion
/// puts their left side inside of it, where a column of the same name would be meant otherwise.
pub(super) fn compared(expr: &mut Expr) {
    match expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            if let Expr::Subquery(query) = right.as_mut() {
                *expr = Expr::InSubquery { expr: left.clone(), subquery: query.clone(), negated: false };
            }
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            if let Expr::Subquery(query) = right.as_mut() {
                *expr = Expr::InSubquery { expr: left.clone(), subquery: query.clone(), negated: true };
            }
        }
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
            if let Expr::Subquery(query) = right.as_mut() {
                let inner = query.as_ref().clone();
                **query = build::query(build::all_columns(set(inner, Vec::new())));
            }
        }
        _ => {}
    }
}

fn set(query: Query, columns: Vec<TableAliasColumnDef>) -> TableFactor {
    let alias = TableAlias { explicit: true, name: Ident::with_quote('"', SET), columns, at: None };
    TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(alias), sample: None }
}

/// Makes values of the IN in the select list, which DataFusion plans in WHERE only.
pub(super) fn in_as_value(select: &mut Select) {
    for item in &mut select.projection {
        let unnamed =
            matches!(item, SelectItem::UnnamedExpr(Expr::InSubquery { .. } | Expr::AnyOp { .. } | Expr::AllOp { .. }));
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            outside::of_subqueries(expr, member_as_value);
            if unnamed && matches!(expr, Expr::Case { .. }) {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', "?column?") };
            }
        }
    }
}

fn member_as_value(expr: &mut Expr) {
    compared(expr);
    if let Expr::InSubquery { expr: member, subquery, negated } = expr
        && !matches!(member.as_ref(), Expr::Tuple(_))
    {
        *expr = membership(member, subquery, *negated);
    }
}

/// `x IN (query)`: true if a row is equal, otherwise NULL if x or a row is NULL, otherwise false; without rows false.
fn membership(member: &Expr, query: &Query, negated: bool) -> Expr {
    let truth = |value: bool| Expr::Value(Value::Boolean(value).with_empty_span());
    let column = || Expr::CompoundIdentifier(vec![Ident::with_quote('"', SET), Ident::with_quote('"', MEMBER)]);
    let equal = binary(column(), BinaryOperator::Eq, Expr::Nested(Box::new(member.clone())));
    let unknown = Expr::IsNull(Box::new(Expr::Nested(Box::new(member.clone()))));
    let when = |condition: Expr, result: Expr| CaseWhen { condition, result };
    let null = || Expr::Value(Value::Null.with_empty_span());
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![
            when(has_rows(query, Some(equal)), truth(!negated)),
            when(binary(unknown, BinaryOperator::And, has_rows(query, None)), null()),
            when(has_rows(query, Some(Expr::IsNull(Box::new(column())))), null()),
        ],
        else_result: Some(Box::new(truth(negated))),
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// `(SELECT count(*) FROM (query) AS set WHERE condition) > 0`
fn has_rows(query: &Query, condition: Option<Expr>) -> Expr {
    let count = call_with("count", vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
    let columns = vec![TableAliasColumnDef { name: Ident::with_quote('"', MEMBER), data_type: None }];
    let from = TableWithJoins { relation: set(query.clone(), columns), joins: Vec::new() };
    let counted = build::select(vec![SelectItem::UnnamedExpr(count)], vec![from], condition);
    let counted = Expr::Subquery(Box::new(build::query(SetExpr::Select(Box::new(counted)))));
    binary(counted, BinaryOperator::Gt, Expr::Value(Value::Number("0".to_owned(), false).with_empty_span()))
}

/// Makes a query of VALUES that hold a query, which DataFusion does not run there.
pub(super) fn values_with_queries(query: &mut Query) {
    if let SetExpr::Values(values) = query.body.as_mut()
        && holds_query(values)
        && let Some(body) = selected(values)
    {
        *query.body = body;
    }
}

/// Returns whether there is a query among the values.
pub fn holds_query(values: &Values) -> bool {
    struct Queries;
    impl Visitor for Queries {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    values.visit(&mut Queries).is_break()
}

/// Returns the same rows as a query; their order is kept where it is the outermost one.
pub fn in_order(values: &mut Values) -> Option<Query> {
    match selected(values)? {
        SetExpr::Query(query) => Some(*query),
        row => Some(build::query(row)),
    }
}

/// Returns the same rows as the body of a query.
fn selected(values: &mut Values) -> Option<SetExpr> {
    let width = values.rows.first()?.content.len();
    let mut rows = std::mem::take(&mut values.rows);
    if rows.len() == 1 {
        return rows.pop().map(row);
    }
    let numbered = rows.into_iter().enumerate().map(|(index, mut values)| {
        // As a constant of each part it would be taken for one of all of them.
        let number = Expr::Value(Value::Number(index.to_string(), false).with_empty_span());
        values.content.push(call_with(opaque::NAME, vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(number))]));
        let SetExpr::Select(mut select) = row(values) else { unreachable!("a row is a SELECT") };
        if let Some(SelectItem::ExprWithAlias { alias, .. }) = select.projection.last_mut() {
            *alias = Ident::new(ORDINAL);
        }
        SetExpr::Select(select)
    });
    let all = united(numbered.collect())?;
    let alias = TableAlias { explicit: true, name: Ident::with_quote('"', ROWS), columns: Vec::new(), at: None };
    let relation = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(build::query(all)),
        alias: Some(alias),
        sample: None,
    };
    let columns =
        (1..=width).map(|number| SelectItem::UnnamedExpr(Expr::Identifier(Ident::new(format!("column{number}")))));
    let from = TableWithJoins { relation, joins: Vec::new() };
    let mut query = build::query(SetExpr::Select(Box::new(build::select(columns.collect(), vec![from], None))));
    let by = OrderByExpr {
        expr: Expr::Identifier(Ident::new(ORDINAL)),
        options: OrderByOptions { asc: None, nulls_first: None },
        with_fill: None,
    };
    query.order_by = Some(OrderBy { kind: OrderByKind::Expressions(vec![by]), interpolate: None });
    Some(SetExpr::Query(Box::new(query)))
}
