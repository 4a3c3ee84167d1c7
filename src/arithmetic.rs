//! Integer arithmetic that fails where the result does not fit its type.
//!
//! DataFusion's operators wrap around, in its optimizer's constant folding as
//! well as in rows. Once types are known, `+`, `-`, `*` and the minus sign over
//! integers become functions here that fail instead, as PostgreSQL's do; every
//! later stage then evaluates the same function.

use std::sync::{Arc, LazyLock};

use arrow::compute::kernels::numeric::{add, mul, sub};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use datafusion::scalar::ScalarValue;

static PLUS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Checked::function("checked_add", Operator::Plus));
static MINUS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Checked::function("checked_subtract", Operator::Minus));
static TIMES: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Checked::function("checked_multiply", Operator::Multiply));

/// Makes the arithmetic of every expression of a plan fail on overflow. The
/// types of the plan must have been coerced.
///
/// # Errors
/// If the plan cannot be rebuilt.
pub(crate) fn checked_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    let checked = plan.transform_up_with_subqueries(|node| {
        let inputs: Vec<&LogicalPlan> = node.inputs();
        let schema = merge_schema(&inputs);
        let names = NamePreserver::new(&node);
        let changed = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|expr| checked_node(expr, &schema))?;
            Ok(if changed.transformed { changed.update_data(|expr| name.restore(expr)) } else { changed })
        })?;
        if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
    })?;
    Ok(checked.data)
}

/// Makes the arithmetic of one expression, types coerced, fail on overflow.
///
/// # Errors
/// If a type of it cannot be determined.
pub(crate) fn checked(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(expr.transform_up(|expr| checked_node(expr, schema))?.data)
}

/// Whether a function is an operator of this module.
pub(crate) fn is_checked(function: &Arc<ScalarUDF>) -> bool {
    [&PLUS, &MINUS, &TIMES].into_iter().any(|checked| Arc::ptr_eq(checked, function))
}

fn checked_node(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let function = match op {
                Operator::Plus => &PLUS,
                Operator::Minus => &MINUS,
                Operator::Multiply => &TIMES,
                _ => return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
            };
            let data_type = left.get_type(schema)?;
            if !data_type.is_integer() || data_type != right.get_type(schema)? {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            }
            Ok(Transformed::yes(function.call(vec![*left, *right])))
        }
        Expr::Negative(operand) => {
            let data_type = operand.get_type(schema)?;
            if !data_type.is_signed_integer() {
                return Ok(Transformed::no(Expr::Negative(operand)));
            }
            let zero = Expr::Literal(ScalarValue::new_zero(&data_type)?, None);
            Ok(Transformed::yes(MINUS.call(vec![zero, *operand])))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// An operator over two integers of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    name: &'static str,
    op: Operator,
    signature: Signature,
}

impl Checked {
    fn function(name: &'static str, op: Operator) -> Arc<ScalarUDF> {
        let signature = Signature::any(2, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Self { name, op, signature }))
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first() {
            Some(data_type) => Ok(data_type.clone()),
            None => internal_err!("{} needs two arguments", self.name),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("{} needs two arguments", self.name);
        };
        match self.op {
            Operator::Plus => apply(left, right, add),
            Operator::Minus => apply(left, right, sub),
            Operator::Multiply => apply(left, right, mul),
            other => internal_err!("{} is not checked", other),
        }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [left, right] => Ok(format!("{left} {} {right}", self.op)),
            _ => internal_err!("{} needs two arguments", self.name),
        }
    }

    // The name of the operator that it stands for, so that columns keep theirs.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [left, right] => Ok(format!("{} {} {}", left.schema_name(), self.op, right.schema_name())),
            _ => internal_err!("{} needs two arguments", self.name),
        }
    }
}
