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
