//! Logging in, and failing to.

use tokio_postgres::NoTls;

use super::raw::{Raw, USER, message, startup};
use crate::harness::Gateway;

async fn refusal(gateway: &Gateway, user: &str, password: &str) -> (String, String) {
    let config = format!("host={} port={} dbname=lancegate", gateway.pg_addr().ip(), gateway.pg_addr().port());
    let mut config: tokio_postgres::Config = config.parse().unwrap();
    let error = config.user(user).password(password).connect(NoTls).await.err().expect("a refusal");
    let error = error.as_db_error().expect("an answer of the server");
    assert_eq!(error.severity(), "FATAL");
    (error.code().code().to_owned(), error.message().to_owned())
}

#[tokio::test]
async fn an_unknown_user_fails_like_a_wrong_password() {
    let gateway = Gateway::start();
    let wrong = refusal(&gateway, USER, "not the password").await;
    let unknown = refusal(&gateway, "nobody", "not the password").await;
    assert_eq!(wrong.0, "28P01");
    assert_eq!(wrong.1, format!("password authentication failed for user \"{USER}\""));
    assert_eq!(unknown, ("28P01".to_owned(), wrong.1.replace(USER, "nobody")));
}

#[tokio::test]
async fn an_unknown_user_is_challenged_with_the_same_salt_each_time() {
    let gateway = Gateway::start();
    let mut challenges = Vec::new();
    for _ in 0..2 {
        let mut raw = Raw::open(gateway.pg_addr()).await;
        raw.send(&startup(0, &[("user", "nobody")])).await;
        raw.log_in("x").await;
        raw.expect_fatal("28P01").await;
        let mut raw = Raw::open(gateway.pg_addr()).await;
        raw.send(&startup(0, &[("user", "nobody")])).await;
        raw.next().await.unwrap();
        let first = b"n,,n=,r=clientnonce";
        let body = [b"SCRAM-SHA-256\0", &(first.len() as u32).to_be_bytes()[..], first].concat();
        raw.send(&message(b'p', &body)).await;
        let challenge = String::from_utf8(raw.next().await.unwrap().body[4..].to_vec()).unwrap();
        challenges.push(challenge.split(',').skip(1).map(str::to_owned).collect::<Vec<_>>());
    }
    assert_eq!(challenges[0], challenges[1]);
    assert_eq!(challenges[0].len(), 2);
}

#[tokio::test]
async fn an_unknown_database_is_refused_after_authentication() {
    let gateway = Gateway::start();
    let mut raw = Raw::open(gateway.pg_addr()).await;
    raw.send(&startup(0, &[("user", USER), ("database", "missing")])).await;
    raw.log_in(gateway.password()).await;
    raw.expect_fatal("3D000").await;
    let mut raw = Raw::open(gateway.pg_addr()).await;
    raw.send(&startup(0, &[("user", USER), ("database", "missing")])).await;
    raw.log_in("wrong").await;
    raw.expect_fatal("28P01").await;
}

#[tokio::test]
async fn start_up_tells_drivers_what_they_need() {
    let gateway = Gateway::start();
    let mut raw = Raw::open(gateway.pg_addr()).await;
    let parameters = [
        ("user", USER),
        ("database", "lancegate"),
        ("client_encoding", "'utf-8'"),
        ("application_name", "test"),
        ("options", "-c statement_timeout=5s"),
    ];
    raw.send(&startup(0, &parameters)).await;
    raw.log_in(gateway.password()).await;
    let replies = raw.until_ready().await;
    let told: Vec<String> = replies
        .iter()
        .filter(|reply| reply.kind == 'S')
        .map(|reply| String::from_utf8(reply.body.clone()).unwrap().replace('\0', "="))
        .collect();
    for expected in [
        "application_name=test=",
        "client_encoding=UTF8=",
        "DateStyle=ISO, MDY=",
        "integer_datetimes=on=",
        "standard_conforming_strings=on=",
        "session_authorization=lancegate=",
        "TimeZone=UTC=",
    ] {
        assert!(told.contains(&expected.to_owned()), "{expected} is not in {told:?}");
    }
    assert!(told.iter().any(|parameter| parameter.starts_with("server_version=16.")));
    assert_eq!(raw.key.1.len(), 4);
    let rows = raw.query("SHOW statement_timeout").await;
    assert_eq!(rows[1].row(), [Some("5s".to_owned())]);
}

#[tokio::test]
async fn a_newer_minor_version_is_negotiated_and_gets_a_long_key() {
    let gateway = Gateway::start();
    let mut raw = Raw::open(gateway.pg_addr()).await;
    raw.send(&startup(9999, &[("user", USER), ("database", USER), ("_pq_.unknown", "1")])).await;
    let negotiate = raw.next().await.unwrap();
    assert_eq!(negotiate.kind, 'v');
    assert_eq!(negotiate.body[..8], [0, 3, 0, 2, 0, 0, 0, 1]);
    raw.log_in(gateway.password()).await;
    raw.until_ready().await;
    assert_eq!(raw.key.1.len(), 32);
}

#[tokio::test]
async fn a_setting_that_does_not_exist_ends_the_start_up() {
    let gateway = Gateway::start();
    for (name, value, code) in [
        ("nonsense", "1", "42704"),
        ("options", "-c nonsense=1", "42704"),
        ("options", "-x", "42601"),
        ("client_encoding", "LATIN1", "22023"),
        ("role", "admin", "42501"),
        ("replication", "database", "0A000"),
    ] {
        let mut raw = Raw::open(gateway.pg_addr()).await;
        raw.send(&startup(0, &[("user", USER), ("database", USER), (name, value)])).await;
        if !matches!(code, "42601" | "0A000") {
            raw.log_in(gateway.password()).await;
        }
        raw.expect_fatal(code).await;
    }
}
