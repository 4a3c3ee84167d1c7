//! Runs ALTER TABLE: each kind of change is one commit of the table. If one of a statement's
//! fails, the version before the first is brought back.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;
use futures::TryStreamExt;
use lance::Dataset;
use lance::dataset::{BatchUDF, ColumnAlteration, NewColumnTransform};
use lance_core::datatypes::format_field_path;
use lancegate_catalog::ObjectChange;

use crate::error::{Result, SqlError};
use crate::exec::refresh::binding_key;
use crate::exec::{Engine, Outcome, session, tables};
use crate::failpoint::reach;
use crate::session::{Session, StatementContext, TransactionStatus};
use crate::sql::plan::AlterTablePlan;
use crate::sql::plan::alter::typed::MetadataChange;
use crate::sql::plan::alter::{AlterAction, ColumnEdit};
use crate::sql::resolve::BoundTable;
use crate::sqlstate::SqlState;
use crate::storage::{StorageError, computed, defaults, durable, key, nested, versions};

/// The field metadata of automatic refresh.
const AUTO_ENABLED: &str = "computed_column.auto_refresh_enabled";
const AUTO_INTERVAL: &str = "computed_column.auto_refresh_interval_seconds";
/// What keys of metadata say; `None` takes one away.
type Entries = BTreeMap<String, Option<String>>;

/// Offers of one change while other commits come first.
const ATTEMPTS_MAX: u32 = 8;

/// Runs ALTER TABLE: all of its actions, or none. Nobody else commits rows meanwhile.
pub(super) async fn alter(
    engine: &Engine,
    session: &mut Session,
    plan: &AlterTablePlan,
    ctx: &StatementContext,
) -> Result<Outcome> {
    let Some(table) = &plan.table else {
        return Ok(Outcome::Done("ALTER TABLE".to_owned()));
    };
    let _closed = tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => return Err(ctx.error()),
        closed = engine.close(table.record.id) => closed,
    };
    engine.ensure_there(&table.record).await?;
    let before = engine.store().open(&table.record.location).await?;
    Box::pin(ensure_nulls_allow(engine, &before, &plan.actions)).await?;
    let mut done = Done { version: before.version_id(), changes: Vec::new() };
    let made = Box::pin(act(engine, session, plan, table, &mut done)).await;
    if let Err(error) = made {
        if done.version != before.version_id() {
            Box::pin(undo(engine, table, before.version_id(), &done)).await;
        }
        return Err(error);
    }
    for action in &plan.actions {
        if let AlterAction::SetPrimaryKey { columns } = action {
            tables::notify_key(session, table.name(), columns);
        }
        if let AlterAction::DropColumns(columns) = action {
            cancel_jobs(engine, session, table, &dropped_outputs(table, columns)?).await?;
        }
    }
    if plan.actions.iter().any(|action| !matches!(action, AlterAction::RenameTable(_))) {
        session::altered(session, table);
    }
    Ok(Outcome::Done("ALTER TABLE".to_owned()))
}

/// What the actions of a statement have come to.
struct Done {
    /// The version that the last of them has made.
    version: u64,
    /// What changes in the metadata store when all are through.
    changes: Vec<ObjectChange>,
}

/// Does one action after the other, and then what is of the metadata store.
async fn act(
    engine: &Engine,
    session: &mut Session,
    plan: &AlterTablePlan,
    table: &BoundTable,
    done: &mut Done,
) -> Result<()> {
    let id = table.record.id;
    for action in &plan.actions {
        if let AlterAction::RenameTable(to) = action {
            done.changes.push(ObjectChange::RenameTable { id, to: to.clone() });
            continue;
        }
        let (version, moved) = Box::pin(change_columns(engine, table, action)).await?;
        done.version = version;
        session.committed = Some(version);
        engine.note_altered(id, version);
        done.changes.extend(moved.into_iter().map(|(from, to)| ObjectChange::MoveSequence { table: id, from, to }));
        reach("alter.action").await?;
    }
    let (renamed, moved): (Vec<_>, Vec<_>) = std::mem::take(&mut done.changes)
        .into_iter()
        .partition(|change| matches!(change, ObjectChange::RenameTable { .. }));
    // A block may still change the name back; the columns are changed.
    let (now, later) = match session.transaction {
        TransactionStatus::Idle => ([moved, renamed].concat(), Vec::new()),
        TransactionStatus::InBlock | TransactionStatus::Failed => (moved, renamed),
    };
    if !now.is_empty() {
        engine.catalog().apply(now).await?;
    }
    if !later.is_empty() {
        engine.change_names(session, later).await?;
    }
    Ok(())
}

