//! What happens when the disk refuses.

use chrono::DateTime;
use sqlx::AssertSqlSafe;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::*;
use crate::store::Catalog;
use crate::{JobFilter, JobKind, NewJob, Timestamp};

fn now() -> Timestamp {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

/// Limits the size of the file to what it is now, and so much more.
async fn set_free_pages(catalog: &Catalog, free: i64) {
    let set = catalog.write(Durability::Full, move |tx| {
        Box::pin(async move {
            let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(tx.connection()).await?;
            let limit = AssertSqlSafe(format!("PRAGMA max_page_count = {}", pages + free));
            sqlx::query(limit).execute(tx.connection()).await?;
            Ok(())
        })
    });
    set.await.unwrap();
}

/// Submits jobs of 20 kB at once and returns how many were accepted.
async fn submit_large(catalog: &Catalog, count: usize) -> usize {
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let catalog = catalog.clone();
        let mut new = NewJob::new(JobKind::Sql, "db", "docs", "alice");
        new.spec = "x".repeat(20_000).into();
        tasks.spawn(async move { catalog.submit(new, now()).await });
    }
    let results = tasks.join_all().await;
    for result in &results {
        let full = matches!(result, Err(CatalogError::Full { .. }));
        assert!(result.is_ok() || full, "{result:?}");
    }
    results.iter().filter(|result| result.is_ok()).count()
}

#[tokio::test]
async fn a_full_disk_refuses_changes_and_keeps_what_was_acknowledged() {
    let folder = TempDir::new().unwrap();
    let catalog = Catalog::open_sqlite(&folder.path().join("catalog.db")).await.unwrap();
    let mut changes = catalog.subscribe();
    let mut accepted = submit_large(&catalog, 1).await;
    set_free_pages(&catalog, 40).await;
    for _ in 0..10 {
        accepted += submit_large(&catalog, 3).await;
    }
    assert!(accepted < 31, "the disk was never full");

    let stored = async || catalog.jobs(JobFilter::default()).await.unwrap().len();
    assert_eq!(stored().await, accepted);
    set_free_pages(&catalog, 10_000).await;
    assert_eq!(submit_large(&catalog, 20).await, 20);
    assert_eq!(stored().await, accepted + 20);
    let mut heard = 0;
    while changes.try_recv().is_ok() {
        heard += 1;
    }
    assert_eq!(heard, accepted + 20);
}

/// Runs a change and returns what `PRAGMA synchronous` says within it.
async fn synchronous(catalog: &Catalog, durability: Durability) -> i64 {
    let read = catalog.write(durability, |tx| {
        Box::pin(async move { Ok(sqlx::query_scalar("PRAGMA synchronous").fetch_one(tx.connection()).await?) })
    });
    read.await.unwrap()
}

#[tokio::test]
async fn each_commit_goes_as_far_as_it_was_asked_to() {
    let folder = TempDir::new().unwrap();
    let catalog = Catalog::open_sqlite(&folder.path().join("catalog.db")).await.unwrap();
    for _ in 0..3 {
        // 2 is FULL, 1 is NORMAL.
        assert_eq!(synchronous(&catalog, Durability::Full).await, 2);
        assert_eq!(synchronous(&catalog, Durability::Process).await, 1);
    }
}
