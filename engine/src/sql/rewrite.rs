//! What PostgreSQL writes and DataFusion does not read, put into other words of
//! the same meaning before binding.
//!
//! A rewrite here must never change an answer. The ones that only hold for
//! catalog queries of known clients are in [`catalog`], and are applied to
//! statements that read catalog relations only.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    self as native, BinaryOperator, CastKind, Cte, DataType, ExcludeSelectItem, Expr, Function, FunctionArguments,
    Ident, JoinConstraint, JoinOperator, LimitClause, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, SetOperator, Statement, TableAlias, TableFactor, TableWithJoins, Value,
    Visit, VisitMut, Visitor, VisitorMut, WildcardAdditionalOptions,
};

use crate::error::{Result, SqlError};
use crate::storage::provider::SYSTEM_COLUMNS;

pub mod array;
pub mod build;
mod calls;
pub mod catalog;
mod catalog_columns;
mod forms;
mod intervals;
mod joins;
pub(crate) mod keys;
pub mod known;
mod lateral;
pub(crate) mod locking;
pub mod names;
mod on;
pub mod outside;
mod patterns;
pub mod sets;
mod unnested;
pub mod versions;

pub(crate) use calls::AGGREGATES;
pub(crate) use forms::last_name;

/// Schemas whose functions are called without naming the schema.
const FUNCTION_SCHEMAS: [&str; 2] = ["pg_catalog", "information_schema"];

/// What was seen in a statement that its plan needs a guard for.
#[derive(Debug, Default, Clone, Copy)]
pub struct Found {
    /// A recursive query.
    pub recursion: bool,
    /// A subquery that may be a value.
    pub subqueries: bool,
}

/// Applies the rewrites that hold for every statement.
///
/// # Errors
/// 0A000 for joins whose merged columns DataFusion would take from the wrong side.
pub fn postgres(statement: &mut Statement) -> Result<Found> {
    let mut rewrite = Postgres::default();
    match statement.visit(&mut rewrite) {
        ControlFlow::Continue(()) => Ok(rewrite.found),
        ControlFlow::Break(error) => Err(error),
    }
}

#[derive(Default)]
struct Postgres {
    found: Found,
    /// Calls of `nextval` so far.
    sequence_calls: usize,
}

