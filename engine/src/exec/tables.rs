//! Runs CREATE TABLE, CREATE TABLE AS and DROP TABLE.
//!
//! The files come before the name and go after it: a crash in between leaves a
//! folder that no name points to, never a name without a table. A folder that has
//! no name yet, or is about to lose it, is marked, so that it is not adopted as a new
//! table and the next start deletes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::{Schema, SchemaRef};
use chrono::Utc;
use datafusion::common::ScalarValue;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};
use lance::Dataset;
use lance::dataset::{InsertBuilder, WriteMode, WriteParams};
use lance_file::version::LanceFileVersion;
use lancegate_auth::{Grant, Object, Principal, Privilege, Subject};
use lancegate_catalog::{CancelOutcome, Job, JobId, NewJob, ObjectChange, Table, TableId, TableKind, TableName};
use tokio_util::sync::CancellationToken;

use crate::error::{Result, SqlError};
use crate::exec::places::Place;
use crate::exec::turns::Closed;
use crate::exec::{Engine, Outcome, adopt, dml, query, temp};
use crate::failpoint::reach;
use crate::refresh::expression;
use crate::session::temp::is_temporary;
use crate::session::{NoticeSeverity, Session, StatementContext, TransactionStatus};
use crate::sql::plan::dependents::described;
use crate::sql::plan::{CreateTableAsPlan, CreateTablePlan, DropTablePlan};
use crate::sql::resolve::{BoundTable, no_database, object_of, schema_of};
use crate::sqlstate::SqlState;
use crate::storage::computed::{self, Declaration};
use crate::storage::{StorageError, durable, provider};

/// How often the files of a dropped table are tried to be deleted.
const REMOVALS_MAX: u32 = 3;

/// Runs CREATE TABLE.
pub(super) async fn create(engine: &Engine, session: &mut Session, plan: &CreateTablePlan) -> Result<Outcome> {
    if let Some(on_commit) = plan.temporary {
        if !temp::exists(session, &plan.name.name, plan.if_not_exists)? {
            let location = temp::location();
            write_empty(engine, &location, &plan.schema).await?;
            let record = record(&plan.name, location, &session.principal);
            temp::name_it(engine, session, record, on_commit).await?;
            notify_key(session, &plan.name.name, &plan.primary_key);
        }
        return Ok(Outcome::Done("CREATE TABLE".to_owned()));
    }
    if exists(engine, session, &plan.name, plan.if_not_exists).await? {
        return Ok(Outcome::Done("CREATE TABLE".to_owned()));
    }
    let place = free_location(engine, &plan.name).await?;
    let location = place.location().to_owned();
    let mut dataset = write_empty(engine, &location, &plan.schema).await?;
    durable::sync_commit(&dataset, None).await?;
    for (name, text) in &plan.generated {
        let declaration = declaration(&dataset, name, text)?;
        let changed = computed::declare(&dataset, &[declaration]).await?;
        durable::sync_commit(&changed, Some(&dataset)).await?;
        dataset = changed;
    }
    reach("create.written").await?;
    let record = record(&plan.name, location, &session.principal);
    let begins = sequences(&dataset, plan, record.id);
    name_with(engine, session, record, place, begins).await?;
    notify_key(session, &plan.name.name, &plan.primary_key);
    Ok(Outcome::Done("CREATE TABLE".to_owned()))
}

/// Returns what the sequences of a new table begin with.
fn sequences(dataset: &Dataset, plan: &CreateTablePlan, table: TableId) -> Vec<ObjectChange> {
    let field = |column: &str| dataset.schema().fields.iter().find(|field| field.name == *column);
    let begins = plan.sequences.iter().filter_map(|(column, next)| {
        let field = field(column)?.id;
        Some(ObjectChange::SetSequence { table, field, next: *next })
    });
    begins.collect()
}

/// Says what a primary key is here.
pub(super) fn notify_key(session: &Session, table: &str, columns: &[String]) {
    if !columns.is_empty() {
        let message = format!("the primary key of table \"{table}\" is recorded and not enforced");
        let notice = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message)
            .detail("Its columns take no NULL. Nothing keeps a key from being there twice.")
            .hint("INSERT … ON CONFLICT and MERGE look for a key before they add it.");
        session.notify(NoticeSeverity::Notice, notice);
    }
}

