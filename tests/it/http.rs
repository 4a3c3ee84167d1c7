//! Health, readiness and metrics of a running gateway.

use crate::harness::Gateway;

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

#[tokio::test]
async fn an_unknown_path_is_a_404_in_json() {
    let gateway = Gateway::start();
    let (status, kind, body) = get(&gateway, "/v1/nothing").await;
    assert_eq!((status, kind.as_str()), (404, "application/json"));
    assert_eq!(body, "{\"error\":\"there is no GET /v1/nothing\"}");
}
