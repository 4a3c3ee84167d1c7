//! Cancel, pause and resume.

use lancegate_catalog::{
    AttemptEpoch, CancelOutcome, CatalogError, Control, JobId, JobState, NewEvent, ObjectChange, PauseOutcome, Receipt,
    ResumeOutcome, TableId,
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
    store.catalog.canceled(running.id, running.epoch, None, at(3)).await.unwrap();
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
    store.catalog.canceled(job.id, job.epoch, None, at(2)).await.unwrap();
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
async fn a_key_cancels_its_jobs_and_no_others_and_the_events_say_why() {
    let store = Store::new().await;
    let job = |key: &str| {
        let mut new = refresh("docs");
        new.exclusive_key = Some(key.to_owned());
        new
    };
    let queued = store.catalog.submit(job("a"), at(1)).await.unwrap();
    let running = store.running(job("b")).await;
    let other = store.catalog.submit(job("c"), at(3)).await.unwrap();
    let cancel = async |keys: &[&str]| {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        store.catalog.cancel_exclusive(keys, "bob", "column \"x\" was dropped", at(5)).await.unwrap()
    };
    assert_eq!(cancel(&["nothing"]).await, []);
    let expected = [(queued.id, CancelOutcome::Canceled), (running.id, CancelOutcome::Requested)];
    assert_eq!(cancel(&["a", "b"]).await, expected);
    assert_eq!(store.state(&other).await, JobState::Queued);
    assert_eq!(store.history(&queued).await.last().unwrap(), "canceled: canceled: column \"x\" was dropped");
    assert_eq!(
        store.history(&running).await.last().unwrap(),
        "in_progress: cancel requested: column \"x\" was dropped"
    );
}

#[tokio::test]
async fn a_dropped_table_takes_its_jobs_with_it_and_a_failed_drop_does_not() {
    let store = Store::new().await;
    store.catalog.create_database(crate::support::database("db")).await.unwrap();
    let table = crate::support::table("docs");
    store.catalog.create_table(table.clone()).await.unwrap();
    let job = |table: TableId| {
        let mut new = refresh("docs");
        new.table_id = Some(table);
        new
    };
    let queued = store.catalog.submit(job(table.id), at(1)).await.unwrap();
    let other = store.catalog.submit(job(TableId::new(at(1))), at(2)).await.unwrap();
    let drop = |id| ObjectChange::DropTable { id };
    let failed =
        store.catalog.apply_with_jobs(vec![drop(table.id), drop(TableId::new(at(2)))], vec![], "bob", at(3)).await;
    assert!(failed.is_err());
    assert_eq!(store.state(&queued).await, JobState::Queued);
    assert!(store.catalog.table_by_id(table.id).await.unwrap().is_some());
    let dropped = store.catalog.apply_with_jobs(vec![drop(table.id)], vec![], "bob", at(4)).await.unwrap();
    assert_eq!(dropped, [(queued.id, CancelOutcome::Canceled)]);
    assert_eq!(store.state(&other).await, JobState::Queued);
    assert_eq!(store.catalog.table_by_id(table.id).await.unwrap(), None);
}

#[tokio::test]
async fn a_part_belongs_to_one_job_until_it_is_published_or_given_up() {
    let store = Store::new().await;
    let job = |key: &str| {
        let mut new = refresh("docs");
        new.exclusive_key = Some(key.to_owned());
        new
    };
    let parts = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), json!(*name))).collect::<Vec<_>>();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let catalog = &store.catalog;
    let first = store.running(job("a")).await;
    assert_eq!(catalog.note_parts(first.id, first.epoch, parts(&["p", "q", "r", "s"])).await.unwrap(), None);
    catalog.parts_published(first.id, first.epoch, names(&["p"]), vec![], at(3)).await.unwrap();
    assert_eq!(catalog.reusable_parts(first.id).await.unwrap(), [], "its own are not left over");
    catalog.request_cancel(first.id, "bob", at(2)).await.unwrap();
    let asked = catalog.note_parts(first.id, first.epoch, Vec::new()).await.unwrap();
    assert_eq!(asked, Some(Control::Cancel));
    catalog.canceled(first.id, first.epoch, None, at(3)).await.unwrap();

    let other = store.running(job("b")).await;
    assert_eq!(catalog.reusable_parts(other.id).await.unwrap(), [], "of another column");
    let second = store.running(job("a")).await;
    let left: Vec<_> = catalog.reusable_parts(second.id).await.unwrap().into_iter().map(|part| part.key).collect();
    assert_eq!(left, ["q", "r", "s"]);
    let taken = catalog.take_parts(second.id, second.epoch, names(&["p", "q", "r"])).await.unwrap();
    assert_eq!(taken, ["q", "r"]);
    assert_eq!(catalog.receipts(first.id).await.unwrap().len(), 2);

    assert_eq!(catalog.left_parts(at(3)).await.unwrap(), [], "too young, or of a running job");
    let shown = |parts: Vec<(JobId, Receipt)>| parts.into_iter().map(|(job, part)| (job, part.key)).collect::<Vec<_>>();
    assert_eq!(shown(catalog.left_parts(at(100)).await.unwrap()), [(first.id, "s".to_owned())]);
    let both = || vec![(first.id, "s".to_owned()), (first.id, "q".to_owned()), (second.id, "r".to_owned())];
    assert_eq!(catalog.give_up_parts(both(), at(3)).await.unwrap(), 0, "too young, or of a running job");
    assert_eq!(catalog.give_up_parts(both(), at(100)).await.unwrap(), 1, "what another job took is its own");
    assert_eq!(shown(catalog.given_up_parts().await.unwrap()), [(first.id, "s".to_owned())]);
    assert_eq!(catalog.reusable_parts(second.id).await.unwrap(), []);
    let noted: std::collections::BTreeSet<_> = catalog.unpublished_files().await.unwrap().into_iter().collect();
    assert_eq!(noted.into_iter().collect::<Vec<_>>(), ["q", "r", "s"]);
    catalog.forget_part(first.id, "s", false).await.unwrap();
    assert_eq!(catalog.given_up_parts().await.unwrap(), []);
    assert_eq!(catalog.unpublished_files().await.unwrap().len(), 2);
}

