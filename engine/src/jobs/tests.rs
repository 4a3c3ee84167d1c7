use std::collections::HashMap;
use std::sync::Mutex;

use futures::future::BoxFuture;
use lancegate_catalog::{CancelOutcome, Failure, JobId, JobKind, JobState, PauseOutcome};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;

use super::work::WorkError;
use super::*;
use crate::refresh::Progress;
use crate::session::{CancelReason, StatementContext};

/// Work that does what its job's document says.
#[derive(Debug, Default)]
struct Script {
    begun: Notify,
    epochs: Mutex<HashMap<JobId, Vec<u64>>>,
}

impl Work for Script {
    fn run<'a>(&'a self, job: &'a Job, progress: Arc<Progress>) -> BoxFuture<'a, Result<Value, WorkError>> {
        Box::pin(async move {
            self.epochs.lock().unwrap().entry(job.id).or_default().push(job.epoch.0);
            self.begun.notify_one();
            match job.spec.as_str() {
                Some("succeed") => Ok(json!({"rows_failed": 0})),
                Some("fail") => Err(WorkError::Failed(Failure {
                    error_code: "EvaluationError".into(),
                    message: "division by zero".into(),
                    detail: None,
                    hint: None,
                    sqlstate: Some("22012".into()),
                })),
                Some("panic") => panic!("a bug"),
                Some("until stopped") => {
                    progress.stopped().await;
                    Err(WorkError::Stopped)
                }
                other => panic!("no script for {other:?}"),
            }
        })
    }
}

struct Runner {
    jobs: Jobs,
    script: Arc<Script>,
    catalog: Catalog,
    metrics: Arc<Metrics>,
    folder: TempDir,
}

