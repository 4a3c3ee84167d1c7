//! Rows that a Function fails on: policies, limits, recovery, and the records.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator};
use lance::Dataset;
use lance::dataset::{WriteMode, WriteParams};
use tokio_postgres::Client;

use super::{config, counts, declare, numbers, numbers_with, values};
use crate::harness::Gateway;
use crate::rows::{error, rows, run, value};

#[tokio::test]
async fn err_01_the_first_row_error_fails_the_job_and_names_row_and_exception() {
    let (_gateway, client) = numbers().await;
    declare(&client, "def f(x):\n if x == 3: raise ValueError('three')\n return x", "").await;
    let failed = error(&client, "REFRESH COLUMN y ON n WAIT").await;
    let expected = "38000: function \"f\" failed on row 3 of fragment 0: ValueError: three (line 2 in f)";
    assert!(failed.starts_with(expected), "{failed}");
    assert_eq!(values(&client).await, ["∅"; 10].join(" "), "the part is not published");
}

#[tokio::test]
async fn err_02_err_08_skip_records_failing_rows_and_a_retry_clears_them() {
    let (_gateway, client) = numbers().await;
    let source = "def f(x):\n if x in (3, 7): raise ValueError(f'bad {x}')\n return x";
    declare(&client, source, "").await;
    assert_eq!(counts(&client, "WITH (error_policy = 'skip')").await, "8|2|2");
    assert_eq!(values(&client).await, "0 1 2 ∅ 4 5 6 ∅ 8 9");
    let listed = "SHOW ERRORS ON n";
    let errors: Vec<String> = rows(&client, listed).await;
    let shape = |row: &String| {
        row.split('|').skip(1).take(3).chain(row.split('|').skip(8).take(2)).collect::<Vec<_>>().join("|")
    };
    assert_eq!(errors.iter().map(shape).collect::<Vec<_>>(), ["y|f|1|ValueError|bad 3", "y|f|1|ValueError|bad 7"]);
    // The record of a row names it for a retry, by its stable id.
    let row_id = errors[0].split('|').nth(7).unwrap();
    assert_eq!(rows(&client, &format!("SELECT x FROM n WHERE _rowid = {row_id}")).await, ["3"]);
    run(&client, "UPDATE n SET x = 30 WHERE x = 3").await;
    assert_eq!(counts(&client, "WITH (error_policy = 'skip', max_failed_rows = 5)").await, "1|1|1");
    assert_eq!(values(&client).await, "0 1 2 4 5 6 ∅ 8 9 30");
    let errors = rows(&client, listed).await;
    assert!(errors.iter().any(|row| row.contains("bad 7")), "what fails again stays: {errors:?}");
}

