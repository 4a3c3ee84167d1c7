//! Functions that take long, and instances that outlive a job.

use std::time::{Duration, Instant};

use super::{counts, declare, numbers, numbers_with, values};
use crate::rows::{error, rows, run};

const COUNTS: &str =
    "class f:\n def __init__(self): self.calls = 0\n def __call__(self, x):\n  self.calls += 1\n  return self.calls";

#[tokio::test]
async fn rc_13_an_instance_survives_from_job_to_job_and_another_version_has_its_own() {
    let (_gateway, client) = numbers().await;
    declare(&client, COUNTS, "").await;
    counts(&client, "").await;
    assert_eq!(counts(&client, "WHERE x = 4").await, "1|0|0");
    assert_eq!(rows(&client, "SELECT y FROM n WHERE x = 4").await, ["11"]);
    let source = COUNTS.replace('\'', "''");
    run(&client, &format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{source} '")).await;
    run(&client, "ALTER TABLE n ADD COLUMN z AS f(x)").await;
    run(&client, "REFRESH COLUMN z ON n WHERE x = 4 WAIT").await;
    assert_eq!(rows(&client, "SELECT z FROM n WHERE x = 4").await, ["1"]);
}

#[tokio::test]
async fn rc_13_a_worker_that_failed_in_a_call_is_not_used_again() {
    let (_gateway, client) = numbers().await;
    let source =
        COUNTS.replace("  self.calls += 1", "  if self.calls == 12: __import__('os')._exit(1)\n  self.calls += 1");
    declare(&client, &source, "").await;
    assert_eq!(counts(&client, "").await, "10|0|0");
    assert!(error(&client, "REFRESH COLUMN y ON n WHERE x < 3 WAIT").await.contains("WorkerLost"));
    assert_eq!(counts(&client, "WHERE x < 2").await, "2|0|0");
    assert_eq!(rows(&client, "SELECT y FROM n WHERE x < 2 ORDER BY x").await, ["1", "2"]);
}

#[tokio::test]
async fn long_01_the_deadline_is_of_each_row_and_of_a_vectorized_call() {
    let (_gateway, client) = numbers().await;
    declare(&client, "import time\ndef f(x):\n time.sleep(0.3)\n return x", "").await;
    assert_eq!(counts(&client, "WITH (row_timeout_seconds = 1)").await, "10|0|0", "the ten rows take 3 s");
    let (_gateway, client) = numbers().await;
    declare(&client, "import time\ndef f(x):\n time.sleep(3)\n return x", "WITH (mode = 'vectorized')").await;
    let failed = error(&client, "REFRESH COLUMN y ON n WITH (row_timeout_seconds = 1) WAIT").await;
    assert!(failed.contains("RowTimeoutError") && failed.contains("the call took longer than 1 s"), "{failed}");
}

#[tokio::test]
async fn long_02_heartbeats_tell_that_it_lives_and_extend_nothing() {
    let (_gateway, client) = numbers().await;
    let source = "import time, lance_progress\ndef f(x):\n while x == 3:\n  lance_progress.heartbeat()\n  time.sleep(0.05)\n lance_progress.heartbeat()\n return x";
    declare(&client, source, "").await;
    let failed = error(&client, "REFRESH COLUMN y ON n WITH (row_timeout_seconds = 1) WAIT").await;
    assert!(failed.contains("RowTimeoutError"), "{failed}");
    assert_eq!(counts(&client, "WHERE x <> 3 WITH (row_timeout_seconds = 1)").await, "9|0|1");
}

#[tokio::test]
async fn long_03_w12_an_init_that_hangs_fails_the_job_at_its_stage_also_under_skip() {
    let (_gateway, client) = numbers().await;
    let source = "import time\nclass f:\n def __init__(self):\n  print('loading weights')\n  time.sleep(3600)\n def __call__(self, x): return x";
    declare(&client, source, "").await;
    let with = "WITH (error_policy = 'skip', init_timeout_seconds = 1, max_failed_rows = 100)";
    let failed = error(&client, &format!("REFRESH COLUMN y ON n {with} WAIT")).await;
    assert!(failed.contains("the Function was not initialized within 1 s"), "{failed}");
    assert!(failed.contains("InitializationError: It printed: loading weights"), "{failed}");
    assert_eq!(values(&client).await, ["∅"; 10].join(" "));
}

#[tokio::test]
async fn long_03_the_deployment_bounds_an_init_that_no_option_bounds() {
    let (_gateway, client) = numbers_with("init_timeout = \"1s\"\n").await;
    declare(&client, "import time\ntime.sleep(2)\ndef f(x): return x", "").await;
    assert!(error(&client, "REFRESH COLUMN y ON n WAIT").await.contains("within 1 s"));
    assert_eq!(counts(&client, "WITH (init_timeout_seconds = 30)").await, "10|0|0");
}

#[tokio::test]
async fn long_04_a_row_deadline_does_not_extend_the_limit_of_the_job() {
    let (_gateway, client) = numbers_with("[jobs]\nexecution_limit = \"6s\"\n").await;
    declare(&client, "import time\ndef f(x):\n if x == 9: time.sleep(3600)\n return x", "").await;
    let begun = Instant::now();
    let with = "WITH (row_timeout_seconds = 86400, publication_interval_rows = 5)";
    let failed = error(&client, &format!("REFRESH COLUMN y ON n {with} WAIT")).await;
    assert!(failed.starts_with("57014") && failed.contains("ExecutionLimitExceeded"), "{failed}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(rows(&client, "SELECT state FROM system.public.jobs").await, ["timed_out"]);
    assert_eq!(rows(&client, "SELECT count(y) FROM n").await, ["5"], "what it has published stays");
    assert_eq!(counts(&client, "WHERE x < 9").await, "9|0|1", "longer work is split by filters");
}
