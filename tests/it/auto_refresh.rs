//! Automatic refreshes and the status of computed columns, as a client sees them.

use tokio_postgres::Client;

use crate::harness::{Gateway, until};
use crate::rows::{error, rows, run, value};

/// Looks often and waits for nothing after a success.
const EAGER: &str = "[column_refresh]\nenabled = true\ninterval = \"0s\"\nlook_interval = \"100ms\"\n";

const DOCS: &str = "CREATE TABLE docs (id BIGINT, body TEXT);
     INSERT INTO docs VALUES (1, 'lance'), (2, 'gate');
     ALTER TABLE docs ADD COLUMN words AS (length(body))";

fn with_python(more: &str) -> String {
    let python = std::env::var("LANCEGATE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    format!("{more}\n[functions]\npython = \"{python}\"\nsandbox = \"require\"\n")
}

async fn eager() -> (Gateway, Client) {
    let gateway = Gateway::start_with(EAGER);
    let client = gateway.connect().await;
    (gateway, client)
}

/// Waits until a query answers this one row.
async fn becomes(client: &Client, query: &str, expected: &str) {
    let mut last = Vec::new();
    let look = async || {
        last = rows(client, query).await;
        (last == [expected]).then_some(())
    };
    let what = format!("{expected:?} of {query}");
    until(&what, look).await;
}

/// The words of a column: state, reason and failures in a row.
async fn standing(client: &Client, table: &str, column: &str) -> String {
    let query = format!(
        "SELECT auto_refresh_state, blocked_reason, failure_streak FROM column_status('{table}') WHERE \"column\" = '{column}'"
    );
    rows(client, &query).await.join(" ")
}

async fn stands(client: &Client, table: &str, column: &str, expected: &str) {
    until(&format!("{expected} of {table}.{column}"), async || {
        (standing(client, table, column).await == expected).then_some(())
    })
    .await;
}

/// Fresh, stale, never computed and failed rows, which are all of them.
async fn split(client: &Client, table: &str, column: &str) -> String {
    let query = format!(
        "SELECT fresh, stale, never_computed, failed, rows - fresh - stale - never_computed - failed
         FROM column_status('{table}') WHERE \"column\" = '{column}'"
    );
    rows(client, &query).await.join(" ")
}

#[tokio::test]
async fn auto_01_a_column_follows_its_table_without_a_statement() {
    let (_gateway, client) = eager().await;
    run(&client, DOCS).await;
    becomes(&client, "SELECT sum(words) FROM docs", "9").await;
    run(&client, "INSERT INTO docs (id, body) VALUES (3, 'sql')").await;
    becomes(&client, "SELECT sum(words) FROM docs", "12").await;
    run(&client, "UPDATE docs SET body = 'postgres' WHERE id = 3").await;
    becomes(&client, "SELECT sum(words) FROM docs", "17").await;
    stands(&client, "docs", "words", "up_to_date|∅|0").await;
    // Three changes, and nothing since: a look that finds nothing makes no job.
    let jobs = rows(&client, "SELECT job_id FROM system.public.jobs").await.len();
    run(&client, "CREATE TABLE probe (a BIGINT); INSERT INTO probe VALUES (1)").await;
    run(&client, "ALTER TABLE probe ADD COLUMN b AS (a + 1)").await;
    becomes(&client, "SELECT b FROM probe", "2").await;
    assert_eq!(rows(&client, "SELECT job_id FROM system.public.jobs").await.len(), jobs + 1);
    let job = rows(&client, "SELECT job_id, submitted_by, job_type FROM system.public.jobs").await.remove(0);
    let (id, rest) = job.split_once('|').unwrap();
    assert_eq!(rest, "lancegate|computed_refresh", "it runs as the owner of the table");
    let by = rows(&client, &format!("SHOW JOB EVENTS '{id}' WHERE message = 'created'")).await;
    assert!(by.len() == 1 && by[0].contains("|auto_refresh|"), "{by:?}");
}

