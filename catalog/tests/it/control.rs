//! Cancel, pause and resume.

use lancegate_catalog::{
    CancelOutcome, CatalogError, Control, JobState, NewEvent, PauseOutcome, ResumeOutcome, TableId,
};
use serde_json::json;

use crate::support::{LEASE, Store, at, gateway, refresh};

#[tokio::test]
async fn a_waiting_job_is_canceled_at_once_and_a_running_one_when_it_obeys() {
    let store = Store::new().await;
    let cancel = async |id| store.catalog.request_cancel(id, "bob", at(1)).await.unwrap();
    let waiting = store.catalog.submit(refresh("docs"), at(0)).await.unwrap();
    assert_eq!(cancel(waiting.id).await, CancelOutcome::Canceled);
    assert_eq!(cancel(waiting.id).await, CancelOutcome::AlreadyTerminal(JobState::Canceled));

    let running = store.running(refresh("docs")).await;
    assert_eq!(cancel(running.id).await, CancelOutcome::Requested);
    assert_eq!(cancel(running.id).await, CancelOutcome::Requested);
    assert_eq!(store.state(&running).await, JobState::InProgress);
    let asked = store.catalog.renew_lease(running.id, running.epoch, LEASE, at(2)).await.unwrap();
    assert_eq!(asked, Some(Control::Cancel));
    store.catalog.canceled(running.id, running.epoch, at(3)).await.unwrap();
    assert_eq!(
        store.history(&running).await,
        [
            "created: created",
            "queued: queued",
            "in_progress: claim",
            "in_progress: cancel requested",
            "canceled: canceled"
        ]
    );
    let events = store.catalog.events(running.id, 2).await.unwrap();
    assert_eq!([&events[0].emitted_by, &events[1].emitted_by], ["gw_1", "bob"]);
}

#[tokio::test]
async fn a_cancel_that_comes_too_late_does_not_undo_the_success() {
    let store = Store::new().await;
    let job = store.running(refresh("docs")).await;
    store.catalog.request_cancel(job.id, "bob", at(1)).await.unwrap();
    let done = store.catalog.complete(job.id, job.epoch, json!({}), at(2)).await.unwrap();
    assert_eq!(done.status.state, JobState::Succeeded);
}

#[tokio::test]
async fn pause_and_resume_answer_in_the_documented_words() {
    let store = Store::new().await;
    let job = store.running(refresh("docs")).await;
    let pause = async || store.catalog.request_pause(job.id, "bob", at(1)).await.unwrap();
    let resume = async || store.catalog.resume(job.id, "bob", at(1)).await.unwrap();

    assert_eq!(resume().await.as_str(), "not_paused");
    let in_phase = async |phase| {
        let sample = json!({});
        store.catalog.record_progress(job.id, job.epoch, phase, sample, at(1)).await.unwrap();
    };
    in_phase("committing").await;
    assert_eq!(pause().await.as_str(), "committing");
    in_phase("running").await;
    assert_eq!(pause().await, PauseOutcome::Pausing);
    assert_eq!(pause().await.as_str(), "pausing");
    assert_eq!(resume().await.as_str(), "still_pausing");
    let parked = store.catalog.paused(job.id, job.epoch, at(2)).await.unwrap();
    assert_eq!((parked.status.state, parked.phase.as_str()), (JobState::Paused, "paused"));
    assert_eq!(pause().await.as_str(), "already_paused");
    assert_eq!(store.catalog.claim_next(&gateway(), LEASE, at(99)).await.unwrap(), None);
    assert_eq!(resume().await, ResumeOutcome::Resumed);
    assert_eq!(store.state(&job).await, JobState::Queued);
    assert_eq!(pause().await, PauseOutcome::Paused);
}