/// Runs CREATE TABLE AS: the name appears when all rows are there.
pub(super) async fn create_as(
    engine: &Engine,
    session: &mut Session,
    plan: &CreateTableAsPlan,
    parameters: Vec<ScalarValue>,
    ctx: &StatementContext,
) -> Result<Outcome> {
    let taken = match plan.temporary {
        Some(_) => temp::exists(session, &plan.name.name, plan.if_not_exists)?,
        None => exists(engine, session, &plan.name, plan.if_not_exists).await?,
    };
    if taken {
        return Ok(Outcome::Done("CREATE TABLE AS".to_owned()));
    }
    let place = match plan.temporary {
        Some(_) => None,
        None => Some(free_location(engine, &plan.name).await?),
    };
    let location = place.as_ref().map_or_else(temp::location, |place| place.location().to_owned());
    let dataset = write_empty(engine, &location, &plan.schema).await?;
    durable::sync_commit(&dataset, None).await?;
    let record = record(&plan.name, location.clone(), &session.principal);
    let table = BoundTable { record, dataset: Arc::new(dataset) };
    let tag = if plan.with_data {
        let rows = query::rows(engine, &plan.source, parameters, ctx).await?;
        let rows = renamed(rows, &plan.schema);
        match dml::append_first(engine, &table, rows).await {
            Ok(count) => format!("SELECT {count}"),
            Err(error) => {
                remove(engine, &location).await;
                return Err(error);
            }
        }
    } else {
        "CREATE TABLE AS".to_owned()
    };
    match (plan.temporary, place) {
        (Some(on_commit), _) => temp::name_it(engine, session, table.record, on_commit).await?,
        (None, Some(place)) => name_with(engine, session, table.record, place, Vec::new()).await?,
        (None, None) => return Err(SqlError::internal("a table has no place")),
    }
    Ok(Outcome::Done(tag))
}

/// Makes a table with the rows that come: its name appears when all are there.
/// Returns how many, and its version.
///
/// # Errors
/// 42P07, and what the rows and the storage raise; no table is left then.
pub(super) async fn create_with(
    engine: &Engine,
    session: &mut Session,
    name: &TableName,
    rows: SendableRecordBatchStream,
) -> Result<(u64, u64)> {
    exists(engine, session, name, false).await?;
    let place = free_location(engine, name).await?;
    let location = place.location().to_owned();
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let schema = rows.schema();
    let rows = rows.inspect_ok(move |batch| {
        counted.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
    });
    let written = write_table(engine, &location, Box::pin(RecordBatchStreamAdapter::new(schema, rows))).await;
    let dataset = match written {
        Ok(dataset) => dataset,
        Err(error) => {
            remove(engine, &location).await;
            return Err(error);
        }
    };
    // Nobody sees the table before it has its name, so it may be flushed after its commit.
    durable::sync_commit(&dataset, None).await?;
    let record = record(name, location, &session.principal);
    name_with(engine, session, record, place, Vec::new()).await?;
    Ok((count.load(Ordering::Relaxed), dataset.version_id()))
}

