//! `EXCEPT ALL` and `INTERSECT ALL` count how often a row is there (PostgreSQL documentation, "UNION, INTERSECT, EXCEPT").
//!
//! DataFusion joins the sides by their columns, so that one row on the right takes all its equals on the left. Here
//! equal rows are numbered on both sides, and the number is one more column to join by.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder};

/// Puts the numbers into a plan that was just bound.
///
/// # Errors
/// Internal errors only.
pub(crate) fn counted(plan: LogicalPlan) -> Result<LogicalPlan> {
    let counted = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if counts(&join) => numbered(join).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(counted.data)
}

/// No other query is bound to such a join. Without ALL the left side is distinct, and no number changes anything.
fn counts(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == join.left.schema().fields().len()
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(_))
}

fn numbered(mut join: Join) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let (left, left_number) = with_number(join.left.as_ref().clone(), "__left")?;
    let (right, right_number) = with_number(join.right.as_ref().clone(), "__right")?;
    join.left = Arc::new(left);
    join.right = Arc::new(right);
    join.on.push((left_number, right_number));
    let joined = LogicalPlan::Join(join).recompute_schema()?;
    LogicalPlanBuilder::from(joined).project(columns)?.build()
}

/// Numbers the rows that are equal, from 1 on.
fn with_number(side: LogicalPlan, name: &str) -> Result<(LogicalPlan, Expr)> {
    let columns: Vec<Expr> = side.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().partition_by(columns.clone()).build()?;
    let numbered = number.schema_name().to_string();
    let mut shown = columns;
    shown.push(Expr::Column(Column::from_name(numbered)).alias(name));
    let side = LogicalPlanBuilder::from(side).window([number])?.project(shown)?.build()?;
    Ok((side, Expr::Column(Column::from_name(name))))
}
