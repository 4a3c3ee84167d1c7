//! The job of a materialized view: runs its query and replaces the rows of the view.
//!
//! The query is bound when the attempt begins, with the rights of the job's user, every
//! table at its newest version. All rows go into one commit that stands only on the very
//! version of the view that the attempt began with: of two attempts that believe to hold
//! the job, or of a refresh and another writer, one is refused. What the commit was made
//! by is in its schema, so an attempt after a crash finds the rows there and makes none.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use lance::Dataset;
use lance::dataset::transaction::{Operation, Transaction};
use lance::dataset::{CommitBuilder, InsertBuilder, WriteMode, WriteParams};
use lance_file::version::LanceFileVersion;
use lancegate_auth::UserName;
use lancegate_catalog::{CatalogError, Job, Table};
use serde_json::Value;

use super::FULL;
use super::state::{self, Refreshed, SourceVersion, ViewState};
use crate::error::SqlError;
use crate::exec::{Engine, Inner, ingest, query};
use crate::failpoint::reach;
use crate::jobs::verdict::failure;
use crate::jobs::work::{Views, WorkError};
use crate::refresh::Progress;
use crate::session::{Session, Settings, StatementContext};
use crate::sql::plan::materialized::stored_schema;
use crate::sql::plan::query::is_repeatable;
use crate::sql::plan::{Plan, Planner, QueryPlan};
use crate::sqlstate::SqlState;
use crate::storage::{StorageError, commit, durable};

/// Transaction property of every commit: the attempt that made it.
const EPOCH: &str = "lancegate.epoch";

/// Runs jobs of views on an engine, as long as there is one.
pub(in crate::exec) struct Refresher(pub(in crate::exec) Weak<Inner>);

impl Views for Refresher {
    fn refresh<'a>(&'a self, job: &'a Job, progress: Arc<Progress>) -> BoxFuture<'a, Result<Value, WorkError>> {
        Box::pin(async move {
            match self.0.upgrade() {
                Some(inner) => Box::pin(run(&Engine { inner }, job, &progress)).await,
                None => Err(WorkError::Transient(failure(&SqlError::internal("the engine is gone")))),
            }
        })
    }
}

/// What an attempt found or made before its commit.
enum Prepared {
    /// Nothing is to be written.
    Done(Value),
    /// The rows are.
    Rows { view: Arc<Dataset>, transaction: Box<Transaction>, rows: u64, source_version: u64 },
}

async fn run(engine: &Engine, job: &Job, progress: &Arc<Progress>) -> Result<Value, WorkError> {
    progress.enter("planning");
    let record = match job.table_id {
        Some(id) => engine.catalog().table_by_id(id).await.map_err(registry)?,
        None => None,
    };
    let Some(record) = record else { return Err(gone(job)) };
    // Dropping the work between two batches leaves files that no version names.
    let prepared = tokio::select! {
        biased;
        () = progress.stopped() => return Err(WorkError::Stopped),
        prepared = prepare(engine, job, &record, progress) => prepared?,
    };
    match prepared {
        Prepared::Done(result) => Ok(result),
        Prepared::Rows { view, transaction, rows, source_version } => {
            progress.enter("committing");
            let version = publish(engine, job, &record, view, *transaction).await?;
            progress.published(1, rows);
            Ok(state::result("rebuild", rows, source_version, version))
        }
    }
}

async fn prepare(engine: &Engine, job: &Job, record: &Table, progress: &Arc<Progress>) -> Result<Prepared, WorkError> {
    let view = engine.store().open(&record.location).await.map_err(|error| unreadable(error, job))?;
    let before = ViewState::readable(&view).map_err(storage)?;
    if let Some(result) = published(&view, &before, job).await? {
        return Ok(Prepared::Done(result));
    }
    let user = UserName::parse(&job.submitted_by).map_err(|error| failed(SqlError::internal(error)))?;
    let plan = bound(engine, user, record).await.map_err(failed)?;
    let source_version = state::source_version(plan.sources.as_deref().unwrap_or_default());
    let versions = versions(&plan).map_err(failed)?;
    let full = job.spec.get(FULL).and_then(Value::as_bool).unwrap_or(false);
    let last = before.refreshed.as_ref().filter(|last| last.sources.is_some() && last.sources == versions);
    if let Some(last) = last.filter(|_| !full) {
        return Ok(Prepared::Done(state::result("no_op", 0, last.source_version, view.version_id())));
    }
    progress.planned(1, 0);
    progress.enter("running splits");
    let mut transaction = written(engine, &view, &plan, progress).await?;
    let Operation::Overwrite { schema, .. } = &mut transaction.operation else {
        return Err(failed(SqlError::internal("the rows of a view were not written to replace others")));
    };
    let rows = progress.sample().rows_computed;
    progress.staged(rows);
    let refreshed = Some(Refreshed::by(job, rows, versions, source_version));
    schema.metadata = ViewState { refreshed, ..before }.metadata(record, view.version_id() + 1);
    let made_by = [(commit::JOB_ID.to_owned(), job.id.to_string()), (EPOCH.to_owned(), job.epoch.0.to_string())];
    transaction.transaction_properties = Some(Arc::new(HashMap::from(made_by)));
    Ok(Prepared::Rows { view, transaction: Box::new(transaction), rows, source_version })
}

/// Returns the result of the job if its rows are there already, and flushed.
async fn published(view: &Dataset, state: &ViewState, job: &Job) -> Result<Option<Value>, WorkError> {
    let Some(result) = state.result_of(job.id, view.version_id()) else { return Ok(None) };
    durable::sync_commit(view, None).await.map_err(storage)?;
    Ok(Some(result))
}

