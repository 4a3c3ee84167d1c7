//! `pg_sleep(seconds)`: waits, and ends when its statement is canceled.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::DataType;
use async_trait::async_trait;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

/// What a statement may wait for, so that a wrong number does not hold it for ever: a year.
const SECONDS_MAX: f64 = 365.0 * 86_400.0;

/// Returns the function.
pub(super) fn function() -> ScalarUDF {
    let sleep = Sleep { signature: Signature::exact(vec![DataType::Float64], Volatility::Volatile) };
    AsyncScalarUDF::new(Arc::new(sleep)).into_scalar_udf()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sleep {
    signature: Signature,
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &'static str {
        "pg_sleep"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// PostgreSQL's is void, which is shown as an empty text.
    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("pg_sleep waits")
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Sleep {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(seconds) = args.args.first() else { return internal_err!("pg_sleep takes a number") };
        let seconds = seconds.to_array(args.number_rows)?;
        for row in 0..args.number_rows {
            if let ScalarValue::Float64(Some(seconds)) = ScalarValue::try_from_array(&seconds, row)? {
                // NaN and negative numbers do not wait.
                let seconds = if seconds.is_nan() { 0.0 } else { seconds.clamp(0.0, SECONDS_MAX) };
                tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            }
        }
        Ok(ColumnarValue::Array(ScalarValue::from("").to_array_of_size(args.number_rows)?))
    }
}
