//! Conversions between types that PostgreSQL makes and DataFusion makes otherwise: between
//! `numeric` and floats, from either to integers, from text, and what intervals are compared by.
//!
//! They are put into a bound plan before DataFusion coerces the rest. A column is left
//! as it is where a literal can be converted instead, so that predicates still reach
//! indexes. Expressions of computed columns do not come by here.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::{AggregateFunction, Between, Case, InList};
use datafusion::logical_expr::{
    AggregateUDF, BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, SortExpr, cast, lit,
};
use datafusion::scalar::ScalarValue;
use lancegate_wire::FormatSettings;
use lancegate_wire::types::{format_type, pg_type};

use super::functions::intervals::{Intervals, is_interval};
use super::functions::numbers::{self, Numbers};
use super::functions::templates::Templates;
use super::functions::{input, interval_aggregates, of_text};
use crate::error::SqlError;
use crate::sqlstate::SqlState;

mod calls;
mod clock;
mod nodes;

use clock::Clock;

/// A time that no zone makes a moment.
const LOCAL: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Functions whose arguments have one type.
const OF_ONE_TYPE: [&str; 5] = ["coalesce", "greatest", "least", "nullif", "make_array"];

/// The functions that conversions are made by.
pub(crate) struct Coercions {
    intervals: Intervals,
    numbers: Numbers,
    templates: Templates,
    clock: Clock,
    octets: Arc<ScalarUDF>,
    greatest: Arc<AggregateUDF>,
    least: Arc<AggregateUDF>,
    now: Option<Arc<ScalarUDF>>,
    today: Option<Arc<ScalarUDF>>,
    settings: FormatSettings,
}

impl Coercions {
    /// Returns the conversions of a session.
    pub(crate) fn new(settings: &FormatSettings, state: &SessionState) -> Self {
        let named = |name: &str| state.scalar_functions().get(name).cloned();
        Self {
            intervals: Intervals::new(),
            numbers: Numbers::new(),
            templates: Templates::new(settings),
            clock: Clock::new(settings, state.config_options().execution.time_zone.as_deref()),
            octets: Arc::new(of_text::octets()),
            greatest: Arc::new(interval_aggregates::extreme(true)),
            least: Arc::new(interval_aggregates::extreme(false)),
            now: named("now"),
            today: named("current_date"),
            settings: settings.clone(),
        }
    }

    /// Converts what is in one expression; its operands have been converted before.
    ///
    /// # Errors
    /// For a literal that is no value of the type that it has.
    pub(crate) fn expression(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        match expr {
            Expr::BinaryExpr(binary) => self.binary(binary, schema),
            Expr::Cast(cast) => self.cast(cast, schema),
            Expr::InList(list) => self.in_list(list, schema),
            Expr::Between(between) => self.between(between, schema),
            Expr::Case(case) => self.case(case, schema),
            Expr::ScalarFunction(call) => self.call(call, schema),
            Expr::AggregateFunction(call) => Ok(self.aggregate(call, schema)),
            Expr::Negative(operand) if matches!(kind(&operand, schema), Some(DataType::Interval(_))) => {
                Ok(Transformed::yes(self.intervals.negated.call(vec![*operand])))
            }
            other => Ok(Transformed::no(other)),
        }
    }

    fn binary(&self, binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let compares = compares(binary.op);
        if !compares && !is_arithmetic(binary.op) {
            return Ok(Transformed::no(Expr::BinaryExpr(binary)));
        }
        let unchanged = |binary| Ok(Transformed::no(Expr::BinaryExpr(binary)));
        let Some(right) = kind(&binary.right, schema) else { return unchanged(binary) };
        let may =
            right.is_floating() || right.is_decimal() || right.is_temporal() || compares && right != DataType::Boolean;
        if !may {
            return unchanged(binary);
        }
        let Some(left) = kind(&binary.left, schema) else { return unchanged(binary) };
        if !compares {
            let (mut sides, mut kinds) = ([*binary.left, *binary.right], [left, right]);
            let changed = self.clock.beside(&mut sides, &mut kinds)
                || self.clock.shifted(&mut sides, &kinds, binary.op)
                || self.floats(&mut sides, &kinds, Float::Double);
            return Ok(rebuilt(sides.into(), binary.op, changed));
        }
        let mut sides = vec![*binary.left, *binary.right];
        let changed = self.compared(&mut sides, &[left, right], Float::Double)?;
        Ok(rebuilt(sides, binary.op, changed))
    }

