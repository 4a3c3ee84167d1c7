//! Who a request comes from, and what he may do.

use reqwest::Method;
use serde_json::json;

use super::{Answer, Rest, api_key};
use crate::harness::PASSWORD;
use crate::rows::{error, rows};

async fn with(rest: &Rest, header: (&str, &str)) -> Answer {
    rest.send(rest.bare(Method::GET, "/v1/table/").header(header.0, header.1)).await
}

#[tokio::test]
async fn a_request_proves_who_it_is_from() {
    let rest = Rest::start().await;
    let (status, body) = rest.send(rest.bare(Method::GET, "/v1/table/")).await;
    assert_eq!((status, &body["code"]), (401, &json!(16)), "{body}");
    assert_eq!(with(&rest, ("x-api-key", &rest.key)).await.0, 200);
    assert_eq!(with(&rest, ("authorization", &format!("Bearer {}", rest.key))).await.0, 200);
    for wrong in ["", "lgk_wrong", &rest.key.to_uppercase(), "a b"] {
        assert_eq!(with(&rest, ("x-api-key", wrong)).await.0, 401, "{wrong:?}");
    }
    for wrong in ["Basic", "Basic bm9jb2xvbg==", "Basic !", "Digest x", "Bearer "] {
        assert_eq!(with(&rest, ("authorization", wrong)).await.0, 401, "{wrong}");
    }
    let basic = |user: &str, password: &str| rest.bare(Method::GET, "/v1/table/").basic_auth(user, Some(password));
    assert_eq!(rest.send(basic("lancegate", PASSWORD)).await.0, 200);
    let (status, body) = rest.send(basic("lancegate", "wrong")).await;
    assert_eq!(status, 401);
    let (_, unknown) = rest.send(basic("nobody", "wrong")).await;
    assert_eq!(body["error"], json!("password authentication failed for user \"lancegate\""));
    assert_eq!(unknown["error"], json!("password authentication failed for user \"nobody\""));
}

#[tokio::test]
async fn keys_end_with_their_time_their_user_and_when_they_are_dropped() {
    let rest = Rest::start().await;
    let client = rest.gateway.connect().await;
    client.batch_execute("CREATE USER alice PASSWORD 'a long password'").await.unwrap();
    let made = |name: &str, more: &str| format!("CREATE API KEY {name} FOR USER alice{more}");
    let past = client.query_one(&made("past", " VALID UNTIL '2020-01-01'"), &[]).await.unwrap();
    let good = client.query_one(&made("good", " VALID UNTIL '2999-01-01'"), &[]).await.unwrap();
    let (past, good): (String, String) = (past.get("key"), good.get("key"));
    assert_eq!(with(&rest, ("x-api-key", &past)).await.0, 401);
    assert_eq!(with(&rest, ("x-api-key", &good)).await.0, 200);
    assert!(error(&client, &made("good", "")).await.contains("42710"));
    let shown = rows(&client, "SHOW API KEYS").await.join("\n");
    assert!(shown.contains("good") && shown.contains("owner") && !shown.contains("lgk_"), "{shown}");
    client.batch_execute("DROP API KEY good").await.unwrap();
    assert_eq!(with(&rest, ("x-api-key", &good)).await.0, 401);
    assert!(error(&client, "DROP API KEY good").await.contains("42704"));
    client.batch_execute("DROP API KEY IF EXISTS good").await.unwrap();
    let gone: String = client.query_one(&made("gone", ""), &[]).await.unwrap().get("key");
    client.batch_execute("DROP USER alice").await.unwrap();
    assert_eq!(with(&rest, ("x-api-key", &gone)).await.0, 401);
    assert!(!rest.gateway.log().contains("lgk_"), "a key is in the log");
}

#[tokio::test]
async fn a_user_sees_and_makes_keys_of_his_own_only() {
    let rest = Rest::start().await;
    let client = rest.gateway.connect().await;
    client.batch_execute("CREATE USER alice PASSWORD 'a long password'").await.unwrap();
    client.batch_execute("GRANT USAGE ON DATABASE lancegate TO USER alice").await.unwrap();
    let alice = rest.gateway.connect_as("alice", "a long password").await.unwrap();
    let _: String = alice.query_one("CREATE API KEY mine", &[]).await.unwrap().get("key");
    assert!(error(&alice, "CREATE API KEY theirs FOR USER lancegate").await.contains("42501"));
    assert!(error(&alice, "DROP API KEY owner").await.contains("42704"));
    let shown = rows(&alice, "SHOW API KEYS").await;
    assert!(shown.len() == 1 && shown[0].contains("mine"), "{shown:?}");
    assert_eq!(rows(&client, "SHOW API KEYS").await.len(), 2);
}

