//! The REST API, by the published LanceDB client and by plain HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Gateway, python, until};
use crate::rows::run;

mod bodies;
mod identity;

/// A gateway, an API key of its owner, and a client of HTTP.
pub(crate) struct Rest {
    pub(crate) gateway: Gateway,
    pub(crate) key: String,
    http: reqwest::Client,
}

/// An answer: status, JSON body.
pub(crate) type Answer = (u16, Value);

impl Rest {
    pub(crate) async fn start() -> Self {
        Self::start_with("").await
    }

    pub(crate) async fn start_with(config: &str) -> Self {
        let gateway = Gateway::start_with(&crate::functions::config(config));
        let key = api_key(&gateway, "owner").await;
        Self { gateway, key, http: reqwest::Client::new() }
    }

    /// Sends a JSON body with the owner's key.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(reqwest::Method::POST, path).json(&body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request(reqwest::Method::GET, path)).await
    }

    pub(crate) fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        self.bare(method, path).header("x-api-key", &self.key)
    }

    pub(crate) fn bare(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, self.gateway.http_url(path)).timeout(Duration::from_secs(60))
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Runs a program of the published client.
    fn client(&self, program: &str) {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/rest").join(program);
        let url = self.gateway.http_url("");
        let output = python().arg(file).arg(url.trim_end_matches('/')).arg(&self.key).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.trim() == "ok", "{said}{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Makes a key of the connected user.
pub(crate) async fn api_key(gateway: &Gateway, name: &str) -> String {
    let client = gateway.connect().await;
    client.query_one(&format!("CREATE API KEY {name}"), &[]).await.unwrap().get("key")
}

#[tokio::test]
async fn the_published_client_works_with_tables() {
    Rest::start().await.client("tables.py");
}

#[tokio::test]
async fn sdk_02_the_published_client_declares_refreshes_waits_and_lists_errors() {
    Rest::start().await.client("computed.py");
}

#[tokio::test]
async fn the_published_client_searches_makes_indexes_and_goes_back_to_versions() {
    Rest::start().await.client("search.py");
}

#[tokio::test]
async fn sdk_01_polling_never_raises_and_waiting_ends_as_the_job_does() {
    Rest::start().await.client("jobs.py");
}

#[tokio::test]
async fn mv_01_the_published_client_makes_reads_and_refreshes_materialized_views() {
    Rest::start().await.client("materialized.py");
}

/// What a client of the specification sends on the same routes, and what is refused.
#[tokio::test]
async fn mv_02_both_clients_of_materialized_views_are_told_apart() {
    let rest = Rest::start().await;
    let client = rest.gateway.connect().await;
    run(&client, "CREATE TABLE t (id BIGINT, \"Upper\" BIGINT); INSERT INTO t VALUES (1, 2), (2, 3)").await;
    let path = |action: &str| format!("/v1/materialized_view/v/{action}");
    let (status, body) = rest
        .post(&path("create"), json!({"id": ["v"], "kind": "query", "source_query": "SELECT `Upper` FROM t"}))
        .await;
    assert_eq!((status, &body["job_id"], body["version"].is_u64()), (200, &Value::Null, true), "{body}");
    let (status, body) = rest.post(&path("refresh"), json!({"src_version": null, "concurrency": 2})).await;
    assert_eq!(status, 202, "{body}");
    assert_eq!(body["context"]["warning"], json!("ignored: concurrency"));
    let job = body["job_id"].clone();
    let done = until("the job has ended", async || {
        let (_, job) = rest.post("/v1/jobs/describe", json!({"job_id": job})).await;
        (job["job_state"] == json!("DONE")).then_some(job)
    })
    .await;
    assert_eq!((&done["job_type"], &done["result"]["mode"]), (&json!("sql"), &json!("rebuild")), "{done}");
    for counter in ["rows_written", "source_version", "version"] {
        assert!(done["result"][counter].is_u64(), "{done}");
    }
    let (status, body) = rest.post(&path("describe"), json!({})).await;
    assert_eq!((status, &body["source_table"], &body["source_namespace"]), (200, &json!("t"), &json!([])), "{body}");
    assert_eq!(body["query"], json!("SELECT \"Upper\" FROM \"t\""));
    let incarnation = body["incarnation"].clone();
    for (bad, expected) in [
        (json!({"source_version": 1}), 400),
        (json!({"expected_incarnation": "another"}), 400),
        (json!({"expected_incarnation": incarnation}), 202),
    ] {
        let (status, body) = rest.post(&path("refresh"), bad.clone()).await;
        assert_eq!(status, expected, "{bad}: {body}");
    }
    for (bad, expected) in [
        (json!({}), 400),
        (json!({"query": "DELETE FROM t"}), 400),
        (json!({"query": "SELECT 1; DROP TABLE t"}), 400),
        (json!({"query": "SELECT nothing FROM t"}), 400),
        (json!({"kind": "udtf", "source_query": "SELECT id FROM t"}), 406),
    ] {
        let (status, body) = rest.post("/v1/materialized_view/w/create", bad.clone()).await;
        assert_eq!(status, expected, "{bad}: {body}");
    }
    assert_eq!(rest.get("/v1/namespace/$/materialized_view/list").await.1["views"], json!(["v"]));
    assert_eq!(rest.post("/v1/materialized_view/t/describe", json!({})).await.0, 400);
    assert_eq!(rest.post("/v1/materialized_view/nope/describe", json!({})).await.0, 404);
    assert_eq!(rest.post("/v1/table/v/insert", json!({})).await.0, 400);
    assert_eq!(rest.post(&path("drop"), json!({})).await, (200, json!({})));
    assert_eq!(rest.post(&path("drop"), json!({})).await.0, 404);
}

/// The remaining time follows from two samples of one attempt, and from nothing else.
#[tokio::test]
async fn sdk_01_two_samples_of_progress_tell_the_remaining_time() {
    let rest = Rest::start().await;
    let client = rest.gateway.connect().await;
    run(&client, "CREATE TABLE n AS SELECT x FROM generate_series(1, 600) AS s(x)").await;
    let source = "import time\ndef f(x):\n time.sleep(0.01)\n return x";
    run(&client, &format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{source}'")).await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x)").await;
    let (_, told) = rest.post("/v1/table/n/backfill_column", json!({"column": "y"})).await;
    let mut samples: Vec<(i64, i64, i64)> = Vec::new();
    let done = until("the job has ended", async || {
        let (status, job) = rest.post("/v1/jobs/describe", json!({"job_id": told["job_id"]})).await;
        assert_eq!(status, 200, "{job}");
        let progress = &job["progress"];
        let number = |name: &str| progress[name].as_i64();
        if let (Some(at), Some(computed), Some(planned)) =
            (number("sample_at_millis"), number("rows_computed"), number("rows_planned"))
            && samples.last().is_none_or(|last| last.0 != at)
        {
            samples.push((at, computed, planned));
        }
        (job["job_state"] == json!("DONE")).then_some(job)
    })
    .await;
    assert_eq!(done["result"]["rows_assigned"], json!(600));
    assert!(samples.len() >= 2, "two samples are needed to tell: {samples:?}");
    for pair in samples.windows(2) {
        let [(before, computed, planned), (at, more, still)] = pair else { unreachable!() };
        assert!(at > before && more >= computed && still == planned && more <= planned, "{samples:?}");
    }
    assert!(done.get("estimated_remaining_time").is_none(), "the server invents none: {done}");
}

#[tokio::test]
async fn gpu_classes_are_the_catalog_of_sql() {
    let rest =
        Rest::start_with("[[gpu_classes]]\nname = 'l4'\nresource_name = 'nvidia.com/gpu'\ncpu_millis = 4000\n").await;
    let (status, body) = rest.get("/v1/gpu/classes").await;
    assert_eq!(status, 200);
    let classes = body["classes"].as_array().unwrap();
    let l4 = classes.iter().find(|class| class["name"] == json!("l4")).unwrap();
    assert_eq!(l4["cpu_millis"], json!(4000));
    assert_eq!(l4["resource_name"], json!("nvidia.com/gpu"));
}
