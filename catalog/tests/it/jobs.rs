//! Submitting and listing.

use std::collections::HashSet;

use chrono::TimeDelta;
use lancegate_catalog::{CatalogError, EntityKind, JobFilter, JobKind, JobState, RetentionPolicy, Swept};
use serde_json::json;

use crate::support::{LEASE, Store, at, gateway, refresh};

#[tokio::test]
async fn a_submitted_job_is_read_back_whole() {
    let store = Store::new().await;
    let mut new = refresh("docs");
    new.namespace = vec!["team".to_owned(), "ml".to_owned()];
    new.column = Some("embedding".to_owned());
    new.branch = Some("dev".to_owned());
    new.spec = json!({ "expression": "x * 2", "order": [3, 1, 2] });
    let job = store.catalog.submit(new.clone(), at(5)).await.unwrap();

    assert_eq!(store.job(&job).await, job);
    assert_eq!(job.namespace, new.namespace);
    assert_eq!((&job.column, &job.branch), (&new.column, &new.branch));
    assert_eq!(job.spec, new.spec);
    assert_eq!((job.status.state.as_str(), job.phase.as_str()), ("queued", "queued"));
    assert_eq!((job.epoch.0, job.attempt, job.created_at), (0, 0, at(5)));
    assert_eq!(store.history(&job).await, ["created: created", "queued: queued"]);
}

#[tokio::test]
async fn one_unfinished_job_holds_an_exclusive_key() {
    let store = Store::new().await;
    let exclusive = || {
        let mut new = refresh("docs");
        new.exclusive_key = Some("tbl/main/embedding".to_owned());
        new
    };
    let first = store.catalog.submit(exclusive(), at(0)).await.unwrap();
    let error = store.catalog.submit(exclusive(), at(1)).await.unwrap_err();
    assert!(matches!(error, CatalogError::Busy { active } if active == first.id), "{error}");
    let mut other = exclusive();
    other.exclusive_key = Some("tbl/main/title".to_owned());
    store.catalog.submit(other, at(1)).await.unwrap();

    store.catalog.request_cancel(first.id, "alice", at(2)).await.unwrap();
    store.catalog.submit(exclusive(), at(3)).await.unwrap();
}

#[tokio::test]
async fn of_many_submissions_at_once_one_gets_the_key() {
    let store = Store::new().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let catalog = store.catalog.clone();
        let mut new = refresh("docs");
        new.exclusive_key = Some("k".to_owned());
        tasks.spawn(async move { catalog.submit(new, at(0)).await });
    }
    let mut submitted = HashSet::new();
    let mut busy = HashSet::new();
    for result in tasks.join_all().await {
        match result {
            Ok(job) => submitted.insert(job.id),
            Err(CatalogError::Busy { active }) => busy.insert(active),
            Err(error) => panic!("{error}"),
        };
    }
    assert_eq!(submitted.len(), 1);
    assert_eq!(busy, submitted);
}

#[tokio::test]
async fn an_idempotency_key_answers_with_the_first_job_for_a_day() {
    let store = Store::new().await;
    let keyed = |spec: i32| {
        let mut new = refresh("docs");
        new.idempotency_key = Some("request-1".to_owned());
        new.exclusive_key = Some("k".to_owned());
        new.spec = json!(spec);
        new
    };
    let first = store.catalog.submit(keyed(1), at(0)).await.unwrap();
    let again = store.catalog.submit(keyed(1), at(60)).await.unwrap();
    assert_eq!(again.id, first.id);
    let error = store.catalog.submit(keyed(2), at(60)).await.unwrap_err();
    assert!(matches!(error, CatalogError::IdempotencyConflict { job } if job == first.id));

    store.catalog.request_cancel(first.id, "alice", at(61)).await.unwrap();
    let mut of_bob = keyed(2);
    of_bob.submitted_by = "bob".to_owned();
    of_bob.exclusive_key = None;
    store.catalog.submit(of_bob, at(62)).await.unwrap();
    let next_day = store.catalog.submit(keyed(2), at(25 * 3_600)).await.unwrap();
    assert_ne!(next_day.id, first.id);
}

#[tokio::test]
async fn what_cannot_be_run_or_stored_is_not_submitted() {
    let store = Store::new().await;
    let mut new = refresh("docs");
    new.kind = JobKind::from("spfresh_merge");
    let error = store.catalog.submit(new, at(0)).await.unwrap_err();
    assert!(matches!(error, CatalogError::UnknownValue { .. }), "{error}");

    for component in ["", "a$b", "public"] {
        let mut new = refresh("docs");
        new.namespace = vec![component.to_owned()];
        let error = store.catalog.submit(new, at(0)).await.unwrap_err();
        assert!(matches!(error, CatalogError::InvalidName { .. }), "{component}: {error}");
    }
    assert_eq!(store.catalog.jobs(JobFilter::default()).await.unwrap(), []);
}

