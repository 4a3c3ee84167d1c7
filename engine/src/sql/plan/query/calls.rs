//! Calls of registered Functions below the clauses that cannot make them.
//!
//! DataFusion runs asynchronous functions in projections, one level deep, and in filters, which it may yet make part of a
//! join that cannot. Here every other call is computed by a projection of its own below the operator that has it, which
//! then reads a column: arguments of other calls, of aggregates and of window functions, WHERE, GROUP BY, ORDER BY,
//! DISTINCT ON, VALUES, and the conditions of joins. Each operator keeps the columns that it has. A condition on such a
//! column stays above the projection, because the function is declared volatile; other conditions move below it.
//!
//! This is done when a query is bound, so that conditions find their place, and again behind the optimizer, which puts
//! projections together again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, JoinType, Result, not_impl_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{
    Aggregate, Distinct, DistinctOn, EmptyRelation, Filter, Join, Projection, Sort, Values, Window,
};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

/// Rows of a VALUES with calls, at most: each becomes a plan of its own.
const ROWS_MAX: usize = 1_000;

/// Tells the columns apart that calls are computed in, also those of an earlier pass.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Moves the calls of a query to where they can be made; its columns stay as they are.
///
/// # Errors
/// For a call that belongs to both sides of an outer join.
pub(crate) fn lift(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= has_call(expr)?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    if !found {
        return Ok(plan);
    }
    Ok(plan.transform_up_with_subqueries(|node| Lift.lift(node))?.data)
}

/// Rewrites one operator.
#[derive(Clone, Copy)]
struct Lift;

/// Calls and the columns that hold their values.
type Computed = Vec<(Expr, Column)>;

