//! `sum`, `avg`, `min` and `max` of intervals, by PostgreSQL's rules of their lengths and
//! parts. Of other types they are DataFusion's.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::average::Avg;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

use super::intervals::{INTERVAL, length, out_of_range, scale};

/// Returns the aggregate function `avg`.
pub(super) fn average() -> AggregateUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    AggregateUDF::new_from_impl(PostgresAvg { inner: Avg::new(), signature })
}

/// Returns `max` or `min` of intervals.
pub(crate) fn extreme(greatest: bool) -> AggregateUDF {
    let signature = Signature::any(1, Volatility::Immutable);
    AggregateUDF::new_from_impl(Extreme { greatest, signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PostgresAvg {
    inner: Avg,
    signature: Signature,
}

impl AggregateUDFImpl for PostgresAvg {
    fn name(&self) -> &str {
        "avg"
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let [argument] = arguments else {
            return plan_err!("function avg with {} arguments does not exist", arguments.len());
        };
        Ok(vec![match argument {
            DataType::Interval(_) => INTERVAL,
            other if other.is_decimal() || matches!(other, DataType::Duration(_)) => other.clone(),
            other if other.is_numeric() || other.is_null() => DataType::Float64,
            other => return plan_err!("function avg({other}) does not exist"),
        }])
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [DataType::Interval(_)] => Ok(INTERVAL),
            _ => self.inner.return_type(arguments),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if *args.return_field.data_type() == INTERVAL {
            return sum_of_intervals(&args, true);
        }
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if *args.return_field.data_type() == INTERVAL {
            return Ok(sum_state(args.name));
        }
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        *args.return_field.data_type() != INTERVAL && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if *args.return_field.data_type() == INTERVAL {
            return sum_of_intervals(&args, true);
        }
        self.inner.create_sliding_accumulator(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Returns what adds intervals up.
///
/// # Errors
/// For DISTINCT, which nobody asks for.
pub(super) fn sum_of_intervals(args: &AccumulatorArgs, average: bool) -> Result<Box<dyn Accumulator>> {
    if args.is_distinct {
        return datafusion::common::not_impl_err!("DISTINCT in an aggregate of intervals is not supported");
    }
    Ok(Box::new(Sum { average, ..Sum::default() }))
}

/// Returns the columns of what is known of a part of the rows.
pub(super) fn sum_state(name: &str) -> Vec<FieldRef> {
    let field = |part, data_type| Arc::new(Field::new(format_state_name(name, part), data_type, true));
    vec![field("sum", INTERVAL), field("count", DataType::Int64)]
}

#[derive(Debug, Default)]
struct Sum {
    average: bool,
    count: i64,
    months: i64,
    days: i64,
    nanos: i128,
}

impl Sum {
    fn add(&mut self, value: IntervalMonthDayNano, sign: i8) {
        self.months += i64::from(sign) * i64::from(value.months);
        self.days += i64::from(sign) * i64::from(value.days);
        self.nanos += i128::from(sign) * i128::from(value.nanoseconds);
    }

    fn value(&self) -> Result<Option<IntervalMonthDayNano>> {
        if self.count == 0 {
            return Ok(None);
        }
        let months = i32::try_from(self.months).map_err(|_| out_of_range())?;
        let days = i32::try_from(self.days).map_err(|_| out_of_range())?;
        let nanos = i64::try_from(self.nanos).map_err(|_| out_of_range())?;
        Ok(Some(IntervalMonthDayNano::new(months, days, nanos)))
    }

    fn change(&mut self, values: &[ArrayRef], sign: i8) -> Result<()> {
        let values = cast(&values[0], &INTERVAL)?;
        for value in values.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            self.add(value, sign);
            self.count += i64::from(sign);
        }
        Ok(())
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(values, 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(values, -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let sums = states[0].as_primitive::<IntervalMonthDayNanoType>();
        for (sum, count) in sums.iter().zip(states[1].as_primitive::<Int64Type>()) {
            if let (Some(sum), Some(count)) = (sum, count) {
                self.add(sum, 1);
                self.count += count;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::IntervalMonthDayNano(self.value()?), ScalarValue::Int64(Some(self.count))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let count = self.count as f64;
        let value = match self.value()? {
            Some(sum) if self.average => Some(scale(sum, |part| part / count)?),
            other => other,
        };
        Ok(ScalarValue::IntervalMonthDayNano(value))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    greatest: bool,
    signature: Signature,
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        if self.greatest { "max" } else { "min" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn accumulator(&self, _args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Best { greatest: self.greatest, value: None }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, self.name()), INTERVAL, true))])
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

#[derive(Debug)]
struct Best {
    greatest: bool,
    value: Option<IntervalMonthDayNano>,
}

impl Accumulator for Best {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = cast(&values[0], &INTERVAL)?;
        for value in values.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            let better = self.value.is_none_or(|best| match self.greatest {
                true => length(value) > length(best),
                false => length(value) < length(best),
            });
            if better {
                self.value = Some(value);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::IntervalMonthDayNano(self.value))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
