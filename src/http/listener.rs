//! A listener that bounds how many connections are open and how long one may
//! be silent, because the server above it has neither limit.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

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
            _place: place,
        };
        (connection, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection whose reads and writes fail after a silence.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    silence: Duration,
    deadline: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// Moves the deadline after progress, or fails when it has passed without any.
    fn watch<T>(&mut self, ctx: &mut Context<'_>, progress: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            let next = Instant::now() + self.silence;
            self.deadline.as_mut().reset(next);
            return progress;
        }
        ready!(self.deadline.as_mut().poll(ctx));
        Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut)))
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, ctx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_read(ctx, into);
        self.watch(ctx, progress)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, ctx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(ctx, bytes);
        self.watch(ctx, progress)
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
        self.watch(ctx, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
