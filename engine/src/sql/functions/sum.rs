//! `sum` with PostgreSQL's result types.
//!
//! DataFusion adds 64-bit integers in 64 bits and wraps around. PostgreSQL adds
//! `bigint` as `numeric` (`aggregate functions`, table 9.59), and so does this:
//! the argument becomes a decimal, and everything else is DataFusion's.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::functions_aggregate::sum::{Sum, sum_udaf};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, merge_schema};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, GroupsAccumulator, LogicalPlan, ReversedUDAF,
    Signature, Volatility, WindowFunctionDefinition, cast,
};

use super::interval_aggregates::{sum_of_intervals, sum_state};
use super::intervals::INTERVAL;

/// Wide enough for any 64-bit integer; ten digits more, DataFusion's result, hold
/// the sum of 10^18 of them.
const BIGINT_AS_DECIMAL: DataType = DataType::Decimal128(28, 0);

#[derive(Debug, PartialEq, Eq, Hash)]
struct PostgresSum {
    inner: Sum,
    signature: Signature,
}

/// Makes the sums of `smallint` and `integer` those of DataFusion, which are `bigint` as
/// PostgreSQL's are. Ours cannot be: the type of a sum is found from that of its argument
/// again and again, and once that is cast to `bigint`, it would be `numeric`.
///
/// # Errors
/// If the plan cannot be rebuilt.
pub(crate) fn of_integers(plan: LogicalPlan) -> Result<LogicalPlan> {
    let changed = plan.transform_up_with_subqueries(|node| {
        if !matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)) {
            return node.recompute_schema().map(Transformed::no);
        }
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let changed = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|expr| of_integer(expr, &schema))?;
            Ok(if changed.transformed { changed.update_data(|expr| name.restore(expr)) } else { changed })
        })?;
        changed.map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(changed.data)
}

fn of_integer(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_small = |arguments: &[Expr]| {
        let kind = arguments.first().and_then(|argument| argument.get_type(schema).ok());
        use DataType::{Int8, Int16, Int32, UInt8, UInt16};
        arguments.len() == 1 && matches!(kind, Some(Int8 | Int16 | Int32 | UInt8 | UInt16))
    };
    let wide = |arguments: Vec<Expr>| arguments.into_iter().map(|one| cast(one, DataType::Int64)).collect();
    Ok(match expr {
        Expr::AggregateFunction(mut call) if call.func.inner().is::<PostgresSum>() && is_small(&call.params.args) => {
            call.func = sum_udaf();
            call.params.args = wide(call.params.args);
            Transformed::yes(Expr::AggregateFunction(call))
        }
        Expr::WindowFunction(mut call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function)
                if function.inner().is::<PostgresSum>() && is_small(&call.params.args) =>
            {
                call.fun = WindowFunctionDefinition::AggregateUDF(sum_udaf());
                call.params.args = wide(call.params.args);
                Transformed::yes(Expr::WindowFunction(call))
            }
            _ => Transformed::no(Expr::WindowFunction(call)),
        },
        other => Transformed::no(other),
    })
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
            DataType::Interval(_) => INTERVAL,
            other if other.is_decimal() || matches!(other, DataType::Duration(_)) => other.clone(),
            other => return plan_err!("function sum({other}) does not exist"),
        };
        Ok(vec![coerced])
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if matches!(arguments, [DataType::Interval(_)]) {
            return Ok(INTERVAL);
        }
        self.inner.return_type(arguments)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if *args.return_field.data_type() == INTERVAL {
            return sum_of_intervals(&args, false);
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
            return sum_of_intervals(&args, false);
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
