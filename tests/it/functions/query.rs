//! Functions that queries call.

use super::{declare, numbers};
use crate::rows::{error, rows, run};

async fn create(client: &tokio_postgres::Client, signature: &str, source: &str) {
    let source = source.replace('\'', "''");
    run(client, &format!("CREATE FUNCTION {signature} LANGUAGE python AS '{source}'")).await;
}

#[tokio::test]
async fn a_function_is_called_in_the_select_list_and_in_where() {
    let (_gateway, client) = numbers().await;
    create(&client, "g (x int64) RETURNS int64", "def g(x): return 2 * x").await;
    create(&client, "name_of (x int64 NOT NULL, unit utf8) RETURNS utf8", "def name_of(x, unit): return f'{x} {unit}'")
        .await;
    assert_eq!(rows(&client, "SELECT g(21)").await, ["42"]);
    assert_eq!(rows(&client, "SELECT x, g(x) AS twice FROM n WHERE g(x) > 15 ORDER BY x").await, ["8|16", "9|18"]);
    assert_eq!(rows(&client, "SELECT public.name_of(x, 'm') FROM n WHERE x < 2 ORDER BY x").await, ["0 m", "1 m"]);
    assert_eq!(rows(&client, "SELECT name_of(NULL, 'm'), name_of(1, NULL)").await, ["∅|1 None"]);
    assert_eq!(rows(&client, "SELECT sum(y) FROM (SELECT g(x) AS y FROM n) AS s").await, ["90"]);
    assert_eq!(rows(&client, "SELECT n.x FROM n JOIN n AS m ON n.x = m.x WHERE g(m.x) = 4").await, ["2"]);
    run(&client, "CREATE TABLE m AS SELECT x, g(x) AS y FROM n; CREATE VIEW v AS SELECT g(x) AS y FROM n").await;
    assert_eq!(rows(&client, "SELECT max(y) FROM m UNION ALL SELECT max(y) FROM v").await, ["18", "18"]);
}

#[tokio::test]
async fn a_row_that_raises_fails_the_statement_and_says_what_it_raised() {
    let (_gateway, client) = numbers().await;
    create(&client, "g (x int64) RETURNS int64", "def g(x): return 10 // (x - 3)").await;
    let failed = error(&client, "SELECT g(x) FROM n").await;
    assert!(failed.starts_with("38000") && failed.contains("ZeroDivisionError"), "{failed}");
    assert_eq!(rows(&client, "SELECT g(x) FROM n WHERE x = 4").await, ["10"], "the next statement is right");
    create(&client, "h (x int64) RETURNS int64", "raise RuntimeError('no weights')\ndef h(x): return x").await;
    let failed = error(&client, "SELECT h(1)").await;
    assert!(failed.starts_with("38000") && failed.contains("no weights"), "{failed}");
}

#[tokio::test]
async fn what_cannot_be_called_is_refused_and_a_call_takes_usage() {
    let (gateway, client) = numbers().await;
    declare(&client, "def f(x): return x", "").await;
    for (sql, code) in [
        ("SELECT nope(x) FROM n", "42883"),
        ("SELECT f(x, x) FROM n", "42883"),
        ("CREATE FUNCTION length (x int64) RETURNS int64 LANGUAGE python AS 'def length(x): return x'", "42723"),
        ("CREATE FUNCTION \"a-b\" (x int64) RETURNS int64 LANGUAGE python AS 'def f(x): return x'", "42602"),
    ] {
        let refused = error(&client, sql).await;
        assert!(refused.starts_with(code), "{sql}\n{refused}");
    }
    run(&client, "CREATE USER ann PASSWORD 'ann-password'; GRANT USAGE ON DATABASE lancegate TO USER ann").await;
    run(&client, "GRANT USAGE ON SCHEMA public TO USER ann; GRANT SELECT ON TABLE n TO USER ann").await;
    run(&client, "CREATE VIEW v AS SELECT f(x) AS y FROM n; GRANT SELECT ON VIEW v TO USER ann").await;
    let ann = gateway.connect_as("ann", "ann-password").await.unwrap();
    assert!(error(&ann, "SELECT f(x) FROM n").await.starts_with("42501"));
    assert_eq!(rows(&ann, "SELECT max(y) FROM v").await, ["9"], "a view calls with its owner's rights");
    run(&client, "GRANT USAGE ON FUNCTION f TO USER ann").await;
    assert_eq!(rows(&ann, "SELECT f(x) FROM n WHERE x = 5").await, ["5"]);
}

