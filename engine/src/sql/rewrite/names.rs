//! Functions and operators that PostgreSQL has under another name, or in other words.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, GroupByExpr, Ident, ObjectName, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
    TimezoneInfo, Value, VisitMut, VisitorMut,
};

use super::build;
use super::forms::{call_with, last_name};

/// PostgreSQL's names of functions that DataFusion calls otherwise.
const OTHER_NAMES: [(&str, &str); 9] = [
    // Those of DataFusion by these names take the first one only.
    ("array_remove", "array_remove_all"),
    ("array_replace", "array_replace_all"),
    ("ceiling", "ceil"),
    ("clock_timestamp", "now"),
    ("every", "bool_and"),
    ("sign", "signum"),
    ("statement_timestamp", "now"),
    ("transaction_timestamp", "now"),
    ("variance", "var_samp"),
];

/// Names the columns of the select list as PostgreSQL calls them, before their calls are renamed.
pub(super) fn keep_labels(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Function(function)) = item
            && let Some(name) = last_name(&function.name)
            && (OTHER_NAMES.iter().any(|(ours, _)| *ours == name) || IN_OTHER_WORDS.contains(&name.as_str()))
        {
            *item = SelectItem::ExprWithAlias { expr: Expr::Function(function.clone()), alias: Ident::new(name) };
        } else if let SelectItem::UnnamedExpr(expr) = item
            && let Expr::Substring { shorthand, .. } = expr
        {
            let name = if *shorthand { "substr" } else { "substring" };
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new(name) };
        }
    }
}

/// `t.*` of `FROM s.t` is `s.t.*`: DataFusion knows the relation by its whole name.
pub(super) fn whole_rows(select: &mut Select) {
    let factors = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let named = factors.filter_map(|factor| match factor {
        TableFactor::Table { name, alias: None, args: None, .. } if name.0.len() > 1 => Some(name.clone()),
        _ => None,
    });
    let named: Vec<ObjectName> = named.collect();
    for item in &mut select.projection {
        if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
            && name.0.len() == 1
            && let Some(whole) = named.iter().find(|whole| last_name(whole) == last_name(name))
        {
            *name = whole.clone();
        }
    }
}

/// `substring(x FROM 2)` is `substr(x, 2)`: DataFusion has a function of its own for it, whatever is registered.
pub(super) fn substring(expr: &mut Expr) {
    let Expr::Substring { expr: text, substring_from: Some(from), substring_for, .. } = &*expr else { return };
    // What matches the pattern, or its first group.
    if let (Expr::Value(value), None) = (from.as_ref(), substring_for)
        && matches!(value.value, Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_))
    {
        let given = [text, from].map(|part| FunctionArg::Unnamed(FunctionArgExpr::Expr(part.as_ref().clone())));
        let one = Expr::Value(Value::Number("1".to_owned(), false).with_empty_span());
        let given = [call_with("regexp_match", given.to_vec()), one];
        *expr =
            call_with("array_element", given.map(|part| FunctionArg::Unnamed(FunctionArgExpr::Expr(part))).to_vec());
        return;
    }
    let given = [Some(text), Some(from), substring_for.as_ref()];
    let given =
        given.into_iter().flatten().map(|part| FunctionArg::Unnamed(FunctionArgExpr::Expr(part.as_ref().clone())));
    *expr = call_with("substr", given.collect());
}

/// Functions that are put in other words.
const IN_OTHER_WORDS: [&str; 6] = ["array", "div", "json_agg", "jsonb_agg", "mod", "localtimestamp"];

/// Renames a call, and returns what stands for it instead, if anything does.
pub(super) fn call(function: &mut Function) -> Option<Expr> {
    let name = last_name(&function.name)?;
    if let Some((_, other)) = OTHER_NAMES.iter().find(|(ours, _)| *ours == name) {
        function.name = ObjectName::from(vec![Ident::new(*other)]);
        return None;
    }
    match (name.as_str(), &function.args) {
        ("mod", FunctionArguments::List(_)) => {
            let [left, right] = arguments(function)?;
            Some(Expr::Nested(Box::new(binary(left, BinaryOperator::Modulo, right))))
        }
        ("div", FunctionArguments::List(_)) => {
            let [left, right] = arguments(function)?;
            let divided = FunctionArg::Unnamed(FunctionArgExpr::Expr(binary(left, BinaryOperator::Divide, right)));
            Some(call_with("trunc", vec![divided]))
        }
        ("json_agg" | "jsonb_agg", FunctionArguments::List(_)) => {
            function.name = ObjectName::from(vec![Ident::new("array_agg")]);
            let rows = FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(function.clone())));
            Some(call_with("to_json", vec![rows]))
        }
        // The age of a date is that at midnight.
        ("age", FunctionArguments::List(list)) if list.args.len() == 1 => {
            let mut both = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(call_with("current_date", Vec::new())))];
            both.extend(list.args.clone());
            Some(call_with("age", both))
        }
        ("localtimestamp", _) => Some(Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(call_with("now", Vec::new())),
            data_type: DataType::Timestamp(None, TimezoneInfo::None),
            array: false,
            format: None,
        }),
        _ => None,
    }
}

