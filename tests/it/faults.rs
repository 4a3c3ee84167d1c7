//! Gateways that fail at named places of a refresh (feature `failpoints`).
//!
//! Whatever fails, and however: the job ends, the table is what the expression
//! says, each job publishes each fragment once, and the next refresh finds
//! nothing to do.

use std::collections::HashMap;

use lance::Dataset;
use lance::dataset::transaction::Operation;
use lancegate_engine::failpoint::PLACES;
use tokio_postgres::Client;

use crate::harness::{self, Gateway};
use crate::rows::{describe, error, rows, run, value};

pub(crate) const FRAGMENTS: i64 = 4;
pub(crate) const ROWS: i64 = 40;
/// Each part is published by itself, so that there is something between two.
pub(crate) const CONFIG: &str = "[column_refresh]\npublish_fragments = 1\nworkers = 1\n[jobs]\nlease = \"2s\"\n";

pub(crate) async fn table(config: &str) -> Gateway {
    let gateway = Gateway::start_with(config);
    fill(&gateway.connect().await).await;
    gateway
}

/// [`table`] and its column `y`, `x * 2 + 1`, in a gateway with failpoints.
pub(crate) async fn failing_table(config: &str, failpoints: &str) -> Gateway {
    let gateway = Gateway::start_failing(config, failpoints);
    let client = gateway.connect().await;
    fill(&client).await;
    run(&client, "ALTER TABLE t ADD COLUMN y AS x * 2 + 1").await;
    gateway
}

/// Makes table `t` of [`FRAGMENTS`] fragments; no two rows have the same `x`.
pub(crate) async fn fill(client: &Client) {
    run(client, "CREATE TABLE t (id bigint, x bigint)").await;
    for part in 0..FRAGMENTS {
        let (first, last) = (part * ROWS / FRAGMENTS + 1, (part + 1) * ROWS / FRAGMENTS);
        run(client, &format!("INSERT INTO t SELECT i, i * 3 FROM generate_series({first}, {last}) AS s(i)")).await;
    }
}

/// Checks every value of a column against its expression, `x * 2 + <n>`.
pub(crate) async fn ensure_right(client: &Client, column: &str, n: usize, case: &str) {
    let wrong = format!("SELECT count(*) FROM t WHERE {column} IS DISTINCT FROM x * 2 + {n}");
    assert_eq!(rows(client, &wrong).await, ["0"], "{case}");
}

/// Returns the transactions that published values, oldest first: job and fragments.
pub(crate) async fn value_commits(gateway: &Gateway, table: &str) -> Vec<(String, Vec<u64>)> {
    let newest = Dataset::open(gateway.data().join(table).to_str().unwrap()).await.unwrap();
    let mut found = Vec::new();
    for version in newest.versions().await.unwrap() {
        let dataset = newest.checkout_version(version.version).await.unwrap();
        let Some(transaction) = dataset.read_transaction().await.unwrap() else { continue };
        let Operation::DataReplacement { replacements } = &transaction.operation else { continue };
        let properties = transaction.transaction_properties.as_ref().unwrap();
        let fragments = replacements.iter().map(|replacement| replacement.0).collect();
        found.push((properties["lancegate.job_id"].clone(), fragments));
    }
    found
}

/// Returns how often each job has published each fragment, by the transactions of the table.
pub(crate) async fn publications(gateway: &Gateway) -> HashMap<(String, u64), usize> {
    let mut found = HashMap::new();
    for (job, fragments) in value_commits(gateway, "t.lance").await {
        for fragment in fragments {
            *found.entry((job.clone(), fragment)).or_default() += 1;
        }
    }
    found
}

/// Returns the jobs that there are, newest first.
pub(crate) async fn jobs(client: &Client) -> Vec<String> {
    rows(client, "SELECT job_id FROM system.public.jobs ORDER BY created_at DESC").await
}

/// Waits for a job, which has to succeed.
pub(crate) async fn succeeds(client: &Client, job: &str, case: &str) {
    let waited = client.simple_query(&format!("WAIT JOB '{job}' TIMEOUT '60 seconds'")).await;
    let state = rows(client, &format!("SELECT state FROM system.public.jobs WHERE job_id = '{job}'")).await;
    assert_eq!(state, ["succeeded"], "{case}: {:?}", waited.err().map(|error| describe(&error)));
}

