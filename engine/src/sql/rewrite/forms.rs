//! Forms of SQL that PostgreSQL has and DataFusion has not, in other words of the
//! same meaning: functions in FROM name their column, EXISTS is a value, LIKE has
//! an escape of one's choice, and the subscripts of an array are rows.

use std::ops::ControlFlow;

use sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, GroupByExpr, Ident, ObjectName, Parens, Query, Select, SelectItem, SetExpr, SetOperator,
    SetQuantifier, TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs, TableWithJoins, Value,
    ValueWithSpan, VisitMut, VisitorMut,
};

use super::{build, outside};
use crate::sql::functions::{of_text, sequences};

/// Functions of several rows whose one column PostgreSQL calls as the function,
/// or as its alias.
const OF_ROWS: [&str; 3] = ["generate_series", "range", "unnest"];

/// Functions of one value that clients write in FROM.
const OF_ONE_VALUE: [&str; 11] = [
    "current_catalog",
    "current_database",
    "current_role",
    "current_schema",
    "current_setting",
    "current_user",
    "now",
    "pg_backend_pid",
    "session_user",
    "set_config",
    "version",
];

/// Columns of the catalog whose subscripts begin at 0 (`int2vector`, `oidvector`).
const VECTORS: [&str; 5] = ["indclass", "indcollation", "indkey", "indoption", "proargtypes"];

/// Gives a function in FROM the column name that PostgreSQL gives it, and makes
/// of a function of one value a query of one row.
pub(super) fn function_in_from(factor: &mut TableFactor) {
    match factor {
        TableFactor::Table { name, alias, args: Some(args), .. } => {
            let Some(last) = last_name(name) else { return };
            if OF_ROWS.contains(&last.as_str()) {
                name_column(alias, &last);
            } else if OF_ONE_VALUE.contains(&last.as_str()) {
                *factor = one_value(&last, args, alias.take());
            }
        }
        TableFactor::UNNEST { alias, array_exprs, with_ordinality: false, with_offset: false, .. }
            if array_exprs.len() == 1 =>
        {
            name_column(alias, "unnest");
        }
        _ => {}
    }
}

pub(crate) fn last_name(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.to_ascii_lowercase())
}

fn name_column(alias: &mut Option<TableAlias>, function: &str) {
    let alias = alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::new(function),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns = vec![TableAliasColumnDef { name: alias.name.clone(), data_type: None }];
    }
}

/// `FROM f(…) AS a` becomes `FROM (SELECT f(…) AS a) AS a`.
fn one_value(function: &str, args: &TableFunctionArgs, alias: Option<TableAlias>) -> TableFactor {
    let mut alias = alias;
    name_column(&mut alias, function);
    let column = alias.as_ref().and_then(|alias| alias.columns.first()).map(|column| column.name.clone());
    let value = call_with(function, args.args.clone());
    let item = SelectItem::ExprWithAlias { expr: value, alias: column.unwrap_or_else(|| Ident::new(function)) };
    let body = SetExpr::Select(Box::new(build::select(vec![item], Vec::new(), None)));
    TableFactor::Derived { lateral: false, subquery: Box::new(build::query(body)), alias, sample: None }
}

/// Makes values of the EXISTS in the select list: `EXISTS (SELECT … WHERE c)`
/// becomes `(SELECT count(*) > 0 … WHERE c)`. DataFusion plans EXISTS in WHERE only.
pub(super) fn exists_as_value(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            outside::of_subqueries(expr, |expr| {
                if let Expr::Exists { subquery, negated } = expr {
                    *expr = Expr::Subquery(Box::new(counted(subquery.as_ref().clone(), *negated)));
                }
            });
        }
    }
}

fn counted(mut query: Query, negated: bool) -> Query {
    let star = FunctionArg::Unnamed(FunctionArgExpr::Wildcard);
    let op = if negated { BinaryOperator::Eq } else { BinaryOperator::Gt };
    let zero = Expr::Value(Value::Number("0".to_owned(), false).with_empty_span());
    let count = Expr::BinaryOp { left: Box::new(call_with("count", vec![star])), op, right: Box::new(zero) };
    let item = SelectItem::ExprWithAlias { expr: count, alias: Ident::new("exists") };
    let plain = query.limit_clause.is_none() && query.fetch.is_none();
    if let (true, SetExpr::Select(select)) = (plain, query.body.as_mut())
        && is_ungrouped(select)
    {
        select.projection = vec![item];
        query.order_by = None;
        return query;
    }
    let alias = TableAlias { explicit: true, name: Ident::new("found"), columns: Vec::new(), at: None };
    let relation = TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(alias), sample: None };
    let from = TableWithJoins { relation, joins: Vec::new() };
    build::query(SetExpr::Select(Box::new(build::select(vec![item], vec![from], None))))
}

