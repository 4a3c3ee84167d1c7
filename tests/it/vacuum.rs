//! VACUUM: what many small writes have left is written anew, beside everybody else, and nothing that can be asked for
//! changes.

use crate::harness::{self, Gateway};
use crate::privileges::user;
use crate::rows::{affected, error, rows, run, value};

/// Returns how many fragments have rows.
async fn fragments(client: &tokio_postgres::Client, table: &str) -> String {
    let sql = format!("SELECT count(DISTINCT _rowaddr / 4294967296) AS n FROM {table}");
    value(client, &sql, "n").await.unwrap()
}

#[tokio::test]
async fn many_small_writes_become_one_fragment_and_rows_ids_and_values_stay() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id int, s text, twice int GENERATED ALWAYS AS (id * 2) STORED)").await;
    for id in 0..30 {
        run(&client, &format!("INSERT INTO t VALUES ({id}, 'row {id}')")).await;
    }
    run(
        &client,
        "REFRESH COLUMN twice ON t WAIT; DELETE FROM t WHERE id % 10 = 3; UPDATE t SET s = 'new' WHERE id = 7",
    )
    .await;
    let all = "SELECT id, s, twice, _rowid FROM t ORDER BY id";
    let before = rows(&client, all).await;
    assert_eq!(before.len(), 27);
    let output = gateway.psql("VACUUM (VERBOSE) t");
    let said = harness::text(&output);
    assert!(said.contains("INFO:  vacuumed \"t\": ") && said.contains(" fragments became 1, 0 indexes"), "{said}");
    assert_eq!(fragments(&client, "t").await, "1");
    assert_eq!(rows(&client, all).await, before);
    // One row has been updated since its value was computed; the compaction has made no other stale.
    let refreshed = value(&client, "REFRESH COLUMN twice ON t WAIT", "rows_assigned").await;
    assert_eq!(refreshed.as_deref(), Some("0"));
    run(&client, "UPDATE t SET id = 100 WHERE id = 7; VACUUM t").await;
    let refreshed = value(&client, "REFRESH COLUMN twice ON t WAIT", "rows_assigned").await;
    assert_eq!(refreshed.as_deref(), Some("1"));
    // There is nothing more to do, so no version is made.
    let said = harness::text(&gateway.psql("VACUUM (FULL, VERBOSE) t; VACUUM (FULL, VERBOSE) t"));
    assert!(
        said.lines().last().unwrap_or_default().contains("0 fragments became 0, 0 indexes were extended"),
        "{said}"
    );
}

#[tokio::test]
async fn indexes_are_extended_to_rows_that_they_do_not_know() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(
        &client,
        "CREATE TABLE t (id int, words text, v real[]);
         INSERT INTO t SELECT i, 'word' || (i % 50), ARRAY[i, i + 1, i + 2, i + 3]::real[] FROM generate_series(0, 599) AS s(i);
         CREATE INDEX by_id ON t (id); CREATE INDEX by_words ON t USING inverted (words)",
    )
    .await;
    for id in 600..620 {
        run(&client, &format!("INSERT INTO t VALUES ({id}, 'late', ARRAY[0, 0, 0, 0]::real[])")).await;
    }
    run(&client, "DELETE FROM t WHERE id = 5").await;
    let before = rows(&client, "SELECT id FROM t WHERE id IN (4, 5, 6, 610) ORDER BY id").await;
    assert_eq!(before, ["4", "6", "610"]);
    let indexes =
        |rows: Vec<String>| rows.iter().map(|row| row.split('|').nth(4).unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(indexes(rows(&client, "SHOW INDEXES ON t").await), ["20", "20"]);
    let said = harness::text(&gateway.psql("VACUUM (VERBOSE) t"));
    assert!(said.contains("2 indexes were extended"), "{said}");
    assert_eq!(indexes(rows(&client, "SHOW INDEXES ON t").await), ["0", "0"]);
    assert_eq!(rows(&client, "SELECT id FROM t WHERE id IN (4, 5, 6, 610) ORDER BY id").await, before);
    assert_eq!(rows(&client, "SELECT count(*) FROM t WHERE words = 'late'").await, ["20"]);
}