    /// Makes values comparable with each other; tells whether any was changed.
    fn compared(&self, values: &mut [Expr], kinds: &[DataType], wanted: Float) -> Result<bool> {
        let mut changed = false;
        let mut kinds = kinds.to_vec();
        let known = kinds.iter().find(|kind| input::reads(kind) || is_interval(kind)).cloned();
        if let Some(known) = known {
            for (value, kind) in values.iter_mut().zip(&mut kinds) {
                if let Some(read) = self.literal_as(value, &known)? {
                    *kind = read.data_type();
                    *value = Expr::Literal(read, None);
                    changed = true;
                }
            }
        }
        changed |= self.clock.beside(values, &mut kinds);
        let lengths = kinds.iter().all(is_interval);
        if lengths && !kinds.windows(2).all(|pair| matches!(pair[0], DataType::Duration(_)) && pair[0] == pair[1]) {
            for value in values.iter_mut() {
                let of = std::mem::take(value);
                *value = self.intervals.length.call(vec![of]);
            }
            return Ok(true);
        }
        Ok(self.floats(values, &kinds, wanted) || changed)
    }

    /// Reads a string as the type of what it stands beside.
    fn literal_as(&self, value: &Expr, known: &DataType) -> Result<Option<ScalarValue>> {
        let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = value else { return Ok(None) };
        Ok(Some(match known {
            DataType::Duration(_) => input::read(text, &super::functions::intervals::INTERVAL, &self.settings)?,
            number if number.is_decimal() => input::read_numeric(text, &self.settings)?,
            // What moves with the clock is read when the statement runs.
            _ if is_moving(text) => return Ok(None),
            known => input::read(text, known, &self.settings)?,
        }))
    }

    /// Makes floats of the decimals that stand beside floats; tells whether there were any.
    fn floats(&self, values: &mut [Expr], kinds: &[DataType], wanted: Float) -> bool {
        if !kinds.iter().any(DataType::is_floating) || !kinds.iter().any(DataType::is_decimal) {
            return false;
        }
        let single = !kinds.contains(&DataType::Float64);
        let exact = |value: &Expr| is_single(value).is_some();
        let decimals = || values.iter().zip(kinds).filter(|(_, kind)| kind.is_decimal());
        // A column of `real` stays as it is beside literals that are one.
        let single = single && (wanted == Float::Common || decimals().all(|(value, _)| exact(value)));
        for (value, _) in values.iter_mut().zip(kinds).filter(|(_, kind)| kind.is_decimal()) {
            *value = self.float(std::mem::take(value), single);
        }
        true
    }

    /// Makes a float of a decimal.
    fn float(&self, value: Expr, single: bool) -> Expr {
        let double = match &value {
            Expr::Literal(decimal, _) => numbers::double_of(decimal),
            _ => None,
        };
        match (double, single) {
            (Some(double), false) => lit(double),
            (Some(double), true) => lit(double as f32),
            (None, false) => self.numbers.to_double.call(vec![value]),
            (None, true) => cast(self.numbers.to_double.call(vec![value]), DataType::Float32),
        }
    }

