//! Running jobs: claims, leases, progress, waiting and the sweep of old ones.
//!
//! The catalog owns what a job *is* and decides every change of its state; this
//! module owns what a job *does* in this process. It parses no SQL: a job's work
//! is a typed document that was checked before the job existed. What the document
//! says that its user needs is decided anew at each claim ([`rights`]).
//!
//! One task per claimed job ([`attempt`]) lives on the I/O runtime and keeps the
//! lease alive; the work itself runs on the compute runtime, so that a batch
//! that computes for a second delays no renewal.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lancegate_catalog::{AttemptEpoch, Catalog, CatalogError, GatewayId, Job, JobId, NewJob, RetentionPolicy};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::now;
use crate::metrics::Metrics;
use crate::refresh::splits::Task;
use crate::refresh::{FunctionHost, Limits, Progress};
use crate::storage::Store;

mod attempt;
pub mod auto;
pub mod capacity;
pub mod creation;
pub mod garbage;
pub mod profile;
pub mod progress;
mod retention;
pub(crate) mod rights;
mod runner;
mod tally;
pub(crate) mod verdict;
mod wait;
pub(crate) mod work;

use self::auto::{AutoConfig, Preparations};
use self::capacity::Capacity;
use self::tally::Tally;
use self::work::{RefreshWork, Views, ViewsSlot, Work};

/// Bounds of the runner.
#[derive(Debug, Clone)]
pub struct JobsConfig {
    /// How long a claim holds without a renewal.
    pub lease: Duration,
    /// Attempts that run at the same time.
    pub active_max: usize,
    /// Unfinished jobs beyond which a refresh is answered only when it has ended.
    pub retained_runs_max: usize,
    /// How long ended jobs are kept.
    pub retention: Duration,
    /// How long events are kept.
    pub event_retention: Duration,
    /// How long is kept what succeeded refreshes of Function columns have used.
    pub metering_retention: Duration,
    /// Unfinished jobs of one user beyond which another one is refused; zero is no limit.
    pub user_unfinished_max: u32,
    /// How often what is old, and what refreshes have left, is looked for.
    pub sweep_interval: Duration,
    /// How long one attempt may run; zero is no limit (LONG-04).
    pub execution_limit: Duration,
    /// The longest time between two samples of a running job.
    pub progress_interval: Duration,
    /// The shortest time between two notices to a client that waits.
    pub notice_interval: Duration,
    /// Workers of one refresh that does not say how many.
    pub workers_max: usize,
    /// See [`Limits::publish_fragments`].
    pub publish_fragments: usize,
    /// See [`Limits::publish_interval`].
    pub publish_interval: Duration,
    /// How refreshes run that nobody asks for.
    pub auto: AutoConfig,
}

impl Default for JobsConfig {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            lease: Duration::from_secs(30),
            active_max: 4,
            retained_runs_max: 1_000,
            retention: 30 * DAY,
            event_retention: 14 * DAY,
            metering_retention: 365 * DAY,
            user_unfinished_max: 10_000,
            sweep_interval: DAY,
            execution_limit: Duration::ZERO,
            progress_interval: Duration::from_secs(30),
            notice_interval: Duration::from_secs(5),
            workers_max: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            publish_fragments: 100,
            publish_interval: Duration::from_secs(5),
            auto: AutoConfig::default(),
        }
    }
}

impl From<&crate::config::JobsConfig> for JobsConfig {
    /// Takes what an operator can set; the rest keeps its default.
    fn from(set: &crate::config::JobsConfig) -> Self {
        Self {
            lease: set.lease.get(),
            active_max: set.max_active,
            retained_runs_max: set.retained_runs_max,
            retention: set.retention.get(),
            event_retention: set.event_retention.get(),
            metering_retention: set.metering_retention.get(),
            user_unfinished_max: set.user_unfinished_max,
            sweep_interval: set.sweep_interval.get(),
            execution_limit: set.execution_limit.get(),
            notice_interval: set.notice_interval.get(),
            ..Self::default()
        }
    }
}

impl JobsConfig {
    fn policy(&self) -> RetentionPolicy {
        RetentionPolicy { jobs: self.retention, events: self.event_retention, metering: self.metering_retention }
    }

    fn limits(&self) -> Limits {
        Limits {
            workers: self.workers_max,
            publish_fragments: self.publish_fragments,
            publish_interval: self.publish_interval,
        }
    }
}

/// What the runner is built from.
#[derive(Debug)]
pub struct JobsParts {
    /// The registry.
    pub catalog: Catalog,
    /// The tables.
    pub store: Store,
    /// Runs claims, leases and samples.
    pub io: Handle,
    /// Runs the work.
    pub compute: Handle,
    /// Bounds.
    pub config: JobsConfig,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where Functions run.
    pub functions: FunctionHost,
}

/// The runner of jobs. Clones are one runner.
#[derive(Clone)]
pub struct Jobs {
    inner: Arc<Inner>,
    views: ViewsSlot,
}

