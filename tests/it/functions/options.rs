//! The options of a Function refresh.

use tokio_postgres::Client;

use super::{counts, declare, numbers, numbers_with, values};
use crate::rows::{error, rows, run, value};

async fn refused(client: &Client, with: &str) -> String {
    error(client, &format!("REFRESH COLUMN y ON n WITH ({with})")).await
}

#[tokio::test]
async fn op_02_op_03_op_05_op_06_what_cannot_be_is_refused_by_name_before_there_is_a_job() {
    let (_gateway, client) = numbers().await;
    declare(&client, "def f(x): return x", "").await;
    for (with, names) in [
        ("cpu_millis = 1000", "memory_bytes and gpu_count"),
        ("memory_bytes = 1073741824, gpu_count = 1", "cpu_millis"),
        ("gpu_count = 0", "gpu_count"),
        ("cpu_millis = 0, memory_bytes = 1073741824, gpu_count = 0", "cpu_millis"),
        ("cpu_millis = 1000, memory_bytes = 1024, gpu_count = 0", "memory_bytes"),
        ("gpu_class = 'A100'", "gpu_class"),
        ("gpu_class = 'no-such-class'", "'default'"),
        ("batch_size = 0", "batch_size"),
        ("error_policy = 'ignore'", "error_policy"),
        ("max_failed_fraction = 1.5", "max_failed_fraction"),
        ("row_timeout_seconds = 0", "row_timeout_seconds"),
        ("init_timeout_seconds = 86401", "init_timeout_seconds"),
        ("max_executor_processes_per_worker = 0", "max_executor_processes_per_worker"),
        ("publication_interval_rows = 0", "publication_interval_rows"),
    ] {
        let refused = refused(&client, with).await;
        assert!(refused.starts_with("22023") && refused.contains(names), "{with}: {refused}");
    }
    assert!(refused(&client, "colour = 'red'").await.starts_with("42601"));
    run(&client, "ALTER TABLE n ADD COLUMN e AS (x + 1)").await;
    for with in ["gpu_class = 'default'", "gpu_count = 1", "batch_size = 7", "publication_interval_rows = 7"] {
        let refused = error(&client, &format!("REFRESH COLUMN e ON n WITH ({with})")).await;
        let name = with.split(' ').next().unwrap();
        assert!(refused.starts_with("22023") && refused.contains(name), "{refused}");
    }
    assert!(rows(&client, "SHOW JOBS").await.is_empty());
}

#[tokio::test]
async fn op_02_a_memory_budget_is_a_cap_and_nothing_else_changes() {
    let (_gateway, client) = numbers().await;
    // Touches a good 300 MB.
    declare(&client, "def f(x): return len(b'1' * (300 << 20)) - (300 << 20) + x", "").await;
    let budget = |bytes: u64| format!("WITH (cpu_millis = 4000, memory_bytes = {bytes}, gpu_count = 0)");
    let failed = error(&client, &format!("REFRESH COLUMN y ON n {} WAIT", budget(256 << 20))).await;
    assert!(failed.starts_with("38000") && failed.contains("emory"), "{failed}");
    assert_eq!(values(&client).await, ["∅"; 10].join(" "));
    assert_eq!(counts(&client, &budget(1 << 30)).await, "10|0|0");
    let plan = rows(&client, &format!("EXPLAIN REFRESH COLUMN y ON n {}", budget(1 << 30))).await.join("\n");
    let expected = "budget=[cpu_millis=4000, memory_bytes=1073741824, gpu_count=0], error_policy=fail, fragments=0/1";
    assert!(plan.contains(expected), "{plan}");
}

#[tokio::test]
async fn op_02_op_05_a_cpu_budget_and_a_cap_on_processes_bound_the_workers() {
    for with in [
        "WITH (cpu_millis = 1999, memory_bytes = 17179869184, gpu_count = 0)",
        "WITH (max_executor_processes_per_worker = 1)",
    ] {
        let (_gateway, client) = numbers_with("[column_refresh]\nworkers = 4\n").await;
        for part in 1..4 {
            run(&client, &format!("INSERT INTO n SELECT * FROM generate_series({part}0, {part}9)")).await;
        }
        let source = "class f:\n def __init__(self): self.calls = 0\n def __call__(self, x):\n  self.calls += 1\n  return self.calls";
        declare(&client, source, "").await;
        assert_eq!(counts(&client, with).await, "40|0|0");
        // One instance after the other has seen all rows; of two at one time, none would have.
        assert_eq!(rows(&client, "SELECT max(y), count(DISTINCT y) FROM n").await, ["40|40"], "{with}");
    }
}

