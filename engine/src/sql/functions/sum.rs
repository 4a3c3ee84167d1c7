//! `sum` with PostgreSQL's result types.
//!
//! DataFusion adds 64-bit integers in 64 bits and wraps around. PostgreSQL adds
//! `bigint` as `numeric` (`aggregate functions`, table 9.59), and so does this:
//! the argument becomes a decimal, and everything else is DataFusion's.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

/// Wide enough for any 64-bit integer; ten digits more, DataFusion's result, hold
/// the sum of 10^18 of them.
const BIGINT_AS_DECIMAL: DataType = DataType::Decimal128(28, 0);

#[derive(Debug, PartialEq, Eq, Hash)]
struct PostgresSum {
    inner: Sum,
    signature: Signature,
}

/// Returns the aggregate function `sum`.
pub(super) fn function() -> AggregateUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    AggregateUDF::new_from_impl(PostgresSum { inner: Sum::new(), signature })
}

impl AggregateUDFImpl for PostgresSum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let [argument] = arguments else {
            return plan_err!("function sum with {} arguments does not exist", arguments.len());
        };
        let coerced = match argument {
            DataType::Null
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::UInt8
            | DataType::UInt16 => DataType::Int64,
            DataType::Int64 | DataType::UInt32 | DataType::UInt64 => BIGINT_AS_DECIMAL,
            DataType::Float16 | DataType::Float32 | DataType::Float64 => DataType::Float64,
            other if other.is_decimal() || matches!(other, DataType::Duration(_)) => other.clone(),
            other => return plan_err!("function sum({other}) does not exist"),
        };
        Ok(vec![coerced])
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}
