//! Functions that can make a value far larger than what they are given: `repeat`, `lpad`, `rpad`, `replace`, `array_repeat`,
//! `array_resize`, `range` and `generate_series`.
//!
//! DataFusion makes such a value in one go, outside of what the memory pool counts and before a cancel is seen. So what
//! a call asks for is added up first, and more than [`BYTES_MAX`] is refused (54000), as PostgreSQL refuses one value
//! of more than a gigabyte. The bound is lower here, because it is held more than once: while a statement is planned a
//! constant is copied, and it is made for each statement that runs.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type, IntervalMonthDayNanoType, TimeUnit};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::error::SqlError;
use crate::sqlstate::SqlState;

/// The most bytes that one call may make of one batch.
const BYTES_MAX: u64 = 1 << 28;
/// Bytes of an element of a list, at least.
const ELEMENT_BYTES: u64 = 8;

/// What the sizes of results are counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Size {
    /// The text of the first argument, as often as the second says.
    Times,
    /// As many characters as the second argument says.
    Length,
    /// As often as the second argument says what this one holds.
    Elements(usize),
    /// The elements from the first argument to the second, by the third: numbers, or moments.
    Span,
    /// The first argument with the third for each second.
    Replaced,
}

/// The functions by name.
const BOUNDED: [(&str, Size); 9] = [
    ("repeat", Size::Times),
    ("lpad", Size::Length),
    ("rpad", Size::Length),
    ("replace", Size::Replaced),
    ("array_repeat", Size::Elements(0)),
    ("list_repeat", Size::Elements(0)),
    ("array_resize", Size::Elements(2)),
    ("range", Size::Span),
    ("generate_series", Size::Span),
];

/// Returns those of the functions that a registry has, with a bound.
pub(super) fn functions(registry: &dyn FunctionRegistry) -> Vec<ScalarUDF> {
    let bounded = BOUNDED.iter().filter_map(|(name, size)| Some((registry.udf(name).ok()?, *size)));
    bounded.map(|(inner, size)| ScalarUDF::new_from_impl(Bounded { inner, size })).collect()
}

/// A function whose result is bounded.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    size: Size,
}

impl Size {
    /// Returns what a call asks for, in bytes.
    fn of(self, arguments: &[ArrayRef]) -> u64 {
        let rows = arguments.first().map_or(0, |first| first.len());
        let whole = |array: &ArrayRef| {
            let is_whole = array.data_type().is_integer();
            is_whole.then(|| cast(array, &DataType::Int64).ok()).flatten()
        };
        let numbers: Vec<Option<ArrayRef>> = arguments.iter().map(whole).collect();
        let number = |argument: usize, row: usize| {
            let numbers = numbers.get(argument)?.as_ref()?.as_primitive_opt::<Int64Type>()?;
            numbers.is_valid(row).then(|| numbers.value(row))
        };
        let count = |row: usize| number(1, row).and_then(|count| u64::try_from(count).ok()).unwrap_or_default();
        let each = |row: usize| match self {
            Self::Times => count(row).saturating_mul(text_bytes(&arguments[0], row)),
            Self::Length => count(row),
            Self::Elements(argument) => {
                let bytes = arguments.get(argument).map_or(ELEMENT_BYTES, |values| value_bytes(values, row));
                count(row).saturating_mul(bytes)
            }
            Self::Replaced => {
                let bytes = |argument: usize| arguments.get(argument).map_or(0, |texts| text_bytes(texts, row));
                let found = bytes(0) / bytes(1).max(1);
                bytes(0).saturating_add(found.saturating_mul(bytes(2)))
            }
            Self::Span if arguments[0].data_type().is_temporal() => {
                moments(arguments, row).saturating_mul(ELEMENT_BYTES)
            }
            Self::Span => {
                // With one argument it is the end.
                let (start, end) = match arguments.len() {
                    1 => (Some(0), number(0, row)),
                    _ => (number(0, row), number(1, row)),
                };
                let (Some(start), Some(end)) = (start, end) else { return 0 };
                let step = if arguments.len() > 2 { number(2, row).unwrap_or(1) } else { 1 };
                (end.abs_diff(start) / step.unsigned_abs().max(1)).saturating_mul(ELEMENT_BYTES)
            }
        };
        (0..rows).fold(0_u64, |sum, row| sum.saturating_add(each(row)))
    }
}

