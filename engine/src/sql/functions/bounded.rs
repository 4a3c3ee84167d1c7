//! Functions that can make a value far larger than what they are given: `repeat`, `lpad`, `array_repeat` and their kin.
//!
//! DataFusion makes such a value in one go, outside of what the memory pool counts and before a cancel is seen. So what
//! a call asks for is added up first, and more than [`BYTES_MAX`] is refused (54000), as PostgreSQL refuses one value
//! of more than a gigabyte.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::error::SqlError;
use crate::sqlstate::SqlState;

/// The most bytes that one call may make of one batch.
const BYTES_MAX: u64 = 1 << 30;
/// Bytes of an element of a list, about.
const ELEMENT_BYTES: u64 = 8;

/// What the sizes of results are counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Size {
    /// The text of the first argument, as often as the second says.
    Times,
    /// As many characters, or elements, as the second argument says.
    Length(u64),
    /// The elements from the first argument to the second, by the third.
    Span,
}

/// The functions by name.
const BOUNDED: [(&str, Size); 8] = [
    ("repeat", Size::Times),
    ("lpad", Size::Length(1)),
    ("rpad", Size::Length(1)),
    ("array_repeat", Size::Length(ELEMENT_BYTES)),
    ("list_repeat", Size::Length(ELEMENT_BYTES)),
    ("array_resize", Size::Length(ELEMENT_BYTES)),
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
            Self::Length(bytes) => count(row).saturating_mul(bytes),
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
    use arrow::array::{Int64Array, StringArray, UInt64Array};

    use super::*;

    fn texts(texts: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from(texts.to_vec()))
    }

    #[test]
    fn q07_what_a_call_asks_for_is_added_up() {
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None]));
        assert_eq!(Size::Times.of(&[texts(&["ab", "cd"]), Arc::clone(&counts)]), 6);
        assert_eq!(Size::Length(8).of(&[texts(&["a", "b"]), counts]), 24);
        let many: ArrayRef = Arc::new(UInt64Array::from(vec![2_000_000_000]));
        assert!(Size::Length(ELEMENT_BYTES).of(&[texts(&["a"]), many]) > BYTES_MAX);
        let number = |value: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![value])) };
        assert_eq!(Size::Span.of(&[number(1), number(101), number(10)]), 80);
        assert_eq!(Size::Span.of(&[number(10)]), 80);
        assert!(Size::Span.of(&[number(i64::MIN), number(i64::MAX)]) > BYTES_MAX);
        assert_eq!(Size::Times.of(&[texts(&["ab"]), number(-1)]), 0);
    }
}
