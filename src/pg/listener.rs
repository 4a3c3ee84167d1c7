//! The accept loop and the life of one connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;
use tracing::field::Empty;

use crate::pg::admission::Waiting;
use crate::pg::connection::Transport;
use crate::pg::session_loop::SessionLoop;
use crate::pg::startup::{Failed, StartupError, open};
use crate::pg::{PgShared, reply};
use lancegate_engine::error::SqlError;

/// Pause after a failed accept: without file descriptors it fails at once and
/// for ever.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Idle time after which the kernel asks whether the peer is still there.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Time for the last words of a connection.
pub(in crate::pg) const GOODBYE: Duration = Duration::from_secs(5);

/// Serves `listener` until `shutdown` fires, then lets sessions end: idle ones
/// at once with 57P01, running statements within the grace periods of the
/// configuration. Returns when all are gone or the time is up.
pub async fn serve(listener: TcpListener, shared: Arc<PgShared>, shutdown: CancellationToken) {
    // Accepted sockets inherit it.
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME).with_interval(KEEPALIVE_INTERVAL);
    if let Err(error) = SockRef::from(&listener).set_tcp_keepalive(&keepalive) {
        tracing::warn!(%error, "TCP keepalive is not available");
    }
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => accept(&connections, &shared, &shutdown, stream, peer),
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(listener);
    connections.close();
    let time = shared.config.shutdown_grace + shared.config.cancel_grace + GOODBYE;
    if tokio::time::timeout(time, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "connections are left behind");
    }
}

fn accept(
    connections: &TaskTracker,
    shared: &Arc<PgShared>,
    shutdown: &CancellationToken,
    stream: TcpStream,
    peer: SocketAddr,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY is not available");
    }
    match shared.admission.enter(peer.ip()) {
        Ok(waiting) => {
            let connection = Incoming { shared: Arc::clone(shared), shutdown: shutdown.clone(), peer, waiting };
            let span = tracing::info_span!("connection", %peer, session = Empty, user = Empty, database = Empty);
            connections.spawn(connection.run(stream).instrument(span));
        }
        Err(error) => {
            shared.metrics.connections_refused.inc();
            refuse(&stream, &error);
        }
    }
}

/// Tells a surplus client why, if the socket takes it at once; nothing is
/// spent on waiting for it.
fn refuse(stream: &TcpStream, error: &SqlError) {
    let mut out = bytes::BytesMut::new();
    reply::put_fatal(&mut out, error);
    let _ = stream.try_write(&out);
}

/// A socket that has said nothing yet.
#[derive(Debug)]
struct Incoming {
    shared: Arc<PgShared>,
    shutdown: CancellationToken,
    peer: SocketAddr,
    waiting: Waiting,
}

impl Incoming {
    async fn run<T: Transport>(self, stream: T) {
        let Self { shared, shutdown, peer, waiting } = self;
        let opening = tokio::time::timeout(shared.config.authentication_timeout, open(&shared, stream, peer.ip()));
        let opened = tokio::select! {
            opened = opening => opened,
            () = shutdown.cancelled() => return,
        };
        match opened {
            Ok(Ok(opened)) => {
                drop(waiting);
                SessionLoop::new(shared, opened, shutdown).run().await;
            }
            Ok(Err(failed)) => farewell(&shared, failed).await,
            Err(_) => tracing::info!("authentication timed out"),
        }
    }
}

/// Ends a connection that did not become a session.
async fn farewell<T: Transport>(shared: &PgShared, (connection, error): Failed<T>) {
    let StartupError::Refused(error) = error else { return };
    match error.code.as_str() {
        "53300" => shared.metrics.connections_refused.inc(),
        // 28: invalid authorization, 3D: a database that does not exist.
        code if code.starts_with("28") || code.starts_with("3D") => shared.metrics.logins_failed.inc(),
        _ => 0,
    };
    tracing::info!(code = %error.code, error = error.message, "connection refused");
    if let Some(mut connection) = connection {
        reply::put_fatal(&mut connection.out, &error);
        connection.finish(GOODBYE).await;
    }
}
