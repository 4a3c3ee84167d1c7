//! What requests may and may not hold.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::Client;

use super::Rest;
use crate::harness::until;
use crate::rows::{rows, run};

/// A table with an expression column and a Function column over three rows.
async fn declared() -> (Rest, Client) {
    let rest = Rest::start().await;
    let client = rest.gateway.connect().await;
    run(&client, "CREATE TABLE n AS SELECT x FROM generate_series(1, 3) AS s(x)").await;
    run(&client, "CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS 'def f(x): return 2 * x'").await;
    run(&client, "ALTER TABLE n ADD COLUMN xc AS x * 2, ADD COLUMN fc AS f(x)").await;
    (rest, client)
}

async fn ended(rest: &Rest, id: &Value) -> Value {
    until("the job has ended", async || {
        let (status, job) = rest.post("/v1/jobs/describe", json!({ "job_id": id })).await;
        assert_eq!(status, 200, "{job}");
        (job["job_state"] != json!("IN_PROGRESS")).then_some(job)
    })
    .await
}

#[tokio::test]
async fn bf_01_a_backfill_takes_every_field_of_the_specification() {
    let (rest, client) = declared().await;
    run(&client, "CREATE SCHEMA \"team$ml\"; CREATE TABLE \"team$ml\".t (\"a b\" bigint, x bigint)").await;
    run(
        &client,
        "INSERT INTO \"team$ml\".t VALUES (1, 1), (2, 2); ALTER TABLE \"team$ml\".t ADD COLUMN \"Q r\" AS x + 1",
    )
    .await;
    let version = rest.post("/v1/table/team$ml$t/describe", json!({})).await.1["version"].clone();
    let whole = json!({
        "column": "`Q r`", "id": ["team", "ml", "t"], "branch": "main", "where": "`x` = 1", "concurrency": 1,
        "intra_applier_concurrency": 6, "min_checkpoint_size": 1, "max_checkpoint_size": 5,
        "batch_checkpoint_flush_interval_seconds": 5.637, "read_version": version, "task_size": 7, "num_frags": 9,
        "checkpoint_size": 3, "commit_granularity": 2, "cluster": "c", "manifest": "m",
        "identity": {"api_key": "k", "auth_token": "t"}, "context": {"key": "context"},
    });
    let (status, body) = rest.post("/v1/table/team$ml$t/backfill_column", whole).await;
    assert_eq!(status, 202, "{body}");
    let warning = body["context"]["warning"].as_str().unwrap();
    assert!(warning.contains("task_size") && warning.contains("checkpoint_size"), "{warning}");
    let job = ended(&rest, &body["job_id"]).await;
    assert_eq!(job["job_state"], json!("DONE"), "{job}");
    assert_eq!(job["spec"]["column"], json!("Q r"));
    let filled = rows(&client, "SELECT \"Q r\" FROM \"team$ml\".t ORDER BY x").await;
    assert_eq!(filled, ["2", "∅"], "only the rows of the filter");

    // Explicit nulls are as if absent; another delimiter; encoded; with a slash.
    let bare =
        json!({"column": "xc", "id": null, "where": null, "concurrency": null, "task_size": null, "cluster": null});
    let fields = [
        ("/v1/table/public%24n/backfill_column/", bare),
        ("/v1/table/n/backfill_column?delimiter=%2E", json!({"column": "fc", "where": null, "id": null})),
    ];
    for (path, body) in fields {
        let (status, body) = rest.post(path, body).await;
        assert_eq!(status, 202, "{body}");
        assert_eq!(ended(&rest, &body["job_id"]).await["result"]["rows_assigned"], json!(3));
    }
    let (status, body) = rest.post("/v1/table/team.ml.t/backfill_column?delimiter=.", json!({"column": "`Q r`"})).await;
    assert_eq!(status, 202, "{body}");
}

