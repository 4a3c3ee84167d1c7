//! One scale for cosine distances.
//!
//! Quantized indexes measure cosine by the squared Euclidean distance of unit
//! vectors, which orders rows the same way and is twice as large. Rows that an
//! index does not cover are measured directly. So what such an index answers is
//! halved before the two meet, and bounds are doubled on their way to it.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, with_new_children_if_necessary};
use datafusion::scalar::ScalarValue;
use lance::Dataset;
use lance::dataset::scanner::Scanner;
use lance::index::DatasetIndexInternalExt;
use lance::io::exec::{ANNIvfBatchExec, ANNIvfSubIndexExec};
use lance_index::IndexType;
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::vector::Query;
use lance_table::format::IndexMetadata;

use super::{StorageError, external};

const DISTANCE: &str = "_distance";
/// Cosine distance from the squared distance of unit vectors.
const SCALE: f32 = 0.5;

/// Returns a plan of `scanner` whose distances are all of one scale.
///
/// # Errors
/// If an index that the plan asks cannot be opened.
pub(super) async fn rescaled(
    plan: Arc<dyn ExecutionPlan>,
    scanner: &mut Scanner,
    (lower, upper): (Option<f32>, Option<f32>),
) -> Result<Arc<dyn ExecutionPlan>, StorageError> {
    let doubled = doubled_indexes(plan.as_ref()).await?;
    if doubled.is_empty() {
        return Ok(plan);
    }
    let inner = if lower.is_some() || upper.is_some() {
        scanner.distance_range(lower.map(|bound| bound / SCALE), upper.map(|bound| bound / SCALE));
        scanner.create_plan().await?
    } else {
        Arc::clone(&plan)
    };
    let mut nodes = VecDeque::new();
    collect(&inner, &mut nodes);
    replace(plan, &mut nodes, &doubled)
}

/// A node that asks a vector index.
struct Asked<'a> {
    query: &'a Query,
    dataset: &'a Arc<Dataset>,
    indexes: &'a [IndexMetadata],
}

fn asked(plan: &dyn ExecutionPlan) -> Option<Asked<'_>> {
    if let Some(one) = plan.downcast_ref::<ANNIvfSubIndexExec>() {
        return Some(Asked { query: one.query(), dataset: one.dataset(), indexes: one.indices() });
    }
    let batch = plan.downcast_ref::<ANNIvfBatchExec>()?;
    Some(Asked { query: batch.query(), dataset: batch.dataset(), indexes: batch.indices() })
}

async fn doubled_indexes(plan: &dyn ExecutionPlan) -> Result<HashSet<String>, StorageError> {
    let mut doubled = HashSet::new();
    let mut nodes = vec![plan];
    while let Some(node) = nodes.pop() {
        let Some(node) = asked(node) else {
            nodes.extend(node.children().into_iter().map(AsRef::as_ref));
            continue;
        };
        if node.query.metric_type != Some("cosine".try_into().map_err(super::invalid)?) {
            continue;
        }
        for index in node.indexes {
            let column = &node.query.column;
            let opened = node.dataset.open_vector_index(column, &index.uuid, &NoOpMetricsCollector).await?;
            let quantized = matches!(
                opened.index_type(),
                IndexType::IvfPq | IndexType::IvfSq | IndexType::IvfRq | IndexType::IvfHnswPq | IndexType::IvfHnswSq
            );
            if quantized {
                doubled.insert(index.uuid.to_string());
            }
        }
    }
    Ok(doubled)
}

fn collect(plan: &Arc<dyn ExecutionPlan>, nodes: &mut VecDeque<Arc<dyn ExecutionPlan>>) {
    if asked(plan.as_ref()).is_some() {
        nodes.push_back(Arc::clone(plan));
        return;
    }
    plan.children().into_iter().for_each(|child| collect(child, nodes));
}

/// Puts the nodes of the plan with doubled bounds, halved, in the place of those
/// of `plan`; both plans have the same nodes in the same order.
fn replace(
    plan: Arc<dyn ExecutionPlan>,
    nodes: &mut VecDeque<Arc<dyn ExecutionPlan>>,
    doubled: &HashSet<String>,
) -> Result<Arc<dyn ExecutionPlan>, StorageError> {
    if let Some(node) = asked(plan.as_ref()) {
        let inner = nodes.pop_front();
        let of_doubled = node.indexes.iter().filter(|index| doubled.contains(&index.uuid.to_string())).count();
        return match inner {
            _ if of_doubled == 0 => Ok(plan),
            Some(inner) if of_doubled == node.indexes.len() => halved(inner),
            _ => Err(super::invalid("a vector search asks indexes of two scales at once")),
        };
    }
    let children = plan.children().into_iter().map(|child| replace(Arc::clone(child), nodes, doubled));
    let children = children.collect::<Result<Vec<_>, _>>()?;
    with_new_children_if_necessary(plan, children).map_err(external)
}

fn halved(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>, StorageError> {
    let schema = plan.schema();
    let columns = schema.fields().iter().enumerate().map(|(index, field)| {
        let column = Arc::new(Column::new(field.name(), index)) as Arc<dyn PhysicalExpr>;
        let column = if field.name() == DISTANCE {
            let scale = Arc::new(Literal::new(ScalarValue::Float32(Some(SCALE))));
            Arc::new(BinaryExpr::new(column, Operator::Multiply, scale)) as Arc<dyn PhysicalExpr>
        } else {
            column
        };
        (column, field.name().clone())
    });
    let columns: Vec<_> = columns.collect();
    Ok(Arc::new(ProjectionExec::try_new(columns, plan).map_err(external)?))
}
