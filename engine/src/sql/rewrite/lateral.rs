//! `FROM t, unnest(t.list) AS x` and `FROM t, generate_series(1, t.n) AS x`: a function whose arguments are columns of what
//! stands before it. DataFusion plans it in the select list, so it is put there: of a query that takes the place of `t`.
//! So is any `unnest(…) WITH ORDINALITY`, whose numbers are a second function beside it.

use std::ops::ControlFlow;

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, FunctionArg, FunctionArgExpr, Ident, JoinConstraint, JoinOperator, ObjectName,
    Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableFunctionArgs,
    TableWithJoins, Value, Visit, VisitMut, Visitor, VisitorMut, WildcardAdditionalOptions,
};

use super::build;
use super::forms::{call_with, last_name};

/// Moves such functions of one FROM.
pub(super) fn functions_beside(select: &mut Select) {
    while let Some(moved) = take_one(&mut select.from) {
        let _ = select.visit(&mut Renamed(&moved));
    }
    for item in &mut select.from {
        let joined = item.joins.iter_mut().map(|join| &mut join.relation);
        std::iter::once(&mut item.relation).chain(joined).for_each(number_alone);
    }
}

/// What a function in FROM is called, and what its columns are of now.
struct Moved {
    function: String,
    relation: Ident,
}

/// A function in FROM that gives rows.
struct Rows {
    /// The array that has them.
    array: Expr,
    /// What it is called.
    name: Ident,
    /// The name of its column, and of the numbers of its rows if it has any.
    columns: (Ident, Option<Ident>),
}

fn take_one(from: &mut Vec<TableWithJoins>) -> Option<Moved> {
    for index in 0..from.len() {
        if index > 0
            && let Some(rows) = rows_of(&from[index].relation)
        {
            let names: Vec<Ident> = from[..index].iter().flat_map(factors).filter_map(shown).collect();
            if let Some(relation) = owner(&rows.array, &names) {
                let joins = from.remove(index).joins;
                // What was joined to the function is joined to what holds it now.
                let holds =
                    |item: &&mut TableWithJoins| factors(item).any(|factor| shown(factor).as_ref() == Some(&relation));
                let holder = from.iter_mut().find(holds)?;
                holder.joins.extend(joins);
                return put(holder, &relation, rows);
            }
        }
        for join in 0..from[index].joins.len() {
            let item = &from[index];
            let Some(keeps) = keeps_rows(&item.joins[join].join_operator) else { continue };
            let Some(mut rows) = rows_of(&item.joins[join].relation) else { continue };
            let before = std::iter::once(&item.relation).chain(item.joins[..join].iter().map(|join| &join.relation));
            let names: Vec<Ident> = before.filter_map(shown).collect();
            if let Some(relation) = owner(&rows.array, &names) {
                if keeps {
                    rows.array = never_empty(rows.array);
                }
                from[index].joins.remove(join);
                return put(&mut from[index], &relation, rows);
            }
        }
    }
    None
}

fn factors(item: &TableWithJoins) -> impl Iterator<Item = &TableFactor> {
    std::iter::once(&item.relation).chain(item.joins.iter().map(|join| &join.relation))
}

/// Returns whether a join keeps rows that the function has none for; `None` for a join with a condition, and for those
/// that keep rows of the function.
fn keeps_rows(operator: &JoinOperator) -> Option<bool> {
    let (constraint, keeps) = match operator {
        JoinOperator::CrossJoin(_) => return Some(false),
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (constraint, false),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (constraint, true),
        _ => return None,
    };
    match constraint {
        JoinConstraint::On(Expr::Value(value)) if value.value == Value::Boolean(true) => Some(keeps),
        JoinConstraint::None if !keeps => Some(false),
        _ => None,
    }
}

fn argument(expr: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
}

/// An array with one NULL instead of one without elements, or none.
fn never_empty(array: Expr) -> Expr {
    let zero = Expr::Value(Value::Number("0".to_owned(), false).with_empty_span());
    let null = Expr::Value(Value::Null.with_empty_span());
    let count = Box::new(call_with("cardinality", vec![argument(array.clone())]));
    let condition = Expr::BinaryOp { left: count, op: BinaryOperator::Gt, right: Box::new(zero) };
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: array }],
        else_result: Some(Box::new(call_with("make_array", vec![argument(null)]))),
    }
}

