//! One INSERT for many sets of parameters, in one commit.
//!
//! A driver that loads rows sends the same INSERT again and again without waiting for the
//! answers: `executemany` of psycopg and asyncpg, `addBatch` of JDBC, libpq's pipelines. As
//! commits of their own each row would be a version and a fragment of the table. What can
//! be done together is `VALUES` of one row that reads nothing, so that the sets of
//! parameters are the rows of a relation that the row is computed from.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::provider_as_source;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Values};

use crate::error::Result;
use crate::exec::{Engine, dml};
use crate::session::{Session, StatementContext};
use crate::sql::parameters::{Parameters, index_of};
use crate::sql::plan::query::memory_table;
use crate::sql::plan::{InsertPlan, Plan, QueryPlan};

/// The relation of parameters. Its columns are called as they are, `$1`, `$2`, ….
const RELATION: &str = "parameters";

/// Returns whether a plan may be executed for many sets of parameters at once.
pub(super) fn takes_many(plan: &Plan) -> bool {
    let Plan::Insert(insert) = plan else { return false };
    let source = &insert.source;
    insert.returning.is_none()
        && !source.parameters.reported.is_empty()
        && !source.parameters.awaits_values
        && source.reads.is_empty()
        && row(&source.logical).is_some()
}

/// Runs INSERT for each of `sets`: one append of as many rows, in their order.
///
/// # Errors
/// As INSERT; nothing of any set is visible then.
pub(super) async fn insert(
    engine: &Engine,
    session: &mut Session,
    plan: &InsertPlan,
    sets: Vec<Vec<ScalarValue>>,
    ctx: &StatementContext,
) -> Result<()> {
    let source = over(&plan.source, sets)?;
    let all = InsertPlan { source, ..plan.clone() };
    dml::insert(engine, session, &all, Vec::new(), ctx).await.map(drop)
}

/// Returns the one row that a tree computes and writes as it is.
fn row(plan: &LogicalPlan) -> Option<&Values> {
    match plan {
        LogicalPlan::Values(values) => match values.values.as_slice() {
            [one] => (!one.iter().any(has_subquery)).then_some(values),
            _ => None,
        },
        LogicalPlan::Projection(projection) => {
            let plain = !projection.expr.iter().any(|expr| has_parameter(expr) || has_subquery(expr));
            row(&projection.input).filter(|_| plain)
        }
        LogicalPlan::SubqueryAlias(alias) => row(&alias.input),
        _ => None,
    }
}

fn has_parameter(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::Placeholder(_)))).unwrap_or(true)
}

fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| {
        matches!(expr, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_))
    };
    expr.exists(|expr| Ok(is_one(expr))).unwrap_or(true)
}

/// Returns a query that gives the row of `source` for each set of parameters, and takes none.
fn over(source: &QueryPlan, sets: Vec<Vec<ScalarValue>>) -> Result<QueryPlan> {
    let relation = relation(&source.parameters, sets)?;
    let logical = source.logical.clone().transform_up(|node| match node {
        LogicalPlan::Values(values) => computed(&values, &relation).map(Transformed::yes),
        node => node.recompute_schema().map(Transformed::yes),
    })?;
    Ok(QueryPlan { logical: logical.data, parameters: Parameters::default(), ..source.clone() })
}

/// Returns the sets as rows, each parameter a column of the type that the plan was bound with.
fn relation(parameters: &Parameters, sets: Vec<Vec<ScalarValue>>) -> Result<LogicalPlan> {
    let rows = sets.len();
    let mut columns: Vec<Vec<ScalarValue>> = vec![Vec::with_capacity(rows); parameters.reported.len()];
    for set in sets {
        for (column, value) in columns.iter_mut().zip(parameters.bind(set)?) {
            column.push(value);
        }
    }
    let arrays = columns.into_iter().map(ScalarValue::iter_to_array).collect::<Result<Vec<_>, _>>()?;
    let field = |(index, data_type): (usize, &DataType)| Field::new(name(index), data_type.clone(), true);
    let fields: Vec<Field> = arrays.iter().map(|array| array.data_type()).enumerate().map(field).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
    Ok(LogicalPlanBuilder::scan(RELATION, provider_as_source(memory_table(batch)?), None)?.build()?)
}

/// Returns the row of VALUES for each row of parameters, under the names that VALUES gives.
fn computed(values: &Values, relation: &LogicalPlan) -> datafusion::error::Result<LogicalPlan> {
    let row = values.values.iter().flatten().zip(values.schema.fields());
    let expressions = row.map(|(value, field)| {
        let value = value.clone().transform_up(|expr| match expr {
            Expr::Placeholder(placeholder) => {
                let index = index_of(&placeholder.id).map_err(|error| DataFusionError::External(Box::new(error)))?;
                Ok(Transformed::yes(Expr::Column(Column::new(Some(RELATION), name(index)))))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(value.data.cast_to(field.data_type(), relation.schema())?.alias(field.name()))
    });
    let expressions = expressions.collect::<datafusion::error::Result<Vec<_>>>()?;
    LogicalPlanBuilder::from(relation.clone()).project(expressions)?.build()
}

/// The name of a parameter, of which `index` counts from 0.
fn name(index: usize) -> String {
    format!("${}", index + 1)
}
