//! Materialized views as automatic refreshes see them.
//!
//! A view is due when what its query reads is not what its rows were made from. That is looked at in two steps: what the
//! last refresh read is opened, which costs two requests for each table, and only if something of it is not the newest
//! the query is bound as a refresh would bind it. The second step decides: a query that names a version of a table does
//! not become due with a newer one, and one that names a tag does when the tag is moved.

use std::time::Duration;

use lancegate_auth::UserName;
use lancegate_catalog::{ActiveRefresh, NewJob, RefreshHistory, Table, TableId, TableKind};

use super::owner_of;
use crate::error::{Result, SqlError};
use crate::exec::Engine;
use crate::exec::materialized::refresh::{bound, versions};
use crate::exec::materialized::state::{SourceVersion, ViewState, query_digest};
use crate::exec::materialized::{new_job, view_key};
use crate::jobs::auto::{self, Binding, Due, Seen, Sight, Standing, TableLoad, Target, gates, settled};
use crate::refresh::garbage::head;
use crate::sql::plan::materialized::RefreshMaterializedPlan;

/// Looks at the newest version of a view; `None` if it is gone.
///
/// # Errors
/// If the metadata store or the files cannot be read.
pub(super) async fn see(engine: &Engine, record: &Table) -> Result<Option<Seen>> {
    let (store, location) = (engine.store().clone(), record.location.clone());
    let opened = engine.runtime().run(async move {
        Ok(head(&store, &location, None).await?.map(|view| (view.version_id(), ViewState::of(&view))))
    });
    let Some((version, state)) = opened.await? else { return Ok(None) };
    seen(engine, record, version, &state).await.map(Some)
}

async fn seen(engine: &Engine, record: &Table, version: u64, state: &ViewState) -> Result<Seen> {
    let mut binding = Binding {
        key: view_key(record.id),
        target: Target::View,
        revision: Some(query_digest(record)),
        enabled: state.auto_refresh_enabled == Some(true),
        // A number that is no length of time is refused when it is set.
        interval: state.auto_refresh_interval_seconds.and_then(|secs| Duration::try_from_secs_f64(secs).ok()),
        inputs: Vec::new(),
    };
    let basis = match state.refreshed.as_ref().and_then(|last| last.sources.as_deref()) {
        Some(made_from) if binding.enabled => basis(engine, record, made_from, &mut binding.inputs).await?,
        _ => Vec::new(),
    };
    Ok(Seen { version, has_mem_wal: false, bindings: vec![binding], basis })
}

/// Returns what a refresh would read now; `inputs` becomes the keys of the materialized views among it.
async fn basis(
    engine: &Engine,
    record: &Table,
    made_from: &[SourceVersion],
    inputs: &mut Vec<String>,
) -> Result<Vec<String>> {
    let mut is_newest = true;
    for source in made_from {
        let (now, key) = newest(engine, source).await?;
        is_newest &= now.as_ref() == Some(source);
        inputs.extend(key);
    }
    let told = |sources: &[SourceVersion]| sources.iter().map(|source| format!("{source:?}")).collect();
    if is_newest {
        return Ok(told(made_from));
    }
    Ok(match bound(engine, owner_of(engine, record).await?, record).await {
        Ok(plan) => told(&versions(&plan)?.unwrap_or_default()),
        Err(error) => vec![error.to_string()],
    })
}

/// Returns a source as it is now, if it is still there under its name, and the key of its refreshes if it is a
/// materialized view.
async fn newest(engine: &Engine, source: &SourceVersion) -> Result<(Option<SourceVersion>, Option<String>)> {
    let Ok(id) = source.table.parse::<TableId>() else { return Ok((None, None)) };
    let record = engine.catalog().table_by_id(id).await?.filter(|record| record.name.to_string() == source.name);
    let Some(record) = record else { return Ok((None, None)) };
    if record.kind == TableKind::View {
        return Ok((Some(SourceVersion::of_view(&record)), None));
    }
    let key = (record.kind == TableKind::MaterializedView).then(|| view_key(record.id));
    let store = engine.store().clone();
    let opened = engine.runtime().run(async move {
        let newest = head(&store, &record.location, None).await?;
        Ok(newest.map(|newest| SourceVersion::of_table(&record, &newest)))
    });
    Ok((opened.await?, key))
}

