//! `FROM t, unnest(t.list) AS x` and `FROM t, generate_series(1, t.n) AS x`: a function whose arguments are columns of what
//! stands before it. DataFusion plans it in the select list, so it is put there: of a query that takes the place of `t`.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, JoinConstraint, JoinOperator, ObjectName, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableFunctionArgs, TableWithJoins, Value, Visit,
    VisitMut, Visitor, VisitorMut, WildcardAdditionalOptions,
};

use super::build;
use super::forms::{call_with, last_name};

/// Moves such functions of one FROM.
pub(super) fn functions_beside(select: &mut Select) {
    while let Some(moved) = take_one(&mut select.from) {
        let _ = select.visit(&mut Renamed(&moved));
    }
}

/// What a function in FROM is called, and what it is a column of now.
struct Moved {
    function: String,
    relation: Ident,
}

fn take_one(from: &mut Vec<TableWithJoins>) -> Option<Moved> {
    for index in 0..from.len() {
        if index > 0
            && let Some((rows, alias)) = rows_of(&from[index].relation)
        {
            let names: Vec<Ident> = from[..index].iter().flat_map(factors).filter_map(shown).collect();
            if let Some(relation) = owner(&rows, &names) {
                let joins = from.remove(index).joins;
                // What was joined to the function is joined to what holds it now.
                let holder = from
                    .iter_mut()
                    .find(|item| factors(item).any(|factor| shown(factor).as_ref() == Some(&relation)))?;
                holder.joins.extend(joins);
                return put(holder, &relation, rows, alias);
            }
        }
        for join in 0..from[index].joins.len() {
            let item = &from[index];
            if !is_cross(&item.joins[join].join_operator) {
                continue;
            }
            let Some((rows, alias)) = rows_of(&item.joins[join].relation) else { continue };
            let before = std::iter::once(&item.relation).chain(item.joins[..join].iter().map(|join| &join.relation));
            let names: Vec<Ident> = before.filter_map(shown).collect();
            if let Some(relation) = owner(&rows, &names) {
                from[index].joins.remove(join);
                return put(&mut from[index], &relation, rows, alias);
            }
        }
    }
    None
}

fn factors(item: &TableWithJoins) -> impl Iterator<Item = &TableFactor> {
    std::iter::once(&item.relation).chain(item.joins.iter().map(|join| &join.relation))
}

/// Every row with every row, which a function of the row needs; an outer join would have to keep rows without any.
fn is_cross(operator: &JoinOperator) -> bool {
    match operator {
        JoinOperator::CrossJoin(_) => true,
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => match constraint {
            JoinConstraint::On(Expr::Value(value)) => value.value == Value::Boolean(true),
            JoinConstraint::None => true,
            _ => false,
        },
        _ => false,
    }
}

/// Returns the call of a function in FROM that gives rows of one column, and the name of the column.
fn rows_of(factor: &TableFactor) -> Option<(Expr, Ident)> {
    let named = |alias: &Option<TableAlias>, function: &str| match alias {
        Some(TableAlias { name, columns, .. }) => match columns.as_slice() {
            [] => Some(name.clone()),
            [column] if column.name == *name => Some(name.clone()),
            _ => None,
        },
        None => Some(Ident::new(function)),
    };
    match factor {
        TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality: false, .. } => {
            let [array] = array_exprs.as_slice() else { return None };
            let argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(array.clone()));
            Some((call_with("unnest", vec![argument]), named(alias, "unnest")?))
        }
        TableFactor::Table { name, alias, args: Some(TableFunctionArgs { args, .. }), .. }
        | TableFactor::Function { name, alias, args, with_ordinality: false, .. } => {
            let function = last_name(name)?;
            let call = call_with(&function, args.clone());
            let rows = match function.as_str() {
                "unnest" => call,
                "generate_series" => call_with("unnest", vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(call))]),
                _ => return None,
            };
            Some((rows, named(alias, &function)?))
        }
        _ => None,
    }
}

