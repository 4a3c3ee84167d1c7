//! Parts of a refresh that are shown as jobs of their own (PROG-07): what `SHOW JOBS FOR JOB` lists.
//!
//! A refresh of a Function column has one child for each plan that it works through – the first, and one more whenever
//! concurrent writes make it plan again – and one that builds the environment of the Function, if that is not there. A
//! child tells what an attempt does and decides nothing; a registry that does not take it down ends no refresh.

use lancegate_catalog::{AttemptEpoch, Catalog, CatalogError, ChildEnd, Failure, JobId, JobKind, NewEvent};
use serde_json::{Value, json};

use super::RefreshError;
use super::ledger::Ledger;
use super::progress::Sample;

/// A child that is in progress.
#[derive(Debug)]
pub(super) struct Child {
    catalog: Catalog,
    id: JobId,
    epoch: AttemptEpoch,
    /// What the counters of the refresh were when it began; none for a part that computes no rows.
    base: Option<Sample>,
    told: Option<Sample>,
}

impl Child {
    /// Begins a part of a refresh. One that computes rows counts them from `base`, in which what it is to do is planned.
    ///
    /// # Errors
    /// [`RefreshError::LeaseLost`].
    pub(super) async fn begin(
        ledger: &Ledger,
        kind: JobKind,
        spec: Value,
        base: Option<Sample>,
    ) -> Result<Option<Self>, RefreshError> {
        let (catalog, parent, epoch) = (ledger.catalog().clone(), ledger.job(), ledger.epoch());
        match catalog.begin_child(parent, epoch, kind, spec, crate::clock::now()).await {
            Ok(child) => Ok(Some(Self { catalog, id: child.id, epoch, base, told: None })),
            Err(error) if error.is_stale_epoch() => Err(RefreshError::LeaseLost),
            Err(error) => {
                unsaid(&error);
                Ok(None)
            }
        }
    }

    /// Tells where it is, if that is news.
    pub(super) async fn tell(&mut self, phase: &str, sample: Sample) {
        let Some(base) = self.base.filter(|_| self.told != Some(sample)) else { return };
        self.told = Some(sample);
        let progress = self.progress(&base, &sample);
        let told = self.catalog.record_progress(self.id, self.epoch, phase, progress, crate::clock::now());
        told.await.unwrap_or_else(|error| unsaid(&error));
    }

    /// Adds an event.
    pub(super) async fn report(&self, message: &str, details: Value) {
        let (emitted_by, message) = ("functions".to_owned(), message.to_owned());
        let event = NewEvent { emitted_by, worker: None, message, details: Some(details) };
        let reported = self.catalog.append_event(self.id, self.epoch, event, crate::clock::now()).await;
        reported.unwrap_or_else(|error| unsaid(&error));
    }

    /// Ends it, with what came of it.
    pub(super) async fn end(mut self, sample: Sample, worked: Result<Value, &RefreshError>) {
        let phase = if worked.is_ok() { "finalizing" } else { "running" };
        self.tell(phase, sample).await;
        let end = match worked {
            Ok(result) => ChildEnd::Succeeded(result),
            Err(RefreshError::Canceled) => ChildEnd::Canceled,
            // Whoever holds the job has ended it.
            Err(RefreshError::LeaseLost) => return,
            Err(error) => ChildEnd::Failed(Failure {
                error_code: error.error_name().to_owned(),
                message: error.to_string(),
                detail: None,
                hint: None,
                sqlstate: None,
            }),
        };
        let ended = self.catalog.end_child(self.id, self.epoch, end, crate::clock::now()).await;
        ended.map_or_else(|error| unsaid(&error), drop);
    }

    /// The progress object, of this part of the work only.
    fn progress(&self, base: &Sample, sample: &Sample) -> Value {
        let rows_planned = base.rows_remaining + base.rows_retained;
        let rows_published = sample.rows_published - base.rows_published;
        json!({
            "rows_planned": rows_planned,
            "rows_computed": sample.rows_computed - base.rows_computed,
            "rows_skipped": sample.rows_skipped - base.rows_skipped,
            "rows_remaining": rows_planned.saturating_sub(rows_published + sample.rows_retained),
            "rows_published": rows_published,
            "rows_retained": sample.rows_retained,
            "active_workers": sample.active_workers,
            "sample_at_millis": crate::clock::now().timestamp_millis(),
            "execution_epoch": self.epoch.0,
        })
    }
}

fn unsaid(error: &CatalogError) {
    tracing::warn!(%error, "a part of a refresh is not shown");
}
