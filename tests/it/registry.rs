//! The job registry when its file, or the process, goes away.

use std::fs;
use std::time::{Duration, Instant};

use crate::harness::{Gateway, until};
use crate::rows::{error, rows, run, value};

const DOCS: &str = "CREATE TABLE docs (id BIGINT, body TEXT);
     INSERT INTO docs VALUES (1, 'lance'), (2, 'gate');
     ALTER TABLE docs ADD COLUMN words AS (length(body))";

#[tokio::test]
async fn j20_a_registry_that_is_deleted_while_it_is_open_accepts_no_job_and_is_served_again_once_it_is_back() {
    let mut gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, DOCS).await;
    run(&client, "REFRESH COLUMN words ON docs WAIT").await;
    let file = gateway.data().join("_lancegate/metadata.db");
    let aside = gateway.data().join("aside.db");
    fs::rename(&file, &aside).unwrap();
    let refused = error(&client, "REFRESH COLUMN words ON docs").await;
    let expected = format!("58030: the metadata store {} was deleted or replaced while it was open", file.display());
    assert!(refused.starts_with(&expected), "{refused}");
    assert!(refused.ends_with("Until then nothing is accepted."), "{refused}");
    fs::rename(&aside, &file).unwrap();
    assert_eq!(value(&client, "REFRESH COLUMN words ON docs WHERE id = 1 WAIT", "status").await.unwrap(), "succeeded");
    assert!(gateway.stop().success());
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(rows(&client, "SELECT count(*) FROM system.public.jobs").await, ["2"]);
}

/// Another process that holds a lock of the file for longer than a statement waits for it.
#[tokio::test]
async fn j20_a_registry_that_another_process_has_locked_says_so_and_takes_jobs_again_afterwards() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, DOCS).await;
    let program = "
import sqlite3, sys
store = sqlite3.connect(sys.argv[1])
store.execute('BEGIN IMMEDIATE')
print('locked', flush=True)
sys.stdin.readline()
";
    let file = gateway.data().join("_lancegate/metadata.db");
    let mut holder = crate::harness::python()
        .args(["-c", program])
        .arg(file)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(crate::harness::first_line(&mut holder).trim(), "locked");
    let refused = error(&client, "REFRESH COLUMN words ON docs").await;
    assert!(refused.starts_with("55P03: the metadata store is locked by another process"), "{refused}");
    assert!(refused.contains("End whatever has it open"), "{refused}");
    assert_eq!(
        rows(&client, "SELECT count(*) FROM system.public.jobs").await,
        ["0"],
        "it can be read, and holds no job"
    );
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert_eq!(value(&client, "REFRESH COLUMN words ON docs WAIT", "status").await.unwrap(), "succeeded");
}

/// Statements that wait for a job end at once when the gateway stops, whatever time other statements have.
#[cfg(feature = "failpoints")]
#[tokio::test]
async fn j23_a_stop_in_the_middle_of_a_split_fails_no_attempt_and_the_next_start_goes_on() {
    let config = "[column_refresh]\npublish_fragments = 1\nworkers = 1\n";
    let mut gateway = Gateway::start_failing(config, "stage.batch=delay(700)@*");
    let client = gateway.connect().await;
    run(
        &client,
        "CREATE TABLE big (id BIGINT, body TEXT);
         INSERT INTO big SELECT g, 'abcdefghij' FROM generate_series(1, 200000) AS t(g);
         INSERT INTO big SELECT g, 'abcdefghij' FROM generate_series(1, 200000) AS t(g);
         ALTER TABLE big ADD COLUMN digest AS (sha512(body))",
    )
    .await;
    let waiting = gateway.connect().await;
    let refresh =
        tokio::spawn(async move { (error(&waiting, "REFRESH COLUMN digest ON big WAIT").await, Instant::now()) });
    until("a split that runs", async || {
        let splits = "SELECT 1 FROM system.public.job_splits WHERE state = 'running'";
        (!rows(&client, splits).await.is_empty()).then_some(())
    })
    .await;
    let job = value(&client, "SHOW JOBS", "job_id").await.unwrap();
    let wait = tokio::spawn(async move { (error(&client, &format!("WAIT JOB '{job}'")).await, Instant::now()) });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let stopped = Instant::now();
    assert!(gateway.stop().success());
    for waiting in [refresh, wait] {
        let (told, at) = waiting.await.unwrap();
        assert!(told.starts_with("57P01: terminating connection due to administrator command"), "{told}");
        assert!(at - stopped < Duration::from_secs(10), "after {:?}", at - stopped);
    }
    gateway.restart();
    let client = gateway.connect().await;
    let job = value(&client, "SHOW JOBS", "job_id").await.unwrap();
    assert_eq!(value(&client, &format!("WAIT JOB '{job}'"), "state").await.as_deref(), Some("succeeded"));
    assert_eq!(rows(&client, "SELECT count(*) FROM big WHERE digest IS NULL").await, ["0"]);
    let failed = format!("SHOW JOB EVENTS '{job}' WHERE message IN ('retry', 'fail', 'expire', 'take over')");
    assert_eq!(rows(&client, &failed).await, Vec::<String>::new());
    let released = format!("SHOW JOB EVENTS '{job}' WHERE message IN ('release', 'claim')");
    assert_eq!(rows(&client, &released).await.len(), 3, "claimed, given back, claimed again");
}

#[tokio::test]
async fn what_is_old_is_removed_by_a_job_that_is_listed() {
    let mut gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, DOCS).await;
    let old = value(&client, "REFRESH COLUMN words ON docs WAIT", "job_id").await.unwrap();
    assert!(gateway.stop().success());
    crate::interop::run_python(
        gateway.data(),
        "
import sqlite3, sys
store = sqlite3.connect(sys.argv[1] + '/_lancegate/metadata.db')
day = 86400 * 1000000
for column in ['created_at', 'started_at', 'finished_at', 'updated_at']:
    store.execute(f'UPDATE jobs SET {column} = {column} - 31 * {day}')
store.execute(f'UPDATE job_events SET at = at - 31 * {day}')
store.commit()
",
    );
    gateway.restart();
    let client = gateway.connect().await;
    let sweep = "SELECT job_type, table_name, submitted_by, state FROM system.public.jobs";
    until("the end of the sweep", async || {
        (rows(&client, sweep).await == ["job_registry_archive|jobs|system|succeeded"]).then_some(())
    })
    .await;
    let archive = value(&client, "SHOW JOBS", "job_id").await.unwrap();
    let gone = error(&client, &format!("DESCRIBE JOB '{old}'")).await;
    assert_eq!(gone, format!("42704: job \"{old}\" does not exist"));
    let text = rows(&client, &format!("DESCRIBE JOB '{archive}'")).await;
    assert_eq!(text[0], format!("Job {archive}: job_registry_archive of jobs, succeeded"));
    // With nothing to remove there is no job.
    gateway.restart();
    let client = gateway.connect().await;
    run(&client, "REFRESH COLUMN words ON docs WAIT").await;
    assert_eq!(rows(&client, "SELECT count(*) FROM system.public.jobs").await, ["2"]);
}
