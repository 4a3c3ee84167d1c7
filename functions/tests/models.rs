//! Model snapshots from a hub that the test starts, and what a confined worker sees of them.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use lancegate_functions::definition::{ArrowType, Parameter};
use lancegate_functions::limits::{FailureLimits, JobLimits};
use lancegate_functions::models::set_environment;
use lancegate_functions::redact::Redactor;
use lancegate_functions::sandbox::{Mode, Policy};
use lancegate_functions::{
    Definition, Environments, Executor, ExecutorError, Launch, Model, ModelError, Models, Options, Pool,
};
use serde_json::json;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const TOKEN: &str = "hf_secret";

/// A hub with one repository at one commit. Counts what it is asked for.
#[derive(Default)]
struct Hub {
    files: BTreeMap<&'static str, Vec<u8>>,
    /// Whether the listing says how large files are.
    sizes: bool,
    /// Whether it wants a token.
    private: bool,
    /// Whether it serves half of each file and then hangs up.
    broken: Mutex<bool>,
    downloads: AtomicUsize,
}

impl Hub {
    fn with(files: &[(&'static str, &[u8])]) -> Self {
        Self { files: files.iter().map(|(name, bytes)| (*name, bytes.to_vec())).collect(), ..Self::default() }
    }

    async fn serve(self) -> (String, Arc<Self>) {
        let hub = Arc::new(self);
        let router = Router::new()
            .route("/api/models/{owner}/{name}/revision/{revision}", get(listing))
            .route("/{owner}/{name}/resolve/{revision}/{*path}", get(file))
            .with_state(Arc::clone(&hub));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (address, hub)
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        !self.private || headers.get("authorization").is_some_and(|value| value == &format!("Bearer {TOKEN}"))
    }
}

async fn listing(
    State(hub): State<Arc<Hub>>,
    headers: HeaderMap,
    Path((_, name, revision)): Path<(String, String, String)>,
) -> Response {
    if !hub.admits(&headers) || revision != COMMIT {
        return StatusCode::NOT_FOUND.into_response();
    }
    let size = |bytes: &Vec<u8>| hub.sizes.then_some(bytes.len());
    let mut siblings: Vec<_> =
        hub.files.iter().map(|(name, bytes)| json!({"rfilename": name, "size": size(bytes)})).collect();
    if name == "hostile" {
        siblings.push(json!({"rfilename": "../../escaped"}));
    }
    let sha = if name == "moved" { COMMIT.replace('0', "1") } else { revision };
    Json(json!({"sha": sha, "siblings": siblings})).into_response()
}

async fn file(
    State(hub): State<Arc<Hub>>,
    headers: HeaderMap,
    Path((_, _, _, path)): Path<(String, String, String, String)>,
) -> Response {
    hub.downloads.fetch_add(1, Ordering::SeqCst);
    let Some(bytes) = hub.files.get(path.as_str()).filter(|_| hub.admits(&headers)) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if *hub.broken.lock().unwrap() {
        let half = bytes[..bytes.len() / 2].to_vec();
        let ends: [Result<Vec<u8>, std::io::Error>; 2] = [Ok(half), Err(std::io::Error::other("hung up"))];
        return axum::body::Body::from_stream(futures::stream::iter(ends)).into_response();
    }
    bytes.clone().into_response()
}

fn model(name: &str) -> Model {
    Model { repo: format!("owner/{name}"), revision: COMMIT.to_owned() }
}

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("lancegate-models-").tempdir_in("/var/tmp").unwrap()
}

#[tokio::test]
async fn hf_01_a_snapshot_is_fetched_once_whole_and_pinned() {
    let (address, hub) = Hub::with(&[("config.json", b"{}"), ("sub/weights.bin", &[7; 100_000])]).serve().await;
    let root = folder();
    let models = Models::new(root.path().to_owned(), &address, 1 << 20).unwrap();
    let wanted = [model("tiny")];
    let (one, other) = tokio::join!(models.prepare("db", &wanted, None), models.prepare("db", &wanted, None));
    let snapshots = one.unwrap();
    assert_eq!(snapshots, other.unwrap());
    assert_eq!(hub.downloads.load(Ordering::SeqCst), 2, "each file once");
    let path = &snapshots[0].path;
    assert_eq!(path, &root.path().join("db/models--owner--tiny").join(COMMIT));
    assert_eq!(std::fs::read_to_string(path.join("refs/main")).unwrap(), COMMIT);
    let files = path.join("snapshots").join(COMMIT);
    assert_eq!(std::fs::read(files.join("sub/weights.bin")).unwrap(), [7; 100_000]);
    let left: Vec<_> =
        std::fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [COMMIT], "nothing temporary is left");
    models.prepare("other", &wanted, None).await.unwrap();
    assert_eq!(hub.downloads.load(Ordering::SeqCst), 4, "another database has its own");
}

#[tokio::test]
async fn hf_01_a_broken_download_leaves_nothing_and_is_made_again() {
    let (address, hub) = Hub::with(&[("weights.bin", &[1; 4_096])]).serve().await;
    *hub.broken.lock().unwrap() = true;
    let root = folder();
    let models = Models::new(root.path().to_owned(), &address, 1 << 20).unwrap();
    let failed = models.prepare("db", &[model("tiny")], None).await.unwrap_err();
    assert!(matches!(&failed, ModelError::Hub { message, .. } if message.starts_with("weights.bin")), "{failed}");
    assert_eq!(std::fs::read_dir(root.path().join("db/models--owner--tiny")).unwrap().count(), 0);
    *hub.broken.lock().unwrap() = false;
    models.prepare("db", &[model("tiny")], None).await.unwrap();
}