impl Runner {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::start_in(folder).await
    }

    async fn start_in(folder: TempDir) -> Self {
        let catalog = Catalog::open_sqlite(&folder.path().join("metadata.db")).await.unwrap();
        let script = Arc::new(Script::default());
        let work = Arc::clone(&script);
        let here = Handle::current();
        let config = JobsConfig { active_max: 2, retained_runs_max: 2, ..JobsConfig::default() };
        let metrics = Arc::new(Metrics::new());
        let parts = JobsParts {
            catalog: catalog.clone(),
            store: Store::new(folder.path().to_str().unwrap()).unwrap(),
            io: here.clone(),
            compute: here,
            config,
            metrics: Arc::clone(&metrics),
            functions: crate::refresh::FunctionHost::none(),
        };
        let jobs = Jobs::start_with(work, parts).await.unwrap();
        Self { jobs, script, catalog, metrics, folder }
    }

    async fn submit(&self, script: &str) -> JobId {
        let mut job = NewJob::new(JobKind::ComputedRefresh, "lancegate", "docs", "ann");
        job.spec = json!(script);
        self.jobs.submit(job).await.unwrap().id
    }

    async fn submit_and_await_begin(&self, script: &str) -> JobId {
        let id = self.submit(script).await;
        self.script.begun.notified().await;
        id
    }

    async fn ended(&self, id: JobId) -> Job {
        self.jobs.wait_until(id, &CancellationToken::new()).await.unwrap().unwrap()
    }

    async fn in_state(&self, id: JobId, state: JobState) -> Job {
        let mut changes = self.catalog.subscribe();
        loop {
            let job = self.catalog.job(id).await.unwrap().unwrap();
            if job.status.state == state {
                return job;
            }
            while changes.recv().await.unwrap().job_id != id {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submitted_job_runs_at_once_and_keeps_its_result() {
    let runner = Runner::start().await;
    let job = runner.submit("succeed").await;
    let job = runner.ended(job).await;
    assert_eq!(job.status.state, JobState::Succeeded);
    assert_eq!(job.result, Some(json!({"rows_failed": 0})));
    let shown = progress::shown(&job).unwrap();
    assert_eq!(
        (&shown["state"], &shown["rows_failed"], &shown["execution_epoch"]),
        (&json!("succeeded"), &json!(0), &json!(1))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_recorded_with_its_name_and_code() {
    let runner = Runner::start().await;
    let job = runner.submit("fail").await;
    let job = runner.ended(job).await;
    let failure = job.failure.unwrap();
    assert_eq!(job.status.state, JobState::Failed);
    assert_eq!((failure.error_code.as_str(), failure.sqlstate.as_deref()), ("EvaluationError", Some("22012")));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_job_is_counted_once_by_its_state() {
    let runner = Runner::start().await;
    for script in ["succeed", "fail"] {
        let job = runner.submit(script).await;
        runner.ended(job).await;
    }
    let canceled = runner.submit_and_await_begin("until stopped").await;
    let parked = runner.submit_and_await_begin("until stopped").await;
    runner.catalog.request_cancel(canceled, "bob", now()).await.unwrap();
    runner.ended(canceled).await;
    runner.catalog.request_pause(parked, "bob", now()).await.unwrap();
    runner.in_state(parked, JobState::Paused).await;
    let expected = [
        "gateway_jobs_finished_total{state=\"succeeded\"} 1",
        "gateway_jobs_finished_total{state=\"failed\"} 1",
        "gateway_jobs_finished_total{state=\"canceled\"} 1",
        "gateway_jobs{state=\"in_progress\"} 0",
        "gateway_jobs{state=\"paused\"} 1",
    ];
    let counted = || {
        let text = runner.metrics.encode().unwrap();
        expected.iter().all(|line| text.lines().any(|found| found == *line)).then_some(()).ok_or(text)
    };
    let until = tokio::time::Instant::now() + Duration::from_secs(10);
    while counted().is_err() && tokio::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    counted().unwrap();
}

#[test]
fn the_defaults_are_those_of_the_configuration() {
    let flag = ("--data".to_owned(), "data".to_owned(), "d".to_owned());
    let sources = crate::config::Sources { flags: vec![flag], ..Default::default() };
    let set = crate::config::Config::load(sources).unwrap();
    let from_configuration = JobsConfig {
        publish_fragments: set.column_refresh.publish_fragments,
        publish_interval: set.column_refresh.publish_interval.get(),
        auto: AutoConfig::new(&set.column_refresh, set.jobs.max_active),
        ..JobsConfig::from(&set.jobs)
    };
    assert_eq!(format!("{from_configuration:?}"), format!("{:?}", JobsConfig::default()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_the_job_and_not_the_runner() {
    let runner = Runner::start().await;
    let job = runner.submit("panic").await;
    let job = runner.ended(job).await;
    let failure = job.failure.unwrap();
    assert_eq!((failure.message.as_str(), failure.sqlstate.as_deref()), ("internal error", Some("XX000")));
    let next = runner.submit("succeed").await;
    assert_eq!(runner.ended(next).await.status.state, JobState::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_the_running_attempt() {
    let runner = Runner::start().await;
    let job = runner.submit_and_await_begin("until stopped").await;
    assert_eq!(runner.catalog.request_cancel(job, "bob", now()).await.unwrap(), CancelOutcome::Requested);
    assert_eq!(runner.ended(job).await.status.state, JobState::Canceled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_job_parks_and_goes_on_in_a_new_attempt() {
    let runner = Runner::start().await;
    let job = runner.submit_and_await_begin("until stopped").await;
    assert_eq!(runner.catalog.request_pause(job, "bob", now()).await.unwrap(), PauseOutcome::Pausing);
    let parked = runner.in_state(job, JobState::Paused).await;
    assert_eq!(progress::shown(&parked), None, "a parked job shows no sample");
    runner.catalog.resume(job, "bob", now()).await.unwrap();
    runner.script.begun.notified().await;
    runner.catalog.request_cancel(job, "bob", now()).await.unwrap();
    runner.ended(job).await;
    assert_eq!(runner.script.epochs.lock().unwrap()[&job], [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_runner_gives_its_jobs_back_and_the_next_one_finishes_them() {
    let runner = Runner::start().await;
    let job = runner.submit_and_await_begin("until stopped").await;
    assert!(runner.jobs.stop(Duration::from_secs(30)).await);
    assert_eq!(runner.catalog.job(job).await.unwrap().unwrap().status.state, JobState::Queued);
    runner.catalog.close().await;
    let next = Runner::start_in(runner.folder).await;
    next.script.begun.notified().await;
    next.catalog.request_cancel(job, "bob", now()).await.unwrap();
    assert_eq!(next.ended(job).await.epoch.0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_a_process_that_was_killed_is_claimed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open_sqlite(&folder.path().join("metadata.db")).await.unwrap();
    let mut new = NewJob::new(JobKind::ComputedRefresh, "lancegate", "docs", "ann");
    new.spec = json!("succeed");
    let job = catalog.submit(new, now()).await.unwrap().id;
    let killed = GatewayId::new(now());
    catalog.claim(job, &killed, Duration::from_secs(3_600), now()).await.unwrap();
    catalog.close().await;
    let runner = Runner::start_in(folder).await;
    let job = runner.ended(job).await;
    assert_eq!((job.status.state, job.attempt), (JobState::Succeeded, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn hand_03_the_store_of_retained_runs_is_full_at_its_bound() {
    let runner = Runner::start().await;
    assert!(!runner.jobs.retained_full().await.unwrap());
    let first = runner.submit_and_await_begin("until stopped").await;
    assert!(!runner.jobs.retained_full().await.unwrap());
    runner.submit_and_await_begin("until stopped").await;
    assert!(runner.jobs.retained_full().await.unwrap());
    runner.catalog.request_cancel(first, "bob", now()).await.unwrap();
    runner.ended(first).await;
    assert!(!runner.jobs.retained_full().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_canceled_leaves_the_job_alone() {
    let runner = Runner::start().await;
    let job = runner.submit_and_await_begin("until stopped").await;
    let canceled = StatementContext::new();
    canceled.cancel(CancelReason::User);
    assert_eq!(runner.jobs.wait(job, &canceled).await.unwrap(), None);
    let unknown = JobId::new(now());
    assert!(runner.jobs.wait(unknown, &StatementContext::new()).await.is_err());
    let (waiting, user) = (StatementContext::new(), StatementContext::new());
    let (ended, ()) = tokio::join!(runner.jobs.wait(job, &waiting), async { runner.jobs.end_waits() });
    assert_eq!((ended.unwrap(), waiting.error().code.as_str().to_owned()), (None, "57P01".to_owned()));
    user.cancel(CancelReason::User);
    assert_eq!(runner.jobs.wait(job, &user).await.unwrap(), None);
    assert_eq!(user.error().code.as_str(), "57014", "the first reason stays");
    assert_eq!(runner.catalog.job(job).await.unwrap().unwrap().status.state, JobState::InProgress);
}
