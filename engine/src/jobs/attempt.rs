//! One attempt: runs the work, keeps its lease, passes requests on, records
//! samples, and writes down how it ended.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use lancegate_catalog::{AttemptEpoch, Catalog, CatalogError, Control, Job, JobChange, JobId, JobState};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use super::progress::Sampler;
use super::verdict::{self, Ended, Stop, Verdict};
use super::work::WorkError;
use super::{Inner, JobsConfig, now};
use crate::failpoint;
use crate::refresh::Progress;

/// How often counters are looked at; most looks write nothing.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Runs one claimed job to the end of this attempt.
pub(super) async fn supervise(inner: Arc<Inner>, job: Job) {
    let span = tracing::info_span!("job", job_id = %job.id, kind = %job.kind, attempt = job.attempt);
    async {
        tracing::info!("attempt begins");
        let mut attempt = Attempt::new(inner, job);
        let _shown = Shown::new(&attempt);
        let ended = attempt.run().await;
        attempt.settle(ended).await;
    }
    .instrument(span)
    .await;
}

/// Lets others see what an attempt does, until it is dropped.
struct Shown {
    inner: Arc<Inner>,
    id: JobId,
    epoch: AttemptEpoch,
}

impl Shown {
    fn new(attempt: &Attempt) -> Self {
        let (inner, id, epoch) = (Arc::clone(&attempt.inner), attempt.job.id, attempt.job.epoch);
        let mut running = inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(id, (epoch, Arc::clone(&attempt.progress)));
        drop(running);
        Self { inner, id, epoch }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let mut running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        // A later attempt of the job may have begun.
        if running.get(&self.id).is_some_and(|(epoch, _)| *epoch == self.epoch) {
            running.remove(&self.id);
        }
    }
}

struct Attempt {
    inner: Arc<Inner>,
    job: Job,
    progress: Arc<Progress>,
    cancel: CancellationToken,
    stop: Option<Stop>,
    changes: Option<broadcast::Receiver<JobChange>>,
    renewals: Interval,
    begun: Instant,
    /// Begin of the last renewal that arrived.
    renewed: Instant,
    looks: Interval,
    sampler: Sampler,
    /// Rows that the metrics know of.
    rows_counted: u64,
    /// How long it may run.
    limit: Option<Duration>,
}

impl Attempt {
    fn new(inner: Arc<Inner>, job: Job) -> Self {
        let cancel = CancellationToken::new();
        Self {
            progress: Arc::new(Progress::of_gateway(cancel.clone(), inner.gateway.to_string())),
            cancel,
            stop: None,
            changes: Some(inner.catalog.subscribe()),
            renewals: every(inner.config.lease / 3),
            begun: Instant::now(),
            renewed: Instant::now(),
            looks: every(LOOK_INTERVAL),
            sampler: Sampler::new(job.epoch, inner.config.progress_interval),
            rows_counted: 0,
            limit: limit(&inner.config, &job),
            inner,
            job,
        }
    }

    async fn run(&mut self) -> Ended {
        // A request may have been made before this attempt listened.
        self.look_at_job().await;
        let mut work = self.spawn();
        loop {
            tokio::select! {
                joined = &mut work => return ended(joined),
                () = self.watch() => {}
            }
        }
    }

    fn spawn(&self) -> AbortOnDropHandle<Result<serde_json::Value, WorkError>> {
        let (work, job, progress) = (Arc::clone(&self.inner.work), self.job.clone(), Arc::clone(&self.progress));
        let task = async move { work.run(&job, progress).await }.in_current_span();
        AbortOnDropHandle::new(self.inner.compute.spawn(task))
    }