fn is_ungrouped(select: &Select) -> bool {
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if exprs.is_empty());
    // An aggregate without GROUP BY has a row whatever there is; what is called cannot be told apart here.
    let called = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            !matches!(expr, Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        }
        _ => false,
    };
    !grouped && select.having.is_none() && select.distinct.is_none() && !select.projection.iter().any(called)
}

/// Makes SELECTs of the VALUES inside of the query of an INSERT: DataFusion gives every VALUES of the statement the
/// columns of the target.
pub(super) fn values_in_insert(source: &mut Query) {
    if !matches!(source.body.as_ref(), SetExpr::Values(_)) {
        let _ = source.visit(&mut Rows);
    }
}

struct Rows;

impl VisitorMut for Rows {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Values(values) = query.body.as_mut() {
            let rows: Vec<SetExpr> = std::mem::take(&mut values.rows).into_iter().map(row).collect();
            if let Some(all) = united(rows) {
                *query.body = all;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The columns of VALUES are called `column1` and so on.
pub(super) fn row(values: Parens<Vec<Expr>>) -> SetExpr {
    let named = |(index, expr): (usize, Expr)| {
        let alias = Ident::new(format!("column{}", index + 1));
        SelectItem::ExprWithAlias { expr, alias }
    };
    let items = values.content.into_iter().enumerate().map(named).collect();
    SetExpr::Select(Box::new(build::select(items, Vec::new(), None)))
}

/// A balanced tree, which is not deep however many rows there are.
pub(super) fn united(mut rows: Vec<SetExpr>) -> Option<SetExpr> {
    if rows.len() <= 1 {
        return rows.pop();
    }
    let right = rows.split_off(rows.len() / 2);
    let (left, right) = (Box::new(united(rows)?), Box::new(united(right)?));
    Some(SetExpr::SetOperation { op: SetOperator::Union, set_quantifier: SetQuantifier::All, left, right })
}

/// `LIKE p ESCAPE 'c'` becomes LIKE of the pattern with `\` as its escape.
pub(super) fn escaped_pattern(pattern: &mut Box<Expr>, escape_char: &mut Option<ValueWithSpan>) {
    let Some(Value::SingleQuotedString(escape)) = escape_char.as_ref().map(|value| &value.value) else { return };
    if escape == "\\" {
        return;
    }
    let escape = escape.clone();
    *escape_char = None;
    let literal = match pattern.as_ref() {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text.clone()),
        _ => None,
    };
    let string = |text: String| Expr::Value(Value::SingleQuotedString(text).with_empty_span());
    // A pattern that is wrong is refused when it is used.
    if let Some(Ok(converted)) = literal.map(|text| of_text::like_pattern(&text, &escape)) {
        **pattern = string(converted);
        return;
    }
    let arguments = [pattern.as_ref().clone(), string(escape)];
    let arguments = arguments.map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)));
    **pattern = call_with(of_text::LIKE_PATTERN, arguments.to_vec());
}

/// `(row).field` names the field as DataFusion takes it, as a string.
pub(super) fn field_names(access_chain: &mut [AccessExpr]) {
    for access in access_chain {
        if let AccessExpr::Dot(Expr::Identifier(name)) = access {
            let name = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() };
            *access = AccessExpr::Dot(Expr::Value(Value::SingleQuotedString(name).with_empty_span()));
        }
    }
}

/// Makes rows of a `generate_series` in the select list, which DataFusion has as a function that makes an array.
pub(super) fn rows_in_select(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Function(function))
        | SelectItem::ExprWithAlias { expr: Expr::Function(function), .. } = item
            && last_name(&function.name).as_deref() == Some("generate_series")
        {
            let series = FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(function.clone())));
            let alias = Ident::new("generate_series");
            match item {
                SelectItem::ExprWithAlias { expr, .. } => *expr = call_with("unnest", vec![series]),
                other => *other = SelectItem::ExprWithAlias { expr: call_with("unnest", vec![series]), alias },
            }
        }
    }
}

/// `nextval('t_id_seq'::regclass)` is `nextval('t_id_seq')`: sequences have names here and
/// no numbers.
pub(super) fn sequence_by_name(function: &mut Function) {
    if !last_name(&function.name).is_some_and(|name| sequences::NAMES.contains(&name.as_str())) {
        return;
    }
    let FunctionArguments::List(list) = &mut function.args else { return };
    if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(sequence))) = list.args.first_mut()
        && let Expr::Cast { expr, data_type, .. } = sequence
        && data_type.to_string().to_ascii_lowercase().ends_with("regclass")
    {
        let name = expr.as_ref().clone();
        *sequence = name;
    }
}

