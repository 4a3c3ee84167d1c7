//! Functions that declare model snapshots, fetched from a hub that the test starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use tokio_postgres::Client;

use super::config;
use crate::harness::Gateway;
use crate::rows::{error, rows, run};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const WEIGHTS: &str = "[2, 3]";
/// Loads its model by name, as sentence-transformers and transformers do.
const SOURCE: &str = "
import json
from huggingface_hub import hf_hub_download
class f:
    def __init__(self):
        self.factor, self.offset = json.load(open(hf_hub_download(''owner/tiny'', ''weights.json'')))
    def __call__(self, x):
        return self.factor * x + self.offset
";

/// A hub with one file in every repository. Returns its address and the count of downloads.
async fn hub() -> (String, Arc<AtomicUsize>) {
    async fn listing(Path((_, _, revision)): Path<(String, String, String)>) -> Response {
        match revision == COMMIT {
            true => Json(json!({"sha": COMMIT, "siblings": [{"rfilename": "weights.json"}]})).into_response(),
            false => StatusCode::NOT_FOUND.into_response(),
        }
    }
    async fn file(
        State(downloads): State<Arc<AtomicUsize>>,
        Path((_, name, ..)): Path<(String, String, String, String)>,
    ) -> String {
        downloads.fetch_add(1, Ordering::SeqCst);
        if name == "large" { " ".repeat(2_048) } else { WEIGHTS.to_owned() }
    }
    let downloads = Arc::<AtomicUsize>::default();
    let router = Router::new()
        .route("/api/models/{owner}/{name}/revision/{revision}", get(listing))
        .route("/{owner}/{name}/resolve/{revision}/{*path}", get(file))
        .with_state(Arc::clone(&downloads));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, downloads)
}

/// Outside of `/tmp`, which workers do not see.
fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("lancegate-models-").tempdir_in("/var/tmp").unwrap()
}

async fn numbers(hub: &str, folder: &std::path::Path, more: &str) -> (Gateway, Client) {
    let keys = format!("models = \"{}\"\nmodel_endpoint = \"{hub}\"\n{more}", folder.display());
    let gateway = Gateway::start_with(&config(&keys));
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n VALUES (1), (10)").await;
    (gateway, client)
}

fn create(repo: &str, revision: &str) -> String {
    format!(
        "CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{SOURCE}'
         WITH (models = '[{{\"repo\": \"{repo}\", \"revision\": \"{revision}\"}}]')"
    )
}

#[tokio::test]
async fn hf_01_a_function_loads_its_pinned_model_by_name_and_the_snapshot_is_fetched_once() {
    let (address, downloads) = hub().await;
    let folder = folder();
    let (_gateway, client) = numbers(&address, folder.path(), "").await;
    run(&client, &create("owner/tiny", COMMIT)).await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x); ALTER TABLE n ADD COLUMN z AS f(x)").await;
    run(&client, "REFRESH COLUMN y ON n WAIT; REFRESH COLUMN z ON n WAIT").await;
    assert_eq!(rows(&client, "SELECT y, z FROM n ORDER BY x").await, ["5|5", "23|23"]);
    assert_eq!(downloads.load(Ordering::SeqCst), 1);
    let snapshot = format!("lancegate/models--owner--tiny/{COMMIT}/snapshots/{COMMIT}/weights.json");
    assert_eq!(std::fs::read_to_string(folder.path().join(snapshot)).unwrap(), WEIGHTS);
}

#[tokio::test]
async fn hf_01_a_revision_that_is_no_full_commit_is_refused_before_there_is_a_function() {
    let (address, _) = hub().await;
    let folder = folder();
    let (_gateway, client) = numbers(&address, folder.path(), "").await;
    for (repo, revision) in [("owner/tiny", "main"), ("../x", COMMIT)] {
        let refused = error(&client, &create(repo, revision)).await;
        assert!(refused.starts_with("22023") && refused.contains("models"), "{refused}");
    }
    assert!(rows(&client, "SHOW FUNCTIONS").await.is_empty());
}

#[tokio::test]
async fn hf_02_a_snapshot_that_is_too_large_or_missing_fails_the_job_before_user_code_even_under_skip() {
    let (address, _) = hub().await;
    let folder = folder();
    let (_gateway, client) = numbers(&address, folder.path(), "model_bytes = \"1KiB\"\n").await;
    let missing = COMMIT.replace('0', "1");
    for (column, repo, revision, part) in
        [("y", "owner/tiny", missing.as_str(), "404"), ("z", "owner/large", COMMIT, "larger than 1024 bytes")]
    {
        run(&client, &create(repo, revision)).await;
        run(&client, &format!("ALTER TABLE n ADD COLUMN {column} AS f(x)")).await;
        let refresh = format!("REFRESH COLUMN {column} ON n WITH (error_policy = 'skip') WAIT");
        let failed = error(&client, &refresh).await;
        assert!(failed.contains(repo) && failed.contains(part), "{failed}");
        assert_eq!(rows(&client, &format!("SELECT count({column}) FROM n")).await, ["0"]);
    }
}