/// Brings back the version before a statement that has failed half-way. Only a refresh can
/// have committed since; its values are worth more than the statement's being whole.
async fn undo(engine: &Engine, table: &BoundTable, before: u64, done: &Done) {
    let undone = async {
        let newest = engine.store().open(&table.record.location).await?;
        if newest.version_id() != done.version {
            return Err(SqlError::from(StorageError::Conflict("another commit came in between".to_owned())));
        }
        let restoring = engine.runtime().run_to_end(async move { Ok(versions::restore(&newest, before).await?) });
        engine.note_altered(table.record.id, restoring.await?.version_id());
        Ok(())
    };
    if let Err(error) = undone.await {
        tracing::error!(%error, table = %table.record.name, before, "an ALTER TABLE has failed and stays half done");
    }
}

/// Looks for NULLs in the columns that are to take none, before anything is changed.
///
/// # Errors
/// 23502.
async fn ensure_nulls_allow(engine: &Engine, before: &Arc<Dataset>, actions: &[AlterAction]) -> Result<()> {
    let mut made: Vec<&str> = Vec::new();
    let mut required: Vec<String> = Vec::new();
    for action in actions {
        match action {
            AlterAction::AddColumns(fields) => made.extend(fields.iter().map(|field| field.name().as_str())),
            AlterAction::AddFilled { field, .. } => made.push(field.name()),
            AlterAction::RenameColumn { to, .. } => made.push(to),
            AlterAction::SetNotNull { column } => required.push(column.clone()),
            AlterAction::SetPrimaryKey { columns } => required.extend(columns.iter().cloned()),
            AlterAction::Declare(_)
            | AlterAction::DropColumns(_)
            | AlterAction::SetDefault { .. }
            | AlterAction::AlterColumns(_)
            | AlterAction::SetMetadata(_)
            | AlterAction::SetAutoRefresh { .. }
            | AlterAction::RenameTable(_) => {}
        }
    }
    // What the statement makes under a name is another column than the one that had it.
    required.retain(|column| !made.contains(&column.as_str()));
    let dataset = Arc::clone(before);
    engine.runtime().run(async move { tightened(&dataset, &required).await.map(drop) }).await
}

/// Returns the computed columns that go with `columns`.
fn dropped_outputs(table: &BoundTable, columns: &[String]) -> Result<Vec<String>> {
    let mut outputs = Vec::new();
    for column in columns {
        outputs.extend(computed::within(&table.dataset, column)?);
    }
    Ok(outputs)
}

/// Ends the refreshes of columns that are gone from main: of these bindings, not
/// of others that have or get the same names (RC-16).
async fn cancel_jobs(engine: &Engine, session: &Session, table: &BoundTable, columns: &[String]) -> Result<()> {
    let by = session.principal.user.as_str();
    for column in columns {
        let Some(binding) = computed::column(&table.dataset, column)? else { continue };
        let key = binding_key(table.record.id, None, binding.field_id);
        let why = format!("column \"{column}\" was dropped");
        engine.catalog().cancel_exclusive(vec![key], by, &why, crate::clock::now()).await?;
    }
    Ok(())
}

/// Commits one change, on the newest version; lost races are run again. Returns the version,
/// and the fields of numbered columns that have others in their places.
async fn change_columns(engine: &Engine, table: &BoundTable, action: &AlterAction) -> Result<(u64, Vec<(i32, i32)>)> {
    for attempt in 1..=ATTEMPTS_MAX {
        let before = engine.store().open(&table.record.location).await?;
        let (base, action) = (Arc::clone(&before), action.clone());
        let changed = engine
            .runtime()
            .run_to_end(async move {
                let changed = Box::pin(apply(&base, &action)).await?;
                durable::sync_commit(&changed, Some(&base)).await?;
                Ok((changed.version_id(), moved(&base, &changed)))
            })
            .await;
        match changed {
            Err(error) if error.code == SqlState::SERIALIZATION_FAILURE && attempt < ATTEMPTS_MAX => {
                tracing::info!(attempt, %error, "altering a table again at a newer version");
                tokio::time::sleep(std::time::Duration::from_millis(5) * attempt * attempt).await;
            }
            other => return other,
        }
    }
    Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not alter the table because of concurrent writes"))
}

