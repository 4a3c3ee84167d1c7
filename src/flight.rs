//! Arrow Flight SQL: statements and rows as ADBC drivers and LanceDB's own clients send
//! them, on a port of its own.
//!
//! A call is authenticated by its headers before its body is read. It becomes one
//! statement, which is planned, authorized and executed by the engine as everywhere
//! else; nothing here decides what a caller may do. Each call has a session of its own:
//! what lasts between calls are handles, which are of one user in one database, expire,
//! and are bounded in number and memory (`registry.rs`), and logins with their few
//! options (`logins.rs`).
//!
//! A statement runs apart from the call that started it and hands its rows over through
//! a queue of two batches (`statement.rs`), so a client that does not read stops its
//! statement and nothing else, and one that goes away ends it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Server;

use crate::http::rest::Front;

mod actions;
mod caller;
mod command;
mod error;
mod guard;
mod info;
mod ingest;
mod listener;
mod logins;
mod metadata;
mod prepared;
mod registry;
mod rows;
mod server_info;
mod service;
mod session_options;
mod statement;

use info::Held;
pub use listener::FlightTls;
use logins::Logins;
use prepared::Prepared;
use registry::{Bounds, Registry};

/// Calls of one connection at the same time; more wait at the client.
const CALLS_OF_CONNECTION: u32 = 64;
/// Statements of all connections at the same time.
const STATEMENTS_MAX: usize = 1_024;
/// The most bytes of the headers of one call.
const HEADER_BYTES_MAX: u32 = 32 << 10;
/// Calls that a client may open and give up before they are answered (CVE-2023-44487).
const RESET_CALLS_MAX: usize = 20;
/// Errors of the protocol that one connection may cause.
const ERROR_RESETS_MAX: usize = 128;
/// How often a silent client is asked whether it is still there, and how long it has.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// What may come of one call, and of one connection, before it is read.
const WINDOWS: (u32, u32) = (1 << 20, 4 << 20);
/// How long running statements may go on once the gateway is stopping.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);
/// How often is looked for what has expired.
const SWEEP: Duration = Duration::from_secs(10);

/// What all calls share.
#[derive(Debug)]
pub struct FlightShared {
    /// What statements stand on, once it is open.
    pub front: OnceLock<Front>,
    statement_timeout: Duration,
    upload_bytes_max: u64,
    message_bytes_max: usize,
    results: Registry<Held>,
    prepared: Registry<Prepared>,
    logins: Logins,
    places: Arc<Semaphore>,
    /// Fires once statements have to end because the gateway stops.
    closing: CancellationToken,
}

/// Limits of Flight SQL, as plain values.
#[derive(Debug, Clone, Copy)]
pub struct FlightLimits {
    /// The time of a statement, none if it is zero.
    pub statement_timeout: Duration,
    /// The longest message of a client in bytes.
    pub message_bytes_max: usize,
    /// The longest rows of one call in bytes.
    pub upload_bytes_max: u64,
}

impl FlightShared {
    /// Returns the shared part without a front, so that nothing is answered yet.
    pub fn new(limits: FlightLimits) -> Self {
        let bounds = |what, bytes_of_user, kept| Bounds { what, of_user: 256, of_all: 4_096, bytes_of_user, kept };
        Self {
            front: OnceLock::new(),
            statement_timeout: limits.statement_timeout,
            upload_bytes_max: limits.upload_bytes_max,
            message_bytes_max: limits.message_bytes_max,
            results: Registry::new(bounds("results that wait for their reader", 64 << 20, statement::STALL_MAX)),
            prepared: Registry::new(bounds("prepared statements", 64 << 20, Duration::from_secs(60 * 60))),
            logins: Logins::default(),
            places: Arc::new(Semaphore::new(STATEMENTS_MAX)),
            closing: CancellationToken::new(),
        }
    }

    fn sweep(&self) {
        self.results.sweep();
        self.prepared.sweep();
        self.logins.sweep();
    }
}

/// Answers calls until `stop` fires and open calls have ended.
///
/// Dropping the future closes every connection at once.
///
/// # Errors
/// The listener fails for good.
pub async fn serve(
    listener: TcpListener,
    (shared, connections_max): (Arc<FlightShared>, usize),
    tls: Option<Arc<FlightTls>>,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let _sweeper = AbortOnDropHandle::new(tokio::spawn(sweep(Arc::clone(&shared))));
    let _closer = AbortOnDropHandle::new(tokio::spawn(close(Arc::clone(&shared), stop.clone())));
    let incoming = listener::incoming(listener, connections_max, tls, stop.clone());
    let service = FlightServiceServer::new(service::Service(Arc::clone(&shared)))
        .max_decoding_message_size(shared.message_bytes_max)
        .max_encoding_message_size(usize::MAX);
    Server::builder()
        .max_concurrent_streams(CALLS_OF_CONNECTION)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_max_pending_accept_reset_streams(Some(RESET_CALLS_MAX))
        .http2_max_local_error_reset_streams(Some(ERROR_RESETS_MAX))
        .http2_keepalive_interval(Some(KEEPALIVE.0))
        .http2_keepalive_timeout(Some(KEEPALIVE.1))
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .serve_with_incoming_shutdown(guard::Guarded::new(service, shared), incoming, stop.cancelled_owned())
        .await
}

async fn sweep(shared: Arc<FlightShared>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        shared.sweep();
    }
}

async fn close(shared: Arc<FlightShared>, stop: CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(SHUTDOWN_GRACE).await;
    shared.closing.cancel();
}
