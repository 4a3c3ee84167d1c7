//! Rewrites for queries that clients send to the catalog.
//!
//! DataFusion has no type whose values are names of objects, and plans a scalar
//! subquery only where an aggregate or LIMIT shows that it gives one row. Both
//! are harmless to help along where only catalog relations are read: names
//! become subqueries over the catalog, and a subquery that PostgreSQL would
//! check at run time is taken at its first row.

use std::ops::ControlFlow;

use datafusion_pg_catalog::sql::PostgresCompatibilityParser;
use datafusion_pg_catalog::sql::rules::{
    RemoveSubqueryFromProjection, RewriteRegCastToSubquery, SqlStatementRewriteRule,
};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, GroupByExpr, Ident, ObjectName, Query, Select, SelectItem, SetExpr, Statement, Subscript,
    TableFactor, TableWithJoins, Value, VisitMut, VisitorMut, visit_expressions,
};

use crate::sql::functions::of_text;

/// Replaces `'name'::regclass` and its kin, and gives scalar subqueries one row.
pub fn rewrite(mut statement: Statement) -> Statement {
    super::catalog_columns::replace(&mut statement);
    let _ = statement.visit(&mut SystemNames);
    let _ = statement.visit(&mut Vectors);
    let mut statement = RewriteRegCastToSubquery::new().rewrite(statement);
    let _ = statement.visit(&mut OneRow);
    show_vectors(&mut statement);
    statement
}

/// Shows arrays and vectors as PostgreSQL does: the columns of an index as text with spaces, and what `pg_proc` has as
/// `['i', 'o']` with braces.
fn show_vectors(statement: &mut Statement) {
    let Statement::Query(query) = statement else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    for item in &mut select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = &*item else { continue };
        let Some(name) = column(expr) else { continue };
        let texts = match name.as_str() {
            _ if is_of_index(expr) => ("array_to_string", vec![" "]),
            "proallargtypes" | "proargmodes" | "proargnames" => ("translate", vec!["[]' ", "{}"]),
            _ => continue,
        };
        let literal = |text: &str| Expr::Value(Value::SingleQuotedString(text.to_owned()).with_empty_span());
        let arguments = std::iter::once(expr.clone()).chain(texts.1.into_iter().map(literal));
        let arguments = arguments.map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)));
        let shown = super::forms::call_with(texts.0, arguments.collect());
        let alias = match item {
            SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
            _ => Ident::new(name),
        };
        *item = SelectItem::ExprWithAlias { expr: shown, alias };
    }
}