/// `gen_random_uuid()` is `uuid()::uuid`: DataFusion's gives text.
pub(super) fn random_uuid(function: &Function) -> Option<Expr> {
    let none = matches!(&function.args, FunctionArguments::List(list) if list.args.is_empty());
    (none && last_name(&function.name).as_deref() == Some("gen_random_uuid")).then(|| Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(call_with("uuid", Vec::new())),
        data_type: DataType::Uuid,
        array: false,
        format: None,
    })
}

/// `_pg_expandarray(a)` becomes `unnest(<its elements with their numbers>)`.
pub(super) fn expanded(function: &mut Function) {
    if last_name(&function.name).as_deref() != Some("_pg_expandarray") {
        return;
    }
    let FunctionArguments::List(list) = &function.args else { return };
    let rows = call_with(of_text::EXPANDED, list.args.clone());
    if let Expr::Function(unnest) = call_with("unnest", vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(rows))]) {
        *function = unnest;
    }
}

/// `generate_subscripts(a, 1)` becomes `unnest(<the subscripts of a>)`.
pub(super) fn subscripts(function: &mut Function) {
    if last_name(&function.name).as_deref() != Some("generate_subscripts") {
        return;
    }
    let FunctionArguments::List(list) = &function.args else { return };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(array))) = list.args.first() else { return };
    let column = match array {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    let is_vector = column.is_some_and(|name| VECTORS.contains(&name.value.to_ascii_lowercase().as_str()));
    let first = Expr::Value(Value::Number(if is_vector { "0" } else { "1" }.to_owned(), false).with_empty_span());
    let mut arguments = list.args.clone();
    arguments.insert(1, FunctionArg::Unnamed(FunctionArgExpr::Expr(first)));
    let subscripts = call_with(of_text::SUBSCRIPTS, arguments);
    let Expr::Function(unnest) = call_with("unnest", vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(subscripts))])
    else {
        return;
    };
    *function = unnest;
}

pub(super) fn call_with(name: &str, args: Vec<FunctionArg>) -> Expr {
    let list = FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    #[test]
    fn forms_of_postgresql_are_put_into_other_words() {
        let cases = [
            ("SELECT g FROM generate_series(1, 3) g", "SELECT g FROM generate_series(1, 3) g (g)"),
            (
                "SELECT * FROM generate_series(1, 3)",
                "SELECT * FROM generate_series(1, 3) AS generate_series (generate_series)",
            ),
            ("SELECT x FROM generate_series(1, 3) AS s (x)", "SELECT x FROM generate_series(1, 3) AS s (x)"),
            ("SELECT * FROM version()", "SELECT * FROM (SELECT version() AS version) AS version (version)"),
            ("SELECT EXISTS (SELECT 1 FROM t WHERE a)", "SELECT (SELECT count(*) > 0 AS exists FROM t WHERE a)"),
            (
                "SELECT EXISTS (SELECT max(a) FROM t)",
                "SELECT (SELECT count(*) > 0 AS exists FROM (SELECT max(a) FROM t) AS found)",
            ),
            ("SELECT 1 FROM t WHERE EXISTS (SELECT 1)", "SELECT 1 FROM t WHERE EXISTS (SELECT 1)"),
            ("SELECT generate_series(1, 3)", "SELECT unnest(generate_series(1, 3)) AS generate_series"),
            ("SELECT (q.keys).N FROM q", "SELECT (q.keys).'n' FROM q"),
            ("SELECT q.keys[1], s.v.w[2]", "SELECT q.keys[1], s.v.w[2]"),
            ("SELECT (information_schema._pg_expandarray(i.indkey)).n", "SELECT (unnest(pg_expanded(i.indkey))).'n'"),
            ("SELECT a LIKE 'x/%' ESCAPE '/'", "SELECT a LIKE 'x\\%'"),
            (
                "INSERT INTO t SELECT a FROM (VALUES (1, 2), (3, 4)) v (a, b)",
                "INSERT INTO t SELECT a FROM (SELECT 1 AS column1, 2 AS column2 UNION ALL SELECT 3 AS column1, 4 AS column2) v (a, b)",
            ),
            ("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (1)"),
            (
                "SELECT unnest(indkey), generate_subscripts(i.indkey, 1)",
                "SELECT unnest(indkey), unnest(pg_subscripts(i.indkey, 0, 1))",
            ),
        ];
        for (text, expected) in cases {
            let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, text).unwrap().remove(0);
            super::super::postgres(&mut statement).unwrap();
            assert_eq!(statement.to_string(), expected, "{text}");
        }
    }
}
