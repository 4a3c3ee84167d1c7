//! What every request goes through: its id, its time, and what is read of it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use lancegate_engine::exec::Engine;
use lancegate_sql::ObjectName;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tracing::Instrument as _;

use super::error::{Code, RestError, Result};
use super::{names, strict};
use crate::http::HttpShared;
use crate::http::listener::Peer;

/// The header of a request's id.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id of a request that is taken over, in bytes.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// The id of a request: the client's, or a new one.
#[derive(Debug, Clone)]
pub(super) struct RequestId(pub(super) String);

/// Gives the request its id, and turns a panic into its answer.
pub(in crate::http) async fn guard(mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    request.extensions_mut().insert(RequestId(id.clone()));
    let span = tracing::info_span!("request", id, method = %request.method(), path = request.uri().path());
    let peer = request.extensions().get::<ConnectInfo<Peer>>();
    let _answering = peer.map(|ConnectInfo(peer)| peer.request());
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span).await;
    let mut response = answered.unwrap_or_else(|_| RestError::internal("a request handler panicked").into_response());
    if let Some(error) = response.extensions_mut().remove::<RestError>() {
        *response.body_mut() = error.response(Some(&id)).into_body();
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// Returns the id that a client gives its request, or a new one.
pub(crate) fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let usable = |id: &&str| (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    given.filter(usable).map_or_else(|| format!("{:032x}", rand::random::<u128>()), str::to_owned)
}

/// Ends a request that takes longer than it may.
pub(in crate::http) async fn limit_time(
    State(shared): State<Arc<HttpShared>>,
    request: Request,
    next: Next,
) -> Response {
    let limit = shared.config.request_timeout.get();
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!("the request took longer than {limit:?}");
            RestError::new(StatusCode::REQUEST_TIMEOUT, Code::ServiceUnavailable, message).into_response()
        }
    }
}

/// Returns the engine, once the gateway is ready.
///
/// # Errors
/// 503 while it starts.
pub(super) fn engine(shared: &HttpShared) -> Result<&Engine> {
    match shared.front.get() {
        Some(front) => Ok(&front.engine),
        None => {
            Err(RestError::new(StatusCode::SERVICE_UNAVAILABLE, Code::ServiceUnavailable, "the gateway is starting"))
        }
    }
}

#[derive(Debug, Deserialize)]
struct Delimiter {
    delimiter: Option<String>,
}

/// The `{id}` of a path, split.
#[derive(Debug)]
pub(super) struct Id {
    /// As it came, decoded.
    pub(super) text: String,
    /// What joins its components.
    pub(super) delimiter: String,
}

impl Id {
    /// Returns the object that it names.
    pub(super) fn object(&self) -> Result<ObjectName> {
        names::object(&self.text, &self.delimiter)
    }

    /// Returns the namespace that it names.
    pub(super) fn namespace(&self) -> Result<Vec<String>> {
        names::components(&self.text, &self.delimiter)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let bad = |_| RestError::invalid("the path or its parameters cannot be read");
        let Path(text) = Path::<PathId>::from_request_parts(parts, state).await.map_err(|_| bad(()))?;
        let Query(query) = Query::<Delimiter>::from_request_parts(parts, state).await.map_err(|_| bad(()))?;
        Ok(Self { text: text.id, delimiter: query.delimiter.unwrap_or_else(|| names::DELIMITER.to_owned()) })
    }
}

#[derive(Debug, Deserialize)]
struct PathId {
    id: String,
}

/// A JSON body; an empty one is `{}`, whatever its media type says, because many
/// requests of the clients have none. What the specification lets every request
/// have beside its own fields is taken out: `id`, `identity`, `context`.
#[derive(Debug)]
pub(super) struct Body<T>(pub(super) T);

/// As [`Body`], with the `id` that it repeats.
#[derive(Debug)]
pub(super) struct BodyWithId<T> {
    /// The components of the id.
    pub(super) id: Option<Vec<String>>,
    /// The rest.
    pub(super) body: T,
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = RestError;

