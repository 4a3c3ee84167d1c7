//! The accept loop and the life of one connection.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;
use tracing::field::Empty;

use crate::pg::admission::Waiting;
use crate::pg::connection::Transport;
use crate::pg::origin::Origin;
use crate::pg::session_loop::SessionLoop;
use crate::pg::startup::{Failed, open};
use crate::pg::unix::UnixSocket;
use crate::pg::{PgShared, reply};

/// Pause after a failed accept: without file descriptors it fails at once and
/// for ever.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Idle time after which the kernel asks whether the peer is still there.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Time for the last words of a connection.
pub(in crate::pg) const GOODBYE: Duration = Duration::from_secs(5);

/// Serves both listeners until `shutdown` fires, then lets sessions end: idle ones
/// at once with 57P01, running statements within the grace periods of the
/// configuration. Returns when all are gone or the time is up.
pub async fn serve(
    listener: TcpListener,
    unix: Option<UnixSocket>,
    shared: Arc<PgShared>,
    shutdown: CancellationToken,
) {
    // Accepted sockets inherit it.
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME).with_interval(KEEPALIVE_INTERVAL);
    if let Err(error) = SockRef::from(&listener).set_tcp_keepalive(&keepalive) {
        tracing::warn!(%error, "TCP keepalive is not available");
    }
    let connections = TaskTracker::new();
    let door = Door { connections: &connections, shared: &shared, shutdown: &shutdown };
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted.map(|(stream, peer)| door.take_tcp(stream, Origin::Tcp(peer))),
            accepted = accept_unix(unix.as_ref()) => accepted.map(|stream| door.take_unix(stream)),
        };
        if let Err(error) = accepted {
            tracing::warn!(%error, "accept failed");
            tokio::time::sleep(ACCEPT_RETRY).await;
        }
    }
    drop((listener, unix));
    connections.close();
    let time = shared.config.shutdown_grace + shared.config.cancel_grace + GOODBYE;
    if tokio::time::timeout(time, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "connections are left behind");
    }
}

/// Never completes where there is no Unix socket.
async fn accept_unix(socket: Option<&UnixSocket>) -> io::Result<UnixStream> {
    match socket {
        Some(socket) => socket.listener.accept().await.map(|(stream, _)| stream),
        None => pending().await,
    }
}

/// Where sockets are let in.
struct Door<'a> {
    connections: &'a TaskTracker,
    shared: &'a Arc<PgShared>,
    shutdown: &'a CancellationToken,
}

impl Door<'_> {
    fn take_tcp(&self, stream: TcpStream, origin: Origin) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY is not available");
        }
        match self.enter(origin) {
            Ok(incoming) => self.spawn(incoming, stream),
            Err(goodbye) => drop(stream.try_write(&goodbye)),
        }
    }

    fn take_unix(&self, stream: UnixStream) {
        let user_id = stream.peer_cred().ok().map(|peer| peer.uid());
        match self.enter(Origin::Unix { user_id }) {
            Ok(incoming) => self.spawn(incoming, stream),
            Err(goodbye) => drop(stream.try_write(&goodbye)),
        }
    }

    /// Takes a place; a surplus client is told why, if its socket takes that at once:
    /// nothing is spent on waiting for it.
    fn enter(&self, origin: Origin) -> Result<Incoming, bytes::BytesMut> {
        match self.shared.admission.enter(origin.address()) {
            Ok(waiting) => {
                Ok(Incoming { shared: Arc::clone(self.shared), shutdown: self.shutdown.clone(), origin, waiting })
            }
            Err(error) => {
                self.shared.metrics.connections_refused.inc();
                let mut goodbye = bytes::BytesMut::new();
                reply::put_fatal(&mut goodbye, &error);
                Err(goodbye)
            }
        }
    }

    fn spawn<T: Transport>(&self, incoming: Incoming, stream: T) {
        let peer = incoming.origin;
        let span = tracing::info_span!("connection", %peer, session = Empty, user = Empty, database = Empty);
        self.connections.spawn(incoming.run(stream).instrument(span));
    }
}

/// A socket that has said nothing yet.
#[derive(Debug)]
struct Incoming {
    shared: Arc<PgShared>,
    shutdown: CancellationToken,
    origin: Origin,
    waiting: Waiting,
}

impl Incoming {
    async fn run<T: Transport>(self, stream: T) {
        let Self { shared, shutdown, origin, waiting } = self;
        let opened = tokio::select! {
            opened = open(&shared, stream, origin) => opened,
            () = shutdown.cancelled() => return,
        };
        match opened {
            Ok(opened) => {
                drop(waiting);
                SessionLoop::new(shared, opened, shutdown).run().await;
            }
            Err(failed) => farewell(&shared, failed).await,
        }
    }
}

/// Ends a connection that did not become a session.
async fn farewell<T: Transport>(shared: &PgShared, (connection, error): Failed<T>) {
    let Some(error) = error.told() else { return };
    match error.code.as_str() {
        "53300" => shared.metrics.connections_refused.inc(),
        // 28: invalid authorization, 3D: a database that does not exist.
        code if code.starts_with("28") || code.starts_with("3D") => shared.metrics.logins_failed.inc(),
        _ => 0,
    };
    tracing::info!(code = %error.code, error = error.message, "connection refused");
    if let Some(mut connection) = connection {
        reply::put_fatal(&mut connection.out, error);
        connection.finish(GOODBYE).await;
    }
}
