//! Counts jobs by state for the metrics.
//!
//! Follows the registry's changes, so that a job counts the same whoever moved
//! it: an attempt, a user, or the drop of its table.

use std::collections::HashMap;
use std::sync::Arc;

use lancegate_catalog::{CatalogError, JobChange, JobId, JobState};
use tokio::sync::broadcast::{self, error::RecvError};

use super::Inner;
use crate::metrics::{ActiveJobState, FinalJobState, Metrics};

/// The unfinished jobs, as far as their changes have been heard.
pub(super) struct Tally {
    changes: broadcast::Receiver<JobChange>,
    unfinished: HashMap<JobId, JobState>,
}

impl Tally {
    /// Reads which jobs are unfinished; nothing that changes later is missed.
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub(super) async fn start(inner: &Inner) -> Result<Self, CatalogError> {
        let mut tally = Self { changes: inner.catalog.subscribe(), unfinished: HashMap::new() };
        tally.read(inner).await?;
        Ok(tally)
    }

    /// Counts until the runner stops.
    pub(super) async fn run(mut self, inner: Arc<Inner>) {
        loop {
            self.show(&inner.metrics);
            let change = tokio::select! {
                () = inner.stopping.cancelled() => return,
                change = self.changes.recv() => change,
            };
            match change {
                // A part of a job is none of its own.
                Ok(change) if change.child => {}
                Ok(change) => self.note(change.job_id, change.state, &inner.metrics),
                Err(RecvError::Lagged(_)) => {
                    if let Err(error) = self.read(&inner).await {
                        tracing::warn!(%error, "cannot count jobs");
                    }
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// A job counts as ended once: while it was known as unfinished.
    fn note(&mut self, id: JobId, state: JobState, metrics: &Metrics) {
        if !state.is_terminal() {
            self.unfinished.insert(id, state);
        } else if self.unfinished.remove(&id).is_some()
            && let Some(state) = ended(&state)
        {
            metrics.job_finished(state);
        }
    }

    /// Takes the states from the registry itself, after changes were missed.
    async fn read(&mut self, inner: &Inner) -> Result<(), CatalogError> {
        let now: HashMap<JobId, JobState> =
            inner.catalog.active_jobs().await?.into_iter().map(|job| (job.id, job.status.state)).collect();
        let gone: Vec<JobId> = self.unfinished.keys().filter(|id| !now.contains_key(id)).copied().collect();
        for id in gone {
            if let Some(job) = inner.catalog.job(id).await? {
                self.note(id, job.status.state, &inner.metrics);
            }
        }
        self.unfinished = now;
        Ok(())
    }

    fn show(&self, metrics: &Metrics) {
        for state in ActiveJobState::ALL.iter().copied() {
            let count = self.unfinished.values().filter(|known| unfinished(known) == Some(state)).count();
            metrics.set_jobs(state, i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
}

fn unfinished(state: &JobState) -> Option<ActiveJobState> {
    match state {
        JobState::Created => Some(ActiveJobState::Created),
        JobState::Queued => Some(ActiveJobState::Queued),
        JobState::InProgress => Some(ActiveJobState::InProgress),
        JobState::Paused => Some(ActiveJobState::Paused),
        JobState::Succeeded | JobState::Failed | JobState::Canceled | JobState::TimedOut | JobState::Other(_) => None,
    }
}

fn ended(state: &JobState) -> Option<FinalJobState> {
    match state {
        JobState::Succeeded => Some(FinalJobState::Succeeded),
        JobState::Failed => Some(FinalJobState::Failed),
        JobState::Canceled => Some(FinalJobState::Canceled),
        JobState::TimedOut => Some(FinalJobState::TimedOut),
        JobState::Created | JobState::Queued | JobState::InProgress | JobState::Paused | JobState::Other(_) => None,
    }
}
