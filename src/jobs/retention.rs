//! The daily sweep of ended jobs and old events.

use std::sync::Arc;
use std::time::Duration;

use super::{Inner, now};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Sweeps at the start and once a day until the runner stops.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut days = tokio::time::interval(DAY);
    days.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            _ = days.tick() => {}
        }
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            () = sweep(&inner) => {}
        }
    }
}

async fn sweep(inner: &Inner) {
    let policy =
        lancegate_catalog::RetentionPolicy { jobs: inner.config.retention, events: inner.config.event_retention };
    match inner.catalog.sweep(now(), policy).await {
        Ok(swept) if swept.jobs + swept.events == 0 => {}
        Ok(swept) => tracing::info!(jobs = swept.jobs, events = swept.events, "old jobs and events removed"),
        // The next sweep goes on where this one stopped.
        Err(error) => tracing::warn!(%error, "cannot remove old jobs"),
    }
}
