//! Health, readiness and metrics of a running gateway.

use std::time::{Duration, Instant};

use crate::harness::Gateway;
use crate::rows::{error, rows, run};

async fn get(gateway: &Gateway, path: &str) -> (u16, String, String) {
    let response = reqwest::get(gateway.http_url(path)).await.unwrap();
    let status = response.status().as_u16();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    (status, kind, response.text().await.unwrap())
}

#[tokio::test]
async fn a_started_gateway_is_alive_and_ready() {
    let gateway = Gateway::start();
    let (status, kind, body) = get(&gateway, "/healthz").await;
    assert_eq!((status, kind.as_str()), (200, "application/json"));
    assert!(body.contains(env!("CARGO_PKG_VERSION")), "{body}");
    let (status, _, body) = get(&gateway, "/readyz").await;
    assert_eq!((status, body.as_str()), (200, "{\"status\":\"ready\"}"));
}

#[tokio::test]
async fn metrics_are_openmetrics_text() {
    let gateway = Gateway::start();
    let (status, kind, body) = get(&gateway, "/metrics").await;
    assert_eq!(status, 200);
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    assert!(body.contains("# TYPE gateway_connections gauge"), "{body}");
    assert!(body.ends_with("# EOF\n"), "{body}");
}

/// Returns the series that are not zero; times are none of them.
async fn counted(gateway: &Gateway) -> Vec<String> {
    let (_, _, body) = get(gateway, "/metrics").await;
    let series = body.lines().filter(|line| !line.starts_with('#') && !line.ends_with(" 0"));
    let timed = |line: &&str| line.contains("_seconds_bucket") || line.contains("_seconds_sum");
    let mut counted: Vec<String> =
        series.filter(|line| !timed(line)).map(|line| line.replace("gateway_", "")).collect();
    // Series of one name come in any order.
    counted.sort();
    counted
}

/// Waits for the numbers: a session that ends and a job that has ended are
/// counted a moment after their client knows.
async fn expect_counted(gateway: &Gateway, expected: &[&str]) {
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    let until = Instant::now() + Duration::from_secs(10);
    while counted(gateway).await != expected && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(counted(gateway).await, expected);
}

#[tokio::test]
async fn the_metrics_count_what_happened_and_nothing_else() {
    let gateway = Gateway::start();
    expect_counted(&gateway, &[]).await;
    let client = gateway.connect().await;
    let docs = "CREATE TABLE docs (id BIGINT, body TEXT);
         INSERT INTO docs VALUES (1, 'lance'), (2, 'gate');
         ALTER TABLE docs ADD COLUMN body_len AS (length(body))";
    run(&client, docs).await;
    rows(&client, "SELECT * FROM docs").await;
    client.query("SELECT id FROM docs WHERE id = $1", &[&1_i64]).await.unwrap();
    error(&client, "SELECT * FROM missing").await;
    client.query("SELECT * FROM missing", &[]).await.unwrap_err();
    error(&client, "SELEC 1").await;
    error(&client, "SET statement_timeout = '50ms'; SELECT count(*) FROM generate_series(1, 100000000000)").await;
    run(&client, "RESET statement_timeout").await;
    gateway.connect_as("lancegate", "wrong").await.unwrap_err();
    rows(&client, "REFRESH COLUMN body_len ON docs WAIT").await;
    let expected = [
        "connections 1",
        "logins_failed_total 1",
        "statements_total{kind=\"query\",outcome=\"ok\"} 2",
        "statements_total{kind=\"query\",outcome=\"error\"} 2",
        "statements_total{kind=\"query\",outcome=\"canceled\"} 1",
        "statements_total{kind=\"write\",outcome=\"ok\"} 1",
        "statements_total{kind=\"definition\",outcome=\"ok\"} 2",
        "statements_total{kind=\"refresh\",outcome=\"ok\"} 1",
        "statements_total{kind=\"session\",outcome=\"ok\"} 2",
        "statements_total{kind=\"unknown\",outcome=\"error\"} 1",
        "statement_duration_seconds_count{kind=\"query\"} 5",
        "statement_duration_seconds_count{kind=\"write\"} 1",
        "statement_duration_seconds_count{kind=\"definition\"} 2",
        "statement_duration_seconds_count{kind=\"refresh\"} 1",
        "statement_duration_seconds_count{kind=\"session\"} 2",
        "statement_duration_seconds_count{kind=\"unknown\"} 1",
        // Two of the table, one by its id, one for the answer of the refresh.
        "rows_sent_total 4",
        "jobs_finished_total{state=\"succeeded\"} 1",
        "refresh_rows_computed_total 2",
        // The table, its rows, its column; the values, and what they were computed from.
        "commits_total 5",
    ];
    expect_counted(&gateway, &expected).await;
    drop(client);
    expect_counted(&gateway, &expected[1..]).await;
}

#[tokio::test]
async fn an_unknown_path_is_a_404_in_json() {
    let gateway = Gateway::start();
    let (status, kind, body) = get(&gateway, "/v1/nothing").await;
    assert_eq!((status, kind.as_str()), (404, "application/json"));
    assert_eq!(body, "{\"error\":\"there is no GET /v1/nothing\",\"code\":0}");
}
