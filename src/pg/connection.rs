//! A socket with its two buffers.
//!
//! Reading and writing go on at the same time, so a client that sends while it
//! does not read, or the reverse, cannot block us. Both buffers are bounded,
//! and a client that leaves its socket full for too long is given up.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use lancegate_wire::{FrontendMessage, Phase, WireError, decode_frontend};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

/// Output that is collected before the producer has to wait.
pub(in crate::pg) const OUT_BYTES_MAX: usize = 64 * 1024;
/// Space that a read is given at least.
const READ_BYTES: usize = 8 * 1024;
/// What may be buffered beyond one message of the largest size.
const PIPELINE_BYTES_MAX: usize = 256 * 1024;
/// What is read and dropped from a client that was told goodbye.
const LINGER_BYTES_MAX: u64 = 256 * 1024;

/// Anything that carries the protocol: TCP, TLS over TCP, a test's pipe.
pub(in crate::pg) trait Transport: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static> Transport for T {}

/// The peer is gone or cannot be served any longer; nobody is left to tell.
#[derive(Debug, thiserror::Error)]
pub(in crate::pg) enum Gone {
    /// The client closed its end.
    #[error("client closed the connection")]
    Closed,
    /// The socket failed, or stayed full for too long.
    #[error("connection lost")]
    Io(#[from] io::Error),
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pg) enum Progress {
    /// Bytes arrived.
    Read,
    /// Bytes left.
    Wrote,
}

/// Why the next message cannot be had.
#[derive(Debug)]
pub(in crate::pg) enum ReadError {
    /// See [`Gone`].
    Gone(Gone),
    /// The bytes are no message, or not one for this phase.
    Wire(WireError),
}

impl From<Gone> for ReadError {
    fn from(gone: Gone) -> Self {
        Self::Gone(gone)
    }
}

/// A socket and the bytes under way in both directions.
#[derive(Debug)]
pub(in crate::pg) struct Connection<S> {
    stream: S,
    inbound: BytesMut,
    inbound_bytes_max: usize,
    /// Output, appended by the `lancegate_wire::backend` functions.
    pub(in crate::pg) out: BytesMut,
    unflushed: bool,
    write_timeout: Duration,
    write_deadline: Option<Instant>,
}

impl<S: Transport> Connection<S> {
    /// Returns a connection whose messages are at most `message_bytes_max` long.
    pub(in crate::pg) fn new(stream: S, message_bytes_max: usize, write_timeout: Duration) -> Self {
        Self {
            stream,
            inbound: BytesMut::new(),
            inbound_bytes_max: message_bytes_max + PIPELINE_BYTES_MAX,
            out: BytesMut::new(),
            unflushed: false,
            write_timeout,
            write_deadline: None,
        }
    }

    /// Lets messages of another size in, once the client is known.
    pub(in crate::pg) fn allow_messages_of(&mut self, message_bytes_max: usize) {
        self.inbound_bytes_max = message_bytes_max + PIPELINE_BYTES_MAX;
    }

    /// Returns the bytes that arrived and were not taken.
    pub(in crate::pg) fn inbound(&mut self) -> &mut BytesMut {
        &mut self.inbound
    }

    /// Returns the socket, to look at it.
    pub(in crate::pg) fn stream(&self) -> &S {
        &self.stream
    }

    /// Returns the socket, to put TLS on it. Bytes in the buffers are lost; the
    /// caller has made sure there are none.
    pub(in crate::pg) fn into_stream(self) -> S {
        self.stream
    }

    /// Returns the next message, sending what is pending while it waits.
    ///
    /// Cancel-safe: bytes that arrived stay in the buffer.
    pub(in crate::pg) async fn next_message(&mut self, phase: Phase) -> Result<FrontendMessage, ReadError> {
        loop {
            match decode_frontend(&mut self.inbound, phase) {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => self.progress().await?,
                Err(error) => return Err(ReadError::Wire(error)),
            };
        }
    }

    /// Returns the type of the next message, if that has arrived to its last byte.
    pub(in crate::pg) fn next_type(&self) -> Option<u8> {
        let length = self.inbound.get(1..5)?.try_into().map(u32::from_be_bytes).ok()?;
        let arrived = self.inbound.len() as u64 > u64::from(length);
        self.inbound.first().copied().filter(|_| arrived)
    }

    /// Appends output that was encoded elsewhere.
    pub(in crate::pg) fn queue(&mut self, bytes: BytesMut) {
        if self.out.is_empty() {
            self.out = bytes;
        } else {
            self.out.extend_from_slice(&bytes);
        }
    }

    /// Returns whether the producer may go on.
    pub(in crate::pg) fn has_room(&self) -> bool {
        self.out.len() < OUT_BYTES_MAX
    }

    /// Waits until the producer may go on.
    pub(in crate::pg) async fn make_room(&mut self) -> Result<(), Gone> {
        while !self.has_room() {
            self.progress().await?;
        }
        Ok(())
    }

    /// Sends everything.
    pub(in crate::pg) async fn flush(&mut self) -> Result<(), Gone> {
        while !self.out.is_empty() || self.unflushed {
            self.progress().await?;
        }
        Ok(())
    }

