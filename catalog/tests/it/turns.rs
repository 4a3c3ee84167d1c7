//! Whose job is next, and that nobody is in the way of a lost one.

use chrono::TimeDelta;
use lancegate_catalog::{CatalogError, JobKind, JobState, MeteredRefresh, NewJob, RetentionPolicy, Swept, TableId};
use serde_json::json;

use crate::support::{LEASE, Store, at, gateway, refresh, table};

fn of(user: &str, table: Option<TableId>, name: &str) -> NewJob {
    let mut job = NewJob::new(JobKind::ComputedRefresh, "db", name, user);
    job.table_id = table;
    job
}

async fn submit(store: &Store, job: NewJob, second: i64) {
    store.catalog.submit(job, at(second)).await.unwrap();
}

/// Claims everything; returns the names in order.
async fn drain(store: &Store) -> Vec<String> {
    let mut order = Vec::new();
    while let Some(job) = store.catalog.claim_next(&gateway(), LEASE, at(1_000)).await.unwrap() {
        order.push(job.table_name);
    }
    order
}

#[tokio::test]
async fn users_take_turns_however_many_jobs_one_has_submitted_before() {
    let store = Store::new().await;
    let shared = Some(TableId::new(at(0)));
    for number in 0..5 {
        submit(&store, of("alice", shared, &format!("alice {number}")), number).await;
    }
    for number in 0..2 {
        submit(&store, of("bob", shared, &format!("bob {number}")), 10 + number).await;
    }
    submit(&store, of("carol", shared, "carol 0"), 20).await;
    let expected = ["alice 0", "bob 0", "carol 0", "alice 1", "bob 1", "alice 2", "alice 3", "alice 4"];
    assert_eq!(drain(&store).await, expected);
}

#[tokio::test]
async fn the_tables_of_a_user_take_turns_and_each_goes_oldest_first() {
    let store = Store::new().await;
    let [first, second] = [0, 1].map(|second| Some(TableId::new(at(second))));
    for number in 0..3 {
        submit(&store, of("alice", first, &format!("first {number}")), number).await;
    }
    for number in 0..2 {
        submit(&store, of("alice", second, &format!("second {number}")), 10 + number).await;
    }
    submit(&store, of("alice", None, "function"), 20).await;
    let expected = ["function", "first 0", "second 0", "first 1", "second 1", "first 2"];
    assert_eq!(drain(&store).await, expected);
}

#[tokio::test]
async fn what_nobody_asked_for_is_a_lane_of_its_own() {
    let store = Store::new().await;
    for number in 0..3 {
        let id = TableId::new(at(number));
        let mut automatic = of("alice", None, &format!("automatic {number}"));
        automatic.automatic = true;
        submit(&store, automatic, number).await;
        submit(&store, of("bob", Some(id), &format!("bob {number}")), 10 + number).await;
    }
    let order = drain(&store).await;
    assert_eq!(order, ["bob 0", "automatic 0", "bob 1", "automatic 1", "bob 2", "automatic 2"]);
}

#[tokio::test]
async fn a_job_that_waits_for_its_time_is_passed_over_and_keeps_its_place() {
    let store = Store::new().await;
    let job = store.running(of("alice", None, "later")).await;
    let failure = lancegate_catalog::Failure {
        error_code: "WorkerLost".to_owned(),
        message: "lost".to_owned(),
        detail: None,
        hint: None,
        sqlstate: None,
    };
    store.catalog.retry(job.id, job.epoch, failure, at(1_010), at(1)).await.unwrap();
    submit(&store, of("alice", None, "now"), 5).await;
    submit(&store, of("bob", None, "bob"), 6).await;
    assert_eq!(drain(&store).await, ["now", "bob"]);
    let again = store.catalog.claim_next(&gateway(), LEASE, at(1_010)).await.unwrap().unwrap();
    assert_eq!(again.id, job.id);
}

#[tokio::test]
async fn j22_a_lost_job_is_taken_over_first_and_a_healthy_one_never() {
    let store = Store::new().await;
    let mut healthy = Vec::new();
    for number in 0..1_000 {
        let job = store.catalog.submit(refresh(&format!("healthy {number}")), at(0)).await.unwrap();
        healthy.push(store.catalog.claim(job.id, &gateway(), LEASE * 1_000, at(0)).await.unwrap());
    }
    let lost = store.running(refresh("lost")).await;
    for number in 0..1_000 {
        submit(&store, refresh(&format!("queued {number}")), 1).await;
    }
    // Within the lease nobody takes it, after it the next look does.
    let next = store.catalog.claim_next(&gateway(), LEASE, at(29)).await.unwrap().unwrap();
    assert!(next.table_name.starts_with("queued"), "{}", next.table_name);
    let next = store.catalog.claim_next(&gateway(), LEASE, at(30)).await.unwrap().unwrap();
    assert_eq!((next.id, next.epoch.0), (lost.id, 2));
    for job in [&healthy[0], &healthy[999]] {
        assert_eq!(store.job(job).await.epoch, job.epoch);
    }
}

