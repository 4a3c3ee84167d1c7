//! The regular sweep: ended jobs, old events, and files that refreshes have left.
//!
//! Files are looked for by this task. What is old in the registry is removed by a job for each database that has
//! something to remove, so that an operator sees when it ran, what it removed, and can stop it.

use std::sync::Arc;

use lancegate_catalog::{Catalog, CatalogError, Job, JobKind, NewJob, RetentionPolicy};
use serde_json::{Value, json};

use super::verdict::failure;
use super::work::WorkError;
use super::{Inner, garbage, now, rights};
use crate::error::SqlError;
use crate::refresh::Progress;

/// Whose name such jobs bear.
const SYSTEM_USER: &str = "system";
/// What they are of.
const REGISTRY: &str = "jobs";

/// Sweeps at the start and every `sweep_interval` until the runner stops.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut sweeps = tokio::time::interval(inner.config.sweep_interval);
    sweeps.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            _ = sweeps.tick() => {}
        }
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            () = sweep(&inner) => {}
        }
    }
}

/// Whatever goes wrong is logged; the next sweep goes on where this one stopped.
async fn sweep(inner: &Arc<Inner>) {
    // First the files: what is noted of them goes with the jobs.
    collect(inner).await;
    if let Err(error) = submit(inner).await {
        tracing::warn!(%error, "cannot look for old jobs");
    }
}

async fn submit(inner: &Inner) -> Result<(), CatalogError> {
    inner.catalog.sweep_leftovers().await?;
    for database in inner.catalog.databases_with_old_jobs(now(), inner.config.policy()).await? {
        let mut job = NewJob::new(JobKind::JobRegistryArchive, &database, REGISTRY, SYSTEM_USER);
        job.exclusive_key = Some(format!("archive/{database}"));
        job.automatic = true;
        job.spec = json!({ rights::REQUIRES: [] });
        match inner.catalog.submit(job, now()).await {
            // The one before still runs.
            Ok(_) | Err(CatalogError::Busy { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes what is old of the job's database; returns how much.
///
/// # Errors
/// [`WorkError::Stopped`] between two steps; what was removed stays removed.
pub(super) async fn archive(
    catalog: &Catalog,
    policy: RetentionPolicy,
    job: &Job,
    progress: &Progress,
) -> Result<Value, WorkError> {
    progress.enter("archiving");
    let swept = tokio::select! {
        biased;
        () = progress.stopped() => return Err(WorkError::Stopped),
        swept = catalog.sweep(&job.database, now(), policy) => swept,
    };
    let swept = swept.map_err(|error| WorkError::Transient(failure(&SqlError::from(error))))?;
    tracing::info!(database = job.database, jobs = swept.jobs, events = swept.events, "old jobs and events removed");
    Ok(json!({ "jobs": swept.jobs, "events": swept.events }))
}

/// Reads manifests, which is work for the compute threads.
async fn collect(inner: &Arc<Inner>) {
    let (catalog, store) = (inner.catalog.clone(), inner.store.clone());
    let work = inner.compute.spawn(async move { garbage::collect(&catalog, &store, now()).await });
    match tokio_util::task::AbortOnDropHandle::new(work).await {
        Ok(Ok(collected)) if collected == garbage::Collected::default() => {}
        Ok(Ok(collected)) => {
            tracing::info!(
                parts = collected.parts,
                orphans = collected.orphans,
                "files that refreshes have left deleted"
            );
        }
        Ok(Err(error)) => tracing::warn!(%error, "cannot look for files that refreshes have left"),
        Err(error) if error.is_cancelled() => {}
        Err(error) => tracing::error!(%error, "the search for files that refreshes have left failed"),
    }
}