impl VisitorMut for Postgres {
    type Break = SqlError;

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<SqlError> {
        if let Statement::Insert(native::Insert { source: Some(source), .. }) = statement {
            forms::values_in_insert(source);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        limit_fetch(query);
        sets::values_with_queries(query);
        calls::distinguish_aggregates(query);
        unnested::names_around(query);
        self.found.recursion |= query.with.as_ref().is_some_and(|with| with.recursive);
        if let Some(with) = query.with.as_mut().filter(|with| with.recursive) {
            with.cte_tables.iter_mut().for_each(name_columns_at_first);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Function(function) => {
                unqualify(function);
                forms::sequence_by_name(function);
                calls::number_sequence_call(function, &mut self.sequence_calls);
                if let Some(random) = forms::random_uuid(function) {
                    *expr = random;
                    return ControlFlow::Continue(());
                }
                forms::subscripts(function);
                forms::expanded(function);
                if let Some(other) = names::call(function) {
                    *expr = other;
                }
            }
            // `t.list[1]` names a column first, `(row).field` does not.
            Expr::CompoundFieldAccess { root, access_chain }
                if !matches!(root.as_ref(), Expr::Identifier(_) | Expr::CompoundIdentifier(_)) =>
            {
                forms::field_names(access_chain);
            }
            Expr::SimilarTo { .. } => patterns::similar(expr),
            Expr::AtTimeZone { timestamp, time_zone } => {
                let parts = [time_zone, timestamp].map(|part| part.as_ref().clone());
                *expr = names::call_of("timezone", parts);
            }
            Expr::Extract { field, expr: of, .. } => {
                let name = Expr::Value(Value::SingleQuotedString(field.to_string()).with_empty_span());
                *expr = names::as_numeric(names::call_of("date_part", [name, of.as_ref().clone()]));
            }
            Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
                forms::escaped_pattern(pattern, escape_char);
            }
            Expr::Collate { expr: inner, collation } if is_byte_order(collation) => {
                let inner = inner.as_ref().clone();
                *expr = inner;
                return self.pre_visit_expr(expr);
            }
            Expr::BinaryOp { left, op, right } => {
                plain_operator(op);
                if patterns::matches_pattern(op) {
                    patterns::word_ends(right);
                }
                if let Some(other) = names::operator(left, op, right) {
                    *expr = other;
                }
            }
            Expr::Identifier(ident) if ident.quote_style.is_none() => {
                if let Some(name) =
                    ["current_schema", "current_role"].into_iter().find(|name| ident.value.eq_ignore_ascii_case(name))
                {
                    *expr = call(name);
                }
            }
            Expr::UnaryOp {
                op:
                    op @ (native::UnaryOperator::PGAbs
                    | native::UnaryOperator::PGSquareRoot
                    | native::UnaryOperator::PGCubeRoot),
                expr: operand,
            } => {
                let name = match op {
                    native::UnaryOperator::PGAbs => "abs",
                    native::UnaryOperator::PGSquareRoot => "sqrt",
                    _ => "cbrt",
                };
                *expr = names::call_of(name, [operand.as_ref().clone()]);
            }
            Expr::UnaryOp { op: native::UnaryOperator::Minus, expr: operand } => {
                if let Some(power) = names::power_of_negative(operand) {
                    *expr = power;
                    return self.pre_visit_expr(expr);
                }
                intervals::set_apart(operand);
            }
            Expr::Interval(interval) => {
                if let Some(cast) = intervals::as_cast(interval) {
                    *expr = cast;
                }
            }
            Expr::Cast { expr: operand, data_type, .. } => {
                array::cast_literal(operand, data_type);
                names::cut(operand, data_type);
                names::whole_float(data_type);
            }
            Expr::Value(value) => {
                if let Value::Number(text, _) = &value.value
                    && is_beyond_numeric(text)
                    && is_double(text)
                {
                    *expr = as_double(text);
                }
            }
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
                array::compared_literal(right);
                sets::compared(expr);
            }
            Expr::Subquery(_) => self.found.subqueries = true,
            Expr::Substring { .. } => names::substring(expr),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        if let TableFactor::Table { name, args: Some(_), .. } = factor {
            strip_schema(name);
        }
        forms::function_in_from(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        lateral::functions_beside(select);
        on::subqueries(select);
        names::whole_rows(select);
        names::keep_labels(select);
        forms::exists_as_value(select);
        sets::in_as_value(select);
        forms::rows_in_select(select);
        match joins::merged_columns(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Digits that a `numeric` holds here, on either side of the point.
const NUMERIC_DIGITS_MAX: i64 = 76;

/// `FETCH FIRST 5 ROWS ONLY` is `LIMIT 5`. With ties it stays, and is refused.
fn limit_fetch(query: &mut Query) {
    let Some(fetch) = query.fetch.as_ref().filter(|fetch| !fetch.with_ties && !fetch.percent) else { return };
    let one = || Expr::Value(Value::Number("1".to_owned(), false).with_empty_span());
    let quantity = fetch.quantity.clone().unwrap_or_else(one);
    match &mut query.limit_clause {
        None => {
            query.limit_clause =
                Some(LimitClause::LimitOffset { limit: Some(quantity), offset: None, limit_by: Vec::new() });
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(quantity),
        Some(_) => return,
    }
    query.fetch = None;
}

/// Returns whether a number with an exponent is too large or too fine for `numeric`.
fn is_beyond_numeric(text: &str) -> bool {
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else { return false };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let Ok(exponent) = exponent.parse::<i32>() else { return false };
    let digits = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    digits(whole).saturating_add(exponent.into()) > NUMERIC_DIGITS_MAX
        || digits(fraction).saturating_sub(exponent.into()) > NUMERIC_DIGITS_MAX
}

/// Returns whether a number is in the range of `double precision`; others are refused, not rounded to infinity or zero.
fn is_double(text: &str) -> bool {
    let is_zero =
        |text: &str| !text.split(['e', 'E']).next().unwrap_or_default().contains(|digit| matches!(digit, '1'..='9'));
    text.parse::<f64>().is_ok_and(|value| value.is_finite() && (value != 0.0 || is_zero(text)))
}

/// `CAST('<text>' AS double precision)`
fn as_double(text: &str) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(Value::SingleQuotedString(text.to_owned()).with_empty_span())),
        data_type: DataType::DoublePrecision,
        array: false,
        format: None,
    }
}

/// Returns the names in FROM that are called: functions, not relations.
pub fn table_functions(statement: &Statement) -> BTreeSet<String> {
    struct Called(BTreeSet<String>);
    impl Visitor for Called {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, args: Some(_), .. } = factor {
                let last = name.0.last().and_then(|part| part.as_ident());
                self.0.extend(last.map(|ident| ident.value.to_ascii_lowercase()));
            }
            ControlFlow::Continue(())
        }
    }
    let mut called = Called(BTreeSet::new());
    let _ = statement.visit(&mut called);
    called.0
}

