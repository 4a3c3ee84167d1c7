//! `system.public.column_status` and the table function `column_status('<table>')`: how the rows of computed columns
//! stand, and what their automatic refresh waits for.
//!
//! The columns are those of tables that the caller may read. Ids of jobs are part of the registry, so they are shown to
//! those who may read that.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use lancegate_auth::{Principal, Privilege, Requirement};
use lancegate_catalog::{ActiveRefresh, RefreshHistory, Table, TableKind, Timestamp};
use lancegate_sql::ObjectName;

use super::columns::{self, borrowed, count, made};
use super::{SystemContext, SystemRelation};
use crate::error::{Result, SqlError};
use crate::exec::Engine;
use crate::exec::auto_refresh::{binding, failed_rows};
use crate::exec::refresh::reads_registry;
use crate::jobs::auto::{self, Binding, Due, Sight, Standing, State, TableLoad, Target, Unit, gates, settled};
use crate::refresh::garbage::head;
use crate::refresh::status::{self, ColumnStatus, Declared, FailedRows, Work};
use crate::sql::plan::Planner;
use crate::sql::resolve::{no_relation, object_of};
use crate::storage::computed::ComputedColumn;

type Column = columns::Column<StatusRow>;

/// One computed column on one branch.
#[derive(Debug, Clone)]
pub struct StatusRow {
    table_name: String,
    branch: Option<String>,
    column: ComputedColumn,
    revision: Option<String>,
    /// None if the rows could not be read.
    counts: Option<ColumnStatus>,
    history: Option<RefreshHistory>,
    active: Option<ActiveRefresh>,
    /// Whether the caller may know of jobs.
    registry: bool,
    cooldown: Duration,
    standing: Standing,
}

impl StatusRow {
    fn counted(&self, number: impl Fn(&ColumnStatus) -> u64) -> Option<i64> {
        self.counts.as_ref().and_then(|counts| count(number(counts)))
    }
}

/// Returns the columns.
pub fn columns() -> Vec<Column> {
    vec![
        Column::text("table_name", |row| borrowed(&row.table_name)).not_null(),
        // NULL is main.
        Column::text("branch", |row| row.branch.as_deref().and_then(borrowed)),
        Column::text("column", |row| borrowed(&row.column.name)).not_null(),
        Column::text("binding_id", |row| row.revision.as_deref().and_then(borrowed)),
        Column::text("function", |row| row.column.function.as_ref().and_then(|call| borrowed(&call.name))),
        Column::bigint("table_version", |row| row.counted(|counts| counts.version)),
        Column::bigint("rows", |row| row.counted(|counts| counts.rows)),
        Column::bigint("fresh", |row| row.counted(|counts| counts.fresh)),
        Column::bigint("stale", |row| row.counted(|counts| counts.stale)),
        Column::bigint("never_computed", |row| row.counted(|counts| counts.never_computed)),
        Column::bigint("failed", |row| row.counted(|counts| counts.failed)),
        Column::text("last_refresh_job", |row| {
            row.history.as_ref().filter(|_| row.registry)?.succeeded.and_then(|(job, _)| made(job))
        }),
        Column::timestamp("last_refresh_at", |row| Some(row.history.as_ref()?.succeeded?.1)),
        Column::text("last_failure_job", |row| {
            row.history.as_ref().filter(|_| row.registry)?.failed.as_ref().and_then(|failed| made(failed.job))
        }),
        Column::text("last_failure_state", |row| {
            row.history.as_ref()?.failed.as_ref().and_then(|failed| borrowed(failed.state.as_str()))
        }),
        Column::boolean("last_failure_automatic", |row| Some(row.history.as_ref()?.failed.as_ref()?.automatic)),
        Column::timestamp("last_failure_at", |row| Some(row.history.as_ref()?.failed.as_ref()?.at)),
        Column::text("last_failure", |row| {
            row.history.as_ref()?.failed.as_ref()?.message.as_deref().and_then(borrowed)
        }),
        Column::boolean("auto_refresh_enabled", |row| Some(row.column.auto_refresh_enabled)),
        Column::bigint("auto_refresh_interval_seconds", |row| row.column.auto_refresh_interval_seconds.and_then(count)),
        Column::text("auto_refresh_state", |row| borrowed(row.standing.state.as_str())).not_null(),
        Column::text("blocked_reason", |row| row.standing.blocked.and_then(|reason| borrowed(reason.as_str()))),
        Column::text("active_job_id", |row| {
            row.active.as_ref().filter(|_| row.registry).and_then(|active| made(active.job))
        }),
        Column::integer("failure_streak", |row| {
            i32::try_from(row.history.as_ref().map_or(0, |history| history.failure_streak)).ok()
        }),
        Column::bigint("effective_cooldown_millis", |row| i64::try_from(row.cooldown.as_millis()).ok()),
        Column::timestamp("next_run_at", |row| row.standing.next_run_at),
        Column::text("next_run_reason", |row| row.standing.next_run_at.and_then(|_| borrowed(reason(&row.standing)))),
    ]
}