#[tokio::test]
async fn err_03_skip_hides_no_initialization_failure() {
    let (_gateway, client) = numbers().await;
    declare(&client, "print('loading')\nraise RuntimeError('no weights')\ndef f(x): return x", "").await;
    let failed = error(&client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip') WAIT").await;
    assert!(failed.starts_with("38000") && failed.contains("RuntimeError: no weights"), "{failed}");
    // DETAIL has the name of the error and the end of what the worker printed; the listing of jobs has the message.
    assert!(failed.contains("InitializationError: It printed: loading"), "{failed}");
    let listed = rows(&client, "SELECT state, error FROM system.public.jobs").await;
    assert!(listed[0].starts_with("failed|function \"f\" failed: the Function could not be initialized"), "{listed:?}");
    assert!(rows(&client, "SELECT * FROM function_errors('n')").await.is_empty(), "it is no row's");
}

#[tokio::test]
async fn err_03_skip_hides_neither_a_lost_worker_nor_a_wrong_answer() {
    for (source, options, code, name) in [
        ("import os\ndef f(x):\n if x == 3: os._exit(7)\n return x", "", "38000", "WorkerLost"),
        ("def f(x): return [1, 2]", "WITH (mode = 'vectorized')", "39000", "ContractError"),
    ] {
        let (_gateway, client) = numbers().await;
        declare(&client, source, options).await;
        let failed = error(&client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip') WAIT").await;
        assert!(failed.starts_with(code) && failed.contains(name), "{failed}");
        assert_eq!(values(&client).await, ["∅"; 10].join(" "), "nothing is published");
        assert!(rows(&client, "SHOW ERRORS ON n").await.is_empty());
    }
}

#[tokio::test]
async fn err_04_too_many_failures_fail_the_job() {
    let (_gateway, client) = numbers().await;
    declare(&client, "def f(x): return 1 // (x % 3)", "").await;
    let failed = error(&client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip', max_failed_rows = 3) WAIT").await;
    assert!(failed.contains("4 rows failed, more than 3"), "{failed}");
    assert_eq!(values(&client).await, ["∅"; 10].join(" "));
    assert_eq!(counts(&client, "WITH (error_policy = 'skip', max_failed_rows = 4)").await, "6|4|4");
}

#[tokio::test]
async fn err_05_a_vectorized_exception_is_bisected() {
    let (_gateway, client) = numbers().await;
    let source = "import pyarrow.compute as pc\ndef f(x):\n if 3 in x.to_pylist(): raise ValueError('three')\n return pc.multiply(x, 2)";
    declare(&client, source, "WITH (mode = 'vectorized')").await;
    assert_eq!(counts(&client, "WITH (error_policy = 'skip')").await, "9|1|1");
    assert_eq!(values(&client).await, "0 2 4 ∅ 8 10 12 14 16 18");
}

#[tokio::test]
async fn err_07_long_01_op_05_a_row_that_hangs_is_one_row_timeout_error() {
    let (_gateway, client) = numbers().await;
    let source = "import time\ndef f(x):\n if x == 3: time.sleep(3600)\n return x";
    declare(&client, source, "WITH (side_effects = 'none')").await;
    assert_eq!(counts(&client, "WITH (error_policy = 'skip', row_timeout_seconds = 1)").await, "9|1|1");
    let errors = rows(&client, "SHOW ERRORS ON n").await;
    assert!(errors.len() == 1 && errors[0].contains("RowTimeoutError"), "{errors:?}");
}

#[tokio::test]
async fn cancel_ends_a_function_that_hangs() {
    let (_gateway, client) = numbers().await;
    declare(&client, "import time\ndef f(x): time.sleep(3600)", "").await;
    let job = value(&client, "REFRESH COLUMN y ON n NOWAIT", "job_id").await.unwrap();
    run(&client, &format!("CANCEL JOB '{job}'")).await;
    let ended = error(&client, &format!("WAIT JOB '{job}' TIMEOUT '50 s'")).await;
    assert!(ended.starts_with("57014") && ended.contains("cancel"), "{ended}");
}

/// `x` of the rows that are listed, in the order of the listing.
async fn listed(client: &Client) -> String {
    let listed = rows(client, "SELECT error_message FROM function_errors('n') ORDER BY error_message").await;
    listed.join(" ")
}

pub(super) const RAISES: &str = "def f(x):\n if x in (3, 7): raise ValueError(f'bad {x}')\n return x";

#[tokio::test]
async fn err_02_the_relation_and_the_table_function_show_what_show_errors_shows_to_those_who_may_read_the_table() {
    let (gateway, client) = numbers().await;
    declare(&client, RAISES, "").await;
    counts(&client, "WITH (error_policy = 'skip')").await;
    let shown = rows(&client, "SHOW ERRORS ON n").await;
    assert_eq!(shown.len(), 2);
    assert_eq!(rows(&client, "SELECT * FROM function_errors('public.n')").await, shown);
    let named: Vec<String> = shown.iter().map(|row| format!("n|{row}")).collect();
    assert_eq!(rows(&client, "SELECT * FROM system.public.function_errors").await, named);
    assert_eq!(rows(&client, "SHOW ERRORS ON n LIMIT 1").await, shown[..1]);
    let job = value(&client, "SHOW JOBS", "job_id").await.unwrap();
    assert_eq!(rows(&client, &format!("SHOW ERRORS ON n FOR JOB '{job}'")).await, shown);
    assert!(rows(&client, "SHOW ERRORS ON n FOR JOB 'job_01'").await.is_empty());
    assert!(error(&client, "SHOW ERRORS ON n LIMIT 100001").await.starts_with("22023"));
    assert!(error(&client, "SELECT * FROM function_errors('nope')").await.starts_with("42P01"));
    run(&client, "CREATE USER ann PASSWORD 'ann-password'; GRANT USAGE ON DATABASE lancegate TO USER ann").await;
    run(&client, "GRANT USAGE ON SCHEMA public TO USER ann").await;
    let ann = gateway.connect_as("ann", "ann-password").await.unwrap();
    assert!(rows(&ann, "SELECT * FROM system.public.function_errors").await.is_empty());
    for refused in ["SHOW ERRORS ON n", "SELECT * FROM function_errors('n')"] {
        assert!(error(&ann, refused).await.starts_with("42501"), "{refused}");
    }
}

#[tokio::test]
async fn err_08_a_retry_by_row_id_removes_its_records_and_leaves_those_that_fail_again() {
    let (_gateway, client) = numbers().await;
    declare(&client, RAISES, "").await;
    counts(&client, "WITH (error_policy = 'skip')").await;
    assert_eq!(
        rows(&client, "SELECT x FROM n WHERE _rowid IN (SELECT row_id FROM function_errors('n'))").await,
        ["3", "7"]
    );
    // What is wrong is not the row: the same value is right once the Function has seen the others.
    let (first, second) = ("SELECT row_id FROM function_errors('n') WHERE error_message = 'bad ", "'");
    let id = rows(&client, &format!("{first}3{second}")).await[0].clone();
    assert_eq!(
        counts(&client, &format!("WHERE _rowid IN ({id}) WITH (error_policy = 'skip', max_failed_rows = 9)")).await,
        "0|1|2"
    );
    assert_eq!(listed(&client).await, "bad 3 bad 7", "one record of each");
    let attempts = rows(&client, "SELECT attempts FROM function_errors('n') ORDER BY error_message").await;
    assert_eq!(attempts, ["2", "1"]);
}

#[tokio::test]
async fn err_08_a_row_that_succeeds_later_at_its_place_is_not_listed_any_more() {
    let (_gateway, client) = numbers().await;
    // Fails on 3 and 7 the first time it is called with them.
    let source = "class f:\n def __init__(self): self.seen = set()\n def __call__(self, x):\n  if x in (3, 7) and x not in self.seen:\n   self.seen.add(x)\n   raise ValueError(f'bad {x}')\n  return x";
    declare(&client, source, "").await;
    assert_eq!(counts(&client, "WITH (error_policy = 'skip')").await, "8|2|2");
    let address =
        "SELECT fragment_id * 4294967296 + row_offset FROM function_errors('n') WHERE error_message = 'bad 3'";
    let address = rows(&client, address).await[0].clone();
    assert_eq!(counts(&client, &format!("WHERE _rowaddr IN ({address})")).await, "1|0|1");
    assert_eq!(listed(&client).await, "bad 7");
    assert_eq!(counts(&client, "").await, "1|0|0");
    assert_eq!((listed(&client).await, values(&client).await), (String::new(), "0 1 2 3 4 5 6 7 8 9".to_owned()));
}

#[tokio::test]
async fn err_08_a_table_without_stable_row_ids_has_places_instead() {
    let gateway = Gateway::start_with(&config(""));
    let column: ArrayRef = Arc::new(Int64Array::from(vec![0, 1, 2, 3]));
    let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
    let params = WriteParams { mode: WriteMode::Create, enable_stable_row_ids: false, ..WriteParams::default() };
    let reader = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
    Dataset::write(reader, gateway.data().join("n.lance").to_str().unwrap(), Some(params)).await.unwrap();
    let client = gateway.connect().await;
    declare(&client, RAISES, "").await;
    assert_eq!(counts(&client, "WITH (error_policy = 'skip')").await, "3|1|1");
    let record = "SELECT row_id, fragment_id, row_offset FROM function_errors('n')";
    assert_eq!(rows(&client, record).await, ["∅|0|3"]);
    assert_eq!(rows(&client, "SELECT x FROM n WHERE _rowaddr = 3").await, ["3"]);
    assert_eq!(
        counts(&client, "WHERE _rowaddr = 3 WITH (error_policy = 'skip', max_failed_fraction = 1)").await,
        "0|1|1"
    );
}

#[tokio::test]
async fn err_08_a_thousand_rows_of_a_fragment_have_records_and_the_others_are_counted() {
    let (_gateway, client) = numbers().await;
    run(&client, "DELETE FROM n; INSERT INTO n SELECT * FROM generate_series(0, 2999)").await;
    let source = "class f:\n def __init__(self): self.seen = set()\n def __call__(self, x):\n  if x % 2 and x not in self.seen:\n   self.seen.add(x)\n   raise ValueError(x)\n  return x";
    declare(&client, source, "").await;
    assert_eq!(counts(&client, "WITH (error_policy = 'skip', max_failed_fraction = 0.5)").await, "1500|1500|1500");
    let capped = "SELECT error_type, error_message FROM function_errors('n') WHERE row_offset IS NULL";
    assert_eq!(rows(&client, capped).await, ["RowErrorsCapped|500 more rows of the fragment failed"]);
    assert_eq!(rows(&client, "SELECT count(*) FROM function_errors('n')").await, ["1001"]);
    assert_eq!(counts(&client, "WHERE x > 2900 WITH (error_policy = 'skip')").await, "99|0|1450");
    assert_eq!(rows(&client, capped).await, ["RowErrorsCapped|450 more rows of the fragment failed"]);
    assert_eq!(counts(&client, "").await, "1450|0|0");
    assert!(rows(&client, "SHOW ERRORS ON n").await.is_empty());
}

#[tokio::test]
async fn err_04_w16_the_default_limits_are_of_a_part_and_earlier_parts_stay() {
    let (_gateway, client) = numbers_with("[column_refresh]\nworkers = 1\npublish_fragments = 1\n").await;
    run(&client, "DELETE FROM n; INSERT INTO n SELECT * FROM generate_series(0, 999)").await;
    run(&client, "INSERT INTO n SELECT * FROM generate_series(1000, 1999)").await;
    // Of the first part 500 of 1,000 fail, of the second 501; never the first 100 rows.
    let fails = "(500 <= x < 1000) or (1499 <= x)";
    declare(&client, &format!("def f(x):\n if {fails}: raise ValueError(x)\n return x"), "").await;
    let failed = error(&client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip') WAIT").await;
    assert!(failed.starts_with("38000") && failed.contains("FailureLimitExceeded"), "{failed}");
    assert!(failed.contains("501 of 1000 evaluated rows failed, more than a fraction of 0.5"), "{failed}");
    assert_eq!(rows(&client, "SELECT count(y), min(y), max(y) FROM n").await, ["500|0|499"], "the first part stays");
    assert_eq!(rows(&client, "SELECT count(*), max(row_offset) FROM function_errors('n')").await, ["500|999"]);
}

#[tokio::test]
async fn err_04_w16_the_first_99_rows_of_a_part_may_fail_and_100_may_not() {
    for (failing, passes) in [(99, true), (100, false)] {
        let (_gateway, client) = numbers().await;
        run(&client, "DELETE FROM n; INSERT INTO n SELECT * FROM generate_series(0, 299)").await;
        declare(&client, &format!("def f(x):\n if x < {failing}: raise ValueError(x)\n return x"), "").await;
        let refresh = "REFRESH COLUMN y ON n WITH (error_policy = 'skip', max_failed_rows = 1000) WAIT";
        if passes {
            assert_eq!(value(&client, refresh, "rows_failed").await.as_deref(), Some("99"));
        } else {
            let failed = error(&client, refresh).await;
            assert!(failed.contains("the first 100 evaluated rows failed"), "{failed}");
        }
    }
}

#[tokio::test]
async fn err_06_a_call_that_times_out_is_recovered_in_smaller_ranges_if_it_may_be_replayed() {
    let (_gateway, client) = numbers().await;
    let source = "import time\ndef f(x):\n if len(x) > 2: time.sleep(3600)\n return [2 * v for v in x.to_pylist()]";
    let safe = "WITH (mode = 'vectorized', result_stability = 'input_and_context', side_effects = 'none')";
    declare(&client, source, safe).await;
    assert_eq!(counts(&client, "WITH (row_timeout_seconds = 1)").await, "10|0|0", "also under the policy fail");
    assert_eq!(values(&client).await, "0 2 4 6 8 10 12 14 16 18");
}

#[tokio::test]
async fn err_06_declared_effects_are_never_replayed() {
    let (_gateway, client) = numbers().await;
    let source = "import time\ndef f(x):\n if x == 3: time.sleep(3600)\n return x";
    declare(&client, source, "WITH (side_effects = 'idempotent')").await;
    let refresh = "REFRESH COLUMN y ON n WITH (error_policy = 'skip', row_timeout_seconds = 1) WAIT";
    let failed = error(&client, refresh).await;
    assert!(failed.starts_with("38000") && failed.contains("RowTimeoutError"), "{failed}");
    assert!(failed.contains("on row 3 of fragment 0"), "{failed}");
    assert_eq!(values(&client).await, ["∅"; 10].join(" "));
}

#[tokio::test]
async fn err_07_w07_a_row_that_takes_all_memory_is_quarantined_and_its_neighbours_are_right() {
    let (_gateway, client) = numbers_with("memory = \"300MiB\"\n").await;
    let source = "def f(x):\n if x == 3:\n  b = []\n  while True: b.append(bytearray(8 << 20))\n return 2 * x";
    let safe = "WITH (result_stability = 'input_and_context', side_effects = 'none')";
    declare(&client, source, safe).await;
    // All of one part and no more than one row may fail: a quarantined row counts for the job and not for the part.
    assert_eq!(counts(&client, "WITH (error_policy = 'skip', max_failed_rows = 1)").await, "9|1|1");
    assert_eq!(values(&client).await, "0 2 4 ∅ 8 10 12 14 16 18");
    let listed = rows(&client, "SELECT row_offset, error_type FROM function_errors('n')").await;
    // Where the kernel ends the worker it is quarantined; where it refuses the memory, the row raises.
    assert!(listed == ["3|OutOfMemoryError"] || listed == ["3|MemoryError"], "{listed:?}");
    let failed = error(&client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip', max_failed_rows = 0) WAIT").await;
    assert!(failed.contains("FailureLimitExceeded"), "{failed}");
    assert!(error(&client, "REFRESH COLUMN y ON n WAIT").await.starts_with("38000"));
}