/// `r(n) AS (SELECT 1 UNION ALL …)` names its columns for the recursive term
/// too; DataFusion takes the names of the first term there.
fn name_columns_at_first(cte: &mut Cte) {
    if cte.alias.columns.is_empty() {
        return;
    }
    let SetExpr::SetOperation { op: SetOperator::Union, left, .. } = cte.query.body.as_mut() else { return };
    let first = build::query(left.as_ref().clone());
    let alias = TableAlias { explicit: true, at: None, ..cte.alias.clone() };
    let relation = TableFactor::Derived { lateral: false, subquery: Box::new(first), alias: Some(alias), sample: None };
    **left = build::all_columns(relation);
}

fn unqualify(function: &mut Function) {
    strip_schema(&mut function.name);
    // `current_user` is a call without parentheses; DataFusion wants them.
    if matches!(function.args, FunctionArguments::None) {
        function.args = no_arguments();
    }
}

fn strip_schema(name: &mut ObjectName) {
    let schema = name.0.first().and_then(|part| part.as_ident()).map(|ident| ident.value.to_ascii_lowercase());
    if name.0.len() == 2 && schema.is_some_and(|schema| FUNCTION_SCHEMAS.contains(&schema.as_str())) {
        name.0.remove(0);
    }
}

/// Strings compare by their bytes here, which is what `C` and the default say.
fn is_byte_order(collation: &ObjectName) -> bool {
    let name = collation.0.last().and_then(|part| part.as_ident());
    name.is_some_and(|ident| ["default", "C", "POSIX", "ucs_basic"].contains(&ident.value.as_str()))
}

/// `a OPERATOR(pg_catalog.~) b` names an operator by its schema.
fn plain_operator(op: &mut BinaryOperator) {
    let BinaryOperator::PGCustomBinaryOperator(parts) = op else { return };
    let (Some(name), true) = (parts.last(), parts.len() == 2 && parts[0] == "pg_catalog") else { return };
    let plain = match name.as_str() {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "||" => BinaryOperator::StringConcat,
        _ => return,
    };
    *op = plain;
}

fn call(name: &str) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: no_arguments(),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn no_arguments() -> FunctionArguments {
    FunctionArguments::List(native::FunctionArgumentList {
        duplicate_treatment: None,
        args: Vec::new(),
        clauses: Vec::new(),
    })
}