    fn cast(&self, written: Cast, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let Cast { expr, field } = written;
        let unchanged = |expr, field| Ok(Transformed::no(Expr::Cast(Cast { expr, field })));
        let to = field.data_type();
        // A type of the catalogs has names of its own.
        if !field.metadata().is_empty() || !input::reads(to) && !to.is_integer() {
            return unchanged(expr, field);
        }
        let Some(from) = kind(&expr, schema) else { return unchanged(expr, field) };
        if matches!(to, DataType::Date32 | DataType::Time64(_) | DataType::Timestamp(_, None))
            && let Some(shown) = self.clock.shown(&expr, Some(&from))
        {
            return Ok(Transformed::yes(Expr::Cast(Cast { expr: Box::new(shown), field })));
        }
        if from.is_numeric() && to.is_temporal() || from.is_temporal() && to.is_numeric() {
            return Err(no_cast(&from, &field));
        }
        if from.is_string() && input::reads(to) {
            return self.of_text(*expr, &field).map(Transformed::yes);
        }
        if to.is_floating() && from.is_decimal() {
            return Ok(Transformed::yes(self.float(*expr, *to == DataType::Float32)));
        }
        let rounded = match &from {
            DataType::Decimal128(precision, scale) if to.is_integer() && *scale > 0 => {
                cast(*expr, DataType::Decimal128((*precision).max(1), 0))
            }
            DataType::Decimal256(precision, scale) if to.is_integer() && *scale > 0 => {
                cast(*expr, DataType::Decimal256((*precision).max(1), 0))
            }
            float if to.is_integer() && float.is_floating() => self.numbers.round_even.call(vec![*expr]),
            _ => return unchanged(expr, field),
        };
        Ok(Transformed::yes(Expr::Cast(Cast { expr: Box::new(rounded), field })))
    }

    fn of_text(&self, text: Expr, to: &FieldRef) -> Result<Expr> {
        let to = to.data_type();
        if let Expr::Literal(ScalarValue::Utf8(Some(literal)), metadata) = &text {
            if let Some(moment) = self.moment(literal, to) {
                return Ok(moment);
            }
            return Ok(Expr::Literal(input::read(literal, to, &self.settings)?, metadata.clone()));
        }
        Ok(input::function(to.clone(), &self.settings).call(vec![text]))
    }

    /// Returns what `'now'`, `'today'` and the like are of a type.
    fn moment(&self, text: &str, to: &DataType) -> Option<Expr> {
        use DataType::{Date32, Time64, Timestamp};
        let days = |days| {
            let today = self.today.as_ref()?.call(Vec::new());
            let shifted = cast(cast(today, DataType::Int32) + lit(days), Date32);
            Some(if *to == Date32 { shifted } else { cast(shifted, to.clone()) })
        };
        if !matches!(to, Date32 | Timestamp(..) | Time64(_)) {
            return None;
        }
        match (text.trim().to_ascii_lowercase().as_str(), to) {
            ("now", _) => Some(cast(self.now.as_ref()?.call(Vec::new()), to.clone())),
            (_, Time64(_)) => None,
            ("today", _) => days(0),
            ("tomorrow", _) => days(1),
            ("yesterday", _) => days(-1),
            _ => None,
        }
    }

    fn in_list(&self, list: InList, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let InList { expr, list, negated } = list;
        let mut values = vec![*expr];
        values.extend(list);
        let changed = match kinds(&values, schema) {
            Some(kinds) => self.compared(&mut values, &kinds, Float::Common)?,
            None => false,
        };
        let list = values.split_off(1);
        let expr = Box::new(values.pop().unwrap_or_default());
        Ok(told(Expr::InList(InList { expr, list, negated }), changed))
    }

    fn between(&self, between: Between, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let Between { expr, negated, low, high } = between;
        let mut values = vec![*expr, *low, *high];
        let changed = match kinds(&values, schema) {
            Some(kinds) => self.compared(&mut values, &kinds, Float::Double)?,
            None => false,
        };
        let [expr, low, high] = [0, 1, 2].map(|index| Box::new(std::mem::take(&mut values[index])));
        Ok(told(Expr::Between(Between { expr, negated, low, high }), changed))
    }

    fn case(&self, mut case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let mut results: Vec<&mut Box<Expr>> = case.when_then_expr.iter_mut().map(|(_, then)| then).collect();
        results.extend(case.else_expr.as_mut());
        let mut changed = self.of_one_type(&mut results, schema);
        if let Some(expr) = case.expr.as_mut() {
            let mut compared = vec![expr];
            compared.extend(case.when_then_expr.iter_mut().map(|(when, _)| when));
            let mut values: Vec<Expr> = compared.iter().map(|value| value.as_ref().clone()).collect();
            let differ = match kinds(&values, schema) {
                Some(kinds) => self.compared(&mut values, &kinds, Float::Double)?,
                None => false,
            };
            if differ {
                compared.into_iter().zip(values).for_each(|(place, value)| **place = value);
                changed = true;
            }
        }
        Ok(told(Expr::Case(case), changed))
    }