#[tokio::test]
async fn op_03_a_class_of_the_catalog_is_taken_and_shown() {
    let (_gateway, client) =
        numbers_with("[[gpu_classes]]\nname = \"a100\"\nresource_name = \"nvidia.com/gpu\"\n").await;
    declare(&client, "def f(x): return x", "").await;
    assert_eq!(rows(&client, "SELECT name FROM gpu_classes()").await, ["default", "a100"]);
    let explain = "EXPLAIN REFRESH COLUMN y ON n WITH (gpu_class = 'a100', gpu_count = 2)";
    let plan = rows(&client, explain).await.join("\n");
    assert!(plan.contains("budget=[gpu_count=2, gpu_class=a100]"), "{plan}");
    assert_eq!(counts(&client, "WITH (gpu_class = 'default')").await, "10|0|0");
}

#[tokio::test]
async fn op_04_batch_size_caps_the_rows_of_a_call() {
    let (_gateway, client) = numbers().await;
    declare(&client, "def f(x): return [len(x)] * len(x)", "WITH (mode = 'vectorized')").await;
    assert_eq!(counts(&client, "WITH (batch_size = 4)").await, "10|0|0");
    assert_eq!(values(&client).await, "4 4 4 4 4 4 4 4 2 2");
}

#[tokio::test]
async fn op_07_the_first_call_is_a_small_probe_and_each_is_at_most_sixteen_times_the_one_before() {
    let (_gateway, client) = numbers().await;
    run(&client, "INSERT INTO n SELECT * FROM generate_series(10, 4999)").await;
    run(&client, "CREATE TABLE m AS SELECT x FROM n; DROP TABLE n; ALTER TABLE m RENAME TO n").await;
    declare(&client, "def f(x): return [len(x)] * len(x)", "WITH (mode = 'vectorized')").await;
    assert_eq!(counts(&client, "").await, "5000|0|0");
    let sizes: Vec<i64> = rows(&client, "SELECT y FROM n").await.iter().map(|y| y.parse().unwrap()).collect();
    let mut calls = vec![sizes[0]];
    let mut at = usize::try_from(sizes[0]).unwrap();
    while at < sizes.len() {
        calls.push(sizes[at]);
        at += usize::try_from(sizes[at]).unwrap();
    }
    assert_eq!(calls[0], 10, "{calls:?}");
    assert!(calls.windows(2).all(|pair| pair[1] <= 16 * pair[0]), "{calls:?}");
    assert!(calls.len() < 200, "they grow: {calls:?}");
}

#[tokio::test]
async fn op_05_with_publication_interval_rows_a_fragment_becomes_visible_while_it_is_computed() {
    let (_gateway, client) = numbers().await;
    run(&client, "CREATE TABLE m AS SELECT x FROM generate_series(0, 99) AS s(x); DROP TABLE n").await;
    run(&client, "ALTER TABLE m RENAME TO n").await;
    declare(&client, "def f(x):\n if x == 70: raise ValueError('seventy')\n return 2 * x", "").await;
    let failed = error(&client, "REFRESH COLUMN y ON n WITH (publication_interval_rows = 30) WAIT").await;
    assert!(failed.contains("row 70 of fragment 0"), "{failed}");
    assert_eq!(rows(&client, "SELECT count(y), max(y) FROM n").await, ["60|118"], "two of four pieces");
    let with = "WITH (publication_interval_rows = 15, error_policy = 'skip')";
    assert_eq!(counts(&client, with).await, "39|1|1", "the published ones are not computed again");
    let wrong = "SELECT x FROM n WHERE y IS DISTINCT FROM 2 * x";
    assert_eq!(rows(&client, wrong).await, ["70"]);
    assert_eq!(rows(&client, "SELECT row_offset FROM function_errors('n')").await, ["70"]);
    let progress = value(&client, "SHOW JOBS LIMIT 1", "progress").await.unwrap();
    let progress: serde_json::Value = serde_json::from_str(&progress).unwrap();
    let seen = ["rows_planned", "rows_published", "rows_remaining", "fragments_planned", "fragments_completed"];
    assert_eq!(seen.map(|name| progress[name].as_u64().unwrap()), [40, 40, 0, 1, 1], "{progress}");
}

