//! A scalar function made of a name, a result type and a closure over rows.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::scalar::ScalarValue;

type Body = dyn Fn(&[ScalarValue]) -> Result<ScalarValue> + Send + Sync;

/// A function that is evaluated row by row: for catalog queries, whose inputs
/// are small and whose argument types clients mix freely.
#[derive(Clone)]
pub(crate) struct RowFunction {
    name: String,
    signature: Signature,
    returns: DataType,
    /// What the result's field says besides, so that it has the type of PostgreSQL that is meant.
    mark: Option<(&'static str, &'static str)>,
    body: Arc<Body>,
}

impl RowFunction {
    /// Returns a function of `arguments` arguments of any type; several counts
    /// are several overloads.
    pub(crate) fn define(
        name: &str,
        arguments: &[usize],
        returns: DataType,
        volatility: Volatility,
        body: impl Fn(&[ScalarValue]) -> Result<ScalarValue> + Send + Sync + 'static,
    ) -> ScalarUDF {
        let shapes = arguments.iter().map(|count| match count {
            0 => TypeSignature::Nullary,
            count => TypeSignature::Any(*count),
        });
        let signature = Signature::one_of(shapes.collect(), volatility);
        let body = Arc::new(body);
        ScalarUDF::new_from_impl(Self { name: name.to_owned(), signature, returns, mark: None, body })
    }

    /// Returns a function of one argument whose result is marked as a type of PostgreSQL.
    pub(crate) fn marked(
        name: &str,
        returns: DataType,
        mark: (&'static str, &'static str),
        body: impl Fn(&[ScalarValue]) -> Result<ScalarValue> + Send + Sync + 'static,
    ) -> ScalarUDF {
        let signature = Signature::any(1, Volatility::Immutable);
        let (name, body) = (name.to_owned(), Arc::new(body));
        ScalarUDF::new_from_impl(Self { name, signature, returns, mark: Some(mark), body })
    }

    /// Returns a function without arguments that always answers `value`.
    pub(crate) fn constant(name: &str, value: ScalarValue) -> ScalarUDF {
        let returns = value.data_type();
        Self::define(name, &[0], returns, Volatility::Stable, move |_| Ok(value.clone()))
    }
}

impl fmt::Debug for RowFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowFunction").field("name", &self.name).field("returns", &self.returns).finish_non_exhaustive()
    }
}

impl PartialEq for RowFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.body, &other.body)
    }
}

impl Eq for RowFunction {}

impl Hash for RowFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(&self.name, self.returns.clone(), true);
        let metadata = self.mark.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Ok(Arc::new(field.with_metadata(metadata.into_iter().collect())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant: Option<Vec<ScalarValue>> = args
            .args
            .iter()
            .map(|argument| match argument {
                ColumnarValue::Scalar(value) => Some(value.clone()),
                ColumnarValue::Array(_) => None,
            })
            .collect();
        if let Some(arguments) = constant {
            return Ok(ColumnarValue::Scalar((self.body)(&arguments)?));
        }
        let arrays =
            args.args.iter().map(|argument| argument.to_array(args.number_rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let rows = (0..args.number_rows).map(|row| {
            let arguments =
                arrays.iter().map(|array| ScalarValue::try_from_array(array, row)).collect::<Result<Vec<_>>>()?;
            (self.body)(&arguments)
        });
        let values = rows.collect::<Result<Vec<_>>>()?;
        if values.is_empty() {
            return Ok(ColumnarValue::Array(arrow::array::new_empty_array(&self.returns)));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(values)?))
    }
}

type ArrayBody = fn(&[ArrayRef], &DataType) -> Result<ArrayRef>;

/// A function over whole arrays: for operators, whose inputs may be long.
#[derive(Debug, Clone)]
pub(crate) struct ArrayFunction {
    name: &'static str,
    signature: Signature,
    returns: DataType,
    body: OverArrays,
}

#[derive(Debug, Clone, Copy)]
enum OverArrays {
    Plain(fn(&[ArrayRef]) -> Result<ArrayRef>),
    Typed(ArrayBody),
}

impl ArrayFunction {
    /// Returns an immutable function of arguments that the caller has made what they must be.
    pub(crate) fn define(
        name: &'static str,
        returns: DataType,
        body: fn(&[ArrayRef]) -> Result<ArrayRef>,
    ) -> ScalarUDF {
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { name, signature, returns, body: OverArrays::Plain(body) })
    }

    /// Returns one that is told the type of its result.
    pub(crate) fn typed(name: &'static str, returns: DataType, body: ArrayBody) -> ScalarUDF {
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { name, signature, returns, body: OverArrays::Typed(body) })
    }
}

impl PartialEq for ArrayFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.returns == other.returns
    }
}

impl Eq for ArrayFunction {}

impl Hash for ArrayFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.returns.hash(state);
    }
}

impl ScalarUDFImpl for ArrayFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let array = match self.body {
            OverArrays::Plain(body) => body(&arrays),
            OverArrays::Typed(body) => body(&arrays, &self.returns),
        }?;
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
            false => ColumnarValue::Array(array),
        })
    }
}

/// Returns the text of an argument.
pub(crate) fn text(value: &ScalarValue) -> Option<String> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => text.clone(),
        other if other.is_null() => None,
        other => Some(other.to_string()),
    }
}

/// Returns an argument that is an object id or another whole number.
pub(crate) fn number(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int8(value) => value.map(i64::from),
        ScalarValue::Int16(value) => value.map(i64::from),
        ScalarValue::Int32(value) => value.map(i64::from),
        ScalarValue::Int64(value) => *value,
        ScalarValue::UInt32(value) => value.map(i64::from),
        ScalarValue::UInt64(value) => value.and_then(|value| i64::try_from(value).ok()),
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => {
            text.as_deref().and_then(|text| text.trim().parse().ok())
        }
        _ => None,
    }
}

/// Returns a text result.
pub(crate) fn utf8(value: Option<impl Into<String>>) -> ScalarValue {
    ScalarValue::Utf8(value.map(Into::into))
}
