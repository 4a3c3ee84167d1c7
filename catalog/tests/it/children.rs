//! Parts of a running job, and what one attempt tells the next about splits.

use std::collections::BTreeMap;

use lancegate_catalog::{AttemptEpoch, ChildEnd, Failure, FunctionVersion, JobFilter, JobKind, JobState, TableName};
use serde_json::json;

use crate::support::{LEASE, Store, at, gateway, refresh};

#[tokio::test]
async fn prog_07_a_part_lives_under_the_fence_of_the_attempt_that_made_it() {
    let store = Store::new().await;
    let parent = store.running(refresh("docs")).await;
    let mut changes = store.catalog.subscribe();
    let begin = |epoch, kind| store.catalog.begin_child(parent.id, epoch, kind, json!({ "round": 1 }), at(1));
    let stale = begin(AttemptEpoch(parent.epoch.0 + 1), JobKind::RefreshSplits).await.unwrap_err();
    assert!(stale.is_stale_epoch(), "{stale}");
    let child = begin(parent.epoch, JobKind::RefreshSplits).await.unwrap();
    assert_eq!((child.status.state.clone(), child.epoch, child.attempt), (JobState::InProgress, parent.epoch, 1));
    assert_eq!((child.table_id, child.column.as_deref()), (parent.table_id, parent.column.as_deref()));
    assert!(changes.recv().await.unwrap().child);
    let failed = begin(parent.epoch, JobKind::BuildEnvironment).await.unwrap();
    let lost = begin(parent.epoch, JobKind::RefreshSplits).await.unwrap();

    let catalog = &store.catalog;
    assert_eq!(catalog.active_jobs().await.unwrap().len(), 1, "a part is no job of its own");
    assert_eq!(catalog.unfinished(10).await.unwrap(), 1);
    assert_eq!(catalog.jobs(JobFilter::default()).await.unwrap().len(), 1);
    catalog.record_progress(child.id, child.epoch, "running", json!({ "rows_planned": 7 }), at(2)).await.unwrap();
    let ended = catalog.end_child(child.id, child.epoch, ChildEnd::Succeeded(json!({})), at(3)).await.unwrap();
    assert_eq!((ended.status.state, ended.phase.as_str()), (JobState::Succeeded, "finished"));
    let failure = Failure {
        error_code: "FunctionBuildError".into(),
        message: "no such package".into(),
        detail: None,
        hint: None,
        sqlstate: None,
    };
    let ended = catalog.end_child(failed.id, failed.epoch, ChildEnd::Failed(failure), at(4)).await.unwrap();
    assert_eq!(ended.status.state, JobState::Failed);

    // The attempt is lost: nobody runs its parts any more, and it can say nothing about them.
    let taken = catalog.claim(parent.id, &gateway(), LEASE, at(1_000)).await.unwrap();
    assert_eq!(store.state(&lost).await, JobState::Canceled);
    let late = catalog.end_child(lost.id, lost.epoch, ChildEnd::Canceled, at(1_001)).await.unwrap_err();
    assert!(late.is_stale_epoch(), "{late}");
    let again =
        catalog.begin_child(parent.id, taken.epoch, JobKind::RefreshSplits, json!({}), at(1_002)).await.unwrap();
    assert_eq!(again.attempt, 2);
    catalog.release(parent.id, taken.epoch, at(1_003)).await.unwrap();
    assert_eq!(store.state(&again).await, JobState::Canceled);
    assert_eq!(store.state(&parent).await, JobState::Queued);
}

#[tokio::test]
async fn parts_are_not_handed_out_after_a_restart() {
    let mut store = Store::new().await;
    let parent = store.running(refresh("docs")).await;
    let child =
        store.catalog.begin_child(parent.id, parent.epoch, JobKind::RefreshSplits, json!({}), at(1)).await.unwrap();
    store.reopen().await;
    store.catalog.abandon_leases(at(2)).await.unwrap();
    assert_eq!(store.state(&child).await, JobState::Canceled);
    let claimed = store.catalog.claim_next(&gateway(), LEASE, at(3)).await.unwrap().unwrap();
    assert_eq!(claimed.id, parent.id);
    assert_eq!(store.catalog.claim_next(&gateway(), LEASE, at(3)).await.unwrap(), None);
}

#[tokio::test]
async fn prog_08_what_was_begun_is_told_by_the_attempt_that_holds_the_job_only() {
    let store = Store::new().await;
    let job = store.running(refresh("docs")).await;
    assert_eq!(store.catalog.begun(job.id).await.unwrap(), BTreeMap::new());
    let begun = BTreeMap::from([(3, 1), (17, 2)]);
    store.catalog.note_begun(job.id, job.epoch, begun.clone()).await.unwrap();
    let newer = AttemptEpoch(job.epoch.0 + 1);
    assert!(store.catalog.note_begun(job.id, newer, BTreeMap::new()).await.unwrap_err().is_stale_epoch());
    assert_eq!(store.catalog.begun(job.id).await.unwrap(), begun);
    store.catalog.note_begun(job.id, job.epoch, BTreeMap::new()).await.unwrap();
    assert_eq!(store.catalog.begun(job.id).await.unwrap(), BTreeMap::new());
}

#[tokio::test]
async fn an_attempt_that_lost_its_job_adds_no_version_and_the_next_one_adds_one_only() {
    let store = Store::new().await;
    let job = store.running(refresh("docs")).await;
    let version = || FunctionVersion {
        name: TableName { database: "db".into(), namespace: vec![], name: "f".into() },
        version: 0,
        definition: json!({ "source": "def f(x): return x" }),
        owner: "alice".into(),
        disabled: false,
        created_at: at(5),
    };
    assert_eq!(store.catalog.add_function_of(job.id, job.epoch, version()).await.unwrap(), 1);
    let taken = store.catalog.claim(job.id, &gateway(), LEASE, at(1_000)).await.unwrap();
    let stale = store.catalog.add_function_of(job.id, job.epoch, version()).await.unwrap_err();
    assert!(stale.is_stale_epoch(), "{stale}");
    assert_eq!(store.catalog.add_function_of(job.id, taken.epoch, version()).await.unwrap(), 1, "it is there");
    assert_eq!(store.catalog.functions("db").await.unwrap().len(), 1);
    // The same definition from before the job is another version.
    let later = store.catalog.submit(refresh("other"), at(2_000)).await.unwrap();
    let later = store.catalog.claim(later.id, &gateway(), LEASE, at(2_000)).await.unwrap();
    let again = FunctionVersion { created_at: at(2_001), ..version() };
    assert_eq!(store.catalog.add_function_of(later.id, later.epoch, again).await.unwrap(), 2);
}
