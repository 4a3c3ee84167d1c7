//! RETURNING of INSERT, UPDATE and DELETE.

use crate::harness::Gateway;
use crate::privileges::user;
use crate::rows::{error, rows, run};

#[tokio::test]
async fn a_change_answers_the_rows_that_it_wrote_or_removed() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint, x bigint, s text)").await;
    run(&client, "ALTER TABLE t ADD COLUMN y AS x * 2").await;
    // Columns that are not given are NULL, computed ones too: a refresh fills them.
    let inserted = rows(&client, "INSERT INTO t (id, x) VALUES (1, 10), (2, 20) RETURNING *, id + x AS sum").await;
    assert_eq!(inserted, ["1|10|∅|∅|11", "2|20|∅|∅|22"]);
    let inserted = "INSERT INTO t AS new (id, s) SELECT i, 'row ' || i FROM generate_series(3, 5) AS g(i) RETURNING new.id, upper(s)";
    assert_eq!(rows(&client, inserted).await, ["3|ROW 3", "4|ROW 4", "5|ROW 5"]);
    run(&client, "REFRESH COLUMN y ON t WAIT").await;
    let updated = rows(&client, "UPDATE t SET x = x + 1 WHERE id < 3 RETURNING id, x, y").await;
    assert_eq!(updated, ["1|11|20", "2|21|40"]);
    assert_eq!(rows(&client, "UPDATE t SET x = 0 WHERE id = 99 RETURNING id").await, Vec::<String>::new());
    let counted = rows(&client, "DELETE FROM t WHERE id > 3 RETURNING id, s").await;
    assert_eq!(counted, ["4|row 4", "5|row 5"]);
    let joined =
        "UPDATE t SET s = u.s FROM (VALUES (1, 'one'), (2, 'two')) AS u(id, s) WHERE t.id = u.id RETURNING t.id, t.s";
    assert_eq!(rows(&client, joined).await, ["1|one", "2|two"]);
    assert_eq!(rows(&client, "DELETE FROM t RETURNING id").await, ["3", "1", "2"]);
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["0"]);
}

/// Drivers describe the statement before they run it, and read the tag behind the rows.
#[tokio::test]
async fn it_is_described_and_has_the_tag_of_the_change() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint, s text)").await;
    let statement = client.prepare("INSERT INTO t VALUES ($1, $2) RETURNING id, s AS word").await.unwrap();
    let columns: Vec<_> = statement.columns().iter().map(|column| (column.name(), column.type_().name())).collect();
    assert_eq!(columns, [("id", "int8"), ("word", "text")]);
    for id in 0..3_i64 {
        let row = client.query_one(&statement, &[&id, &"w"]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, &str>(1)), (id, "w"));
    }
    let output = gateway.psql_with(&["-c", "DELETE FROM t WHERE id > 0 RETURNING id"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("(2 rows)") && said.trim_end().ends_with("DELETE 2"), "{said}");
}

#[tokio::test]
async fn z02_returning_takes_the_right_to_select() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    run(&admin, "CREATE TABLE t (id bigint)").await;
    let ann = user(&gateway, &admin, "ann").await;
    run(&admin, "GRANT USAGE ON SCHEMA public TO USER ann").await;
    run(&admin, "GRANT INSERT ON TABLE t TO USER ann").await;
    let refused = error(&ann, "INSERT INTO t VALUES (1) RETURNING id").await;
    assert!(refused.starts_with("42501: permission denied for table t"), "{refused}");
    assert_eq!(rows(&admin, "SELECT count(*) FROM t").await, ["0"]);
    run(&admin, "GRANT SELECT ON TABLE t TO USER ann").await;
    assert_eq!(rows(&ann, "INSERT INTO t VALUES (1) RETURNING id").await, ["1"]);
    for (sql, expected) in [
        ("INSERT INTO t VALUES (1) RETURNING nope", "42703: column \"nope\" does not exist"),
        ("DELETE FROM t RETURNING u.id", "42703: column u.id does not exist"),
        ("DELETE FROM t RETURNING count(*)", "42803: aggregate functions are not allowed in RETURNING"),
    ] {
        let refused = error(&admin, sql).await;
        assert!(refused.starts_with(expected), "{sql}: {refused}");
    }
    assert_eq!(rows(&admin, "SELECT count(*) FROM t").await, ["1"]);
}

#[tokio::test]
async fn queries_before_a_change_are_read_by_it() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id int, n int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 6) AS s(i)").await;
    for (statement, expected) in [
        ("WITH x AS (SELECT id FROM t WHERE id < 3) UPDATE t SET n = 1 FROM x WHERE t.id = x.id RETURNING t.id", "1 2"),
        (
            "WITH X (a) AS (SELECT 3), y AS (SELECT a + 1 AS b FROM x) UPDATE t SET n = 2 WHERE id IN (SELECT b FROM y) RETURNING id",
            "4",
        ),
        ("WITH x AS (SELECT 5 AS id) DELETE FROM t USING x AS y WHERE t.id = y.id RETURNING t.id", "5"),
        ("WITH x AS (SELECT max(id) AS id FROM t) DELETE FROM t WHERE id = (SELECT id FROM x) RETURNING id", "6"),
        (
            "WITH x AS (SELECT 7 AS id) INSERT INTO t WITH y AS (SELECT id + 1 AS id FROM x) SELECT id, 7 FROM y RETURNING id",
            "8",
        ),
        (
            "WITH x AS (SELECT 1 AS id) UPDATE t SET n = 9 WHERE id IN (WITH x AS (SELECT 2 AS id) SELECT id FROM x) RETURNING id",
            "2",
        ),
        (
            "WITH x AS (SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
             UPDATE t SET n = 10 FROM x WHERE t.id = x.id RETURNING t.n",
            "10",
        ),
    ] {
        let mut answer = rows(&client, statement).await;
        answer.sort();
        assert_eq!(answer.join(" "), expected, "{statement}");
    }
    let refused = error(&client, "WITH RECURSIVE x AS (SELECT 1 AS a) DELETE FROM t USING x").await;
    assert!(refused.starts_with("0A000: "), "{refused}");
    // Each reads the one before it twice; nobody waits for the end of that.
    let doubled: Vec<String> =
        (1..40).map(|n| format!("x{n} AS (SELECT a.id FROM x{m} a, x{m} b)", m = n - 1)).collect();
    let bomb = format!("WITH x0 AS (SELECT 1 AS id), {} DELETE FROM t USING x39 WHERE false", doubled.join(", "));
    assert!(error(&client, &bomb).await.starts_with("0A000: "));
}
