//! Runs INSERT, UPDATE, DELETE and TRUNCATE.
//!
//! A change is computed first and can be cancelled then; its commit cannot. One
//! that loses a race is computed again at the newer version of the table.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use lance::Dataset;
use lance::dataset::transaction::Operation;
use lance::dataset::{CommitBuilder, InsertBuilder, WriteMode, WriteParams};
use lancegate_wire::types::PG_TYPE_KEY;

use crate::error::{Result, SqlError};
use crate::exec::numbers::{Latest, Numbers};
use crate::exec::returning::{self, Keeper};
use crate::exec::turns::{self, Committer};
use crate::exec::{Engine, Outcome, computed_fields, query, rewrite_rows, session};
use crate::session::{Session, StatementContext};
use crate::sql::caller::Caller;
use crate::sql::functions::json;
use crate::sql::plan::query::QueryPlan;
use crate::sql::plan::{DeletePlan, InsertPlan, TruncatePlan, UpdatePlan};
use crate::sql::resolve::BoundTable;
use crate::sqlstate::SqlState;
use crate::storage::{StorageError, durable};

/// The key of a field's metadata that names what its values are.
const EXTENSION: &str = "ARROW:extension:name";
/// How often a change is computed anew before it gives up.
pub(super) const ATTEMPTS_MAX: u32 = 10;

/// Runs INSERT: one append, however many rows.
pub(super) async fn insert(
    engine: &Engine,
    session: &mut Session,
    plan: &InsertPlan,
    parameters: Vec<ScalarValue>,
    ctx: &StatementContext,
) -> Result<Outcome> {
    let rows = query::rows(engine, &plan.source, parameters, ctx).await?;
    let keeper = Keeper::of(engine, plan.returning.as_ref());
    let keeping = (keeper.clone(), Some(&session.numbers));
    let committer = Committer::new(engine, &plan.table.record);
    let (count, version) = append_kept(&committer, &plan.table, rows, keeping).await?;
    session::committed(session, &plan.table, Some(version));
    returning::answer(keeper, engine, format!("INSERT 0 {count}"), ctx).await
}

/// Appends rows to a table that has no name yet and returns how many.
///
/// # Errors
/// As [`append_at`].
pub(super) async fn append_first(engine: &Engine, table: &BoundTable, rows: SendableRecordBatchStream) -> Result<u64> {
    let committer = Committer::unnamed(engine, &table.record);
    append_kept(&committer, table, rows, (None, None)).await.map(|(count, _)| count)
}

/// Appends rows to a table in one commit and returns how many, and the version that has them.
///
/// # Errors
/// 23502, and what the rows and the storage raise; nothing is visible then.
pub(crate) async fn append_at(
    engine: &Engine,
    table: &BoundTable,
    rows: SendableRecordBatchStream,
) -> Result<(u64, u64)> {
    append_kept(&Committer::new(engine, &table.record), table, rows, (None, None)).await
}

async fn append_kept(
    committer: &Committer,
    table: &BoundTable,
    rows: SendableRecordBatchStream,
    (keeper, latest): (Option<Keeper>, Option<&Arc<Latest>>),
) -> Result<(u64, u64)> {
    let engine = committer.engine();
    let rows = match Numbers::of(engine, table, latest)? {
        Some(numbers) => numbers.stream(rows),
        None => rows,
    };
    let stored = Schema::from(table.dataset.schema());
    let written = written_schema(&stored, &rows.schema())?;
    let counter = Arc::new(AtomicU64::new(0));
    let rows = checked(rows, (table.name(), written), Arc::clone(&counter), keeper);
    let dataset = Arc::clone(&table.dataset);
    let transaction = engine
        .runtime()
        .run(async move {
            let params = WriteParams { mode: WriteMode::Append, ..WriteParams::default() };
            let builder = InsertBuilder::new(dataset).with_params(&params);
            Ok(builder.execute_uncommitted_stream(rows).await.map_err(StorageError::from)?)
        })
        .await?;
    let count = counter.load(Ordering::Relaxed);
    let dataset = Arc::clone(&table.dataset);
    let share = committer.enter(&dataset).await?;
    let version = engine
        .runtime()
        .run_to_end(async move {
            let _share = share;
            if let Operation::Append { fragments } = &transaction.operation {
                durable::sync_fragments(&dataset, fragments, &[]).await?;
            }
            let committed = CommitBuilder::new(Arc::clone(&dataset)).execute(transaction).await;
            let committed = committed.map_err(StorageError::from)?;
            durable::sync_commit(&committed, Some(&dataset)).await?;
            Ok(committed.version_id())
        })
        .await?;
    Ok((count, version))
}

