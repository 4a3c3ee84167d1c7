//! Leases and fences.

use std::future::Future;

use lancegate_catalog::{AttemptEpoch, Catalog, CatalogError, Control, Failure, GatewayId, Job, JobState};
use serde_json::json;

use crate::support::{LEASE, Store, at, earlier, gateway, refresh};

fn failure() -> Failure {
    Failure {
        error_code: "WorkerLost".to_owned(),
        message: "worker 3 was killed".to_owned(),
        sqlstate: None,
        detail: None,
        hint: None,
    }
}

#[tokio::test]
async fn jobs_are_claimed_oldest_first_and_by_one_only() {
    let store = Store::new().await;
    let old = store.catalog.submit(refresh("old"), at(1)).await.unwrap();
    let new = store.catalog.submit(refresh("new"), at(2)).await.unwrap();
    let claimed = store.catalog.claim_next(&gateway(), LEASE, at(10)).await.unwrap().unwrap();
    assert_eq!(claimed.id, old.id);
    assert_eq!((claimed.epoch, claimed.attempt), (AttemptEpoch(1), 1));
    assert_eq!(claimed.gateway, Some(gateway()));
    assert_eq!(claimed.lease_expires_at, Some(at(40)));
    assert_eq!((claimed.started_at, claimed.phase.as_str()), (Some(at(10)), "starting"));
    assert_eq!(store.job(&old).await, claimed);
    let next = store.catalog.claim_next(&gateway(), LEASE, at(10)).await.unwrap().unwrap();
    assert_eq!(next.id, new.id);
    assert_eq!(store.catalog.claim_next(&gateway(), LEASE, at(10)).await.unwrap(), None);
    let error = store.catalog.claim(new.id, &gateway(), LEASE, at(10)).await.unwrap_err();
    assert!(matches!(error, CatalogError::IllegalTransition { .. }), "{error}");
}

#[tokio::test]
async fn an_expired_lease_is_taken_over_and_the_loser_is_fenced() {
    let store = Store::new().await;
    let first = store.running(refresh("docs")).await;
    store.catalog.renew_lease(first.id, first.epoch, LEASE, at(20)).await.unwrap();
    assert_eq!(store.catalog.claim_next(&gateway(), LEASE, at(49)).await.unwrap(), None);

    let other = GatewayId::from("gw_2".to_owned());
    let second = store.catalog.claim_next(&other, LEASE, at(50)).await.unwrap().unwrap();
    assert_eq!((second.epoch, second.attempt), (AttemptEpoch(2), 2));
    assert_eq!(second.started_at, Some(at(0)));
    let error = store.catalog.renew_lease(first.id, first.epoch, LEASE, at(51)).await.unwrap_err();
    assert!(
        matches!(error, CatalogError::StaleEpoch { given: AttemptEpoch(1), current: AttemptEpoch(2), .. }),
        "{error}"
    );
    assert_eq!(
        store.history(&first).await,
        ["created: created", "queued: queued", "in_progress: claim", "in_progress: take over"]
    );
}

/// Expects the refusal, and that it changed nothing.
async fn check_stale<T: std::fmt::Debug>(
    store: &Store,
    job: &Job,
    write: &str,
    call: impl Future<Output = Result<T, CatalogError>>,
) {
    let before = (store.job(job).await, store.history(job).await);
    let error = call.await.unwrap_err();
    assert!(error.is_stale_epoch(), "{write}: {error}");
    assert_eq!((store.job(job).await, store.history(job).await), before, "{write}");
}

