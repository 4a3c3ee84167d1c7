//! Text to values: what a cast from text reads is what the same text is as a parameter or
//! in COPY.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;
use lancegate_wire::decode::{array_from_values, decode_parameter_with};
use lancegate_wire::{Format, FormatSettings, ParameterValue, WireError};

use crate::error::SqlError;
use crate::sqlstate::SqlState;

/// Object ids of the types that are read.
fn oid_of(data_type: &DataType) -> Option<u32> {
    Some(match data_type {
        DataType::Int16 => 21,
        DataType::Int32 => 23,
        DataType::Int64 => 20,
        DataType::Float32 => 700,
        DataType::Float64 => 701,
        DataType::Decimal128(..) | DataType::Decimal256(..) => 1700,
        DataType::Date32 => 1082,
        DataType::Time64(_) => 1083,
        DataType::Timestamp(_, None) => 1114,
        DataType::Timestamp(_, Some(_)) => 1184,
        DataType::Interval(_) => 1186,
        _ => return None,
    })
}

/// Returns whether texts of a type are read here.
pub(crate) fn reads(data_type: &DataType) -> bool {
    oid_of(data_type).is_some()
}

/// Reads one text as a type.
///
/// # Errors
/// 22P02, 22007, 22008, 22003 for one that is no value of it.
pub(crate) fn read(text: &str, data_type: &DataType, settings: &FormatSettings) -> Result<ScalarValue> {
    let value = decoded(text, data_type, settings)?;
    let array = array_from_values(&[value], data_type).map_err(|error| raised(&error))?;
    ScalarValue::try_from_array(&array, 0)
}

/// Reads a text as a number that keeps all its digits.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_numeric(text: &str, settings: &FormatSettings) -> Result<ScalarValue> {
    let value = decoded(text, &DataType::Decimal128(38, 10), settings)?;
    let array = value.to_array(&value.data_type()).map_err(|error| raised(&error))?;
    ScalarValue::try_from_array(&array, 0)
}

fn decoded(text: &str, data_type: &DataType, settings: &FormatSettings) -> Result<ParameterValue> {
    let oid = oid_of(data_type).unwrap_or_default();
    decode_parameter_with(oid, Format::Text, Some(text.as_bytes()), settings).map_err(|error| raised(&error))
}

fn raised(error: &WireError) -> DataFusionError {
    let error = match error {
        WireError::OutOfRange(message) if message.contains("too large") => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow")
        }
        error => SqlError::new(SqlState::parse(error.sqlstate()), error.to_string()),
    };
    DataFusionError::External(Box::new(error))
}

/// A function that reads texts as a type.
#[derive(Debug)]
struct Input {
    data_type: DataType,
    settings: FormatSettings,
    signature: Signature,
}

/// Returns the function that reads texts as a type.
pub(crate) fn function(data_type: DataType, settings: &FormatSettings) -> ScalarUDF {
    // Times without a zone are in that of the session.
    let zoned = matches!(data_type, DataType::Timestamp(_, Some(_)));
    let volatility = if zoned { Volatility::Stable } else { Volatility::Immutable };
    let signature = Signature::any(1, volatility);
    ScalarUDF::new_from_impl(Input { data_type, settings: settings.clone(), signature })
}

impl PartialEq for Input {
    fn eq(&self, other: &Self) -> bool {
        self.data_type == other.data_type && self.settings.timezone == other.settings.timezone
    }
}

impl Eq for Input {}

impl Hash for Input {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.data_type.hash(state);
    }
}

impl ScalarUDFImpl for Input {
    fn name(&self) -> &str {
        "text_in"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let Some(texts) = args.args.first() else {
            return Err(DataFusionError::Internal("no text to read".to_owned()));
        };
        let texts = cast(&texts.to_array(if scalar { 1 } else { args.number_rows })?, &DataType::Utf8)?;
        let values = texts.as_string::<i32>().iter().map(|text| match text {
            Some(text) => decoded(text, &self.data_type, &self.settings),
            None => Ok(ParameterValue::Null),
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let array: ArrayRef = array_from_values(&values, &self.data_type).map_err(|error| raised(&error))?;
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
            false => ColumnarValue::Array(Arc::clone(&array)),
        })
    }
}
