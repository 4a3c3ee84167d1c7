//! Automatic refreshes: the tables and materialized views that [`Scheduler`] looks at, and how its jobs come about.
//!
//! A job that nobody asked for is planned as the statement would be that asks for it, by the owner of the table, and is
//! submitted without a privilege check of its own: as for every job, each claim decides whether its user still holds
//! what the statement needs. So an owner who has lost a privilege finds failed jobs that say so, and not silence.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use lancegate_auth::{Subject, UserName};
use lancegate_catalog::{CatalogError, NewJob, Table, TableId, TableKind, TableName, Timestamp};
use lancegate_sql::ast::{RefreshColumn, Statement};
use lancegate_sql::{FieldPath, ObjectName, RefreshOptions};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::{Result, SqlError};
use crate::exec::Engine;
use crate::exec::refresh::{binding_key, new_job};
use crate::jobs::auto::{Binding, Due, Scheduler, Scope, Seen, Source, Target, Unit};
use crate::refresh::garbage::head;
use crate::refresh::snapshot::Snapshot;
use crate::refresh::status::{self, Declared, FailedRows, Work};
use crate::session::{Session, Settings};
use crate::sql::plan::Plan;
use crate::sql::resolve::{object_of, schema_of};
use crate::storage::computed::{ComputedColumn, ComputedKind};
use crate::storage::nested;

pub(crate) mod views;

/// How long a table is taken to have the branches that it had.
const BRANCHES_KEPT: Duration = Duration::from_secs(60);
/// The shortest time between two looks, however many jobs end.
const LOOK_MIN: Duration = Duration::from_millis(50);

/// Refreshes columns and views by themselves until `stop` fires.
pub async fn run(engine: Engine, stop: CancellationToken) {
    let (catalog, config) = (engine.catalog().clone(), *engine.jobs().auto());
    let preparations = engine.jobs().preparations().clone();
    let mut changes = catalog.subscribe();
    let mut scheduler = Scheduler::new(catalog, Tables::new(engine), config, preparations);
    let mut all_at = Instant::now();
    loop {
        let scope = if Instant::now() >= all_at { Scope::All } else { Scope::Waiting };
        if scope == Scope::All {
            all_at = Instant::now() + config.look_interval;
        }
        let look = tokio::select! {
            () = stop.cancelled() => return,
            look = scheduler.look(scope, crate::clock::now()) => look,
        };
        let wake_at = look.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot look for what is to be refreshed");
            None
        });
        let wait = wake_at.map(|at| (at - crate::clock::now()).to_std().unwrap_or_default().max(LOOK_MIN));
        let until = wait.map_or(all_at, |wait| all_at.min(Instant::now() + wait));
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep_until(until) => {}
            heard = job_ended(&mut changes) => {
                if !heard {
                    return;
                }
                tokio::time::sleep(LOOK_MIN).await;
                while changes.try_recv().is_ok() {}
            }
        }
    }
}

/// Waits until some job has ended; `false` once none will any more.
async fn job_ended(changes: &mut tokio::sync::broadcast::Receiver<lancegate_catalog::JobChange>) -> bool {
    loop {
        match changes.recv().await {
            Ok(change) if !change.state.is_terminal() => {}
            Ok(_) | Err(RecvError::Lagged(_)) => return true,
            Err(RecvError::Closed) => return false,
        }
    }
}

/// The tables of all databases.
pub(crate) struct Tables {
    engine: Engine,
    known: Mutex<HashMap<TableId, Known>>,
}

struct Known {
    record: Table,
    branches: Vec<String>,
    listed_at: Instant,
}

impl Tables {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, known: Mutex::default() }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<TableId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, table: TableId) -> Option<Table> {
        self.known().get(&table).map(|known| known.record.clone())
    }

    fn note(&self, record: &Table, branches: Vec<String>) {
        let known = Known { record: record.clone(), branches, listed_at: Instant::now() };
        self.known().insert(record.id, known);
    }

    /// Returns the branches of a table as they were a moment ago.
    async fn branches(&self, table: &Table) -> Vec<String> {
        if let Some(known) = self.known().get(&table.id)
            && known.listed_at.elapsed() < BRANCHES_KEPT
        {
            return known.branches.clone();
        }
        let (store, location) = (self.engine.store().clone(), table.location.clone());
        let listed = self.engine.runtime().run(async move {
            match head(&store, &location, None).await? {
                Some(main) => Ok(status::branches(&main).await?),
                None => Ok(Vec::new()),
            }
        });
        let branches = listed.await.unwrap_or_else(|error| {
            tracing::warn!(table = %table.name, %error, "cannot list the branches of a table");
            Vec::new()
        });
        self.note(table, branches.clone());
        branches
    }
}

