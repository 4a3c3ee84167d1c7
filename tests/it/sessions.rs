//! What sessions see and do of each other, and cursors that go both ways.

use std::time::Duration;

use crate::harness::{Gateway, until};
use crate::rows::{error, rows, run};

#[tokio::test]
async fn sessions_are_listed_canceled_and_ended() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let other = gateway.connect().await;
    run(&other, "SET application_name = 'sleeper'; BEGIN").await;
    let pid = rows(&other, "SELECT pg_backend_pid()").await.remove(0);
    let of_pid = format!("SELECT state, application_name FROM pg_stat_activity WHERE pid = {pid}");
    assert_eq!(rows(&client, &of_pid).await, ["idle in transaction|sleeper"]);
    let own = "SELECT state, usename, datname, query FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    assert_eq!(rows(&client, own).await, [format!("active|lancegate|lancegate|{own}")]);
    let sleeping = tokio::spawn(async move {
        let failed = error(&other, "SELECT pg_sleep(60)").await;
        (other, failed)
    });
    until("the other session runs", async || {
        let found = rows(&client, &of_pid).await;
        (found == ["active|sleeper"]).then_some(())
    })
    .await;
    assert_eq!(rows(&client, &format!("SELECT pg_cancel_backend({pid})")).await, ["t"]);
    let (other, failed) = sleeping.await.unwrap();
    assert!(failed.starts_with("57014: canceling statement due to user request"), "{failed}");
    assert_eq!(rows(&client, &format!("SELECT pg_terminate_backend({pid})")).await, ["t"]);
    until("the other session is gone", async || rows(&client, &of_pid).await.is_empty().then_some(())).await;
    assert!(tokio::time::timeout(Duration::from_secs(10), other.simple_query("SELECT 1")).await.unwrap().is_err());
    assert_eq!(rows(&client, "SELECT pg_cancel_backend(2147483647)").await, ["f"]);
}

#[tokio::test]
async fn others_are_hidden_and_out_of_reach_without_a_right() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE USER ann PASSWORD 'ann has a long password'").await;
    let ann = gateway.connect_as("ann", "ann has a long password").await.unwrap();
    let pid = rows(&client, "SELECT pg_backend_pid()").await.remove(0);
    assert_eq!(rows(&ann, "SELECT DISTINCT usename FROM pg_stat_activity").await, ["ann"]);
    for function in ["pg_cancel_backend", "pg_terminate_backend"] {
        let refused = error(&ann, &format!("SELECT {function}({pid})")).await;
        assert!(refused.starts_with("42501: permission denied to"), "{refused}");
    }
    let own = rows(&ann, "SELECT pg_backend_pid()").await.remove(0);
    let second = gateway.connect_as("ann", "ann has a long password").await.unwrap();
    assert_eq!(rows(&second, &format!("SELECT pg_terminate_backend({own})")).await, ["t"]);
    // Nobody reads a password there, not even who may see the statement.
    run(&client, "ALTER USER ann PASSWORD 'another long password'").await;
    let seen = rows(&second, "SELECT query FROM pg_stat_activity").await;
    assert_eq!(seen.len(), 1);
    run(&client, "GRANT USAGE ON SYSTEM TO USER ann").await;
    let seen = rows(&second, &format!("SELECT query FROM pg_stat_activity WHERE pid = {pid}")).await;
    assert!(!seen.concat().contains("another long"), "{seen:?}");
}

