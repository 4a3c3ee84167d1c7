//! Function refreshes beside other writers, and through crashes.

use std::time::Duration;

use lance::Dataset;
use lance::dataset::optimize::{CompactionOptions, compact_files};
use tokio_postgres::Client;

use super::errors::RAISES;
use super::{config, counts, declare, values};
use crate::harness::Gateway;
use crate::rows::{error, rows, run, value};

/// Starts a refresh of parts of 100, 10 and 10 rows, and compacts the two small ones while they are staged.
async fn compacted_meanwhile(options: &str) -> (Gateway, Client, String) {
    let mut gateway = Gateway::start_with(&config("[column_refresh]\nworkers = 1\npublish_fragments = 100\n"));
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n SELECT * FROM generate_series(0, 99)").await;
    run(&client, "INSERT INTO n SELECT * FROM generate_series(100, 109)").await;
    run(&client, "INSERT INTO n SELECT * FROM generate_series(110, 119)").await;
    declare(&client, "def f(x): return 2 * x", options).await;
    drop(client);
    gateway.restart_failing("stage.file=delay(2000)@2");
    let client = gateway.connect().await;
    let job = value(&client, "REFRESH COLUMN y ON n NOWAIT", "job_id").await.unwrap();
    let staged =
        format!("SELECT count(*) FROM system.public.job_splits WHERE job_id = '{job}' AND state = 'completed'");
    while rows(&client, &staged).await != ["1"] {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut dataset = Dataset::open(gateway.data().join("n.lance").to_str().unwrap()).await.unwrap();
    let small = CompactionOptions { target_rows_per_fragment: 50, ..CompactionOptions::default() };
    let done = compact_files(&mut dataset, small, None).await.unwrap();
    assert_eq!((done.fragments_removed, done.fragments_added), (2, 1));
    (gateway, client, job)
}

#[tokio::test]
async fn rc_15_a_replay_safe_function_computes_what_a_compaction_has_hit_again_and_nothing_else() {
    let options = "WITH (result_stability = 'input_and_context', side_effects = 'none')";
    let (_gateway, client, job) = compacted_meanwhile(options).await;
    rows(&client, &format!("WAIT JOB '{job}' TIMEOUT '50 s'")).await;
    assert!(rows(&client, "SELECT x FROM n WHERE y IS DISTINCT FROM 2 * x").await.is_empty());
    let progress = value(&client, "SHOW JOBS", "progress").await.unwrap();
    let progress: serde_json::Value = serde_json::from_str(&progress).unwrap();
    let seen = ["rows_computed", "rows_published"].map(|name| progress[name].as_u64().unwrap());
    assert_eq!(seen, [140, 120], "the large part commits as it was staged: {progress}");
    let parts = format!(
        "SELECT job_type, state, phase, attempt, rows_planned, rows_computed, rows_remaining FROM job_children('{job}')
         ORDER BY created_at"
    );
    let expected = ["refresh_splits|succeeded|finished|1|120|120|20", "refresh_splits|succeeded|finished|1|20|20|0"];
    assert_eq!(rows(&client, &parts).await, expected, "PROG-07: each plan is a part of the job");
    assert_eq!(counts(&client, "").await, "0|0|0");
}

#[tokio::test]
async fn rc_15_any_other_function_fails_by_name_and_keeps_what_was_not_hit() {
    for options in ["", "WITH (result_stability = 'input_and_context')", "WITH (side_effects = 'none')"] {
        let (_gateway, client, job) = compacted_meanwhile(options).await;
        let failed = error(&client, &format!("WAIT JOB '{job}' TIMEOUT '50 s'")).await;
        assert!(failed.starts_with("40001") && failed.contains("ConcurrentWriteError"), "{options}: {failed}");
        assert_eq!(rows(&client, "SELECT count(y), max(y) FROM n").await, ["100|198"], "{options}");
        assert_eq!(counts(&client, "").await, "20|0|0", "{options}");
    }
}

/// A crash before, between and after the commit of the values and the note of it.
#[tokio::test]
async fn err_08_a_crash_neither_loses_nor_doubles_a_record() {
    for place in ["note.after", "publish.before", "publish.after", "record.before", "end.before"] {
        let mut gateway = Gateway::start_with(&config("[jobs]\nlease = \"2s\"\n"));
        let client = gateway.connect().await;
        run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n SELECT * FROM generate_series(0, 9)").await;
        declare(&client, RAISES, "").await;
        drop(client);
        gateway.restart_failing(&format!("{place}=exit"));
        let client = gateway.connect().await;
        let job = value(&client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip') NOWAIT", "job_id").await.unwrap();
        gateway.wait_for_end();
        gateway.restart();
        let client = gateway.connect().await;
        rows(&client, &format!("WAIT JOB '{job}' TIMEOUT '50 s'")).await;
        assert_eq!(values(&client).await, "0 1 2 ∅ 4 5 6 ∅ 8 9", "{place}");
        let records = "SELECT row_offset, error_message, attempts FROM function_errors('n')";
        assert_eq!(rows(&client, records).await, ["3|bad 3|1", "7|bad 7|1"], "{place}");
        assert_eq!(counts(&client, "WHERE x = 3 WITH (error_policy = 'skip', max_failed_rows = 1)").await, "0|1|2");
        assert_eq!(rows(&client, records).await, ["3|bad 3|2", "7|bad 7|1"], "{place}");
    }
}

/// Each row gets the number of its call, so a row that is computed twice shows.
const COUNTS: &str = "class f:
    def __init__(self): self.calls = 0
    def __call__(self, x):
        self.calls += 1
        if x == 7: raise ValueError('seven')
        return self.calls";

#[tokio::test]
async fn rc_11_a_crash_between_pieces_computes_none_of_them_again() {
    // After the second piece of 30 rows: noted, offered, committed.
    for place in ["note.after", "publish.before", "publish.after"] {
        let mut gateway = Gateway::start_with(&config("[jobs]\nlease = \"2s\"\n"));
        let client = gateway.connect().await;
        run(&client, "CREATE TABLE n AS SELECT x FROM generate_series(0, 99) AS s(x)").await;
        declare(&client, COUNTS, "").await;
        drop(client);
        gateway.restart_failing(&format!("{place}=exit@2"));
        let client = gateway.connect().await;
        let with = "WITH (publication_interval_rows = 30, error_policy = 'skip')";
        let job = value(&client, &format!("REFRESH COLUMN y ON n {with} NOWAIT"), "job_id").await.unwrap();
        gateway.wait_for_end();
        gateway.restart();
        let client = gateway.connect().await;
        rows(&client, &format!("WAIT JOB '{job}' TIMEOUT '50 s'")).await;
        let numbered = |first: i64, last: i64| (first..=last).map(|call| call.to_string());
        let mut expected: Vec<String> = numbered(1, 60).chain(numbered(1, 40)).collect();
        expected[7] = "∅".to_owned();
        assert_eq!(rows(&client, "SELECT y FROM n ORDER BY x").await, expected, "{place}");
        assert_eq!(rows(&client, "SELECT row_offset FROM function_errors('n')").await, ["7"], "{place}");
        let progress = value(&client, "SHOW JOBS LIMIT 1", "progress").await.unwrap();
        let progress: serde_json::Value = serde_json::from_str(&progress).unwrap();
        let seen = ["rows_planned", "rows_published", "rows_remaining", "rows_failed"];
        assert_eq!(seen.map(|name| progress[name].as_u64().unwrap()), [100, 100, 0, 1], "{place}: {progress}");
        // The row that failed is tried by the next refresh, and no other.
        assert_eq!(counts(&client, "WITH (error_policy = 'skip', max_failed_rows = 1)").await, "0|1|1", "{place}");
    }
}