/// Returns the progress object of a job.
pub(crate) async fn progress(client: &Client, job: &str) -> serde_json::Value {
    let shown = format!("SELECT progress FROM system.public.jobs WHERE job_id = '{job}'");
    serde_json::from_str(&value(client, &shown, "progress").await.unwrap()).unwrap()
}

/// RC-10, J01 to J08: every place, twice, by exit, error and delay. Whatever
/// happens there, a job that there is succeeds, without anybody's help.
async fn drive(action: &str) {
    let mut gateway = table(CONFIG).await;
    let mut number = 0;
    for place in PLACES {
        // The first look for jobs is before the gateway is ready.
        let first = if place == "claim.before" { 2 } else { 1 };
        for visit in [first, first + 1] {
            let case = format!("{place}={action}@{visit}");
            number += 1;
            let column = format!("y{number}");
            let client = gateway.connect().await;
            run(&client, &format!("ALTER TABLE t ADD COLUMN {column} AS x * 2 + {number}")).await;
            let before = jobs(&client).await.len();
            drop(client);
            // It may have ended before it was ready, or before anybody has connected.
            gateway.survives_restart_failing(&case);
            let refresh = format!("REFRESH COLUMN {column} ON t WAIT");
            let answered = match gateway.connect_as("lancegate", harness::PASSWORD).await {
                Ok(client) => client.simple_query(&refresh).await,
                Err(error) => Err(error),
            };
            if (action == "exit" && answered.is_err())
                || gateway.ended().is_some()
                || answered.as_ref().is_err_and(tokio_postgres::Error::is_closed)
            {
                gateway.wait_for_end();
            }
            gateway.restart();
            let client = gateway.connect().await;
            let found = jobs(&client).await;
            let made = found.len() - before;
            // A look for jobs also comes by itself, before this one is submitted.
            let early = ["submit.before", "claim.before"].contains(&place) && answered.is_err();
            assert!(made == 1 || (made == 0 && early), "{case}: {made} jobs, {:?}", answered.map_err(|e| describe(&e)));
            if made == 1 {
                succeeds(&client, &found[0], &case).await;
                ensure_right(&client, &column, number, &case).await;
            }
            let last = value(&client, &refresh, "rows_assigned").await.unwrap();
            assert_eq!(last, if made == 1 { "0".to_owned() } else { ROWS.to_string() }, "{case}");
            ensure_right(&client, &column, number, &case).await;
        }
    }
    let twice: Vec<_> = publications(&gateway).await.into_iter().filter(|(_, times)| *times != 1).collect();
    assert_eq!(twice, [], "each job publishes each fragment once");
}

#[tokio::test]
async fn rc_10_j01_to_j08_an_exit_at_any_place_loses_and_doubles_nothing() {
    drive("exit").await;
}

#[tokio::test]
async fn rc_10_s08_an_error_at_any_place_loses_and_doubles_nothing() {
    drive("error").await;
}

#[tokio::test]
async fn rc_10_a_delay_at_any_place_changes_nothing() {
    drive("delay(30)").await;
}

/// Waits until so many splits of a job are noted.
pub(crate) async fn completed(client: &Client, job: &str, splits: usize) {
    let noted = format!("SELECT count(*) FROM system.public.job_splits WHERE job_id = '{job}' AND state = 'completed'");
    let look = async || (rows(client, &noted).await == [splits.to_string()]).then_some(());
    harness::until(&format!("{splits} noted splits"), look).await;
}