#[tokio::test]
async fn a_cursor_scrolls_both_ways_as_postgresql_s() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "BEGIN; DECLARE c SCROLL CURSOR FOR SELECT i FROM generate_series(1, 20000) AS g(i) ORDER BY i").await;
    for (fetch, expected) in [
        ("FETCH 2 FROM c", vec!["1", "2"]),
        ("FETCH PRIOR FROM c", vec!["1"]),
        ("FETCH PRIOR FROM c", vec![]),
        ("FETCH ABSOLUTE 10000 FROM c", vec!["10000"]),
        ("FETCH BACKWARD 2 FROM c", vec!["9999", "9998"]),
        ("FETCH RELATIVE 5 FROM c", vec!["10003"]),
        ("FETCH 0 FROM c", vec!["10003"]),
        ("FETCH LAST FROM c", vec!["20000"]),
        ("FETCH NEXT FROM c", vec![]),
        ("FETCH PRIOR FROM c", vec!["20000"]),
        ("FETCH FIRST FROM c", vec!["1"]),
        ("FETCH ABSOLUTE -3 FROM c", vec!["19998"]),
        ("FETCH FORWARD ALL FROM c", vec!["19999", "20000"]),
    ] {
        assert_eq!(rows(&client, fetch).await, expected, "{fetch}");
    }
    run(&client, "MOVE ABSOLUTE 5 FROM c").await;
    assert_eq!(rows(&client, "FETCH BACKWARD ALL FROM c").await, ["4", "3", "2", "1"]);
    run(&client, "COMMIT; BEGIN; DECLARE c CURSOR FOR SELECT 1").await;
    assert!(error(&client, "FETCH PRIOR FROM c").await.starts_with("55000: cursor can only scan forward"));
}

#[tokio::test]
async fn parameters_are_arguments_of_table_functions() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let series = client.prepare("SELECT i FROM generate_series(1, $1) AS g(i) WHERE i > $2 ORDER BY i").await.unwrap();
    assert_eq!(series.params().len(), 2);
    for (end, over, expected) in [(5i64, 3i64, vec![4i64, 5]), (3, 0, vec![1, 2, 3]), (2, 2, vec![])] {
        let found = client.query(&series, &[&end, &over]).await.unwrap();
        let found: Vec<i64> = found.iter().map(|row| row.get(0)).collect();
        assert_eq!(found, expected);
    }
    run(&client, "CREATE TABLE t (a int); ALTER TABLE t ADD COLUMN b AS (a + 1)").await;
    let status = client.prepare("SELECT \"column\" FROM column_status($1)").await.unwrap();
    assert_eq!(status.params()[0].name(), "text");
    let found = client.query(&status, &[&"t"]).await.unwrap();
    assert_eq!(found.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>(), ["b"]);
    assert!(client.query(&status, &[&"nope"]).await.is_err());
    run(&client, "PREPARE s (bigint) AS SELECT count(*) FROM generate_series(1, $1)").await;
    assert_eq!(rows(&client, "EXECUTE s(7)").await, ["7"]);
}

#[tokio::test]
async fn whole_numbers_are_integers_and_numeric_shows_no_zeros_of_its_own() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(
        &client,
        "CREATE TABLE t (a smallint, b bigint, n numeric, v real[]); INSERT INTO t VALUES (1, 2, 1.50, '{1,2}')",
    )
    .await;
    for (query, types) in [
        ("SELECT 1, -1, 2147483647, -2147483648, 2147483648", vec!["int4", "int4", "int4", "int4", "int8"]),
        (
            "SELECT 1 + 1, a + 1, b + 1, count(*), sum(1), max(a) FROM t GROUP BY a, b",
            vec!["int4", "int4", "int8", "int8", "int8", "int2"],
        ),
        ("SELECT x.k, (SELECT max(a) FROM t WHERE t.a = x.k) AS s FROM (SELECT 1 AS k) AS x", vec!["int4", "int2"]),
        ("VALUES (1, 'a'), (2, 'b')", vec!["int4", "text"]),
        ("VALUES (1), (3000000000)", vec!["int8"]),
        ("SELECT 1 UNION ALL SELECT b FROM t", vec!["int8"]),
        (
            "SELECT CASE WHEN a = 1 THEN 1 ELSE 0 END, ARRAY[1, 2], coalesce(NULL, 1) FROM t",
            vec!["int4", "_int4", "int4"],
        ),
        (
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT count(n) FROM r",
            vec!["int8"],
        ),
        ("SELECT oid, array_agg(relname) FROM pg_class GROUP BY oid", vec!["oid", "_text"]),
        ("SELECT 1 AS a ORDER BY 1 LIMIT 1", vec!["int4"]),
    ] {
        let statement = client.prepare(query).await.unwrap();
        let found: Vec<&str> = statement.columns().iter().map(|column| column.type_().name()).collect();
        assert_eq!(found, types, "{query}");
        client.query(&statement, &[]).await.unwrap();
    }
    assert_eq!(
        rows(&client, "SELECT n, n::text, 1.25::numeric, 1::numeric, 1.50::numeric(5,2) FROM t").await,
        ["1.5|1.5|1.25|1|1.50"]
    );
    assert_eq!(
        rows(&client, "SELECT x.k, (SELECT max(a) FROM t WHERE t.a = x.k) FROM (SELECT 1 AS k) AS x").await,
        ["1|1"]
    );
    assert!(error(&client, "SELECT 2147483647 + 1").await.starts_with("22003: integer out of range"));
    assert_eq!(rows(&client, "SELECT count(*) FROM t WHERE a = 1 AND b IN (1, 2) AND b < 3").await, ["1"]);
}

