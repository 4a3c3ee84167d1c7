//! Automatic refreshes of materialized views, as a client sees them.

use tokio_postgres::Client;

use crate::harness::{Gateway, until};
use crate::rows::{error, rows, run};

/// Looks often and waits for nothing after a success.
const EAGER: &str = "[column_refresh]\nenabled = true\ninterval = \"0s\"\nlook_interval = \"100ms\"\n";

const DOCS: &str = "CREATE TABLE docs (id BIGINT, price DOUBLE PRECISION);
     INSERT INTO docs VALUES (1, 10), (2, 20), (3, 30)";

async fn eager() -> (Gateway, Client) {
    let gateway = Gateway::start_with(EAGER);
    let client = gateway.connect().await;
    run(&client, DOCS).await;
    (gateway, client)
}

async fn becomes(client: &Client, query: &str, expected: &str) {
    let what = format!("{expected:?} of {query}");
    until(&what, async || (rows(client, query).await == [expected]).then_some(())).await;
}

/// The words of a view: state, reason and failures in a row.
fn standing(view: &str) -> String {
    format!(
        "SELECT auto_refresh_state, blocked_reason, failure_streak FROM system.public.materialized_views
         WHERE name = '{view}'"
    )
}

/// How many refreshes of a view there were, its first fill included.
async fn jobs(client: &Client, view: &str) -> usize {
    rows(client, &format!("SELECT job_id FROM system.public.jobs WHERE table_name = '{view}'")).await.len()
}

#[tokio::test]
async fn auto_01_mv_01_a_view_follows_what_it_reads_without_a_statement() {
    let (_gateway, client) = eager().await;
    run(
        &client,
        "CREATE MATERIALIZED VIEW total WITH (auto_refresh_enabled = true) AS SELECT sum(price) AS p FROM docs",
    )
    .await;
    run(&client, "INSERT INTO docs VALUES (4, 40)").await;
    becomes(&client, "SELECT p FROM total", "100").await;
    run(&client, "DELETE FROM docs WHERE id = 1").await;
    becomes(&client, "SELECT p FROM total", "90").await;
    becomes(&client, &standing("total"), "up_to_date|∅|0").await;
    // Whatever is looked at meanwhile, nothing has changed, so no job is made.
    let before = jobs(&client, "total").await;
    run(
        &client,
        "CREATE MATERIALIZED VIEW probe WITH (auto_refresh_enabled = true) AS SELECT id FROM docs WITH NO DATA",
    )
    .await;
    becomes(&client, "SELECT count(*) FROM probe", "3").await;
    assert_eq!(jobs(&client, "total").await, before);
    let by = "SELECT job_type, submitted_by FROM system.public.jobs WHERE table_name = 'probe'";
    assert_eq!(rows(&client, by).await, ["sql|lancegate"], "it runs as the owner of the view");
}

#[tokio::test]
async fn auto_01_a_view_is_refreshed_only_if_deployment_and_view_say_so() {
    let gateway = Gateway::start_with("[column_refresh]\ninterval = \"0s\"\nlook_interval = \"100ms\"\n");
    let client = gateway.connect().await;
    run(&client, DOCS).await;
    run(&client, "CREATE MATERIALIZED VIEW v WITH (auto_refresh_enabled = true) AS SELECT id FROM docs WITH NO DATA")
        .await;
    assert_eq!(rows(&client, &standing("v")).await, ["disabled|∅|0"]);
    assert_eq!(jobs(&client, "v").await, 0);

    let (_gateway, client) = eager().await;
    run(&client, "CREATE MATERIALIZED VIEW off AS SELECT id FROM docs").await;
    run(&client, "CREATE MATERIALIZED VIEW on_ WITH (auto_refresh_enabled = true) AS SELECT id FROM docs").await;
    run(&client, "DELETE FROM docs WHERE id = 1").await;
    becomes(&client, "SELECT count(*) FROM on_", "2").await;
    assert_eq!(rows(&client, "SELECT count(*) FROM off").await, ["3"]);
    assert_eq!(rows(&client, &standing("off")).await, ["disabled|∅|0"]);
    run(&client, "ALTER MATERIALIZED VIEW off SET (auto_refresh_enabled = true)").await;
    becomes(&client, "SELECT count(*) FROM off", "2").await;
    run(&client, "ALTER MATERIALIZED VIEW off SET (auto_refresh_enabled = false)").await;
    run(&client, "DELETE FROM docs WHERE id = 2").await;
    becomes(&client, "SELECT count(*) FROM on_", "1").await;
    assert_eq!(rows(&client, "SELECT count(*) FROM off").await, ["2"]);
}