/// Returns what the rows of a query come from, if from that they are sure to be the same again.
pub(in crate::exec) fn versions(plan: &QueryPlan) -> Result<Option<Vec<SourceVersion>>, SqlError> {
    Ok(match is_repeatable(&plan.logical)? {
        true => plan.sources.as_ref().map(|sources| sources.iter().map(SourceVersion::of).collect()),
        false => None,
    })
}

/// Binds the query of a view for a user, with his rights, every table at its newest version.
pub(in crate::exec) async fn bound(engine: &Engine, user: UserName, record: &Table) -> Result<QueryPlan, SqlError> {
    let settings = Settings::for_user(user.as_str(), false);
    let principal = engine.principal(user).await?;
    let (session, _) = Session::new(0, principal, record.name.database.clone(), settings);
    let planner = Planner::new(engine.clone(), &session, "", &[]);
    let of = record.clone();
    let query = engine.runtime().run(async move { planner.bind_view_query(&of).await }).await?;
    let plan = engine.authorize(&session, Plan::Query(Box::new(query))).await?;
    match &*plan {
        Plan::Query(query) => Ok(query.as_ref().clone()),
        _ => Err(SqlError::internal("a query was authorized as something else")),
    }
}

/// Computes the rows and writes them to files that no version names yet, batch by batch.
async fn written(
    engine: &Engine,
    view: &Arc<Dataset>,
    plan: &QueryPlan,
    progress: &Arc<Progress>,
) -> Result<Transaction, WorkError> {
    let schema = Arc::new(stored_schema(plan).map_err(failed)?);
    let rows = query::rows(engine, plan, Vec::new(), &StatementContext::new()).await.map_err(failed)?;
    let rows = counted(ingest::conformed(rows, &schema), Arc::clone(progress));
    let view = Arc::clone(view);
    let write = async move {
        let params = WriteParams {
            mode: WriteMode::Overwrite,
            enable_stable_row_ids: view.manifest().uses_stable_row_ids(),
            data_storage_version: Some(LanceFileVersion::V2_1),
            ..WriteParams::default()
        };
        let builder = InsertBuilder::new(view).with_params(&params);
        Ok(builder.execute_uncommitted_stream(rows).await.map_err(StorageError::from))
    };
    engine.runtime().run(write).await.map_err(failed)?.map_err(storage)
}

fn counted(rows: SendableRecordBatchStream, progress: Arc<Progress>) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let stream = rows.inspect(move |batch| {
        if let Ok(batch) = batch {
            progress.planned(0, batch.num_rows() as u64);
            progress.rows_computed(batch.num_rows() as u64);
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, stream))
}

/// Makes the rows visible, if the attempt still holds the job and nothing else was
/// committed meanwhile. Returns the version.
async fn publish(
    engine: &Engine,
    job: &Job,
    record: &Table,
    view: Arc<Dataset>,
    transaction: Transaction,
) -> Result<u64, WorkError> {
    match engine.catalog().note_parts(job.id, job.epoch, Vec::new()).await.map_err(registry)? {
        None => {}
        Some(_) => return Err(WorkError::Stopped),
    }
    reach("publish.before").await.map_err(storage)?;
    let base = Arc::clone(&view);
    let commit = engine.runtime().run_to_end(async move { Ok(committed(base, transaction).await) });
    match commit.await.map_err(failed)? {
        Ok(version) => Ok(version),
        Err(error) => {
            // The answer may have been lost, or another attempt was first.
            let newest = engine.store().open(&record.location).await.map_err(|error| unreadable(error, job))?;
            match published(&newest, &ViewState::of(&newest), job).await? {
                Some(_) => Ok(newest.version_id()),
                None if newest.version_id() != view.version_id() => Err(overtaken(&error)),
                None => Err(storage(error)),
            }
        }
    }
}

async fn committed(view: Arc<Dataset>, transaction: Transaction) -> Result<u64, StorageError> {
    if let Operation::Overwrite { fragments, .. } = &transaction.operation {
        durable::sync_fragments(&view, fragments, &[]).await?;
    }
    // Without retries Lance replaces exactly the version that was read, or refuses.
    let committed = CommitBuilder::new(Arc::clone(&view)).with_max_retries(0).execute(transaction).await?;
    // As if the answer of a commit that was made had been lost.
    reach("publish.committed").await?;
    durable::sync_commit(&committed, Some(&view)).await?;
    Ok(committed.version_id())
}

fn overtaken(error: &StorageError) -> WorkError {
    tracing::info!(%error, "a materialized view was written to while it was refreshed");
    let error = SqlError::new(SqlState::SERIALIZATION_FAILURE, "the materialized view was written to meanwhile");
    WorkError::Transient(failure(&error.named("ConcurrentWriteError")))
}

fn gone(job: &Job) -> WorkError {
    WorkError::Gone(format!("materialized view \"{}\" does not exist any more", job.table_name))
}

fn unreadable(error: StorageError, job: &Job) -> WorkError {
    match error {
        StorageError::NotFound { .. } => gone(job),
        error => storage(error),
    }
}

fn storage(error: StorageError) -> WorkError {
    let transient = error.is_transient();
    let told = failure(&SqlError::from(error).named("PublicationError"));
    if transient { WorkError::Transient(told) } else { WorkError::Failed(told) }
}

fn registry(error: CatalogError) -> WorkError {
    if error.is_stale_epoch() {
        return WorkError::LeaseLost;
    }
    WorkError::Transient(failure(&SqlError::from(error)))
}

fn failed(error: SqlError) -> WorkError {
    let error = if error.error_name.is_some() { error } else { error.named("QueryError") };
    WorkError::Failed(failure(&error))
}