/// Returns the fields of numbered columns that a change of type has replaced, and by which.
fn moved(base: &Dataset, changed: &Dataset) -> Vec<(i32, i32)> {
    let numbered = base.schema().fields.iter().filter(|field| defaults::is_numbered(&field.metadata));
    let moved = numbered.filter_map(|old| {
        let new = changed.schema().fields.iter().find(|new| new.name == old.name)?;
        (new.id != old.id && defaults::is_numbered(&new.metadata)).then_some((old.id, new.id))
    });
    moved.collect()
}

async fn apply(dataset: &Dataset, action: &AlterAction) -> Result<Dataset> {
    let mut changed = dataset.clone();
    match action {
        AlterAction::Declare(declarations) => return Ok(computed::declare(dataset, declarations).await?),
        AlterAction::AddColumns(fields) => {
            let transform = NewColumnTransform::AllNulls(Arc::new(Schema::new(fields.clone())));
            changed.add_columns(transform, None, None).await.map_err(StorageError::from)?;
        }
        AlterAction::DropColumns(columns) => {
            let columns: Vec<String> = columns.iter().map(|column| lance_path(column)).collect();
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            changed.drop_columns(&columns).await.map_err(StorageError::from)?;
            computed::sync_bindings(&mut changed).await?;
        }
        AlterAction::RenameColumn { from, to } => {
            let alteration = ColumnAlteration::new(lance_path(from)).rename(to.clone());
            changed.alter_columns(&[alteration]).await.map_err(StorageError::from)?;
            computed::sync_bindings(&mut changed).await?;
        }
        AlterAction::AddFilled { field, value } => add_filled(&mut changed, field, value).await?,
        AlterAction::SetNotNull { column } => set_not_null(&mut changed, std::slice::from_ref(column)).await?,
        AlterAction::SetDefault { column, text } => {
            let entry = [(defaults::default_key(), text.as_deref())];
            let column = lance_path(column);
            let update = changed.update_field_metadata().update(column.as_str(), entry).map_err(StorageError::from)?;
            update.await.map_err(StorageError::from)?;
        }
        AlterAction::SetPrimaryKey { columns } => {
            set_not_null(&mut changed, columns).await?;
            let mut update = changed.update_field_metadata();
            for (index, column) in columns.iter().enumerate() {
                let column = lance_path(column);
                update = update.update(column.as_str(), key::entries(index + 1)).map_err(StorageError::from)?;
            }
            update.await.map_err(StorageError::from)?;
        }
        AlterAction::AlterColumns(edits) => {
            let alterations: Vec<ColumnAlteration> = edits.iter().map(alteration).collect();
            let carried = carried(&changed, edits);
            changed.alter_columns(&alterations).await.map_err(StorageError::from)?;
            if !carried.is_empty() {
                let mut update = changed.update_field_metadata();
                for (path, entries) in carried {
                    update = update.update(path.as_str(), entries).map_err(StorageError::from)?;
                }
                update.await.map_err(StorageError::from)?;
            }
        }
        AlterAction::SetAutoRefresh { column, enabled, interval_seconds } => {
            let mut values: Vec<(&str, String)> = Vec::new();
            values.extend(enabled.map(|enabled| (AUTO_ENABLED, enabled.to_string())));
            values.extend(interval_seconds.map(|seconds| (AUTO_INTERVAL, seconds.to_string())));
            let pairs = values.iter().map(|(key, value)| (*key, value.as_str()));
            let column = lance_path(column);
            let update = changed.update_field_metadata().update(column.as_str(), pairs).map_err(StorageError::from)?;
            update.await.map_err(StorageError::from)?;
        }
        AlterAction::SetMetadata(changes) => {
            let entries = metadata_entries(&changed, changes)?;
            let mut update = changed.update_field_metadata();
            for (path, entries) in &entries {
                let pairs = entries.iter().map(|(key, value)| (key.as_str(), value.as_deref()));
                update = update.update(path.as_str(), pairs).map_err(StorageError::from)?;
            }
            update.await.map_err(StorageError::from)?;
        }
        AlterAction::RenameTable(_) => {}
    }
    Ok(changed)
}

/// Adds a column with the same value in all rows.
async fn add_filled(dataset: &mut Dataset, field: &Field, value: &ScalarValue) -> Result<()> {
    let output = Arc::new(Schema::new(vec![field.clone()]));
    let (schema, value) = (Arc::clone(&output), value.clone());
    let filled = move |batch: &RecordBatch| {
        let column = value.to_array_of_size(batch.num_rows()).map_err(lance::Error::from)?;
        RecordBatch::try_new(Arc::clone(&schema), vec![column]).map_err(lance::Error::from)
    };
    let udf = BatchUDF { mapper: Box::new(filled), output_schema: output, result_checkpoint: None };
    // One column is read for the numbers of rows.
    let first = dataset.schema().fields.first().map(|field| vec![field.name.clone()]);
    dataset.add_columns(NewColumnTransform::BatchUDF(udf), first, None).await.map_err(StorageError::from)?;
    Ok(())
}