/// Returns how many moments there are from the first argument to the second, by the interval of the third.
fn moments(arguments: &[ArrayRef], row: usize) -> u64 {
    let micros = |argument: usize| {
        let moments = cast(arguments.get(argument)?, &DataType::Timestamp(TimeUnit::Microsecond, None)).ok()?;
        let moments = cast(&moments, &DataType::Int64).ok()?;
        moments.is_valid(row).then(|| moments.as_primitive::<Int64Type>().value(row))
    };
    let (Some(start), Some(end)) = (micros(0), micros(1)) else { return 0 };
    let step = arguments.get(2).and_then(|steps| steps.as_primitive_opt::<IntervalMonthDayNanoType>());
    let step = step.filter(|steps| steps.is_valid(row)).map(|steps| steps.value(row));
    let nanos = step.map_or(1, |step| {
        let days = i128::from(step.months) * 28 + i128::from(step.days);
        (days * 86_400_000_000_000 + i128::from(step.nanoseconds)).unsigned_abs().max(1)
    });
    u64::try_from(u128::from(end.abs_diff(start)) * 1_000 / nanos).unwrap_or(u64::MAX)
}

/// Returns what one value takes, about.
fn value_bytes(values: &ArrayRef, row: usize) -> u64 {
    let bytes = values.slice(row, 1).to_data().get_slice_memory_size().unwrap_or_default() as u64;
    bytes.max(text_bytes(values, row)).max(ELEMENT_BYTES)
}

fn text_bytes(texts: &ArrayRef, row: usize) -> u64 {
    let length = match texts.data_type() {
        _ if texts.is_null(row) => 0,
        DataType::Utf8 => texts.as_string::<i32>().value(row).len(),
        DataType::LargeUtf8 => texts.as_string::<i64>().value(row).len(),
        DataType::Utf8View => texts.as_string_view().value(row).len(),
        _ => 0,
    };
    length as u64
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        // One value is made of constants, however many rows there are.
        let rows = if constant { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<Vec<_>>>()?;
        if self.size.of(&arrays) > BYTES_MAX {
            let error = SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
                .detail(format!("{} would make more than {BYTES_MAX} bytes.", self.inner.name()));
            return Err(DataFusionError::External(Box::new(error)));
        }
        self.inner.invoke_with_args(args)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, StringArray, UInt64Array};
    use arrow::datatypes::IntervalMonthDayNano;

    use super::*;

    fn texts(texts: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from(texts.to_vec()))
    }

    #[test]
    fn q07_what_a_call_asks_for_is_added_up() {
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None]));
        assert_eq!(Size::Times.of(&[texts(&["ab", "cd"]), Arc::clone(&counts)]), 6);
        assert_eq!(Size::Length.of(&[texts(&["a", "b"]), counts]), 3);
        let many: ArrayRef = Arc::new(UInt64Array::from(vec![2_000_000_000]));
        assert!(Size::Elements(0).of(&[texts(&["a"]), many]) > BYTES_MAX);
        let thousand: ArrayRef = Arc::new(Int64Array::from(vec![1_000_000]));
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some((0..1_000).map(Some))]);
        assert!(Size::Elements(0).of(&[Arc::new(list), Arc::clone(&thousand)]) > BYTES_MAX);
        let (long, short) = ("a".repeat(100_000), "b".repeat(100_000));
        assert!(Size::Replaced.of(&[texts(&[&long]), texts(&["a"]), texts(&[&short])]) > BYTES_MAX);
        let moment = |days: i32| -> ArrayRef { Arc::new(Date32Array::from(vec![days])) };
        let step = |nanos: i64| -> ArrayRef {
            Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(0, 0, nanos)]))
        };
        assert_eq!(Size::Span.of(&[moment(0), moment(1), step(3_600_000_000_000)]), 24 * ELEMENT_BYTES);
        assert!(Size::Span.of(&[moment(0), moment(80_000), step(1_000)]) > BYTES_MAX);
        let number = |value: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![value])) };
        assert_eq!(Size::Span.of(&[number(1), number(101), number(10)]), 80);
        assert_eq!(Size::Span.of(&[number(10)]), 80);
        assert!(Size::Span.of(&[number(i64::MIN), number(i64::MAX)]) > BYTES_MAX);
        assert_eq!(Size::Times.of(&[texts(&["ab"]), number(-1)]), 0);
    }
}
