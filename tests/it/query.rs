//! What queries answer and refuse, over the wire.

use crate::harness::Gateway;
use crate::rows::{describe, error, rows, run};

#[tokio::test]
async fn a_table_is_read_at_a_version_tag_or_time() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint)").await;
    run(&client, "INSERT INTO t VALUES (1)").await;
    run(&client, "INSERT INTO t VALUES (2)").await;
    let versions = "SELECT count(*) FROM t FOR SYSTEM_TIME AS OF";
    let cases = [
        (format!("{versions} VERSION 1"), vec!["0"]),
        (format!("{versions} VERSION 2"), vec!["1"]),
        (format!("{versions} VERSION 3"), vec!["2"]),
        (format!("{versions} TIMESTAMP '2999-01-01'"), vec!["2"]),
        ("SELECT t.id FROM t FOR SYSTEM_TIME AS OF VERSION 2".to_owned(), vec!["1"]),
        (
            "SELECT new.id, old.id FROM t new LEFT JOIN public.t FOR SYSTEM_TIME AS OF VERSION 2 AS old \
             ON old.id = new.id ORDER BY 1"
                .to_owned(),
            vec!["1|1", "2|∅"],
        ),
    ];
    for (sql, expected) in cases {
        assert_eq!(rows(&client, &sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn a_version_that_does_not_exist_is_named() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint)").await;
    run(&client, "CREATE VIEW v AS SELECT id FROM t").await;
    let cases = [
        ("t FOR SYSTEM_TIME AS OF VERSION 99", "22023: version 99 of table \"t\" does not exist"),
        ("t FOR SYSTEM_TIME AS OF TAG 'x'", "42704: tag \"x\" of table \"t\" does not exist"),
        ("t FOR SYSTEM_TIME AS OF TIMESTAMP '2000-01-01'", "22023: table \"t\" has no version at \"2000-01-01\""),
        (
            "t FOR SYSTEM_TIME AS OF TIMESTAMP 'soon'",
            "22007: invalid input syntax for type timestamp with time zone: \"soon\"",
        ),
        ("v FOR SYSTEM_TIME AS OF VERSION 1", "42809: \"v\" is not a table"),
        ("u FOR SYSTEM_TIME AS OF VERSION 1", "42P01: relation \"u\" does not exist"),
    ];
    for (from, expected) in cases {
        assert_eq!(error(&client, &format!("SELECT * FROM {from}")).await, expected, "{from}");
    }
    let expected = "0A000: an earlier version of a table cannot be changed";
    assert_eq!(error(&client, "UPDATE t FOR SYSTEM_TIME AS OF VERSION 1 SET id = 1").await, expected);
    assert_eq!(error(&client, "DELETE FROM t FOR SYSTEM_TIME AS OF VERSION 1 WHERE id = 1").await, expected);
}

#[tokio::test]
async fn integer_arithmetic_that_overflows_fails_in_every_clause() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint, x int, s smallint)").await;
    run(&client, "INSERT INTO t VALUES (2, 2147483647, 32767)").await;
    let (bigint, integer, smallint) =
        ("22003: bigint out of range", "22003: integer out of range", "22003: smallint out of range");
    let cases = [
        ("SELECT 9223372036854775807 + 1", bigint),
        ("SELECT (-9223372036854775807 - 1) / -1", bigint),
        ("SELECT -(-9223372036854775807 - id + 1) FROM t", bigint),
        ("SELECT x * x FROM t", integer),
        ("SELECT s + s FROM t", smallint),
        ("SELECT id FROM t WHERE id * 9223372036854775807 > 0", bigint),
        ("SELECT id FROM t ORDER BY id * 9223372036854775807", bigint),
        ("SELECT max(id * 9223372036854775807) FROM t", bigint),
        ("SELECT id - 9223372036854775807 - 9223372036854775807, count(*) FROM t GROUP BY 1", bigint),
        ("INSERT INTO t (id) VALUES (9223372036854775807 + 1)", bigint),
        ("INSERT INTO t (x) VALUES (2147483648)", integer),
        ("UPDATE t SET x = x * 4000000000", integer),
        ("UPDATE t SET id = id * 9223372036854775807", bigint),
    ];
    for (sql, expected) in cases {
        assert_eq!(error(&client, sql).await, expected, "{sql}");
    }
    assert_eq!(error(&client, "SELECT x + 1 FROM t").await, integer);
    assert_eq!(
        rows(&client, "SELECT id + 1, x + 1::bigint, -s FROM t WHERE id = 1 + 1").await,
        ["3|2147483648|-32767"]
    );
    let statement = client.prepare("SELECT $1::bigint + 1").await.unwrap();
    let overflow = client.query(&statement, &[&i64::MAX]).await.unwrap_err();
    assert_eq!(describe(&overflow), bigint);
}

