//! What is recorded of who calls.

use base64::Engine as _;
use serde_json::{Value, json};
use tonic::{Code, Request};

use super::Flight;
use super::messages::statement_ticket;
use crate::harness::{Gateway, PASSWORD};
use crate::identity::{Files, key, records};
use crate::rest::api_key;
use crate::rows::run;

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}")))
}

/// Calls once with a credential, and returns the code of the answer.
async fn call(flight: &Flight, authorization: &str) -> Code {
    let flight = flight.bare().with("authorization", authorization);
    flight.get(statement_ticket("SELECT 1")).await.map_or_else(|error| error.code(), |_| Code::Ok)
}

async fn hand_shake(flight: &Flight, authorization: &str) -> String {
    let mut request = Request::new(futures::stream::iter(vec![]));
    request.metadata_mut().insert("authorization", authorization.parse().unwrap());
    let response = flight.client.clone().handshake(request).await.unwrap();
    response.metadata().get("authorization").unwrap().to_str().unwrap().to_owned()
}

/// Returns what the record has of logins over Flight SQL, oldest first.
pub(super) fn logins(files: &Files) -> Vec<Value> {
    let of_flight = |record: &Value| record["event"] == "authentication" && record["over"] == "flight";
    let told =
        |record: Value| json!([record["outcome"], record["user"], record["method"], record["tls"], record["code"]]);
    records(&files.path("audit.jsonl")).into_iter().filter(of_flight).map(told).collect()
}

#[tokio::test]
async fn t36_each_login_and_its_failure_has_a_record() {
    let files = Files::new();
    let gateway = Gateway::start_with(&format!("[audit]\n{}", key("file", &files.path("audit.jsonl"))));
    let admin = gateway.connect().await;
    run(&admin, "CREATE USER ann PASSWORD 'a long password'").await;
    let owner = api_key(&gateway, "owner").await;
    let flight = Flight::connect(&gateway, &owner).await;
    let mut expected: Vec<Value> = Vec::new();
    let mut check = |told: Code, code: Code, record: Option<Value>| {
        assert_eq!(told, code, "{record:?}");
        expected.extend(record);
        assert_eq!(logins(&files), expected);
    };
    let ok = |user: &str, method: &str| Some(json!(["ok", user, method, false, null]));
    let failed = |user: Value, method: &str, code: &str| Some(json!(["failed", user, method, false, code]));
    check(call(&flight, &basic("lancegate", PASSWORD)).await, Code::Ok, ok("lancegate", "password"));
    check(
        call(&flight, &basic("ann", "wrong")).await,
        Code::Unauthenticated,
        failed(json!("ann"), "password", "28000"),
    );
    check(call(&flight, &format!("Bearer {owner}")).await, Code::Ok, ok("lancegate", "api-key"));
    check(call(&flight, &basic("lancedb", &owner)).await, Code::Ok, ok("lancegate", "api-key"));
    check(call(&flight, &basic("lancegate", &owner)).await, Code::Ok, ok("lancegate", "api-key"));
    // A good key of somebody else lets nobody in.
    check(call(&flight, &basic("ann", &owner)).await, Code::Unauthenticated, failed(json!("ann"), "api-key", "28000"));
    check(
        call(&flight, &basic("ann", "lgk_wrong")).await,
        Code::Unauthenticated,
        failed(json!("ann"), "api-key", "28000"),
    );
    // Tokens: each refused one has a record, the use of a good one is no login.
    for wrong in ["x", "", &"A".repeat(43)] {
        check(
            call(&flight, &format!("Bearer lgt_{wrong}")).await,
            Code::Unauthenticated,
            failed(Value::Null, "token", "28P01"),
        );
    }
    let token = hand_shake(&flight, &basic("ann", "a long password")).await;
    check(call(&flight, &token).await, Code::Ok, ok("ann", "password"));
    check(call(&flight, &token).await, Code::Ok, None);
    run(&admin, "ALTER USER ann PASSWORD 'another long password'").await;
    check(call(&flight, &token).await, Code::Unauthenticated, failed(json!("ann"), "token", "28P01"));
    check(call(&flight, &token).await, Code::Unauthenticated, failed(Value::Null, "token", "28P01"));
    let text = std::fs::read_to_string(files.path("audit.jsonl")).unwrap();
    assert!(!text.contains("lgt_") && !text.contains("lgk_") && !text.contains(PASSWORD), "{text}");
}

/// As over the wire: what cannot be recorded is refused.
#[tokio::test]
async fn z09_a_login_that_cannot_be_recorded_is_refused() {
    let files = Files::new();
    let path = files.path("audit.jsonl");
    std::os::unix::fs::symlink(files.path("good.jsonl"), &path).unwrap();
    let gateway = Gateway::start_with(&format!("[audit]\n{}", key("file", &path)));
    let owner = api_key(&gateway, "owner").await;
    let flight = Flight::connect(&gateway, &owner).await;
    flight.get(statement_ticket("SELECT 1")).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    gateway.signal("HUP");
    crate::harness::until("the refusal", async || {
        let told = flight.get(statement_ticket("SELECT 1")).await.err()?;
        told.message().contains("could not write the audit record").then_some(())
    })
    .await;
    let told = flight.bare().with("authorization", "Bearer lgt_x").get(statement_ticket("SELECT 1")).await.unwrap_err();
    assert!(told.message().contains("could not write the audit record"), "{told}");
}
