//! `system.public.materialized_views`: the materialized views of the connected database
//! that the caller may read. DESCRIBE MATERIALIZED VIEW answers with one row of it.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _};
use lancegate_auth::{Privilege, Requirement, decide};
use lancegate_catalog::{Table, TableKind, Timestamp};
use serde_json::json;

use super::columns::{self, Column, borrowed, made};
use super::{SystemContext, SystemRelation};
use crate::error::Result;
use crate::exec::Engine;
use crate::exec::materialized::state::{Refreshed, ViewState};
use crate::sql::resolve::object_of;

/// Views that are opened at once.
const OPEN_AT_ONCE: usize = 16;

/// One view and what its newest version says.
#[derive(Debug)]
pub(crate) struct Row {
    record: Table,
    state: ViewState,
    version: u64,
}

impl Row {
    fn refreshed(&self) -> Option<&Refreshed> {
        self.state.refreshed.as_ref()
    }
}

/// Returns the columns.
pub(crate) fn columns() -> Vec<Column<Row>> {
    vec![
        Column::<Row>::text("namespace_path", |row| made(json!(row.record.name.namespace))).not_null(),
        Column::<Row>::text("name", |row| borrowed(&row.record.name.name)).not_null(),
        Column::<Row>::text("query", |row| borrowed(row.record.definition.as_deref().unwrap_or_default())).not_null(),
        Column::<Row>::boolean("is_populated", |row| Some(row.refreshed().is_some())).not_null(),
        Column::<Row>::bigint("version", |row| columns::count(row.version)).not_null(),
        Column::<Row>::timestamp("refreshed_at", |row| Timestamp::from_timestamp_millis(row.refreshed()?.at_millis)),
        Column::<Row>::bigint("rows", |row| columns::count(row.refreshed()?.rows)),
        Column::<Row>::bigint("source_version", |row| columns::count(row.refreshed()?.source_version)),
        Column::<Row>::json("sources", |row| {
            let sources = row.refreshed()?.sources.as_ref()?.iter();
            made(json!(sources.map(|one| json!({ "table": one.name, "version": one.version })).collect::<Vec<_>>()))
        }),
        Column::<Row>::boolean("auto_refresh_enabled", |row| row.state.auto_refresh_enabled),
        Column::<Row>::double("auto_refresh_interval_seconds", |row| row.state.auto_refresh_interval_seconds),
    ]
}

/// Returns the columns as they are described.
pub(crate) fn schema() -> SchemaRef {
    columns::schema(&columns())
}

/// Returns what is told of one view.
///
/// # Errors
/// If its files cannot be read.
pub(crate) async fn row(engine: &Engine, record: Table) -> Result<Row> {
    let dataset = engine.store().open(&record.location).await?;
    Ok(Row { record, state: ViewState::of(&dataset), version: dataset.version_id() })
}

/// See the module documentation.
#[derive(Debug)]
pub struct MaterializedViews;

#[async_trait]
impl SystemRelation for MaterializedViews {
    fn name(&self) -> &'static str {
        "materialized_views"
    }

    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn requirements(&self) -> Vec<Requirement> {
        // Views that the caller may not read are left out.
        Vec::new()
    }

    async fn rows(&self, context: &SystemContext, limit: Option<usize>) -> Result<RecordBatch> {
        let (engine, caller) = (&context.engine, &context.caller);
        let grants = engine.catalog().grants().await?;
        let mut views = engine.catalog().tables(&caller.database, None).await?;
        views.retain(|view| {
            let needed = Requirement::new(Privilege::Select, object_of(view));
            view.kind == TableKind::MaterializedView && decide(&caller.principal, &grants, &needed).allowed()
        });
        views.truncate(limit.unwrap_or(usize::MAX));
        let rows = futures::stream::iter(views).map(|view| row(engine, view)).buffered(OPEN_AT_ONCE);
        columns::batch(&columns(), &rows.try_collect::<Vec<_>>().await?)
    }
}
