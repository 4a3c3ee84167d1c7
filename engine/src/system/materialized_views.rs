//! `system.public.materialized_views`: the materialized views of the connected database
//! that the caller may read, and what their automatic refresh waits for. DESCRIBE
//! MATERIALIZED VIEW answers with one row of it. Ids of jobs are part of the registry, so
//! they are shown to those who may read that.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _};
use lancegate_auth::{Privilege, Requirement, decide};
use lancegate_catalog::{FailedRefresh, Table, TableKind, Timestamp};
use serde_json::json;

use super::columns::{self, Column, borrowed, made};
use super::{SystemContext, SystemRelation};
use crate::error::Result;
use crate::exec::Engine;
use crate::exec::auto_refresh::views::{self, ViewStatus};
use crate::exec::materialized::state::{Refreshed, ViewState};
use crate::exec::refresh::reads_registry;
use crate::sql::resolve::object_of;

/// Views that are opened at once.
const OPEN_AT_ONCE: usize = 16;

/// One view and what its newest version says.
#[derive(Debug)]
pub(crate) struct Row {
    record: Table,
    state: ViewState,
    version: u64,
    status: ViewStatus,
    /// Whether the reader may know of jobs.
    registry: bool,
}

impl Row {
    fn refreshed(&self) -> Option<&Refreshed> {
        self.state.refreshed.as_ref()
    }

    fn failed(&self) -> Option<&FailedRefresh> {
        self.status.history.as_ref()?.failed.as_ref()
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
            let sources = row.refreshed()?.sources.as_ref()?.iter().filter(|source| source.has_rows());
            made(json!(sources.map(|one| json!({ "table": one.name, "version": one.version })).collect::<Vec<_>>()))
        }),
        Column::<Row>::boolean("auto_refresh_enabled", |row| row.state.auto_refresh_enabled),
        Column::<Row>::double("auto_refresh_interval_seconds", |row| row.state.auto_refresh_interval_seconds),
        Column::<Row>::text("auto_refresh_state", |row| borrowed(row.status.standing.state.as_str())).not_null(),
        Column::<Row>::text("blocked_reason", |row| {
            row.status.standing.blocked.and_then(|reason| borrowed(reason.as_str()))
        }),
        Column::<Row>::text("active_job_id", |row| {
            row.status.active.as_ref().filter(|_| row.registry).and_then(|active| made(active.job))
        }),
        Column::<Row>::integer("failure_streak", |row| {
            i32::try_from(row.status.history.as_ref().map_or(0, |history| history.failure_streak)).ok()
        }),
        Column::<Row>::text("last_failure_job", |row| {
            row.failed().filter(|_| row.registry).and_then(|failed| made(failed.job))
        }),
        Column::<Row>::timestamp("last_failure_at", |row| Some(row.failed()?.at)),
        Column::<Row>::text("last_failure", |row| row.failed()?.message.as_deref().and_then(borrowed)),
        Column::<Row>::timestamp("next_run_at", |row| row.status.standing.next_run_at),
    ]
}

/// Returns the columns as they are described.
pub(crate) fn schema() -> SchemaRef {
    columns::schema(&columns())
}

/// Returns what is told of one view.
///
/// # Errors
/// If its files, or the metadata store, cannot be read.
pub(crate) async fn row(engine: &Engine, record: Table, registry: bool) -> Result<Row> {
    let dataset = engine.store().open(&record.location).await?;
    let (state, version) = (ViewState::of(&dataset), dataset.version_id());
    let status = views::status(engine, &record, version, &state).await?;
    Ok(Row { record, state, version, status, registry })
}

/// See the module documentation.
#[derive(Debug)]
pub struct MaterializedViews;

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

    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move {
            let (engine, caller) = (&context.engine, &context.caller);
            let grants = caller.names.grants(engine.catalog()).await?;
            let mut listed = caller.names.tables(engine.catalog(), &caller.database, None).await?;
            listed.retain(|view| {
                let needed = Requirement::new(Privilege::Select, object_of(view));
                view.kind == TableKind::MaterializedView && decide(&caller.principal, &grants, &needed).allowed()
            });
            listed.truncate(limit.unwrap_or(usize::MAX));
            let registry = reads_registry(engine, &caller.principal).await?;
            let rows = futures::stream::iter(listed).map(|view| row(engine, view, registry)).buffered(OPEN_AT_ONCE);
            columns::batch(&columns(), &rows.try_collect::<Vec<_>>().await?)
        })
    }
}