#[tokio::test]
async fn a_function_is_called_in_every_clause() {
    let (_gateway, client) = numbers().await;
    create(&client, "g (x int64) RETURNS int64", "def g(x): return None if x is None else x % 3").await;
    create(&client, "add (a int64, b int64) RETURNS int64", "def add(a, b): return a + b").await;
    run(&client, "CREATE TABLE m (z BIGINT); INSERT INTO m VALUES (0), (1), (7)").await;
    for (sql, expected) in [
        ("SELECT sum(g(x)), max(add(x, 1)) FROM n", "9|10"),
        ("SELECT g(x), count(*) FROM n GROUP BY g(x) ORDER BY g(x)", "0|4 1|3 2|3"),
        ("SELECT g(x) AS k, sum(x) FROM n GROUP BY k HAVING sum(g(x)) > 3 ORDER BY 1", "2|15"),
        ("SELECT g(x), sum(x) FROM n GROUP BY 1 HAVING add(sum(x)::bigint, 1) = 13", "1|12"),
        ("SELECT x FROM n WHERE x < 5 ORDER BY g(x) DESC, x", "2 1 4 0 3"),
        ("SELECT x, g(x) FROM n WHERE x < 3 ORDER BY g(x) DESC", "2|2 1|1 0|0"),
        ("SELECT n.x, m.z FROM n JOIN m ON g(n.x) = m.z WHERE n.x < 3 ORDER BY n.x", "0|0 1|1"),
        ("SELECT n.x, m.z FROM n JOIN m ON add(n.x, m.z) = 10 ORDER BY n.x", "3|7 9|1"),
        ("SELECT n.x, m.z FROM n, m WHERE add(n.x, m.z) = 10 AND n.x > 2 ORDER BY n.x", "3|7 9|1"),
        ("SELECT n.x, m.z FROM n JOIN m ON n.x = m.z AND g(n.x) = 1 ORDER BY n.x", "1|1 7|7"),
        ("SELECT n.x, m.z FROM n, m WHERE add(n.x, m.z) = 10 ORDER BY n.x", "3|7 9|1"),
        ("SELECT x FROM (SELECT n.x, m.z FROM n, m) AS s WHERE add(s.x, s.z) = 10 AND x < 9", "3"),
        ("SELECT m.z, n.x FROM m LEFT JOIN n ON g(m.z) = 1 AND n.x = m.z ORDER BY m.z", "0|∅ 1|1 7|7"),
        ("SELECT add(g(x), g(x)) FROM n WHERE add(g(x), 0) = 2 ORDER BY x", "4 4 4"),
        ("SELECT sum(add(g(x), 1)) FROM n", "19"),
        ("SELECT x, sum(g(x)) OVER (ORDER BY x) FROM n WHERE x < 4 ORDER BY x", "0|0 1|1 2|3 3|3"),
        ("SELECT DISTINCT ON (g(x)) g(x), x FROM n ORDER BY g(x), x DESC", "0|9 1|7 2|8"),
        ("SELECT count(*) FILTER (WHERE g(x) = 1) FROM n", "3"),
        ("SELECT (SELECT max(g(x)) FROM n)", "2"),
        ("SELECT x FROM n WHERE x IN (SELECT sum(g(z)) FROM m)", "2"),
        ("SELECT g(x), sum(x) FROM n GROUP BY ROLLUP (g(x)) ORDER BY 1 NULLS LAST", "0|18 1|12 2|15 ∅|45"),
        ("SELECT column1 FROM (VALUES (g(4)), (g(5))) AS v ORDER BY 1", "1 2"),
    ] {
        assert_eq!(rows(&client, sql).await.join(" "), expected, "{sql}");
    }
    run(
        &client,
        "INSERT INTO m VALUES (add(20, 1)); CREATE VIEW v AS SELECT g(x) AS k, count(*) AS c FROM n GROUP BY g(x)",
    )
    .await;
    assert_eq!(rows(&client, "SELECT max(z) FROM m").await, ["21"]);
    assert_eq!(rows(&client, "SELECT k, c FROM v ORDER BY c DESC, k").await.join(" "), "0|4 1|3 2|3");
    // What is decided without a call spares it: nine tenths of these would fail.
    create(
        &client,
        "only_five (x int64) RETURNS int64",
        "def only_five(x):\n if x != 5: raise ValueError(x)\n return x",
    )
    .await;
    assert_eq!(rows(&client, "SELECT x FROM n WHERE only_five(x) = 5 AND x = 5").await, ["5"]);
    let outer = error(&client, "SELECT n.x FROM n LEFT JOIN m ON add(n.x, m.z) = 10").await;
    assert!(outer.starts_with("0A000") && outer.contains("outer join"), "{outer}");
    // With a parameter, and more than once.
    let statement = client.prepare("SELECT sum(add(x, $1))::bigint FROM n").await.unwrap();
    for (by, expected) in [(1_i64, 55_i64), (2, 65)] {
        let row = client.query_one(&statement, &[&by]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), expected);
    }
}

#[tokio::test]
async fn vectors_of_columns_and_of_other_functions_are_arguments_of_queries() {
    let (_gateway, client) = numbers().await;
    run(&client, "CREATE TABLE v (x BIGINT, v vector(2), l REAL[])").await;
    run(&client, "INSERT INTO v VALUES (1, '[1,2]', '{4,5}'), (2, '[3,4]', '{}')").await;
    create(
        &client,
        "twice (v fixed_size_list<float32, 2>) RETURNS fixed_size_list<float32, 2>",
        "def twice(v): return [2 * i for i in v]",
    )
    .await;
    create(
        &client,
        "dot (a fixed_size_list<float32, 2>, b fixed_size_list<float32, 2>, l list<float32>) RETURNS float64",
        "def dot(a, b, l): return sum(x * y for x, y in zip(a, b)) + len(l)",
    )
    .await;
    assert_eq!(
        rows(&client, "SELECT dot(v, twice(v), l), dot(twice(v), v, make_array()) FROM v ORDER BY x").await,
        ["12|10", "50|50"]
    );
    assert!(error(&client, "SELECT dot(v, v) FROM v").await.starts_with("42883"));
}