    async fn from_request(request: Request, state: &S) -> Result<Self> {
        let BodyWithId { id: _, body } = BodyWithId::from_request(request, state).await?;
        Ok(Self(body))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for BodyWithId<T> {
    type Rejection = RestError;

    async fn from_request(request: Request, state: &S) -> Result<Self> {
        let bytes = bytes(request, state).await?;
        let text: &[u8] = if bytes.iter().all(u8::is_ascii_whitespace) { b"{}" } else { &bytes };
        if text.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return Err(RestError::invalid("the body is not a JSON object"));
        }
        if depth(text) > DEPTH_MAX {
            return Err(RestError::invalid(format!("the body is nested deeper than {DEPTH_MAX}")));
        }
        let bad = |error| RestError::invalid(format!("the body is not what is expected: {error}"));
        let mut fields: Map<String, Value> = serde_json::from_slice(text).map_err(bad)?;
        fields.remove("identity");
        fields.remove("context");
        let id = fields.remove("id").map(serde_json::from_value).transpose().map_err(bad)?.flatten();
        let body = strict::from_fields(fields).map_err(bad)?;
        Ok(Self { id, body })
    }
}

/// How long a body that is read as a whole may take to come.
const BODY_TIME_MAX: Duration = Duration::from_secs(60);

/// Reads a body as a whole.
///
/// # Errors
/// 413 if it is too long, 408 if it does not come, which nothing else bounds on routes
/// that may take long.
pub(super) async fn bytes<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes> {
    match tokio::time::timeout(BODY_TIME_MAX, Bytes::from_request(request, state)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(rejected)) => Err(RestError::new(rejected.status(), Code::InvalidInput, rejected.body_text())),
        Err(_) => {
            let message = format!("the body did not come within {BODY_TIME_MAX:?}");
            Err(RestError::new(StatusCode::REQUEST_TIMEOUT, Code::ServiceUnavailable, message))
        }
    }
}

/// How deep a body may be nested.
const DEPTH_MAX: usize = 64;

/// Returns how deep a JSON text is nested.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0usize, 0, false, false);
    for byte in text {
        match (quoted, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => quoted = !quoted,
            (false, b'[' | b'{') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// How far a listing goes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct Page {
    /// The most entries.
    pub(super) limit: Option<u32>,
    /// What the page before it ended with.
    pub(super) page_token: Option<String>,
}

/// The parameters of a listing; unknown ones, as clients add them, are passed over.
#[derive(Debug)]
pub(super) struct PageOf(pub(super) Page);

impl<S: Send + Sync> FromRequestParts<S> for PageOf {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let Query(page) = Query::<Page>::from_request_parts(parts, state)
            .await
            .map_err(|error| RestError::invalid(error.body_text()))?;
        Ok(Self(page))
    }
}

/// The most entries of one page if the request does not say.
const PAGE_DEFAULT: usize = 10_000;

/// Cuts a page out of names that are sorted. The token is the last name of a page.
pub(super) fn page(mut names: Vec<String>, asked: &Page) -> (Vec<String>, Option<String>) {
    names.sort_unstable();
    if let Some(after) = asked.page_token.as_deref().filter(|token| !token.is_empty()) {
        names.retain(|name| name.as_str() > after);
    }
    let limit = asked.limit.map_or(PAGE_DEFAULT, |limit| limit as usize);
    let more = names.len() > limit;
    names.truncate(limit);
    let token = if more { names.last().cloned() } else { None };
    (names, token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r02_brackets_in_texts_are_no_depth() {
        assert_eq!(depth(br#"{"a": ["[[[", {"\"[": 1}]}"#), 3);
        assert_eq!(depth(b"]]][["), 2);
    }

    #[test]
    fn pages_follow_each_other_without_a_gap() {
        let names = || ["c", "a", "b"].map(str::to_owned).to_vec();
        let first = Page { limit: Some(2), page_token: None };
        assert_eq!(page(names(), &first), (vec!["a".to_owned(), "b".to_owned()], Some("b".to_owned())));
        let second = Page { limit: Some(2), page_token: Some("b".to_owned()) };
        assert_eq!(page(names(), &second), (vec!["c".to_owned()], None));
        assert_eq!(page(names(), &Page { limit: Some(0), page_token: None }), (Vec::new(), None));
    }
}
