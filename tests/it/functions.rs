//! Columns that Python Functions fill, as a client sees them, in confined worker processes.

mod bindings;
#[cfg(feature = "failpoints")]
mod conflicts;
mod embedding;
mod errors;
mod long;
mod models;
mod options;
mod query;
mod registration;
mod sandbox;
mod secrets;
mod sources;

use tokio_postgres::Client;

use crate::harness::Gateway;
use crate::rows::{error, rows, run};

/// Returns the configuration of a gateway that refuses to run a Function without the whole sandbox; `more` are further
/// keys of `[functions]`, or other sections.
pub(crate) fn config(more: &str) -> String {
    let python = std::env::var("LANCEGATE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    format!("[functions]\npython = \"{python}\"\nsandbox = \"require\"\n{more}")
}

/// A gateway and a table of ten numbers.
async fn numbers() -> (Gateway, Client) {
    numbers_with("").await
}

async fn numbers_with(more: &str) -> (Gateway, Client) {
    let gateway = Gateway::start_with(&config(more));
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n SELECT * FROM generate_series(0, 9)").await;
    (gateway, client)
}

async fn declare(client: &Client, source: &str, options: &str) {
    let source = source.replace('\'', "''");
    run(client, &format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{source}' {options}")).await;
    run(client, "ALTER TABLE n ADD COLUMN y AS f(x)").await;
}

/// `rows_assigned|rows_failed|rows_remaining` of a refresh that succeeds.
async fn counts(client: &Client, with: &str) -> String {
    let answer = rows(client, &format!("REFRESH COLUMN y ON n {with} WAIT")).await;
    answer[0].split('|').skip(4).take(3).collect::<Vec<_>>().join("|")
}

async fn values(client: &Client) -> String {
    rows(client, "SELECT y FROM n ORDER BY x").await.join(" ")
}

#[tokio::test]
async fn rc_01_rc_02_rc_03_rc_04_a_function_column_is_declared_filled_and_kept_current() {
    let (_gateway, client) = numbers().await;
    declare(&client, "def f(x): return 2 * x", "").await;
    assert_eq!(values(&client).await, ["∅"; 10].join(" "));
    assert_eq!(counts(&client, "").await, "10|0|0");
    assert_eq!(values(&client).await, "0 2 4 6 8 10 12 14 16 18");
    assert_eq!(counts(&client, "").await, "0|0|0");
    run(&client, "INSERT INTO n (x) VALUES (10); UPDATE n SET x = 100 WHERE x = 1").await;
    assert_eq!(counts(&client, "").await, "2|0|0");
    assert_eq!(values(&client).await, "0 4 6 8 10 12 14 16 18 20 200");
}

#[tokio::test]
async fn a_vectorized_function_fills_a_column_and_lists_itself() {
    let (_gateway, client) = numbers().await;
    let source = "import pyarrow.compute as pc\ndef f(x): return pc.multiply(x, 2)";
    declare(&client, source, "WITH (mode = 'vectorized')").await;
    assert_eq!(counts(&client, "").await, "10|0|0");
    let shown = rows(&client, "SHOW FUNCTIONS").await;
    assert!(shown.len() == 1 && shown[0].starts_with("[]|f|1|x int64|int64|vectorized|lancegate|"), "{shown:?}");
    assert_eq!(rows(&client, "DESCRIBE FUNCTION f").await, shown);
}

#[tokio::test]
async fn a_new_version_leaves_columns_with_theirs_and_a_used_one_cannot_be_dropped() {
    let (_gateway, client) = numbers().await;
    declare(&client, "def f(x): return 1", "").await;
    run(&client, "CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS 'def f(x): return 2'").await;
    run(&client, "ALTER TABLE n ADD COLUMN z AS f(x)").await;
    counts(&client, "").await;
    run(&client, "REFRESH COLUMN z ON n WAIT").await;
    assert_eq!(rows(&client, "SELECT DISTINCT y, z FROM n").await, ["1|2"]);
    let refused = error(&client, "DROP FUNCTION f WITH (version = '1')").await;
    assert!(refused.starts_with("2BP01") && refused.contains("Column y of table n"), "{refused}");
    run(&client, "DROP FUNCTION f WITH (version = '1', cascade = true)").await;
    assert_eq!(rows(&client, "SELECT DISTINCT y FROM n").await, ["1"], "values stay");
    assert!(error(&client, "REFRESH COLUMN y ON n").await.starts_with("42883"));
    run(&client, "ALTER TABLE n DROP COLUMN z; DROP FUNCTION f WITH (version = '2')").await;
    run(&client, "DROP FUNCTION IF EXISTS f WITH (version = '2')").await;
}

#[tokio::test]
async fn a_schema_that_holds_a_function_is_not_dropped() {
    let (_gateway, client) = numbers().await;
    run(&client, "CREATE SCHEMA team").await;
    run(&client, "CREATE FUNCTION team.f (x int64) RETURNS int64 LANGUAGE python AS 'def f(x): return x'").await;
    assert!(error(&client, "DROP SCHEMA team").await.starts_with("2BP01"));
    run(&client, "DROP SCHEMA team CASCADE; CREATE SCHEMA team").await;
    assert!(error(&client, "DESCRIBE FUNCTION team.f").await.starts_with("42883"));
    run(&client, "DROP SCHEMA team").await;
}

#[tokio::test]
async fn op_01_op_05_options_of_the_other_kind_are_refused_by_name() {
    let (_gateway, client) = numbers().await;
    declare(&client, "def f(x): return x", "").await;
    let refused = error(&client, "REFRESH COLUMN y ON n WITH (num_workers = 2)").await;
    assert!(refused.starts_with("22023") && refused.contains("num_workers"), "{refused}");
    run(&client, "ALTER TABLE n ADD COLUMN e AS (x + 1)").await;
    let refused = error(&client, "REFRESH COLUMN e ON n WITH (error_policy = 'skip')").await;
    assert!(refused.starts_with("22023") && refused.contains("error_policy"), "{refused}");
}

#[tokio::test]
async fn rc_12_deleted_rows_are_never_sent_to_the_function() {
    let (_gateway, client) = numbers().await;
    declare(&client, "def f(x):\n if x > 5: raise ValueError(x)\n return x", "").await;
    run(&client, "DELETE FROM n WHERE x > 5").await;
    assert_eq!(counts(&client, "").await, "6|0|0");
}

#[tokio::test]
async fn ex_02_explain_shows_the_function_and_its_options() {
    let (_gateway, client) = numbers().await;
    declare(&client, "def f(x): return x", "").await;
    let plan = rows(&client, "EXPLAIN REFRESH COLUMN y ON n WITH (error_policy = 'skip', batch_size = 7)").await;
    let plan = plan.join("\n");
    for part in ["error_policy=skip, batch_size=7", "PythonUdfExec: expr=[f(x) as y]"] {
        assert!(plan.contains(part), "{plan}");
    }
}

#[tokio::test]
async fn what_is_no_function_and_what_does_not_fit_is_refused_by_name() {
    let (_gateway, client) = numbers().await;
    let create = |rest: &str| format!("CREATE FUNCTION g {rest} LANGUAGE python AS 'def g(x): return x'");
    for (sql, code, part) in [
        (create("(x bigint) RETURNS int64"), "22023", "use int64"),
        (create("(x int64, x int64) RETURNS int64"), "42P17", "\"x\""),
        (create("(x int64) RETURNS int64") + " WITH (mode = 'fast')", "22023", "'scalar' or 'vectorized'"),
        (create("(x int64) RETURNS int64") + " WITH (pip = '--index-url http://x')", "22023", "pip"),
        (create("(x int64) RETURNS int64") + " WITH (models = '{}')", "22023", "models"),
        ("ALTER TABLE n ADD COLUMN y AS g(x) WITH (version = '1')".to_owned(), "42883", "\"g\""),
        ("DROP FUNCTION g WITH (version = '1')".to_owned(), "42883", "\"g\""),
    ] {
        let refused = error(&client, &sql).await;
        assert!(refused.starts_with(code) && refused.contains(part), "{sql}\n{refused}");
    }
    run(&client, &create("(x utf8) RETURNS utf8")).await;
    let refused = error(&client, "ALTER TABLE n ADD COLUMN y AS g(x)").await;
    assert!(refused.starts_with("42804") && refused.contains("int64") && refused.contains("utf8"), "{refused}");
    assert!(error(&client, "ALTER TABLE n ADD COLUMN y AS g(x, x)").await.contains("takes 1 arguments"));
}

#[tokio::test]
async fn a_function_takes_usage_and_making_one_takes_create_function() {
    let (gateway, client) = numbers().await;
    declare(&client, "def f(x): return x", "").await;
    run(&client, "CREATE USER ann PASSWORD 'ann-password'; GRANT USAGE ON DATABASE lancegate TO USER ann").await;
    run(&client, "GRANT USAGE ON SCHEMA public TO USER ann; GRANT SELECT, UPDATE ON TABLE n TO USER ann").await;
    let ann = gateway.connect_as("ann", "ann-password").await.unwrap();
    assert!(error(&ann, "REFRESH COLUMN y ON n WAIT").await.starts_with("42501"));
    assert!(rows(&ann, "SHOW FUNCTIONS").await.is_empty());
    let create = "CREATE FUNCTION h (x int64) RETURNS int64 LANGUAGE python AS 'def h(x): return x'";
    assert!(error(&ann, create).await.starts_with("42501"));
    let create = "CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS 'def f(x): return 0'";
    assert!(error(&ann, create).await.starts_with("42501"), "a version of another's Function");
}