#[tokio::test]
async fn auto_01_the_interval_of_a_view_is_kept_and_survives_a_restart() {
    let (mut gateway, client) = eager().await;
    run(
        &client,
        "CREATE MATERIALIZED VIEW v WITH (auto_refresh_enabled = true, auto_refresh_interval_seconds = 3600.5)
         AS SELECT id FROM docs",
    )
    .await;
    assert_eq!(rows(&client, &standing("v")).await, ["up_to_date|∅|0"]);
    run(&client, "DELETE FROM docs WHERE id = 1").await;
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(rows(&client, &standing("v")).await, ["waiting_interval|∅|0"]);
    let due = "SELECT next_run_at > refreshed_at + INTERVAL '1 hour', next_run_at < refreshed_at + INTERVAL '1 hour 10 seconds'
               FROM system.public.materialized_views";
    assert_eq!(rows(&client, due).await, ["t|t"]);
    run(&client, "ALTER MATERIALIZED VIEW v SET (auto_refresh_interval_seconds = 0.05)").await;
    becomes(&client, "SELECT count(*) FROM v", "2").await;
}

#[tokio::test]
async fn auto_01_mv_01_views_over_views_follow_one_after_the_other() {
    let (_gateway, client) = eager().await;
    run(&client, "CREATE VIEW plain AS SELECT id, price FROM docs").await;
    let auto = "WITH (auto_refresh_enabled = true)";
    run(&client, &format!("CREATE MATERIALIZED VIEW low {auto} AS SELECT id, price FROM plain WHERE price < 25")).await;
    run(&client, &format!("CREATE MATERIALIZED VIEW top {auto} AS SELECT max(price) AS most FROM low")).await;
    run(&client, "UPDATE docs SET price = 24 WHERE id = 2").await;
    becomes(&client, "SELECT most FROM top", "24").await;
    // The rows of no table have changed, but those of the view that is read through have.
    run(&client, "CREATE OR REPLACE VIEW plain AS SELECT id, price - 1 AS price FROM docs").await;
    becomes(&client, "SELECT most FROM top", "23").await;
    becomes(&client, &standing("top"), "up_to_date|∅|0").await;
}

#[tokio::test]
async fn mv_01_a_view_that_is_read_through_and_replaced_makes_a_refresh_due() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, DOCS).await;
    run(&client, "CREATE VIEW plain AS SELECT id FROM docs; CREATE MATERIALIZED VIEW v AS SELECT id FROM plain").await;
    let mode = async || {
        let answer = rows(&client, "REFRESH MATERIALIZED VIEW v WAIT").await;
        answer[0].split('|').nth(4).unwrap_or_default().to_owned()
    };
    assert_eq!(mode().await, "no_op");
    run(&client, "CREATE OR REPLACE VIEW plain AS SELECT id FROM docs WHERE id > 1").await;
    assert_eq!(mode().await, "rebuild");
    assert_eq!(rows(&client, "SELECT count(*) FROM v").await, ["2"]);
    assert_eq!(mode().await, "no_op");
}

