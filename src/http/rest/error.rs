//! Errors in the form of the Lance namespace specification.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lancegate_engine::error::SqlError;
use lancegate_engine::sqlstate::SqlState;
use serde_json::json;

use crate::http::reply;

/// The codes of the specification (Lance namespace 0.13, `ErrorResponse.code`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::http) enum Code {
    Unsupported = 0,
    NamespaceNotFound = 1,
    NamespaceAlreadyExists = 2,
    NamespaceNotEmpty = 3,
    TableNotFound = 4,
    TableAlreadyExists = 5,
    TableIndexNotFound = 6,
    TableTagNotFound = 8,
    TableVersionNotFound = 11,
    TableColumnNotFound = 12,
    InvalidInput = 13,
    ConcurrentModification = 14,
    PermissionDenied = 15,
    Unauthenticated = 16,
    ServiceUnavailable = 17,
    Internal = 18,
    InvalidTableState = 19,
    TableSchemaValidationError = 20,
    Throttling = 21,
    TableBranchNotFound = 22,
}

/// An answer that is an error.
#[derive(Debug, Clone)]
pub(in crate::http) struct RestError {
    status: StatusCode,
    code: Code,
    message: String,
    detail: Option<String>,
    /// What SQL would have answered.
    state: Option<SqlState>,
}

/// The result of a handler.
pub(super) type Result<T, E = RestError> = std::result::Result<T, E>;

impl RestError {
    /// Returns an error with a message and nothing else.
    pub(in crate::http) fn new(status: StatusCode, code: Code, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), detail: None, state: None }
    }

    /// Returns the 400 of a request that makes no sense.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::InvalidInput, message)
    }

    /// Returns the 406 of what is not built.
    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, Code::Unsupported, message)
    }

    /// Returns the 404 of an object that is not a table.
    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, Code::TableNotFound, message)
    }

    /// Returns the 401 of a caller that has not proved who he is.
    pub(super) fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, Code::Unauthenticated, message)
    }

    /// Returns a 500; its cause goes to the log only.
    pub(in crate::http) fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(%cause, "internal error");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, Code::Internal, "internal error")
    }

    /// Answers 400 instead, for routes whose clients misread what the error says.
    #[must_use]
    pub(super) fn into_bad_request(mut self) -> Self {
        if self.status.is_client_error() && self.status != StatusCode::UNAUTHORIZED {
            self.status = StatusCode::BAD_REQUEST;
        }
        self
    }

    /// Returns the status.
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns what is wrong.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the code.
    pub(super) fn code(&self) -> Code {
        self.code
    }

    /// Returns whether something else than a table is missing.
    pub(super) fn is_undefined_object(&self) -> bool {
        self.state == Some(SqlState::UNDEFINED_OBJECT)
    }

    /// Tells a registered Function that is missing apart from one in an expression.
    pub(super) fn of_function(self) -> Self {
        match self.state {
            Some(SqlState::UNDEFINED_FUNCTION) => {
                self.with_status(StatusCode::NOT_FOUND).with_code(Code::TableNotFound)
            }
            _ => self,
        }
    }

    /// Returns whether something is missing.
    pub(super) fn is_missing(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// Answers with another code.
    #[must_use]
    pub(super) fn with_code(mut self, code: Code) -> Self {
        self.code = code;
        self
    }

    /// Answers with another status.
    #[must_use]
    pub(super) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Names the request in the answer.
    pub(in crate::http) fn response(self, instance: Option<&str>) -> Response {
        let mut body = json!({ "error": self.message, "code": self.code as u8 });
        if let Some(detail) = self.detail {
            body["detail"] = json!(detail);
        }
        if let Some(instance) = instance {
            body["instance"] = json!(instance);
        }
        let mut response = reply::json(self.status, &body);
        let headers: &mut HeaderMap = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer, Basic realm=\"lancegate\""));
        }
        response
    }
}

impl IntoResponse for RestError {
    /// The outermost layer names the request in it.
    fn into_response(self) -> Response {
        let mut response = self.clone().response(None);
        response.extensions_mut().insert(self);
        response
    }
}

impl From<SqlError> for RestError {
    fn from(error: SqlError) -> Self {
        let (status, code) = classify(error.code);
        let detail: Vec<String> = [error.context, error.detail, error.hint].into_iter().flatten().collect();
        let detail = (!detail.is_empty()).then(|| detail.join(" "));
        Self { status, code, message: error.message, detail, state: Some(error.code) }
    }
}

/// Returns how a SQLSTATE is told over HTTP: by itself, else by its class
/// (PostgreSQL documentation, Appendix A).
fn classify(state: SqlState) -> (StatusCode, Code) {
    match state {
        SqlState::UNDEFINED_TABLE => (StatusCode::NOT_FOUND, Code::TableNotFound),
        SqlState::UNDEFINED_COLUMN => (StatusCode::BAD_REQUEST, Code::TableColumnNotFound),
        SqlState::UNDEFINED_OBJECT => (StatusCode::NOT_FOUND, Code::TableNotFound),
        SqlState::DUPLICATE_TABLE => (StatusCode::CONFLICT, Code::TableAlreadyExists),
        SqlState::INVALID_SCHEMA_NAME | SqlState::INVALID_CATALOG_NAME => {
            (StatusCode::NOT_FOUND, Code::NamespaceNotFound)
        }
        SqlState::DUPLICATE_SCHEMA | SqlState::DUPLICATE_DATABASE => {
            (StatusCode::CONFLICT, Code::NamespaceAlreadyExists)
        }
        SqlState::DEPENDENT_OBJECTS_STILL_EXIST => (StatusCode::CONFLICT, Code::NamespaceNotEmpty),
        SqlState::DUPLICATE_OBJECT | SqlState::OBJECT_IN_USE | SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE => {
            (StatusCode::CONFLICT, Code::InvalidTableState)
        }
        SqlState::INSUFFICIENT_PRIVILEGE => (StatusCode::FORBIDDEN, Code::PermissionDenied),
        SqlState::DATATYPE_MISMATCH | SqlState::NOT_NULL_VIOLATION => {
            (StatusCode::BAD_REQUEST, Code::TableSchemaValidationError)
        }
        SqlState::SERIALIZATION_FAILURE => (StatusCode::CONFLICT, Code::ConcurrentModification),
        SqlState::FEATURE_NOT_SUPPORTED => (StatusCode::NOT_ACCEPTABLE, Code::Unsupported),
        SqlState::TOO_MANY_CONNECTIONS => (StatusCode::TOO_MANY_REQUESTS, Code::Throttling),
        SqlState::QUERY_CANCELED => (StatusCode::REQUEST_TIMEOUT, Code::ServiceUnavailable),
        state => match &state.as_str()[..2] {
            "28" => (StatusCode::UNAUTHORIZED, Code::Unauthenticated),
            // Memory, disk and limits: the same request may pass later.
            "53" | "57" | "08" => (StatusCode::SERVICE_UNAVAILABLE, Code::ServiceUnavailable),
            "XX" | "58" => (StatusCode::INTERNAL_SERVER_ERROR, Code::Internal),
            _ => (StatusCode::BAD_REQUEST, Code::InvalidInput),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_a_state_decides_where_no_rule_is_more_exact() {
        let status = |code: &str| classify(SqlState::parse(code)).0.as_u16();
        let given = ["42P01", "42703", "22012", "42601", "53200", "57P01", "28P01", "40001", "XX000", "0A000"];
        let told = given.map(status);
        assert_eq!(told, [404, 400, 400, 400, 503, 503, 401, 409, 500, 406]);
    }
}