fn rows_of(factor: &TableFactor) -> Option<Rows> {
    let (array, alias, ordinality, function) = match factor {
        TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality, .. } => {
            let [array] = array_exprs.as_slice() else { return None };
            (array.clone(), alias, *with_ordinality, "unnest".to_owned())
        }
        TableFactor::Table { name, alias, args: Some(TableFunctionArgs { args, .. }), with_ordinality, .. }
        | TableFactor::Function { name, alias, args, with_ordinality, .. } => {
            let function = last_name(name)?;
            let array = match (function.as_str(), args.as_slice()) {
                ("unnest", [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))]) => array.clone(),
                ("generate_series", args) => call_with("generate_series", args.to_vec()),
                _ => return None,
            };
            (array, alias, *with_ordinality, function)
        }
        _ => return None,
    };
    let name = alias.as_ref().map_or_else(|| Ident::new(function), |alias| alias.name.clone());
    let columns: Vec<Ident> = alias.iter().flat_map(|alias| &alias.columns).map(|column| column.name.clone()).collect();
    if columns.len() > 1 + usize::from(ordinality) {
        return None;
    }
    let mut columns = columns.into_iter();
    let value = columns.next().unwrap_or_else(|| name.clone());
    let number = ordinality.then(|| columns.next().unwrap_or_else(|| Ident::new("ordinality")));
    Some(Rows { array, name, columns: (value, number) })
}

impl Rows {
    /// Returns them as items of a select list.
    fn items(self) -> Vec<SelectItem> {
        let one = Expr::Value(Value::Number("1".to_owned(), false).with_empty_span());
        let count = call_with("cardinality", vec![argument(self.array.clone())]);
        let numbers = call_with("generate_series", vec![argument(one), argument(count)]);
        let item = |array: Expr, alias: Ident| SelectItem::ExprWithAlias {
            expr: call_with("unnest", vec![argument(array)]),
            alias,
        };
        let (value, number) = self.columns;
        std::iter::once(item(self.array, value)).chain(number.map(|number| item(numbers, number))).collect()
    }
}

/// Makes a query of a function that numbers its rows and is of no other relation.
fn number_alone(factor: &mut TableFactor) {
    let Some(rows) = rows_of(factor).filter(|rows| rows.columns.1.is_some() && columns_of(&rows.array).is_empty())
    else {
        return;
    };
    let alias = TableAlias { explicit: true, name: rows.name.clone(), columns: Vec::new(), at: None };
    let query = build::query(SetExpr::Select(Box::new(build::select(rows.items(), Vec::new(), None))));
    *factor = TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(alias), sample: None };
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

/// Returns the qualifiers of the columns that an expression names.
fn columns_of(expr: &Expr) -> Vec<Option<Ident>> {
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
    let _ = expr.visit(&mut columns);
    columns.0
}

/// Returns the one relation whose columns an expression names; a column without a qualifier is of the only relation
/// there is.
fn owner(expr: &Expr, names: &[Ident]) -> Option<Ident> {
    let mut owner: Option<Ident> = None;
    for column in columns_of(expr) {
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

/// Puts `(SELECT r.*, <function> AS <column> FROM <r>) AS r` in the place of `r`.
fn put(item: &mut TableWithJoins, relation: &Ident, rows: Rows) -> Option<Moved> {
    let joined = item.joins.iter_mut().map(|join| &mut join.relation);
    let mut all = std::iter::once(&mut item.relation).chain(joined);
    let factor = all.find(|factor| shown(factor).as_ref() == Some(relation))?;
    let own = SelectItem::QualifiedWildcard(
        SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![relation.clone()])),
        WildcardAdditionalOptions::default(),
    );
    let moved = Moved { function: folded(&rows.name), relation: relation.clone() };
    let items = std::iter::once(own).chain(rows.items()).collect();
    let inner = TableWithJoins { relation: factor.clone(), joins: Vec::new() };
    let query = build::query(SetExpr::Select(Box::new(build::select(items, vec![inner], None))));
    let alias = TableAlias { explicit: true, name: relation.clone(), columns: Vec::new(), at: None };
    *factor = TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(alias), sample: None };
    Some(moved)
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
                "SELECT * FROM (SELECT a.*, unnest(CASE WHEN cardinality(a.list) > 0 THEN a.list ELSE make_array(NULL) END) AS x FROM a) AS a",
            ),
            (
                "SELECT t.tag, n FROM a, unnest(a.list) WITH ORDINALITY AS t(tag, n)",
                "SELECT a.tag, n FROM (SELECT a.*, unnest(a.list) AS tag, unnest(generate_series(1, cardinality(a.list))) AS n FROM a) AS a",
            ),
            (
                "SELECT * FROM unnest(ARRAY[3]) WITH ORDINALITY",
                "SELECT * FROM (SELECT unnest(ARRAY[3]) AS unnest, unnest(generate_series(1, cardinality(ARRAY[3]))) AS ordinality) AS unnest",
            ),
            (
                "SELECT * FROM a LEFT JOIN LATERAL unnest(a.list) x ON x = 1",
                "SELECT * FROM a LEFT JOIN LATERAL unnest(a.list) x ON x = 1",
            ),
        ];
        for (text, expected) in cases {
            let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, text).unwrap().remove(0);
            super::super::postgres(&mut statement).unwrap();
            assert_eq!(statement.to_string(), expected, "{text}");
        }
    }
}