#[tokio::test]
async fn what_has_ended_or_will_end_is_not_paused() {
    let store = Store::new().await;
    let job = store.running(refresh("docs")).await;
    store.catalog.request_cancel(job.id, "bob", at(1)).await.unwrap();
    let refused = async || {
        let error = store.catalog.request_pause(job.id, "bob", at(1)).await.unwrap_err();
        assert!(matches!(error, CatalogError::IllegalTransition { .. }), "{error}");
    };
    refused().await;
    store.catalog.canceled(job.id, job.epoch, at(2)).await.unwrap();
    refused().await;
    let error = store.catalog.paused(job.id, job.epoch, at(2)).await.unwrap_err();
    assert!(error.is_stale_epoch(), "{error}");
}

#[tokio::test]
async fn a_drain_that_fails_ends_parked_or_canceled() {
    let store = Store::new().await;
    let job = store.running(refresh("docs")).await;
    store.catalog.request_pause(job.id, "bob", at(1)).await.unwrap();
    let parked = store.catalog.release(job.id, job.epoch, at(2)).await.unwrap();
    assert_eq!(parked.status.state, JobState::Paused);

    let job = store.running(refresh("docs")).await;
    store.catalog.request_cancel(job.id, "bob", at(1)).await.unwrap();
    let canceled = store.catalog.release(job.id, job.epoch, at(2)).await.unwrap();
    assert_eq!(canceled.status.state, JobState::Canceled);
}

#[tokio::test]
async fn dropping_a_column_cancels_its_jobs_and_no_others() {
    let store = Store::new().await;
    let table = TableId::new(at(0));
    let job = |table: TableId, column: &str, branch: Option<&str>| {
        let mut new = refresh("docs");
        new.table_id = Some(table);
        new.column = Some(column.to_owned());
        new.branch = branch.map(str::to_owned);
        new
    };
    let queued = store.catalog.submit(job(table, "a", None), at(1)).await.unwrap();
    let running = store.running(job(table, "a", Some("dev"))).await;
    let other_column = store.catalog.submit(job(table, "b", None), at(3)).await.unwrap();
    let other_table = job(TableId::new(at(1)), "a", None);
    let other_table = store.catalog.submit(other_table, at(4)).await.unwrap();

    let cancel = async |column, branch| {
        let canceled = store.catalog.cancel_jobs_of(table, column, branch, "bob", at(5)).await;
        canceled.unwrap()
    };
    assert_eq!(cancel(Some("a"), Some("none")).await, []);
    assert_eq!(cancel(Some("c"), Some("main")).await, []);
    assert_eq!(
        cancel(Some("a"), None).await,
        [(running.id, CancelOutcome::Requested), (queued.id, CancelOutcome::Canceled)]
    );
    assert_eq!(store.state(&other_column).await, JobState::Queued);
    assert_eq!(cancel(None, Some("main")).await, [(other_column.id, CancelOutcome::Canceled)]);
    assert_eq!(cancel(None, None).await, [(running.id, CancelOutcome::Requested)]);
    assert_eq!(store.state(&other_column).await, JobState::Canceled);
    assert_eq!(store.state(&other_table).await, JobState::Queued);
}

#[tokio::test]
async fn runners_add_events_of_their_own() {
    let store = Store::new().await;
    let job = store.running(refresh("docs")).await;
    let event = NewEvent {
        emitted_by: "gw_1".to_owned(),
        worker: Some("worker-3".to_owned()),
        message: "claim_complete".to_owned(),
        details: Some(json!({ "rows_processed": 512 })),
    };
    store.catalog.append_event(job.id, event, at(7)).await.unwrap();
    let newest = store.catalog.events(job.id, 1).await.unwrap().remove(0);
    assert_eq!((newest.at, newest.worker.as_deref()), (at(7), Some("worker-3")));
    assert_eq!(newest.details, Some(json!({ "rows_processed": 512 })));
    store.catalog.record_queue_reason(job.id, Some("waiting".to_owned())).await.unwrap();
    assert_eq!(store.job(&job).await.queue_reason.as_deref(), Some("waiting"));
}
