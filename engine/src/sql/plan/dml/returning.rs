//! RETURNING: a query over the rows that a change has written or removed.
//!
//! It is bound like `SELECT <list> FROM <target>`, with a relation in the place of
//! the table that has no rows yet. When the change has committed, the rows that it
//! has kept take that relation's place. The relation has a name of its own, so that a
//! subquery that names the table reads the table, as it was before the change.

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
use lancegate_auth::{Privilege, Requirement};
use lancegate_sql::ObjectName;
use sqlparser::ast::{
    Expr as NativeExpr, Ident, Select, SelectItem, SetExpr, Statement as Native, TableAlias, TableFactor,
    TableWithJoins,
};

use super::QueryPlan;
use crate::error::{Result, SqlError};
use crate::sql::plan::Planner;
use crate::sql::resolve::BoundTable;
use crate::sql::rewrite::{build, outside};
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
        from: TableWithJoins,
        table: &BoundTable,
    ) -> Result<Option<Returning>> {
        let Some(items) = items else { return Ok(None) };
        let rows = Arc::new(provider::visible_schema(&table.dataset));
        let select = over_changed(items.clone(), from)?;
        let query = Native::Query(Box::new(build::query(SetExpr::Select(Box::new(select)))));
        let kept: Arc<dyn TableProvider> = Arc::new(KeptRows { schema: Arc::clone(&rows) });
        // What the client declared is of the rest of the statement.
        let planner = Self { declared: Arc::from([]), ..self.clone() };
        let needs = Requirement::new(Privilege::Select, table.object());
        let query = planner.bind_over(query, &ObjectName::bare(CHANGED), (&kept, &needs)).await?;
        if !query.parameters.reported.is_empty() {
            return Err(SqlError::not_supported("parameters in RETURNING are not supported"));
        }
        ensure_by_row(&query.logical)?;
        Ok(Some(Returning { query, rows }))
    }
}

/// What the relation of changed rows is called where it is looked up: no table can be.
const CHANGED: &str = "changed rows";

/// Returns the list over the changed rows, which have the name of the table, or the alias that it has.
fn over_changed(mut items: Vec<SelectItem>, mut from: TableWithJoins) -> Result<Select> {
    let TableFactor::Table { name, alias, .. } = &mut from.relation else {
        return Err(SqlError::internal("a change is of a table"));
    };
    let own = name.0.last().and_then(|part| part.as_ident()).cloned();
    let own = own.ok_or_else(|| SqlError::internal("a table has a name"))?;
    if alias.is_none() {
        // `schema.table.column` is `table.column` then.
        let whole: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident()).cloned().collect();
        outside::of_subqueries(&mut items, |expr| {
            if let NativeExpr::CompoundIdentifier(parts) = expr
                && whole.len() > 1
                && parts.len() == whole.len() + 1
                && parts.starts_with(&whole)
            {
                parts.drain(..whole.len() - 1);
            }
        });
    }
    alias.get_or_insert(TableAlias { explicit: true, name: own, columns: Vec::new(), at: None });
    *name = sqlparser::ast::ObjectName::from(vec![Ident::with_quote('"', CHANGED)]);
    Ok(build::select(items, vec![from], None))
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