#[tokio::test]
async fn bf_01_what_a_backfill_refuses_it_names() {
    let (rest, client) = declared().await;
    for (path, body, status, code, word) in [
        ("n", json!({"column": "nope"}), 400, 12, "nope"),
        ("n", json!({"column": "a.`b c`"}), 400, 12, "a.`b c`"),
        ("n", json!({"column": "`xc"}), 400, 13, "`xc"),
        ("n", json!({"column": ""}), 400, 13, "field path"),
        ("n", json!({"column": "x"}), 400, 13, "not a computed column"),
        ("n", json!({}), 400, 13, "column"),
        ("n", json!({"column": 1}), 400, 13, "string"),
        ("n", json!({"column": "xc", "where": "y >"}), 400, 13, "expression"),
        ("n", json!({"column": "xc", "where": "y = 1"}), 400, 12, "y"),
        ("n", json!({"column": "xc", "id": ["m"]}), 400, 13, "id"),
        ("n", json!({"column": "xc", "read_version": 999}), 400, 11, "999"),
        ("n", json!({"column": "xc", "read_version": 1}), 400, 13, "newest"),
        ("n", json!({"column": "xc", "branch": "none"}), 400, 22, "none"),
        ("nope", json!({"column": "xc"}), 404, 4, "nope"),
        ("a$$b", json!({"column": "xc"}), 400, 13, "a$$b"),
    ] {
        let (answered, told) = rest.post(&format!("/v1/table/{path}/backfill_column"), body.clone()).await;
        assert_eq!((answered, &told["code"]), (status, &json!(code)), "{body}: {told}");
        assert!(told["error"].as_str().unwrap().contains(word), "{body}: {told}");
    }
    assert!(rows(&client, "SHOW JOBS").await.is_empty(), "a refused request made a job");
}

#[tokio::test]
async fn op_08_a_backfill_takes_the_options_of_sql_with_the_same_validation() {
    let (rest, client) = declared().await;
    let options = [
        ("num_workers", json!(0)),
        ("num_workers", json!(2)),
        ("num_workers", json!("two")),
        ("cpu_millis", json!(1000)),
        ("gpu_count", json!(0)),
        ("gpu_class", json!("Not_A_Label")),
        ("gpu_class", json!("absent")),
        ("batch_size", json!(0)),
        ("batch_size", json!(1_000_001)),
        ("error_policy", json!("ignore")),
        ("max_failed_fraction", json!(1.5)),
        ("max_failed_rows", json!(-1)),
        ("row_timeout_seconds", json!(0)),
        ("init_timeout_seconds", json!(86_401)),
        ("max_executor_processes_per_worker", json!(0)),
        ("publication_interval_rows", json!(0)),
        ("no_such_option", json!(1)),
    ];
    for column in ["xc", "fc"] {
        for (option, value) in &options {
            let text = value.as_str().map_or_else(|| value.to_string(), |text| format!("'{text}'"));
            let sql = client.query(&format!("REFRESH COLUMN {column} ON n WITH ({option} = {text}) WAIT"), &[]).await;
            let body = json!({"column": column, (*option): value});
            let (status, told) = rest.post("/v1/table/n/backfill_column", body).await;
            match sql {
                Ok(_) => {
                    assert_eq!(status, 202, "{column} {option} {value}: {told}");
                    ended(&rest, &told["job_id"]).await;
                }
                Err(error) => {
                    let message = error.as_db_error().unwrap().message().to_owned();
                    assert_eq!((status, told["error"].as_str()), (400, Some(message.as_str())), "{column}: {told}");
                }
            }
        }
    }
    let all = json!({
        "column": "fc", "cpu_millis": 2000, "memory_bytes": 17_179_869_184_u64, "gpu_count": 0, "batch_size": 2,
        "error_policy": "skip", "max_failed_fraction": 0.5, "max_failed_rows": 10, "row_timeout_seconds": 60,
        "init_timeout_seconds": 60, "max_executor_processes_per_worker": 1, "publication_interval_rows": 2,
    });
    let (status, told) = rest.post("/v1/table/n/backfill_column", all).await;
    assert_eq!(status, 202, "{told}");
    assert_eq!(ended(&rest, &told["job_id"]).await["job_state"], json!("DONE"));
}

#[tokio::test]
async fn bf_01_the_same_request_again_is_the_same_job() {
    let (rest, _client) = declared().await;
    let send = async |header: &'static str, key: &str, column: &str| {
        let request = rest.request(Method::POST, "/v1/table/n/backfill_column").header(header, key);
        rest.send(request.json(&json!({ "column": column }))).await
    };
    for header in ["idempotency-key", "x-request-id"] {
        let (status, first) = send(header, "again", "xc").await;
        assert_eq!(status, 202, "{first}");
        ended(&rest, &first["job_id"]).await;
        let (_, second) = send(header, "again", "xc").await;
        assert_eq!(first["job_id"], second["job_id"], "{header}");
        let (_, other) = send(header, "other", "xc").await;
        assert_ne!(first["job_id"], other["job_id"], "{header}");
        ended(&rest, &other["job_id"]).await;
        // The key was used for other work.
        let (status, refused) = send(header, "again", "fc").await;
        assert_eq!(status, 400, "{refused}");
    }
    let (_, jobs) = rest.post("/v1/jobs/list", json!({})).await;
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 4, "{jobs}");
}

