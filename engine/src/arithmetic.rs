//! Integer arithmetic that fails where the result does not fit its type.
//!
//! DataFusion's operators wrap around, in its optimizer's constant folding as
//! well as in rows. Once types are known, `+`, `-`, `*` and the minus sign over
//! integers become functions here that fail instead, as PostgreSQL's do; every
//! later stage then evaluates the same function.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::compute::kernels::numeric::{add, mul, sub};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use datafusion::scalar::ScalarValue;

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

/// Whether a function is one of this module.
pub(crate) fn is_checked(function: &Arc<ScalarUDF>) -> bool {
    function.inner().is::<Checked>()
}

fn checked_node(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::Plus | Operator::Minus | Operator::Multiply),
            right,
        }) => {
            let data_type = type_of(&left, schema)?;
            if !data_type.is_integer() || data_type != type_of(&right, schema)? {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            }
            Ok(Transformed::yes(Checked::call(*left, op, *right)))
        }
        Expr::Negative(operand) => {
            let data_type = type_of(&operand, schema)?;
            if !data_type.is_signed_integer() {
                return Ok(Transformed::no(Expr::Negative(operand)));
            }
            let zero = Expr::Literal(ScalarValue::new_zero(&data_type)?, None);
            Ok(Transformed::yes(Checked::call(zero, Operator::Minus, *operand)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The type of an operand; arithmetic has the type of its first operand.
fn type_of(operand: &Expr, schema: &DFSchema) -> Result<DataType> {
    match operand {
        Expr::ScalarFunction(call) if is_checked(&call.func) && !call.args.is_empty() => call.args[0].get_type(schema),
        other => other.get_type(schema),
    }
}

/// Integers of one type with operators between them, applied from left to right.
///
/// A chain is one call, not a call in a call: DataFusion names and types
/// everything below each call again and again, which takes the cube of the
/// depth.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operators: Vec<Operator>,
    signature: Signature,
}

impl Checked {
    fn call(left: Expr, operator: Operator, right: Expr) -> Expr {
        let (mut operators, mut operands) = match left {
            Expr::ScalarFunction(ScalarFunction { func, args }) => match func.inner().downcast_ref::<Self>() {
                Some(chain) => (chain.operators.clone(), args),
                None => (Vec::new(), vec![Expr::ScalarFunction(ScalarFunction { func, args })]),
            },
            other => (Vec::new(), vec![other]),
        };
        operators.push(operator);
        operands.push(right);
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { operators, signature }).call(operands)
    }

    /// Writes the chain as DataFusion writes operators.
    fn written(&self, operands: &[Expr], name: impl Fn(&Expr) -> String) -> Result<String> {
        let [first, rest @ ..] = operands else { return internal_err!("arithmetic without operands") };
        let mut text = name(first);
        for (operator, operand) in self.operators.iter().zip(rest) {
            let _ = write!(text, " {operator} {}", name(operand));
        }
        Ok(text)
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first() {
            Some(data_type) => Ok(data_type.clone()),
            None => internal_err!("arithmetic without operands"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [first, rest @ ..] = args.args.as_slice() else { return internal_err!("arithmetic without operands") };
        if rest.len() != self.operators.len() {
            return internal_err!("{} operators between {} operands", self.operators.len(), rest.len() + 1);
        }
        let mut value = first.clone();
        for (operator, operand) in self.operators.iter().zip(rest) {
            value = match operator {
                Operator::Plus => apply(&value, operand, add),
                Operator::Minus => apply(&value, operand, sub),
                Operator::Multiply => apply(&value, operand, mul),
                other => internal_err!("{} is not checked", other),
            }?;
        }
        Ok(value)
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        self.written(args, ToString::to_string)
    }

    // The name of the operators that it stands for, so that columns keep theirs.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.written(args, |expr| expr.schema_name().to_string())
    }
}
