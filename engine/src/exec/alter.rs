//! Runs ALTER TABLE: each kind of change is one commit of the table.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::Schema;
use chrono::Utc;
use lance::Dataset;
use lance::dataset::{ColumnAlteration, NewColumnTransform};
use lance_core::datatypes::format_field_path;
use lancegate_catalog::ObjectChange;

use crate::error::{Result, SqlError};
use crate::exec::refresh::binding_key;
use crate::exec::{Engine, Outcome, session};
use crate::session::Session;
use crate::sql::plan::AlterTablePlan;
use crate::sql::plan::alter::typed::MetadataChange;
use crate::sql::plan::alter::{AlterAction, ColumnEdit};
use crate::sql::resolve::BoundTable;
use crate::sqlstate::SqlState;
use crate::storage::{StorageError, computed, durable, nested};

/// The field metadata of automatic refresh.
const AUTO_ENABLED: &str = "computed_column.auto_refresh_enabled";
const AUTO_INTERVAL: &str = "computed_column.auto_refresh_interval_seconds";
/// What keys of metadata say; `None` takes one away.
type Entries = BTreeMap<String, Option<String>>;

/// Offers of one change while other commits come first.
const ATTEMPTS_MAX: u32 = 8;

/// Runs ALTER TABLE.
pub(super) async fn alter(engine: &Engine, session: &mut Session, plan: &AlterTablePlan) -> Result<Outcome> {
    let Some(table) = &plan.table else {
        return Ok(Outcome::Done("ALTER TABLE".to_owned()));
    };
    for action in &plan.actions {
        let gone = match action {
            AlterAction::DropColumns(columns) => dropped_outputs(table, columns)?,
            _ => Vec::new(),
        };
        if let AlterAction::RenameTable(to) = action {
            let change = ObjectChange::RenameTable { id: table.record.id, to: to.clone() };
            engine.catalog().apply(vec![change]).await?;
        } else {
            session.committed = Some(change_columns(engine, table, action).await?);
        }
        cancel_jobs(engine, session, table, &gone).await?;
    }
    session::wrote(session, table);
    Ok(Outcome::Done("ALTER TABLE".to_owned()))
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
        engine.catalog().cancel_exclusive(vec![key], by, &why, Utc::now()).await?;
    }
    Ok(())
}

/// Commits one change, on the newest version; lost races are run again.
async fn change_columns(engine: &Engine, table: &BoundTable, action: &AlterAction) -> Result<u64> {
    for attempt in 1..=ATTEMPTS_MAX {
        let before = engine.store().open(&table.record.location).await?;
        let (base, action) = (Arc::clone(&before), action.clone());
        let changed = engine
            .runtime()
            .run_to_end(async move {
                let changed = apply(&base, &action).await?;
                durable::sync_commit(&changed, Some(&base)).await?;
                Ok(changed.version_id())
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
        AlterAction::AlterColumns(edits) => {
            let alterations: Vec<ColumnAlteration> = edits.iter().map(alteration).collect();
            changed.alter_columns(&alterations).await.map_err(StorageError::from)?;
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
