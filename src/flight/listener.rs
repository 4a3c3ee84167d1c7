//! Sockets: how many are open, TLS, and how long one may take to say who it is.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

/// A connection on which nobody has authenticated is closed after this time, TLS
/// handshake included, whatever it sends.
const AUTHENTICATION_TIME_MAX: Duration = Duration::from_secs(60);
/// The TLS handshake alone.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// The certificate that the next connection is served.
pub struct FlightTls(RwLock<TlsAcceptor>);

impl FlightTls {
    /// Serves a certificate.
    pub fn new(acceptor: TlsAcceptor) -> Self {
        Self(RwLock::new(acceptor))
    }

    /// Serves another one from the next connection on.
    pub fn replace(&self, acceptor: TlsAcceptor) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
    }

    fn get(&self) -> TlsAcceptor {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for FlightTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightTls").finish_non_exhaustive()
    }
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    /// Where he is.
    pub(super) address: SocketAddr,
    /// Whether he came through TLS.
    pub(super) tls: bool,
    authenticated: Arc<AtomicBool>,
}

impl Peer {
    /// Says that a call of this connection has proved who sends it.
    pub(super) fn has_authenticated(&self) {
        self.authenticated.store(true, Ordering::Release);
    }
}

/// Accepts connections until `stop` fires or nobody takes them any more.
pub(super) fn incoming(
    mut listener: TcpListener,
    connections_max: usize,
    tls: Option<Arc<FlightTls>>,
    stop: CancellationToken,
) -> impl Stream<Item = io::Result<Connection>> + Send + 'static {
    let (sender, mut receiver) = mpsc::channel(1);
    let places = Arc::new(Semaphore::new(connections_max));
    tokio::spawn(async move {
        let accepting = async {
            loop {
                // The next connection waits in the kernel's queue until one is closed.
                let place = Arc::clone(&places).acquire_owned().await.expect("the semaphore is never closed");
                // axum's implementation for a plain listener logs and retries.
                let (socket, address) = axum::serve::Listener::accept(&mut listener).await;
                let (sender, tls) = (sender.clone(), tls.as_ref().map(|tls| tls.get()));
                tokio::spawn(async move {
                    if let Some(connection) = Connection::open(socket, address, tls, place).await {
                        // The server is gone, and so is the connection.
                        let _ = sender.send(Ok(connection)).await;
                    }
                });
            }
        };
        tokio::select! {
            () = accepting => {}
            () = stop.cancelled() => {}
            () = sender.closed() => {}
        }
    });
    futures::stream::poll_fn(move |ctx| receiver.poll_recv(ctx))
}

type Socket = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A connection that has a place, and a deadline until it authenticates.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
    peer: Peer,
    deadline: Option<Pin<Box<Sleep>>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    async fn open(
        socket: TcpStream,
        address: SocketAddr,
        tls: Option<TlsAcceptor>,
        place: OwnedSemaphorePermit,
    ) -> Option<Self> {
        let deadline = Some(Box::pin(tokio::time::sleep(AUTHENTICATION_TIME_MAX)));
        // Small answers are whole messages.
        let _ = socket.set_nodelay(true);
        let socket = match tls {
            None => Either::Left(socket),
            Some(tls) => match tokio::time::timeout(HANDSHAKE_TIME_MAX, tls.accept(socket)).await {
                Ok(Ok(stream)) => Either::Right(Box::new(stream)),
                Ok(Err(error)) => {
                    tracing::debug!(%address, %error, "no TLS");
                    return None;
                }
                Err(_) => return None,
            },
        };
        let tls = matches!(socket, Socket::Right(_));
        let peer = Peer { address, tls, authenticated: Arc::default() };
        Some(Self { socket, peer, deadline, _place: place })
    }

    /// Fails once the time to authenticate is over.
    fn watch(&mut self, ctx: &mut Context<'_>) -> io::Result<()> {
        let Some(deadline) = &mut self.deadline else { return Ok(()) };
        if self.peer.authenticated.load(Ordering::Acquire) {
            self.deadline = None;
            return Ok(());
        }
        match deadline.as_mut().poll(ctx) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => Err(io::Error::from(io::ErrorKind::TimedOut)),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, ctx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.watch(ctx)?;
        Pin::new(&mut self.socket).poll_read(ctx, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, ctx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(ctx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(ctx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(ctx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(ctx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
