//! Functions of which PostgreSQL takes other arguments, or gives another result, than DataFusion.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::{Expr, ScalarUDF, cast, lit};
use datafusion::scalar::ScalarValue;

use super::{Coercions, Float, LOCAL, OF_ONE_TYPE, kind, told};

impl Coercions {
    pub(super) fn call(&self, call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let ScalarFunction { func, mut args } = call;
        let changed = match (func.name(), args.len()) {
            (name, 1..) if OF_ONE_TYPE.contains(&name) => {
                let known: Vec<DataType> =
                    args.iter().map(|argument| kind(argument, schema).unwrap_or(DataType::Null)).collect();
                self.floats(&mut args, &known, Float::Common)
            }
            ("round", 1) if kind(&args[0], schema).is_some_and(|kind| kind.is_floating()) => {
                return Ok(Transformed::yes(self.numbers.round_even.call(args)));
            }
            ("date_part", 2) => return Ok(self.part(func, args, schema)),
            ("power", 2) | ("atan2", 2) if is_not_double(&args, schema) => {
                let kinds: Vec<DataType> = args.iter().filter_map(|argument| kind(argument, schema)).collect();
                args = args.into_iter().zip(kinds).map(|(argument, kind)| self.double(argument, &kind)).collect();
                true
            }
            ("character_length", 1) if matches!(kind(&args[0], schema), Some(kind) if kind.is_binary()) => {
                return Ok(Transformed::yes(self.octets.call(args)));
            }
            ("date_trunc", 2) => match self.clock.shown(&args[1], kind(&args[1], schema).as_ref()) {
                Some(shown) => {
                    args[1] = shown;
                    singular(&mut args[0]);
                    let cut = Expr::ScalarFunction(ScalarFunction { func, args });
                    return Ok(Transformed::yes(self.clock.moment(cast(cut, LOCAL))));
                }
                None => singular(&mut args[0]),
            },
            ("to_timestamp", 1) if kind(&args[0], schema).is_some_and(|kind| kind.is_numeric()) => {
                let micros = self.numbers.round_even.call(vec![cast(args.remove(0), DataType::Float64) * lit(1e6)]);
                let moment = DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC")));
                return Ok(Transformed::yes(cast(cast(micros, DataType::Int64), moment)));
            }
            ("to_char" | "to_date" | "to_timestamp", 2) => return Ok(self.template(func, args, schema)),
            ("array_element", 2) => counted_from_one(&mut args, schema),
            ("array_has", 2) => return Ok(with_unknown(func, args)),
            ("ceil" | "floor", 1) => return Ok(whole(func, args, schema)),
            ("regexp_replace", 3..) => plain_dollars(&mut args[2]),
            _ => false,
        };
        Ok(told(Expr::ScalarFunction(ScalarFunction { func, args }), changed))
    }

    fn double(&self, value: Expr, kind: &DataType) -> Expr {
        if kind.is_decimal() { self.float(value, false) } else { cast(value, DataType::Float64) }
    }

