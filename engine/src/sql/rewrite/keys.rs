//! `SELECT u.name, count(*) FROM u JOIN p … GROUP BY u.id`: by the primary key of a table its other columns may be named, too.
//!
//! They are put into GROUP BY. Nothing enforces a key here, and where two rows share one, each is a group.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, GroupByExpr, Ident, ObjectName, OrderBy, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableFactor, Value, Visit, VisitMut, Visitor, VisitorMut,
};

use super::last_name;

/// The primary key of a table, and all its columns.
pub(crate) struct Keyed {
    pub(crate) key: Vec<String>,
    pub(crate) columns: Vec<String>,
}

/// Completes every GROUP BY that has the whole key of a table; `keyed` tells of a table that is named so.
pub(crate) fn complete_groups(statement: &mut Statement, keyed: &dyn Fn(&ObjectName) -> Option<Keyed>) {
    let _ = statement.visit(&mut Groups { keyed });
}

struct Groups<'a> {
    keyed: &'a dyn Fn(&ObjectName) -> Option<Keyed>,
}

impl VisitorMut for Groups<'_> {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let ordered = query.order_by.clone();
        if let SetExpr::Select(select) = query.body.as_mut() {
            self.complete(select, ordered.as_ref());
        }
        ControlFlow::Continue(())
    }
}

impl Groups<'_> {
    fn complete(&self, select: &mut Select, ordered: Option<&OrderBy>) {
        let GroupByExpr::Expressions(groups, _) = &select.group_by else { return };
        if groups.is_empty() {
            return;
        }
        let grouped: Vec<Expr> = groups.iter().map(|group| meant(group, &select.projection)).collect();
        let named = Named::of(select, ordered);
        let factors = select
            .from
            .iter()
            .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
        let mut added = Vec::new();
        for factor in factors {
            let TableFactor::Table { name, alias, args: None, .. } = factor else { continue };
            let Some(Keyed { key, columns }) = (self.keyed)(name).filter(|keyed| !keyed.key.is_empty()) else {
                continue;
            };
            let relation = alias.as_ref().map(|alias| vec![alias.name.clone()]);
            let relation =
                relation.unwrap_or_else(|| name.0.iter().filter_map(|part| part.as_ident()).cloned().collect());
            let Some(shown) = relation.last() else { continue };
            let is = |group: &Expr, column: &str| match group {
                Expr::Identifier(ident) => same(ident, column),
                Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                    [.., table, ident] => spelled(table) == spelled(shown) && same(ident, column),
                    _ => false,
                },
                _ => false,
            };
            if !key.iter().all(|column| grouped.iter().any(|group| is(group, column))) {
                continue;
            }
            let everything = named.everything || named.wildcards.contains(&spelled(shown));
            for column in columns.iter().filter(|column| everything || named.columns.contains(*column)) {
                if !grouped.iter().any(|group| is(group, column)) {
                    let column = Ident::with_quote('"', column.clone());
                    added.push(Expr::CompoundIdentifier(relation.iter().cloned().chain([column]).collect()));
                }
            }
        }
        if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
            groups.extend(added);
        }
    }
}

/// A number in GROUP BY is an item of the select list.
fn meant(group: &Expr, projection: &[SelectItem]) -> Expr {
    let number = match group {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse::<usize>().ok(),
            _ => None,
        },
        _ => None,
    };
    match number.and_then(|number| projection.get(number.checked_sub(1)?)) {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => expr.clone(),
        _ => group.clone(),
    }
}

/// What the outputs of a SELECT name.
#[derive(Default)]
struct Named {
    columns: BTreeSet<String>,
    /// Relations of which all columns are.
    wildcards: BTreeSet<String>,
    everything: bool,
}

impl Named {
    fn of(select: &Select, ordered: Option<&OrderBy>) -> Self {
        let mut named = Self::default();
        for item in &select.projection {
            match item {
                SelectItem::Wildcard(_) => named.everything = true,
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    named.wildcards.extend(last_name(name));
                }
                _ => {}
            }
        }
        let _ = select.projection.visit(&mut named);
        let _ = select.having.visit(&mut named);
        if let Some(OrderBy { kind: OrderByKind::Expressions(exprs), .. }) = ordered {
            let _ = exprs.visit(&mut named);
        }
        named
    }
}

impl Visitor for Named {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let ident = match expr {
            Expr::Identifier(ident) => Some(ident),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        self.columns.extend(ident.map(spelled));
        ControlFlow::Continue(())
    }
}

fn same(ident: &Ident, column: &str) -> bool {
    spelled(ident) == column
}

/// The name that an identifier means.
fn spelled(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}
