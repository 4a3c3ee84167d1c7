//! Waiting for the end of a job without polling.

use std::time::Duration;

use lancegate_catalog::{CatalogError, EntityKind, Job, JobId};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::Jobs;
use crate::session::{CancelReason, StatementContext};

/// How long a statement waits for attempts that were told to stop.
const STOPPING_MAX: Duration = Duration::from_secs(5);

impl Jobs {
    /// Waits for a job that was told to stop, for a few seconds at most; returns
    /// whether it has ended.
    pub async fn wait_shortly(&self, id: JobId) -> bool {
        let cancel = CancellationToken::new();
        match tokio::time::timeout(STOPPING_MAX, self.wait_until(id, &cancel)).await {
            Ok(Ok(_)) => return true,
            Ok(Err(error)) => tracing::warn!(job_id = %id, %error, "cannot wait for a job"),
            Err(_) => tracing::warn!(job_id = %id, "a job that was told to stop goes on"),
        }
        false
    }

    /// Ends every wait of a statement, now and from now on: jobs end, or are given back, after the statements only, so
    /// whoever waits for one would wait in vain.
    pub fn end_waits(&self) {
        self.inner.waits_over.cancel();
    }

    /// Waits for a statement until a job has reached a terminal state and returns it, or `None` if the statement is
    /// canceled first, or the gateway stops, which is then the reason of its end; the job goes on. Safe to drop.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] for an unknown job, and what reading it reports.
    pub async fn wait(&self, id: JobId, ctx: &StatementContext) -> Result<Option<Job>, CatalogError> {
        tokio::select! {
            biased;
            ended = self.wait_until(id, &ctx.cancel) => ended,
            () = self.inner.waits_over.cancelled() => {
                ctx.cancel(CancelReason::Shutdown);
                Ok(None)
            }
        }
    }

    /// As [`Self::wait`], for work of the gateway itself.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub async fn wait_until(&self, id: JobId, cancel: &CancellationToken) -> Result<Option<Job>, CatalogError> {
        // Subscribed before the first look: an end in between is not missed.
        let mut changes = self.inner.catalog.subscribe();
        loop {
            let found = self.inner.catalog.job(id).await?;
            let job = found.ok_or_else(|| CatalogError::NotFound { kind: EntityKind::Job, name: id.to_string() })?;
            if job.status.state.is_terminal() {
                return Ok(Some(job));
            }
            loop {
                let change = tokio::select! {
                    biased;
                    () = cancel.cancelled() => return Ok(None),
                    change = changes.recv() => change,
                };
                match change {
                    Ok(change) if change.job_id != id || !change.state.is_terminal() => {}
                    Ok(_) | Err(RecvError::Lagged(_)) => break,
                    Err(RecvError::Closed) => return Err(CatalogError::Closed),
                }
            }
        }
    }
}
