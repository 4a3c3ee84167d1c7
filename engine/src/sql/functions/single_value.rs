//! An aggregate that takes the only value there is: what makes one value of a subquery that reads the outer row.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Expr, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use crate::error::SqlError;
use crate::sqlstate::SqlState;

static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(SingleValue { signature }))
});

/// Returns the only value of an expression; NULL without rows, 21000 for several.
pub(crate) fn of(value: Expr) -> Expr {
    FUNCTION.call(vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleValue {
    signature: Signature,
}

impl AggregateUDFImpl for SingleValue {
    fn name(&self) -> &str {
        "single_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [only] => Ok(only.clone()),
            _ => plan_err!("single_value takes one argument"),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Single { value: ScalarValue::try_from(args.return_field.data_type())?, count: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = Field::new(format!("{}[value]", args.name), args.return_field.data_type().clone(), true);
        Ok(vec![Arc::new(value), Arc::new(Field::new(format!("{}[count]", args.name), DataType::Int64, true))])
    }
}

#[derive(Debug)]
struct Single {
    value: ScalarValue,
    count: i64,
}

impl Single {
    fn take(&mut self, values: &ArrayRef, row: usize, count: i64) -> Result<()> {
        self.count += count;
        if self.count > 1 {
            let message = "more than one row returned by a subquery used as an expression";
            let error = SqlError::new(SqlState::CARDINALITY_VIOLATION, message);
            return Err(DataFusionError::External(Box::new(error)));
        }
        self.value = ScalarValue::try_from_array(values, row)?;
        Ok(())
    }
}

impl Accumulator for Single {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values {
            [values] if !values.is_empty() => self.take(values, 0, i64::try_from(values.len()).unwrap_or(i64::MAX)),
            _ => Ok(()),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, counts] = states else { return plan_err!("single_value has two states") };
        let counts = counts.as_primitive::<Int64Type>();
        for row in (0..values.len()).filter(|row| counts.is_valid(*row) && counts.value(*row) > 0) {
            self.take(values, row, counts.value(row))?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::Int64(Some(self.count))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size() - size_of_val(&self.value)
    }
}