#[tokio::test]
async fn prog_03_rows_failed_is_there_when_the_job_has_succeeded_and_not_before() {
    let (_gateway, client) = numbers().await;
    declare(&client, "def f(x):\n if x in (3, 7): raise ValueError(x)\n return x", "").await;
    error(&client, "REFRESH COLUMN y ON n WAIT").await;
    counts(&client, "WITH (error_policy = 'skip')").await;
    let listed = rows(&client, "SELECT progress FROM system.public.jobs ORDER BY created_at").await;
    let progress: Vec<serde_json::Value> = listed.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    assert!(progress[0].get("rows_failed").is_none(), "{listed:?}");
    let seen = ["rows_computed", "rows_skipped", "rows_failed", "rows_published"];
    assert_eq!(seen.map(|name| progress[1][name].as_u64().unwrap()), [10, 2, 2, 10], "{listed:?}");
}

/// Says which GPUs it sees.
const SEES: &str = "import os\ndef f(x): return int(os.environ['CUDA_VISIBLE_DEVICES'].replace(',', '0') or -1)";
const GPUS: &str = "[column_refresh]\nworkers = 2\n\
    [[gpu_classes]]\nname = \"small\"\nresource_name = \"x/gpu\"\ndevices = \"1,2,3,4\"\nmax_gpu_count_per_worker = 1\n\
    [[gpu_classes]]\nname = \"large\"\nresource_name = \"x/gpu\"\ndevices = \"1,2,3,4\"\n\
    [[gpu_classes]]\nname = \"far\"\nresource_name = \"x/gpu\"\n";

#[tokio::test]
async fn gpu_02_workers_are_given_the_devices_of_their_class_and_no_more_than_it_allows() {
    let (_gateway, client) = numbers_with(GPUS).await;
    for part in 1..4 {
        run(&client, &format!("INSERT INTO n SELECT * FROM generate_series({part}0, {part}9)")).await;
    }
    declare(&client, SEES, "WITH (gpu = true, gpu_class = 'small', env = '{\"CUDA_VISIBLE_DEVICES\": \"7\"}')").await;
    let seen = async |with: &str| -> Vec<i64> {
        run(&client, &format!("REFRESH COLUMN y ON n WHERE x >= 0 {with} WAIT")).await;
        rows(&client, "SELECT DISTINCT y FROM n ORDER BY y").await.iter().map(|y| y.parse().unwrap()).collect()
    };
    let one_each = |seen: &[i64]| seen.len() <= 2 && seen.iter().all(|device| (1..=4).contains(device));
    let small = seen("").await;
    assert!(one_each(&small), "{small:?}");
    assert_eq!(seen("WITH (gpu_count = 1)").await.len(), 1);
    // Without a bound, two workers share the four: "1,2" reads 102.
    let large = seen("WITH (gpu_class = 'large')").await;
    assert!(large.len() <= 2 && large.iter().all(|devices| (102..=304).contains(devices)), "{large:?}");
    assert_eq!(seen("WITH (gpu_class = 'large', gpu_count = 1)").await.len(), 1);
    assert_eq!(rows(&client, "SELECT f(1) BETWEEN 1 AND 4").await, ["t"]);
}

#[tokio::test]
async fn gpu_01_a_function_with_a_gpu_is_refused_where_its_class_has_no_devices() {
    let (_gateway, client) = numbers_with(GPUS).await;
    declare(&client, SEES, "WITH (gpu = true)").await;
    for (with, code, part) in [
        ("gpu_class = 'far'", "55000", "class \"far\" has no devices"),
        ("cpu_millis = 1000, memory_bytes = 1073741824, gpu_count = 0", "22023", "gpu_count"),
        ("gpu_class = 'nowhere'", "22023", "'small'"),
    ] {
        let refused = refused(&client, with).await;
        assert!(refused.starts_with(code) && refused.contains(part), "{with}: {refused}");
    }
    assert!(rows(&client, "SHOW JOBS").await.is_empty());
    run(&client, "ALTER FUNCTION f SET (gpu_class = 'far')").await;
    let called = error(&client, "SELECT f(1)").await;
    assert!(called.starts_with("38000") && called.contains("class \"far\" has no devices"), "{called}");
}