async fn every_write_is_stale(store: &Store, job: &Job, epoch: AttemptEpoch) {
    let (catalog, id, now): (&Catalog, _, _) = (&store.catalog, job.id, at(5));
    check_stale(store, job, "renew", catalog.renew_lease(id, epoch, LEASE, now)).await;
    check_stale(store, job, "release", catalog.release(id, epoch, now)).await;
    let progress = catalog.record_progress(id, epoch, "running", json!({}), now);
    check_stale(store, job, "progress", progress).await;
    check_stale(store, job, "version", catalog.record_source_version(id, epoch, 7)).await;
    check_stale(store, job, "receipt", catalog.put_receipt(id, epoch, "k", json!(1))).await;
    check_stale(store, job, "receipts", catalog.delete_receipts(id, epoch)).await;
    check_stale(store, job, "receipt", catalog.delete_receipt(id, epoch, "k")).await;
    check_stale(store, job, "complete", catalog.complete(id, epoch, json!({}), now)).await;
    check_stale(store, job, "fail", catalog.fail(id, epoch, failure(), now)).await;
    check_stale(store, job, "time out", catalog.time_out(id, epoch, failure(), now)).await;
    check_stale(store, job, "retry", catalog.retry(id, epoch, failure(), now, now)).await;
    check_stale(store, job, "paused", catalog.paused(id, epoch, now)).await;
    let gone = Some("the table is gone".to_owned());
    check_stale(store, job, "canceled", catalog.canceled(id, epoch, gone, now)).await;
    assert_eq!(catalog.receipts(id).await.unwrap(), []);
}

#[tokio::test]
async fn every_write_of_a_stale_attempt_is_refused() {
    let store = Store::new().await;
    let job = store.running(refresh("docs")).await;
    every_write_is_stale(&store, &job, earlier(job.epoch)).await;
    every_write_is_stale(&store, &job, AttemptEpoch(job.epoch.0 + 1)).await;
    let released = store.catalog.release(job.id, job.epoch, at(1)).await.unwrap();
    assert_eq!(released.status.state, JobState::Queued);
    every_write_is_stale(&store, &job, job.epoch).await;
    let again = store.catalog.claim(job.id, &gateway(), LEASE, at(2)).await.unwrap();
    store.catalog.complete(job.id, again.epoch, json!({}), at(3)).await.unwrap();
    every_write_is_stale(&store, &job, again.epoch).await;
}

#[tokio::test]
async fn attempts_end_as_reported() {
    let store = Store::new().await;
    let result = json!({ "rows_assigned": 3 });
    let job = store.running(refresh("a")).await;
    let done = store.catalog.complete(job.id, job.epoch, result.clone(), at(9)).await.unwrap();
    assert_eq!((&done.status.state, done.result), (&JobState::Succeeded, Some(result)));
    assert_eq!((done.finished_at, done.lease_expires_at), (Some(at(9)), None));

    let job = store.running(refresh("b")).await;
    let failed = store.catalog.fail(job.id, job.epoch, failure(), at(9)).await.unwrap();
    assert_eq!((&failed.status.state, &failed.failure), (&JobState::Failed, &Some(failure())));
    assert_eq!(store.job(&job).await, failed);

    let job = store.running(refresh("c")).await;
    let late = store.catalog.time_out(job.id, job.epoch, failure(), at(9)).await.unwrap();
    assert_eq!(late.status.state, JobState::TimedOut);

    let job = store.running(refresh("d")).await;
    let gone = store.catalog.canceled(job.id, job.epoch, None, at(9)).await.unwrap();
    assert_eq!(gone.status.state, JobState::Canceled);
}

#[tokio::test]
async fn a_retry_waits_for_its_time() {
    let store = Store::new().await;
    let job = store.running(refresh("docs")).await;
    let waiting = store.catalog.retry(job.id, job.epoch, failure(), at(60), at(10)).await.unwrap();
    assert_eq!((waiting.status.state, waiting.failure), (JobState::Queued, Some(failure())));
    assert_eq!(store.catalog.claim_next(&gateway(), LEASE, at(59)).await.unwrap(), None);
    let again = store.catalog.claim_next(&gateway(), LEASE, at(60)).await.unwrap().unwrap();
    assert_eq!((again.attempt, again.not_before), (2, None));
}