/// Returns the system columns that a statement names.
pub fn system_columns(statement: &Statement) -> BTreeSet<&'static str> {
    struct Names(BTreeSet<&'static str>);
    impl Visitor for Names {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let ident = match expr {
                Expr::Identifier(ident) => Some(ident),
                Expr::CompoundIdentifier(parts) => parts.last(),
                _ => None,
            };
            let named = ident.and_then(|ident| SYSTEM_COLUMNS.into_iter().find(|name| *name == ident.value));
            self.0.extend(named);
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(BTreeSet::new());
    let _ = statement.visit(&mut names);
    names.0
}

/// Keeps system columns out of `*` where a table shows them because the
/// statement names one.
///
/// # Errors
/// 0A000 for `*` over a join with USING, whose columns cannot be told apart.
pub fn hide_system_columns(
    statement: &mut Statement,
    columns: &BTreeSet<&'static str>,
    is_table: impl Fn(&ObjectName) -> bool,
) -> Result<()> {
    struct Hide<'a, F> {
        columns: &'a BTreeSet<&'static str>,
        is_table: F,
    }
    impl<F: Fn(&ObjectName) -> bool> VisitorMut for Hide<'_, F> {
        type Break = SqlError;

        fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
            match hide(select, self.columns, &self.is_table) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        }
    }
    match statement.visit(&mut Hide { columns, is_table }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn hide(select: &mut Select, columns: &BTreeSet<&'static str>, is_table: &impl Fn(&ObjectName) -> bool) -> Result<()> {
    let relations: Vec<Relation> = select.from.iter().flat_map(|from| relations(from, is_table)).collect();
    if !relations.iter().any(|relation| relation.table) {
        return Ok(());
    }
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) if relations.len() == 1 => {
                projection.push(SelectItem::Wildcard(excluding(options, columns)));
            }
            SelectItem::Wildcard(_) => {
                if select.from.iter().any(merges_columns) {
                    return Err(SqlError::not_supported(
                        "* over a join with USING cannot stand beside a system column",
                    )
                    .hint("List the columns, or join with ON."));
                }
                projection.extend(relations.iter().map(|relation| relation.all(columns)));
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                let table = relations.iter().any(|relation| relation.table && relation.answers_to(&name));
                let options = if table { excluding(options, columns) } else { options };
                projection
                    .push(SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options));
            }
            other => projection.push(other),
        }
    }
    select.projection = projection;
    Ok(())
}

/// One item of FROM under the name that columns are qualified with.
struct Relation {
    name: ObjectName,
    table: bool,
}

impl Relation {
    fn all(&self, columns: &BTreeSet<&'static str>) -> SelectItem {
        let options = WildcardAdditionalOptions::default();
        let options = if self.table { excluding(options, columns) } else { options };
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(self.name.clone()), options)
    }

    fn answers_to(&self, name: &ObjectName) -> bool {
        self.name == *name || self.name.0.last() == name.0.last()
    }
}

fn relations(from: &TableWithJoins, is_table: &impl Fn(&ObjectName) -> bool) -> Vec<Relation> {
    let factors = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
    factors.filter_map(|factor| relation(factor, is_table)).collect()
}

fn relation(factor: &TableFactor, is_table: &impl Fn(&ObjectName) -> bool) -> Option<Relation> {
    match factor {
        TableFactor::Table { name, alias, args: None, .. } => {
            let shown = alias.as_ref().map_or_else(|| name.clone(), |alias| ObjectName::from(vec![alias.name.clone()]));
            Some(Relation { name: shown, table: is_table(name) })
        }
        TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } | TableFactor::UNNEST { alias, .. } => {
            let alias = alias.as_ref()?;
            Some(Relation { name: ObjectName::from(vec![alias.name.clone()]), table: false })
        }
        _ => None,
    }
}

fn merges_columns(from: &TableWithJoins) -> bool {
    from.joins.iter().any(|join| {
        let constraint = match &join.join_operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint) => constraint,
            _ => return false,
        };
        matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural)
    })
}

fn excluding(mut options: WildcardAdditionalOptions, columns: &BTreeSet<&'static str>) -> WildcardAdditionalOptions {
    let mut names = match options.opt_exclude.take() {
        None => Vec::new(),
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names,
    };
    names.extend(columns.iter().map(|name| ObjectName::from(vec![Ident::new(*name)])));
    options.opt_exclude = Some(ExcludeSelectItem::Multiple(names));
    options
}