impl Source for Tables {
    type Error = SqlError;

    fn units(&self) -> BoxFuture<'_, Result<Vec<Unit>>> {
        Box::pin(async move {
            let mut units = Vec::new();
            for database in self.engine.catalog().databases().await? {
                for table in self.engine.catalog().tables(&database.name, None).await? {
                    let branches = match table.kind {
                        TableKind::Table => self.branches(&table).await,
                        TableKind::MaterializedView => {
                            self.note(&table, Vec::new());
                            Vec::new()
                        }
                        TableKind::View => continue,
                    };
                    let branches = std::iter::once(None).chain(branches.into_iter().map(Some));
                    units.extend(branches.map(|branch| Unit { table: table.id, branch }));
                }
            }
            self.known().retain(|id, _| units.iter().any(|unit| unit.table == *id));
            Ok(units)
        })
    }

    fn see<'a>(&'a self, unit: &'a Unit, known: Option<&'a Seen>) -> BoxFuture<'a, Result<Option<Seen>>> {
        Box::pin(async move {
            let Some(record) = self.record(unit.table) else { return Ok(None) };
            if record.kind == TableKind::MaterializedView {
                return views::see(&self.engine, &record).await;
            }
            let (location, database) = (record.location, record.name.database);
            let (store, branch) = (self.engine.store().clone(), unit.branch.clone());
            let known_version = known.map(|known| known.version);
            let looked = self.engine.runtime().run(async move {
                let Some(dataset) = head(&store, &location, branch.as_deref()).await? else { return Ok(None) };
                let version = dataset.version_id();
                if known_version == Some(version) {
                    return Ok(Some((version, false, Vec::new())));
                }
                let declared = status::declared(&dataset)?;
                let has_mem_wal = !declared.is_empty() && status::has_mem_wal(&dataset).await?;
                Ok(Some((version, has_mem_wal, declared)))
            });
            let Some((version, has_mem_wal, declared)) = looked.await? else { return Ok(None) };
            if let Some(known) = known.filter(|known| known.version == version) {
                return Ok(Some(known.clone()));
            }
            let mut bindings = Vec::with_capacity(declared.len());
            for declared in &declared {
                bindings.push(binding(&self.engine, &database, unit, declared).await?);
            }
            Ok(Some(Seen { version, has_mem_wal, bindings, basis: Vec::new() }))
        })
    }

    fn due<'a>(&'a self, unit: &'a Unit, binding: &'a Binding) -> BoxFuture<'a, Result<Due>> {
        Box::pin(async move {
            let Some(record) = self.record(unit.table) else { return Ok(Due::Nothing) };
            let Target::Column { field_id, .. } = binding.target else {
                return views::due(&self.engine, &record).await;
            };
            let failed = failed_rows(&self.engine, unit, field_id).await?;
            let (store, location, branch) = (self.engine.store().clone(), record.location, unit.branch.clone());
            let work = self.engine.runtime().run(async move {
                let Some(dataset) = head(&store, &location, branch.as_deref()).await? else { return Ok(Work::Nothing) };
                let Some(name) = nested::path_of(dataset.schema(), field_id) else { return Ok(Work::Nothing) };
                Ok(status::work(&Snapshot::of(dataset, &name)?, &failed).await?)
            });
            Ok(match work.await? {
                Work::Nothing => Due::Nothing,
                Work::Rows => Due::Rows,
                Work::InputsFirst => Due::Inputs,
            })
        })
    }

    fn submit<'a>(&'a self, unit: &'a Unit, binding: &'a Binding, now: Timestamp) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let Some(table) = self.engine.catalog().table_by_id(unit.table).await? else { return Ok(()) };
            let owner = owner_of(&self.engine, &table).await?;
            let job = match &binding.target {
                Target::Column { name, field_id } => self.column_job(&table, unit, name, *field_id, &owner).await?,
                Target::View => Some(views::job(&table, &owner)),
            };
            let Some(job) = job else { return Ok(()) };
            match self.engine.catalog().submit(NewJob { automatic: true, ..job }, now).await {
                Ok(job) => {
                    tracing::info!(job_id = %job.id, table = %table.name, target = %binding.target, "automatic refresh")
                }
                // Somebody else was first; or the table has gone.
                Err(CatalogError::Busy { .. } | CatalogError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(())
        })
    }
}