/// Runs DROP TABLE: all names go together, then the files.
pub(super) async fn drop(engine: &Engine, session: &mut Session, plan: &DropTablePlan) -> Result<Outcome> {
    for name in &plan.missing {
        let message = format!("table \"{name}\" does not exist, skipping");
        session.notify(NoticeSeverity::Notice, SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
    }
    let (temporary, lasting): (Vec<&Table>, Vec<&Table>) =
        plan.tables.iter().partition(|table| is_temporary(&table.name.namespace));
    let lasting: Vec<Table> = lasting.into_iter().cloned().collect();
    drop_with(engine, session, &lasting, &plan.cascaded).await?;
    temp::drop(engine, session, &temporary).await;
    Ok(Outcome::Done("DROP TABLE".to_owned()))
}

/// Removes relations, and what goes with them.
///
/// # Errors
/// As [`drop_tables`].
pub(super) async fn drop_with(
    engine: &Engine,
    session: &mut Session,
    named: &[Table],
    cascaded: &[Table],
) -> Result<()> {
    let all: Vec<Table> = named.iter().chain(cascaded).cloned().collect();
    if session.transaction == TransactionStatus::Idle {
        drop_tables(engine, session.principal.user.as_str(), &all).await?;
    } else {
        engine.change_names(session, removal(&all)).await?;
    }
    notify_cascade(session, cascaded);
    Ok(())
}

/// Says what went with what was named, as PostgreSQL does.
fn notify_cascade(session: &Session, cascaded: &[Table]) {
    let notice = match cascaded {
        [] => return,
        [only] => SqlError::new(SqlState::SUCCESSFUL_COMPLETION, format!("drop cascades to {}", described(only))),
        all => {
            let lines: Vec<String> = all.iter().map(|view| format!("drop cascades to {}", described(view))).collect();
            let message = format!("drop cascades to {} other objects", all.len());
            SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message).detail(lines.join("\n"))
        }
    };
    session.notify(NoticeSeverity::Notice, notice);
}

/// Removes tables: jobs are cancelled, names taken away, files deleted.
///
/// # Errors
/// As [`name_changes`].
pub(super) async fn drop_tables(engine: &Engine, by: &str, tables: &[Table]) -> Result<()> {
    let closed = close_all(engine, tables).await?;
    let dropped = name_changes(engine, by, (removal(tables), Vec::new()), tables, closed).await?;
    delete_dropped(engine, dropped).await;
    Ok(())
}

fn removal(tables: &[Table]) -> Vec<ObjectChange> {
    tables.iter().map(|table| ObjectChange::DropTable { id: table.id }).collect()
}

/// Tables that have lost their names and still have files.
#[derive(Debug)]
pub(super) struct Dropped {
    tables: Vec<Table>,
    /// Nobody makes another table there.
    places: Vec<Option<Place>>,
    /// Jobs of theirs that were asked to end.
    running: Vec<JobId>,
}

/// Makes changes of names, which take those of `tables` away, and submits jobs, all at once.
///
/// # Errors
/// 42P01 for a table that is gone already; what the metadata store answers.
pub(super) async fn name_changes(
    engine: &Engine,
    by: &str,
    (changes, submitted): (Vec<ObjectChange>, Vec<NewJob>),
    tables: &[Table],
    closed: Vec<Closed>,
) -> Result<Dropped> {
    // A view has no files.
    let with_files: Vec<Table> = tables.iter().filter(|table| !table.location.is_empty()).cloned().collect();
    let places: Vec<Option<Place>> = with_files.iter().map(|table| engine.places().take(&table.location)).collect();
    for table in &with_files {
        adopt::mark_dropped(engine, &table.location).await;
    }
    reach("names.marked").await?;
    let jobs = engine.catalog().apply_with_jobs(changes, submitted, by, crate::clock::now()).await?;
    // Whoever comes to commit from here on finds no table.
    std::mem::drop(closed);
    engine.forget_altered(tables);
    let running = jobs.into_iter().filter(|(_, outcome)| *outcome == CancelOutcome::Requested).map(|(id, _)| id);
    Ok(Dropped { tables: with_files, places, running: running.collect() })
}

/// Ends the jobs of tables without a name, and deletes their files. Files that stay are removed at the next start.
pub(super) async fn delete_dropped(engine: &Engine, dropped: Dropped) {
    if let Err(error) = reach("drop.named").await {
        return tracing::warn!(%error, "files of dropped tables stay until the next start");
    }
    let Dropped { tables, places, running } = dropped;
    // An attempt that goes on to write would make the folder anew.
    let ended = futures::future::join_all(running.iter().map(|id| engine.jobs().wait_shortly(*id))).await;
    for table in &tables {
        remove(engine, &table.location).await;
    }
    std::mem::drop(places);
    let late: Vec<JobId> = running.into_iter().zip(ended).filter(|(_, ended)| !ended).map(|(id, _)| id).collect();
    if !late.is_empty() {
        mark_leavings(engine, tables, late);
    }
}

