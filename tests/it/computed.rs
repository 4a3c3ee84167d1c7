//! Columns that read computed columns, values that are NULL, and columns that go.

use crate::harness::Gateway;
use crate::rows::{error, rows, run};

/// What REFRESH … WAIT reports: rows assigned, rows remaining.
async fn refresh(client: &tokio_postgres::Client, rest: &str) -> (i64, i64) {
    let row = client.query_one(&format!("REFRESH COLUMN {rest} WAIT"), &[]).await;
    let row = row.unwrap_or_else(|error| panic!("{rest}: {}", crate::rows::describe(&error)));
    (row.get("rows_assigned"), row.get("rows_remaining"))
}

/// Two fragments of two rows: `c` reads `x`, `d` reads `c`.
async fn chain(client: &tokio_postgres::Client) {
    run(client, "CREATE TABLE t (id BIGINT, x BIGINT)").await;
    run(client, "INSERT INTO t VALUES (1, 10), (2, NULL)").await;
    run(client, "INSERT INTO t VALUES (3, 30), (4, 40)").await;
    run(client, "ALTER TABLE t ADD COLUMN c AS x + 1").await;
    run(client, "ALTER TABLE t ADD COLUMN d AS c * 10").await;
}

#[tokio::test]
async fn rc_06_a_null_that_was_computed_is_current_and_found_only_by_asking_for_nulls() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id BIGINT, body TEXT)").await;
    run(&client, "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')").await;
    run(&client, "ALTER TABLE t ADD COLUMN late AS CASE WHEN id > 1 THEN upper(body) END").await;
    assert_eq!(refresh(&client, "late ON t").await, (3, 0));
    assert_eq!(rows(&client, "SELECT late FROM t ORDER BY id").await, ["∅", "B", "C"]);
    assert_eq!(refresh(&client, "late ON t").await, (0, 0), "NULL is a value like another");
    assert_eq!(refresh(&client, "late ON t WHERE id < 3 AND late IS NULL").await, (1, 0));
}

#[tokio::test]
async fn rc_07_a_computed_input_that_is_not_current_stops_the_refresh_before_it_writes() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    chain(&client).await;
    let refused = error(&client, "REFRESH COLUMN d ON t WAIT").await;
    assert!(refused.contains("55000") && refused.contains("\"c\""), "{refused}");
    assert_eq!(refresh(&client, "c ON t").await, (4, 0));
    assert_eq!(refresh(&client, "d ON t").await, (4, 0), "a current NULL is a valid input");
    assert_eq!(rows(&client, "SELECT d FROM t ORDER BY id").await, ["110", "∅", "310", "410"]);
    run(&client, "UPDATE t SET x = 31 WHERE id = 3").await;
    let refused = error(&client, "REFRESH COLUMN d ON t WAIT").await;
    assert!(refused.contains("55000") && refused.contains("\"c\""), "{refused}");
    assert_eq!(rows(&client, "SELECT d FROM t ORDER BY id").await, ["110", "∅", "310", "410"]);
    assert_eq!(refresh(&client, "c ON t").await, (1, 0));
    assert_eq!(refresh(&client, "d ON t").await, (1, 0), "exactly the row whose input changed");
    assert_eq!(rows(&client, "SELECT d FROM t ORDER BY id").await, ["110", "∅", "320", "410"]);
}

#[tokio::test]
async fn rc_08_with_a_predicate_the_whole_fragment_must_be_ready() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    chain(&client).await;
    assert_eq!(refresh(&client, "c ON t WHERE id <= 3").await, (3, 1));
    assert_eq!(refresh(&client, "d ON t WHERE id = 1").await, (1, 3), "the first fragment is ready");
    let refused = error(&client, "REFRESH COLUMN d ON t WHERE id = 3 WAIT").await;
    assert!(refused.contains("55000") && refused.contains("\"c\""), "row 4 is in the same fragment: {refused}");
    assert_eq!(refresh(&client, "c ON t").await, (1, 0));
    assert_eq!(refresh(&client, "d ON t WHERE id = 3").await, (1, 2));
}

#[tokio::test]
async fn rc_09_a_refresh_commits_the_values_and_then_the_record_of_their_inputs() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    chain(&client).await;
    let row = client.query_one("REFRESH COLUMN c ON t WAIT", &[]).await.unwrap();
    let (source, published): (i64, i64) = (row.get("source_version"), row.get("published_version"));
    assert_eq!(published, source + 1);
    let row = client.query_one("REFRESH COLUMN c ON t WAIT", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>("source_version"), source + 2, "values, then the record");
    assert_eq!(row.get::<_, Option<i64>>("published_version"), None, "nothing to do commits nothing");
}

/// RC-09: a record that is lost costs recomputation and never a wrong value.
#[tokio::test]
async fn rc_09_a_lost_record_is_computed_again() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    chain(&client).await;
    assert_eq!(refresh(&client, "c ON t").await, (4, 0));
    for file in std::fs::read_dir(gateway.data().join("t.lance").join("_lancegate")).unwrap() {
        std::fs::write(file.unwrap().path(), "damaged").unwrap();
    }
    assert_eq!(refresh(&client, "c ON t").await, (4, 0));
    assert_eq!(refresh(&client, "c ON t").await, (0, 0));
    assert_eq!(rows(&client, "SELECT c FROM t ORDER BY id").await, ["11", "∅", "31", "41"]);
}

#[tokio::test]
async fn an_input_cannot_go_while_a_column_reads_it() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    chain(&client).await;
    for statement in
        ["ALTER TABLE t DROP COLUMN x", "ALTER TABLE t DROP COLUMN c", "ALTER TABLE t RENAME COLUMN x TO z"]
    {
        let refused = error(&client, statement).await;
        assert!(refused.starts_with("2BP01") || refused.starts_with("0A000"), "{statement}: {refused}");
    }
    run(&client, "ALTER TABLE t DROP COLUMN d").await;
    run(&client, "ALTER TABLE t DROP COLUMN c").await;
    run(&client, "ALTER TABLE t DROP COLUMN x").await;
}

#[tokio::test]
async fn an_overflow_fails_the_job_and_writes_nothing() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id BIGINT, x BIGINT)").await;
    run(&client, "INSERT INTO t VALUES (1, 1), (2, 9223372036854775807)").await;
    run(&client, "ALTER TABLE t ADD COLUMN y AS x * 2").await;
    let refused = error(&client, "REFRESH COLUMN y ON t WAIT").await;
    assert!(refused.starts_with("22003"), "{refused}");
    assert_eq!(rows(&client, "SELECT y FROM t ORDER BY id").await, ["∅", "∅"]);
    assert_eq!(refresh(&client, "y ON t WHERE id = 1").await, (1, 1), "a row that is not due cannot fail it");
}
