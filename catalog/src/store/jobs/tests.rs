//! How listings and claims find their rows.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, QueryBuilder, Row, SqliteConnection};
use tempfile::TempDir;

use super::super::claims::{EXPIRED, QUEUED, claimable};
use super::*;
use crate::job::JobKind;

/// Fills the store with a hundred thousand ended jobs.
async fn fill(connection: &mut SqliteConnection) {
    connection
        .execute(
            "INSERT INTO jobs SELECT substr(job_id, 1, 20) || printf('%010d', value), kind,
                database_name, namespace, table_name, table_id, column_name, branch,
                submitted_by, spec, parent, exclusive_key, idempotency_key, 'succeeded',
                requested, phase, progress, queue_reason, result, failure, source_version,
                epoch, attempt, gateway, lease_expires_at, not_before, created_at + value,
                updated_at, started_at, created_at + value, last_event, automatic, binding
             FROM jobs, (WITH RECURSIVE n(value) AS
                (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 100000)
                SELECT value FROM n)",
        )
        .await
        .unwrap();
}

async fn plan_of(rows: Vec<sqlx::sqlite::SqliteRow>) -> String {
    let details: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
    details.join("; ")
}

#[tokio::test]
async fn listings_and_claims_of_a_hundred_thousand_jobs_walk_an_index() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("catalog.db");
    let catalog = Catalog::open_sqlite(&path).await.unwrap();
    let now = Timestamp::from_timestamp_micros(1_800_000_000_000_000).unwrap();
    let new = NewJob::new(JobKind::ComputedRefresh, "db", "docs", "alice");
    catalog.submit(new, now).await.unwrap();
    let mut connection = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    fill(&mut connection).await;

    let every = JobFilter::default;
    let of_database = || JobFilter { database: Some("db".to_owned()), ..every() };
    let page = catalog.jobs(of_database()).await.unwrap();
    assert_eq!(page.len(), 1_000);
    let before = Some(page[9].cursor());
    let table = Some((Vec::new(), "docs".to_owned()));
    let cases = [
        ("jobs_newest", every()),
        ("jobs_newest", JobFilter { before, ..every() }),
        ("jobs_of_database", of_database()),
        ("jobs_of_database", JobFilter { before, ..of_database() }),
        ("jobs_of_table", JobFilter { table, ..of_database() }),
        ("jobs_of_parent", JobFilter { parent: Some(page[0].id), ..every() }),
        ("jobs_active", JobFilter { states: Some(vec![JobState::InProgress]), ..every() }),
    ];
    for (index, filter) in cases {
        let mut query = QueryBuilder::new("EXPLAIN QUERY PLAN SELECT * FROM jobs WHERE 1 = 1");
        push_listing(&mut query, &filter).unwrap();
        let plan = plan_of(query.build().fetch_all(&mut connection).await.unwrap()).await;
        assert!(plan.contains(&format!("INDEX {index}")), "{filter:?}: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{filter:?}: {plan}");
    }
    for (index, condition) in [("jobs_queued", QUEUED), ("jobs_leased", EXPIRED)] {
        let AssertSqlSafe(sql) = claimable(condition);
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"))).bind(0_i64);
        let plan = plan_of(explain.fetch_all(&mut connection).await.unwrap()).await;
        assert!(plan.contains(&format!("INDEX {index}")), "{condition}: {plan}");
    }
}
