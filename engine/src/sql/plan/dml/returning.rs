//! RETURNING: a query over the rows that a change has written or removed.
//!
//! It is bound like `SELECT <list> FROM <target>`, with a relation in the place of
//! the table that has no rows yet. When the change has committed, the rows that it
//! has kept take that relation's place.

use std::any::Any;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::{MemTable, TableType, provider_as_source, source_as_provider};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use lancegate_sql::ObjectName;
use sqlparser::ast::{SelectItem, SetExpr, Statement as Native, TableWithJoins};

use super::QueryPlan;
use crate::error::{Result, SqlError};
use crate::sql::plan::Planner;
use crate::sql::resolve::BoundTable;
use crate::sql::rewrite::build;
use crate::sqlstate::SqlState;
use crate::storage::provider;

/// A bound RETURNING list.
#[derive(Debug, Clone)]
pub struct Returning {
    query: QueryPlan,
    rows: SchemaRef,
}

impl Returning {
    /// Returns the columns of the answer.
    pub fn columns(&self) -> &SchemaRef {
        &self.query.columns
    }

    /// Returns the query, for what it reads.
    pub(crate) fn query(&self) -> &QueryPlan {
        &self.query
    }

    /// Returns the columns of the table that rows are kept with.
    pub(crate) fn rows(&self) -> &SchemaRef {
        &self.rows
    }

    /// Returns the query over these rows.
    ///
    /// # Errors
    /// If the rows have other columns than [`Self::rows`].
    pub(crate) fn over(&self, rows: Vec<RecordBatch>) -> Result<QueryPlan> {
        let kept = provider_as_source(Arc::new(MemTable::try_new(Arc::clone(&self.rows), vec![rows])?));
        let logical = self.query.logical.clone().transform_up(|node| match node {
            LogicalPlan::TableScan(mut scan) if is_kept(&scan.source) => {
                scan.source = Arc::clone(&kept);
                Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(QueryPlan { logical: logical.data, ..self.query.clone() })
    }
}

impl Planner {
    /// Binds a RETURNING list over the rows of `table`, which `from` names.
    ///
    /// # Errors
    /// As SELECT; 0A000 for parameters.
    pub(super) async fn plan_returning(
        &self,
        items: Option<&Vec<SelectItem>>,
        (target, from): (&ObjectName, TableWithJoins),
        table: &BoundTable,
    ) -> Result<Option<Returning>> {
        let Some(items) = items else { return Ok(None) };
        let rows = Arc::new(provider::visible_schema(&table.dataset));
        let select = build::select(items.clone(), vec![from], None);
        let query = Native::Query(Box::new(build::query(SetExpr::Select(Box::new(select)))));
        let kept: Arc<dyn TableProvider> = Arc::new(KeptRows { schema: Arc::clone(&rows) });
        // What the client declared is of the rest of the statement.
        let planner = Self { declared: Arc::from([]), ..self.clone() };
        let query = planner.bind_over(query, target, &kept).await?;
        if !query.parameters.reported.is_empty() {
            return Err(SqlError::not_supported("parameters in RETURNING are not supported"));
        }
        ensure_by_row(&query.logical)?;
        Ok(Some(Returning { query, rows }))
    }
}

/// Refuses what answers less than a row for each row.
fn ensure_by_row(list: &LogicalPlan) -> Result<()> {
    let mut refused = None;
    list.apply(|node| {
        refused = match node {
            LogicalPlan::Aggregate(_) => Some("aggregate functions are not allowed in RETURNING"),
            LogicalPlan::Window(_) => Some("window functions are not allowed in RETURNING"),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Ok(TreeNodeRecursion::Stop)
    })?;
    refused.map_or(Ok(()), |message| Err(SqlError::new(SqlState::GROUPING_ERROR, message)))
}

/// Stands for the rows of a change that has not run.
#[derive(Debug)]
struct KeptRows {
    schema: SchemaRef,
}

fn is_kept(source: &Arc<dyn datafusion::logical_expr::TableSource>) -> bool {
    source_as_provider(source).is_ok_and(|provider| (provider.as_ref() as &dyn Any).is::<KeptRows>())
}

#[async_trait::async_trait]
impl TableProvider for KeptRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        Err(DataFusionError::Internal("the rows of a change were read before it ran".to_owned()))
    }
}
