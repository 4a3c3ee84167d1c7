//! What becomes of the work of a refresh that is cancelled, whose column goes, or
//! that newer software has written.

use crate::harness::Gateway;
use crate::interop::run_python;
use crate::rows::{error, rows, run, value};

/// Many fragments of work that takes seconds in all.
const SLOW: &str = "CREATE TABLE big (id BIGINT, body TEXT);
     INSERT INTO big SELECT g, 'abcdefghij' FROM generate_series(1, 200000) AS t(g);
     INSERT INTO big SELECT g, 'abcdefghij' FROM generate_series(200001, 400000) AS t(g);
     INSERT INTO big SELECT g, 'abcdefghij' FROM generate_series(400001, 600000) AS t(g);
     INSERT INTO big SELECT g, 'abcdefghij' FROM generate_series(600001, 800000) AS t(g);
     ALTER TABLE big ADD COLUMN digest AS
         (sha512(sha512(sha512(sha512(sha512(sha512(sha512(sha512(body)))))))))";

#[tokio::test]
async fn rc_11_a_refresh_after_a_cancel_computes_what_was_not_published_or_has_changed() {
    let gateway = Gateway::start_with("[column_refresh]\npublish_fragments = 1\nworkers = 1\n");
    let client = gateway.connect().await;
    run(&client, SLOW).await;
    let job = value(&client, "REFRESH COLUMN digest ON big", "job_id").await.unwrap();
    while rows(&client, "SELECT 1 FROM big WHERE digest IS NOT NULL LIMIT 1").await.is_empty() {}
    rows(&client, &format!("CANCEL JOB '{job}'")).await;
    // The last fragment may have been faster than the request.
    let _ = client.simple_query(&format!("WAIT JOB '{job}'")).await;
    let published: i64 = client.query_one("SELECT count(digest) FROM big", &[]).await.unwrap().get(0);
    assert!(published >= 200_000 && published % 200_000 == 0, "fragments are published whole: {published}");
    run(&client, "UPDATE big SET body = 'changed' WHERE id IN (SELECT min(id) FROM big WHERE digest IS NOT NULL)")
        .await;
    let assigned = value(&client, "REFRESH COLUMN digest ON big WAIT", "rows_assigned").await.unwrap();
    assert_eq!(assigned, (800_000 - published + 1).to_string());
}

#[tokio::test]
async fn rc_16_dropping_a_column_cancels_its_refreshes_and_no_others() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, &format!("{SLOW}; ALTER TABLE big ADD COLUMN other AS (sha512(sha512(sha512(body))))")).await;
    let job = value(&client, "REFRESH COLUMN digest ON big", "job_id").await.unwrap();
    let other = value(&client, "REFRESH COLUMN other ON big", "job_id").await.unwrap();
    run(&client, "ALTER TABLE big DROP COLUMN IF EXISTS nope").await;
    let refused = error(&client, "ALTER TABLE big DROP COLUMN body").await;
    assert!(refused.starts_with("2BP01: "), "{refused}");
    let canceled = "SELECT count(*) FROM system.public.jobs WHERE state = 'canceled'";
    assert_eq!(rows(&client, canceled).await, ["0"]);
    run(&client, "ALTER TABLE big DROP COLUMN digest").await;
    let ended = error(&client, &format!("WAIT JOB '{job}'")).await;
    assert!(ended.starts_with("57014: refresh of column \"digest\" was canceled"), "{ended}");
    assert_eq!(value(&client, &format!("WAIT JOB '{other}'"), "state").await.unwrap(), "succeeded");
    assert_eq!(rows(&client, "SELECT count(*) FROM big WHERE other IS NULL").await, ["0"]);
}

#[tokio::test]
async fn prog_12_a_state_of_newer_software_is_shown_as_it_is() {
    let mut gateway = Gateway::start();
    let client = gateway.connect().await;
    run(
        &client,
        "CREATE TABLE docs (id BIGINT); INSERT INTO docs VALUES (1); ALTER TABLE docs ADD COLUMN n AS (id + 1)",
    )
    .await;
    rows(&client, "REFRESH COLUMN n ON docs WAIT").await;
    assert!(gateway.stop().success());
    let program = "
import sqlite3, sys
store = sqlite3.connect(sys.argv[1] + '/_lancegate/metadata.db')
store.execute(\"UPDATE jobs SET kind = 'weave', state = 'hibernating', phase = 'teleporting'\")
store.commit()
";
    run_python(gateway.data(), program);
    gateway.restart();
    let client = gateway.connect().await;
    let shown = rows(&client, "SELECT job_type, state, phase FROM system.public.jobs").await;
    assert_eq!(shown, ["weave|hibernating|teleporting"]);
    let shown = rows(&client, "SHOW JOBS").await;
    assert!(shown[0].contains("|docs|weave|hibernating|teleporting|"), "{shown:?}");
}

#[tokio::test]
async fn op_01_the_number_of_workers_is_the_one_that_is_asked_for() {
    let gateway = Gateway::start_with("[column_refresh]\nworkers = 5\n");
    let client = gateway.connect().await;
    run(
        &client,
        "CREATE TABLE docs (id BIGINT); INSERT INTO docs VALUES (1); ALTER TABLE docs ADD COLUMN n AS (id + 1)",
    )
    .await;
    for (options, workers) in [("", 5), ("WITH (num_workers = 1)", 1), ("WITH (NUM_WORKERS = '7')", 7)] {
        let plan = rows(&client, &format!("EXPLAIN REFRESH COLUMN n ON docs {options}")).await;
        assert!(plan[1].contains(&format!(", workers={workers}, ")), "{options}: {plan:?}");
        rows(&client, &format!("REFRESH COLUMN n ON docs WHERE id = 1 {options} WAIT")).await;
        let job = value(&client, "SHOW JOBS LIMIT 1", "job_id").await.unwrap();
        let plan = rows(&client, &format!("EXPLAIN JOB '{job}'")).await;
        assert!(plan[1].contains(&format!(", workers={workers}, ")), "{options}: {plan:?}");
    }
}
