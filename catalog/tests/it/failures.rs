//! Rows that Functions failed on: one record for a row, whatever is computed again, and told again.

use lancegate_catalog::{FailedRow, Job, PartFailures, TableId};
use roaring::RoaringBitmap;

use crate::support::{Store, at, refresh};

async fn running(store: &Store, table: TableId) -> Job {
    let mut job = refresh("t");
    job.table_id = Some(table);
    store.running(job).await
}

/// Rows of a fragment that were computed; those that failed, and those of them whose exception is known.
fn part(fragment: u64, computed: &[u32], failed: &[u32], known: &[u32]) -> PartFailures {
    let detail = known.iter().map(|offset| FailedRow {
        offset: *offset,
        row_id: Some(u64::from(*offset) + 100),
        error_type: "ValueError".to_owned(),
        error_message: format!("row {offset}"),
    });
    PartFailures {
        field_id: 3,
        column: "y".to_owned(),
        function: "f".to_owned(),
        function_version: "1".to_owned(),
        table_version: 7,
        fragment_id: fragment,
        computed: computed.iter().copied().collect(),
        failed: failed.iter().copied().collect(),
        detail: detail.collect(),
    }
}

async fn publish(store: &Store, job: &Job, parts: &[PartFailures]) {
    store.catalog.parts_published(job.id, job.epoch, Vec::new(), parts.to_vec(), at(1)).await.unwrap();
}

/// The records of a table, oldest job first.
async fn listed(store: &Store, table: TableId, jobs: &[&Job]) -> Vec<String> {
    let mut all = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let failures = store.catalog.row_failures(table, Some(&job.id.to_string()), 100).await.unwrap();
        all.extend(failures.iter().map(|row| match row.row_offset {
            Some(offset) => format!("{index}: {}.{offset} {} x{}", row.fragment_id, row.error_message, row.attempts),
            None => format!("{index}: {} {}", row.fragment_id, row.error_message),
        }));
    }
    let whole = store.catalog.row_failures(table, None, 100).await.unwrap();
    assert_eq!(whole.len(), all.len(), "no row has two records");
    all
}

#[tokio::test]
async fn a_row_is_in_the_record_of_the_job_that_computed_it_last() {
    let (store, table) = (Store::new().await, TableId::new(at(0)));
    let first = running(&store, table).await;
    publish(&store, &first, &[part(0, &[0, 1, 2, 3, 4, 5], &[1, 3, 4, 5], &[1, 3]), part(1, &[0, 9], &[9], &[9])])
        .await;
    let rows = ["0: 0.1 row 1 x1", "0: 0.3 row 3 x1", "0: 0 2 more rows of the fragment failed", "0: 1.9 row 9 x1"];
    assert_eq!(listed(&store, table, &[&first]).await, rows);
    let second = running(&store, table).await;
    publish(&store, &second, &[part(0, &[1, 2, 3, 5], &[1, 2], &[1, 2])]).await;
    let rows = ["0: 0 1 more rows of the fragment failed", "0: 1.9 row 9 x1", "1: 0.1 row 1 x2", "1: 0.2 row 2 x1"];
    assert_eq!(listed(&store, table, &[&first, &second]).await, rows);
    let places = store.catalog.failed_places(table, None, 3).await.unwrap();
    let mut offsets: Vec<_> = places
        .iter()
        .map(|place| (place.fragment_id, place.offsets.iter().collect::<Vec<_>>(), place.row_id))
        .collect();
    offsets.sort();
    let expected = [(0, vec![1], Some(101)), (0, vec![2], Some(102)), (0, vec![4], None), (1, vec![9], Some(109))];
    assert_eq!(offsets, expected);
    assert!(store.catalog.failed_places(table, Some("branch"), 3).await.unwrap().is_empty());
    publish(&store, &second, &[part(0, &[1, 2, 4], &[], &[]), part(1, &[9], &[], &[])]).await;
    assert!(listed(&store, table, &[&first, &second]).await.is_empty());
}

#[tokio::test]
async fn parts_of_one_fragment_add_up_and_telling_one_again_changes_nothing() {
    let (store, table) = (Store::new().await, TableId::new(at(0)));
    let job = running(&store, table).await;
    let parts = [part(0, &[0, 1, 2], &[1, 2], &[1]), part(0, &[3, 4], &[4], &[4])];
    let rows = ["0: 0.1 row 1 x1", "0: 0.4 row 4 x1", "0: 0 1 more rows of the fragment failed"];
    for again in [&parts[..], &parts[..1], &parts[1..], &parts[..]] {
        publish(&store, &job, again).await;
        if again.len() == 2 {
            assert_eq!(listed(&store, table, &[&job]).await, rows);
        }
    }
    assert_eq!(listed(&store, table, &[&job]).await, rows);
    let limited = store.catalog.row_failures(table, None, 2).await.unwrap();
    assert_eq!(limited.iter().map(|row| row.row_offset).collect::<Vec<_>>(), [Some(1), Some(4)]);
}

