//! DataFusion's functions with the arguments, results and errors that PostgreSQL's have:
//! counts are signed, an empty array has no length, and what has no result is an error.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Float64Type, Int32Type};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::functions_window::{ntile::ntile_udwf, rank, row_number::row_number_udwf};
use datafusion::logical_expr::function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LimitEffect, PartitionEvaluator, ReturnFieldArgs, ReversedUDWF, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

use crate::error::SqlError;
use crate::sqlstate::SqlState;

/// How a function differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Way {
    /// The result is an integer.
    Integer,
    /// So it is, and there is none of nothing.
    Length,
    /// The result of floats is a float or an error.
    Finite,
    /// Numbers of characters may be of any integer type.
    Characters,
}

const FUNCTIONS: [(&str, Way); 15] = [
    ("array_length", Way::Length),
    ("array_position", Way::Integer),
    ("array_ndims", Way::Length),
    ("cardinality", Way::Integer),
    ("substr", Way::Characters),
    ("sqrt", Way::Finite),
    ("ln", Way::Finite),
    ("log10", Way::Finite),
    ("log2", Way::Finite),
    ("exp", Way::Finite),
    ("power", Way::Finite),
    ("asin", Way::Finite),
    ("acos", Way::Finite),
    ("sinh", Way::Finite),
    ("cosh", Way::Finite),
];