/// Lets columns take no NULL, in one commit.
///
/// # Errors
/// 23502 if one has any.
async fn set_not_null(dataset: &mut Dataset, columns: &[String]) -> Result<()> {
    let tightened = tightened(dataset, columns).await?;
    let alterations: Vec<ColumnAlteration> =
        tightened.iter().map(|column| ColumnAlteration::new(lance_path(column)).set_nullable(false)).collect();
    if !alterations.is_empty() {
        dataset.alter_columns(&alterations).await.map_err(StorageError::from)?;
    }
    Ok(())
}

/// Returns those of the columns that may hold NULL by their declaration, and hold none.
///
/// # Errors
/// 23502 for the first that holds one.
async fn tightened<'a>(dataset: &Dataset, columns: &'a [String]) -> Result<Vec<&'a String>> {
    let mut tightened = Vec::new();
    for column in columns {
        let field = dataset.schema().fields.iter().find(|field| field.name == *column);
        if field.is_none_or(|field| field.nullable) {
            ensure_no_null(dataset, column).await?;
            tightened.push(column);
        }
    }
    Ok(tightened)
}

async fn ensure_no_null(dataset: &Dataset, column: &str) -> Result<()> {
    let filter = Expr::Column(Column::new_unqualified(column)).is_null();
    let mut scan = dataset.scan();
    scan.empty_project().map_err(StorageError::from)?.with_row_id().filter_expr(filter);
    scan.limit(Some(1), None).map_err(StorageError::from)?;
    let mut nulls = scan.try_into_stream().await.map_err(StorageError::from)?;
    while let Some(batch) = nulls.try_next().await.map_err(StorageError::from)? {
        if batch.num_rows() > 0 {
            let message = format!("column \"{column}\" contains null values");
            return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message));
        }
    }
    Ok(())
}

/// Returns by Lance path what is recorded of columns that get another type. Lance makes new
/// fields of them, of which nothing is known. How the values are stored is not carried over.
fn carried(dataset: &Dataset, edits: &[ColumnEdit]) -> Vec<(String, Vec<(String, String)>)> {
    let carried = edits.iter().filter(|edit| edit.data_type.is_some()).filter_map(|edit| {
        let field = dataset.schema().fields.iter().find(|field| field.name == edit.column)?;
        let entries = field.metadata.iter().filter(|(key, _)| !MetadataChange::is_physical(key));
        let entries: Vec<_> = entries.map(|(key, value)| (key.clone(), value.clone())).collect();
        (!entries.is_empty()).then(|| (lance_path(&edit.column), entries))
    });
    carried.collect()
}

fn alteration(edit: &ColumnEdit) -> ColumnAlteration {
    let mut alteration = ColumnAlteration::new(lance_path(&edit.column));
    if let Some(data_type) = &edit.data_type {
        alteration = alteration.cast_to(data_type.clone());
    }
    if edit.drop_not_null { alteration.set_nullable(true) } else { alteration }
}

/// Returns by Lance path what keys say after all changes. Keys are taken away one by one and not with the
/// whole map, so that a declaration which comes in between keeps its own.
fn metadata_entries(dataset: &Dataset, changes: &[MetadataChange]) -> Result<BTreeMap<String, Entries>> {
    let mut all: BTreeMap<String, Entries> = BTreeMap::new();
    for change in changes {
        let parts: Vec<&str> = change.path.iter().map(String::as_str).collect();
        let found = nested::field(dataset.schema(), &nested::path_text(&parts));
        let found = found.ok_or_else(|| StorageError::NoColumn { column: nested::path_text(&parts) })?;
        let entries = all.entry(format_field_path(&parts)).or_default();
        if change.replace {
            entries.values_mut().for_each(|value| *value = None);
            let replaced = found.metadata.keys().filter(|key| !MetadataChange::is_kept(key));
            entries.extend(replaced.map(|key| (key.clone(), None)));
        }
        entries.extend(change.entries.clone());
    }
    Ok(all)
}

/// Lance takes a name apart at dots and quotes.
fn lance_path(column: &str) -> String {
    let parts = nested::parts(column);
    format_field_path(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}