    /// Sends everything and reads nothing: behind a request for encryption the
    /// next bytes belong to the handshake.
    pub(in crate::pg) async fn flush_unread(&mut self) -> Result<(), Gone> {
        let inbound_bytes_max = std::mem::replace(&mut self.inbound_bytes_max, 0);
        let flushed = self.flush().await;
        self.inbound_bytes_max = inbound_bytes_max;
        flushed
    }

    /// Sends the last words of a connection that is being closed. The client
    /// has little time to take them.
    pub(in crate::pg) async fn finish(mut self, time: Duration) {
        let goodbye = async {
            if self.flush_unread().await.is_err() || self.stream.shutdown().await.is_err() {
                return;
            }
            // Closing with unread bytes would reset the connection, and the
            // client might never see why.
            let mut rest = (&mut self.stream).take(LINGER_BYTES_MAX);
            let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
        };
        // The connection is over either way.
        let _ = tokio::time::timeout(time, goodbye).await;
    }

    /// Reads or writes something, whichever is possible first.
    ///
    /// Cancel-safe: all state is in `self`.
    ///
    /// # Errors
    /// [`Gone`] if the peer closed its end or left the socket full too long.
    pub(in crate::pg) async fn progress(&mut self) -> Result<Progress, Gone> {
        let pending = !self.out.is_empty() || self.unflushed;
        if !pending {
            self.write_deadline = None;
        } else if self.write_deadline.is_none() {
            self.write_deadline = Some(Instant::now() + self.write_timeout);
        }
        let deadline = self.write_deadline;
        let step = poll_fn(|cx| self.poll_progress(cx));
        match deadline {
            None => step.await,
            Some(at) => {
                timeout_at(at, step).await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
            }
        }
    }

    fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<Result<Progress, Gone>> {
        let wrote = self.poll_write(cx)?;
        if wrote {
            self.write_deadline = None;
        }
        match self.poll_read(cx) {
            Poll::Ready(read) => Poll::Ready(read.map(|()| Progress::Read)),
            Poll::Pending if wrote => Poll::Ready(Ok(Progress::Wrote)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Writes as much as the socket takes; returns whether that was anything.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<bool, Gone> {
        let mut wrote = false;
        while !self.out.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.out)? {
                Poll::Ready(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Poll::Ready(count) => {
                    self.out.advance(count);
                    self.unflushed = true;
                    wrote = true;
                }
                Poll::Pending => return Ok(wrote),
            }
        }
        if self.unflushed && Pin::new(&mut self.stream).poll_flush(cx)?.is_ready() {
            self.unflushed = false;
            wrote = true;
        }
        Ok(wrote)
    }

    /// Reads once, unless the buffer is full: then the client has to wait, and
    /// its disappearance is noticed by the next write.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        if self.inbound.len() >= self.inbound_bytes_max {
            return Poll::Pending;
        }
        self.inbound.reserve(READ_BYTES);
        let read = pin!(self.stream.read_buf(&mut self.inbound));
        match ready!(read.poll(cx)) {
            Ok(0) => Poll::Ready(Err(Gone::Closed)),
            Ok(_) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use lancegate_wire::backend;

    use super::*;

    const READY: Phase = Phase::Ready { message_bytes_max: 1024 };

    fn connection(stream: tokio::io::DuplexStream) -> Connection<tokio::io::DuplexStream> {
        Connection::new(stream, 1024, Duration::from_secs(60))
    }

    #[tokio::test]
    async fn a_message_in_pieces_is_put_together_and_the_next_one_waits() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut connection = connection(server);
        client.write_all(b"S\0\0").await.unwrap();
        let early = tokio::time::timeout(Duration::from_millis(10), connection.next_message(READY)).await;
        assert!(early.is_err());
        client.write_all(b"\0\x04H\0\0\0\x04").await.unwrap();
        assert_eq!(connection.next_message(READY).await.unwrap(), FrontendMessage::Sync);
        assert_eq!(connection.next_message(READY).await.unwrap(), FrontendMessage::Flush);
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_given_up() {
        let (_client, server) = tokio::io::duplex(64);
        let mut connection = Connection::new(server, 1024, Duration::from_millis(20));
        for _ in 0..100 {
            backend::parse_complete(&mut connection.out);
        }
        let error = connection.flush().await.unwrap_err();
        assert!(matches!(error, Gone::Io(error) if error.kind() == io::ErrorKind::TimedOut));
    }

    #[tokio::test]
    async fn a_client_may_send_before_it_reads() {
        let (mut client, server) = tokio::io::duplex(16);
        let mut connection = connection(server);
        for _ in 0..20 {
            backend::parse_complete(&mut connection.out);
        }
        let sent = tokio::spawn(async move {
            client.write_all(&[0; 100]).await.unwrap();
            let mut replies = vec![0; 100];
            client.read_exact(&mut replies).await.unwrap();
            client
        });
        connection.flush().await.unwrap();
        let _client = sent.await.unwrap();
        assert!(connection.inbound().len() >= 84);
    }

    #[tokio::test]
    async fn a_closed_client_is_noticed() {
        let (client, server) = tokio::io::duplex(16);
        drop(client);
        assert!(matches!(connection(server).progress().await, Err(Gone::Closed)));
    }
}