impl Tables {
    /// Returns the job of a column; `None` if the name, or the column, stands for something else since the look, which
    /// the next one sees.
    async fn column_job(
        &self,
        table: &Table,
        unit: &Unit,
        column: &str,
        field_id: i32,
        owner: &UserName,
    ) -> Result<Option<NewJob>> {
        let principal = self.engine.principal(owner.clone()).await?;
        let settings = Settings::for_user(owner.as_str(), false);
        let (session, _) = Session::new(0, principal, table.name.database.clone(), settings);
        let statement = Statement::RefreshColumn(statement(&table.name, unit, column));
        let Plan::RefreshColumn(plan) = self.engine.plan(&session, &statement, "", &[]).await? else {
            return Err(SqlError::internal("REFRESH COLUMN was planned as something else"));
        };
        if plan.table.record.id != unit.table || plan.column.field_id != field_id {
            return Ok(None);
        }
        new_job(&plan, owner.as_str()).map(Some)
    }
}

fn statement(table: &TableName, unit: &Unit, column: &str) -> RefreshColumn {
    let path = FieldPath::from_parts(nested::parts(column));
    RefreshColumn {
        column: path.unwrap_or_else(|| FieldPath::column(column.to_owned())),
        table: ObjectName {
            database: Some(table.database.clone()),
            schema: Some(schema_of(&table.namespace)),
            name: table.name.clone(),
        },
        filter: None,
        options: RefreshOptions { branch: unit.branch.clone(), ..RefreshOptions::default() },
        wait: None,
    }
}

/// Returns with whose rights the columns of a table, or a view, are refreshed: those of its owner, or, where a role owns it, of
/// whoever made it.
async fn owner_of(engine: &Engine, table: &Table) -> Result<UserName> {
    let grants = engine.catalog().grants().await?;
    match grants.owner_of(&object_of(table)) {
        Some(Subject::User(user)) => Ok(user.clone()),
        _ => UserName::parse(&table.owner)
            .map_err(|error| SqlError::internal(format!("owner \"{}\" of a table: {error}", table.owner))),
    }
}

/// Returns what is declared of a column, as the scheduler sees it.
///
/// # Errors
/// If the metadata store cannot be read.
pub(crate) async fn binding(engine: &Engine, database: &str, unit: &Unit, declared: &Declared) -> Result<Binding> {
    let (column, outputs) = (&declared.snapshot.column, declared.snapshot.outputs());
    let key = |field_id| binding_key(unit.table, unit.branch.as_deref(), field_id);
    let enabled = || outputs.iter().filter(|output| output.auto_refresh_enabled);
    let intervals = enabled().map(|output| output.auto_refresh_interval_seconds.map(Duration::from_secs));
    Ok(Binding {
        key: key(column.field_id),
        target: Target::Column { name: column.name.clone(), field_id: column.field_id },
        revision: is_known(engine, database, column).await?.then(|| status::revision(&declared.snapshot)),
        enabled: enabled().next().is_some(),
        // Those that set none are refreshed with the others.
        interval: intervals.flatten().min(),
        inputs: declared.inputs.iter().map(|id| key(*id)).collect(),
    })
}

/// Whether what fills a column is known here.
async fn is_known(engine: &Engine, database: &str, column: &ComputedColumn) -> Result<bool> {
    match (&column.function, column.kind) {
        (None, ComputedKind::Expression) => Ok(true),
        (None, ComputedKind::Function) => Ok(false),
        (Some(call), _) => {
            let (database, namespace, name) = (database.to_owned(), call.namespace.clone(), call.name.clone());
            let name = TableName { database, namespace, name };
            Ok(engine.catalog().function(&name, Some(call.version)).await?.is_some())
        }
    }
}

/// Returns the rows of a column that its Function failed on.
///
/// # Errors
/// If the metadata store cannot be read.
pub(crate) async fn failed_rows(engine: &Engine, unit: &Unit, field_id: i32) -> Result<FailedRows> {
    let mut failed = FailedRows::default();
    for place in engine.catalog().failed_places(unit.table, unit.branch.as_deref(), field_id).await? {
        if let (Some(id), Some(offset)) = (place.row_id, place.offsets.min()) {
            failed.ids.insert((place.fragment_id, offset), id);
        }
        *failed.places.entry(place.fragment_id).or_default() |= place.offsets;
    }
    Ok(failed)
}