/// Looks at what the rows of a view would be made from.
///
/// # Errors
/// If the view cannot be read.
pub(super) async fn due(engine: &Engine, record: &Table) -> Result<Due> {
    let (store, location) = (engine.store().clone(), record.location.clone());
    let opened = engine.runtime().run(async move { Ok(head(&store, &location, None).await?) });
    let Some(view) = opened.await? else { return Ok(Due::Nothing) };
    let Some(made_from) = ViewState::of(&view).refreshed.and_then(|last| last.sources) else { return Ok(Due::Rows) };
    let owner = owner_of(engine, record).await?;
    let now = match bound(engine, owner, record).await {
        Ok(plan) => versions(&plan)?,
        // The job says so, where it is seen, and the next one waits.
        Err(error) => {
            tracing::debug!(view = %record.name, %error, "the query of a materialized view cannot be bound");
            return Ok(Due::Rows);
        }
    };
    Ok(if now.as_ref() == Some(&made_from) { Due::Nothing } else { Due::Rows })
}

/// Returns the job that refreshes a view.
pub(super) fn job(record: &Table, owner: &UserName) -> NewJob {
    let statement = format!("REFRESH MATERIALIZED VIEW {}", record.name.name);
    new_job(&RefreshMaterializedPlan::new(record.clone(), false, statement, None), owner.as_str())
}

/// How a view stands to its automatic refreshes.
#[derive(Debug)]
pub(crate) struct ViewStatus {
    /// What its refreshes have come to.
    pub(crate) history: Option<RefreshHistory>,
    /// The one that has not ended.
    pub(crate) active: Option<ActiveRefresh>,
    /// What it waits for.
    pub(crate) standing: Standing,
}

/// Returns how a view stands; what it reads is looked at only if nothing else is in the way.
///
/// # Errors
/// If the metadata store cannot be read.
pub(crate) async fn status(engine: &Engine, record: &Table, version: u64, state: &ViewState) -> Result<ViewStatus> {
    let active = engine.catalog().active_refreshes(None).await?;
    let history = engine.catalog().refresh_histories(Some(record.id)).await?.remove(&view_key(record.id));
    let seen = match seen(engine, record, version, state).await {
        Ok(seen) => seen,
        Err(error) => return Ok(unobservable(record, &error, history)),
    };
    let Some(binding) = seen.bindings.first() else { return Err(SqlError::internal("a view without its query")) };
    let history = history.filter(|history| binding.revision.as_ref() == Some(&history.revision));
    let active_of = |key: &str| active.iter().find(|active| active.key == key);
    let preparation = engine.jobs().preparations().of(&binding.key, version);
    let sight = Sight {
        now: crate::clock::now(),
        config: engine.jobs().auto(),
        binding,
        history: history.as_ref(),
        active: active_of(&binding.key).map(auto::active),
        input_in_flight: binding.inputs.iter().any(|input| active_of(input).is_some()),
        table: TableLoad { in_flight: auto::in_flight(&active, record.id), has_mem_wal: false },
        preparation: preparation.as_ref(),
    };
    let standing = match gates(&sight) {
        // It would wait, if there were anything to wait for.
        Err(standing) if standing.waits_to_run() => match due(engine, record).await {
            Ok(Due::Nothing) => settled(Due::Nothing),
            _ => standing,
        },
        Err(standing) => standing,
        Ok(()) => match due(engine, record).await {
            Ok(due) => settled(due),
            Err(error) => return Ok(unobservable(record, &error, history)),
        },
    };
    Ok(ViewStatus { active: active_of(&binding.key).cloned(), history, standing })
}

fn unobservable(record: &Table, error: &SqlError, history: Option<RefreshHistory>) -> ViewStatus {
    tracing::warn!(view = %record.name, %error, "cannot look at what a materialized view reads");
    ViewStatus { history, active: None, standing: Standing::unobservable() }
}