#[tokio::test]
async fn listings_are_newest_first_filtered_and_paged() {
    let store = Store::new().await;
    let mut ids = Vec::new();
    for number in 0..10 {
        let table = if number % 2 == 0 { "even" } else { "odd" };
        // Pairs share a creation time; the id decides.
        let job = store.catalog.submit(refresh(table), at(number / 2)).await.unwrap();
        ids.push((job.created_at, job.id));
    }
    ids.sort();
    ids.reverse();
    let newest: Vec<_> = ids.iter().map(|(_, id)| *id).collect();
    let list = async |filter: JobFilter| -> Vec<_> {
        store.catalog.jobs(filter).await.unwrap().into_iter().map(|job| job.cursor()).collect()
    };

    let mut paged = Vec::new();
    let mut filter = JobFilter { database: Some("db".to_owned()), limit: Some(3), ..JobFilter::default() };
    loop {
        let page = list(filter.clone()).await;
        let Some(last) = page.last() else { break };
        filter.before = Some(*last);
        paged.extend(page.into_iter().map(|cursor| cursor.id));
    }
    assert_eq!(paged, newest);

    let of_table = |namespace: &[&str], table: &str| JobFilter {
        database: Some("db".to_owned()),
        table: Some((namespace.iter().map(|c| (*c).to_owned()).collect(), table.to_owned())),
        ..JobFilter::default()
    };
    assert_eq!(list(of_table(&[], "even")).await.len(), 5);
    assert_eq!(list(of_table(&["team"], "even")).await.len(), 0);
    let other = JobFilter { database: Some("other".to_owned()), ..JobFilter::default() };
    assert_eq!(list(other).await.len(), 0);

    store.catalog.request_cancel(newest[0], "alice", at(9)).await.unwrap();
    let in_states = |states: &[JobState]| JobFilter { states: Some(states.to_vec()), ..JobFilter::default() };
    assert_eq!(list(in_states(&[JobState::Canceled])).await.len(), 1);
    assert_eq!(list(in_states(&[JobState::Queued])).await.len(), 9);
    assert_eq!(list(in_states(&[JobState::Queued, JobState::Canceled])).await.len(), 10);
    assert_eq!(list(in_states(&[])).await.len(), 0);
    let active = store.catalog.active_jobs().await.unwrap();
    let oldest: Vec<_> = newest[1..].iter().rev().copied().collect();
    assert_eq!(active.iter().map(|job| job.id).collect::<Vec<_>>(), oldest);
}

#[tokio::test]
async fn children_are_listed_under_their_parent_and_end_with_it() {
    let store = Store::new().await;
    let parent = store.running(refresh("docs")).await;
    let child = |number: i64| {
        let mut new = refresh("docs");
        new.parent = Some(parent.id);
        store.catalog.submit(new, at(number))
    };
    let waiting = child(1).await.unwrap();
    let running = child(2).await.unwrap();
    store.catalog.claim(running.id, &gateway(), LEASE, at(2)).await.unwrap();
    let done = child(3).await.unwrap();
    let done = store.catalog.claim(done.id, &gateway(), LEASE, at(3)).await.unwrap();
    store.catalog.complete(done.id, done.epoch, json!({}), at(4)).await.unwrap();
    assert_eq!(store.catalog.claim_next(&gateway(), LEASE, at(5)).await.unwrap(), None);

    let children = JobFilter { parent: Some(parent.id), ..JobFilter::default() };
    let listed = store.catalog.jobs(children).await.unwrap();
    assert_eq!(listed.iter().map(|job| job.id).collect::<Vec<_>>(), [done.id, running.id, waiting.id]);

    store.catalog.complete(parent.id, parent.epoch, json!({}), at(6)).await.unwrap();
    assert_eq!(store.state(&waiting).await, JobState::Canceled);
    assert_eq!(store.state(&running).await, JobState::Canceled);
    assert_eq!(store.state(&done).await, JobState::Succeeded);
    let error = child(7).await.unwrap_err();
    assert!(matches!(error, CatalogError::NotFound { kind: EntityKind::Job, .. }), "{error}");
}

#[tokio::test]
async fn subscribers_hear_of_each_committed_change_in_order() {
    let store = Store::new().await;
    let mut changes = store.catalog.subscribe();
    let job = store.running(refresh("docs")).await;
    let progress = json!({ "rows_computed": 5 });
    store.catalog.record_progress(job.id, job.epoch, "running", progress.clone(), at(1)).await.unwrap();
    store.catalog.complete(job.id, job.epoch, json!({}), at(2)).await.unwrap();
    let stale = store.catalog.complete(job.id, job.epoch, json!({}), at(2)).await;
    assert!(stale.unwrap_err().is_stale_epoch());

    let mut heard = Vec::new();
    while let Ok(change) = changes.try_recv() {
        assert_eq!((change.job_id, change.database.as_str()), (job.id, "db"));
        heard.push(format!("{} {}", change.state, change.phase));
    }
    assert_eq!(heard, ["queued queued", "in_progress starting", "in_progress running", "succeeded finished"]);
    assert_eq!(store.job(&job).await.progress, Some(progress));
}

#[tokio::test]
async fn the_sweep_removes_what_is_old_and_ended() {
    let store = Store::new().await;
    let day = |days: i64| at(0) + TimeDelta::days(days);
    let old = store.running(refresh("old")).await;
    store.catalog.complete(old.id, old.epoch, json!({}), at(1)).await.unwrap();
    let parked = store.catalog.submit(refresh("parked"), at(0)).await.unwrap();
    store.catalog.request_pause(parked.id, "alice", at(1)).await.unwrap();
    let recent = store.catalog.submit(refresh("recent"), day(20)).await.unwrap();
    store.catalog.request_cancel(recent.id, "alice", day(20)).await.unwrap();

    let policy = RetentionPolicy::default();
    let swept = store.catalog.sweep("db", day(15), policy).await.unwrap();
    assert_eq!(swept, Swept { jobs: 0, events: 7 });
    let swept = store.catalog.sweep("db", day(31), policy).await.unwrap();
    assert_eq!(swept, Swept { jobs: 1, events: 0 });
    assert_eq!(store.catalog.job(old.id).await.unwrap(), None);
    assert_eq!(store.state(&parked).await, JobState::Paused);
    assert_eq!(store.history(&recent).await.len(), 3);

    // The number of an event that was swept is not given again.
    store.catalog.resume(parked.id, "alice", day(31)).await.unwrap();
    let events = store.catalog.events(parked.id, 10).await.unwrap();
    assert!(events[0].event_id.ends_with("_4"), "{}", events[0].event_id);
}