#[tokio::test]
async fn hf_02_a_snapshot_over_the_limit_is_refused_whether_or_not_the_hub_says_its_size() {
    for sizes in [true, false] {
        let hub = Hub { sizes, ..Hub::with(&[("a.bin", &[0; 600]), ("b.bin", &[0; 600])]) };
        let (address, hub) = hub.serve().await;
        let root = folder();
        let models = Models::new(root.path().to_owned(), &address, 1_199).unwrap();
        let refused = models.prepare("db", &[model("tiny")], None).await.unwrap_err();
        assert!(matches!(refused, ModelError::TooLarge { allowed: 1_199, .. }), "{refused}");
        assert_eq!(hub.downloads.load(Ordering::SeqCst) == 0, sizes, "a size that is told needs no download");
        let models = Models::new(root.path().to_owned(), &address, 1_200).unwrap();
        models.prepare("db", &[model("tiny")], None).await.unwrap();
    }
}

#[tokio::test]
async fn hf_01_what_a_hub_must_not_say_is_refused() {
    let (address, hub) = Hub::with(&[("config.json", b"{}")]).serve().await;
    let root = folder();
    let models = Models::new(root.path().to_owned(), &address, 1 << 20).unwrap();
    for (name, part) in [("hostile", "outside of the snapshot"), ("moved", "another revision")] {
        let refused = models.prepare("db", &[model(name)], None).await.unwrap_err().to_string();
        assert!(refused.contains(part), "{refused}");
    }
    let unknown = Model { revision: "f".repeat(40), ..model("tiny") };
    let refused = models.prepare("db", &[unknown], None).await.unwrap_err().to_string();
    assert!(refused.contains("404"), "{refused}");
    assert_eq!(hub.downloads.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn hf_01_a_private_repository_wants_the_token_and_no_error_tells_it() {
    let (address, _hub) = Hub { private: true, ..Hub::with(&[("config.json", b"{}")]) }.serve().await;
    let root = folder();
    let models = Models::new(root.path().to_owned(), &address, 1 << 20).unwrap();
    let refused = models.prepare("db", &[model("tiny")], Some("hf_wrong")).await.unwrap_err();
    assert!(!refused.to_string().contains("hf_wrong"), "{refused}");
    models.prepare("db", &[model("tiny")], Some(TOKEN)).await.unwrap();
}

#[test]
fn an_endpoint_is_an_address_of_http() {
    for bad in ["", "hub", "file:///etc", "data:text/plain,x"] {
        assert!(Models::new(PathBuf::from("/nowhere"), bad, 1).is_err(), "{bad}");
    }
}

/// Runs `source` with a model in a confined worker.
async fn run(snapshots: Vec<lancegate_functions::models::Snapshot>, source: &str) -> Result<String, ExecutorError> {
    let parameter = Parameter { name: "x".into(), arrow_type: ArrowType(DataType::Int64), nullable: true };
    let definition = Arc::new(Definition {
        env: BTreeMap::from([("HF_HUB_OFFLINE".into(), "0".into())]),
        models: vec![model("tiny")],
        ..Definition::new(vec![parameter], ArrowType(DataType::Utf8), source.into(), "f".into())
    });
    let base = std::env::var("LANCEGATE_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let python = Environments::new(std::env::temp_dir(), PathBuf::from(base)).prepare(&definition).await.unwrap();
    let mut environment = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    environment.extend(definition.env.clone());
    set_environment(&mut environment, &definition.models);
    let mut readable = python.readable;
    readable.extend(snapshots.iter().map(|snapshot| snapshot.path.clone()));
    let launch = Launch {
        program: PathBuf::from(env!("CARGO_BIN_EXE_lancegate-worker")),
        prefix: vec![],
        python: python.executable,
        environment,
        initialization: None,
        models: snapshots,
        devices: vec![],
        policy: Policy { mode: Mode::Require, readable, ..Policy::default() },
        redactor: Redactor::default(),
    };
    let limits = JobLimits::new(FailureLimits::default());
    let pool = Pool::new(1, Duration::from_secs(60));
    let options = Options { row_timeout: Duration::from_secs(60), ..Options::default() };
    let mut executor =
        Executor::new(pool, "one".into(), Arc::new(launch), definition, options, &limits, Arc::default());
    let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![1]))]).unwrap();
    let evaluated = executor.evaluate(&batch).await?;
    Ok(evaluated.values.as_string::<i32>().value(0).to_owned())
}

#[tokio::test]
async fn hf_01_hf_02_a_worker_loads_its_model_by_name_offline_and_cannot_change_it() {
    let (address, _hub) = Hub::with(&[("config.json", b"{\"dim\": 3}")]).serve().await;
    let root = folder();
    let models = Models::new(root.path().to_owned(), &address, 1 << 20).unwrap();
    let snapshots = models.prepare("db", &[model("tiny")], None).await.unwrap();
    let source = "
import os
from huggingface_hub import hf_hub_download, snapshot_download
class f:
    def __init__(self):
        self.file = hf_hub_download('owner/tiny', 'config.json')
        self.folder = snapshot_download('owner/tiny')
    def __call__(self, x):
        try:
            open(self.file, 'a')
            writable = 'writable'
        except OSError:
            writable = 'read-only'
        offline = os.environ['HF_HUB_OFFLINE'] + os.environ['TRANSFORMERS_OFFLINE']
        return '|'.join([open(self.file).read(), os.path.basename(self.folder), offline, writable])
";
    let seen = run(snapshots, source).await.unwrap();
    assert_eq!(seen, format!("{{\"dim\": 3}}|{COMMIT}|11|read-only"));
}
