//! Where the optimizer must not see what a value is, or that it is not read.
//!
//! - A scalar subquery may have no row, and is NULL then, however its column is declared (PostgreSQL, "Scalar Subqueries").
//!   DataFusion goes by the column, and folds `IS NULL` and COALESCE.
//! - A recursive query whose reader leaves a column out loses it in its recursive term, too, which may still need it.
//! - Equal calls of a volatile function are one call to it, and aggregates that differ by casts alone have one name.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result, plan_err};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};

use super::rewrite::Found;

/// The name of the function, for rewritten statements.
pub(crate) const NAME: &str = "lancegate_opaque";

static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    // Whatever is volatile is neither folded nor moved.
    let signature = Signature::variadic_any(Volatility::Volatile);
    Arc::new(ScalarUDF::new_from_impl(Opaque { signature }))
});

/// Returns the function: its value is its first argument, and may be NULL.
pub(crate) fn function() -> ScalarUDF {
    FUNCTION.as_ref().clone()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Opaque {
    signature: Signature,
}

impl ScalarUDFImpl for Opaque {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first() {
            Some(first) => Ok(first.clone()),
            None => plan_err!("function {NAME}() does not exist"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields.first() {
            Some(first) => Ok(Arc::new(first.as_ref().clone().with_name(NAME).with_nullable(true))),
            None => plan_err!("function {NAME}() does not exist"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(first) => Ok(first),
            None => plan_err!("function {NAME}() does not exist"),
        }
    }
}

fn call(arguments: Vec<Expr>) -> Expr {
    FUNCTION.call(arguments)
}

/// Guards what was found in a statement.
///
/// # Errors
/// If the plan cannot be rebuilt.
pub(crate) fn guard(plan: LogicalPlan, found: Found) -> Result<LogicalPlan> {
    if !found.recursion && !found.subqueries {
        return Ok(plan);
    }
    let guarded = plan.transform_up_with_subqueries(|node| {
        let node = node.map_expressions(|expr| expr.transform_up(nullable_subquery))?.data.recompute_schema()?;
        match node {
            LogicalPlan::RecursiveQuery(_) => keep_columns(node).map(Transformed::yes),
            node => Ok(Transformed::yes(node)),
        }
    })?;
    Ok(guarded.data)
}

/// Puts a filter that lets everything pass, and reads every column, on top.
fn keep_columns(recursive: LogicalPlan) -> Result<LogicalPlan> {
    let columns = recursive.schema().iter().map(|(qualifier, field)| Expr::Column(Column::from((qualifier, field))));
    let everything = call(std::iter::once(lit(true)).chain(columns).collect());
    LogicalPlanBuilder::from(recursive).filter(everything)?.build()
}

fn nullable_subquery(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let [(qualifier, field)] = subquery.schema().iter().collect::<Vec<_>>()[..] else {
        return Ok(Transformed::no(Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans })));
    };
    if field.is_nullable() || has_a_row(&subquery) {
        return Ok(Transformed::no(Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans })));
    }
    let value = call(vec![Expr::Column(Column::from((qualifier, field)))]).alias(field.name());
    let subquery = LogicalPlanBuilder::from(subquery.as_ref().clone()).project([value])?.build()?;
    Ok(Transformed::yes(Expr::ScalarSubquery(Subquery { subquery: Arc::new(subquery), outer_ref_columns, spans })))
}

/// Returns whether a plan has at least one row, whatever there is.
fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(node) => has_a_row(&node.input),
        LogicalPlan::SubqueryAlias(node) => has_a_row(&node.input),
        LogicalPlan::Sort(node) => node.fetch.is_none() && has_a_row(&node.input),
        LogicalPlan::Aggregate(node) => node.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(node) => node.produce_one_row,
        LogicalPlan::Values(_) => true,
        _ => false,
    }
}
