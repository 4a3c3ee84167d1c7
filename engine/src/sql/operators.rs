//! Operators whose meaning in PostgreSQL is not DataFusion's, planned as the statement is
//! bound, so that everything around them has the right type: dates and times with
//! intervals, intervals with numbers, division of `numeric`, text that is a number.
//!
//! Operands whose type is not known yet, which parameters are, are left to DataFusion.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, cast};
use datafusion::scalar::ScalarValue;
use lancegate_wire::FormatSettings;
use sqlparser::ast::BinaryOperator;

use super::functions::input;
use super::functions::intervals::{INTERVAL, Intervals, TIME, is_interval};
use super::functions::numbers::{self, Numbers};

/// A timestamp as tables have it.
const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Plans the operators.
#[derive(Debug)]
pub(crate) struct Operators {
    intervals: Intervals,
    numbers: Numbers,
}

impl Operators {
    /// Returns the planner.
    pub(crate) fn new() -> Self {
        Self { intervals: Intervals::new(), numbers: Numbers::new() }
    }

    fn plan(&self, sides: Sides, op: Operator) -> Result<PlannerResult<Sides>> {
        use Operator::{Divide, Minus, Multiply, Plus};
        let Sides { left, right, kinds } = sides;
        let plain = |left, right| binary(left, op, right);
        Ok(PlannerResult::Planned(match (&kinds.0, op, &kinds.1) {
            (left_kind, Divide, right_kind)
                if (left_kind.is_decimal() || right_kind.is_decimal()) && !is_interval(left_kind) =>
            {
                match numbers::division(&shape(&left, left_kind), &shape(&right, right_kind)) {
                    Some(division) => division.call(vec![left, right]),
                    None => return Ok(PlannerResult::Original(Sides { left, right, kinds })),
                }
            }
            (DataType::Date32, Minus, DataType::Date32) => cast(plain(left, right), DataType::Int32),
            (DataType::Date32, Plus | Minus, by) if is_interval(by) => plain(cast(left, TIMESTAMP), right),
            (by, Plus, DataType::Date32) if is_interval(by) => plain(left, cast(right, TIMESTAMP)),
            (DataType::Time64(_), Plus, by) if is_interval(by) => {
                self.intervals.time_plus.call(vec![cast(left, TIME), right])
            }
            (by, Plus, DataType::Time64(_)) if is_interval(by) => {
                self.intervals.time_plus.call(vec![cast(right, TIME), left])
            }
            (DataType::Time64(_), Minus, by) if is_interval(by) => {
                self.intervals.time_minus.call(vec![cast(left, TIME), right])
            }
            (of, Multiply, by) if is_interval(of) && by.is_numeric() => {
                self.intervals.times.call(vec![left, self.double(right, by)])
            }
            (by, Multiply, of) if is_interval(of) && by.is_numeric() => {
                self.intervals.times.call(vec![right, self.double(left, by)])
            }
            (of, Divide, by) if is_interval(of) && by.is_numeric() => {
                self.intervals.divided.call(vec![left, self.double(right, by)])
            }
            (DataType::Duration(_), Plus | Minus, DataType::Interval(_)) => {
                plain(self.intervals.of_duration.call(vec![left]), right)
            }
            (DataType::Interval(_), Plus | Minus, DataType::Duration(_)) => {
                plain(left, self.intervals.of_duration.call(vec![right]))
            }
            (known, _, text) if text.is_string() && takes_text(known, op) => {
                let right = as_literal(right, known)?;
                plain(left, right)
            }
            (text, _, known) if text.is_string() && takes_text(known, op) => {
                let left = as_literal(left, known)?;
                plain(left, right)
            }
            _ => return Ok(PlannerResult::Original(Sides { left, right, kinds })),
        }))
    }

    fn double(&self, number: Expr, kind: &DataType) -> Expr {
        if kind.is_decimal() { self.numbers.to_double.call(vec![number]) } else { cast(number, DataType::Float64) }
    }
}

/// The operands of an operator, with their types.
struct Sides {
    left: Expr,
    right: Expr,
    kinds: (DataType, DataType),
}

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let op = match expr.op {
            BinaryOperator::Plus => Operator::Plus,
            BinaryOperator::Minus => Operator::Minus,
            BinaryOperator::Multiply => Operator::Multiply,
            BinaryOperator::Divide => Operator::Divide,
            _ => return compared(expr, schema).map(PlannerResult::Original),
        };
        let Ok(right) = expr.right.get_type(schema) else { return Ok(PlannerResult::Original(expr)) };
        // Nothing is special about adding a whole number; chains of that may be long.
        if right.is_integer() && matches!(op, Operator::Plus | Operator::Minus) && !is_text(&expr.left) {
            return Ok(PlannerResult::Original(expr));
        }
        let Ok(left) = expr.left.get_type(schema) else { return Ok(PlannerResult::Original(expr)) };
        let RawBinaryExpr { op: written, left: left_side, right: right_side } = expr;
        let sides = Sides { left: left_side, right: right_side, kinds: (left, right) };
        Ok(match self.plan(sides, op)? {
            PlannerResult::Planned(planned) => PlannerResult::Planned(planned),
            PlannerResult::Original(Sides { left, right, .. }) => {
                PlannerResult::Original(RawBinaryExpr { op: written, left, right })
            }
        })
    }
}

/// Reads a string that an interval is compared with.
fn compared(mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<RawBinaryExpr> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    if !matches!(expr.op, Eq | Gt | GtEq | Lt | LtEq | NotEq) {
        return Ok(expr);
    }
    let (text, known) = match (is_text(&expr.left), is_text(&expr.right)) {
        (true, false) => (&mut expr.left, &expr.right),
        (false, true) => (&mut expr.right, &expr.left),
        _ => return Ok(expr),
    };
    if known.get_type(schema).is_ok_and(|known| is_interval(&known)) {
        *text = as_literal(std::mem::take(text), &INTERVAL)?;
    }
    Ok(expr)
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), _))
}

/// Whether a string beside an operand has the operand's type.
fn takes_text(known: &DataType, op: Operator) -> bool {
    let same = matches!(known, DataType::Date32 | DataType::Timestamp(..)) && op == Operator::Minus;
    known.is_numeric() || same
}

/// Reads a literal; another text stays, and is refused.
fn as_literal(expr: Expr, data_type: &DataType) -> Result<Expr> {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) = &expr else { return Ok(expr) };
    let settings = FormatSettings::default();
    let value = match data_type {
        number if number.is_decimal() => input::read_numeric(text, &settings)?,
        // Literals are made narrower later, as those that were written as numbers.
        number if number.is_integer() => input::read(text, &DataType::Int64, &settings)?,
        known if input::reads(known) => input::read(text, known, &settings)?,
        _ => return Ok(expr),
    };
    Ok(Expr::Literal(value, metadata.clone()))
}

/// The type of an operand; a literal has no more digits than were written.
fn shape(expr: &Expr, kind: &DataType) -> DataType {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => {
            let digits = value.unsigned_abs().checked_ilog10().unwrap_or_default() + 1;
            DataType::Decimal128(u8::try_from(digits).unwrap_or(19), 0)
        }
        _ => kind.clone(),
    }
}
