//! Whole numbers of a query, as PostgreSQL types them: `1` is an integer, and only what
//! does not fit one is a bigint (PostgreSQL, "Numeric Constants").
//!
//! DataFusion binds all of them as bigint. After binding, and before types are coerced,
//! they are made narrower here, with all columns that get their type from them.
//!
//! Left as they are: rows of INSERT and UPDATE, whose types are those of their columns;
//! expressions of computed columns, which mean what LanceDB's own planner says; recursive
//! queries, whose second part reads what the first has declared; and LIMIT and `count(1)`,
//! which the optimizer knows by their form.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Values};
use datafusion::scalar::ScalarValue;

use crate::sql::parameters::index_of;

/// Types the whole numbers of a bound query, and the parameters beside them of which the client has not declared
/// the type.
///
/// # Errors
/// If the plan cannot be rebuilt.
pub(crate) fn narrow(plan: LogicalPlan, declared: &[Option<DataType>]) -> Result<LogicalPlan> {
    let integers = beside_integers(&plan, declared)?;
    let narrowed = plan.transform_down_up_with_subqueries(
        |node| {
            let step = match node {
                LogicalPlan::RecursiveQuery(_) => TreeNodeRecursion::Jump,
                _ => TreeNodeRecursion::Continue,
            };
            Ok(Transformed::new(node, false, step))
        },
        |node| narrow_node(node, &integers),
    )?;
    if !narrowed.transformed {
        return Ok(narrowed.data);
    }
    settle(narrowed.data, &[])
}

/// Narrows what is in one node, and takes over what is narrower below it.
fn narrow_node(node: LogicalPlan, integers: &HashSet<String>) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Limit(_) => node.recompute_schema().map(Transformed::no),
        LogicalPlan::RecursiveQuery(_) => Ok(Transformed::no(node)),
        LogicalPlan::Values(Values { schema, values }) => {
            let mut changed = false;
            let rows = values.into_iter().map(|row| {
                let row = row.into_iter().map(|expr| {
                    let narrowed = narrow_expression(expr, integers)?;
                    changed |= narrowed.transformed;
                    Ok(narrowed.data)
                });
                row.collect::<Result<Vec<_>>>()
            });
            let rows = rows.collect::<Result<Vec<_>>>()?;
            if !changed {
                return Ok(Transformed::no(LogicalPlan::Values(Values { schema, values: rows })));
            }
            LogicalPlanBuilder::values(rows)?.build().map(Transformed::yes)
        }
        node => {
            let names = NamePreserver::new(&node);
            let changed = node.map_expressions(|expr| {
                let name = names.save(&expr);
                let changed = narrow_expression(expr, integers)?;
                Ok(if changed.transformed { changed.update_data(|expr| name.restore(expr)) } else { changed })
            })?;
            changed.map_data(LogicalPlan::recompute_schema)
        }
    }
}

fn narrow_expression(expr: Expr, integers: &HashSet<String>) -> Result<Transformed<Expr>> {
    expr.transform_down(|expr| {
        Ok(match expr {
            Expr::Literal(ScalarValue::Int64(Some(value)), metadata) => match i32::try_from(value) {
                Ok(value) => Transformed::yes(Expr::Literal(ScalarValue::Int32(Some(value)), metadata)),
                Err(_) => Transformed::no(Expr::Literal(ScalarValue::Int64(Some(value)), metadata)),
            },
            Expr::Placeholder(mut parameter) if integers.contains(&parameter.id) => {
                parameter.field = Some(Arc::new(Field::new("", DataType::Int32, true)));
                Transformed::yes(Expr::Placeholder(parameter))
            }
            expr if counts_a_literal(&expr) => Transformed::new(expr, false, TreeNodeRecursion::Jump),
            expr => Transformed::no(expr),
        })
    })
}

