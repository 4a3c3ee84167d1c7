//! The HTTP server: health, readiness, metrics, and the REST API.
//!
//! Limits come first: connections, silence and body bytes are bounded for every
//! route, and the time of a request for every one that does not move rows.

use std::future::IntoFuture as _;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Extension};
use axum::middleware;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::shutdown::Readiness;
use lancegate_engine::config::HttpConfig;
use lancegate_engine::metrics::Metrics;

mod health;
mod listener;
mod reply;
pub mod rest;

use rest::Front;

/// What every handler may use.
#[derive(Debug)]
pub struct HttpShared {
    /// The section `[http]`.
    pub config: HttpConfig,
    /// Where the gateway stands.
    pub readiness: Arc<Readiness>,
    /// What `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// What the REST API stands on, once it is open.
    pub front: OnceLock<Front>,
}

/// Answers requests until `stop` fires and open requests have ended.
///
/// Dropping the future closes every connection at once.
///
/// # Errors
/// The listener fails for good.
pub async fn serve(listener: TcpListener, shared: Arc<HttpShared>, stop: CancellationToken) -> std::io::Result<()> {
    // Twice, so that a slow answer runs into the limit of the request, which
    // says what happened, and not into the silence of its connection.
    let silence = shared.config.request_timeout.get() * 2;
    let limited = listener::Limited::new(listener, shared.config.max_connections, silence);
    let service = router(shared).into_make_service_with_connect_info::<listener::Peer>();
    axum::serve(limited, service).with_graceful_shutdown(stop.cancelled_owned()).into_future().await
}

fn router(shared: Arc<HttpShared>) -> Router {
    let body_bytes_max = shared.config.body_bytes_max.as_usize();
    let (quick, mut registered) = rest::quick().into_parts();
    let (long, of_long) = rest::long().into_parts();
    let (beside, of_beside) = beside().into_parts();
    registered.extend(of_long);
    registered.extend(of_beside);
    let document: Arc<str> = rest::openapi::document(&registered).to_string().into();
    let quick = Router::new()
        .merge(beside)
        .merge(rest::wrap(quick))
        .fallback(reply::not_found)
        .method_not_allowed_fallback(reply::method_not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), rest::limit_time));
    Router::new()
        .merge(rest::wrap(long))
        .merge(quick)
        .layer(Extension(health::Document(document)))
        // Rows are read as they come, and have a limit of their own.
        .layer(DefaultBodyLimit::max(body_bytes_max))
        .layer(middleware::from_fn(rest::guard))
        .with_state(shared)
}

/// The routes beside the API, which nobody has to authenticate for.
fn beside() -> rest::Routes {
    let mut routes = rest::Routes::default();
    let [alive, ready, metrics, document] = rest::beside();
    routes.plain("/healthz", health::alive, alive);
    routes.plain("/readyz", health::ready, ready);
    routes.plain("/metrics", health::metrics, metrics);
    routes.plain(rest::openapi::PATH, health::document, document);
    routes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shutdown::Stage;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    fn shared(request_timeout: &str) -> Arc<HttpShared> {
        let config = format!(
            "listen = '127.0.0.1:0'\nmax_connections = 1\nbody_bytes_max = '1KiB'\n\
                              upload_bytes_max = '1KiB'\nrequest_timeout = '{request_timeout}'\nallow_plaintext = false"
        );
        Arc::new(HttpShared {
            config: toml::from_str(&config).unwrap(),
            readiness: Arc::default(),
            metrics: Arc::default(),
            front: OnceLock::new(),
        })
    }

    async fn start(shared: &Arc<HttpShared>) -> (std::net::SocketAddr, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, Arc::clone(shared), stop.clone()));
        (address, stop)
    }

    async fn request(address: std::net::SocketAddr, line: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn readiness_follows_the_stage_and_health_does_not() {
        let shared = shared("5s");
        let (address, _stop) = start(&shared).await;
        assert!(request(address, "GET /readyz").await.starts_with("HTTP/1.1 503"));
        shared.readiness.advance(Stage::Ready);
        assert!(request(address, "GET /readyz").await.starts_with("HTTP/1.1 200"));
        shared.readiness.advance(Stage::Stopping);
        assert!(request(address, "GET /readyz").await.starts_with("HTTP/1.1 503"));
        assert!(request(address, "GET /healthz").await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn what_does_not_exist_is_said_in_json() {
        let (address, _stop) = start(&shared("5s")).await;
        let answer = request(address, "GET /nothing").await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        assert!(answer.ends_with("{\"error\":\"there is no GET /nothing\",\"code\":0}"), "{answer}");
        let answer = request(address, "DELETE /healthz").await;
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    }

    #[tokio::test]
    async fn a_silent_connection_gives_its_place_to_the_next() {
        let (address, _stop) = start(&shared("200ms")).await;
        let _silent = TcpStream::connect(address).await.unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(10), request(address, "GET /healthz")).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}