/// Decision 28: 100,000 rows of a table; the oldest are counted from then on, and can still be retried.
#[tokio::test]
async fn of_too_many_rows_the_oldest_are_only_counted() {
    let (store, table) = (Store::new().await, TableId::new(at(0)));
    let rows: Vec<u32> = (0..1_000).collect();
    let job = running(&store, table).await;
    let parts: Vec<_> = (0..100).map(|fragment| part(fragment, &rows, &rows, &rows)).collect();
    publish(&store, &job, &parts).await;
    assert_eq!(store.catalog.row_failures(table, None, u32::MAX).await.unwrap().len(), 100_000);
    let next = running(&store, table).await;
    publish(&store, &next, &[part(100, &rows, &rows[..30], &rows[..30])]).await;
    let all = store.catalog.row_failures(table, None, u32::MAX).await.unwrap();
    assert_eq!(all.iter().filter(|row| row.row_offset.is_some()).count(), 100_000);
    let counted: Vec<_> = all.iter().filter(|row| row.row_offset.is_none()).map(|row| row.rows).collect();
    assert_eq!(counted, [30]);
    assert_eq!(all.iter().map(|row| row.rows).sum::<u64>(), 100_030, "none is forgotten");
    let places = store.catalog.failed_places(table, None, 3).await.unwrap();
    assert_eq!(places.iter().map(|place| place.offsets.len()).sum::<u64>(), 100_030);
}

#[tokio::test]
async fn records_of_single_rows_are_taken_over_from_an_older_store() {
    use sqlx::{ConnectOptions, Executor};

    let (mut store, table) = (Store::new().await, TableId::new(at(0)));
    let job = running(&store, table).await;
    store.catalog.close().await;
    let mut raw = sqlx::sqlite::SqliteConnectOptions::new().filename(store.path()).connect().await.unwrap();
    let older = format!(
        "DROP TABLE fragment_failures; DELETE FROM lancegate_schema WHERE version = 11;
         CREATE TABLE row_failures (table_id TEXT NOT NULL, branch TEXT NOT NULL, field_id BIGINT NOT NULL,
             fragment_id BIGINT NOT NULL, row_offset BIGINT NOT NULL, job_id TEXT NOT NULL, column_name TEXT NOT NULL,
             function_name TEXT NOT NULL, function_version TEXT NOT NULL, table_version BIGINT NOT NULL, row_id BIGINT,
             row_count BIGINT NOT NULL DEFAULT 1, offsets BLOB, error_type TEXT NOT NULL, error_message TEXT NOT NULL,
             attempts BIGINT NOT NULL DEFAULT 1, created_at BIGINT NOT NULL,
             PRIMARY KEY (table_id, branch, field_id, fragment_id, row_offset));
         INSERT INTO row_failures SELECT '{table}', '', 3, 0, value, '{job}', 'y', 'f', '1', 7, value + 100, 1, NULL,
             'ValueError', 'row ' || value, 2, 5 FROM json_each('[4, 2]')",
        job = job.id
    );
    raw.execute(sqlx::AssertSqlSafe(older)).await.unwrap();
    let mut beyond = Vec::new();
    RoaringBitmap::from_iter([8_u32, 9]).serialize_into(&mut beyond).unwrap();
    sqlx::query(
        "INSERT INTO row_failures VALUES ($1, '', 3, 0, -1, $2, 'y', 'f', '1', 7, NULL, 2, $3, 'RowErrorsCapped', '', 1, 5)",
    )
    .bind(table.to_string())
    .bind(job.id.to_string())
    .bind(beyond)
    .execute(&mut raw)
    .await
    .unwrap();
    drop(raw);
    store.reopen().await;
    let rows = ["0: 0.2 row 2 x2", "0: 0.4 row 4 x2", "0: 0 2 more rows of the fragment failed"];
    assert_eq!(listed(&store, table, &[&job]).await, rows);
    let failures = store.catalog.row_failures(table, None, 1).await.unwrap();
    assert_eq!((failures[0].row_id, failures[0].table_version), (Some(102), 7));
}