    /// Handles the next thing that happens beside the work. May be dropped at
    /// any point: registry calls run to their end by themselves.
    async fn watch(&mut self) {
        tokio::select! {
            _ = self.renewals.tick() => self.renew().await,
            _ = self.looks.tick() => self.look_at_counters().await,
            change = next_change(&mut self.changes) => self.heed(change).await,
            () = self.inner.stopping.cancelled(), if self.stop.is_none() => self.stop(Stop::Shutdown),
            () = tokio::time::sleep_until(self.begun + self.limit.unwrap_or_default()), if self.is_limited() => {
                self.stop(Stop::TimeLimit);
            }
        }
    }

    fn is_limited(&self) -> bool {
        self.limit.is_some() && self.stop.is_none_or(|earlier| earlier < Stop::TimeLimit)
    }

    /// Tells the work to stop; the reason of the highest rank counts.
    fn stop(&mut self, why: Stop) {
        if self.stop.is_none_or(|earlier| earlier < why) {
            tracing::info!(?why, "attempt is told to stop");
            self.stop = Some(why);
        }
        self.cancel.cancel();
    }

    async fn renew(&mut self) {
        let (begun, lease) = (Instant::now(), self.inner.config.lease);
        if let Err(error) = failpoint::reach("lease.renew").await {
            return tracing::warn!(%error, "cannot renew the lease");
        }
        let renewal = self.inner.catalog.renew_lease(self.job.id, self.job.epoch, lease, now());
        match tokio::time::timeout(lease / 3, renewal).await {
            Ok(Ok(request)) => {
                self.renewed = begun;
                self.obey(request);
            }
            Ok(Err(error)) if error.is_stale_epoch() => self.stop(Stop::LeaseLost),
            Ok(Err(error)) => tracing::warn!(%error, "cannot renew the lease"),
            Err(_) => tracing::warn!("renewing the lease takes too long"),
        }
        // Once the lease may run out before the next renewal arrives, another
        // attempt may begin; this one must have stopped by then.
        if self.renewed.elapsed() >= lease * 2 / 3 {
            self.stop(Stop::LeaseLost);
        }
    }

    fn obey(&mut self, request: Option<Control>) {
        match request {
            Some(Control::Cancel) => self.stop(Stop::Cancel),
            Some(Control::Pause) => self.stop(Stop::Pause),
            None => {}
        }
    }

    async fn heed(&mut self, change: Result<JobChange, RecvError>) {
        match change {
            Ok(change) if change.job_id != self.job.id => {}
            Ok(_) | Err(RecvError::Lagged(_)) => self.look_at_job().await,
            Err(RecvError::Closed) => self.changes = None,
        }
    }

    async fn look_at_job(&mut self) {
        match self.inner.catalog.job(self.job.id).await {
            Ok(Some(job)) if job.epoch == self.job.epoch && job.status.state == JobState::InProgress => {
                self.obey(job.status.requested);
            }
            Ok(_) => self.stop(Stop::LeaseLost),
            Err(error) => tracing::warn!(%error, "cannot read the job"),
        }
    }

    async fn look_at_counters(&mut self) {
        self.count_rows();
        if let Some(sample) = self.sampler.due(&self.progress, Instant::now(), now()) {
            self.record(sample.phase, sample.progress).await;
        }
    }

    fn count_rows(&mut self) {
        let computed = self.progress.sample().rows_computed;
        self.inner.metrics.refresh_rows_computed.inc_by(computed - self.rows_counted);
        self.rows_counted = computed;
    }

    async fn record(&mut self, phase: &'static str, progress: serde_json::Value) {
        let recorded = self.inner.catalog.record_progress(self.job.id, self.job.epoch, phase, progress, now());
        match recorded.await {
            Ok(()) => {}
            Err(error) if error.is_stale_epoch() => self.stop(Stop::LeaseLost),
            Err(error) => tracing::warn!(%error, "cannot record progress"),
        }
    }

