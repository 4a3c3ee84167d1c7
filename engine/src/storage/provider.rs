//! One version of a Lance table as DataFusion sees it.
//!
//! The columns are those of the table; Lance's system columns are there only if
//! the statement names one of them, because DataFusion knows no column that a
//! `*` leaves out. How rows are read is decided in [`super::scan`].

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use lance::Dataset;
use lancegate_auth::Object;

use super::scan;

/// Lance's unsigned columns about the row itself, shown as `bigint`.
pub const SYSTEM_COLUMNS: [&str; 5] =
    ["_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"];

/// The output of a Function binding that says which rows it has computed; other
/// engines hide it, too.
const ASSIGNMENT_ORDINAL: (&str, &str) = ("computed_column.function.output_ordinal", "4294967295");

/// How the metadata keys begin that are nobody else's.
const OWN_METADATA: &str = "lancegate.";

/// A table at one version.
#[derive(Debug, Clone)]
pub struct LanceTable {
    dataset: Arc<Dataset>,
    object: Object,
    schema: SchemaRef,
}

/// Which columns a [`LanceTable`] has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// What `*` stands for.
    Visible,
    /// These and the system columns that the statement names.
    WithSystem,
    /// Every stored column and system columns: what a rewrite of rows must copy.
    Stored,
}

impl LanceTable {
    /// Returns the table `object` at the version of `dataset`, with the system
    /// columns `system` where `columns` lets them in.
    pub fn new<'a>(
        dataset: Arc<Dataset>,
        object: Object,
        columns: Columns,
        system: impl IntoIterator<Item = &'a &'static str>,
    ) -> Self {
        let mut fields: Vec<Field> = stored_fields(&dataset);
        if columns != Columns::Stored {
            fields.retain(|field| !is_internal(field));
        }
        if columns != Columns::Visible {
            fields.extend(system.into_iter().map(|name| Field::new(*name, DataType::Int64, true)));
        }
        // The scan's batches carry the table's metadata; plans compare the two.
        let schema = Schema::new_with_metadata(fields, dataset.schema().metadata.clone());
        Self { dataset, object, schema: Arc::new(schema) }
    }

    /// Returns the version that is read.
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// Returns the name that privileges are granted on.
    pub fn object(&self) -> &Object {
        &self.object
    }
}

/// Returns the columns of a table that users see.
pub fn visible_schema(dataset: &Dataset) -> Schema {
    let mut fields = stored_fields(dataset);
    fields.retain(|field| !is_internal(field));
    Schema::new(fields)
}

/// Returns the stored columns that users do not see.
pub fn hidden_columns(dataset: &Dataset) -> Vec<String> {
    let hidden = stored_fields(dataset).into_iter().filter(is_internal);
    hidden.map(|field| field.name().clone()).collect()
}

/// Returns columns as other software shows them: without our own metadata.
pub fn shown(schema: &Schema) -> Schema {
    let own = |key: &String| key.starts_with(OWN_METADATA);
    let field = |field: &Arc<Field>| {
        let metadata = field.metadata().iter().filter(|(key, _)| !own(key));
        let metadata = metadata.map(|(key, value)| (key.clone(), value.clone())).collect();
        field.as_ref().clone().with_metadata(metadata)
    };
    let metadata = schema.metadata().iter().filter(|(key, _)| !own(key));
    let metadata = metadata.map(|(key, value)| (key.clone(), value.clone())).collect();
    Schema::new_with_metadata(schema.fields().iter().map(field).collect::<Vec<_>>(), metadata)
}

/// Returns whether `name` is one of Lance's columns about the row itself.
pub fn is_system_column(name: &str) -> bool {
    SYSTEM_COLUMNS.contains(&name)
}

fn stored_fields(dataset: &Dataset) -> Vec<Field> {
    let schema = Schema::from(dataset.schema());
    schema.fields().iter().map(|field| field.as_ref().clone()).collect()
}

fn is_internal(field: &Field) -> bool {
    let (key, value) = ASSIGNMENT_ORDINAL;
    field.metadata().get(key).is_some_and(|ordinal| ordinal == value)
}

#[async_trait]
impl TableProvider for LanceTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(indices) => Arc::new(self.schema.project(indices)?),
            None => Arc::clone(&self.schema),
        };
        let request = scan::Request { schema, filters, limit, partitions: state.config().target_partitions() };
        scan::plan(&self.dataset, &request).await
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters.iter().map(|filter| scan::pushdown(filter)).collect())
    }
}