/// Runs UPDATE.
pub(super) async fn update(
    engine: &Engine,
    session: &mut Session,
    plan: &UpdatePlan,
    parameters: Vec<ScalarValue>,
    ctx: &StatementContext,
) -> Result<Outcome> {
    ensure_told_apart(session, &plan.table)?;
    let keeper = Keeper::of(engine, plan.returning.as_ref());
    if plan.assigned.is_empty() {
        return returning::answer(keeper, engine, "UPDATE 0".to_owned(), ctx).await;
    }
    let numbers = Numbers::of(engine, &plan.table, Some(&session.numbers))?.and_then(|all| all.only(&plan.drawn));
    let mut bound = plan.rows.clone();
    // The commit must be based on the very version that the rows were read at.
    let mut dataset = version_of(&bound)?;
    for attempt in 1..=ATTEMPTS_MAX {
        let rows = query::rows(engine, &bound, parameters.clone(), ctx).await?;
        let (pinned, assigned) = (Arc::clone(&dataset), plan.assigned.clone());
        let rows = match &numbers {
            Some(numbers) => numbers.clone().stream(rows),
            None => rows,
        };
        let (name, keeping) = (plan.table.name().to_owned(), keeper.clone());
        let committer = Committer::new(engine, &plan.table.record);
        let changing =
            async move { rewrite_rows::replace((&committer, pinned), (&name, keeping), rows, &assigned).await };
        let changed = engine.runtime().run_to_end(changing).await;
        match changed {
            Ok(changed) => {
                session::committed(session, &plan.table, changed.version);
                return returning::answer(keeper, engine, format!("UPDATE {}", changed.rows), ctx).await;
            }
            Err(error) if lost_race(&error) && attempt < ATTEMPTS_MAX => {
                keeper.iter().for_each(Keeper::reset);
                (dataset, bound) = again(engine, &plan.table, &plan.rebind, attempt, &error).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Err(gave_up())
}

/// Runs DELETE.
pub(super) async fn delete(
    engine: &Engine,
    session: &mut Session,
    plan: &DeletePlan,
    parameters: Vec<ScalarValue>,
    ctx: &StatementContext,
) -> Result<Outcome> {
    ensure_told_apart(session, &plan.table)?;
    let Some((rows, rebind)) = &plan.rows else {
        let is_pinned = Caller::of(session).repeats_reads();
        let changed = match delete_all(engine, &plan.table, if is_pinned { 1 } else { ATTEMPTS_MAX }).await {
            Err(error) if is_pinned && lost_race(&error) => return Err(changed_since()),
            changed => changed?,
        };
        session::committed(session, &plan.table, changed.version);
        return Ok(Outcome::Done(format!("DELETE {}", changed.rows)));
    };
    let keeper = Keeper::of(engine, plan.returning.as_ref());
    let mut bound = rows.clone();
    // The commit must be based on the very version that the rows were read at.
    let mut dataset = version_of(&bound)?;
    for attempt in 1..=ATTEMPTS_MAX {
        let rows = query::rows(engine, &bound, parameters.clone(), ctx).await?;
        let (pinned, keeping) = (Arc::clone(&dataset), keeper.clone());
        let committer = Committer::new(engine, &plan.table.record);
        let changing = async move { rewrite_rows::delete((&committer, pinned), rows, keeping).await };
        let changed = engine.runtime().run_to_end(changing).await;
        match changed {
            Ok(changed) => {
                session::committed(session, &plan.table, changed.version);
                return returning::answer(keeper, engine, format!("DELETE {}", changed.rows), ctx).await;
            }
            Err(error) if lost_race(&error) && attempt < ATTEMPTS_MAX => {
                keeper.iter().for_each(Keeper::reset);
                (dataset, bound) = again(engine, &plan.table, rebind, attempt, &error).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Err(gave_up())
}

/// Runs TRUNCATE, one table after the other.
pub(super) async fn truncate(
    engine: &Engine,
    session: &mut Session,
    plan: &TruncatePlan,
    ctx: &StatementContext,
) -> Result<Outcome> {
    for table in &plan.tables {
        if ctx.cancel.is_cancelled() {
            return Err(ctx.error());
        }
        delete_all(engine, table, ATTEMPTS_MAX).await?;
        session::altered(session, table);
    }
    Ok(Outcome::Done("TRUNCATE TABLE".to_owned()))
}

/// Deletes all rows; a lost race is run again at a newer version, up to so many times.
pub(super) async fn delete_all(
    engine: &Engine,
    table: &BoundTable,
    attempts_max: u32,
) -> Result<rewrite_rows::Changed> {
    let mut dataset = Arc::clone(&table.dataset);
    for attempt in 1..=attempts_max {
        let (committer, pinned) = (Committer::new(engine, &table.record), Arc::clone(&dataset));
        let changing = async move { rewrite_rows::delete_all(&committer, pinned).await };
        let changed = engine.runtime().run_to_end(changing).await;
        match changed {
            Ok(changed) => return Ok(changed),
            Err(error) if lost_race(&error) && attempt < attempts_max => {
                dataset = newest(engine, table).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Err(gave_up())
}

/// Opens the newest version of a table, on the branch that it was bound on.
pub(super) async fn newest(engine: &Engine, table: &BoundTable) -> Result<Arc<Dataset>> {
    if table.dataset.manifest().branch.is_none() {
        return Ok(engine.store().open(&table.record.location).await?);
    }
    let mut head = table.dataset.as_ref().clone();
    head.checkout_latest().await.map_err(StorageError::from)?;
    Ok(Arc::new(head))
}

/// Binds a change again after a lost race.
///
/// # Errors
/// As the statement itself; 40001 if it would have to be planned anew.
pub(super) async fn again(
    engine: &Engine,
    table: &BoundTable,
    rebind: &crate::sql::plan::dml::Rebind,
    attempt: u32,
    error: &SqlError,
) -> Result<(Arc<Dataset>, QueryPlan)> {
    if rebind.is_pinned() {
        return Err(changed_since());
    }
    tracing::info!(attempt, %error, table = %table.record.name, "computing a change again at a newer version");
    tokio::time::sleep(std::time::Duration::from_millis(5) * attempt * attempt).await;
    let task = rebind.clone();
    let bound = engine.runtime().run(async move { task.bind().await }).await?;
    let dataset = version_of(&bound)?;
    // The rows consist of the columns that the statement was planned for.
    if !rebind.gives_rows_of(&Schema::from(dataset.schema())) {
        return Err(turns::altered());
    }
    Ok((dataset, bound))
}

pub(super) fn version_of(bound: &QueryPlan) -> Result<Arc<Dataset>> {
    bound.target.clone().ok_or_else(|| SqlError::internal("a change was bound without its table"))
}

pub(super) fn lost_race(error: &SqlError) -> bool {
    error.code == SqlState::SERIALIZATION_FAILURE
}

/// Refuses to change rows of a version in which the open block cannot tell the changes of others from its own.
///
/// # Errors
/// 40001.
pub(super) fn ensure_told_apart(session: &Session, table: &BoundTable) -> Result<()> {
    let key = (table.record.id, session.branch.clone());
    let mixed = Caller::of(session).repeats_reads() && session.pins.is_mixed(&key);
    if mixed { Err(changed_since()) } else { Ok(()) }
}

/// Returns the 40001 of a change of rows that others have changed since the block began.
fn changed_since() -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
        .hint("Run the transaction again.")
}

pub(super) fn gave_up() -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
        .hint("Run the statement again.")
}

/// Returns the fields that are written: those given, as the table stores them,
/// and those that must not be missing.
fn written_schema(stored: &Schema, given: &Schema) -> Result<SchemaRef> {
    let fields: Vec<Field> = given
        .fields()
        .iter()
        .map(|field| stored.field_with_name(field.name()).map(|stored| written(field, stored)).map_err(SqlError::from))
        .collect::<Result<_>>()?;
    let required =
        stored.fields().iter().find(|field| !field.is_nullable() && given.field_with_name(field.name()).is_err());
    match required {
        Some(field) => Err(null_in(field.name())),
        None => Ok(Arc::new(Schema::new(fields))),
    }
}

/// Returns the field that is handed to Lance. JSON that comes as text stays text and
/// is marked as JSON: Lance stores it in a form of its own.
pub(super) fn written(given: &Field, stored: &Field) -> Field {
    let text = matches!(given.data_type(), DataType::Utf8 | DataType::LargeUtf8);
    let json = stored.metadata().get(EXTENSION).is_some_and(|name| name == "lance.json");
    if !(text && json) {
        return stored.clone();
    }
    let mut metadata = stored.metadata().clone();
    metadata.insert(EXTENSION.to_owned(), "arrow.json".to_owned());
    Field::new(stored.name(), given.data_type().clone(), stored.is_nullable()).with_metadata(metadata)
}

fn checked(
    rows: SendableRecordBatchStream,
    (table, schema): (&str, SchemaRef),
    counter: Arc<AtomicU64>,
    keeper: Option<Keeper>,
) -> SendableRecordBatchStream {
    let table = table.to_owned();
    let output = Arc::clone(&schema);
    let stream = rows.map(move |batch| {
        let batch = batch?;
        counter.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        let external = |error| DataFusionError::External(Box::new(error));
        let batch = conform(&batch, &table, &schema).map_err(external)?;
        if let Some(keeper) = &keeper {
            keeper.keep(&batch).map_err(external)?;
        }
        Ok(batch)
    });
    Box::pin(RecordBatchStreamAdapter::new(output, stream))
}

fn conform(batch: &RecordBatch, table: &str, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(array, field)| {
        if array.data_type() == field.data_type() {
            return Ok(Arc::clone(array));
        }
        arrow::compute::cast(array, field.data_type()).map_err(SqlError::from)
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    ensure_taken(schema, &columns)?;
    for (field, column) in schema.fields().iter().zip(&columns) {
        computed_fields::ensure_none_given(table, field, column)?;
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// Refuses values that a column does not take: NULL, and text that is no JSON.
///
/// # Errors
/// 23502, 22P02.
pub(super) fn ensure_taken(schema: &Schema, columns: &[ArrayRef]) -> Result<()> {
    for (field, array) in schema.fields().iter().zip(columns) {
        if !field.is_nullable() && array.null_count() > 0 {
            return Err(null_in(field.name()));
        }
        let is_json = field.metadata().get(PG_TYPE_KEY).is_some_and(|name| name == "json");
        if let Some(texts) = array.as_string_opt::<i32>().filter(|_| is_json) {
            texts.iter().flatten().try_for_each(json::ensure)?;
        }
    }
    Ok(())
}

/// Returns the error for a NULL in a column that takes none.
pub(crate) fn null_in(column: &str) -> SqlError {
    SqlError::new(
        SqlState::NOT_NULL_VIOLATION,
        format!("null value in column \"{column}\" violates not-null constraint"),
    )
}
