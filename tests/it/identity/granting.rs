//! Who may grant what to whom, and what becomes of ownership.

use serde_json::json;

use crate::harness::Gateway;
use crate::privileges::user;
use crate::rest::api_key;
use crate::rows::{error, rows, run};

/// The owner of a table, and what is granted on it to others.
async fn granted(client: &tokio_postgres::Client) -> Vec<String> {
    rows(
        client,
        "SELECT grantee_type, grantee, privilege FROM system.public.grants WHERE object LIKE '%.docs' ORDER BY 1, 2, 3",
    )
    .await
}

#[tokio::test]
async fn z10_grants_to_nobody_by_others_and_twice() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    let ann = user(&gateway, &admin, "ann").await;
    run(&admin, "GRANT USAGE ON SCHEMA public TO USER ann; CREATE TABLE docs (id BIGINT)").await;
    run(&admin, "CREATE SECRET k SECRET_STRING = 'x'").await;
    let owned = ["user|lancegate|OWNERSHIP".to_owned()];

    // A user and a group have to be there; a role is there once it is named.
    let unknown = error(&admin, "GRANT SELECT ON TABLE docs TO USER nobody").await;
    assert!(unknown.starts_with("42704: role \"nobody\" does not exist"), "{unknown}");
    let unknown = error(&admin, "GRANT SELECT ON TABLE docs TO GROUP engineers").await;
    assert!(unknown.starts_with("42704: group \"engineers\" does not exist"), "{unknown}");
    let unknown = error(&admin, "GRANT SELECT ON TABLE docs TO ROLE readers, USER nobody").await;
    assert!(unknown.starts_with("42704"), "{unknown}");
    assert_eq!(granted(&admin).await, owned, "a refused statement grants nothing to anybody");
    run(&admin, "GRANT SELECT ON TABLE docs TO ROLE readers").await;
    assert!(error(&admin, "GRANT ROLE readers TO USER nobody").await.starts_with("42704"));
    let reads = [owned[0].clone(), "role|readers|SELECT".to_owned()];
    let sorted = |mut told: Vec<String>| {
        told.sort();
        told
    };
    assert_eq!(sorted(granted(&admin).await), sorted(reads.to_vec()));

    // The same again changes nothing, and what is not there is taken away without a word.
    run(&admin, "GRANT SELECT ON TABLE docs TO ROLE readers; REVOKE INSERT ON TABLE docs FROM ROLE readers").await;
    assert_eq!(sorted(granted(&admin).await), sorted(reads.to_vec()));

    // Who does not own it is told so before anything is told of the grantee.
    for statement in [
        "GRANT SELECT ON TABLE docs TO USER nobody",
        "GRANT SELECT ON TABLE docs TO USER ann",
        "GRANT OWNERSHIP ON TABLE docs TO USER ann",
        "REVOKE SELECT ON TABLE docs FROM ROLE readers",
        "GRANT USAGE ON SECRET k TO USER ann",
        "GRANT USAGE ON SYSTEM TO USER ann",
        "GRANT USAGE ON DATABASE lancegate TO USER ann",
        "GRANT ROLE readers TO USER ann",
        // Nor what he may not know of.
        "REVOKE SELECT ON TABLE gone FROM ROLE readers",
    ] {
        let refused = error(&ann, statement).await;
        assert!(refused.starts_with("42501"), "{statement}: {refused}");
    }
    run(&admin, "GRANT SELECT ON TABLE docs TO USER ann").await;
    assert!(
        error(&ann, "GRANT SELECT ON TABLE docs TO ROLE others").await.starts_with("42501"),
        "to read is not to own"
    );
    // What is not valid there is refused for everybody.
    for statement in [
        "GRANT USAGE ON TABLE docs TO ROLE readers",
        "GRANT OWNERSHIP ON SYSTEM TO USER ann",
        "GRANT OWNERSHIP ON TABLE docs TO USER ann, USER lancegate",
        "GRANT ALL ON TABLE docs TO USER ann",
    ] {
        let refused = error(&admin, statement).await;
        assert!(refused.starts_with("42601") || refused.starts_with("0A000"), "{statement}: {refused}");
    }
}

#[tokio::test]
async fn z10_ownership_is_handed_over_and_not_taken_away() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    let ann = user(&gateway, &admin, "ann").await;
    run(&admin, "GRANT USAGE ON SCHEMA public TO USER ann; CREATE TABLE docs (id BIGINT)").await;
    run(&admin, "GRANT SELECT ON TABLE docs TO ROLE readers").await;
    let refused = error(&admin, "REVOKE OWNERSHIP ON TABLE docs FROM USER lancegate").await;
    assert!(!refused.starts_with("XX000"), "{refused}");
    run(&admin, "INSERT INTO docs VALUES (1); GRANT OWNERSHIP ON TABLE docs TO USER ann").await;
    // There is one owner, and the other grants stay.
    let mut told = granted(&ann).await;
    told.sort();
    assert_eq!(told, ["role|readers|SELECT", "user|ann|OWNERSHIP"]);
    for statement in [
        "SELECT * FROM docs",
        "INSERT INTO docs VALUES (2)",
        "GRANT SELECT ON TABLE docs TO USER lancegate",
        "DROP TABLE docs",
    ] {
        assert!(error(&admin, statement).await.starts_with("42501"), "{statement}: the one before has lost it");
    }
    run(&ann, "INSERT INTO docs VALUES (2); GRANT SELECT ON TABLE docs TO USER lancegate").await;
    assert_eq!(rows(&admin, "SELECT count(*) FROM docs").await, ["2"]);
    assert!(error(&ann, "REVOKE OWNERSHIP ON TABLE docs FROM USER ann").await.contains("OWNERSHIP"));

    // What was granted goes with the table, and does not come back with another of its name.
    run(&ann, "DROP TABLE docs").await;
    run(&admin, "REVOKE SELECT ON TABLE docs FROM ROLE readers").await;
    run(&admin, "CREATE TABLE docs (id BIGINT)").await;
    assert_eq!(granted(&admin).await, ["user|lancegate|OWNERSHIP"]);
    assert!(error(&ann, "SELECT * FROM docs").await.starts_with("42501"));
}

#[tokio::test]
async fn z10_requests_answer_as_statements_do() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    run(&admin, "CREATE TABLE docs (id BIGINT); CREATE USER ann PASSWORD 'a long password'").await;
    let key = api_key(&gateway, "owner").await;
    let asked = async |action: &str, subject: &str, object: &str| {
        let url = gateway.http_url(&format!("/admin/authz/acl/{action}"));
        let entry = json!({ "subject": subject, "object": object, "privilege": "SELECT" });
        reqwest::Client::new().post(url).header("x-api-key", &key).json(&entry).send().await.unwrap().status().as_u16()
    };
    let docs = "table:lancegate:public$docs";
    assert_eq!(asked("add", "P:nobody", docs).await, 404);
    assert_eq!(asked("add", "G:engineers", docs).await, 406);
    assert_eq!(asked("add", "P:ann", "table:lancegate:public$gone").await, 404);
    assert_eq!(asked("add", "r:readers", docs).await, 200);
    assert_eq!(asked("delete", "r:readers", docs).await, 200);
    assert_eq!(asked("delete", "P:ann", "table:lancegate:public$gone").await, 200);
}