    /// Records the end. If the registry does not take it, the lease runs out
    /// and another attempt finds the work done.
    async fn settle(mut self, ended: Ended) {
        self.count_rows();
        // The work may have heard of a request, from the registry, before us.
        if self.stop.is_none() && matches!(ended, Ended::Returned(Err(WorkError::Stopped))) {
            self.look_at_job().await;
        }
        let verdict = verdict::decide(ended, self.stop);
        tracing::info!(?verdict, "attempt ended");
        if verdict != Verdict::Leave {
            let last = self.sampler.last(&self.progress, now());
            self.record(last.phase, last.progress).await;
        }
        if let Err(error) = self.write_surely(verdict).await {
            if error.is_stale_epoch() {
                tracing::info!(%error, "the job is another attempt's");
            } else {
                tracing::error!(%error, "cannot record the end of an attempt");
            }
        }
    }

    /// Keeps the lease until the registry has taken the end, however long that takes: an attempt whose work is done is
    /// not to be taken over.
    async fn write_surely(&mut self, verdict: Verdict) -> Result<(), CatalogError> {
        let writing = record_end(Arc::clone(&self.inner), (self.job.id, self.job.epoch), verdict);
        tokio::pin!(writing);
        loop {
            tokio::select! {
                biased;
                written = &mut writing => return written,
                _ = self.renewals.tick() => self.renew().await,
            }
        }
    }
}

async fn record_end(
    inner: Arc<Inner>,
    (id, epoch): (JobId, AttemptEpoch),
    verdict: Verdict,
) -> Result<(), CatalogError> {
    if let Err(error) = failpoint::reach("end.before").await {
        tracing::error!(%error, "the end of an attempt is not recorded");
        return Ok(());
    }
    write(&inner.catalog, (id, epoch), verdict).await?;
    if let Err(error) = failpoint::reach("end.after").await {
        tracing::error!(%error, "the end of an attempt is recorded");
    }
    Ok(())
}

async fn write(catalog: &Catalog, (id, epoch): (JobId, AttemptEpoch), verdict: Verdict) -> Result<(), CatalogError> {
    match verdict {
        Verdict::Complete(result) => catalog.complete(id, epoch, result, now()).await.map(drop),
        Verdict::Retry(failure) => {
            let earlier = catalog.retries(id).await?;
            if earlier + 1 >= verdict::ATTEMPTS_MAX {
                return catalog.fail(id, epoch, failure, now()).await.map(drop);
            }
            let not_before = now() + verdict::rest(earlier, rand::random());
            catalog.retry(id, epoch, failure, not_before, now()).await.map(drop)
        }
        Verdict::Fail(failure) => catalog.fail(id, epoch, failure, now()).await.map(drop),
        Verdict::TimeOut(failure) => catalog.time_out(id, epoch, failure, now()).await.map(drop),
        Verdict::Cancel(why) => catalog.canceled(id, epoch, why, now()).await.map(drop),
        Verdict::Park => catalog.paused(id, epoch, now()).await.map(drop),
        Verdict::Release => catalog.release(id, epoch, now()).await.map(drop),
        Verdict::Leave => Ok(()),
    }
}

/// Nobody waits for an automatic refresh, so it always has a limit.
fn limit(config: &JobsConfig, job: &Job) -> Option<Duration> {
    let of_all = Some(config.execution_limit).filter(|limit| !limit.is_zero());
    let of_automatic = Some(config.auto.execution_limit).filter(|_| job.automatic);
    of_all.into_iter().chain(of_automatic).min()
}

fn ended(joined: Result<Result<serde_json::Value, WorkError>, tokio::task::JoinError>) -> Ended {
    match joined {
        Ok(returned) => Ended::Returned(returned),
        Err(error) => match error.try_into_panic() {
            Ok(payload) => Ended::Panicked(verdict::panic_message(payload.as_ref())),
            Err(_) => Ended::Aborted,
        },
    }
}

/// Ticks at `period`, the first time one period from now, and never in bursts.
fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Never completes once the registry has closed its channel.
async fn next_change(changes: &mut Option<broadcast::Receiver<JobChange>>) -> Result<JobChange, RecvError> {
    match changes {
        Some(changes) => changes.recv().await,
        None => std::future::pending().await,
    }
}