/// RC-11: what a canceled job has staged is not computed again by the next refresh;
/// parts that an update has hit are.
#[tokio::test]
async fn rc_11_a_later_refresh_reuses_what_a_canceled_one_has_staged() {
    let mut gateway = table("[column_refresh]\npublish_fragments = 100\nworkers = 1\n").await;
    run(&gateway.connect().await, "ALTER TABLE t ADD COLUMN y AS x * 2 + 1").await;
    gateway.restart_failing("stage.batch=hold@4");
    let client = gateway.connect().await;
    let job = value(&client, "REFRESH COLUMN y ON t NOWAIT", "job_id").await.unwrap();
    completed(&client, &job, 3).await;
    rows(&client, &format!("CANCEL JOB '{job}'")).await;
    gateway.told_to_stop().await;
    gateway.let_go("stage.batch", 4);
    error(&client, &format!("WAIT JOB '{job}'")).await;
    run(&client, "UPDATE t SET x = 0 WHERE id = 1").await;
    assert_eq!(value(&client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("40"));
    ensure_right(&client, "y", 1, "RC-11").await;
    let progress = progress(&client, &jobs(&client).await[0]).await;
    let computed = progress["rows_computed"].as_i64().unwrap();
    assert_eq!(computed, 11, "the fragment that was not staged, and the row that was hit: {progress}");
}

/// RC-16: the refresh of a dropped column ends and says why; others go on.
#[tokio::test]
async fn rc_16_dropping_a_column_cancels_its_refresh_and_no_other() {
    let mut gateway = table(CONFIG).await;
    let client = gateway.connect().await;
    run(&client, "ALTER TABLE t ADD COLUMN y AS x * 2 + 1; ALTER TABLE t ADD COLUMN z AS x * 2 + 2").await;
    gateway.restart_failing("refresh.planned=hold@*");
    let client = gateway.connect().await;
    let dropped = value(&client, "REFRESH COLUMN y ON t NOWAIT", "job_id").await.unwrap();
    let other = value(&client, "REFRESH COLUMN z ON t NOWAIT", "job_id").await.unwrap();
    gateway.held("refresh.planned", 2).await;
    run(&client, "ALTER TABLE t DROP COLUMN IF EXISTS nope").await;
    assert!(error(&client, "ALTER TABLE t DROP COLUMN x").await.starts_with("2BP01"));
    let asked = "SELECT count(*) FROM system.public.job_events WHERE message LIKE 'cancel%'";
    assert_eq!(rows(&client, asked).await, ["0"], "a failed drop and a no-op cancel nothing");
    run(&client, "ALTER TABLE t DROP COLUMN y").await;
    gateway.let_all_go("refresh.planned");
    assert!(error(&client, &format!("WAIT JOB '{dropped}'")).await.starts_with("57014"));
    let why = format!("SHOW JOB EVENTS '{dropped}' WHERE message = 'cancel requested: column \"y\" was dropped'");
    assert_eq!(rows(&client, &why).await.len(), 1);
    rows(&client, &format!("WAIT JOB '{other}'")).await;
    ensure_right(&client, "z", 2, "RC-16").await;
}

/// Five failures in a row are the job's, by name; then it is as if nothing had been.
#[tokio::test]
async fn a_storage_error_that_stays_fails_the_job_by_name_after_five_attempts() {
    let mut gateway = table(CONFIG).await;
    run(&gateway.connect().await, "ALTER TABLE t ADD COLUMN y AS x * 2 + 1").await;
    gateway.restart_failing("publish.before=error@*");
    let client = gateway.connect().await;
    let failed = error(&client, "REFRESH COLUMN y ON t WAIT").await;
    assert!(failed.starts_with("58030") && failed.contains("PublicationError"), "{failed}");
    let retried = "SELECT count(*) FROM system.public.job_events WHERE message = 'retry'";
    assert_eq!(rows(&client, retried).await, ["4"]);
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(value(&client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("40"));
    ensure_right(&client, "y", 1, "after the failure").await;
}

/// S08: a full disk is no transient error.
#[tokio::test]
async fn s08_a_full_disk_at_any_place_fails_the_job_at_once_and_the_next_completes() {
    let mut gateway = table(CONFIG).await;
    for (n, place) in ["stage.batch", "stage.file", "note.before", "publish.before"].into_iter().enumerate() {
        let client = gateway.connect().await;
        run(&client, &format!("ALTER TABLE t ADD COLUMN y{n} AS x * 2 + {n}")).await;
        gateway.restart_failing(&format!("{place}=full@3"));
        let client = gateway.connect().await;
        let failed = error(&client, &format!("REFRESH COLUMN y{n} ON t WAIT")).await;
        assert!(failed.starts_with("53100"), "{place}: {failed}");
        let refresh = format!("REFRESH COLUMN y{n} ON t WAIT");
        assert_eq!(value(&client, &refresh, "rows_remaining").await.as_deref(), Some("0"), "{place}");
        ensure_right(&client, &format!("y{n}"), n, place).await;
    }
}

/// J12: the second gateway on a registry does not start.
#[tokio::test]
async fn j12_a_second_gateway_on_the_same_registry_refuses_to_start() {
    let gateway = table(CONFIG).await;
    let data = gateway.data().to_str().unwrap();
    let listen = ["--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"];
    let output = harness::run(["serve", "--data", data].into_iter().chain(listen));
    assert!(!output.status.success());
    assert!(harness::text(&output).contains("is in use by a running gateway"), "{}", harness::text(&output));
}
