//! The work of jobs: from a job's document to its result.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use lancegate_catalog::{Catalog, Failure, Job, JobKind, RetentionPolicy};
use serde_json::Value;
use tokio::sync::watch;

use super::rights;
use super::verdict::failure;
use super::{JobsConfig, creation, retention};
use crate::error::SqlError;
use crate::refresh::{self, FunctionHost, Ledger, Limits, Progress, RefreshError, RefreshSpec, garbage};
use crate::storage::{StorageError, Store};

/// What attempts run. Tests put their own work here.
pub(super) trait Work: fmt::Debug + Send + Sync {
    /// Does the work of a claimed job and returns its result. Dropping the
    /// future must leave nothing half done.
    fn run<'a>(&'a self, job: &'a Job, progress: Arc<Progress>) -> BoxFuture<'a, Result<Value, WorkError>>;
}

/// Why work ended without a result.
#[derive(Debug)]
pub(crate) enum WorkError {
    /// It was told to stop and has.
    Stopped,
    /// The registry refused a write of this attempt.
    LeaseLost,
    /// What it works on does not exist any more.
    Gone(String),
    /// It failed in a way that another attempt may not meet.
    Transient(Failure),
    /// It failed.
    Failed(Failure),
}

/// Refreshes materialized views. It plans and runs queries, for which there is an
/// engine; that is made after the runner.
pub(crate) trait Views: Send + Sync {
    /// Does the work of a claimed job of a view and returns its result.
    fn refresh<'a>(&'a self, job: &'a Job, progress: Arc<Progress>) -> BoxFuture<'a, Result<Value, WorkError>>;
}

/// Where the runner finds it.
#[derive(Clone)]
pub(super) struct ViewsSlot(Arc<watch::Sender<Option<Arc<dyn Views>>>>);

impl Default for ViewsSlot {
    fn default() -> Self {
        Self(Arc::new(watch::channel(None).0))
    }
}

impl ViewsSlot {
    pub(super) fn fill(&self, views: Arc<dyn Views>) {
        self.0.send_replace(Some(views));
    }

    /// Waits until it is there.
    async fn get(&self) -> Arc<dyn Views> {
        let mut filled = self.0.subscribe();
        loop {
            if let Some(views) = filled.borrow_and_update().clone() {
                return views;
            }
            // The sender is held by `self`.
            let _ = filled.changed().await;
        }
    }
}

/// Runs refreshes of computed columns, and makes Functions.
pub(super) struct RefreshWork {
    catalog: Catalog,
    store: Store,
    limits: Limits,
    policy: RetentionPolicy,
    functions: FunctionHost,
    views: ViewsSlot,
}

impl RefreshWork {
    pub(super) fn new(
        catalog: Catalog,
        store: Store,
        config: &JobsConfig,
        functions: FunctionHost,
        views: ViewsSlot,
    ) -> Self {
        Self { catalog, store, limits: config.limits(), policy: config.policy(), functions, views }
    }

    async fn refresh(&self, job: &Job, progress: Arc<Progress>) -> Result<Value, WorkError> {
        let spec: RefreshSpec = serde_json::from_value(job.spec.clone()).map_err(damaged)?;
        let ledger = Ledger::new(self.catalog.clone(), job.id, job.epoch);
        match refresh::run(&self.store, &spec, &ledger, progress, self.limits, &self.functions).await {
            Ok(outcome) => serde_json::to_value(outcome).map_err(damaged),
            Err(error) => match self.gone(&error, &spec).await {
                Some(what) => Err(WorkError::Gone(what)),
                None => Err(sorted(error)),
            },
        }
    }

    /// Returns what a refresh was of, if it does not exist any more: whatever
    /// file was missed first is a consequence.
    async fn gone(&self, error: &RefreshError, spec: &RefreshSpec) -> Option<String> {
        let RefreshError::Storage(error) = error else { return None };
        let column = &spec.column;
        match (garbage::head(&self.store, &spec.location, spec.branch.as_deref()).await, &spec.branch) {
            (Ok(None), None) => Some(format!("the table of column \"{column}\" does not exist any more")),
            (Ok(None), Some(branch)) => {
                Some(format!("branch \"{branch}\", or the table of column \"{column}\", does not exist any more"))
            }
            // Another one is in its place.
            (Ok(Some(_)), _) if matches!(error, StorageError::NotFound { .. }) => {
                Some(format!("the table of column \"{column}\" was made anew"))
            }
            (Ok(Some(_)) | Err(_), _) => None,
        }
    }
}

impl fmt::Debug for RefreshWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefreshWork").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Work for RefreshWork {
    fn run<'a>(&'a self, job: &'a Job, progress: Arc<Progress>) -> BoxFuture<'a, Result<Value, WorkError>> {
        Box::pin(async move {
            rights::ensure(&self.catalog, job).await?;
            match &job.kind {
                JobKind::ComputedRefresh | JobKind::FunctionRefresh => self.refresh(job, progress).await,
                JobKind::CreateFunction => creation::create(&self.catalog, &self.functions, job, &progress).await,
                JobKind::JobRegistryArchive => retention::archive(&self.catalog, self.policy, job, &progress).await,
                JobKind::Sql => {
                    let views = tokio::select! {
                        biased;
                        () = progress.stopped() => return Err(WorkError::Stopped),
                        views = self.views.get() => views,
                    };
                    views.refresh(job, progress).await
                }
                // Parts of a refresh are run by its attempt.
                JobKind::BuildEnvironment
                | JobKind::RefreshSplits
                | JobKind::CreateIndex
                | JobKind::Compact
                | JobKind::Cleanup
                | JobKind::DropTable
                | JobKind::Other(_) => {
                    let error = SqlError::not_supported(format!("jobs of type {} are not supported", job.kind));
                    Err(WorkError::Failed(failure(&error.named("NotSupported"))))
                }
            }
        })
    }
}

pub(super) fn damaged(error: serde_json::Error) -> WorkError {
    WorkError::Failed(failure(&SqlError::internal(format!("unreadable job document: {error}"))))
}

fn sorted(error: RefreshError) -> WorkError {
    match &error {
        RefreshError::Canceled => WorkError::Stopped,
        RefreshError::LeaseLost => WorkError::LeaseLost,
        RefreshError::Storage(StorageError::NoColumn { .. }) => WorkError::Gone(error.to_string()),
        _ if error.is_transient() => WorkError::Transient(failure(&SqlError::from(error))),
        _ => WorkError::Failed(failure(&SqlError::from(error))),
    }
}