#[tokio::test]
async fn auto_01_nothing_runs_unless_deployment_and_column_say_so() {
    let gateway = Gateway::start_with("[column_refresh]\ninterval = \"0s\"\nlook_interval = \"100ms\"\n");
    let client = gateway.connect().await;
    run(&client, DOCS).await;
    assert_eq!(standing(&client, "docs", "words").await, "disabled|∅|0");
    assert_eq!(split(&client, "docs", "words").await, "0|0|2|0|0");
    assert_eq!(rows(&client, "SELECT job_id FROM system.public.jobs").await, Vec::<String>::new());

    let (_gateway, client) = eager().await;
    run(&client, "CREATE TABLE docs (id BIGINT, body TEXT); INSERT INTO docs VALUES (1, 'lance')").await;
    run(&client, "ALTER TABLE docs ADD COLUMN off AS (id + 1) WITH (auto_refresh_enabled = false)").await;
    run(&client, "ALTER TABLE docs ADD COLUMN words AS (length(body))").await;
    becomes(&client, "SELECT words FROM docs", "5").await;
    assert_eq!(rows(&client, "SELECT off FROM docs").await, ["∅"]);
    assert_eq!(standing(&client, "docs", "off").await, "disabled|∅|0");
    // The change is immediate, runs nothing by itself, and the scheduler catches up.
    run(&client, "ALTER TABLE docs ALTER COLUMN off SET (auto_refresh_enabled = true)").await;
    becomes(&client, "SELECT off FROM docs", "2").await;
    run(&client, "ALTER TABLE docs ALTER COLUMN off SET (auto_refresh_enabled = false)").await;
    run(&client, "INSERT INTO docs (id, body) VALUES (2, 'gate')").await;
    becomes(&client, "SELECT sum(words), sum(off) FROM docs", "9|2").await;
    // A statement refreshes it all the same.
    run(&client, "REFRESH COLUMN off ON docs WAIT").await;
    assert_eq!(rows(&client, "SELECT sum(off) FROM docs").await, ["5"]);
}

#[tokio::test]
async fn auto_01_the_interval_of_a_column_is_kept_and_survives_a_restart() {
    let (mut gateway, client) = eager().await;
    run(&client, DOCS).await;
    run(&client, "ALTER TABLE docs ALTER COLUMN words SET (auto_refresh_interval_seconds = 3600)").await;
    becomes(&client, "SELECT sum(words) FROM docs", "9").await;
    stands(&client, "docs", "words", "up_to_date|∅|0").await;
    run(&client, "INSERT INTO docs (id, body) VALUES (3, 'sql')").await;
    assert_eq!(standing(&client, "docs", "words").await, "waiting_interval|∅|0");
    let due = "SELECT next_run_at = last_refresh_at + INTERVAL '1 hour', next_run_reason, effective_cooldown_millis,
               auto_refresh_interval_seconds FROM column_status('docs')";
    assert_eq!(rows(&client, due).await, ["t|interval|3600000|3600"]);
    gateway.restart();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE probe (a BIGINT); INSERT INTO probe VALUES (1)").await;
    run(&client, "ALTER TABLE probe ADD COLUMN b AS (a + 1)").await;
    becomes(&client, "SELECT b FROM probe", "2").await;
    assert_eq!(rows(&client, due).await, ["t|interval|3600000|3600"]);
    assert_eq!(rows(&client, "SELECT words FROM docs WHERE id = 3").await, ["∅"]);
    run(&client, "ALTER TABLE docs ALTER COLUMN words SET (auto_refresh_interval_seconds = 1)").await;
    becomes(&client, "SELECT sum(words) FROM docs", "12").await;
}

#[tokio::test]
async fn auto_01_columns_that_read_each_other_are_refreshed_one_after_the_other() {
    let (_gateway, client) = eager().await;
    run(&client, "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (2)").await;
    run(&client, "ALTER TABLE t ADD COLUMN b AS (a + 1) WITH (auto_refresh_enabled = false)").await;
    run(&client, "ALTER TABLE t ADD COLUMN c AS (b * 10)").await;
    stands(&client, "t", "c", "blocked|inputs_not_settled|0").await;
    run(&client, "REFRESH COLUMN b ON t WAIT").await;
    becomes(&client, "SELECT sum(c) FROM t", "50").await;
    run(&client, "ALTER TABLE t ALTER COLUMN b SET (auto_refresh_enabled = true)").await;
    run(&client, "INSERT INTO t (a) VALUES (3)").await;
    becomes(&client, "SELECT sum(c) FROM t", "90").await;
    let failed = "SELECT count(*) FROM system.public.jobs WHERE state = 'failed'";
    assert_eq!(rows(&client, failed).await, ["0"], "none began before its input was there");
}

