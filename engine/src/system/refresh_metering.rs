//! `system.public.function_refresh_metering`: what each succeeded refresh of a Function column has used, kept longer than
//! the jobs. Compares the versions of a Function, or follows one over time.
//!
//! It needs USAGE on the system. Of tables that the caller may not read, or that are gone, rows are shown to those who
//! may read the registry.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use lancegate_auth::{Object, Privilege, Requirement};
use lancegate_catalog::{MeteredRefresh, TableName, Timestamp};
use serde_json::Value;

use super::columns::{self, borrowed, count, made};
use super::{SystemContext, SystemRelation};
use crate::error::Result;
use crate::exec::refresh::reads_registry;
use crate::refresh::Profile;

type Column = columns::Column<MeteringRow>;

/// One succeeded refresh.
#[derive(Debug, Clone)]
pub struct MeteringRow {
    metered: MeteredRefresh,
    schema: String,
    /// None if the job did not report one that is understood here.
    profile: Option<Profile>,
}

impl MeteringRow {
    fn new(metered: MeteredRefresh) -> Self {
        let schema = crate::sql::resolve::schema_of(&metered.table.namespace);
        let profile = metered.result.get("profile").and_then(|value| serde_json::from_value(value.clone()).ok());
        Self { metered, schema, profile }
    }

    fn reported(&self, name: &str) -> Option<i64> {
        self.metered.result.get(name).and_then(Value::as_i64)
    }

    fn phase(&self, name: &str) -> Option<i64> {
        let phases = &self.profile.as_ref()?.phases;
        let millis = phases.iter().filter(|phase| phase.phase == name).map(|phase| phase.millis);
        millis.reduce(u64::saturating_add).and_then(count)
    }

    fn workers(&self) -> Option<i64> {
        let workers = &self.profile.as_ref()?.workers;
        workers.iter().map(|time| time.millis).reduce(u64::saturating_add).and_then(count)
    }
}

fn millis(from: Timestamp, to: Timestamp) -> i64 {
    (to - from).num_milliseconds().max(0)
}

/// Returns the columns.
pub fn columns() -> Vec<Column> {
    vec![
        Column::text("job_id", |row| made(row.metered.job_id)).not_null(),
        Column::text("database", |row| borrowed(&row.metered.table.database)).not_null(),
        Column::text("namespace", |row| borrowed(&row.schema)).not_null(),
        Column::text("table", |row| borrowed(&row.metered.table.name)).not_null(),
        Column::text("column", |row| borrowed(&row.metered.column)).not_null(),
        // NULL is main.
        Column::text("branch", |row| row.metered.branch.as_deref().and_then(borrowed)),
        Column::text("function", |row| borrowed(&row.metered.function)).not_null(),
        Column::text("function_version", |row| made(row.metered.function_version)).not_null(),
        Column::text("submitted_by", |row| borrowed(&row.metered.submitted_by)).not_null(),
        Column::boolean("automatic", |row| Some(row.metered.automatic)).not_null(),
        Column::timestamp("created_at", |row| Some(row.metered.created_at)).not_null(),
        Column::timestamp("finished_at", |row| Some(row.metered.finished_at)).not_null(),
        Column::bigint("rows_computed", |row| row.reported("rows_assigned")),
        Column::bigint("rows_failed", |row| row.reported("rows_failed")),
        Column::bigint("wall_millis", |row| Some(millis(row.metered.created_at, row.metered.finished_at))).not_null(),
        Column::bigint("queued_millis", |row| row.metered.started_at.map(|at| millis(row.metered.created_at, at))),
        Column::bigint("planning_millis", |row| row.phase("planning")),
        Column::bigint("starting_workers_millis", |row| row.phase("starting workers")),
        Column::bigint("running_splits_millis", |row| row.phase("running splits")),
        Column::bigint("committing_millis", |row| row.phase("committing")),
        Column::bigint("worker_millis", MeteringRow::workers),
    ]
}

/// The relation: refreshes of the connected database.
#[derive(Debug)]
pub struct RefreshMetering;

impl SystemRelation for RefreshMetering {
    fn name(&self) -> &'static str {
        "function_refresh_metering"
    }

    fn schema(&self) -> SchemaRef {
        columns::schema(&columns())
    }

    fn requirements(&self) -> Vec<Requirement> {
        vec![Requirement::new(Privilege::Usage, Object::System)]
    }

    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move {
            let (engine, principal) = (&context.engine, &context.caller.principal);
            let all = reads_registry(engine, principal).await?;
            let read = if all { limit.unwrap_or(usize::MAX) } else { usize::MAX };
            let mut known: HashMap<TableName, bool> = HashMap::new();
            let mut rows = Vec::new();
            for metered in engine.catalog().metered_refreshes(&context.caller.database, read).await? {
                let readable = all || readable(context, &metered.table, &mut known).await?;
                if readable {
                    rows.push(MeteringRow::new(metered));
                }
                if limit.is_some_and(|limit| rows.len() >= limit) {
                    break;
                }
            }
            columns::batch(&columns(), &rows)
        })
    }
}

/// Whether the caller may read the table that has this name now.
async fn readable(context: &SystemContext, name: &TableName, known: &mut HashMap<TableName, bool>) -> Result<bool> {
    if let Some(known) = known.get(name) {
        return Ok(*known);
    }
    let readable = match context.engine.catalog().table(name).await? {
        Some(table) => {
            let object = crate::sql::resolve::object_of(&table);
            context.engine.allows(&context.caller.principal, Privilege::Select, object).await?
        }
        None => false,
    };
    known.insert(name.clone(), readable);
    Ok(readable)
}