/// Returns whether a statement calls one of `functions`, which are about objects
/// of the catalog also where no relation of it is read.
pub fn calls_any(statement: &Statement, functions: &[&str]) -> bool {
    let found = visit_expressions(statement, |expr| match expr {
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident());
            match name.is_some_and(|name| functions.contains(&name.value.to_ascii_lowercase().as_str())) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Returns whether a statement makes an object of its name, as `'t'::regclass` does.
pub fn casts_to_object(statement: &Statement) -> bool {
    let found = visit_expressions(statement, |expr| match expr {
        Expr::Cast { data_type, .. } if is_object(&data_type.to_string().to_ascii_lowercase()) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Returns whether values of a type are names of objects.
pub fn is_object(data_type: &str) -> bool {
    let data_type = data_type.strip_prefix("pg_catalog.").unwrap_or(data_type);
    matches!(data_type, "regclass" | "regtype" | "regproc" | "regprocedure" | "regnamespace" | "regrole")
}

/// The last resort for a catalog query that still cannot be bound: correlated
/// subqueries of its select list become NULL, as if nothing were declared.
pub fn without_subqueries(statement: Statement) -> Statement {
    let mut statement = statement;
    super::catalog_columns::replace(&mut statement);
    RemoveSubqueryFromProjection.rewrite(RewriteRegCastToSubquery::new().rewrite(statement))
}

/// The query as `datafusion-pg-catalog` reads the text: it knows some queries of
/// psql and others word for word and answers them with no rows.
pub fn known_query(text: &str) -> Option<Statement> {
    let mut statements = PostgresCompatibilityParser::new().parse(text).ok()?;
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => Some(statement),
        _ => None,
    }
}

/// `'pg_class'::regclass` is of `pg_catalog`; the rewrite of casts looks into `public`.
struct SystemNames;

impl VisitorMut for SystemNames {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { expr, data_type, .. } = expr
            && data_type.to_string().eq_ignore_ascii_case("regclass")
            && let Expr::Value(value) = expr.as_mut()
            && let Value::SingleQuotedString(name) = &mut value.value
            && name.starts_with("pg_")
            && !name.contains('.')
        {
            name.insert_str(0, "pg_catalog.");
        }
        ControlFlow::Continue(())
    }
}

/// The vectors of PostgreSQL's own rows are text here; and an index has one column.
struct Vectors;

impl VisitorMut for Vectors {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(name) = made_type(expr) {
            let number = call("to_regtype", name);
            *expr = super::names::call_of("format_type", [number, Expr::Value(Value::Null.with_empty_span())]);
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Cast { expr: vector, data_type, .. }
                if is_arguments(vector) && data_type.to_string().to_ascii_lowercase().ends_with("regtype[]") =>
            {
                *expr = call(of_text::TYPE_NAMES, vector.as_ref().clone());
            }
            // A name that is put together is looked up when it is known.
            Expr::Cast { expr: name, data_type, .. }
                if is_made(name) && data_type.to_string().to_ascii_lowercase().ends_with("regclass") =>
            {
                *expr = call("to_regclass", name.as_ref().clone());
            }
            Expr::Function(function) if last(&function.name).is_some_and(|name| name == "unnest") => {
                if let FunctionArguments::List(list) = &mut function.args
                    && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(vector))] = list.args.as_mut_slice()
                    && is_arguments(vector)
                {
                    *vector = call(of_text::OIDS, vector.clone());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    /// `SELECT * FROM pg_index i, unnest(i.indkey, i.indoption) WITH ORDINALITY koi(key, option, arridx)`
    /// becomes `SELECT *, i.indkey[1] AS key, i.indoption[1] AS option, 1 AS arridx FROM pg_index i`.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let [_, columns] = select.from.as_slice() else { return ControlFlow::Continue(()) };
        let TableFactor::UNNEST { alias: Some(alias), array_exprs, with_ordinality: true, .. } = &columns.relation
        else {
            return ControlFlow::Continue(());
        };
        if alias.columns.len() != array_exprs.len() + 1 || !array_exprs.iter().all(is_of_index) {
            return ControlFlow::Continue(());
        }
        let one = || Expr::Value(Value::Number("1".to_owned(), false).with_empty_span());
        let first = |array: &Expr| Expr::CompoundFieldAccess {
            root: Box::new(array.clone()),
            access_chain: vec![AccessExpr::Subscript(Subscript::Index { index: one() })],
        };
        let values = array_exprs.iter().map(first).chain([one()]);
        let named = values.zip(&alias.columns);
        let named: Vec<SelectItem> =
            named.map(|(expr, column)| SelectItem::ExprWithAlias { expr, alias: column.name.clone() }).collect();
        select.projection.extend(named);
        select.from.truncate(1);
        ControlFlow::Continue(())
    }
}

/// Returns the name of which `(…)::regtype::text` is how the type is called, if it is put together.
fn made_type(expr: &Expr) -> Option<Expr> {
    let Expr::Cast { expr: number, data_type: DataType::Text, .. } = expr else { return None };
    let Expr::Cast { expr: name, data_type, .. } = number.as_ref() else { return None };
    let is_type = data_type.to_string().trim_matches('"').eq_ignore_ascii_case("regtype");
    (is_type && is_made(name)).then(|| name.as_ref().clone())
}

/// Whether a text is the result of an expression.
fn is_made(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_made(inner),
        Expr::BinaryOp { op, .. } => *op == BinaryOperator::StringConcat,
        Expr::Value(value) => matches!(value.value, Value::Placeholder(_)),
        Expr::Function(function) => {
            last(&function.name).is_some_and(|name| ["concat", "format", "quote_ident"].contains(&name.as_str()))
        }
        _ => false,
    }
}

/// Whether a column holds the types of a function's arguments.
fn is_arguments(expr: &Expr) -> bool {
    column(expr).is_some_and(|name| name == "proargtypes" || name == "proallargtypes")
}

fn is_of_index(expr: &Expr) -> bool {
    column(expr).is_some_and(|name| ["indkey", "indoption", "indclass", "indcollation"].contains(&name.as_str()))
}

fn column(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(name.value.to_ascii_lowercase()),
        Expr::CompoundIdentifier(parts) => parts.last().map(|name| name.value.to_ascii_lowercase()),
        _ => None,
    }
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(|part| part.as_ident()).map(|name| name.value.to_ascii_lowercase())
}

struct OneRow;

impl VisitorMut for OneRow {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Subquery(query) => {
                if let Some(replacement) = first_row(query) {
                    *expr = replacement;
                }
            }
            Expr::Function(function) => {
                if let Some(rows) = array_of_rows(function) {
                    *expr = rows;
                }
            }
            Expr::BinaryOp { left, op: BinaryOperator::Eq | BinaryOperator::NotEq, right } if is_procedure(left) => {
                if matches!(right.as_ref(), Expr::Value(value) if value.value.to_string() == "0") {
                    **right = Expr::Value(Value::SingleQuotedString("-".to_owned()).with_empty_span());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Whether a column of `pg_type` names a function. PostgreSQL's type for that compares with numbers, too, and 0 is none,
/// which is spelled `-`; the ADBC driver asks so when it connects.
fn is_procedure(expr: &Expr) -> bool {
    let name = match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    name.is_some_and(|name| {
        ["typinput", "typoutput", "typreceive", "typsend"].contains(&name.value.to_ascii_lowercase().as_str())
    })
}

/// `ARRAY(SELECT e FROM …)` becomes `(SELECT array_agg(e) FROM …)`, and NULL
/// where there are no rows to find.
fn array_of_rows(function: &Function) -> Option<Expr> {
    let FunctionArguments::Subquery(query) = &function.args else { return None };
    let name = function.name.0.last().and_then(|part| part.as_ident())?;
    if !name.value.eq_ignore_ascii_case("array") {
        return None;
    }
    let mut query = query.clone();
    query.order_by = None;
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    if select.from.iter().any(|from| has_no_rows(&from.relation)) {
        return Some(Expr::Value(Value::Null.with_empty_span()));
    }
    let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] = select.projection.as_mut_slice()
    else {
        return None;
    };
    *expr = call("array_agg", expr.clone());
    Some(Expr::Subquery(query))
}

/// There are no row policies and no relations that are sequences, and every array column
/// that psql takes apart with `unnest` holds options that do not exist here.
fn has_no_rows(relation: &TableFactor) -> bool {
    let TableFactor::Table { name, .. } = relation else { return matches!(relation, TableFactor::UNNEST { .. }) };
    let name = name.0.last().and_then(|part| part.as_ident());
    name.is_some_and(|ident| {
        ["unnest", "pg_policy", "pg_sequence"].contains(&ident.value.to_ascii_lowercase().as_str())
    })
}

/// `(SELECT e FROM … WHERE …)` becomes `(SELECT first_value(e) FROM … WHERE …)`.
///
/// A condition on the outer row alone is moved out into a CASE; a subquery that
/// is tied to the outer row by anything but equality cannot be planned, and is
/// NULL, which is what these say where nothing is declared.
fn first_row(query: &mut Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if exprs.is_empty());
    if grouped || select.having.is_some() || select.distinct.is_some() || select.from.is_empty() {
        return None;
    }
    if select.from.iter().any(|from| has_no_rows(&from.relation)) {
        return Some(Expr::Value(Value::Null.with_empty_span()));
    }
    let own: Vec<String> = select.from.iter().flat_map(names_of).collect();
    let (mut kept, mut outer) = (Vec::new(), Vec::new());
    for condition in conjuncts(select.selection.take()) {
        match Ties::of(&condition, &own) {
            Ties { own: _, outer: false } => kept.push(condition),
            Ties { own: false, outer: true } => outer.push(condition),
            Ties { own: true, outer: true } if is_equality(&condition) => kept.push(condition),
            Ties { own: true, outer: true } => return Some(Expr::Value(Value::Null.with_empty_span())),
        }
    }
    select.selection = all_of(kept);
    let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] = select.projection.as_mut_slice()
    else {
        return None;
    };
    if Ties::of(expr, &own).outer {
        // A row that is made of both cannot be looked up for all outer rows at once.
        return Some(Expr::Value(Value::Null.with_empty_span()));
    }
    if !is_aggregate(expr) {
        *expr = call("first_value", expr.clone());
        query.limit_clause = None;
        query.order_by = None;
    }
    let condition = all_of(outer)?;
    Some(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: Expr::Subquery(Box::new(query.clone())) }],
        else_result: None,
    })
}