fn arguments(function: &Function) -> Option<[Expr; 2]> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let exprs = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(Expr::Nested(Box::new(expr.clone()))),
        _ => None,
    });
    <[Expr; 2]>::try_from(exprs.collect::<Option<Vec<_>>>()?).ok()
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// Puts `ARRAY(query)` in other words: an array of its rows in their order, without rows an empty one. Queries of the
/// catalog have words of their own for it.
pub fn arrays(statement: &mut Statement) {
    struct Arrays;
    impl VisitorMut for Arrays {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = expr
                && let FunctionArguments::Subquery(query) = &function.args
                && last_name(&function.name).as_deref() == Some("array")
            {
                *expr = array_of(query.as_ref().clone());
            }
            ControlFlow::Continue(())
        }
    }
    let _ = statement.visit(&mut Arrays);
}

fn array_of(mut query: Query) -> Expr {
    let gathered = match simple(&mut query) {
        Some((member, order)) => {
            let gathered = gather(member.clone(), order);
            *member = gathered;
            query
        }
        None => gathered_from(query),
    };
    let empty = call_with("make_array", Vec::new());
    let values =
        [Expr::Subquery(Box::new(gathered)), empty].map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)));
    call_with("coalesce", values.to_vec())
}

/// Returns the one value of a query without LIMIT, grouping and DISTINCT, and takes out its order.
fn simple(query: &mut Query) -> Option<(&mut Expr, Vec<OrderByExpr>)> {
    let is_whole = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    let order = match &query.order_by {
        None => Vec::new(),
        Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) => order.clone(),
        Some(_) => return None,
    };
    // A number is a position in the select list, and a name may be of it.
    let is_plain = order.iter().all(|by| matches!(by.expr, Expr::CompoundIdentifier(_) | Expr::Identifier(_)));
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if exprs.is_empty());
    if !is_whole || !is_plain || grouped || select.having.is_some() || select.distinct.is_some() {
        return None;
    }
    let [SelectItem::UnnamedExpr(member)] = select.projection.as_mut_slice() else { return None };
    if !matches!(member, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::BinaryOp { .. } | Expr::Cast { .. })
    {
        return None;
    }
    query.order_by = None;
    Some((member, order))
}

fn gather(member: Expr, order: Vec<OrderByExpr>) -> Expr {
    let mut gathered = call_with("array_agg", vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(member))]);
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut gathered
        && !order.is_empty()
    {
        list.clauses.push(FunctionArgumentClause::OrderBy(order));
    }
    gathered
}

fn gathered_from(query: Query) -> Query {
    let column = Ident::with_quote('"', "member");
    let alias = TableAlias {
        explicit: true,
        name: Ident::with_quote('"', "__array"),
        columns: vec![TableAliasColumnDef { name: column.clone(), data_type: None }],
        at: None,
    };
    let relation = TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(alias), sample: None };
    let from = TableWithJoins { relation, joins: Vec::new() };
    let gathered = SelectItem::UnnamedExpr(gather(Expr::Identifier(column), Vec::new()));
    build::query(SetExpr::Select(Box::new(build::select(vec![gathered], vec![from], None))))
}

/// Returns what stands for an operator: `a ^ b` is `power(a, b)`, `a && b` is whether arrays have an element in common.
pub(super) fn operator(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    let name = match op {
        BinaryOperator::PGExp => "power",
        BinaryOperator::PGOverlap => "array_has_any",
        _ => return None,
    };
    let sides = [left, right].map(|side| FunctionArg::Unnamed(FunctionArgExpr::Expr(side.clone())));
    Some(call_with(name, sides.to_vec()))
}