/// J13: each message of an attempt may come twice, in any order.
#[tokio::test]
async fn j13_a_message_that_comes_twice_has_no_effect_the_second_time() {
    let store = Store::new().await;
    let catalog = &store.catalog;
    let job = store.running(refresh("docs")).await;
    let (id, epoch) = (job.id, job.epoch);
    let part = |value: i64| vec![("p".to_owned(), json!(value))];
    let names = || vec!["p".to_owned()];
    let receipts = || async { catalog.receipts(id).await.unwrap() };
    catalog.note_parts(id, epoch, part(1)).await.unwrap();
    let noted = receipts().await;
    catalog.note_parts(id, epoch, part(2)).await.unwrap();
    assert_eq!(receipts().await, noted, "a note");
    catalog.parts_published(id, epoch, names(), vec![], at(3)).await.unwrap();
    let published = receipts().await;
    assert_eq!(published.len(), 1);
    catalog.parts_published(id, epoch, names(), vec![], at(3)).await.unwrap();
    assert_eq!(receipts().await, published, "a publication");
    catalog.note_parts(id, epoch, part(1)).await.unwrap();
    assert_eq!(receipts().await, published, "a note after the publication");
    catalog.record_source_version(id, epoch, 7).await.unwrap();
    catalog.record_source_version(id, epoch, 8).await.unwrap();
    assert_eq!(store.job(&job).await.source_version, Some(7), "a pin");
    for _ in 0..2 {
        catalog.record_progress(id, epoch, "running", json!({ "rows_computed": 1 }), at(3)).await.unwrap();
        catalog.renew_lease(id, epoch, std::time::Duration::from_secs(30), at(3)).await.unwrap();
    }
    let phases = catalog.events(id, 100).await.unwrap().into_iter().filter(|event| event.message == "phase").count();
    assert_eq!(phases, 1, "a sample");
    catalog.complete(id, epoch, json!({ "rows": 1 }), at(4)).await.unwrap();
    let (ended, events) = (store.job(&job).await, catalog.events(id, 100).await.unwrap());
    assert!(catalog.complete(id, epoch, json!({ "rows": 2 }), at(5)).await.unwrap_err().is_stale_epoch());
    let failure = lancegate_catalog::Failure {
        error_code: "X".to_owned(),
        message: "x".to_owned(),
        detail: None,
        hint: None,
        sqlstate: None,
    };
    assert!(catalog.fail(id, epoch, failure, at(5)).await.unwrap_err().is_stale_epoch());
    assert!(catalog.note_parts(id, epoch, part(3)).await.unwrap_err().is_stale_epoch());
    assert!(catalog.parts_published(id, epoch, names(), vec![], at(3)).await.unwrap_err().is_stale_epoch());
    assert_eq!((store.job(&job).await, catalog.events(id, 100).await.unwrap()), (ended, events), "an end");
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
    store.catalog.append_event(job.id, job.epoch, event.clone(), at(7)).await.unwrap();
    let newer = AttemptEpoch(job.epoch.0 + 1);
    let stale = store.catalog.append_event(job.id, newer, event.clone(), at(8)).await.unwrap_err();
    assert!(stale.is_stale_epoch(), "{stale}");
    let newest = store.catalog.events(job.id, 1).await.unwrap().remove(0);
    assert_eq!((newest.at, newest.worker.as_deref()), (at(7), Some("worker-3")));
    assert_eq!(newest.details, Some(json!({ "rows_processed": 512 })));
    store.catalog.record_queue_reason(job.id, Some("waiting".to_owned())).await.unwrap();
    assert_eq!(store.job(&job).await.queue_reason.as_deref(), Some("waiting"));
    store.catalog.complete(job.id, job.epoch, json!({}), at(9)).await.unwrap();
    let ended = store.catalog.append_event(job.id, job.epoch, event, at(10)).await.unwrap_err();
    assert!(ended.is_stale_epoch(), "{ended}");
    assert_eq!(store.catalog.events(job.id, 1).await.unwrap()[0].at, at(9));
}