impl Lift {
    fn lift(self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let plain = matches!(node, LogicalPlan::Projection(_));
        let mut found = false;
        node.apply_expressions(|expr| {
            found |= if plain { has_nested_call(expr)? } else { has_call(expr)? };
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !found {
            return Ok(Transformed::no(node));
        }
        let lifted = match node {
            LogicalPlan::Projection(projection) => self.projection(projection)?,
            LogicalPlan::Filter(filter) => self.filter(filter)?,
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate)?,
            LogicalPlan::Window(window) => self.window(window)?,
            LogicalPlan::Sort(sort) => self.sort(sort)?,
            LogicalPlan::Join(join) => self.join(join)?,
            LogicalPlan::Distinct(Distinct::On(on)) => self.distinct_on(on)?,
            LogicalPlan::Values(values) => self.values(values)?,
            // What is left says itself that it cannot be called there.
            other => return Ok(Transformed::no(other)),
        };
        Ok(Transformed::yes(lifted))
    }

    /// Computes calls below `expressions`, innermost first, until `done`; returns the rest of them and the new input.
    fn below(
        self,
        mut expressions: Vec<Expr>,
        input: Arc<LogicalPlan>,
        done: fn(&Expr) -> Result<bool>,
    ) -> Result<(Vec<Expr>, Arc<LogicalPlan>)> {
        let mut input = input;
        while let Some(computed) = innermost(&expressions, done)? {
            let columns = input.schema().columns().into_iter().map(Expr::Column);
            let calls = computed.iter().map(|(call, column)| call.clone().alias(&column.name));
            input = Arc::new(LogicalPlan::Projection(Projection::try_new(columns.chain(calls).collect(), input)?));
            expressions = expressions.into_iter().map(|expr| replace(expr, &computed)).collect::<Result<_>>()?;
        }
        Ok((expressions, input))
    }

    fn projection(self, projection: Projection) -> Result<LogicalPlan> {
        let Projection { expr, input, .. } = projection;
        let names = NamePreserver::new_for_projection();
        let saved: Vec<_> = expr.iter().map(|expr| names.save(expr)).collect();
        let (expr, input) = self.below(expr, input, |expr| Ok(!has_nested_call(expr)?))?;
        let expr = expr.into_iter().zip(saved).map(|(expr, saved)| saved.restore(expr)).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(expr, input)?))
    }

    fn filter(self, filter: Filter) -> Result<LogicalPlan> {
        let Filter { predicate, mut input, .. } = filter;
        let columns = input.schema().columns();
        let (mut calling, mut plain) = (Vec::new(), Vec::new());
        for part in split_conjunction_owned(predicate) {
            if has_call(&part)? { calling.push(part) } else { plain.push(part) }
        }
        // A row that is out without a call spares it.
        if let Some(predicate) = conjunction(plain) {
            input = Arc::new(LogicalPlan::Filter(Filter::try_new(predicate, input)?));
        }
        let (calling, input) = self.below(calling, input, no_call)?;
        match conjunction(calling) {
            Some(predicate) => only(LogicalPlan::Filter(Filter::try_new(predicate, input)?), columns),
            None => only(Arc::unwrap_or_clone(input), columns),
        }
    }

    fn aggregate(self, aggregate: Aggregate) -> Result<LogicalPlan> {
        let Aggregate { input, mut group_expr, aggr_expr, schema, .. } = aggregate;
        let groups = group_expr.len();
        group_expr.extend(aggr_expr);
        let (mut group_expr, input) = self.below(group_expr, input, no_call)?;
        let aggr_expr = group_expr.split_off(groups);
        let lifted = LogicalPlan::Aggregate(Aggregate::try_new(input, group_expr, aggr_expr)?);
        let columns = lifted.schema().columns();
        as_before(lifted, &schema, columns)
    }

    fn window(self, window: Window) -> Result<LogicalPlan> {
        let Window { input, window_expr, schema } = window;
        let before = input.schema().columns();
        let (window_expr, input) = self.below(window_expr, input, no_call)?;
        let kept = input.schema().fields().len();
        let lifted = LogicalPlan::Window(Window::try_new(window_expr, input)?);
        let computed = lifted.schema().columns().split_off(kept);
        as_before(lifted, &schema, before.into_iter().chain(computed).collect())
    }

    fn sort(self, sort: Sort) -> Result<LogicalPlan> {
        let Sort { expr, input, fetch } = sort;
        let columns = input.schema().columns();
        let keys = expr.iter().map(|key| key.expr.clone()).collect();
        let (keys, input) = self.below(keys, input, no_call)?;
        let expr = expr.into_iter().zip(keys).map(|(key, expr)| key.with_expr(expr)).collect();
        only(LogicalPlan::Sort(Sort { expr, input, fetch }), columns)
    }

    fn distinct_on(self, on: DistinctOn) -> Result<LogicalPlan> {
        let DistinctOn { on_expr, select_expr, sort_expr, input, .. } = on;
        let names = NamePreserver::new_for_projection();
        let saved: Vec<_> = select_expr.iter().map(|expr| names.save(expr)).collect();
        let (keys, selected) = (on_expr.len(), select_expr.len());
        let mut all = on_expr;
        all.extend(select_expr);
        all.extend(sort_expr.iter().flatten().map(|key| key.expr.clone()));
        let (mut all, input) = self.below(all, input, no_call)?;
        let sorted = all.split_off(keys + selected);
        let selected = all.split_off(keys).into_iter().zip(saved).map(|(expr, saved)| saved.restore(expr)).collect();
        let sort_expr =
            sort_expr.map(|keys| keys.into_iter().zip(sorted).map(|(key, expr)| key.with_expr(expr)).collect());
        Ok(LogicalPlan::Distinct(Distinct::On(DistinctOn::try_new(all, selected, sort_expr, input)?)))
    }

    /// A call in ON belongs to the side whose columns it reads. What reads both is decided above an inner join.
    fn join(self, join: Join) -> Result<LogicalPlan> {
        let Join { mut left, mut right, on, filter, join_type, join_constraint, null_equality, null_aware, schema } =
            join;
        let columns = schema.columns();
        let (mut on_left, mut on_right): (Vec<Expr>, Vec<Expr>) = on.into_iter().unzip();
        (on_left, left) = self.below(on_left, left, no_call)?;
        (on_right, right) = self.below(on_right, right, no_call)?;
        let (mut beside, mut above) = (Vec::new(), Vec::new());
        for part in filter.map(split_conjunction_owned).unwrap_or_default() {
            let mut parts = vec![part];
            (parts, left) = self.of_side(parts, left)?;
            (parts, right) = self.of_side(parts, right)?;
            for part in parts {
                if has_call(&part)? { above.push(part) } else { beside.push(part) }
            }
        }
        if !above.is_empty() && join_type != JoinType::Inner {
            return not_impl_err!("calls of Functions over both sides of an outer join are not supported");
        }
        let on = on_left.into_iter().zip(on_right).collect();
        let beside = conjunction(beside);
        let join = Join::try_new(left, right, on, beside, join_type, join_constraint, null_equality, null_aware)?;
        let mut joined = LogicalPlan::Join(join);
        if let Some(predicate) = conjunction(above) {
            joined = self.lift(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(joined))?))?.data;
        }
        only(joined, columns)
    }

    /// Computes the calls that read columns of one input of a join and no others.
    fn of_side(self, expressions: Vec<Expr>, input: Arc<LogicalPlan>) -> Result<(Vec<Expr>, Arc<LogicalPlan>)> {
        let mut own: Vec<Expr> = Vec::new();
        for expression in &expressions {
            expression.apply(|node| {
                let reads = node.column_refs();
                if is_call(node) && !reads.is_empty() && reads.iter().all(|column| input.schema().has_column(column)) {
                    own.push(node.clone());
                    return Ok(TreeNodeRecursion::Jump);
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        if own.is_empty() {
            return Ok((expressions, input));
        }
        let (columns, input) = self.below(own.clone(), input, no_call)?;
        let columns = columns.into_iter().map(|column| match column {
            Expr::Column(column) => column,
            other => Column::from_name(other.schema_name().to_string()),
        });
        let computed: Computed = own.into_iter().zip(columns).collect();
        let expressions = expressions.into_iter().map(|expr| replace(expr, &computed)).collect::<Result<_>>()?;
        Ok((expressions, input))
    }

    /// Makes a query of each row.
    fn values(self, values: Values) -> Result<LogicalPlan> {
        let Values { schema, values } = values;
        if values.len() > ROWS_MAX {
            return not_impl_err!("calls of Functions in more than {ROWS_MAX} rows of VALUES are not supported");
        }
        let mut rows = values.into_iter().map(|row| -> Result<LogicalPlan> {
            let named = row.into_iter().zip(schema.fields()).map(|(expr, field)| {
                datafusion::logical_expr::cast(expr, field.data_type().clone()).alias(field.name())
            });
            let nothing = EmptyRelation { produce_one_row: true, schema: Arc::new(DFSchema::empty()) };
            let row = Projection::try_new(named.collect(), Arc::new(LogicalPlan::EmptyRelation(nothing)))?;
            Ok(self.lift(LogicalPlan::Projection(row))?.data)
        });
        let Some(first) = rows.next() else { return not_impl_err!("VALUES without rows") };
        let all = rows.try_fold(LogicalPlanBuilder::from(first?), |all, row| all.union(row?))?.build()?;
        let columns = all.schema().columns();
        as_before(all, &schema, columns)
    }
}

/// Calls without calls in them, of the expressions that are not `done`; `None` if all are.
fn innermost(expressions: &[Expr], done: fn(&Expr) -> Result<bool>) -> Result<Option<Computed>> {
    let mut computed = Computed::new();
    for expression in expressions {
        if done(expression)? {
            continue;
        }
        expression.apply(|node| {
            if is_call(node) && !has_nested_call(node)? && computed.iter().all(|(known, _)| known != node) {
                let name = format!("__call_{}", NEXT.fetch_add(1, Ordering::Relaxed));
                computed.push((node.clone(), Column::from_name(name)));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok((!computed.is_empty()).then_some(computed))
}

fn is_call(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.as_async().is_some())
}

fn has_call(expr: &Expr) -> Result<bool> {
    expr.exists(|node| Ok(is_call(node)))
}

fn no_call(expr: &Expr) -> Result<bool> {
    Ok(!has_call(expr)?)
}

/// Whether a call is among the arguments of a call.
fn has_nested_call(expr: &Expr) -> Result<bool> {
    expr.exists(|node| match node {
        Expr::ScalarFunction(call) if call.func.as_async().is_some() => {
            call.args.iter().try_fold(false, |found, argument| Ok(found || has_call(argument)?))
        }
        _ => Ok(false),
    })
}

fn replace(expr: Expr, computed: &Computed) -> Result<Expr> {
    let replaced = expr.transform_down(|node| {
        Ok(match computed.iter().find(|(call, _)| *call == node) {
            Some((_, column)) => Transformed::new(Expr::Column(column.clone()), true, TreeNodeRecursion::Jump),
            None => Transformed::no(node),
        })
    })?;
    Ok(replaced.data)
}

/// Leaves out all but the columns that were there before.
fn only(plan: LogicalPlan, columns: Vec<Column>) -> Result<LogicalPlan> {
    let columns = columns.into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

/// Gives columns the names that they had before.
fn as_before(plan: LogicalPlan, before: &DFSchemaRef, columns: Vec<Column>) -> Result<LogicalPlan> {
    let named = before.columns().into_iter().zip(columns).map(|(wanted, column)| {
        if wanted == column {
            return Expr::Column(column);
        }
        Expr::Column(column).alias_qualified(wanted.relation, wanted.name)
    });
    Ok(LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::new(plan))?))
}
