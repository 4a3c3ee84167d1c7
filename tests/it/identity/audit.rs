//! What is recorded, and what never is.

use serde_json::{Value, json};

use super::rules::told;
use super::{Files, key, records};
use crate::harness::{Gateway, PASSWORD, until};
use crate::rows::{describe, error, run};
use crate::wire::raw::{Raw, gssenc_request};

/// What must be found nowhere, in any of the ways in that it takes.
const CANARY: &str = "canary-7f3a91";

fn gateway(files: &Files, more: &str) -> Gateway {
    Gateway::start_with(&format!("[audit]\n{}{more}", key("file", &files.path("audit.jsonl"))))
}

/// Returns the records of an event, each as the fields that are named.
fn of(files: &Files, event: &str, fields: &[&str]) -> Vec<Value> {
    let records = records(&files.path("audit.jsonl"));
    let chosen = records.iter().filter(|record| record["event"] == event);
    chosen.map(|record| fields.iter().map(|field| record[*field].clone()).collect()).collect()
}

#[tokio::test]
async fn t36_logins_decisions_and_administration_have_a_record_each() {
    let files = Files::new();
    let gateway = gateway(&files, "");
    let admin = gateway.connect().await;
    run(&admin, "CREATE TABLE docs (id BIGINT)").await;
    run(&admin, "CREATE USER ann PASSWORD 'a long one'; GRANT USAGE ON DATABASE lancegate TO USER ann").await;
    run(&admin, "GRANT USAGE ON SCHEMA public TO USER ann; GRANT SELECT ON TABLE docs TO USER ann").await;
    let ann = gateway.connect_as("ann", "a long one").await.unwrap();
    run(&ann, "SELECT * FROM docs").await;
    let prepared = ann.prepare("SELECT id FROM docs").await.unwrap();
    ann.query(&prepared, &[]).await.unwrap();
    assert!(error(&ann, "INSERT INTO docs VALUES (1)").await.starts_with("42501"));
    assert!(error(&ann, "CREATE USER bob").await.starts_with("42501"));
    assert!(error(&admin, "CREATE USER ann").await.starts_with("42710"));
    run(&admin, "REVOKE SELECT ON TABLE docs FROM USER ann; GRANT ROLE readers TO USER ann").await;
    assert!(ann.query(&prepared, &[]).await.is_err());
    run(&admin, "CREATE API KEY k FOR USER ann; DROP API KEY k; ALTER USER ann CONNECTION LIMIT 5; DROP USER ann")
        .await;
    assert!(told(&gateway, "ann", "a long one", "lancegate").await.starts_with("28P01"));
    assert!(told(&gateway, "lancegate", PASSWORD, "missing").await.starts_with("3D000"));

    let logins = of(&files, "authentication", &["outcome", "user", "database", "method", "tls", "code"]);
    assert_eq!(
        logins,
        [
            json!(["ok", "lancegate", "lancegate", "scram-sha-256", false, null]),
            json!(["ok", "ann", "lancegate", "scram-sha-256", false, null]),
            json!(["failed", "ann", "lancegate", "scram-sha-256", false, "28P01"]),
            json!(["failed", "lancegate", "missing", "scram-sha-256", false, "3D000"]),
        ]
    );
    let statements = of(&files, "statement", &["outcome", "user", "command", "needs", "code"]);
    let select = |held: bool| json!([{"privilege": "SELECT", "object": "table:lancegate:public$docs", "held": held}]);
    assert!(statements.contains(&json!(["allowed", "ann", "SELECT", select(true), null])), "{statements:#?}");
    assert!(statements.contains(&json!(["denied", "ann", "SELECT", select(false), "42501"])), "{statements:#?}");
    let insert = json!([{"privilege": "INSERT", "object": "table:lancegate:public$docs", "held": false}]);
    assert!(statements.contains(&json!(["denied", "ann", "INSERT", insert, "42501"])), "{statements:#?}");
    let operate = json!([{"privilege": "OPERATE", "object": "system", "held": false}]);
    assert!(statements.contains(&json!(["denied", "ann", "CREATE ROLE", operate, "42501"])), "{statements:#?}");
    let administered = of(&files, "administration", &["outcome", "user", "command", "changes", "code"]);
    for expected in [
        json!(["done", "lancegate", "CREATE ROLE", ["user ann"], null]),
        json!(["failed", "lancegate", "CREATE ROLE", ["user ann"], "42710"]),
        json!(["done", "lancegate", "GRANT", ["SELECT on table:lancegate:public$docs to P:ann"], null]),
        json!(["done", "lancegate", "REVOKE", ["SELECT on table:lancegate:public$docs from P:ann"], null]),
        json!(["done", "lancegate", "GRANT ROLE", ["role readers to user ann"], null]),
        json!(["done", "lancegate", "CREATE API KEY", ["key k of user ann"], null]),
        json!(["done", "lancegate", "DROP API KEY", ["key k"], null]),
        json!(["done", "lancegate", "ALTER ROLE", ["user ann"], null]),
        json!(["done", "lancegate", "DROP ROLE", ["user ann"], null]),
    ] {
        assert!(administered.contains(&expected), "{expected} is not in {administered:#?}");
    }
    let all = records(&files.path("audit.jsonl"));
    assert!(all.iter().all(|record| record["at"].as_str().is_some_and(|at| at.ends_with('Z'))));
    let sessions: Vec<&Value> =
        all.iter().filter(|record| record["event"] == "statement").map(|r| &r["session"]).collect();
    assert!(sessions.iter().all(|session| session.is_i64()), "{sessions:?}");
}

