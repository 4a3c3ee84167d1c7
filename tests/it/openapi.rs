//! The document of the REST API: it has the routes that there are, and what they read and
//! answer is what it says.

use serde_json::{Value, json};

use crate::rest::Rest;
use crate::rows::run;

mod schema;

use schema::Schemas;

/// What a route is asked and what it must answer.
struct Asked {
    method: &'static str,
    /// As in the document.
    path: &'static str,
    /// What stands for the names in the path.
    names: &'static [&'static str],
    body: Value,
}

fn post(path: &'static str, names: &'static [&'static str], body: Value) -> Asked {
    Asked { method: "post", path, names, body }
}

fn get(path: &'static str, names: &'static [&'static str]) -> Asked {
    Asked { method: "get", path, names, body: Value::Null }
}

impl Asked {
    fn url(&self) -> String {
        let mut names = self.names.iter();
        let parts = self.path.split('/').map(|part| if part.starts_with('{') { names.next().unwrap() } else { part });
        parts.collect::<Vec<_>>().join("/")
    }
}

async fn document(rest: &Rest) -> Value {
    let (status, document) = rest.send(rest.bare(reqwest::Method::GET, "/v1/openapi.json")).await;
    assert_eq!(status, 200);
    document
}

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of_path = |(path, methods): (&String, &Value)| {
        let methods = methods.as_object().unwrap().clone();
        let path = path.clone();
        methods.into_iter().map(move |(method, operation)| (method, path.clone(), operation))
    };
    paths.iter().flat_map(of_path).collect()
}

/// A route of the document that needs credentials is there: it asks for them. What is not
/// in the document is not there.
#[tokio::test]
async fn rest_01_every_route_of_the_document_is_answered_and_no_other() {
    let rest = Rest::start().await;
    let document = document(&rest).await;
    assert_eq!(document["openapi"], json!("3.1.0"));
    let operations = operations(&document);
    assert!(operations.len() > 80, "{}", operations.len());
    let mut ids = std::collections::BTreeSet::new();
    for (method, path, operation) in &operations {
        assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{path}: the id is there twice");
        assert!(!operation["summary"].as_str().unwrap().is_empty());
        let url = path.replace("{id}", "x").replace("{index}", "x");
        let verb: reqwest::Method = method.to_uppercase().parse().unwrap();
        let open = operation["security"] == json!([]);
        let slashes: &[&str] = if open { &[""] } else { &["", "/"] };
        for slash in slashes {
            let (status, body) = rest.send(rest.bare(verb.clone(), &format!("{url}{slash}"))).await;
            assert_eq!(status, if open { 200 } else { 401 }, "{method} {path}{slash}: {body}");
        }
        for other in [reqwest::Method::DELETE, reqwest::Method::PUT, reqwest::Method::PATCH] {
            assert_eq!(rest.send(rest.bare(other, &url)).await.0, 405, "{path}");
        }
        let named = operation["parameters"].as_array().unwrap().iter().filter(|one| one["in"] == json!("path"));
        assert_eq!(named.count(), path.matches('{').count(), "{path}");
    }
}

#[tokio::test]
async fn rest_01_every_example_is_what_its_schema_says() {
    let rest = Rest::start().await;
    let document = document(&rest).await;
    let schemas = Schemas::of(&document);
    let (mut bodies, mut refused, mut open) = (0, 0, Vec::new());
    for (method, path, operation) in operations(&document) {
        let content = &operation["requestBody"]["content"]["application/json"];
        if content.is_null() {
            continue;
        }
        schemas.check(&content["schema"], &content["example"]).unwrap_or_else(|why| panic!("{method} {path}: {why}"));
        bodies += 1;
        // A field that nobody knows is refused where the schema says so.
        let mut more = content["example"].clone();
        more["no_such_field"] = json!(1);
        if schemas.check(&content["schema"], &more).is_err() {
            let url = path.replace("{id}", "x").replace("{index}", "x");
            let (status, body) = rest.post(&url, more).await;
            assert_eq!(status, 400, "{path}: {body}");
            assert!(body["error"].as_str().is_some_and(|why| why.contains("no_such_field")), "{path}: {body}");
            refused += 1;
        } else {
            open.push(path);
        }
    }
    // LanceDB's clients send fields that mean nothing here: of searches, of indexes, of refreshes.
    open.sort_unstable();
    assert_eq!(
        open,
        [
            "/v1/function/{id}/create",
            "/v1/materialized_view/{id}/refresh",
            "/v1/table/{id}/analyze_plan",
            "/v1/table/{id}/backfill_column",
            "/v1/table/{id}/create_index",
            "/v1/table/{id}/create_scalar_index",
            "/v1/table/{id}/query",
        ]
    );
    assert_eq!(refused + open.len(), bodies);
    assert!(bodies > 40, "{bodies}");
}

/// One of each: what they answer is what the document says.
#[tokio::test]
async fn rest_01_answers_have_the_shape_that_the_document_says() {
    let rest = Rest::start().await;
    let client = rest.gateway.connect().await;
    run(&client, "CREATE TABLE t AS SELECT x FROM generate_series(1, 300) AS s(x)").await;
    run(&client, "ALTER TABLE t ADD COLUMN y AS x * 2; CREATE USER alice PASSWORD 'a long password'").await;
    let source = "def f(x):\n return x";
    run(&client, &format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{source}'")).await;
    let document = document(&rest).await;
    let schemas = Schemas::of(&document);
    let told = |asked: &Asked, status: u16, answer: &Value| {
        let responses = &document["paths"][asked.path][asked.method]["responses"];
        let exact = &responses[status.to_string()];
        let response = if exact.is_null() { &responses[format!("{}XX", status / 100)] } else { exact };
        assert!(!response.is_null(), "{}: status {status} is not in the document: {answer}", asked.path);
        let schema = &response["content"]["application/json"]["schema"];
        assert!(!schema.is_null(), "{}: {status} is no JSON: {answer}", asked.path);
        schemas.check_answer(schema, answer).unwrap_or_else(|why| panic!("{}: {why}: {answer}", asked.path));
    };
    let mut job = Value::Null;
    for asked in every_route() {
        let mut body = asked.body.clone();
        if body["job_id"] == json!("the last one") {
            body["job_id"] = job.clone();
        }
        let request = match asked.method {
            "get" => rest.request(reqwest::Method::GET, &asked.url()),
            _ => rest.request(reqwest::Method::POST, &asked.url()).json(&body),
        };
        let (status, answer) = rest.send(request).await;
        assert!(status < 300, "{} {}: {status} {answer}", asked.method, asked.url());
        told(&asked, status, &answer);
        if answer["job_id"].is_string() && asked.path.ends_with("backfill_column") {
            job = answer["job_id"].clone();
            crate::harness::until("the job has ended", async || {
                let (_, told) = rest.post("/v1/jobs/describe", json!({ "job_id": job })).await;
                (told["job_state"] != json!("IN_PROGRESS")).then_some(())
            })
            .await;
        }
    }
    // Errors have one shape.
    let missing = post("/v1/table/{id}/describe", &["missing"], json!({}));
    let (status, answer) = rest.post(&missing.url(), json!({})).await;
    told(&missing, status, &answer);
}

fn every_route() -> Vec<Asked> {
    let grant = json!({ "subject": "P:alice", "object": "table:lancegate:public$t", "privilege": "SELECT" });
    let role = json!({ "subject": "P:alice", "role": "r:reader" });
    let none = || json!({});
    vec![
        get("/healthz", &[]),
        get("/readyz", &[]),
        get("/v1/table", &[]),
        get("/v1/namespace/{id}/table/list", &["$"]),
        get("/v1/namespace/{id}/list", &["$"]),
        post("/v1/namespace/{id}/create", &["ns"], json!({ "properties": { "a": "b" } })),
        post("/v1/namespace/{id}/describe", &["ns"], none()),
        post("/v1/namespace/{id}/exists", &["ns"], none()),
        post("/v1/namespace/{id}/drop", &["ns"], none()),
        post("/v1/table/{id}/describe", &["t"], none()),
        post("/v1/table/{id}/exists", &["t"], none()),
        post("/v1/table/{id}/stats", &["t"], none()),
        post("/v1/table/{id}/count_rows", &["t"], json!({ "predicate": "x > 1" })),
        post("/v1/table/{id}/explain_plan", &["t"], json!({ "query": { "k": 3 } })),
        post("/v1/table/{id}/analyze_plan", &["t"], json!({ "k": 3 })),
        post("/v1/table/{id}/update", &["t"], json!({ "updates": [["x", "x + 1"]], "predicate": "x > 290" })),
        post("/v1/table/{id}/delete", &["t"], json!({ "predicate": "x > 295" })),
        post("/v1/table/{id}/backfill_column", &["t"], json!({ "column": "y", "task_size": 5 })),
        post("/v1/jobs/list", &[], none()),
        post("/v1/jobs/describe", &[], json!({ "job_id": "the last one" })),
        post("/v1/jobs/cancel", &[], json!({ "job_id": "the last one" })),
        post("/v1/table/{id}/errors", &["t"], none()),
        post("/v1/table/{id}/add_columns", &["t"], json!({ "new_columns": [{ "name": "z", "expression": "x" }] })),
        post("/v1/table/{id}/alter_columns", &["t"], json!({ "alterations": [{ "path": "z", "rename": "w" }] })),
        post(
            "/v1/table/{id}/update_field_metadata",
            &["t"],
            json!({ "updates": [{ "path": "w", "metadata": { "unit": "m" } }] }),
        ),
        post("/v1/table/{id}/drop_columns", &["t"], json!({ "columns": ["w"] })),
        post("/v1/table/{id}/create_index", &["t"], json!({ "column": "x", "index_type": "BTREE", "name": "i" })),
        post("/v1/table/{id}/index/list", &["t"], none()),
        post("/v1/table/{id}/index/{index}/stats", &["t", "i"], none()),
        post("/v1/table/{id}/index/{index}/prewarm", &["t", "i"], none()),
        post("/v1/table/{id}/page_cache/prewarm", &["t"], none()),
        post("/v1/table/{id}/index/{index}/drop", &["t", "i"], none()),
        post("/v1/table/{id}/create_scalar_index", &["t"], json!({ "column": "x", "index_type": "BITMAP" })),
        post("/v1/table/{id}/version/list", &["t"], json!({ "limit": 2, "descending": true })),
        post("/v1/table/{id}/tags/create", &["t"], json!({ "tag": "good", "version": 1 })),
        post("/v1/table/{id}/tags/update", &["t"], json!({ "tag": "good", "version": 2 })),
        post("/v1/table/{id}/tags/version", &["t"], json!({ "tag": "good" })),
        post("/v1/table/{id}/tags/list", &["t"], none()),
        post("/v1/table/{id}/tags/delete", &["t"], json!({ "tag": "good" })),
        post("/v1/table/{id}/branches/create", &["t"], json!({ "name": "try" })),
        post("/v1/table/{id}/branches/list", &["t"], none()),
        post("/v1/table/{id}/branches/delete", &["t"], json!({ "name": "try" })),
        post("/v1/table/{id}/restore", &["t"], json!({ "version": 1 })),
        post("/v1/table/{id}/get_lsm_stats", &["t"], none()),
        post("/v1/view/{id}/create", &["v"], json!({ "query": "SELECT x FROM t" })),
        post("/v1/view/{id}/describe", &["v"], none()),
        get("/v1/namespace/{id}/view/list", &["$"]),
        post("/v1/view/{id}/drop", &["v"], none()),
        post("/v1/materialized_view/{id}/create", &["m"], json!({ "query": "SELECT x FROM t", "with_no_data": true })),
        post("/v1/materialized_view/{id}/describe", &["m"], none()),
        get("/v1/namespace/{id}/materialized_view/list", &["$"]),
        post("/v1/materialized_view/{id}/refresh", &["m"], json!({ "full": true })),
        post("/v1/function/{id}/describe", &["f"], json!({ "version": "1" })),
        get("/v1/namespace/{id}/function/list", &["$"]),
        post("/v1/function/{id}/drop", &["f"], json!({ "version": "1" })),
        post("/v1/secret/{id}/create", &["s"], json!({ "value": "x" })),
        post("/v1/secret/{id}/alter", &["s"], json!({ "value": "y" })),
        post("/v1/secret/{id}/describe", &["s"], none()),
        get("/v1/namespace/{id}/secret/list", &["$"]),
        post("/v1/secret/{id}/drop", &["s"], none()),
        post("/admin/authz/acl/add", &[], grant.clone()),
        post("/admin/authz/acl/list", &[], none()),
        post("/admin/authz/acl/delete", &[], grant),
        post("/admin/authz/role_binding/add", &[], role.clone()),
        post("/admin/authz/role_binding/list", &[], none()),
        post("/admin/authz/principal", &[], json!({ "principal": "P:alice" })),
        post("/admin/authz/role_binding/delete", &[], role),
        get("/v1/gpu/classes", &[]),
        post("/v1/table/{id}/rename", &["t"], json!({ "new_table_name": "u" })),
        post("/v1/table/{id}/drop", &["u"], none()),
    ]
}