    fn of_one_type(&self, places: &mut [&mut Box<Expr>], schema: &DFSchema) -> bool {
        let known: Vec<DataType> = places.iter().map(|place| kind(place, schema).unwrap_or(DataType::Null)).collect();
        if !known.iter().any(DataType::is_floating) || !known.iter().any(DataType::is_decimal) {
            return false;
        }
        let mut values: Vec<Expr> = places.iter_mut().map(|place| std::mem::take(&mut ***place)).collect();
        let changed = self.floats(&mut values, &known, Float::Common);
        places.iter_mut().zip(values).for_each(|(place, value)| ***place = value);
        changed
    }

    fn aggregate(&self, mut call: AggregateFunction, schema: &DFSchema) -> Transformed<Expr> {
        let of_interval = call.params.args.len() == 1
            && matches!(call.func.name(), "min" | "max")
            && matches!(kind(&call.params.args[0], schema), Some(DataType::Interval(_)));
        if of_interval {
            call.func = Arc::clone(if call.func.name() == "max" { &self.greatest } else { &self.least });
        }
        told(Expr::AggregateFunction(call), of_interval)
    }

    /// Orders intervals by their length.
    fn sort_key(&self, sort: SortExpr, schema: &DFSchema) -> Transformed<SortExpr> {
        if !matches!(kind(&sort.expr, schema), Some(DataType::Interval(_))) {
            return Transformed::no(sort);
        }
        let length = self.intervals.length.call(vec![sort.expr.clone()]);
        Transformed::yes(sort.with_expr(length))
    }
}

/// Which float a decimal becomes beside values of `real`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Float {
    /// That of an operator, which is `double precision` if the decimal is no `real`.
    Double,
    /// The type that they all have.
    Common,
}

/// Moments are no numbers. DataFusion takes one for the other: days and microseconds since 1970.
fn no_cast(from: &DataType, to: &FieldRef) -> DataFusionError {
    let name = |field: &Field| format_type(pg_type(field).oid, -1);
    let message = format!("cannot cast type {} to {}", name(&Field::new("", from.clone(), true)), name(to));
    DataFusionError::External(Box::new(SqlError::new(SqlState::CANNOT_COERCE, message)))
}

fn rebuilt(mut sides: Vec<Expr>, op: Operator, changed: bool) -> Transformed<Expr> {
    let right = Box::new(sides.pop().unwrap_or_default());
    let left = Box::new(sides.pop().unwrap_or_default());
    told(Expr::BinaryExpr(BinaryExpr { left, op, right }), changed)
}

fn told(expr: Expr, changed: bool) -> Transformed<Expr> {
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

fn kind(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    expr.get_type(schema).ok()
}

fn kinds(values: &[Expr], schema: &DFSchema) -> Option<Vec<DataType>> {
    values.iter().map(|value| kind(value, schema)).collect()
}

/// Returns the `real` that a decimal literal is exactly.
fn is_single(value: &Expr) -> Option<f32> {
    let Expr::Literal(decimal, _) = value else { return None };
    let double = numbers::double_of(decimal)?;
    (f64::from(double as f32) == double).then_some(double as f32)
}

fn is_moving(text: &str) -> bool {
    let word = text.trim();
    ["now", "today", "tomorrow", "yesterday"].iter().any(|moving| word.eq_ignore_ascii_case(moving))
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn is_arithmetic(op: Operator) -> bool {
    use Operator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

/// Returns whether an expression holds a query.
pub(crate) fn holds_query(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))
}

/// Returns a plan with the conversions that belong to no one expression.
///
/// # Errors
/// If it cannot be rebuilt.
pub(crate) fn node(coercions: &Coercions, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    nodes::convert(coercions, plan)
}