struct Inner {
    catalog: Catalog,
    store: Store,
    gateway: GatewayId,
    config: JobsConfig,
    metrics: Arc<Metrics>,
    work: Arc<dyn Work>,
    io: Handle,
    compute: Handle,
    /// A permit for each attempt that may run.
    slots: Arc<Semaphore>,
    /// Automatic refreshes that could not be submitted.
    preparations: Preparations,
    /// What the attempts of this process do, by their jobs.
    running: Mutex<HashMap<JobId, (AttemptEpoch, Arc<Progress>)>>,
    /// Fires when no statement is to wait for a job any more.
    waits_over: CancellationToken,
    /// Fires when nothing is to be claimed any more and attempts are to end.
    stopping: CancellationToken,
    tasks: TaskTracker,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("gateway", &self.inner.gateway).finish_non_exhaustive()
    }
}

impl Jobs {
    /// Starts to run jobs, first of all those that an earlier process held when
    /// it ended: the store is open in this process only, so nobody holds them now.
    ///
    /// # Errors
    /// If the registry cannot be written.
    pub async fn start(parts: JobsParts) -> Result<Self, CatalogError> {
        let views = ViewsSlot::default();
        let (catalog, store, functions) = (parts.catalog.clone(), parts.store.clone(), parts.functions.clone());
        let work = RefreshWork::new(catalog, store, &parts.config, functions, views.clone());
        let started = Self::start_with(Arc::new(work), parts).await?;
        Ok(Self { views, ..started })
    }

    /// Takes what refreshes materialized views; their jobs wait for it.
    pub(crate) fn attach(&self, views: Arc<dyn Views>) {
        self.views.fill(views);
    }

    async fn start_with(work: Arc<dyn Work>, parts: JobsParts) -> Result<Self, CatalogError> {
        let JobsParts { catalog, store, io, compute, config, metrics, .. } = parts;
        let abandoned = catalog.abandon_leases(now()).await?;
        if abandoned > 0 {
            tracing::info!(jobs = abandoned, "jobs of an earlier process go on");
        }
        let slots = Arc::new(Semaphore::new(config.active_max.max(1)));
        let inner = Arc::new(Inner {
            slots,
            catalog,
            store,
            gateway: GatewayId::new(now()),
            config,
            metrics,
            work,
            io,
            compute,
            preparations: Preparations::default(),
            running: Mutex::default(),
            waits_over: CancellationToken::new(),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        let tally = Tally::start(&inner).await?;
        inner.tasks.spawn_on(tally.run(Arc::clone(&inner)), &inner.io);
        inner.tasks.spawn_on(runner::run(Arc::clone(&inner)), &inner.io);
        inner.tasks.spawn_on(retention::run(Arc::clone(&inner)), &inner.io);
        Ok(Self { inner, views: ViewsSlot::default() })
    }

    /// Records a job; a runner takes it at once if one is free. When this
    /// returns, the job is on disk.
    ///
    /// # Errors
    /// As [`Catalog::submit`].
    pub async fn submit(&self, job: NewJob) -> Result<Job, CatalogError> {
        self.inner.catalog.submit(self.limited(job), now()).await
    }

    /// Returns a job that is refused where its user has as many as anybody may have.
    pub fn limited(&self, job: NewJob) -> NewJob {
        NewJob { unfinished_max: Some(self.inner.config.user_unfinished_max).filter(|max| *max > 0), ..job }
    }

    /// Returns whether so many jobs that somebody has asked for are unfinished that
    /// a new one is to be waited for instead of being handed out (HAND-03).
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub async fn retained_full(&self) -> Result<bool, CatalogError> {
        let max = self.inner.config.retained_runs_max;
        Ok(self.inner.catalog.unfinished(max).await? >= max)
    }

    /// Returns how many attempts may run here, and how many more may begin now.
    pub fn capacity(&self) -> Capacity {
        let slots = self.inner.config.active_max.max(1);
        Capacity { slots, available: self.inner.slots.available_permits() }
    }

    /// Returns the fragments that the running attempt of a job has planned and not
    /// noted yet; none if there is no such attempt here.
    pub fn tasks(&self, id: JobId) -> Option<(AttemptEpoch, BTreeMap<u64, Task>)> {
        let running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get(&id).map(|(epoch, progress)| (*epoch, progress.splits().tasks()))
    }

    /// Returns the bounds of one refresh.
    pub fn limits(&self) -> Limits {
        self.inner.config.limits()
    }

    /// Returns the shortest time between two notices to a client that waits.
    pub fn notice_interval(&self) -> Duration {
        self.inner.config.notice_interval
    }

    /// Returns how refreshes run that nobody asks for.
    pub fn auto(&self) -> &AutoConfig {
        &self.inner.config.auto
    }

    /// Returns which of them could not be submitted.
    pub fn preparations(&self) -> &Preparations {
        &self.inner.preparations
    }

    /// Returns how long events are kept.
    pub fn event_retention(&self) -> Duration {
        self.inner.config.event_retention
    }

    /// Stops: claims nothing more, lets attempts end at their next boundary and
    /// give their jobs back. What has not ended after `deadline` keeps its claim,
    /// which the next start takes over. Returns whether everything ended.
    pub async fn stop(&self, deadline: Duration) -> bool {
        self.inner.stopping.cancel();
        self.inner.tasks.close();
        let ended = tokio::time::timeout(deadline, self.inner.tasks.wait()).await.is_ok();
        if !ended {
            tracing::warn!(
                tasks = self.inner.tasks.len(),
                "attempts did not end in time; the next start takes them over"
            );
        }
        ended
    }
}

#[cfg(test)]
#[path = "jobs/tests.rs"]
mod tests;