#[tokio::test]
async fn auto_02_a_failed_refresh_waits_is_listed_and_a_manual_one_ends_the_wait() {
    let (mut gateway, client) = eager().await;
    run(&client, "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (0)").await;
    run(&client, "ALTER TABLE t ADD COLUMN b AS (10 / a)").await;
    stands(&client, "t", "b", "waiting_backoff|∅|1").await;
    let told = "SELECT last_failure_state, last_failure_automatic, last_failure, next_run_reason,
                next_run_at = last_failure_at + INTERVAL '15 minutes' FROM column_status('t')";
    assert_eq!(rows(&client, told).await, ["failed|t|division by zero|failure_backoff|t"]);
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(rows(&client, told).await, ["failed|t|division by zero|failure_backoff|t"]);
    run(&client, "UPDATE t SET a = 5").await;
    assert_eq!(standing(&client, "t", "b").await, "waiting_backoff|∅|1", "a manual refresh may run meanwhile");
    run(&client, "REFRESH COLUMN b ON t WAIT").await;
    stands(&client, "t", "b", "up_to_date|∅|0").await;
    run(&client, "UPDATE t SET a = 2").await;
    becomes(&client, "SELECT b FROM t", "5").await;
}

#[tokio::test]
async fn auto_02_retries_come_by_themselves_and_stop_at_the_threshold() {
    let gateway = Gateway::start_with(&format!("{EAGER}retry_delay = \"1s\"\nfailures_max = 2\n"));
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (0)").await;
    run(&client, "ALTER TABLE t ADD COLUMN b AS (10 / a)").await;
    stands(&client, "t", "b", "blocked|failure_threshold_reached|2").await;
    let apart = "SELECT count(*), max(created_at) - min(created_at) >= INTERVAL '1 second' FROM system.public.jobs";
    assert_eq!(rows(&client, apart).await, ["2|t"]);
    run(&client, "UPDATE t SET a = 5").await;
    assert_eq!(standing(&client, "t", "b").await, "blocked|failure_threshold_reached|2");
    run(&client, "REFRESH COLUMN b ON t WAIT; UPDATE t SET a = 2").await;
    becomes(&client, "SELECT b FROM t", "5").await;
}