#[tokio::test]
async fn grants_and_roles_are_told_and_changed_in_the_spelling_of_access_lists() {
    let rest = Rest::start().await;
    let client = rest.gateway.connect().await;
    client
        .batch_execute("CREATE SCHEMA \"a$b\"; CREATE TABLE \"a$b\".events (id bigint); CREATE USER alice PASSWORD 'a long password'")
        .await
        .unwrap();
    let entry = json!({"subject": "P:alice", "object": "table:lancegate:a$b$events", "privilege": "SELECT"});
    assert_eq!(rest.post("/admin/authz/acl/add", entry.clone()).await.0, 200);
    let on = json!({"object": "table:lancegate:a$b$events"});
    let (_, listed) = rest.post("/admin/authz/acl/list", on.clone()).await;
    let found: Vec<_> = listed["entries"].as_array().unwrap().iter().map(|entry| entry["subject_id"].clone()).collect();
    assert_eq!(found, [json!("p:alice"), json!("p:lancegate")], "{listed}");
    let (_, first) = rest.post("/admin/authz/acl/list", json!({"max_results": 1})).await;
    assert_eq!(first["entries"].as_array().unwrap().len(), 1);
    assert!(first["continuation_token"].is_string(), "{first}");
    assert_eq!(rest.post("/admin/authz/acl/delete", entry.clone()).await.0, 200);
    let (_, listed) = rest.post("/admin/authz/acl/list", on).await;
    assert_eq!(listed["entries"].as_array().unwrap().len(), 1, "{listed}");

    assert_eq!(
        rest.post("/admin/authz/role_binding/add", json!({"subject": "p:alice", "role": "r:readers"})).await.0,
        200
    );
    let (_, told) = rest.post("/admin/authz/principal", json!({"principal": "P:alice"})).await;
    assert_eq!((&told["principal_id"], &told["roles"]), (&json!("p:alice"), &json!(["r:readers"])), "{told}");
    let (_, bound) = rest.post("/admin/authz/role_binding/list", json!({})).await;
    assert_eq!(bound["bindings"].as_array().unwrap().len(), 1, "{bound}");
    assert_eq!(rest.post("/admin/authz/principal", json!({"principal": "p:nobody"})).await.0, 404);
    for bad in [
        json!({"subject": "x:alice", "object": "system", "privilege": "USAGE"}),
        json!({"subject": "P:alice", "object": "tables:x", "privilege": "USAGE"}),
        json!({"subject": "P:alice", "object": "system", "privilege": "FLY"}),
        json!({"subject": "P:alice", "object": "system", "privilege": "SELECT"}),
    ] {
        let (status, told) = rest.post("/admin/authz/acl/add", bad.clone()).await;
        assert_eq!(status, 400, "{bad}: {told}");
    }
    let key: String = client.query_one("CREATE API KEY a FOR USER alice", &[]).await.unwrap().get("key");
    let seen =
        rest.send(rest.bare(Method::POST, "/admin/authz/acl/list").header("x-api-key", &key).json(&json!({}))).await;
    assert_eq!(seen, (200, json!({"entries": [], "continuation_token": null})), "what is not his he does not see");
    for path in ["acl/add", "role_binding/add", "role_binding/list"] {
        let body = match path {
            "acl/add" => entry.clone(),
            "role_binding/add" => json!({"subject": "p:alice", "role": "r:admins"}),
            _ => json!({}),
        };
        let request = rest.bare(Method::POST, &format!("/admin/authz/{path}")).header("x-api-key", &key);
        let (status, told) = rest.send(request.json(&body)).await;
        assert_eq!(status, 403, "{path}: {told}");
    }
}

#[tokio::test]
async fn z01_requests_need_what_their_statements_need() {
    let rest = Rest::start().await;
    let client = rest.gateway.connect().await;
    client
        .batch_execute(
            "CREATE TABLE docs (id bigint); INSERT INTO docs VALUES (1);
             ALTER TABLE docs ADD COLUMN twice AS id * 2;
             CREATE USER alice PASSWORD 'a long password';
             GRANT USAGE ON DATABASE lancegate TO USER alice; GRANT USAGE ON SCHEMA public TO USER alice",
        )
        .await
        .unwrap();
    let key: String = client.query_one("CREATE API KEY a FOR USER alice", &[]).await.unwrap().get("key");
    let post = async |path: &str, body: serde_json::Value| {
        rest.send(rest.bare(Method::POST, path).header("x-api-key", &key).json(&body)).await
    };
    // Without SELECT, what is there and what is not look alike to him, but for the words of a closed object.
    for (path, body) in [
        ("/v1/table/docs/count_rows/", json!({})),
        ("/v1/table/docs/describe/", json!({})),
        ("/v1/table/docs/stats/", json!({})),
        ("/v1/table/docs/update/", json!({"updates": [["id", "2"]]})),
        ("/v1/table/docs/delete/", json!({"predicate": "true"})),
        ("/v1/table/docs/add_columns/", json!({"new_columns": [{"name": "c", "computed": "id"}]})),
        ("/v1/table/docs/drop_columns/", json!({"columns": ["twice"]})),
        ("/v1/table/docs/drop/", json!({})),
        ("/v1/table/docs/backfill_column", json!({"column": "twice"})),
        ("/v1/jobs/list", json!({})),
        ("/v1/namespace/n/create", json!({})),
        ("/v1/secret/s/create", json!({"value": "x"})),
        ("/v1/view/v/create", json!({"query": "SELECT 1 AS a"})),
    ] {
        let (status, answer) = post(path, body).await;
        assert_eq!((status, &answer["code"]), (403, &json!(15)), "{path}: {answer}");
    }
    client.batch_execute("GRANT SELECT ON TABLE docs TO USER alice").await.unwrap();
    assert_eq!(post("/v1/table/docs/count_rows/", json!({})).await, (200, json!(1)));
    assert_eq!(post("/v1/table/docs/delete/", json!({"predicate": "true"})).await.0, 403);
    // UPDATE without the registry: the handle of the job is not for him.
    client.batch_execute("GRANT UPDATE ON TABLE docs TO USER alice").await.unwrap();
    assert_eq!(post("/v1/table/docs/backfill_column", json!({"column": "twice"})).await.0, 403);
    assert!(rows(&client, "SHOW JOBS").await.is_empty(), "a refused request made a job");
    client.batch_execute("GRANT USAGE, OPERATE ON SYSTEM TO USER alice").await.unwrap();
    assert_eq!(post("/v1/table/docs/backfill_column", json!({"column": "twice"})).await.0, 202);
    assert_eq!(api_key(&rest.gateway, "another").await.len(), rest.key.len());
}
