//! The regular sweep: ended jobs, old events, and files that refreshes have left.

use std::sync::Arc;

use super::{Inner, garbage, now};

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
    let policy =
        lancegate_catalog::RetentionPolicy { jobs: inner.config.retention, events: inner.config.event_retention };
    match inner.catalog.sweep(now(), policy).await {
        Ok(swept) if swept.jobs + swept.events == 0 => {}
        Ok(swept) => tracing::info!(jobs = swept.jobs, events = swept.events, "old jobs and events removed"),
        Err(error) => tracing::warn!(%error, "cannot remove old jobs"),
    }
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
