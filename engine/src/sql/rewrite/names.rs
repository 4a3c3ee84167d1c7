//! Functions and operators that PostgreSQL has under another name, or in other words.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, CastKind, CharacterLength, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, ObjectName, OrderBy, OrderByExpr, OrderByKind,
    Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias, TableAliasColumnDef,
    TableFactor, TableWithJoins, TimezoneInfo, UnaryOperator, Value, VisitMut, VisitorMut,
};

use super::build;
use super::forms::{call_with, last_name};
use super::patterns;
use crate::sql::labels;

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
        } else if matches!(item, SelectItem::UnnamedExpr(expr) if is_put_otherwise(expr))
            && let Some(name) = labels::name_of(item)
            && let SelectItem::UnnamedExpr(expr) = item
        {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', name) };
        } else if let SelectItem::UnnamedExpr(expr) = item
            && let Expr::Substring { shorthand, .. } = expr
        {
            let name = if *shorthand { "substr" } else { "substring" };
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new(name) };
        }
    }
}

/// Whether an expression without a name of its own is put in other words, from which its label would not be seen.
fn is_put_otherwise(expr: &Expr) -> bool {
    let varying = |kind: &DataType| {
        matches!(
            kind,
            DataType::Varchar(Some(_)) | DataType::CharacterVarying(Some(_)) | DataType::CharVarying(Some(_))
        )
    };
    match expr {
        Expr::Extract { .. } => true,
        Expr::Cast { data_type, .. } => varying(data_type),
        _ => false,
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
const IN_OTHER_WORDS: [&str; 10] = [
    "array",
    "date",
    "date_trunc",
    "div",
    "json_agg",
    "jsonb_agg",
    "make_interval",
    "mod",
    "localtimestamp",
    "percentile_disc",
];

/// The arguments of `make_interval`, and what each counts.
const INTERVAL_PARTS: [(&str, &str); 7] = [
    ("years", "1 year"),
    ("months", "1 month"),
    ("weeks", "7 days"),
    ("days", "1 day"),
    ("hours", "1 hour"),
    ("mins", "1 minute"),
    ("secs", "1 second"),
];

/// A call with arguments that have no names.
pub(super) fn call_of<const N: usize>(name: &str, arguments: [Expr; N]) -> Expr {
    call_with(name, arguments.map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).to_vec())
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

pub(super) fn literal(value: Value) -> Expr {
    Expr::Value(value.with_empty_span())
}

fn number(text: &str) -> Expr {
    literal(Value::Number(text.to_owned(), false))
}

/// `EXTRACT` is `numeric`, to microseconds, where `date_part` is `double precision`.
pub(super) fn as_numeric(expr: Expr) -> Expr {
    let exact = cast(expr, DataType::Numeric(ExactNumberInfo::PrecisionAndScale(38, 6)));
    cast(exact, DataType::Numeric(ExactNumberInfo::None))
}

/// `-a ^ b` is `(-a) ^ b`: a sign binds tighter than a power in PostgreSQL, and looser in the parser.
pub(super) fn power_of_negative(operand: &Expr) -> Option<Expr> {
    let Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } = operand else { return None };
    let left = power_of_negative(left)
        .unwrap_or_else(|| Expr::Nested(Box::new(Expr::UnaryOp { op: UnaryOperator::Minus, expr: left.clone() })));
    Some(binary(left, BinaryOperator::PGExp, right.as_ref().clone()))
}

/// A string that is given for a `uuid` column is cast; Arrow takes no text for sixteen bytes.
pub(crate) fn given_for_uuid(value: &mut Expr) {
    let is_text = |value: &Value| matches!(value, Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_));
    if matches!(value, Expr::Value(given) if is_text(&given.value)) {
        *value = cast(value.clone(), DataType::Uuid);
    }
}

/// `float` is `double precision`, as `float(25)` and above; DataFusion takes it for `real`.
pub(super) fn whole_float(data_type: &mut DataType) {
    match data_type {
        DataType::Float(ExactNumberInfo::None) => *data_type = DataType::DoublePrecision,
        DataType::Float(ExactNumberInfo::Precision(bits)) if *bits > 24 => *data_type = DataType::DoublePrecision,
        _ => {}
    }
}