#[tokio::test]
async fn an_error_points_at_the_literal_that_it_names() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (a int, d date)").await;
    for (statement, code, position) in [
        ("SELECT 'x'::int", "22P02", 8),
        ("SELECT '2024-13-01'::date", "22008", 8),
        ("SELECT 'soon'::date", "22007", 8),
        ("SELECT 1 WHERE 'maybe'::boolean", "22P02", 16),
        ("INSERT INTO t VALUES ('x', NULL)", "22P02", 23),
        ("SELECT 'x'::nothing", "42704", 13),
        ("INSERT INTO t (nope) VALUES (1)", "42703", 16),
        ("UPDATE t SET nope = 1", "42703", 14),
        ("INSERT INTO t VALUES (1, NULL, 3)", "42601", 32),
        ("SELECT a FROM t ORDER BY 5", "42P10", 26),
        ("SELECT $1", "42P02", 8),
    ] {
        let failed = client.simple_query(statement).await.unwrap_err();
        let failed = failed.as_db_error().unwrap();
        let found = match failed.position() {
            Some(tokio_postgres::error::ErrorPosition::Original(position)) => *position,
            _ => 0,
        };
        assert_eq!((failed.code().code(), found), (code, position), "{statement}: {}", failed.message());
    }
}

#[tokio::test]
async fn advisory_locks_are_held_by_sessions_and_transactions() {
    let gateway = Gateway::start();
    let (one, two) = (gateway.connect().await, gateway.connect().await);
    assert_eq!(rows(&one, "SELECT pg_try_advisory_lock(7), pg_try_advisory_lock(1, 2)").await, ["t|t"]);
    assert_eq!(rows(&two, "SELECT pg_try_advisory_lock(7), pg_try_advisory_lock(8)").await, ["f|t"]);
    let waiting = tokio::spawn(async move {
        let took = rows(&two, "SELECT pg_advisory_lock(7)").await;
        (two, took)
    });
    until("the other session waits", async || {
        let active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()";
        (rows(&one, active).await == ["1"]).then_some(())
    })
    .await;
    let circle = error(&one, "SELECT pg_advisory_lock(8)").await;
    assert!(circle.starts_with("40P01"), "{circle}");
    assert_eq!(rows(&one, "SELECT pg_advisory_unlock(7), pg_advisory_unlock(9)").await, ["t|f"]);
    let (two, took) = waiting.await.unwrap();
    assert_eq!(took, [""]);
    run(&one, "SET statement_timeout = '50ms'").await;
    assert!(error(&one, "SELECT pg_advisory_lock(7)").await.starts_with("57014"));
    run(&two, "DISCARD ALL").await;
    run(&one, "BEGIN; SELECT pg_advisory_xact_lock(7)").await;
    assert_eq!(rows(&two, "SELECT pg_try_advisory_lock(7)").await, ["f"]);
    run(&one, "COMMIT").await;
    assert_eq!(rows(&two, "SELECT pg_try_advisory_lock(7)").await, ["t"]);
    drop(two);
    until("the lock ends with its session", async || {
        (rows(&one, "SELECT pg_try_advisory_lock(7)").await == ["t"]).then_some(())
    })
    .await;
}