/// Why a column is refreshed at the time that is known.
fn reason(standing: &Standing) -> &'static str {
    match standing.state {
        State::WaitingInterval => "interval",
        State::WaitingBackoff => "failure_backoff",
        _ => "preparation_backoff",
    }
}

/// Reads the columns of one table, of main and of its branches.
///
/// # Errors
/// If the metadata store cannot be read.
async fn read(engine: &Engine, principal: &Principal, table: &Table) -> Result<Vec<StatusRow>> {
    let registry = reads_registry(engine, principal).await?;
    let mut rows = Vec::new();
    for branch in branches(engine, table).await? {
        let unit = Unit { table: table.id, branch };
        rows.extend(read_unit(engine, registry, table, &unit).await?);
    }
    Ok(rows)
}

async fn branches(engine: &Engine, table: &Table) -> Result<Vec<Option<String>>> {
    let (store, location) = (engine.store().clone(), table.location.clone());
    let listed = engine.runtime().run(async move {
        let Some(main) = head(&store, &location, None).await? else { return Ok(Vec::new()) };
        let names = status::branches(&main).await?;
        Ok(std::iter::once(None).chain(names.into_iter().map(Some)).collect())
    });
    listed.await
}

async fn read_unit(engine: &Engine, registry: bool, table: &Table, unit: &Unit) -> Result<Vec<StatusRow>> {
    let (store, location, branch) = (engine.store().clone(), table.location.clone(), unit.branch.clone());
    let seen = engine.runtime().run(async move {
        let Some(dataset) = head(&store, &location, branch.as_deref()).await? else { return Ok(None) };
        Ok(Some((status::has_mem_wal(&dataset).await?, status::declared(&dataset)?)))
    });
    let Some((has_mem_wal, declared)) = seen.await? else { return Ok(Vec::new()) };
    let active = engine.catalog().active_refreshes(Some(table.id)).await?;
    let histories = engine.catalog().refresh_histories(Some(table.id)).await?;
    let look = Look { engine, table, unit, registry, has_mem_wal, active, histories };
    let mut rows = Vec::new();
    for declared in declared {
        rows.extend(look.at(declared).await?);
    }
    Ok(rows)
}

/// What is the same for the columns of a table.
struct Look<'a> {
    engine: &'a Engine,
    table: &'a Table,
    unit: &'a Unit,
    registry: bool,
    has_mem_wal: bool,
    active: Vec<ActiveRefresh>,
    histories: std::collections::HashMap<String, RefreshHistory>,
}

