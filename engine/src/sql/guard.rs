//! Subqueries and recursive queries as PostgreSQL means them, where DataFusion goes by their form.
//!
//! - A scalar subquery may have no row, and is NULL then, however its column is declared (PostgreSQL, "Scalar Subqueries").
//!   DataFusion goes by the column, and folds `IS NULL` and COALESCE.
//! - One that reads the outer row needs an aggregate to be planned, which shows that it has one row. It gets one that
//!   takes the only row, and fails if there are two (21000); with LIMIT 1 the first.
//! - A recursive query keeps all its columns, see [`recursion`].

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::logical_expr::logical_plan::{Limit, Subquery};
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, LogicalPlanBuilder, SkipType, SortExpr};

use super::functions::single_value;
use super::opaque;
use super::rewrite::Found;

pub(crate) mod recursion;

/// Guards what was found in a statement.
///
/// # Errors
/// If the plan cannot be rebuilt.
pub(crate) fn guard(plan: LogicalPlan, found: Found) -> Result<LogicalPlan> {
    if !found.recursion && !found.subqueries {
        return Ok(plan);
    }
    let guarded = plan.transform_up_with_subqueries(|node| {
        let node = node.map_expressions(|expr| expr.transform_up(guarded))?.data.recompute_schema()?;
        Ok(Transformed::yes(match node {
            LogicalPlan::RecursiveQuery(_) => recursion::kept(node),
            node => node,
        }))
    })?;
    Ok(guarded.data)
}

fn guarded(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(subquery) = expr else { return Ok(Transformed::no(expr)) };
    if subquery.subquery.schema().fields().len() != 1 {
        return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
    }
    let Subquery { subquery: plan, outer_ref_columns, spans } = subquery;
    let is_one_row = plan.max_rows().is_some_and(|rows| rows <= 1) && !matches!(plan.as_ref(), LogicalPlan::Limit(_));
    let plan = match outer_ref_columns.is_empty() || is_one_row || is_aggregated(&plan) {
        true => nullable(plan)?,
        false => Arc::new(only_row(plan.as_ref().clone())?),
    };
    Ok(Transformed::yes(Expr::ScalarSubquery(Subquery { subquery: plan, outer_ref_columns, spans })))
}

fn column(plan: &LogicalPlan) -> Expr {
    let (qualifier, field) = plan.schema().qualified_field(0);
    Expr::Column(Column::from((qualifier, field)))
}

fn nullable(plan: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    let field = plan.schema().field(0);
    if field.is_nullable() || has_a_row(&plan) {
        return Ok(plan);
    }
    let value = opaque::hidden(column(&plan)).alias(field.name());
    Ok(Arc::new(LogicalPlanBuilder::from(plan.as_ref().clone()).project([value])?.build()?))
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

/// Returns whether a plan is an aggregate, which DataFusion judges itself.
fn is_aggregated(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(node) => is_aggregated(&node.input),
        LogicalPlan::SubqueryAlias(node) => is_aggregated(&node.input),
        LogicalPlan::Sort(node) => is_aggregated(&node.input),
        LogicalPlan::Filter(node) => is_aggregated(&node.input),
        LogicalPlan::Aggregate(_) => true,
        _ => false,
    }
}

/// The name of the one value: that of its column would be there twice, once the outer row is joined by it.
const ONLY: &str = "__only";

/// Aggregates a query to its only row, or to its first one if LIMIT says so.
fn only_row(plan: LogicalPlan) -> Result<LogicalPlan> {
    let (value, input) = match plan {
        LogicalPlan::Limit(limit) if is_first(&limit)? => first(limit.input.as_ref()),
        plan => (single_value::of(column(&plan)), plan),
    };
    LogicalPlanBuilder::from(input).aggregate(Vec::<Expr>::new(), [value.alias(ONLY)])?.build()
}

fn is_first(limit: &Limit) -> Result<bool> {
    let first = matches!(limit.get_fetch_type()?, FetchType::Literal(Some(1)));
    Ok(first && matches!(limit.get_skip_type()?, SkipType::Literal(0)))
}

/// Returns the first value of a sorted query, and what is below its order.
fn first(plan: &LogicalPlan) -> (Expr, LogicalPlan) {
    let value = |expr: Expr, order: &[SortExpr]| first_value(expr, order.to_vec());
    match plan {
        LogicalPlan::Sort(sort) => (value(column(plan), &sort.expr), sort.input.as_ref().clone()),
        LogicalPlan::Projection(projection) => match (projection.input.as_ref(), projection.expr.as_slice()) {
            (LogicalPlan::Sort(sort), [only]) => {
                (value(only.clone().unalias(), &sort.expr), sort.input.as_ref().clone())
            }
            _ => (value(column(plan), &[]), plan.clone()),
        },
        _ => (value(column(plan), &[]), plan.clone()),
    }
}
