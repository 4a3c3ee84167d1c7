//! Select lists with `unnest`, of which a column is called as one that is read for it: `SELECT unnest(k), upper(s) AS s
//! FROM t`. DataFusion keeps both in one projection below the unnested rows, where the name would be ambiguous, so the
//! list is computed under other names and named around that.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, Ident, OrderBy, OrderByKind, Query, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins,
    Visit, Visitor,
};

use super::{build, last_name};
use crate::sql::labels::{fold, name_of};

/// What the rows are called inside.
const ROWS: &str = "unnested";

/// Names the columns of such a list around it.
pub(super) fn names_around(query: &mut Query) {
    if query.with.is_some() {
        return;
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let mut read = Read::default();
    for item in &select.projection {
        let _ = item.visit(&mut read);
    }
    let clashes = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) && read.columns.contains(&fold(alias))
        }
        _ => false,
    };
    if !read.unnests || !select.projection.iter().any(clashes) {
        return;
    }
    let Some(names) = select.projection.iter().map(name_of).collect::<Option<Vec<_>>>() else { return };
    if !query.order_by.as_ref().is_none_or(|order| orders_by(order, &names)) {
        return;
    }
    let inner = |index: usize| Ident::with_quote('"', format!("{ROWS}{index}"));
    for (index, item) in select.projection.iter_mut().enumerate() {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: inner(index) };
        }
    }
    let list = names.into_iter().enumerate().map(|(index, name)| SelectItem::ExprWithAlias {
        expr: Expr::Identifier(inner(index)),
        alias: Ident::with_quote('"', name),
    });
    let rows = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(build::query(SetExpr::Select(select.clone()))),
        alias: Some(TableAlias { explicit: true, name: Ident::new(ROWS), columns: Vec::new(), at: None }),
        sample: None,
    };
    let from = vec![TableWithJoins { relation: rows, joins: Vec::new() }];
    **select = build::select(list.collect(), from, None);
}

/// Returns whether an order is one of names and places of the list, which are the same around it.
fn orders_by(order: &OrderBy, names: &[String]) -> bool {
    let OrderByKind::Expressions(all) = &order.kind else { return false };
    all.iter().all(|one| match &one.expr {
        Expr::Identifier(name) => names.contains(&fold(name)),
        Expr::Value(_) => true,
        _ => false,
    })
}

/// What a select list reads.
#[derive(Default)]
struct Read {
    columns: Vec<String>,
    unnests: bool,
}

impl Visitor for Read {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => self.columns.push(fold(name)),
            Expr::CompoundIdentifier(parts) => self.columns.extend(parts.last().map(fold)),
            Expr::Function(Function { name, .. }) => {
                self.unnests |= last_name(name).is_some_and(|name| name == "unnest")
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