/// `x::varchar(n)` has the first `n` characters of `x`.
pub(super) fn cut(operand: &mut Expr, data_type: &mut DataType) {
    let length = match data_type {
        DataType::Varchar(length) | DataType::CharacterVarying(length) | DataType::CharVarying(length) => length,
        _ => return,
    };
    let Some(CharacterLength::IntegerLength { length: characters, unit: None }) = length.take() else { return };
    let text = cast(operand.clone(), DataType::Text);
    *operand = call_of("left", [text, number(&characters.to_string())]);
}

/// Renames a call, and returns what stands for it instead, if anything does.
pub(super) fn call(function: &mut Function) -> Option<Expr> {
    let name = last_name(&function.name)?;
    if name.starts_with("regexp_")
        && let FunctionArguments::List(list) = &mut function.args
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern))) = list.args.get_mut(1)
    {
        patterns::word_ends(pattern);
    }
    if name == "generate_series"
        && let FunctionArguments::List(list) = &mut function.args
    {
        // A parameter without a type is a whole number there.
        for argument in &mut list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr @ Expr::Value(_))) = argument
                && let Expr::Value(value) = &*expr
                && matches!(value.value, Value::Placeholder(_))
            {
                *expr = cast(expr.clone(), DataType::BigInt(None));
            }
        }
    }
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
        // The days and hours of a zone.
        ("date_trunc", FunctionArguments::List(list)) if list.args.len() == 3 => {
            let [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(field)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(moment)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(zone)),
            ] = list.args.as_slice()
            else {
                return None;
            };
            let shown = call_of("timezone", [zone.clone(), moment.clone()]);
            let cut = call_of("date_trunc", [field.clone(), shown]);
            Some(call_of("timezone", [zone.clone(), cut]))
        }
        // A type in the form of a function.
        ("date", FunctionArguments::List(list)) if list.args.len() == 1 => Some(cast(only(function)?, DataType::Date)),
        ("make_interval", FunctionArguments::List(list)) if !list.args.is_empty() => interval(&list.args),
        ("percentile_disc", FunctionArguments::List(_)) if function.within_group.len() == 1 => discrete(function),
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

fn only(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))] => Some(expr.clone()),
        _ => None,
    }
}

/// `make_interval(days => 3, hours => 2)` is `3 * interval '1 day' + 2 * interval '1 hour'`.
fn interval(arguments: &[FunctionArg]) -> Option<Expr> {
    let parts = arguments.iter().enumerate().map(|(index, argument)| {
        let (unit, value) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (INTERVAL_PARTS.get(index)?.1, value),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                let named = INTERVAL_PARTS.iter().find(|(known, _)| name.value.eq_ignore_ascii_case(known))?;
                (named.1, value)
            }
            _ => return None,
        };
        let one = cast(
            literal(Value::SingleQuotedString(unit.to_owned())),
            DataType::Interval { fields: None, precision: None },
        );
        Some(binary(Expr::Nested(Box::new(value.clone())), BinaryOperator::Multiply, one))
    });
    let parts = parts.collect::<Option<Vec<Expr>>>()?;
    let sum = parts.into_iter().reduce(|sum, part| binary(sum, BinaryOperator::Plus, part))?;
    Some(Expr::Nested(Box::new(sum)))
}

/// `percentile_disc(p) WITHIN GROUP (ORDER BY x)` is the element of all `x` in order below which so much of them is.
fn discrete(function: &Function) -> Option<Expr> {
    let [order] = function.within_group.as_slice() else { return None };
    let share = Expr::Nested(Box::new(only(function)?));
    let mut all = gather(order.expr.clone(), vec![order.clone()]);
    let Expr::Function(gathered) = &mut all else { return None };
    gathered.filter = Some(Box::new(Expr::IsNotNull(Box::new(Expr::Nested(Box::new(order.expr.clone()))))));
    let place = binary(share, BinaryOperator::Multiply, call_of("count", [order.expr.clone()]));
    let place = call_of("greatest", [call_of("ceil", [place]), number("1")]);
    Some(call_of("array_element", [all, cast(place, DataType::BigInt(None))]))
}

fn arguments(function: &Function) -> Option<[Expr; 2]> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let exprs = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(Expr::Nested(Box::new(expr.clone()))),
        _ => None,
    });
    <[Expr; 2]>::try_from(exprs.collect::<Option<Vec<_>>>()?).ok()
}

pub(super) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
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
        BinaryOperator::PGStartsWith => "starts_with",
        _ => return None,
    };
    let sides = [left, right].map(|side| FunctionArg::Unnamed(FunctionArgExpr::Expr(side.clone())));
    Some(call_with(name, sides.to_vec()))
}