/// Returns the name that columns of a relation are qualified with, if it can be put into a query.
fn shown(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), args: None, .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            alias.columns.is_empty().then(|| alias.name.clone())
        }
        TableFactor::Table { name, alias: None, args: None, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

/// Returns the one relation whose columns a call names; a column without a qualifier is of the only relation there is.
fn owner(call: &Expr, names: &[Ident]) -> Option<Ident> {
    struct Columns(Vec<Option<Ident>>);
    impl Visitor for Columns {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::CompoundIdentifier(parts) if parts.len() > 1 => self.0.push(parts.get(parts.len() - 2).cloned()),
                Expr::Identifier(_) => self.0.push(None),
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut columns = Columns(Vec::new());
    let _ = call.visit(&mut columns);
    let mut owner: Option<Ident> = None;
    for column in columns.0 {
        let named = match (column, names) {
            (Some(qualifier), names) => names.iter().find(|name| folded(name) == folded(&qualifier))?,
            (None, [only]) => only,
            (None, _) => return None,
        };
        if owner.as_ref().is_some_and(|owner| owner != named) {
            return None;
        }
        owner = Some(named.clone());
    }
    owner
}

fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() }
}

/// Puts `(SELECT r.*, <call> AS <column> FROM <r>) AS r` in the place of `r`.
fn put(item: &mut TableWithJoins, relation: &Ident, call: Expr, column: Ident) -> Option<Moved> {
    let joined = item.joins.iter_mut().map(|join| &mut join.relation);
    let factor =
        std::iter::once(&mut item.relation).chain(joined).find(|factor| shown(factor).as_ref() == Some(relation))?;
    let all = SelectItem::QualifiedWildcard(
        SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![relation.clone()])),
        WildcardAdditionalOptions::default(),
    );
    let rows = SelectItem::ExprWithAlias { expr: call, alias: column.clone() };
    let inner = TableWithJoins { relation: factor.clone(), joins: Vec::new() };
    let query = build::query(SetExpr::Select(Box::new(build::select(vec![all, rows], vec![inner], None))));
    let alias = TableAlias { explicit: true, name: relation.clone(), columns: Vec::new(), at: None };
    *factor = TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(alias), sample: None };
    Some(Moved { function: folded(&column), relation: relation.clone() })
}

struct Renamed<'a>(&'a Moved);

impl VisitorMut for Renamed<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [qualifier, _] = parts.as_mut_slice()
            && folded(qualifier) == self.0.function
        {
            *qualifier = self.0.relation.clone();
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    #[test]
    fn functions_of_a_row_are_put_into_a_query_of_it() {
        let cases = [
            (
                "SELECT d.id, x FROM docs d, unnest(d.tags) AS x WHERE x.x = 'a'",
                "SELECT d.id, x FROM (SELECT d.*, unnest(d.tags) AS x FROM docs d) AS d WHERE d.x = 'a'",
            ),
            (
                "SELECT id FROM s.docs CROSS JOIN LATERAL unnest(tags) t JOIN k ON k.tag = t.t",
                "SELECT id FROM (SELECT s.docs.*, unnest(tags) AS t FROM s.docs) AS docs JOIN k ON k.tag = docs.t",
            ),
            ("SELECT * FROM a, b, unnest(list) x", "SELECT * FROM a, b, UNNEST(list) x (x)"),
            ("SELECT * FROM a, unnest(ARRAY[1, 2]) x", "SELECT * FROM a, UNNEST(ARRAY[1, 2]) x (x)"),
            (
                "SELECT * FROM a LEFT JOIN LATERAL unnest(a.list) x ON true",
                "SELECT * FROM a LEFT JOIN LATERAL unnest(a.list) x ON true",
            ),
        ];
        for (text, expected) in cases {
            let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, text).unwrap().remove(0);
            super::super::postgres(&mut statement).unwrap();
            assert_eq!(statement.to_string(), expected, "{text}");
        }
    }
}
