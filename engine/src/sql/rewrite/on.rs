//! `FROM a JOIN b ON b.x = (SELECT … WHERE … = a.y)`: a subquery in ON that names one relation before it.
//!
//! DataFusion takes correlated subqueries in the select list and in WHERE only, so that it becomes a column of a query that
//! takes the place of that relation. `*` does not show the column.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, Visit, Visitor,
    WildcardAdditionalOptions,
};

use super::{build, last_name, outside};

/// Moves such subqueries of one FROM.
pub(super) fn subqueries(select: &mut Select) {
    let mut moved: Vec<(String, Ident)> = Vec::new();
    for from in &mut select.from {
        for index in 0..from.joins.len() {
            let (before, joins) = from.joins.split_at_mut(index);
            let relations: Vec<String> = std::iter::once(&from.relation)
                .chain(before.iter().map(|join| &join.relation))
                .filter_map(shown)
                .collect();
            let Some(condition) = condition(&mut joins[0].join_operator) else { continue };
            let mut taken: Vec<(String, Ident, Box<Query>)> = Vec::new();
            let first = moved.len();
            outside::of_subqueries(condition, |expr| {
                let Expr::Subquery(query) = expr else { return };
                let Some(owner) = owner(query, &relations) else { return };
                let column = Ident::with_quote('"', format!("__on_{}", first + taken.len()));
                let parts = vec![Ident::with_quote('"', owner.clone()), column.clone()];
                let query = std::mem::replace(expr, Expr::CompoundIdentifier(parts));
                if let Expr::Subquery(query) = query {
                    taken.push((owner, column, query));
                }
            });
            for (owner, column, query) in taken {
                let joined = from.joins.iter_mut().map(|join| &mut join.relation);
                let mut factors = std::iter::once(&mut from.relation).chain(joined);
                if let Some(factor) = factors.find(|factor| shown(factor).as_deref() == Some(owner.as_str())) {
                    hold(factor, &owner, &column, query);
                    moved.push((owner, column));
                }
            }
        }
    }
    if !moved.is_empty() {
        hide(select, &moved);
    }
}

fn condition(operator: &mut JoinOperator) -> Option<&mut Expr> {
    let constraint = match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => constraint,
        _ => return None,
    };
    match constraint {
        JoinConstraint::On(condition) => Some(condition),
        _ => None,
    }
}

/// The name that columns of a relation are qualified with, if it can be put into a query.
fn shown(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { name, alias, args: None, version: None, .. } => match alias {
            Some(alias) if alias.columns.is_empty() => Some(spelled(&alias.name)),
            Some(_) => None,
            None => last_name(name),
        },
        TableFactor::Derived { lateral: false, alias: Some(alias), .. } if alias.columns.is_empty() => {
            Some(spelled(&alias.name))
        }
        _ => None,
    }
}

/// Returns the one relation outside of a query whose columns it names.
fn owner(query: &Query, relations: &[String]) -> Option<String> {
    let mut names = Names::default();
    let _ = query.visit(&mut names);
    let mut outer = names.named.difference(&names.own);
    match (outer.next(), outer.next()) {
        (Some(one), None) if relations.contains(one) => Some(one.clone()),
        _ => None,
    }
}

/// The relations of a query, and those that its columns are qualified with.
#[derive(Default)]
struct Names {
    own: BTreeSet<String>,
    named: BTreeSet<String>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let name = match factor {
            TableFactor::Table { name, alias, .. } => {
                alias.as_ref().map(|alias| spelled(&alias.name)).or_else(|| last_name(name))
            }
            TableFactor::Derived { alias, .. } | TableFactor::UNNEST { alias, .. } => {
                alias.as_ref().map(|alias| spelled(&alias.name))
            }
            _ => None,
        };
        self.own.extend(name);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [.., relation, _] = parts.as_slice()
        {
            self.named.insert(spelled(relation));
        }
        ControlFlow::Continue(())
    }
}

/// Makes of a relation the query of all its columns and one more.
fn hold(factor: &mut TableFactor, name: &str, column: &Ident, query: Box<Query>) {
    let name = Ident::with_quote('"', name);
    let all = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![name.clone()]));
    let items = vec![
        SelectItem::QualifiedWildcard(all, WildcardAdditionalOptions::default()),
        SelectItem::ExprWithAlias { expr: Expr::Subquery(query), alias: column.clone() },
    ];
    let alias = TableAlias { explicit: true, name, columns: Vec::new(), at: None };
    let mut inner = factor.clone();
    if let TableFactor::Table { alias: given @ None, .. } = &mut inner {
        *given = Some(alias.clone());
    }
    let from = TableWithJoins { relation: inner, joins: Vec::new() };
    let body = SetExpr::Select(Box::new(build::select(items, vec![from], None)));
    *factor = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(build::query(body)),
        alias: Some(alias),
        sample: None,
    };
}

/// Leaves the columns out of `*`.
fn hide(select: &mut Select, moved: &[(String, Ident)]) {
    for item in &mut select.projection {
        let (of, options) = match item {
            SelectItem::Wildcard(options) => (None, options),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                (last_name(name), options)
            }
            _ => continue,
        };
        let columns = moved.iter().filter(|(owner, _)| of.as_ref().is_none_or(|of| of == owner));
        let names: Vec<ObjectName> = columns.map(|(_, column)| ObjectName::from(vec![column.clone()])).collect();
        if !names.is_empty() && options.opt_exclude.is_none() {
            options.opt_exclude = Some(ExcludeSelectItem::Multiple(names));
        }
    }
}

fn spelled(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}