#[tokio::test]
async fn j19_prog_11_auto_02_a_canceled_function_refresh_blocks_and_an_explicit_one_unblocks() {
    let mut gateway = Gateway::start_with(&with_python(EAGER));
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n VALUES (1), (13)").await;
    let source = "import time\ndef f(x):\n  if x == 13: time.sleep(3600)\n  return 2 * x";
    run(&client, &format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{source}'")).await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x)").await;
    stands(&client, "n", "y", "running|∅|0").await;
    let job = value(&client, "SELECT active_job_id FROM column_status('n')", "active_job_id").await.unwrap();
    assert_eq!(value(&client, "SHOW JOBS", "job_id").await.unwrap(), job);
    rows(&client, &format!("CANCEL JOB '{job}'")).await;
    stands(&client, "n", "y", "blocked|cancelled|0").await;
    run(&client, "DELETE FROM n WHERE x = 13; INSERT INTO n (x) VALUES (2)").await;
    gateway.restart();
    let client = gateway.connect().await;
    run(&client, "ALTER TABLE n ADD COLUMN probe AS (x + 1)").await;
    becomes(&client, "SELECT sum(probe) FROM n", "5").await;
    assert_eq!(standing(&client, "n", "y").await, "blocked|cancelled|0", "whatever is committed or restarted");
    assert_eq!(
        rows(&client, "SELECT last_failure_job, last_failure_state FROM column_status('n') WHERE \"column\" = 'y'")
            .await,
        [format!("{job}|canceled")]
    );
    run(&client, "REFRESH COLUMN y ON n WAIT").await;
    stands(&client, "n", "y", "up_to_date|∅|0").await;
    run(&client, "INSERT INTO n (x) VALUES (3)").await;
    becomes(&client, "SELECT sum(y) FROM n", "12").await;
}

#[tokio::test]
async fn j19_a_binding_that_is_declared_anew_is_not_blocked() {
    let gateway = Gateway::start_with(&with_python(EAGER));
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n VALUES (1)").await;
    let source = "import time\ndef f(x): time.sleep(3600)";
    run(&client, &format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{source}'")).await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x)").await;
    stands(&client, "n", "y", "running|∅|0").await;
    let job = value(&client, "SHOW JOBS", "job_id").await.unwrap();
    rows(&client, &format!("CANCEL JOB '{job}'")).await;
    stands(&client, "n", "y", "blocked|cancelled|0").await;
    run(&client, "CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS 'def f(x): return x'").await;
    run(&client, "ALTER TABLE n DROP COLUMN y; ALTER TABLE n ADD COLUMN y AS f(x)").await;
    becomes(&client, "SELECT y FROM n", "1").await;
}

#[tokio::test]
async fn auto_02_an_automatic_refresh_has_a_limit() {
    let config = with_python(&format!("{EAGER}execution_limit = \"1s\"\n"));
    let gateway = Gateway::start_with(&config);
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n VALUES (1)").await;
    let source = "import time\ndef f(x):\n  time.sleep(2)\n  return x";
    run(&client, &format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{source}'")).await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x)").await;
    stands(&client, "n", "y", "waiting_backoff|∅|1").await;
    assert_eq!(rows(&client, "SELECT last_failure_state FROM column_status('n')").await, ["timed_out"]);
    run(&client, "REFRESH COLUMN y ON n WAIT").await;
    assert_eq!(rows(&client, "SELECT y FROM n").await, ["1"], "a statement has none");
}

#[tokio::test]
async fn auto_02_an_owner_without_privileges_finds_a_failed_job() {
    let (gateway, client) = eager().await;
    run(
        &client,
        "CREATE USER ann PASSWORD 'ann has a long password'; GRANT USAGE ON DATABASE lancegate TO USER ann;
         GRANT USAGE, CREATE TABLE ON SCHEMA public TO USER ann",
    )
    .await;
    let ann = gateway.connect_as("ann", "ann has a long password").await.unwrap();
    run(&ann, DOCS).await;
    becomes(&ann, "SELECT sum(words) FROM docs", "9").await;
    assert_eq!(value(&client, "SHOW JOBS", "submitted_by").await.as_deref(), Some("ann"));
    let told = "SELECT rows, fresh, last_refresh_job, last_refresh_at IS NULL FROM column_status('docs')";
    until("the end of the job", async || (rows(&ann, told).await == ["2|2|∅|f"]).then_some(())).await;
    let refused = error(&client, "SELECT * FROM column_status('docs')").await;
    assert!(refused.starts_with("42501: "), "the first user does not own the table: {refused}");
    assert_eq!(rows(&client, "SELECT count(*) FROM system.public.column_status").await, ["0"]);
    run(&ann, "GRANT SELECT, INSERT ON TABLE docs TO USER lancegate").await;
    run(&client, "REVOKE USAGE ON SCHEMA public FROM USER ann").await;
    run(&client, "INSERT INTO docs (id, body) VALUES (3, 'sql')").await;
    stands(&client, "docs", "words", "waiting_backoff|∅|1").await;
    let failed = "SELECT error FROM system.public.jobs WHERE state = 'failed'";
    let failed = rows(&client, failed).await;
    assert!(failed.len() == 1 && failed[0].starts_with("permission denied"), "{failed:?}");
    assert_eq!(rows(&client, "SELECT words FROM docs WHERE id = 3").await, ["∅"]);
    run(&client, "GRANT USAGE ON SCHEMA public TO USER ann").await;
    run(&ann, "REFRESH COLUMN words ON docs WAIT").await;
    stands(&client, "docs", "words", "up_to_date|∅|0").await;
}

#[tokio::test]
async fn a_column_or_table_that_is_gone_or_renamed_is_no_trouble() {
    let (gateway, client) = eager().await;
    run(&client, DOCS).await;
    becomes(&client, "SELECT sum(words) FROM docs", "9").await;
    run(&client, "ALTER TABLE docs RENAME COLUMN words TO length; ALTER TABLE docs RENAME TO papers").await;
    run(&client, "INSERT INTO papers (id, body) VALUES (3, 'sql')").await;
    becomes(&client, "SELECT sum(length) FROM papers", "12").await;
    run(&client, "INSERT INTO papers (id, body) VALUES (4, 'x'); ALTER TABLE papers DROP COLUMN length").await;
    run(&client, "CREATE TABLE gone (a BIGINT); INSERT INTO gone VALUES (1)").await;
    run(&client, "ALTER TABLE gone ADD COLUMN b AS (a + 1); DROP TABLE gone").await;
    run(&client, "CREATE TABLE probe (a BIGINT); INSERT INTO probe VALUES (1)").await;
    run(&client, "ALTER TABLE probe ADD COLUMN b AS (a + 1)").await;
    becomes(&client, "SELECT b FROM probe", "2").await;
    // Of what is gone a job may have begun before; it ends as canceled and nothing follows it.
    let ended = "SELECT count(*) FROM system.public.jobs WHERE state NOT IN ('succeeded', 'canceled')";
    until("the end of all jobs", async || (rows(&client, ended).await == ["0"]).then_some(())).await;
    let jobs = rows(&client, "SELECT count(*) FROM system.public.jobs").await;
    run(&client, "INSERT INTO probe (a) VALUES (2)").await;
    becomes(&client, "SELECT sum(b) FROM probe", "5").await;
    let after = rows(&client, "SELECT count(*) - 1 FROM system.public.jobs").await;
    assert_eq!(after, jobs);
    assert!(!gateway.log().contains("panicked"), "{}", gateway.log());
}

#[tokio::test]
async fn the_status_of_a_column_splits_its_rows_in_four() {
    let gateway = Gateway::start_with(&with_python(""));
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (x BIGINT); INSERT INTO t VALUES (1), (2), (NULL)").await;
    run(&client, "ALTER TABLE t ADD COLUMN y AS (x + 1)").await;
    assert_eq!(split(&client, "t", "y").await, "0|0|3|0|0");
    run(&client, "REFRESH COLUMN y ON t WAIT").await;
    assert_eq!(split(&client, "t", "y").await, "3|0|0|0|0", "NULL is a value of its own");
    run(&client, "UPDATE t SET x = 7 WHERE x IS NULL; INSERT INTO t (x) VALUES (8), (9)").await;
    assert_eq!(split(&client, "t", "y").await, "2|1|2|0|0", "a row that was NULL was computed before, too");
    run(&client, "UPDATE t SET x = 3 WHERE x = 2; DELETE FROM t WHERE x = 9").await;
    assert_eq!(split(&client, "t", "y").await, "1|2|1|0|0");
    run(&client, "REFRESH COLUMN y ON t WHERE x = 8 OR x = 7 WAIT").await;
    assert_eq!(split(&client, "t", "y").await, "3|1|0|0|0");

    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n SELECT * FROM generate_series(0, 9)").await;
    let source = "def f(x):\n  if x > 7: raise ValueError(x)\n  return 2 * x";
    run(&client, &format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{source}'")).await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x)").await;
    run(&client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip') WAIT").await;
    assert_eq!(split(&client, "n", "y").await, "8|0|0|2|0");
    run(&client, "UPDATE n SET x = 1 WHERE x = 8; INSERT INTO n (x) VALUES (20)").await;
    assert_eq!(split(&client, "n", "y").await, "8|0|1|2|0", "it failed when it was computed last");
    run(&client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip', max_failed_fraction = 1) WAIT").await;
    assert_eq!(split(&client, "n", "y").await, "9|0|0|2|0");
    let all = "SELECT table_name, branch, \"column\", function, table_version IS NOT NULL, rows, auto_refresh_enabled
               FROM system.public.column_status ORDER BY table_name";
    assert_eq!(rows(&client, all).await, ["n|∅|y|f|t|11|t", "t|∅|y|∅|t|4|t"]);
}

#[tokio::test]
async fn rows_that_failed_are_not_tried_again_by_themselves_until_they_change() {
    let gateway = Gateway::start_with(&with_python(EAGER));
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n VALUES (1), (9)").await;
    let source = "def f(x):\n  if x > 7: raise ValueError(x)\n  return 2 * x";
    run(&client, &format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{source}'")).await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x) WITH (auto_refresh_enabled = false)").await;
    run(&client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip') WAIT").await;
    let before = rows(&client, "SELECT count(*) FROM system.public.jobs").await;
    run(&client, "ALTER TABLE n ALTER COLUMN y SET (auto_refresh_enabled = true)").await;
    stands(&client, "n", "y", "up_to_date|∅|0").await;
    assert_eq!(split(&client, "n", "y").await, "1|0|0|1|0");
    assert_eq!(rows(&client, "SELECT count(*) FROM system.public.jobs").await, before);
    run(&client, "UPDATE n SET x = 4 WHERE x = 9").await;
    becomes(&client, "SELECT sum(y) FROM n", "10").await;
}