#[tokio::test]
async fn receipts_outlive_the_attempt_that_wrote_them() {
    let mut store = Store::new().await;
    let job = store.running(refresh("docs")).await;
    let (id, epoch) = (job.id, job.epoch);
    store.catalog.put_receipt(id, epoch, "part/2", json!({ "rows": 2 })).await.unwrap();
    store.catalog.put_receipt(id, epoch, "part/1", json!({ "rows": 1 })).await.unwrap();
    store.catalog.put_receipt(id, epoch, "part/2", json!({ "rows": 3 })).await.unwrap();
    store.catalog.record_source_version(id, epoch, 41).await.unwrap();

    store.reopen().await;
    let again = store.catalog.claim_next(&gateway(), LEASE, at(100)).await.unwrap().unwrap();
    store.catalog.record_source_version(id, again.epoch, 50).await.unwrap();
    assert_eq!(store.job(&job).await.source_version, Some(41));
    let receipts = store.catalog.receipts(id).await.unwrap();
    let listed: Vec<_> = receipts.iter().map(|r| (r.key.as_str(), r.epoch, &r.value)).collect();
    assert_eq!(listed, [("part/1", epoch, &json!({ "rows": 1 })), ("part/2", epoch, &json!({ "rows": 3 }))]);
    assert!(store.catalog.delete_receipt(id, again.epoch, "part/1").await.unwrap());
    assert_eq!(store.catalog.delete_receipts(id, again.epoch).await.unwrap(), 1);
}

#[tokio::test]
async fn a_restart_takes_the_leases_of_the_dead_at_once() {
    let mut store = Store::new().await;
    let plain = store.running(refresh("plain")).await;
    let parked = store.running(refresh("parked")).await;
    let ended = store.running(refresh("ended")).await;
    let published = store.running(refresh("published")).await;
    store.catalog.request_pause(parked.id, "alice", at(1)).await.unwrap();
    store.catalog.request_cancel(ended.id, "alice", at(1)).await.unwrap();
    store.catalog.put_receipt(published.id, published.epoch, "intent", json!(1)).await.unwrap();
    store.catalog.request_cancel(published.id, "alice", at(1)).await.unwrap();

    store.reopen().await;
    assert_eq!(store.catalog.abandon_leases(at(2)).await.unwrap(), 4);
    assert_eq!(store.state(&plain).await, JobState::Queued);
    assert_eq!(store.state(&parked).await, JobState::Paused);
    assert_eq!(store.state(&ended).await, JobState::Canceled);
    let mut claimed = Vec::new();
    while let Some(job) = store.catalog.claim_next(&gateway(), LEASE, at(2)).await.unwrap() {
        claimed.push((job.id, job.status.requested));
    }
    claimed.sort_by_key(|(id, _)| *id);
    let mut expected = [(plain.id, None), (published.id, Some(Control::Cancel))];
    expected.sort_by_key(|(id, _)| *id);
    // What may be half published is handed out with the request pending.
    assert_eq!(claimed, expected);
}

#[tokio::test]
async fn a_restart_ends_the_rest_of_a_job() {
    let mut store = Store::new().await;
    let job = store.running(refresh("docs")).await;
    // Long before the clock was set back.
    store.catalog.retry(job.id, job.epoch, failure(), at(90_000), at(89_999)).await.unwrap();
    assert_eq!(store.catalog.claim_next(&gateway(), LEASE, at(2)).await.unwrap(), None);
    store.reopen().await;
    store.catalog.abandon_leases(at(2)).await.unwrap();
    let claimed = store.catalog.claim_next(&gateway(), LEASE, at(2)).await.unwrap();
    assert_eq!(claimed.map(|job| job.id), Some(job.id));
}

#[tokio::test]
async fn states_of_newer_software_are_shown_and_not_touched() {
    use sqlx::ConnectOptions;
    let store = Store::new().await;
    let job = store.running(refresh("docs")).await;
    let mut raw = sqlx::sqlite::SqliteConnectOptions::new().filename(store.path()).connect().await.unwrap();
    sqlx::query("UPDATE jobs SET state = 'hibernating'").execute(&mut raw).await.unwrap();

    assert_eq!(store.state(&job).await, JobState::Other("hibernating".to_owned()));
    assert_eq!(store.catalog.claim_next(&gateway(), LEASE, at(999)).await.unwrap(), None);
    let error = store.catalog.request_cancel(job.id, "alice", at(1)).await.unwrap_err();
    assert!(matches!(error, CatalogError::IllegalTransition { .. }), "{error}");
    every_write_is_stale(&store, &job, job.epoch).await;
}
