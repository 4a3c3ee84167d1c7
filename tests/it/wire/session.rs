//! What a session keeps and how it ends.

use std::time::{Duration, Instant};

use super::raw::{Raw, cancel_request, code, kinds, query};
use crate::harness::Gateway;

/// A query that runs for minutes.
pub(crate) const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 100000000000) AS t (n) WHERE n % 7 = 3";

#[tokio::test]
async fn a_script_answers_each_statement_and_stops_at_the_first_error() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    let replies = raw.query("SET application_name = 'x'; SELECT 1; SHOW application_name").await;
    assert_eq!(kinds(&replies), "CTDCTDCZ");
    let script = "SELECT 'é'; SELECT missing; SELECT 3";
    let replies = raw.query(script).await;
    assert_eq!(kinds(&replies), "TDCEZ");
    let error = replies.iter().find(|reply| reply.kind == 'E').unwrap();
    assert_eq!(error.field('C').as_deref(), Some("42703"));
    // Characters from the start of the whole text, not bytes.
    assert_eq!(error.field('P').as_deref(), Some("20"));
}

#[tokio::test]
async fn a_syntax_error_runs_nothing_of_the_script() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    let replies = raw.query("SELECT 1; SELEC 2").await;
    assert_eq!((kinds(&replies).as_str(), code(&replies).as_deref()), ("EZ", Some("42601")));
    assert_eq!(replies[0].field('P').as_deref(), Some("11"));
}

#[tokio::test]
async fn changed_settings_are_reported_and_a_rollback_takes_them_back() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    let reports = |replies: &[super::raw::Reply]| -> Vec<String> {
        let told = replies.iter().filter(|reply| reply.kind == 'S');
        told.map(|reply| String::from_utf8_lossy(&reply.body).replace('\0', "=")).collect()
    };
    assert_eq!(reports(&raw.query("BEGIN; SET TimeZone = 'Europe/Berlin'").await), ["TimeZone=Europe/Berlin="]);
    assert_eq!(reports(&raw.query("ROLLBACK").await), ["TimeZone=UTC="]);
    assert_eq!(reports(&raw.query("SET statement_timeout = '5s'").await), [""; 0]);
}

#[tokio::test]
async fn a_cancel_request_ends_the_running_statement_only() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    // Between statements it does nothing.
    let mut cancel = Raw::open(gateway.pg_addr()).await;
    cancel.send(&cancel_request(&raw.key)).await;
    assert_eq!(cancel.next().await, None);
    assert_eq!(kinds(&raw.query("SELECT 1").await), "TDCZ");
    raw.send(&query(ENDLESS)).await;
    let began_at = Instant::now();
    let wrong = (raw.key.0, vec![0; raw.key.1.len()]);
    for key in [wrong, raw.key.clone()] {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut cancel = Raw::open(gateway.pg_addr()).await;
        cancel.send(&cancel_request(&key)).await;
        assert_eq!(cancel.next().await, None);
    }
    let replies = raw.until_ready().await;
    assert_eq!(code(&replies).as_deref(), Some("57014"));
    assert!(began_at.elapsed() < Duration::from_secs(10));
    assert_eq!(kinds(&raw.query("SELECT 1").await), "TDCZ");
}

#[tokio::test]
async fn a_statement_timeout_ends_a_statement_in_time() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    raw.query("SET statement_timeout = '500ms'").await;
    let began_at = Instant::now();
    let replies = raw.query(ENDLESS).await;
    let error = replies.iter().find(|reply| reply.kind == 'E').unwrap();
    assert_eq!(error.field('M').as_deref(), Some("canceling statement due to statement timeout"));
    assert!(began_at.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn p16_idle_sessions_end_in_time_with_a_reason() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    raw.query("SET idle_session_timeout = '200ms'").await;
    raw.expect_fatal("57P05").await;
    let mut raw = Raw::session(&gateway).await;
    raw.query("SET idle_in_transaction_session_timeout = '200ms'").await;
    raw.query("BEGIN").await;
    raw.expect_fatal("25P03").await;
}

#[tokio::test]
async fn cursors_and_prepared_statements_work_in_sql() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let rows = |messages: Vec<tokio_postgres::SimpleQueryMessage>| -> Vec<String> {
        let rows = messages.into_iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        rows.collect()
    };
    client.batch_execute("PREPARE add (int, int) AS SELECT $1 + $2").await.unwrap();
    assert_eq!(rows(client.simple_query("EXECUTE add (40, 2)").await.unwrap()), ["42"]);
    client.batch_execute("DEALLOCATE add").await.unwrap();
    let error = client.simple_query("EXECUTE add (1, 2)").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "26000");
    let error = client.batch_execute("DECLARE c CURSOR FOR SELECT 1").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "25P01");
    client
        .batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT n FROM (VALUES (1), (2), (3)) AS t (n) ORDER BY n")
        .await
        .unwrap();
    assert_eq!(rows(client.simple_query("FETCH 2 FROM c").await.unwrap()), ["1", "2"]);
    client.batch_execute("MOVE NEXT FROM c").await.unwrap();
    assert!(rows(client.simple_query("FETCH ALL FROM c").await.unwrap()).is_empty());
    client.batch_execute("COMMIT").await.unwrap();
    let error = client.simple_query("FETCH NEXT FROM c").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "34000");
}

#[tokio::test]
async fn an_oversized_message_is_refused_by_its_header() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    raw.send(&[b'Q', 0x3f, 0xff, 0xff, 0xff]).await;
    raw.expect_fatal("54000").await;
}

#[tokio::test]
async fn binary_and_text_results_are_chosen_by_the_driver() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let row = client
        .query_one("SELECT $1::int8 + 1, $2::text, $3::float8, NULL::text", &[&41_i64, &"é", &1.5_f64])
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 42);
    assert_eq!(row.get::<_, &str>(1), "é");
    assert!((row.get::<_, f64>(2) - 1.5).abs() < f64::EPSILON);
    assert_eq!(row.get::<_, Option<&str>>(3), None);
}