/// Returns those of the functions that a registry has.
pub(super) fn functions(registry: &dyn FunctionRegistry) -> Vec<ScalarUDF> {
    let found = FUNCTIONS.iter().filter_map(|(name, way)| Some((registry.udf(name).ok()?, *way)));
    found
        .map(|(inner, way)| {
            let signature = match way {
                Way::Characters => Signature::user_defined(Volatility::Immutable),
                _ => inner.signature().clone(),
            };
            ScalarUDF::new_from_impl(Narrowed { inner, way, signature })
        })
        .collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Narrowed {
    inner: Arc<ScalarUDF>,
    way: Way,
    signature: Signature,
}

impl Narrowed {
    fn is_integer(&self) -> bool {
        matches!(self.way, Way::Integer | Way::Length)
    }

    fn integers(&self, result: &ArrayRef) -> Result<ArrayRef> {
        let integers = cast(result, &DataType::Int32)?;
        if self.way == Way::Integer {
            return Ok(integers);
        }
        let integers = integers.as_primitive::<Int32Type>();
        let lengths = integers.iter().map(|length| length.filter(|length| *length > 0));
        Ok(Arc::new(lengths.collect::<arrow::array::Int32Array>()))
    }

    fn ensure_finite(&self, arguments: &[ArrayRef], result: &ArrayRef) -> Result<()> {
        let float = |array: &ArrayRef| cast(array, &DataType::Float64);
        let result = float(result)?;
        let result = result.as_primitive::<Float64Type>();
        if result.iter().flatten().all(f64::is_finite) {
            return Ok(());
        }
        let arguments = arguments.iter().map(float).collect::<arrow::error::Result<Vec<_>>>()?;
        for row in (0..result.len()).filter(|row| result.is_valid(*row) && !result.value(*row).is_finite()) {
            let given: Vec<f64> = arguments.iter().map(|one| one.as_primitive::<Float64Type>().value(row)).collect();
            if given.iter().all(|one| one.is_finite()) {
                return Err(DataFusionError::External(Box::new(no_result(self.inner.name(), &given))));
            }
        }
        Ok(())
    }
}

/// Returns why a function of floats has no result (PostgreSQL, `float.c`).
fn no_result(name: &str, given: &[f64]) -> SqlError {
    let first = given.first().copied().unwrap_or_default();
    let (code, message) = match name {
        "sqrt" => (SqlState::INVALID_POWER_ARGUMENT, "cannot take square root of a negative number"),
        "ln" | "log10" | "log2" if first == 0.0 => {
            (SqlState::INVALID_LOGARITHM_ARGUMENT, "cannot take logarithm of zero")
        }
        "ln" | "log10" | "log2" => (SqlState::INVALID_LOGARITHM_ARGUMENT, "cannot take logarithm of a negative number"),
        "power" if first == 0.0 => (SqlState::INVALID_POWER_ARGUMENT, "zero raised to a negative power is undefined"),
        "power" if first < 0.0 && given.get(1).is_some_and(|power| power.fract() != 0.0) => (
            SqlState::INVALID_POWER_ARGUMENT,
            "a negative number raised to a non-integer power yields a complex result",
        ),
        "asin" | "acos" => (SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range"),
        _ => (SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"),
    };
    SqlError::new(code, message)
}

impl ScalarUDFImpl for Narrowed {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if self.is_integer() { Ok(DataType::Int32) } else { self.inner.return_type(arguments) }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = self.inner.return_field_from_args(args)?;
        Ok(match self.is_integer() {
            true => Arc::new(field.as_ref().clone().with_data_type(DataType::Int32).with_nullable(true)),
            false => field,
        })
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        if self.way != Way::Characters {
            return self.inner.coerce_types(arguments);
        }
        let coerced = arguments.iter().enumerate().map(|(index, given)| match (index, given) {
            (0, text) if text.is_string() => Some(text.clone()),
            (0, DataType::Null) => Some(DataType::Utf8),
            (1 | 2, number) if number.is_integer() || number.is_null() => Some(DataType::Int64),
            _ => None,
        });
        match coerced.collect::<Option<Vec<_>>>() {
            Some(coerced) if (2..=3).contains(&coerced.len()) => Ok(coerced),
            _ => plan_err!("No function matches the given name and argument types: {}", self.name()),
        }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // DataFusion takes a power of a logarithm, and the like, for each other's inverse.
        match self.way {
            Way::Finite => Ok(ExprSimplifyResult::Original(args)),
            _ => self.inner.simplify(args, info),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.way == Way::Characters {
            return self.inner.invoke_with_args(args);
        }
        let constant = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let given = match self.way {
            Way::Finite => args.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<Vec<_>>>()?,
            _ => Vec::new(),
        };
        if self.way == Way::Finite && args.args.iter().any(|argument| argument.data_type().is_null()) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(args.return_field.data_type())?));
        }
        if self.is_integer() {
            let field = args.return_field.as_ref().clone().with_data_type(DataType::UInt64);
            args.return_field = Arc::new(field);
        }
        let result = self.inner.invoke_with_args(args)?.into_array(rows)?;
        let result = match self.way {
            Way::Finite => {
                self.ensure_finite(&given, &result)?;
                result
            }
            _ => self.integers(&result)?,
        };
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

/// Returns the window functions that number rows.
pub(super) fn window_functions() -> Vec<WindowUDF> {
    let bigint = |inner| WindowUDF::new_from_impl(Numbering { inner, to: DataType::Int64 });
    let integer = |inner| WindowUDF::new_from_impl(Numbering { inner, to: DataType::Int32 });
    vec![bigint(row_number_udwf()), bigint(rank::rank_udwf()), bigint(rank::dense_rank_udwf()), integer(ntile_udwf())]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Numbering {
    inner: Arc<WindowUDF>,
    to: DataType,
}

impl WindowUDFImpl for Numbering {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.expressions(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        let inner = self.inner.partition_evaluator_factory(args)?;
        Ok(Box::new(Numbers { inner, to: self.to.clone() }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let field = self.inner.field(args)?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(self.to.clone())))
    }

    fn sort_options(&self) -> Option<arrow::compute::SortOptions> {
        self.inner.sort_options()
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.inner.reverse_expr() {
            ReversedUDWF::Identical => ReversedUDWF::Identical,
            _ => ReversedUDWF::NotSupported,
        }
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(args)
    }
}

#[derive(Debug)]
struct Numbers {
    inner: Box<dyn PartitionEvaluator>,
    to: DataType,
}

impl PartitionEvaluator for Numbers {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.inner.memoize(state)
    }

    fn get_range(&self, index: usize, rows: usize) -> Result<Range<usize>> {
        self.inner.get_range(index, rows)
    }

    fn is_causal(&self) -> bool {
        self.inner.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(cast(&self.inner.evaluate_all(values, rows)?, &self.to)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.inner.evaluate(values, range)?.cast_to(&self.to)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        Ok(cast(&self.inner.evaluate_all_with_rank(rows, ranks)?, &self.to)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.inner.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.inner.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.inner.include_rank()
    }
}
