//! A listener that bounds how many connections are open, how long one may be
//! silent, and how long the head of a request may take, because the server above
//! it has none of these limits.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// The head of a request must be there so long after its first byte.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// At most so many connections, each closed after a silence.
#[derive(Debug)]
pub(super) struct Limited {
    listener: TcpListener,
    places: Arc<Semaphore>,
    silence: Duration,
}

impl Limited {
    pub(super) fn new(listener: TcpListener, connections_max: usize, silence: Duration) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(connections_max)), silence }
    }
}

impl Listener for Limited {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // The next connection waits in the kernel's queue until one is closed.
        let place = Arc::clone(&self.places).acquire_owned().await.expect("the semaphore is never closed");
        // axum's implementation for a plain listener logs and retries.
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        let connection = Connection {
            stream,
            silence: self.silence,
            deadline: Box::pin(tokio::time::sleep(self.silence)),
            requests: Arc::default(),
            head_began: None,
            _place: place,
        };
        (connection, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Who is at the other end of a connection, and whether he waits for an answer.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    /// Where he is.
    pub(super) address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Peer {
    /// Says that the head of a request is there; the guard, that it is answered.
    pub(super) fn request(&self) -> Answering {
        self.requests.fetch_add(1, Ordering::AcqRel);
        Answering(Arc::clone(&self.requests))
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Answering(Arc<AtomicUsize>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Connected<IncomingStream<'_, Limited>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Limited>) -> Self {
        Self { address: *stream.remote_addr(), requests: Arc::clone(&stream.io().requests) }
    }
}

/// A connection whose reads and writes fail after a silence, or when the head of a
/// request takes too long however steadily it drips.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    silence: Duration,
    deadline: Pin<Box<Sleep>>,
    /// Requests of this connection that are being answered.
    requests: Arc<AtomicUsize>,
    /// When the first byte of a head came that is not complete yet.
    head_began: Option<Instant>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// Moves the deadline after progress, or fails when it has passed.
    fn watch<T>(&mut self, ctx: &mut Context<'_>, read: bool, progress: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let now = Instant::now();
        let answering = self.requests.load(Ordering::Acquire) > 0;
        if answering {
            self.head_began = None;
        } else if read && progress.is_ready() {
            self.head_began.get_or_insert(now);
        }
        let head_ends = self.head_began.map(|began| began + HEAD_TIME_MAX);
        if progress.is_ready() {
            if head_ends.is_some_and(|ends| ends <= now) {
                return Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut)));
            }
            let silent = now + self.silence;
            self.deadline.as_mut().reset(head_ends.map_or(silent, |ends| ends.min(silent)));
            return progress;
        }
        if answering && read {
            // Who waits for an answer is silent for as long as it takes; who is in
            // the middle of a body is the handler's business.
            self.deadline.as_mut().reset(now + self.silence);
            return Poll::Pending;
        }
        ready!(self.deadline.as_mut().poll(ctx));
        Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut)))
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, ctx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_read(ctx, into);
        self.watch(ctx, true, progress)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, ctx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(ctx, bytes);
        self.watch(ctx, false, progress)
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(ctx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(ctx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(ctx, parts);
        self.watch(ctx, false, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
