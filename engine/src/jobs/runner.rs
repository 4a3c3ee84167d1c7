//! The claim loop: one free slot, one claim, one attempt.

use std::sync::Arc;
use std::time::Duration;

use lancegate_catalog::{JobChange, JobState};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::{self, error::RecvError};

use super::{Inner, attempt, now};
use crate::failpoint;

/// How long the loop rests after the registry refused a claim.
const REST_AFTER_ERROR: Duration = Duration::from_secs(1);
/// The shortest time between two looks for delayed jobs.
const LOOK_MIN: Duration = Duration::from_millis(10);

/// Claims jobs until the runner stops.
pub(super) async fn run(inner: Arc<Inner>) {
    // Subscribed before the first look, so that no submission falls in between.
    let mut changes = inner.catalog.subscribe();
    while let Some(slot) = free_slot(&inner).await {
        if let Err(error) = failpoint::reach("claim.before").await {
            tracing::error!(%error, "cannot claim jobs");
            rest(&inner).await;
            continue;
        }
        match inner.catalog.claim_next(&inner.gateway, inner.config.lease, now()).await {
            Ok(Some(job)) => {
                if let Err(error) = failpoint::reach("claim.after").await {
                    // As if the answer had been lost: the lease runs out.
                    tracing::error!(%error, "a claimed job is left alone");
                    continue;
                }
                let attempt = attempt::supervise(Arc::clone(&inner), job);
                let work = async move {
                    attempt.await;
                    drop(slot);
                };
                inner.tasks.spawn_on(work, &inner.io);
            }
            Ok(None) => {
                drop(slot);
                until_claimable(&inner, &mut changes).await;
            }
            Err(error) => {
                drop(slot);
                tracing::error!(%error, "cannot claim jobs");
                rest(&inner).await;
            }
        }
    }
}

async fn free_slot(inner: &Inner) -> Option<OwnedSemaphorePermit> {
    tokio::select! {
        biased;
        () = inner.stopping.cancelled() => None,
        slot = Arc::clone(&inner.slots).acquire_owned() => Some(slot.expect("the semaphore is never closed")),
    }
}

/// Waits until a job may have become claimable: something was queued, or a
/// lease or a delay may have run out, of which no change tells.
async fn until_claimable(inner: &Inner, changes: &mut broadcast::Receiver<JobChange>) {
    let poll = tokio::time::sleep(next_look(inner).await);
    tokio::pin!(poll);
    loop {
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            () = &mut poll => return,
            change = changes.recv() => match change {
                Ok(change) if change.state != JobState::Queued => {}
                Ok(_) | Err(RecvError::Lagged(_)) => return,
                Err(RecvError::Closed) => return rest(inner).await,
            },
        }
    }
}

/// Returns how long nothing can become claimable by itself, as far as is known.
async fn next_look(inner: &Inner) -> Duration {
    let regular = inner.config.lease / 3;
    match inner.catalog.next_claim_at().await {
        Ok(Some(at)) => regular.min((at - now()).to_std().unwrap_or_default()).max(LOOK_MIN),
        Ok(None) => regular,
        Err(error) => {
            tracing::warn!(%error, "cannot look for delayed jobs");
            regular
        }
    }
}

async fn rest(inner: &Inner) {
    tokio::select! {
        () = inner.stopping.cancelled() => {}
        () = tokio::time::sleep(REST_AFTER_ERROR) => {}
    }
}