/// Metadata is the user's; what makes a column a computed one is not.
#[tokio::test]
async fn rest_01_metadata_is_replaced_and_a_computed_column_stays_one() {
    let (rest, client) = declared().await;
    run(&client, "CREATE TABLE s AS SELECT x, named_struct('a b', x) AS p FROM generate_series(1, 3) AS s(x)").await;
    let update = async |table: &str, updates: Value| {
        rest.post(&format!("/v1/table/{table}/update_field_metadata"), json!({ "updates": updates })).await
    };
    let (status, told) = update("n", json!([{ "path": "xc", "metadata": { "unit": "m" }, "replace": true }])).await;
    assert_eq!((status, &told["fields"]["xc"]["unit"]), (200, &json!("m")), "{told}");
    let (status, told) = rest.post("/v1/table/n/backfill_column", json!({ "column": "xc" })).await;
    assert_eq!(status, 202, "{told}");
    assert_eq!(ended(&rest, &told["job_id"]).await["job_state"], json!("DONE"));
    assert_eq!(rows(&client, "SELECT xc FROM n ORDER BY x").await, ["2", "4", "6"]);

    // Inside of a column; several of one field in their order, all in one version.
    let before = rest.post("/v1/table/s/describe", json!({})).await.1["version"].as_u64().unwrap();
    let path = "p.`a b`";
    let several = json!([
        { "path": path, "metadata": { "a": "1", "b": "1" } },
        { "path": "x", "metadata": { "c": "1" } },
        { "path": path, "metadata": { "b": null, "d": "1" } },
    ]);
    let (status, told) = update("s", several).await;
    assert_eq!((status, &told["version"]), (200, &json!(before + 1)), "{told}");
    assert_eq!(told["fields"], json!({ path: { "a": "1", "d": "1" }, "x": { "c": "1" } }));
    for (updates, code) in [
        (json!([]), 13),
        (json!([{ "path": "p.c", "metadata": {} }]), 12),
        (json!([{ "path": "x", "metadata": { "lancegate.a": null } }]), 13),
        (json!([{ "path": "x", "metadata": { "a": 1 } }]), 13),
    ] {
        let (status, told) = update("s", updates.clone()).await;
        assert_eq!((status, &told["code"]), (400, &json!(code)), "{updates}: {told}");
    }
}