#[tokio::test]
async fn is_distinct_from_binds_as_tightly_as_is_null() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    // What PostgreSQL 15 answers.
    let cases = [
        ("1 IS DISTINCT FROM 1 OR true", "t"),
        ("1 IS NOT DISTINCT FROM 1 AND false", "f"),
        ("NULL IS NOT DISTINCT FROM NULL OR false", "t"),
        ("1 IS DISTINCT FROM 2 - 1", "f"),
        ("1 + 1 IS NOT DISTINCT FROM 2", "t"),
        ("NOT 1 IS DISTINCT FROM 2", "f"),
        ("CASE WHEN 2 IS DISTINCT FROM 1 AND true THEN 'x' ELSE 'y' END = 'x'", "t"),
    ];
    for (condition, expected) in cases {
        assert_eq!(rows(&client, &format!("SELECT {condition}")).await, [expected], "{condition}");
    }
}

#[tokio::test]
async fn a_sum_of_bigint_is_numeric_and_does_not_wrap() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint, x int)").await;
    run(&client, "INSERT INTO t VALUES (9223372036854775807, 1), (9223372036854775807, 2)").await;
    assert_eq!(
        rows(&client, "SELECT sum(id), sum(x), sum(DISTINCT id) FROM t").await,
        ["18446744073709551614|3|9223372036854775807"]
    );
    assert!(error(&client, "SELECT sum('a'::text)").await.starts_with("42883: "));
    assert_eq!(
        rows(&client, "SELECT max(s) FROM (SELECT sum(id) OVER () AS s FROM t) AS w").await,
        ["18446744073709551614"]
    );
}

#[tokio::test]
async fn clauses_that_would_be_ignored_are_refused() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint)").await;
    let locks = "A SELECT that is a statement of its own locks rows.";
    let channels = "The one channel is \"lancegate_jobs\", which tells of changes of jobs.";
    let cases = [
        (
            "SELECT * FROM t TABLESAMPLE SYSTEM (10)",
            "0A000: TABLESAMPLE is not supported\nORDER BY random() LIMIT <n> picks rows at random.".to_owned(),
        ),
        ("COPY (SELECT * FROM t FOR UPDATE) TO STDOUT", format!("0A000: FOR UPDATE is not supported here\n{locks}")),
        ("CREATE TABLE u AS SELECT * FROM t FOR SHARE", format!("0A000: FOR SHARE is not supported here\n{locks}")),
        ("LISTEN other", format!("0A000: channel \"other\" is not supported\n{channels}")),
        (
            "NOTIFY lancegate_jobs",
            "0A000: NOTIFY is not supported\nLISTEN lancegate_jobs tells of changes of jobs.".to_owned(),
        ),
    ];
    for (sql, expected) in cases {
        assert_eq!(error(&client, sql).await, expected, "{sql}");
    }
    run(&client, "UNLISTEN *; UNLISTEN lancegate_jobs; UNLISTEN other").await;
}

#[tokio::test]
async fn table_is_a_query_wherever_a_query_may_stand() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint)").await;
    run(&client, "INSERT INTO t VALUES (1), (2)").await;
    run(&client, "CREATE TABLE u AS TABLE t").await;
    run(&client, "INSERT INTO u TABLE t").await;
    run(&client, "CREATE VIEW v AS TABLE public.t").await;
    let cases = [
        ("TABLE t", vec!["1", "2"]),
        ("TABLE t ORDER BY id DESC LIMIT 1", vec!["2"]),
        ("TABLE t UNION ALL (TABLE v) ORDER BY id", vec!["1", "1", "2", "2"]),
        ("WITH q AS (TABLE u) SELECT count(*) FROM q", vec!["4"]),
        ("SELECT 1 AS table FROM t LIMIT 1", vec!["1"]),
    ];
    for (sql, expected) in cases {
        assert_eq!(rows(&client, sql).await, expected, "{sql}");
    }
    assert_eq!(error(&client, "TABLE nothing").await, "42P01: relation \"nothing\" does not exist");
}