impl Look<'_> {
    /// Returns the rows of the columns that are computed together.
    async fn at(&self, declared: Declared) -> Result<Vec<StatusRow>> {
        let shared = binding(self.engine, &self.table.name.database, self.unit, &declared).await?;
        let history = self.histories.get(&shared.key);
        let history = history.filter(|history| shared.revision.as_ref() == Some(&history.revision)).cloned();
        let active = self.active.iter().find(|active| active.key == shared.key).cloned();
        let outputs = declared.snapshot.outputs().to_vec();
        let version = declared.snapshot.dataset.version_id();
        let (counts, due) = self.count(declared, &shared).await?;
        let rows = outputs.into_iter().map(|column| {
            let own = Binding { enabled: column.auto_refresh_enabled, ..shared.clone() };
            StatusRow {
                table_name: name_of(self.table),
                branch: self.unit.branch.clone(),
                standing: self.standing(&own, history.as_ref(), version, due),
                cooldown: auto::cooldown(self.engine.jobs().auto(), &own),
                revision: own.revision,
                column,
                counts,
                history: history.clone(),
                active: active.clone(),
                registry: self.registry,
            }
        });
        Ok(rows.collect())
    }

    async fn count(&self, declared: Declared, shared: &Binding) -> Result<(Option<ColumnStatus>, Option<Due>)> {
        let failed = match shared.target {
            Target::Column { field_id, .. } => failed_rows(self.engine, self.unit, field_id).await?,
            Target::View => FailedRows::default(),
        };
        let counted = self.engine.runtime().run(async move {
            let counts = status::status(&declared.snapshot, &failed).await?;
            Ok((counts, status::work(&declared.snapshot, &failed).await?))
        });
        match counted.await {
            Ok((counts, work)) => Ok((Some(counts), Some(due(work)))),
            // One column that cannot be read does not hide the others.
            Err(error) => {
                tracing::warn!(table = %self.table.name, column = %shared.target, %error, "cannot count rows");
                Ok((None, None))
            }
        }
    }

    fn standing(
        &self,
        binding: &Binding,
        history: Option<&RefreshHistory>,
        version: u64,
        due: Option<Due>,
    ) -> Standing {
        let active_of = |key: &str| self.active.iter().find(|active| active.key == key).map(auto::active);
        let preparation = self.engine.jobs().preparations().of(&binding.key, version);
        let sight = Sight {
            now: now(),
            config: self.engine.jobs().auto(),
            binding,
            history,
            active: active_of(&binding.key),
            input_in_flight: binding.inputs.iter().any(|input| active_of(input).is_some()),
            table: TableLoad { in_flight: auto::in_flight(&self.active, self.table.id), has_mem_wal: self.has_mem_wal },
            preparation: preparation.as_ref(),
        };
        match (gates(&sight), due) {
            (Ok(()), Some(due)) => settled(due),
            (Ok(()), None) => Standing::unobservable(),
            // It would wait, if there were anything to wait for.
            (Err(standing), Some(Due::Nothing)) if standing.waits_to_run() => settled(Due::Nothing),
            (Err(standing), _) => standing,
        }
    }
}

fn due(work: Work) -> Due {
    match work {
        Work::Nothing => Due::Nothing,
        Work::Rows => Due::Rows,
        Work::InputsFirst => Due::Inputs,
    }
}

fn now() -> Timestamp {
    crate::clock::now()
}

fn name_of(table: &Table) -> String {
    let path = &table.name.namespace;
    match path.is_empty() {
        true => table.name.name.clone(),
        false => format!("{}.{}", path.join("$"), table.name.name),
    }
}

/// The relation: computed columns of the tables of the connected database that the caller may read.
#[derive(Debug)]
pub struct ColumnStatuses;

impl SystemRelation for ColumnStatuses {
    fn name(&self) -> &'static str {
        "column_status"
    }

    fn schema(&self) -> SchemaRef {
        columns::schema(&columns())
    }

    fn requirements(&self) -> Vec<Requirement> {
        // Tables that the caller may not read are left out.
        Vec::new()
    }

    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move {
            let (engine, principal) = (&context.engine, &context.caller.principal);
            let limit = limit.unwrap_or(usize::MAX);
            let mut rows = Vec::new();
            for table in context.caller.names.tables(engine.catalog(), &context.caller.database, None).await? {
                if rows.len() >= limit {
                    break;
                }
                let readable =
                    table.kind == TableKind::Table && context.allows(Privilege::Select, object_of(&table)).await?;
                if readable {
                    rows.extend(read(engine, principal, &table).await?);
                }
            }
            rows.truncate(limit);
            columns::batch(&columns(), &rows)
        })
    }
}

/// The rows of `column_status('<table>')`.
#[derive(Debug)]
pub struct StatusesOfTable {
    /// The table as the caller spells it.
    pub table: ObjectName,
}

impl SystemRelation for StatusesOfTable {
    fn name(&self) -> &'static str {
        "column_status"
    }

    fn schema(&self) -> SchemaRef {
        columns::schema(&columns())
    }

    fn requirements(&self) -> Vec<Requirement> {
        // What is needed is known once the name is looked up.
        Vec::new()
    }

    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move {
            let found = Planner::system(context).find(&self.table).await?;
            let table = found.ok_or_else(|| no_relation(&self.table))?;
            let principal = &context.caller.principal;
            if !context.allows(Privilege::Select, object_of(&table)).await? {
                return Err(SqlError::permission_denied("table", &table.name.name));
            }
            let mut rows = match table.kind {
                TableKind::Table => read(&context.engine, principal, &table).await?,
                TableKind::View | TableKind::MaterializedView => Vec::new(),
            };
            rows.truncate(limit.unwrap_or(usize::MAX));
            columns::batch(&columns(), &rows)
        })
    }
}
