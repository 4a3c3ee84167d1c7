//! Calls that DataFusion takes for one another.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, OrderBy, OrderByKind, Query, SetExpr, Value,
    VisitMut, VisitorMut,
};

use super::forms::{call_with, last_name};
use super::outside;
use crate::sql::opaque;

/// Functions that only groups of rows have. DataFusion tells their results apart by the text of their arguments, in which it
/// leaves casts out.
pub(crate) const AGGREGATES: [&str; 18] = [
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bool_and",
    "bool_or",
    "count",
    "every",
    "max",
    "min",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
];

/// Makes a call of its own of each `nextval`: equal calls of a row are made once. `count` is how many there were.
pub(super) fn number_sequence_call(function: &mut Function, count: &mut usize) {
    if last_name(&function.name).as_deref() != Some("nextval") {
        return;
    }
    *count += 1;
    if *count > 1 {
        distinguish(function, *count);
    }
}

/// Tells aggregates of one query apart that differ by casts alone.
pub(super) fn distinguish_aggregates(query: &mut Query) {
    // The calls of each text without casts.
    let mut known: HashMap<String, Vec<String>> = HashMap::new();
    let mut distinguish = |expr: &mut Expr| distinguish_aggregate(expr, &mut known);
    if let SetExpr::Select(select) = query.body.as_mut() {
        outside::of_subqueries(&mut select.projection, &mut distinguish);
        outside::of_subqueries(&mut select.having, &mut distinguish);
        if let Some(OrderBy { kind: OrderByKind::Expressions(exprs), .. }) = &mut query.order_by {
            outside::of_subqueries(exprs, &mut distinguish);
        }
    }
}

fn distinguish_aggregate(expr: &mut Expr, known: &mut HashMap<String, Vec<String>>) {
    let Expr::Function(function) = expr else { return };
    if !last_name(&function.name).is_some_and(|name| AGGREGATES.contains(&name.as_str())) {
        return;
    }
    let (written, mut bare) = (function.to_string(), Expr::Function(function.clone()));
    let _ = bare.visit(&mut WithoutCasts);
    let same = known.entry(bare.to_string()).or_default();
    let index = same.iter().position(|known| *known == written).unwrap_or_else(|| {
        same.push(written);
        same.len() - 1
    });
    if index > 0 {
        distinguish(function, index);
    }
}

struct WithoutCasts;

impl VisitorMut for WithoutCasts {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        while let Expr::Cast { expr: inner, .. } = expr {
            let inner = inner.as_ref().clone();
            *expr = inner;
        }
        ControlFlow::Continue(())
    }
}

/// Hides the first argument of a call, together with a number.
fn distinguish(function: &mut Function, number: usize) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first_mut() {
        let number = Expr::Value(Value::Number(number.to_string(), false).with_empty_span());
        let arguments = [first.clone(), number].map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)));
        *first = call_with(opaque::NAME, arguments.to_vec());
    }
}
