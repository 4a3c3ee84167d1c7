//! What the gateway tells about itself in tables: `pg_catalog`,
//! `information_schema`, and the relations of `system.public`.
//!
//! Relations are made when a statement names them, from the metadata store, for
//! one caller. Nothing here is stored, and nothing can be written.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;
use lancegate_auth::{Object, Privilege, Requirement, decide};
use tokio::sync::OnceCell;

use crate::error::Result;
use crate::exec::Engine;
use crate::sql::caller::Caller;
use crate::system::objects::Objects;

pub mod column_status;
pub mod columns;
pub mod describe_job;
pub mod explain_job;
pub mod function_errors;
pub mod functions;
pub mod gpu_classes;
pub mod information_schema;
pub mod job_events;
pub mod job_splits;
pub mod jobs;
pub mod listed;
pub mod materialized_views;
pub mod objects;
pub mod pg_catalog;
pub mod refresh_metering;

/// The database whose schema `public` holds the relations of the deployment;
/// it can be named from every database.
pub const SYSTEM_DATABASE: &str = "system";

/// For whom a relation is read.
#[derive(Debug, Clone)]
pub struct SystemContext {
    /// Where everything is looked up.
    pub engine: Engine,
    /// Who asks, in which database.
    pub caller: Arc<Caller>,
    /// What the caller may see, read once per statement when it is asked for.
    objects: Arc<OnceCell<Objects>>,
}

impl SystemContext {
    /// Returns the context of one statement.
    pub fn new(engine: Engine, caller: Arc<Caller>) -> Self {
        Self { engine, caller, objects: Arc::default() }
    }

    /// Returns whether the caller may do something with an object, for relations that show less
    /// instead of failing.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub(crate) async fn allows(&self, privilege: Privilege, object: Object) -> Result<bool> {
        let grants = self.caller.names.grants(self.engine.catalog()).await?;
        Ok(decide(&self.caller.principal, &grants, &Requirement::new(privilege, object)).allowed())
    }

    /// Returns the databases, schemas, relations and roles that the caller may
    /// see, the same for the whole statement.
    ///
    /// # Errors
    /// If the metadata store or the data root fails.
    pub(crate) async fn objects(&self) -> Result<&Objects> {
        self.objects.get_or_try_init(|| objects::load(self)).await
    }
}

/// One relation of `system.public`. SHOW statements read the same relation, so
/// that both always agree.
pub trait SystemRelation: fmt::Debug + Send + Sync {
    /// The name under `system.public`.
    fn name(&self) -> &'static str;

    /// The columns.
    fn schema(&self) -> SchemaRef;

    /// What the caller must hold to read it.
    fn requirements(&self) -> Vec<Requirement>;

    /// Returns the rows that the caller may see, at most `limit` if given.
    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>>;

    /// Returns the rows of one job, or `None` if all rows have to be looked at for it.
    fn rows_of_job<'a>(
        &'a self,
        _context: &'a SystemContext,
        _id: &'a str,
    ) -> BoxFuture<'a, Result<Option<RecordBatch>>> {
        Box::pin(async move { Ok(None) })
    }
}

/// Returns the relations of `system.public`. A new relation is one file below
/// `system/` and one line here.
pub fn relations() -> Vec<Arc<dyn SystemRelation>> {
    vec![
        Arc::new(jobs::Jobs),
        Arc::new(job_events::JobEvents),
        Arc::new(job_splits::JobSplits),
        Arc::new(gpu_classes::GpuClasses),
        Arc::new(function_errors::FunctionErrors),
        Arc::new(column_status::ColumnStatuses),
        Arc::new(refresh_metering::RefreshMetering),
        Arc::new(listed::Functions),
        Arc::new(listed::Grants),
        Arc::new(materialized_views::MaterializedViews),
    ]
}

/// A relation of `system.public` as a table: its rows are made when it is read.
#[derive(Debug)]
pub(crate) struct LazyRelation {
    relation: Arc<dyn SystemRelation>,
    context: SystemContext,
}

impl LazyRelation {
    /// Returns the table of a relation for one caller.
    pub(crate) fn new(relation: Arc<dyn SystemRelation>, context: SystemContext) -> Self {
        Self { relation, context }
    }
}

// `scan` is written as `async_trait` declares it. The compiler proves a future `Send` once for all functions without
// bounds, and once more in every function that has some, as those that `async_trait` makes; of what holds an engine,
// that takes it seconds.
impl TableProvider for LazyRelation {
    fn schema(&self) -> SchemaRef {
        self.relation.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// A job that is named saves reading the others; the rows are filtered all the same.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> datafusion::common::Result<Vec<TableProviderFilterPushDown>> {
        let kind = |filter: &&Expr| match job_of(filter) {
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(kind).collect())
    }

    fn scan<'life0, 'life1, 'life2, 'life3, 'async_trait>(
        &'life0 self,
        state: &'life1 dyn Session,
        projection: Option<&'life2 Vec<usize>>,
        filters: &'life3 [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'async_trait, datafusion::common::Result<Arc<dyn ExecutionPlan>>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        'life2: 'async_trait,
        'life3: 'async_trait,
        Self: 'async_trait,
    {
        self.scan_rows(state, projection, filters, limit)
    }
}

impl LazyRelation {
    fn scan_rows<'a>(
        &'a self,
        state: &'a dyn Session,
        projection: Option<&'a Vec<usize>>,
        filters: &'a [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'a, datafusion::common::Result<Arc<dyn ExecutionPlan>>> {
        Box::pin(async move {
            let failed = |error| DataFusionError::External(Box::new(error));
            let of_job = match filters.iter().find_map(job_of) {
                Some(id) => self.relation.rows_of_job(&self.context, id).await.map_err(failed)?,
                None => None,
            };
            let rows = match of_job {
                Some(rows) => rows,
                None => {
                    let limit = limit.filter(|_| filters.is_empty());
                    self.relation.rows(&self.context, limit).await.map_err(failed)?
                }
            };
            let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
            table.scan(state, projection, filters, limit).await
        })
    }
}

/// Returns the job of a condition `job_id = '…'`.
fn job_of(filter: &Expr) -> Option<&str> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = filter else { return None };
    let (column, value) = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(value, _)) | (Expr::Literal(value, _), Expr::Column(column)) => {
            (column, value)
        }
        _ => return None,
    };
    match value {
        ScalarValue::Utf8(Some(id)) | ScalarValue::Utf8View(Some(id)) | ScalarValue::LargeUtf8(Some(id))
            if column.name == "job_id" =>
        {
            Some(id)
        }
        _ => None,
    }
}