/// Waits for those who commit to the tables and keeps others from it, in an order in which
/// two who drop the same tables do not wait for each other.
///
/// # Errors
/// 42P01 for one that is gone.
pub(super) async fn close_all(engine: &Engine, tables: &[Table]) -> Result<Vec<Closed>> {
    let mut ids: Vec<TableId> = tables.iter().map(|table| table.id).collect();
    ids.sort_by_key(ToString::to_string);
    ids.dedup();
    let mut closed = Vec::with_capacity(ids.len());
    for id in ids {
        closed.push(engine.close(id).await);
    }
    for table in tables {
        engine.ensure_there(table).await?;
    }
    Ok(closed)
}

/// Marks what jobs that were busy for longer than the statement waited have
/// written since, once they have ended.
fn mark_leavings(engine: &Engine, tables: Vec<Table>, jobs: Vec<JobId>) {
    let engine = engine.clone();
    tokio::spawn(async move {
        let never = CancellationToken::new();
        for job in jobs {
            if let Err(error) = engine.jobs().wait_until(job, &never).await {
                tracing::warn!(%job, %error, "cannot wait for a job of a dropped table");
            }
        }
        for table in tables {
            adopt::mark_leavings(&engine, &table).await;
        }
    });
}

/// Returns whether the name is taken and that is fine.
///
/// # Errors
/// 42P07 if it is not.
pub(super) async fn exists(engine: &Engine, session: &Session, name: &TableName, if_not_exists: bool) -> Result<bool> {
    let taken = match session.names.table(engine.catalog(), name).await? {
        Some(_) => true,
        None => !session.names.hides(name) && adopt::one(engine, name).await?.is_some(),
    };
    let message = format!("relation \"{}\" already exists", name.name);
    match (taken, if_not_exists) {
        (false, _) => Ok(false),
        (true, false) => Err(SqlError::new(SqlState::DUPLICATE_TABLE, message)),
        (true, true) => {
            let notice = SqlError::new(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
            session.notify(NoticeSeverity::Notice, notice);
            Ok(true)
        }
    }
}

/// Takes `<name>.lance` below the database if nothing is there, and no job of a dropped
/// table that was there goes on; otherwise a name that nothing else can have. The folder is
/// marked until the table has its name, so that nobody adopts it and a crash leaves nothing.
pub(super) async fn free_location(engine: &Engine, name: &TableName) -> Result<Place> {
    let database = engine.catalog().database(&name.database).await?.ok_or_else(|| no_database(&name.database))?;
    let mut file = name.name.clone();
    if !name.namespace.is_empty() {
        file = format!("{}${file}", schema_of(&name.namespace));
    }
    let wanted = adopt::below(&database.location, &format!("{file}.lance"));
    let written = |job: &Job| job.spec.get("location").and_then(|location| location.as_str()) == Some(wanted.as_str());
    let place = match engine.places().take(&wanted) {
        Some(place)
            if !adopt::occupied(engine, &wanted).await?
                && !engine.catalog().active_jobs().await?.iter().any(written) =>
        {
            place
        }
        _ => {
            let unique = adopt::below(&database.location, &adopt::unique(&file));
            engine.places().take(&unique).ok_or_else(|| SqlError::internal("a unique place is taken"))?
        }
    };
    adopt::mark_dropped(engine, place.location()).await;
    Ok(place)
}

pub(super) async fn write_empty(engine: &Engine, location: &str, schema: &Schema) -> Result<Dataset> {
    let schema: SchemaRef = Arc::new(schema.clone());
    let nothing = RecordBatchStreamAdapter::new(schema, futures::stream::empty());
    write_table(engine, location, Box::pin(nothing)).await
}

/// Writes a new table, one version with all rows.
async fn write_table(engine: &Engine, location: &str, rows: SendableRecordBatchStream) -> Result<Dataset> {
    let uri = engine.store().uri(location);
    let handler = engine.store().commit_handler(&uri).await?;
    let params = WriteParams {
        mode: WriteMode::Create,
        enable_stable_row_ids: true,
        data_storage_version: Some(LanceFileVersion::V2_1),
        session: Some(engine.store().session()),
        commit_handler: Some(handler),
        ..WriteParams::default()
    };
    let created = engine.runtime().run_to_end(async move {
        let written = InsertBuilder::new(uri.as_str()).with_params(&params).execute_stream(rows).await;
        Ok(written.map_err(StorageError::from)?)
    });
    created.await
}

fn declaration(dataset: &Dataset, name: &str, text: &str) -> Result<Declaration> {
    let analyzed = expression::analyze(text, &provider::visible_schema(dataset))?;
    Ok(Declaration {
        name: name.to_owned(),
        data_type: crate::sql::types::stored(&analyzed.data_type),
        expression: text.to_owned(),
        function: None,
        inputs: analyzed.inputs,
        auto_refresh_enabled: None,
        auto_refresh_interval_seconds: None,
    })
}

/// Makes a table visible under its name, owned by its creator, and begins its sequences; in a
/// block for the session alone. Without a name its files go.
///
/// # Errors
/// 42P07 if the name was taken meanwhile.
async fn name_with(
    engine: &Engine,
    session: &Session,
    record: Table,
    place: Place,
    begins: Vec<ObjectChange>,
) -> Result<()> {
    if session.transaction == TransactionStatus::Idle {
        return name_record(engine, &session.principal, record, begins).await;
    }
    let changes = vec![ObjectChange::CreateTable(record.clone()), ownership(&session.principal, object_of(&record))];
    engine.name_in_block(session, record, place, changes).await?;
    // Numbers are drawn in the block, and nobody else knows the table that they are of.
    Ok(engine.catalog().apply(begins).await?)
}

/// Makes a relation visible at once, owned by its creator, with more changes of the metadata
/// store. Without a name its files go.
///
/// # Errors
/// 42P07 if the name was taken meanwhile.
pub(super) async fn name_record(
    engine: &Engine,
    principal: &Principal,
    record: Table,
    more: Vec<ObjectChange>,
) -> Result<()> {
    let location = record.location.clone();
    let object = object_of(&record);
    let changes = [vec![ObjectChange::CreateTable(record), ownership(principal, object)], more].concat();
    let named = engine.catalog().apply(changes).await;
    if let Err(error) = named {
        remove(engine, &location).await;
        return Err(error.into());
    }
    if let Err(error) = adopt::unmark(engine, &location).await {
        tracing::warn!(%error, location, "a table keeps the mark of one without a name until the next start");
    }
    Ok(())
}

/// Returns the change that makes the caller the owner of an object.
pub(super) fn ownership(principal: &Principal, object: Object) -> ObjectChange {
    let subject = Subject::User(principal.user.clone());
    ObjectChange::Grant(Grant { subject, privilege: Privilege::Ownership, object })
}

fn record(name: &TableName, location: String, principal: &Principal) -> Table {
    let now = Utc::now();
    Table {
        id: TableId::new(now),
        kind: TableKind::Table,
        name: name.clone(),
        location,
        definition: None,
        comment: None,
        owner: principal.user.as_str().to_owned(),
        created_at: now,
    }
}

/// Deletes the files of a table that has no name; what cannot be deleted is
/// found again at the next start.
pub(super) async fn remove(engine: &Engine, location: &str) {
    engine.store().forget(location);
    for _ in 1..REMOVALS_MAX {
        // A statement that has not noticed yet may write in between.
        if adopt::delete_files(engine, location).await.is_ok() {
            return;
        }
    }
    if let Err(error) = adopt::delete_files(engine, location).await {
        tracing::warn!(%error, location, "the files of a dropped table could not be deleted");
        adopt::mark_dropped(engine, location).await;
    }
}

fn renamed(rows: SendableRecordBatchStream, schema: &Schema) -> SendableRecordBatchStream {
    let fields: Vec<_> = rows
        .schema()
        .fields()
        .iter()
        .zip(schema.fields())
        .map(|(given, wanted)| given.as_ref().clone().with_name(wanted.name()).with_nullable(true))
        .collect();
    let output = Arc::new(Schema::new(fields));
    let schema = Arc::clone(&output);
    let stream = rows.map(move |batch| {
        let batch = batch?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns().to_vec();
        Ok(arrow::array::RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?)
    });
    Box::pin(RecordBatchStreamAdapter::new(output, stream))
}
