//! Reading a version of a table: projection, filter and limit in Lance, one
//! partition per group of fragments.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, cast};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::scalar::ScalarValue;
use lance::Dataset;
use lance::index::DatasetIndexExt;
use lance_table::format::Fragment;

use super::provider::is_system_column;

/// A table with fewer rows is read by one partition, in the order of storage:
/// more would cost more than it saves.
const ROWS_PER_PARTITION_MIN: usize = 65_536;

/// What a plan wants of a table.
#[derive(Debug)]
pub(super) struct Request<'a> {
    /// The columns in order; system columns as `Int64`.
    pub(super) schema: SchemaRef,
    /// What [`pushdown`] has accepted, joined by AND.
    pub(super) filters: &'a [Expr],
    /// No more rows than this are needed.
    pub(super) limit: Option<usize>,
    /// How many partitions are of use.
    pub(super) partitions: usize,
}

/// Says whether Lance evaluates a filter: everything but what must be evaluated
/// once per row of the statement, and what refers outside the row.
pub(super) fn pushdown(filter: &Expr) -> TableProviderFilterPushDown {
    let mut exact = !filter.is_volatile();
    let visited = filter.apply(|expr| {
        let outside = matches!(
            expr,
            Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::Placeholder(_)
        );
        if outside {
            exact = false;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    match (visited, exact) {
        (Ok(_), true) => TableProviderFilterPushDown::Exact,
        _ => TableProviderFilterPushDown::Unsupported,
    }
}

/// Returns the plan that reads what `request` wants.
pub(super) async fn plan(dataset: &Arc<Dataset>, request: &Request<'_>) -> Result<Arc<dyn ExecutionPlan>> {
    let filter = conjunction(request.filters.iter().cloned()).map(unsigned_system_columns).transpose()?;
    let mut inputs = Vec::new();
    for fragments in groups(dataset, request).await? {
        inputs.push(scan(dataset, request, filter.clone(), fragments).await?);
    }
    signed_system_columns(UnionExec::try_new(inputs)?, &request.schema)
}

async fn scan(
    dataset: &Arc<Dataset>,
    request: &Request<'_>,
    filter: Option<Expr>,
    fragments: Option<Vec<Fragment>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut scanner = dataset.scan();
    let columns: Vec<&str> = request.schema.fields().iter().map(|field| field.name().as_str()).collect();
    scanner.project(&columns)?;
    if let Some(filter) = filter {
        scanner.filter_expr(filter);
    }
    if let Some(limit) = request.limit {
        scanner.limit(Some(i64::try_from(limit).unwrap_or(i64::MAX)), None)?;
    }
    if let Some(fragments) = fragments {
        scanner.with_fragments(fragments);
    }
    scanner.scan_in_order(true);
    scanner.target_parallelism(1);
    scanner.create_plan().await.map_err(DataFusionError::from)
}

/// Splits the fragments into groups of about equal rows; `None` reads them all.
///
/// An index that a filter asks covers the whole table and is asked once; a limit ends the scan
/// early; offsets count across fragments.
async fn groups(dataset: &Dataset, request: &Request<'_>) -> Result<Vec<Option<Vec<Fragment>>>> {
    let fragments = dataset.fragments();
    let rows: usize = fragments.iter().filter_map(|fragment| fragment.num_rows()).sum();
    let wanted = request.partitions.min(fragments.len()).min(rows / ROWS_PER_PARTITION_MIN);
    let counts_rows = request.schema.fields().is_empty();
    let offsets = request.schema.fields().iter().any(|field| field.name() == "_rowoffset");
    if wanted < 2 || request.limit.is_some() || counts_rows || offsets {
        return Ok(vec![None]);
    }
    if !request.filters.is_empty() && asks_index(dataset, request.filters).await? {
        return Ok(vec![None]);
    }
    let share = rows.div_ceil(wanted);
    let mut groups = vec![Vec::new()];
    let mut filled = 0;
    for fragment in fragments.iter() {
        if filled >= share && groups.len() < wanted {
            groups.push(Vec::new());
            filled = 0;
        }
        filled += fragment.num_rows().unwrap_or(0);
        if let Some(group) = groups.last_mut() {
            group.push(fragment.clone());
        }
    }
    Ok(groups.into_iter().map(Some).collect())
}

/// Returns whether a column of the filters has an index.
async fn asks_index(dataset: &Dataset, filters: &[Expr]) -> Result<bool> {
    let indexes = dataset.load_indices().await?;
    let fields = indexes.iter().flat_map(|index| index.fields.iter());
    let columns: HashSet<&str> = fields
        .filter_map(|id| dataset.schema().field_ancestry_by_id(*id)?.first().map(|field| field.name.as_str()))
        .collect();
    Ok(filters.iter().flat_map(Expr::column_refs).any(|column| columns.contains(column.name.as_str())))
}

/// Lance's own columns are unsigned; a comparison with a number is made in
/// their type, so that a lookup by row id stays a lookup.
fn unsigned_system_columns(filter: Expr) -> Result<Expr> {
    let compared = filter.transform_up(|expr| Ok(compare_unsigned(expr)))?;
    Ok(compared.data)
}

fn compare_unsigned(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() || op == Operator::NotEq => {
            let (left, right) = match (system_column(&left), unsigned(&right)) {
                (Some(column), Some(value)) => (Box::new(column), Box::new(value)),
                _ => match (unsigned(&left), system_column(&right)) {
                    (Some(value), Some(column)) => (Box::new(value), Box::new(column)),
                    _ => (left, right),
                },
            };
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InList(mut list) => {
            let values: Option<Vec<Expr>> = list.list.iter().map(unsigned).collect();
            match (system_column(&list.expr), values) {
                (Some(column), Some(values)) => {
                    list.expr = Box::new(column);
                    list.list = values;
                    Transformed::yes(Expr::InList(list))
                }
                _ => Transformed::no(Expr::InList(list)),
            }
        }
        Expr::Column(column) if is_system_column(&column.name) => {
            Transformed::yes(cast(Expr::Column(column), DataType::Int64))
        }
        other => Transformed::no(other),
    }
}

/// Undoes the cast that [`compare_unsigned`] has put around a system column on
/// the way up.
fn system_column(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Column(column) if is_system_column(&column.name) => Some(Expr::Column(column.clone())),
            _ => None,
        },
        _ => None,
    }
}

fn unsigned(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), metadata) => {
            let value = u64::try_from(*value).ok()?;
            Some(Expr::Literal(ScalarValue::UInt64(Some(value)), metadata.clone()))
        }
        _ => None,
    }
}

fn signed_system_columns(input: Arc<dyn ExecutionPlan>, schema: &SchemaRef) -> Result<Arc<dyn ExecutionPlan>> {
    if !schema.fields().iter().any(|field| is_system_column(field.name())) {
        return Ok(input);
    }
    let columns = schema.fields().iter().enumerate().map(|(index, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
        let column = if is_system_column(field.name()) {
            Arc::new(CastExpr::new(column, DataType::Int64, None)) as Arc<dyn PhysicalExpr>
        } else {
            column
        };
        (column, field.name().clone())
    });
    Ok(Arc::new(ProjectionExec::try_new(columns, input)?))
}
