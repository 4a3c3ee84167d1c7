//! A login that fails at every place on its way, in every manner (feature `failpoints`).

use lancegate_engine::failpoint::LOGIN_PLACES;
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::{Files, key, records};
use crate::harness::{Gateway, PASSWORD};
use crate::rows::rows;
use crate::wire::raw::{Raw, Reply, USER, message, query, startup};

/// Logs in as far as it is let, sends a statement on without waiting to be told that it may, and returns all answers.
async fn hurried(gateway: &Gateway, statement: &str) -> Vec<Reply> {
    let mut raw = Raw::open(gateway.pg_addr()).await;
    raw.send(&startup(0, &[("user", USER), ("database", USER)])).await;
    let mut scram = ScramSha256::new(PASSWORD.as_bytes(), ChannelBinding::unsupported());
    let mut replies = Vec::new();
    while let Some(reply) = raw.next().await {
        let step = (reply.kind == 'R').then(|| u32::from_be_bytes(*reply.body.first_chunk().unwrap()));
        let is_ready = reply.kind == 'Z';
        let body = reply.body.clone();
        replies.push(reply);
        // The server may have closed: what it has said is there to be read all the same.
        match step {
            Some(10) => {
                let length = (scram.message().len() as u32).to_be_bytes();
                let first = [&b"SCRAM-SHA-256\0"[..], &length, scram.message()].concat();
                let _ = raw.stream.write_all(&message(b'p', &first)).await;
            }
            Some(11) => {
                scram.update(&body[4..]).unwrap();
                let _ = raw.stream.write_all(&[message(b'p', scram.message()), query(statement)].concat()).await;
            }
            _ if is_ready => {
                // Its own answer and the next ReadyForQuery.
                replies.extend(raw.until_ready().await);
                break;
            }
            _ => {}
        }
    }
    let _ = raw.stream.write_all(&query(statement)).await;
    replies
}

#[tokio::test]
async fn a01_a_login_that_fails_anywhere_ends_with_a_fatal_error_and_runs_nothing() {
    for (action, code) in [("error", "58030"), ("panic", "XX000"), ("delay(10000)", "57014")] {
        let files = Files::new();
        let record = key("file", &files.path("audit.jsonl"));
        // Each place acts at its first visit: the login that gets so far is the one that fails there.
        let failpoints = LOGIN_PLACES.map(|place| format!("{place}={action}")).join(";");
        let config = format!("[pg]\nauthentication_timeout = '1s'\n[audit]\n{record}");
        let gateway = Gateway::start_failing(&config, &failpoints);
        for place in LOGIN_PLACES {
            let replies = hurried(&gateway, "CREATE SCHEMA leaked").await;
            let case = format!("{place}={action}: {replies:?}");
            assert!(replies.iter().all(|reply| !"ZCTD".contains(reply.kind)), "{case}");
            let last = replies.last().unwrap_or_else(|| panic!("{case}"));
            assert_eq!((last.kind, last.field('S').as_deref()), ('E', Some("FATAL")), "{case}");
            assert_eq!(last.field('C').as_deref(), Some(code), "{case}");
        }
        let replies = hurried(&gateway, "CREATE SCHEMA made").await;
        assert_eq!(replies.last().map(|reply| reply.kind), Some('Z'), "{action}: {replies:?}");
        let client = gateway.connect().await;
        let schemas = rows(&client, "SHOW SCHEMAS").await.join("\n");
        assert!(schemas.contains("made") && !schemas.contains("leaked"), "{action}: {schemas}");
        // Each has its record.
        let recorded = records(&files.path("audit.jsonl"));
        let logins = recorded.iter().filter(|record| record["event"] == "authentication");
        let told: Vec<_> = logins.map(|record| json!([record["outcome"], record["user"], record["code"]])).collect();
        let mut expected = vec![json!(["failed", USER, code]); LOGIN_PLACES.len()];
        expected.extend([json!(["ok", USER, null]), json!(["ok", USER, null])]);
        assert_eq!(told, expected, "{action}");
    }
}
