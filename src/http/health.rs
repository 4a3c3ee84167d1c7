//! What an operator's tools ask: alive, ready, and the numbers.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use super::{HttpShared, reply};
use crate::shutdown::Stage;

/// The media type of the OpenMetrics text format.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `GET /healthz`: the process answers.
pub(super) async fn alive() -> Response {
    reply::json(StatusCode::OK, &json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }))
}

/// `GET /readyz`: statements are answered; 503 while starting and stopping.
pub(super) async fn ready(State(shared): State<Arc<HttpShared>>) -> Response {
    let (status, text) = match shared.readiness.stage() {
        Stage::Starting => (StatusCode::SERVICE_UNAVAILABLE, "starting"),
        Stage::Ready => (StatusCode::OK, "ready"),
        Stage::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
    };
    reply::json(status, &json!({ "status": text }))
}

/// The document of the API, made when the server starts.
#[derive(Debug, Clone)]
pub(super) struct Document(pub(super) Arc<str>);

/// `GET /v1/openapi.json`.
pub(super) async fn document(Extension(Document(text)): Extension<Document>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.to_string()).into_response()
}

/// `GET /metrics`.
pub(super) async fn metrics(State(shared): State<Arc<HttpShared>>) -> Response {
    match shared.metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "metrics cannot be encoded");
            reply::error(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
        }
    }
}