#[tokio::test]
async fn jobs_are_listed_in_pages_and_filtered() {
    let (rest, _client) = declared().await;
    for column in ["xc", "fc", "xc"] {
        let (_, told) = rest.post("/v1/table/n/backfill_column", json!({ "column": column })).await;
        ended(&rest, &told["job_id"]).await;
    }
    let list = async |body: Value| rest.post("/v1/jobs/list", body).await;
    let (_, first) = list(json!({"limit": 2})).await;
    let (_, second) = list(json!({"limit": 2, "page_token": first["page_token"]})).await;
    assert_eq!((first["jobs"].as_array().unwrap().len(), second["jobs"].as_array().unwrap().len()), (2, 1));
    assert_eq!(second["page_token"], Value::Null);
    assert_eq!(list(json!({"job_type": "refresh_function_columns"})).await.1["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(list(json!({"state": "succeeded", "table_name": "n"})).await.1["jobs"].as_array().unwrap().len(), 3);
    assert_eq!(list(json!({"table_name": "m"})).await.1["jobs"], json!([]));
    assert_eq!(list(json!({"page_token": "nope"})).await.0, 400);
    assert_eq!(list(json!({"unknown": 1})).await.0, 400);
    let (status, missing) = rest.post("/v1/jobs/describe", json!({"job_id": "nope"})).await;
    assert_eq!((status, missing["error"].as_str()), (404, Some("job \"nope\" does not exist")));
}

#[tokio::test]
async fn r02_bodies_that_are_too_long_or_too_deep_are_refused() {
    let rest = Rest::start_with("[http]\nbody_bytes_max = '1MiB'\n").await;
    let path = "/v1/table/t/count_rows/";
    let long = format!("{{\"predicate\": \"{}\"}}", "x".repeat(1 << 20));
    let (status, _) = rest.send(rest.request(Method::POST, path).body(long)).await;
    assert_eq!(status, 413);
    let deep = |depth: usize| format!("{{\"context\": {}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    let (status, body) = rest.send(rest.request(Method::POST, path).body(deep(65))).await;
    assert_eq!((status, &body["code"]), (400, &json!(13)), "{body}");
    let (status, body) = rest.send(rest.request(Method::POST, path).body(deep(64))).await;
    assert_eq!((status, &body["code"]), (404, &json!(4)), "{body}");
    for bad in ["[", "nope", "{\"predicate\": 1}", "[]", "{\"unknown\": 1}", "\u{0}"] {
        let (status, body) = rest.send(rest.request(Method::POST, path).body(bad)).await;
        assert_eq!((status, &body["code"]), (400, &json!(13)), "{bad:?}: {body}");
    }
}

#[tokio::test]
async fn r02_rows_that_are_no_arrow_stream_change_nothing() {
    let rest = Rest::start_with("[http]\nupload_bytes_max = '64KiB'\n").await;
    let client = rest.gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint NOT NULL, name text)").await;
    let send = async |path: &str, body: Vec<u8>| rest.send(rest.request(Method::POST, path).body(body)).await;
    let mut hostile: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"not arrow".to_vec(),
        vec![0xff; 4096],
        [&[0xff; 4][..], &[0xff, 0xff, 0xff, 0x7f], &[0; 64]].concat(),
    ];
    let good = stream(&["id"]);
    // Cut and flipped at many places.
    for at in (0..good.len()).step_by(7) {
        hostile.push(good[..at].to_vec());
        let mut flipped = good.clone();
        flipped[at] ^= 0x5a;
        hostile.push(flipped);
    }
    for body in hostile {
        for path in ["/v1/table/new/create/?mode=create", "/v1/table/t/insert/", "/v1/table/t/merge_insert/?on=id"] {
            let (status, answer) = send(path, body.clone()).await;
            // A flipped bit of a value is a value.
            let fine = status == 200 || (status == 400 && answer["error"].is_string());
            assert!(fine, "{path} {status} {answer}");
            run(&client, "DROP TABLE IF EXISTS new").await;
        }
    }
    let (status, answer) = send("/v1/table/t/insert/", stream(&["id", "other"])).await;
    assert_eq!((status, &answer["code"]), (400, &json!(12)), "{answer}");
    let (status, answer) = send("/v1/table/t/insert/", stream(&["name"])).await;
    assert_eq!((status, &answer["code"]), (400, &json!(20)), "id is missing: {answer}");
    let (status, answer) = send("/v1/table/t/insert/?mode=nope", good.clone()).await;
    assert_eq!(status, 400, "{answer}");
    let (status, answer) = send("/v1/table/t/insert/", vec![0; 100_000]).await;
    assert!(status == 400 || status == 413, "{status} {answer}");
    let (status, answer) = send("/v1/table/nope/insert/", good).await;
    assert_eq!((status, &answer["code"]), (404, &json!(4)), "{answer}");
    assert!(rest.gateway.log().lines().all(|line| !line.contains("internal error")), "{}", rest.gateway.log());
}

/// Returns one batch of three whole numbers in each column.
fn stream(columns: &[&str]) -> Vec<u8> {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    let values = || std::sync::Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef;
    let batch = RecordBatch::try_from_iter(columns.iter().map(|name| (*name, values()))).unwrap();
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

#[tokio::test]
async fn rows_that_come_lack_what_the_table_gives_them() {
    let rest = Rest::start().await;
    let client = rest.gateway.connect().await;
    run(
        &client,
        "CREATE TABLE t (id bigint, n serial, a bigint GENERATED ALWAYS AS IDENTITY, note text DEFAULT 'new', v bigint)",
    )
    .await;
    let send = async |path: &str, body: Vec<u8>| rest.send(rest.request(Method::POST, path).body(body)).await;
    let all = async || rows(&client, "SELECT id, n, a, note, v FROM t ORDER BY id").await;
    let (status, answer) = send("/v1/table/t/insert/", stream(&["id"])).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(all().await, ["1|1|1|new|∅", "2|2|2|new|∅", "3|3|3|new|∅"]);
    run(&client, "DELETE FROM t WHERE id > 1").await;
    run(&client, "UPDATE t SET note = 'old'").await;
    // What is there stays, what is new is filled; numbers may be left out.
    let merge = |words: &str| format!("/v1/table/t/merge_insert/?on=id&{words}");
    let (status, answer) = send(&merge("when_not_matched_insert_all=true"), stream(&["id", "v"])).await;
    assert_eq!((status, &answer["num_inserted_rows"]), (200, &json!(2)), "{answer}");
    let merged = all().await;
    assert_eq!(merged[0], "1|1|1|old|∅");
    for (row, id) in merged[1..].iter().zip(2..) {
        let fields: Vec<&str> = row.split('|').collect();
        assert_eq!(
            (fields[0], fields[3], fields[4]),
            (id.to_string().as_str(), "new", id.to_string().as_str()),
            "{row}"
        );
        assert!(fields[1].parse::<u64>().unwrap() > 3 && fields[2].parse::<u64>().unwrap() > 3, "{row}");
    }
    // Rows that are there would lose their values.
    let both = "when_matched_update_all=true&when_not_matched_insert_all=true";
    let (status, answer) = send(&merge(both), stream(&["id", "v"])).await;
    let told = answer["error"].as_str().unwrap_or_default();
    assert!(status != 200 && told.contains("lack column \"n\"") && told.contains("has a default"), "{status} {answer}");
    let (status, answer) = send(&merge("when_matched_update_all=true"), stream(&["id", "v"])).await;
    assert_eq!((status, &answer["num_updated_rows"]), (200, &json!(3)), "{answer}");
    // Numbers that only the sequence gives.
    for path in ["/v1/table/t/insert/", &merge("when_not_matched_insert_all=true")] {
        let (status, answer) = send(path, stream(&["id", "a"])).await;
        let told = answer["error"].as_str().unwrap_or_default();
        assert!(status == 400 && told.contains("non-DEFAULT value into column \"a\""), "{status} {answer}");
    }
    let by_number = "/v1/table/t/merge_insert/?on=a&when_matched_update_all=true";
    assert_eq!(send(by_number, stream(&["a", "v"])).await.0, 200);
    // A column that takes no NULL and has nothing to be filled with.
    run(&client, "CREATE TABLE strict (id bigint, must bigint NOT NULL)").await;
    let into = "/v1/table/strict/merge_insert/?on=id&when_not_matched_insert_all=true";
    let (status, answer) = send(into, stream(&["id"])).await;
    let told = answer["error"].as_str().unwrap_or_default();
    assert!(status == 400 && told.contains("null value in column \"must\""), "{status} {answer}");
    assert!(!told.contains("/"), "{told}");
}

#[tokio::test]
async fn columns_of_a_branch_stay_as_they_are() {
    let rest = Rest::start().await;
    let client = rest.gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint, v bigint)").await;
    assert_eq!(rest.post("/v1/table/t/branches/create", json!({ "name": "b" })).await.0, 200);
    let send = async |path: &str, body: Vec<u8>| rest.send(rest.request(Method::POST, path).body(body)).await;
    let path = "/v1/table/t/insert?mode=overwrite&branch=b";
    let (status, answer) = send(path, stream(&["id", "other"])).await;
    assert!(status != 200 && answer["error"].as_str().unwrap().contains("other columns"), "{status} {answer}");
    assert_eq!(send(path, stream(&["id", "v"])).await.0, 200);
    assert_eq!(rest.post("/v1/table/t/count_rows", json!({ "branch": "b" })).await.1, json!(3));
    assert_eq!(rest.post("/v1/table/t/count_rows", json!({})).await.1, json!(0));
}

#[tokio::test]
async fn r01_a_head_that_drips_is_cut_off() {
    let rest = Rest::start().await;
    let address = rest.gateway.http_url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
    let mut slow = TcpStream::connect(address).await.unwrap();
    let began = Instant::now();
    let mut bytes = b"GET /healthz HTTP/1.1\r\nx-slow: ".iter().chain(std::iter::repeat(&b'a'));
    // One byte every 300 ms is never silent for long.
    while slow.write_all(&[*bytes.next().unwrap()]).await.is_ok() {
        assert!(began.elapsed() < Duration::from_secs(30), "it may drip for ever");
        let mut answer = [0; 64];
        if let Ok(Ok(0) | Err(_)) = tokio::time::timeout(Duration::from_millis(300), slow.read(&mut answer)).await {
            break;
        }
    }
    assert!(began.elapsed() > Duration::from_secs(9), "it was cut off early");
    // A connection that is used for longer than that is not.
    for _ in 0..2 {
        assert_eq!(rest.get("/healthz").await.0, 200);
    }
}