/// Whether a condition names columns of the subquery's own relations, and of others.
struct Ties {
    own: bool,
    outer: bool,
}

impl Ties {
    fn of(condition: &Expr, names: &[String]) -> Self {
        let mut ties = Self { own: false, outer: false };
        let _ = visit_expressions(condition, |expr| {
            match expr {
                Expr::CompoundIdentifier(parts) => {
                    // The relation is what stands before the column, whatever is before it.
                    let relation = parts.len().checked_sub(2).and_then(|index| parts.get(index));
                    let qualifier = relation.map(|ident| ident.value.to_ascii_lowercase());
                    let own = qualifier.is_some_and(|qualifier| names.contains(&qualifier));
                    ties.own |= own;
                    ties.outer |= !own;
                }
                Expr::Identifier(_) => ties.own = true,
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        });
        ties
    }
}

fn names_of(from: &TableWithJoins) -> Vec<String> {
    let factors = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
    let name = |factor: &TableFactor| match factor {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.name.value.to_ascii_lowercase())
        }
        TableFactor::Table { name, .. } => {
            name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.to_ascii_lowercase())
        }
        _ => None,
    };
    factors.filter_map(name).collect()
}

fn conjuncts(condition: Option<Expr>) -> Vec<Expr> {
    match condition {
        None => Vec::new(),
        Some(Expr::BinaryOp { left, op: BinaryOperator::And, right }) => {
            let mut all = conjuncts(Some(*left));
            all.extend(conjuncts(Some(*right)));
            all
        }
        Some(Expr::Nested(inner)) => conjuncts(Some(*inner)),
        Some(other) => vec![other],
    }
}

fn all_of(conditions: Vec<Expr>) -> Option<Expr> {
    conditions.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    })
}

fn is_equality(condition: &Expr) -> bool {
    matches!(condition, Expr::BinaryOp { op: BinaryOperator::Eq, .. })
}

fn is_aggregate(expr: &Expr) -> bool {
    const AGGREGATES: [&str; 9] =
        ["count", "max", "min", "sum", "avg", "array_agg", "string_agg", "bool_or", "first_value"];
    match expr {
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident());
            let aggregate = name.is_some_and(|name| AGGREGATES.contains(&name.value.to_ascii_lowercase().as_str()));
            aggregate || arguments(function).any(is_aggregate)
        }
        Expr::Cast { expr, .. } | Expr::Nested(expr) => is_aggregate(expr),
        Expr::BinaryOp { left, right, .. } => is_aggregate(left) || is_aggregate(right),
        _ => false,
    }
}

fn arguments(function: &Function) -> impl Iterator<Item = &Expr> {
    let list = match &function.args {
        FunctionArguments::List(list) => list.args.as_slice(),
        _ => &[],
    };
    list.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

fn call(name: &str, argument: Expr) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
