//! SELECT … FOR UPDATE and FOR SHARE: nobody changes rows that were read to be changed.

use tokio_postgres::Client;

use crate::harness::{self, Gateway};
use crate::privileges::user;
use crate::rows::{affected, error, rows, run};

/// Waits until a session waits for a lock: its statement is under way, and stays so.
async fn waits(client: &Client, statement: &str) {
    let words: Vec<&str> = statement.split_whitespace().take(2).collect();
    let active =
        format!("SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '{} %'", words.join(" "));
    harness::until(statement, async || (!rows(client, &active).await.is_empty()).then_some(())).await;
}

/// What an application does: it reads, computes, and writes. Without locks almost every round would lose an increment.
#[tokio::test]
async fn increments_that_are_read_for_update_are_not_lost() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE counters (id int, n int); INSERT INTO counters VALUES (1, 0)").await;
    let mut workers = Vec::new();
    for _ in 0..4 {
        let worker = gateway.connect().await;
        workers.push(tokio::spawn(async move {
            for _ in 0..5 {
                run(&worker, "BEGIN").await;
                let n: i32 = worker
                    .query_one("SELECT n FROM counters WHERE id = $1 FOR UPDATE", &[&1_i32])
                    .await
                    .unwrap()
                    .get(0);
                run(&worker, &format!("UPDATE counters SET n = {} WHERE id = 1; COMMIT", n + 1)).await;
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(rows(&client, "SELECT n FROM counters").await, ["20"]);
}

#[tokio::test]
async fn others_wait_for_the_end_of_the_transaction_and_see_it() {
    let gateway = Gateway::start();
    let (holder, other, observer) = (gateway.connect().await, gateway.connect().await, gateway.connect().await);
    run(&holder, "CREATE TABLE t (id int, n int); INSERT INTO t VALUES (1, 1)").await;
    let other = std::sync::Arc::new(other);
    for (statement, ends) in [
        ("SELECT n FROM t FOR UPDATE", "COMMIT"),
        ("SELECT n FROM t FOR SHARE", "COMMIT"),
        ("UPDATE t SET n = n + 1", "COMMIT"),
        ("DELETE FROM t WHERE n < 0", "ROLLBACK"),
        ("ALTER TABLE t ADD COLUMN x int", "COMMIT"),
        ("INSERT INTO t VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET n = 5", "ROLLBACK"),
    ] {
        run(&holder, "BEGIN; SELECT n FROM t WHERE id = 1 FOR UPDATE").await;
        let waiting = {
            let other = std::sync::Arc::clone(&other);
            tokio::spawn(async move { other.simple_query(statement).await.map(drop) })
        };
        waits(&observer, statement).await;
        assert_eq!(affected(&observer, "INSERT INTO t (id, n) VALUES (2, 2)").await, 1, "INSERT does not wait");
        assert_eq!(rows(&observer, "SELECT count(*) FROM t WHERE id = 1").await, ["1"], "nor does SELECT");
        run(&holder, "UPDATE t SET n = 10 WHERE id = 1").await;
        assert!(!waiting.is_finished(), "{statement}");
        run(&holder, ends).await;
        waiting.await.unwrap().unwrap();
    }
    assert_eq!(rows(&observer, "SELECT n FROM t WHERE id = 1").await, ["5"]);
    // FOR SHARE goes beside FOR SHARE.
    run(&holder, "BEGIN; SELECT n FROM t FOR SHARE").await;
    run(&other, "BEGIN; SELECT n FROM t FOR SHARE; COMMIT").await;
    assert!(error(&other, "SELECT n FROM t FOR UPDATE NOWAIT").await.starts_with("55P03: "));
    run(&holder, "COMMIT").await;
    // It ends with its session, too.
    run(&holder, "BEGIN; SELECT n FROM t FOR UPDATE").await;
    drop(holder);
    harness::until("the end of the lock", async || {
        other.simple_query("SELECT n FROM t FOR UPDATE NOWAIT").await.is_ok().then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_does_not_want_to_wait_is_told_or_finds_nothing() {
    let gateway = Gateway::start();
    let (holder, other) = (gateway.connect().await, gateway.connect().await);
    run(&holder, "CREATE TABLE t (id int); INSERT INTO t VALUES (1); CREATE TABLE u AS SELECT 1 AS id").await;
    run(&holder, "BEGIN; SELECT * FROM t FOR UPDATE").await;
    let refused = error(&other, "SELECT * FROM t FOR UPDATE NOWAIT").await;
    assert_eq!(refused, "55P03: could not obtain lock on row in relation \"t\"");
    assert!(rows(&other, "SELECT * FROM t FOR UPDATE SKIP LOCKED").await.is_empty());
    assert_eq!(rows(&other, "SELECT u.id FROM u JOIN t USING (id) FOR UPDATE OF u").await, ["1"]);
    run(&other, "SET lock_timeout = '50ms'").await;
    for statement in ["SELECT * FROM t FOR SHARE", "UPDATE t SET id = 2", "DROP TABLE t"] {
        let refused = error(&other, statement).await;
        assert_eq!(refused, "55P03: canceling statement due to lock timeout", "{statement}");
    }
    run(&other, "SET lock_timeout = 0; SET statement_timeout = '50ms'").await;
    assert!(error(&other, "UPDATE t SET id = 2").await.starts_with("57014: "));
    run(&holder, "ROLLBACK").await;
    assert_eq!(rows(&other, "SELECT * FROM t FOR UPDATE SKIP LOCKED").await, ["1"]);
    for weaker in ["FOR NO KEY UPDATE", "FOR KEY SHARE", "FOR KEY SHARE OF t NOWAIT"] {
        assert_eq!(rows(&other, &format!("SELECT * FROM t {weaker}")).await, ["1"], "{weaker}");
    }
    // Outside of a block it ends with its statement.
    assert_eq!(rows(&holder, "SELECT * FROM t FOR UPDATE NOWAIT").await, ["1"]);
}

#[tokio::test]
async fn sessions_that_wait_for_each_other_are_told_so() {
    let gateway = Gateway::start();
    let (one, two, observer) = (gateway.connect().await, gateway.connect().await, gateway.connect().await);
    run(&one, "CREATE TABLE t AS SELECT 1 AS a; CREATE TABLE u AS SELECT 1 AS a").await;
    run(&one, "BEGIN; SELECT * FROM t FOR UPDATE").await;
    run(&two, "BEGIN; SELECT * FROM u FOR UPDATE").await;
    let first = tokio::spawn(async move {
        let answer = one.batch_execute("UPDATE u SET a = 2; COMMIT").await;
        (one, answer)
    });
    waits(&observer, "UPDATE u SET a = 2; COMMIT").await;
    let refused = error(&two, "UPDATE t SET a = 3").await;
    assert!(refused.starts_with("40P01: deadlock detected"), "{refused}");
    run(&two, "ROLLBACK").await;
    let (_one, answer) = first.await.unwrap();
    answer.unwrap();
    assert_eq!(rows(&observer, "SELECT t.a, u.a FROM t, u").await, ["1|2"]);
}

#[tokio::test]
async fn locks_are_asked_for_where_rows_are_those_of_tables_by_who_may_update_them() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    let guest = user(&gateway, &admin, "guest").await;
    run(&admin, "GRANT USAGE ON SCHEMA public TO USER guest").await;
    run(
        &admin,
        "CREATE TABLE t AS SELECT 1 AS a; CREATE VIEW v AS SELECT a FROM t; GRANT SELECT ON TABLE t TO USER guest",
    )
    .await;
    for (query, expected) in [
        (
            "SELECT a FROM t UNION SELECT a FROM t FOR UPDATE",
            "0A000: FOR UPDATE is not allowed with UNION/INTERSECT/EXCEPT",
        ),
        ("SELECT DISTINCT a FROM t FOR SHARE", "0A000: FOR SHARE is not allowed with DISTINCT clause"),
        ("SELECT a FROM t GROUP BY a FOR UPDATE", "0A000: FOR UPDATE is not allowed with GROUP BY clause"),
        ("SELECT count(*) FROM t FOR UPDATE", "0A000: FOR UPDATE is not allowed with aggregate functions"),
        ("SELECT row_number() OVER () FROM t FOR UPDATE", "0A000: FOR UPDATE is not allowed with window functions"),
        ("SELECT a FROM t FOR UPDATE OF x", "42P01: relation \"x\" in FOR UPDATE clause not found in FROM clause"),
        ("SELECT a FROM v FOR UPDATE", "0A000: FOR UPDATE of view \"v\" is not supported"),
    ] {
        let refused = error(&admin, query).await;
        assert!(refused.starts_with(expected), "{query}: {refused}");
    }
    assert!(error(&guest, "SELECT a FROM t FOR UPDATE").await.starts_with("42501: permission denied for table t"));
    run(&admin, "BEGIN READ ONLY").await;
    let refused = error(&admin, "SELECT a FROM t FOR UPDATE").await;
    assert!(refused.starts_with("25006: cannot execute SELECT FOR UPDATE in a read-only transaction"), "{refused}");
    run(&admin, "ROLLBACK").await;
    // A job that is taken and marked in one statement is taken once.
    let take =
        "UPDATE t SET a = a + 1 WHERE a = (SELECT a FROM t WHERE a < 5 ORDER BY a LIMIT 1 FOR UPDATE SKIP LOCKED)";
    assert_eq!(affected(&admin, take).await, 1);
    assert_eq!(rows(&admin, "WITH x AS (SELECT 2 AS a) SELECT t.a FROM t JOIN x USING (a) FOR UPDATE").await, ["2"]);
    assert_eq!(rows(&admin, "SELECT relname FROM pg_class WHERE relname = 't' FOR SHARE").await, ["t"]);
}