    /// Templates are PostgreSQL's.
    fn template(&self, func: Arc<ScalarUDF>, args: Vec<Expr>, schema: &DFSchema) -> Transformed<Expr> {
        let of = kind(&args[0], schema).unwrap_or(DataType::Null);
        let with_template = match (func.name(), of) {
            ("to_date", DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => &self.templates.to_date,
            ("to_timestamp", DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => &self.templates.to_timestamp,
            ("to_char", number) if number.is_numeric() => &self.templates.of_number,
            ("to_char", moment) if moment.is_temporal() => &self.templates.of_moment,
            _ => return Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
        };
        Transformed::yes(with_template.call(args))
    }

    /// A part is `double precision`, seconds have a fraction, and a difference of timestamps has days.
    fn part(&self, func: Arc<ScalarUDF>, mut args: Vec<Expr>, schema: &DFSchema) -> Transformed<Expr> {
        let name = match &args[0] {
            Expr::Literal(ScalarValue::Utf8(Some(name)), _) => name.to_ascii_lowercase(),
            _ => String::new(),
        };
        let mut of = kind(&args[1], schema);
        if name != "epoch"
            && let Some(shown) = self.clock.shown(&args[1], of.as_ref())
        {
            args[1] = shown;
            of = Some(LOCAL);
        }
        if matches!(of, Some(DataType::Duration(_))) && name != "epoch" {
            let duration = args.remove(1);
            args.push(self.intervals.of_duration.call(vec![duration]));
        }
        if matches!(name.as_str(), "second" | "seconds")
            && matches!(of, Some(DataType::Timestamp(..) | DataType::Time64(_)))
        {
            args[0] = lit("microsecond");
            let micros = Expr::ScalarFunction(ScalarFunction { func, args });
            return Transformed::yes(cast(micros, DataType::Float64) / lit(1e6));
        }
        let years = match name.as_str() {
            "decade" | "decades" => Some((0.0, 10.0)),
            "century" | "centuries" => Some((99.0, 100.0)),
            "millennium" | "millennia" | "millenniums" => Some((999.0, 1000.0)),
            _ => None,
        };
        if years.is_some() {
            args[0] = lit("year");
        }
        let whole = cast(Expr::ScalarFunction(ScalarFunction { func, args }), DataType::Float64);
        Transformed::yes(match years {
            Some((before, of)) => self.numbers.floor.call(vec![(whole + lit(before)) / lit(of)]),
            None => whole,
        })
    }
}

/// Whether numbers are not all of `double precision` already; DataFusion raises decimals to decimals of few digits.
fn is_not_double(args: &[Expr], schema: &DFSchema) -> bool {
    let kinds: Vec<DataType> = args.iter().filter_map(|argument| kind(argument, schema)).collect();
    let exact = |kind: &DataType| kind.is_decimal() || kind.is_integer();
    kinds.len() == args.len() && kinds.iter().all(DataType::is_numeric) && kinds.iter().any(exact)
}

/// `milliseconds` is `millisecond`; tells whether it was.
fn singular(field: &mut Expr) -> bool {
    match field {
        Expr::Literal(ScalarValue::Utf8(Some(name)), _) if name.len() > 1 && name.ends_with(['s', 'S']) => {
            name.pop();
            true
        }
        _ => false,
    }
}

/// Elements are counted from 1; DataFusion counts what is below from the end.
fn counted_from_one(args: &mut [Expr], schema: &DFSchema) -> bool {
    let counts = kind(&args[1], schema).is_some_and(|kind| kind.is_integer());
    match &args[1] {
        Expr::Literal(number, _) if number.cast_to(&DataType::Int64).is_ok_and(|number| number > 0_i64.into()) => false,
        _ if !counts => false,
        Expr::Literal(..) => {
            args[1] = lit(ScalarValue::Int64(None));
            true
        }
        index => {
            let positive = Expr::Case(Case {
                expr: None,
                when_then_expr: vec![(Box::new(index.clone().gt(lit(0_i64))), Box::new(index.clone()))],
                else_expr: None,
            });
            args[1] = positive;
            true
        }
    }
}

/// Whether a value is in an array of literals is unknown if it is not in it and one of them is NULL.
fn with_unknown(func: Arc<ScalarUDF>, mut args: Vec<Expr>) -> Transformed<Expr> {
    let is_null = |value: &Expr| matches!(value, Expr::Literal(value, _) if value.is_null());
    let mut unknown = false;
    if let Expr::ScalarFunction(array) = &mut args[0]
        && array.name() == "make_array"
        && array.args.iter().any(is_null)
        && !array.args.iter().all(is_null)
    {
        array.args.retain(|value| !is_null(value));
        unknown = true;
    }
    let has = Expr::ScalarFunction(ScalarFunction { func, args });
    if unknown { Transformed::yes(has.or(lit(ScalarValue::Boolean(None)))) } else { Transformed::no(has) }
}

/// `ceil(numeric)` is a number without digits behind the point.
fn whole(func: Arc<ScalarUDF>, args: Vec<Expr>, schema: &DFSchema) -> Transformed<Expr> {
    let of = kind(&args[0], schema);
    let call = Expr::ScalarFunction(ScalarFunction { func, args });
    match of {
        Some(DataType::Decimal128(precision, scale)) if scale > 0 => {
            let before = i16::from(precision) - i16::from(scale) + 1;
            let before = u8::try_from(before.clamp(1, 38)).unwrap_or(38);
            Transformed::yes(cast(call, DataType::Decimal128(before, 0)))
        }
        _ => Transformed::no(call),
    }
}

/// A dollar is itself in the replacement of a regular expression; DataFusion takes what follows for a group.
fn plain_dollars(replacement: &mut Expr) -> bool {
    match replacement {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) if text.contains('$') => {
            *text = text.replace('$', "$$");
            true
        }
        _ => false,
    }
}
