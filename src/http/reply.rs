//! JSON answers.

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

/// Returns `body` as JSON.
pub(super) fn json(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Returns `{"error": …, "code": 0}`: the specification's code of what is not supported.
pub(super) fn error(status: StatusCode, message: impl Into<String>) -> Response {
    json(status, &json!({ "error": message.into(), "code": 0 }))
}

/// Answers a path that does not exist.
pub(super) async fn not_found(request: Request) -> Response {
    error(StatusCode::NOT_FOUND, format!("there is no {} {}", request.method(), request.uri().path()))
}

/// Answers a method that the path does not have.
pub(super) async fn method_not_allowed(request: Request) -> Response {
    let message = format!("{} does not allow {}", request.uri().path(), request.method());
    error(StatusCode::METHOD_NOT_ALLOWED, message)
}