#[tokio::test]
async fn p01_a_broken_start_has_a_record() {
    let files = Files::new();
    let gateway = gateway(&files, "");
    let mut raw = Raw::open(gateway.pg_addr()).await;
    raw.send(&gssenc_request()).await;
    use tokio::io::AsyncReadExt as _;
    assert_eq!(raw.stream.read_u8().await.unwrap(), b'N');
    raw.send(&gssenc_request()).await;
    raw.expect_fatal("08P01").await;
    let recorded = async || {
        let found = of(&files, "authentication", &["outcome", "user", "code"]);
        (found == [json!(["failed", null, "08P01"])]).then_some(())
    };
    until("the record", recorded).await;
}

#[tokio::test]
async fn s05_a11_secrets_are_in_no_record_no_log_and_no_answer() {
    let files = Files::new();
    let config = format!("[audit]\n{}[log]\nlevel = 'trace,h2=info'\n", key("file", &files.path("audit.jsonl")));
    let gateway = Gateway::start_with(&config);
    let admin = gateway.connect().await;
    let password = format!("{CANARY} password");
    let statements = [
        format!("CREATE USER ann PASSWORD '{password}'"),
        format!("ALTER USER ann PASSWORD '{password} again'"),
        format!("CREATE USER ann PASSWORD '{password}'"),
        format!("CREATE USER bob PASSWORD '{password}' NONSENSE"),
        format!("ALTER USER nobody PASSWORD '{password}'"),
        format!("CREATE SECRET token SECRET_STRING = '{CANARY}'"),
        format!("ALTER SECRET token SECRET_STRING = '{CANARY} again'"),
        format!("CREATE SECRET token SECRET_STRING = '{CANARY}'"),
        format!("ALTER SECRET missing SECRET_STRING = '{CANARY}'"),
        format!("CREATE SECRET nowhere.token SECRET_STRING = '{CANARY}'"),
        format!("PREPARE p AS CREATE USER eve PASSWORD '{password}'"),
        format!("EXPLAIN CREATE SECRET s SECRET_STRING = '{CANARY}'"),
        "DESCRIBE SECRET token".to_owned(),
        "SHOW SECRETS".to_owned(),
        "SHOW USERS".to_owned(),
        "SHOW ALL".to_owned(),
        "SELECT * FROM pg_catalog.pg_roles".to_owned(),
        "SELECT * FROM pg_catalog.pg_authid".to_owned(),
        "SELECT * FROM pg_catalog.pg_shadow".to_owned(),
        "SELECT * FROM pg_catalog.pg_stat_activity".to_owned(),
    ];
    let mut told = String::new();
    for statement in &statements {
        match admin.simple_query(statement).await {
            Ok(messages) => told.push_str(&format!("{messages:?}")),
            // A syntax error repeats the text that the client has sent, to the client alone.
            Err(error) if describe(&error).starts_with("42601") => {}
            Err(error) => told.push_str(&format!("{error:?}")),
        }
        let _ = admin.prepare(statement).await;
    }
    let value = format!("{CANARY} parameter");
    let _ = admin.execute("ALTER SECRET token SECRET_STRING = $1", &[&value]).await;
    let key: String = admin.query_one("CREATE API KEY k", &[]).await.unwrap().get("key");
    for (user, password) in [("ann", CANARY), ("nobody", CANARY)] {
        told.push_str(&super::rules::told(&gateway, user, password, "lancegate").await);
    }
    let request = reqwest::Client::new().get(gateway.http_url("/v1/table/"));
    let wrong = request.try_clone().unwrap().basic_auth("lancegate", Some(CANARY)).send().await.unwrap();
    told.push_str(&wrong.text().await.unwrap());
    let wrong = request.try_clone().unwrap().bearer_auth(format!("{CANARY}.{CANARY}.{CANARY}")).send().await.unwrap();
    told.push_str(&wrong.text().await.unwrap());
    assert!(request.header("x-api-key", &key).send().await.unwrap().status().is_success());
    let audit = std::fs::read_to_string(files.path("audit.jsonl")).unwrap();
    assert!(audit.contains("CREATE SECRET") && audit.contains("secret:lancegate:public$token"), "{audit}");
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(CANARY);
    for (sink, text) in [("log", gateway.log()), ("audit record", audit), ("answers", told)] {
        for canary in [CANARY, &encoded, "SCRAM-SHA-256$", &key] {
            let at = text.find(canary).map(|at| &text[at.saturating_sub(200)..(at + 100).min(text.len())]);
            assert!(at.is_none(), "{canary} is in the {sink}: {at:?}");
        }
    }
}