/// Returns the parameters that are integers because every place of theirs is beside a whole number that is one.
fn beside_integers(plan: &LogicalPlan, declared: &[Option<DataType>]) -> Result<HashSet<String>> {
    let mut uses: HashMap<String, (usize, usize)> = HashMap::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::RecursiveQuery(_) = node {
            // Nothing is narrowed there.
            node.get_parameter_names()?.into_iter().for_each(|id| uses.entry(id).or_default().0 += 1);
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Placeholder(parameter) = expr {
                    uses.entry(parameter.id.clone()).or_default().0 += 1;
                }
                if let Expr::BinaryExpr(both) = expr {
                    for parameter in [(&*both.left, &*both.right), (&*both.right, &*both.left)].map(beside_integer) {
                        parameter.inspect(|id| uses.entry((*id).to_owned()).or_default().1 += 1);
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    let is_declared = |id: &str| index_of(id).is_ok_and(|index| declared.get(index).is_some_and(Option::is_some));
    uses.retain(|id, (all, beside)| all == beside && !is_declared(id));
    Ok(uses.into_keys().collect())
}

/// Returns the parameter that has the type of the whole number beside it.
fn beside_integer<'a>((expr, beside): (&'a Expr, &Expr)) -> Option<&'a str> {
    match (expr, beside) {
        (Expr::Placeholder(parameter), Expr::Literal(ScalarValue::Int64(Some(value)), _)) => {
            let is_number = parameter.field.as_ref().is_some_and(|field| *field.data_type() == DataType::Int64);
            (is_number && i32::try_from(*value).is_ok()).then_some(parameter.id.as_str())
        }
        _ => None,
    }
}

/// Whether an expression is `count(*)` or the like.
fn counts_a_literal(expr: &Expr) -> bool {
    let (name, arguments) = match expr {
        Expr::AggregateFunction(call) => (call.func.name(), &call.params.args),
        Expr::WindowFunction(call) => (call.fun.name(), &call.params.args),
        _ => return false,
    };
    name == "count" && matches!(arguments.as_slice(), [Expr::Literal(..)])
}

/// Gives the columns that subqueries read of the queries around them, `outer`, the types
/// that these have now; `outer` begins with the nearest.
pub(crate) fn settle(plan: LogicalPlan, outer: &[Arc<DFSchema>]) -> Result<LogicalPlan> {
    let settled = plan.transform_up(|node| {
        let mut around = vec![Arc::new(merge_schema(&node.inputs()))];
        around.extend(outer.iter().cloned());
        let names = NamePreserver::new(&node);
        let changed = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|expr| settle_expression(expr, outer, &around))?;
            Ok(if changed.transformed { changed.update_data(|expr| name.restore(expr)) } else { changed })
        })?;
        if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
    })?;
    Ok(settled.data)
}

fn settle_expression(expr: Expr, outer: &[Arc<DFSchema>], around: &[Arc<DFSchema>]) -> Result<Transformed<Expr>> {
    let settled = |subquery: Subquery| {
        let plan = Arc::new(settle(Arc::unwrap_or_clone(subquery.subquery), around)?);
        let read = subquery.outer_ref_columns.into_iter().map(|column| settle_column(column, around).data);
        Ok::<_, DataFusionError>(Subquery { subquery: plan, outer_ref_columns: read.collect(), ..subquery })
    };
    Ok(match expr {
        column @ Expr::OuterReferenceColumn(..) => settle_column(column, outer),
        Expr::ScalarSubquery(subquery) => Transformed::yes(Expr::ScalarSubquery(settled(subquery)?)),
        Expr::Exists(mut exists) => {
            exists.subquery = settled(exists.subquery)?;
            Transformed::yes(Expr::Exists(exists))
        }
        Expr::InSubquery(mut inside) => {
            inside.subquery = settled(inside.subquery)?;
            Transformed::yes(Expr::InSubquery(inside))
        }
        Expr::SetComparison(mut comparison) => {
            comparison.subquery = settled(comparison.subquery)?;
            Transformed::yes(Expr::SetComparison(comparison))
        }
        other => Transformed::no(other),
    })
}

fn settle_column(expr: Expr, outer: &[Arc<DFSchema>]) -> Transformed<Expr> {
    let Expr::OuterReferenceColumn(field, column) = expr else { return Transformed::no(expr) };
    let now = outer.iter().find_map(|schema| schema.qualified_field_from_column(&column).ok());
    match now.map(|(_, now)| now) {
        Some(now) if now.data_type() != field.data_type() => {
            Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(now), column))
        }
        _ => Transformed::no(Expr::OuterReferenceColumn(field, column)),
    }
}