#[tokio::test]
async fn auto_02_a_view_whose_source_is_gone_fails_waits_and_says_why() {
    let (mut gateway, client) = eager().await;
    run(&client, "CREATE MATERIALIZED VIEW v WITH (auto_refresh_enabled = true) AS SELECT id FROM docs").await;
    run(&client, "DROP TABLE docs").await;
    becomes(&client, &standing("v"), "waiting_backoff|∅|1").await;
    let told = "SELECT last_failure, next_run_at = last_failure_at + INTERVAL '15 minutes', last_failure_job IS NULL
                FROM system.public.materialized_views";
    assert_eq!(rows(&client, told).await, ["relation \"docs\" does not exist|t|f"]);
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(rows(&client, &standing("v")).await, ["waiting_backoff|∅|1"]);
    run(&client, "CREATE TABLE docs (id BIGINT); INSERT INTO docs VALUES (9)").await;
    assert_eq!(rows(&client, &standing("v")).await, ["waiting_backoff|∅|1"], "a statement may refresh it meanwhile");
    run(&client, "REFRESH MATERIALIZED VIEW v WAIT").await;
    becomes(&client, &standing("v"), "up_to_date|∅|0").await;
    run(&client, "INSERT INTO docs VALUES (10)").await;
    becomes(&client, "SELECT sum(id) FROM v", "19").await;
}

#[tokio::test]
async fn auto_01_a_query_that_names_a_version_is_due_once() {
    let (_gateway, client) = eager().await;
    run(
        &client,
        "CREATE MATERIALIZED VIEW then_ WITH (auto_refresh_enabled = true)
         AS SELECT id FROM docs FOR SYSTEM_TIME AS OF VERSION 2",
    )
    .await;
    assert_eq!(rows(&client, "SELECT count(*) FROM then_").await, ["3"]);
    run(&client, "CREATE MATERIALIZED VIEW now_ WITH (auto_refresh_enabled = true) AS SELECT id FROM docs").await;
    run(&client, "INSERT INTO docs VALUES (4, 40)").await;
    becomes(&client, "SELECT count(*) FROM now_", "4").await;
    becomes(&client, &standing("then_"), "up_to_date|∅|0").await;
    assert_eq!(jobs(&client, "then_").await, 1, "the fill that CREATE waited for");
}

#[tokio::test]
async fn auto_02_the_owner_of_a_view_needs_what_its_query_reads() {
    let (gateway, client) = eager().await;
    run(
        &client,
        "CREATE USER ann PASSWORD 'ann has a long password'; GRANT USAGE ON DATABASE lancegate TO USER ann;
         GRANT USAGE, CREATE MATERIALIZED VIEW ON SCHEMA public TO USER ann; GRANT SELECT ON TABLE docs TO USER ann",
    )
    .await;
    let ann = gateway.connect_as("ann", "ann has a long password").await.unwrap();
    run(&ann, "CREATE MATERIALIZED VIEW v WITH (auto_refresh_enabled = true) AS SELECT id FROM docs").await;
    run(&client, "REVOKE SELECT ON TABLE docs FROM USER ann; DELETE FROM docs WHERE id = 1").await;
    becomes(&ann, &standing("v"), "waiting_backoff|∅|1").await;
    let told = "SELECT last_failure, last_failure_job, active_job_id FROM system.public.materialized_views";
    assert_eq!(rows(&ann, told).await, ["permission denied for table docs|∅|∅"], "ids of jobs are not for everybody");
    assert_eq!(rows(&ann, "SELECT count(*) FROM v").await, ["3"], "the rows stay as they were");
    assert!(error(&ann, "SELECT * FROM docs").await.starts_with("42501: "));
    run(&client, "GRANT SELECT ON TABLE docs TO USER ann").await;
    run(&ann, "REFRESH MATERIALIZED VIEW v WAIT").await;
    run(&client, "DELETE FROM docs WHERE id = 2").await;
    becomes(&ann, "SELECT count(*) FROM v", "1").await;
}

#[tokio::test]
async fn auto_01_a_query_that_may_give_other_rows_each_time_is_refreshed_at_each_interval() {
    let (_gateway, client) = eager().await;
    run(
        &client,
        "CREATE MATERIALIZED VIEW v WITH (auto_refresh_enabled = true, auto_refresh_interval_seconds = 0.2)
         AS SELECT now() AS at FROM docs WHERE id = 1",
    )
    .await;
    let first = rows(&client, "SELECT at FROM v").await;
    until("other rows", async || (rows(&client, "SELECT at FROM v").await != first).then_some(())).await;
    run(&client, "ALTER MATERIALIZED VIEW v SET (auto_refresh_enabled = false)").await;
    run(&client, "DROP MATERIALIZED VIEW v").await;
}
