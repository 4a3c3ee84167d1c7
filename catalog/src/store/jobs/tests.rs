//! How listings and claims find their rows.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, QueryBuilder, Row, SqliteConnection};
use tempfile::TempDir;

use super::super::claims::lost;
use super::super::turns::{After, job_query, lane_query};
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
                updated_at, started_at, created_at + value, last_event, automatic, binding, begun
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
    let claims = [
        ("jobs_leased", lost()),
        ("jobs_turns", lane_query(After::Nothing)),
        ("jobs_turns", lane_query(After::Lane)),
        ("jobs_turns", lane_query(After::Kind)),
        ("jobs_turns", job_query(false)),
        ("jobs_turns", job_query(true)),
    ];
    for (index, AssertSqlSafe(sql)) in claims {
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")));
        let explain = explain.bind(0_i64).bind(0_i64).bind("alice").bind("");
        let plan = plan_of(explain.fetch_all(&mut connection).await.unwrap()).await;
        assert!(plan.contains(&format!("INDEX {index}")), "{sql}: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{sql}: {plan}");
    }
}

#[tokio::test]
async fn j21_a_hundred_thousand_archived_and_ten_thousand_active_jobs_are_opened_listed_and_claimed_in_time() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("catalog.db");
    let catalog = Catalog::open_sqlite(&path).await.unwrap();
    let now = Timestamp::from_timestamp_micros(1_800_000_000_000_000).unwrap();
    catalog.submit(NewJob::new(JobKind::ComputedRefresh, "db", "docs", "alice"), now).await.unwrap();
    catalog.close().await;
    let mut connection = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    fill(&mut connection).await;
    connection
        .execute(
            "UPDATE jobs SET state = 'queued', finished_at = NULL, submitted_by = 'user' || (rowid % 7),
                created_at = created_at + 1000000
             WHERE rowid % 10 = 0",
        )
        .await
        .unwrap();
    connection.close().await.unwrap();

    let begun = std::time::Instant::now();
    let catalog = Catalog::open_sqlite(&path).await.unwrap();
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "opened in {:?}", begun.elapsed());
    let newest = catalog.jobs(JobFilter { limit: Some(3), ..JobFilter::default() }).await.unwrap();
    assert_eq!(newest.len(), 3);
    assert!(newest.windows(2).all(|pair| pair[0].created_at > pair[1].created_at), "newest first");
    assert!(newest.iter().all(|job| job.status.state == JobState::Queued));
    assert_eq!(catalog.active_jobs().await.unwrap().len(), 10_001);
    assert_eq!(catalog.unfinished(1_000_000).await.unwrap(), 10_001);
    let gateway = crate::ids::GatewayId::from("gw".to_owned());
    let mut users = std::collections::BTreeMap::new();
    for _ in 0..70 {
        let claimed = catalog.claim_next(&gateway, std::time::Duration::from_secs(60), now).await.unwrap().unwrap();
        *users.entry(claimed.submitted_by).or_insert(0) += 1;
    }
    assert!(users.len() >= 7 && users.values().all(|count| *count <= 11), "turns are taken: {users:?}");
}