#[tokio::test]
async fn a_vacuum_beside_writers_loses_no_row_and_brings_none_back() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id int, n int); INSERT INTO t SELECT i, 0 FROM generate_series(0, 19) AS s(i)").await;
    let (inserter, changer, deleter) = (gateway.connect().await, gateway.connect().await, gateway.connect().await);
    let inserting = tokio::spawn(async move {
        for id in 100..130 {
            assert_eq!(affected(&inserter, &format!("INSERT INTO t VALUES ({id}, 1)")).await, 1);
        }
    });
    let changing = tokio::spawn(async move {
        for round in 0..30 {
            assert_eq!(affected(&changer, &format!("UPDATE t SET n = n + 1 WHERE id = {}", round % 5)).await, 1);
        }
    });
    let deleting = tokio::spawn(async move {
        for id in 10..20 {
            assert_eq!(affected(&deleter, &format!("DELETE FROM t WHERE id = {id}")).await, 1);
        }
    });
    let mut rounds = 0;
    while !(inserting.is_finished() && changing.is_finished() && deleting.is_finished()) {
        match client.batch_execute("VACUUM (FULL) t").await {
            Ok(()) => rounds += 1,
            // It gives way to everybody who changes the same rows.
            Err(refused) => assert_eq!(refused.code().unwrap().code(), "40001"),
        }
    }
    inserting.await.unwrap();
    changing.await.unwrap();
    deleting.await.unwrap();
    run(&client, "VACUUM (FULL) t").await;
    assert!(rounds > 0, "one of them came to its end");
    assert_eq!(fragments(&client, "t").await, "1");
    assert_eq!(
        rows(&client, "SELECT count(*), count(DISTINCT id), sum(n), min(id), max(id) FROM t").await,
        ["40|40|60|0|129"]
    );
}

#[tokio::test]
async fn who_may_vacuum_what_and_when() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    let guest = user(&gateway, &admin, "guest").await;
    run(&admin, "GRANT USAGE ON SCHEMA public TO USER guest").await;
    run(&admin, "CREATE TABLE t AS SELECT 1 AS a; GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE t TO USER guest").await;
    run(&admin, "CREATE VIEW v AS SELECT a FROM t; INSERT INTO t VALUES (2)").await;
    assert!(error(&guest, "VACUUM t").await.starts_with("42501: must be owner of table t"));
    run(&guest, "VACUUM; ANALYZE").await;
    assert_eq!(fragments(&admin, "t").await, "2", "it has passed over what is not the caller's");
    assert!(error(&admin, "VACUUM nothing").await.starts_with("42P01: relation \"nothing\" does not exist"));
    assert!(error(&admin, "ANALYZE nothing").await.starts_with("42P01: "));
    assert!(error(&admin, "VACUUM (speed) t").await.starts_with("42601: unrecognized VACUUM option \"speed\""));
    run(&admin, "BEGIN; ANALYZE t").await;
    assert!(error(&admin, "VACUUM t").await.starts_with("25001: VACUUM cannot run inside a transaction block"));
    run(&admin, "ROLLBACK").await;
    let said = harness::text(&gateway.psql("VACUUM v"));
    assert!(said.contains("WARNING:  skipping \"v\" --- cannot vacuum non-tables or special system tables"), "{said}");
    run(&admin, "VACUUM").await;
    assert_eq!(fragments(&admin, "t").await, "1");
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn what_is_written_and_not_committed_is_not_seen() {
    let mut gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t AS SELECT 1 AS a; INSERT INTO t VALUES (2); INSERT INTO t VALUES (3)").await;
    gateway.restart_failing("vacuum.rewritten=exit");
    let client = gateway.connect().await;
    assert!(client.batch_execute("VACUUM t").await.is_err());
    gateway.wait_for_end();
    gateway.restart_failing("vacuum.rewritten=hold@1");
    let client = gateway.connect().await;
    assert_eq!(rows(&client, "SELECT a FROM t ORDER BY a").await, ["1", "2", "3"]);
    // A table that is dropped meanwhile stays dropped.
    let vacuum = gateway.connect().await;
    let vacuumed = tokio::spawn(async move { error(&vacuum, "VACUUM t").await });
    gateway.held("vacuum.rewritten", 1).await;
    run(&client, "DROP TABLE t").await;
    gateway.let_go("vacuum.rewritten", 1);
    let refused = vacuumed.await.unwrap();
    assert!(refused.starts_with("42P01: "), "{refused}");
    gateway.restart();
    assert!(gateway.table_folders().is_empty(), "{:?}", gateway.table_folders());
}