#[tokio::test]
async fn a_recursive_query_may_name_its_columns_in_front() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let cases = [
        (
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
            vec!["1", "2", "3", "4", "5"],
        ),
        (
            "WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < 100) SELECT sum(n) FROM r",
            vec!["5050"],
        ),
        (
            "WITH RECURSIVE r(n, s) AS (SELECT 1, 'a' UNION SELECT n + 1, s || 'b' FROM r WHERE n < 3) \
             SELECT * FROM r ORDER BY n",
            vec!["1|a", "2|ab", "3|abb"],
        ),
    ];
    for (sql, expected) in cases {
        assert_eq!(rows(&client, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn a_right_on_the_system_is_named_as_grant_names_it() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE USER anna PASSWORD 'a long enough password'").await;
    let anna = gateway.connect_as("anna", "a long enough password").await.unwrap();
    assert_eq!(error(&anna, "SHOW JOBS").await, "42501: permission denied for system\nIt takes USAGE ON SYSTEM.");
}

#[tokio::test]
async fn psql_describes_what_there_is() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE docs (id bigint, body text)").await;
    run(&client, "CREATE VIEW v AS SELECT id FROM docs").await;
    let commands = [
        "\\d docs",
        "\\d+ docs",
        "\\d+ v",
        "\\dt+",
        "\\dv",
        "\\df",
        "\\df+ upper",
        "\\l+",
        "\\du+",
        "\\dn+",
        "\\dp",
        "\\z",
        "\\di",
        "\\dT",
        "\\dT+",
        "\\drds",
        "\\ddp",
    ];
    for command in commands {
        let output = gateway.psql_with(&["-c", command]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !errors.contains("ERROR"), "{command}: {errors}");
    }
    let described = gateway.psql_with(&["-A", "-t", "-c", "\\d+ docs"]);
    let described = String::from_utf8_lossy(&described.stdout);
    assert!(described.starts_with("id|bigint|"), "{described}");
}

#[tokio::test]
async fn numbers_of_any_exponent_are_read() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let numbers = "SELECT 1e300, -2.5E-200, 1e3, 1.5e-3, 1e77 > 1e76";
    assert_eq!(rows(&client, numbers).await, ["1e+300|-2.5e-200|1000|0.0015|t"]);
    // Neither infinity nor zero in silence.
    for beyond in ["SELECT 1e400", "SELECT 1e-400"] {
        let refused = error(&client, beyond).await;
        let expected = "0A000: numbers of more than 76 digits are not supported";
        assert_eq!(refused, expected, "{beyond}");
    }
}

#[tokio::test]
async fn a_primary_key_in_group_by_stands_for_its_row() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE u (id int PRIMARY KEY, name text, \"Age\" int)").await;
    run(&client, "CREATE TABLE p (uid int, n int)").await;
    run(&client, "INSERT INTO u VALUES (1, 'a', 30), (2, 'b', 40), (3, 'c', 50)").await;
    run(&client, "INSERT INTO p VALUES (1, 5), (1, 6), (2, 7)").await;
    let joined = "FROM u LEFT JOIN p ON p.uid = u.id GROUP BY u.id";
    for (sql, expected) in [
        (format!("SELECT u.name, count(p.n) {joined} ORDER BY u.name"), vec!["a|2", "b|1", "c|0"]),
        (format!("SELECT u.*, sum(p.n) {joined} ORDER BY 1"), vec!["1|a|30|11", "2|b|40|7", "3|c|50|∅"]),
        (format!("SELECT count(*) {joined} HAVING u.\"Age\" > 35 ORDER BY name"), vec!["1", "1"]),
        ("SELECT id, upper(name) FROM u GROUP BY 1 ORDER BY \"Age\" DESC LIMIT 1".to_owned(), vec!["3|C"]),
        ("SELECT x.name FROM public.u AS x GROUP BY x.id, x.name ORDER BY 1 LIMIT 1".to_owned(), vec!["a"]),
    ] {
        assert_eq!(rows(&client, &sql).await, expected, "{sql}");
    }
    for sql in
        ["SELECT name FROM u GROUP BY \"Age\"", "SELECT n FROM p GROUP BY uid", "SELECT p.n FROM u, p GROUP BY u.id"]
    {
        let refused = error(&client, sql).await;
        assert!(refused.starts_with("42803"), "{sql}: {refused}");
    }
    assert_eq!(rows(&client, "SELECT power(2, NULL) IS NULL, power(NULL, NULL) IS NULL").await, ["t|t"]);
}

#[tokio::test]
async fn except_all_and_intersect_all_count_equal_rows() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let (a, b) = (
        "SELECT * FROM (VALUES (1), (2), (2), (2), (NULL), (NULL)) a(x)",
        "SELECT * FROM (VALUES (2), (2), (NULL), (4)) b(x)",
    );
    for (sql, expected) in [
        (format!("{a} EXCEPT ALL {b} ORDER BY 1"), vec!["1", "2", "∅"]),
        (format!("{a} INTERSECT ALL {b} ORDER BY 1"), vec!["2", "2", "∅"]),
        (format!("{a} EXCEPT {b} ORDER BY 1"), vec!["1"]),
        (format!("{a} WHERE x > 0 INTERSECT {b} ORDER BY 1"), vec!["2"]),
        (format!("SELECT count(*) FROM ({a} EXCEPT ALL ({b} INTERSECT ALL {a})) t"), vec!["3"]),
    ] {
        assert_eq!(rows(&client, &sql).await, expected, "{sql}");
    }
}