#[tokio::test]
async fn a_user_who_has_too_many_unfinished_jobs_gets_no_more_and_others_do() {
    let store = Store::new().await;
    let bounded = |user: &str| {
        let mut job = of(user, None, "docs");
        job.unfinished_max = Some(2);
        job
    };
    let first = store.catalog.submit(bounded("alice"), at(0)).await.unwrap();
    submit(&store, bounded("alice"), 1).await;
    let refused = store.catalog.submit(bounded("alice"), at(2)).await.unwrap_err();
    assert!(matches!(&refused, CatalogError::TooManyJobs { user, max: 2 } if user == "alice"), "{refused}");
    submit(&store, bounded("bob"), 2).await;
    let mut automatic = bounded("alice");
    automatic.automatic = true;
    submit(&store, automatic, 2).await;
    assert_eq!(store.catalog.unfinished(100).await.unwrap(), 3, "automatic ones are nobody's");
    assert_eq!(store.catalog.unfinished(2).await.unwrap(), 2);
    store.catalog.request_cancel(first.id, "alice", at(3)).await.unwrap();
    submit(&store, bounded("alice"), 4).await;
}

#[tokio::test]
async fn prog_10_what_a_function_refresh_used_outlives_its_job() {
    let store = Store::new().await;
    store.catalog.create_database(crate::support::database("db")).await.unwrap();
    store.catalog.create_table(table("docs")).await.unwrap();
    let mut new = NewJob::new(JobKind::FunctionRefresh, "db", "docs", "alice");
    new.column = Some("words".to_owned());
    new.spec = json!({ "function": { "name": "count_words", "version": 3 } });
    let failed = store.running(new.clone()).await;
    store.catalog.canceled(failed.id, failed.epoch, None, at(1)).await.unwrap();
    let job = store.running(new).await;
    let result = json!({ "rows_assigned": 7 });
    store.catalog.complete(job.id, job.epoch, result.clone(), at(5)).await.unwrap();
    let expression = store.running(refresh("docs")).await;
    store.catalog.complete(expression.id, expression.epoch, json!({}), at(5)).await.unwrap();
    let day = |days: i64| at(0) + TimeDelta::days(days);
    let policy = RetentionPolicy::default();
    assert_eq!(store.catalog.databases_with_old_jobs(day(13), policy).await.unwrap(), Vec::<String>::new());
    assert_eq!(store.catalog.databases_with_old_jobs(day(31), policy).await.unwrap(), ["db"]);
    assert_eq!(store.catalog.sweep("other", day(31), policy).await.unwrap(), Swept::default());
    assert_eq!(store.catalog.sweep("db", day(31), policy).await.unwrap().jobs, 3);
    let kept = store.catalog.metered_refreshes("db", 10).await.unwrap();
    let MeteredRefresh { job_id, column, function, function_version, result: found, .. } = &kept[0];
    assert_eq!((kept.len(), *job_id, column.as_str(), function.as_str()), (1, job.id, "words", "count_words"));
    assert_eq!((*function_version, found), (3, &result));
    assert_eq!(store.catalog.databases_with_old_jobs(day(400), policy).await.unwrap(), ["db"]);
    store.catalog.sweep("db", day(400), policy).await.unwrap();
    assert_eq!(store.catalog.metered_refreshes("db", 10).await.unwrap(), []);
    assert_eq!(store.catalog.databases_with_old_jobs(day(400), policy).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_database_that_is_gone_is_swept_all_the_same() {
    let store = Store::new().await;
    let job = store.running(refresh("docs")).await;
    let job = store.catalog.complete(job.id, job.epoch, json!({}), at(1)).await.unwrap();
    assert_eq!(job.status.state, JobState::Succeeded);
    let later = at(0) + TimeDelta::days(31);
    assert_eq!(store.catalog.databases_with_old_jobs(later, RetentionPolicy::default()).await.unwrap(), ["db"]);
    assert_eq!(store.catalog.sweep("db", later, RetentionPolicy::default()).await.unwrap().jobs, 1);
}