#[tokio::test]
async fn z09_what_cannot_be_recorded_is_refused_until_it_can_be() {
    let files = Files::new();
    let (good, path) = (files.path("good.jsonl"), files.path("audit.jsonl"));
    std::os::unix::fs::symlink(&good, &path).unwrap();
    let gateway = gateway(&files, "");
    let admin = gateway.connect().await;
    run(&admin, "CREATE TABLE docs (id BIGINT); CREATE USER ann PASSWORD 'a long one'").await;
    let turn = |to: &str| {
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(to, &path).unwrap();
        gateway.signal("HUP");
    };
    turn("/dev/full");
    let refused = async || {
        let answer = admin.simple_query("SELECT * FROM docs").await;
        answer
            .err()
            .map(|error| describe(&error))
            .filter(|said| said.starts_with("58030: could not write the audit record"))
    };
    until("the refusal", refused).await;
    assert!(error(&admin, "DROP TABLE docs").await.starts_with("58030"));
    assert!(error(&admin, "GRANT ROLE r TO USER ann").await.starts_with("58030"));
    assert!(told(&gateway, "lancegate", PASSWORD, "lancegate").await.starts_with("58030"));
    // What needs no privilege has no record.
    assert!(admin.simple_query("SELECT 1").await.is_ok());
    assert!(gateway.log().contains("the audit record cannot be written"));
    turn(good.to_str().unwrap());
    let again = async || admin.simple_query("SELECT * FROM docs").await.ok().map(drop);
    until("the record", again).await;
    assert_eq!(told(&gateway, "lancegate", PASSWORD, "lancegate").await, "in");
    assert!(crate::rows::rows(&admin, "SHOW ROLES").await.is_empty(), "a refused grant was made");
}

#[tokio::test]
async fn records_can_be_fewer_and_failures_a_warning() {
    let files = Files::new();
    let gateway = gateway(&files, "statements = 'changes'\non_failure = 'warn'\n");
    let admin = gateway.connect().await;
    run(&admin, "CREATE TABLE docs (id BIGINT); SELECT * FROM docs; CREATE USER ann PASSWORD 'a long one'").await;
    run(&admin, "GRANT USAGE ON DATABASE lancegate TO USER ann").await;
    let ann = gateway.connect_as("ann", "a long one").await.unwrap();
    assert!(error(&ann, "SELECT * FROM docs").await.starts_with("42"));
    let statements = of(&files, "statement", &["outcome", "command"]);
    assert_eq!(
        statements,
        [
            json!(["allowed", "CREATE TABLE"]),
            json!(["allowed", "CREATE ROLE"]),
            json!(["allowed", "GRANT"]),
            // What was denied always has a record.
            json!(["denied", "SELECT"]),
        ]
    );
    std::fs::remove_file(files.path("audit.jsonl")).unwrap();
    std::os::unix::fs::symlink("/dev/full", files.path("audit.jsonl")).unwrap();
    gateway.signal("HUP");
    let warned = async || {
        run(&admin, "DROP TABLE IF EXISTS docs").await;
        gateway.log().contains("the audit record cannot be written").then_some(())
    };
    until("the warning", warned).await;
}
