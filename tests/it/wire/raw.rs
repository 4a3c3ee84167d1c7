//! A client that sends what it is told and shows every message it gets.

use std::net::SocketAddr;
use std::time::Duration;

use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::harness::Gateway;

/// Nothing here takes longer, not even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// The user and the database that a gateway starts with.
pub(crate) const USER: &str = "lancegate";

/// One message of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) kind: char,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// Returns a field of an error or notice.
    pub(crate) fn field(&self, code: char) -> Option<String> {
        let fields = self.body.split(|byte| *byte == 0);
        let mut found = fields.filter(|field| field.first() == Some(&(code as u8)));
        found.next().map(|field| String::from_utf8(field[1..].to_vec()).unwrap())
    }

    /// Returns the text of a command tag.
    pub(crate) fn tag(&self) -> String {
        assert_eq!(self.kind, 'C', "{self:?}");
        String::from_utf8(self.body[..self.body.len() - 1].to_vec()).unwrap()
    }

    /// Returns the columns of a row as text.
    pub(crate) fn row(&self) -> Vec<Option<String>> {
        assert_eq!(self.kind, 'D', "{self:?}");
        let mut rest = &self.body[2..];
        let mut columns = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            match i32::from_be_bytes(*length) {
                -1 => (columns.push(None), rest = after).1,
                length => {
                    let (value, after) = after.split_at(length as usize);
                    columns.push(Some(String::from_utf8(value.to_vec()).unwrap()));
                    rest = after;
                }
            }
        }
        columns
    }
}

/// A raw connection.
#[derive(Debug)]
pub(crate) struct Raw<S = TcpStream> {
    pub(crate) stream: S,
    /// Process id and secret of BackendKeyData.
    pub(crate) key: (i32, Vec<u8>),
}

impl Raw {
    /// Opens a socket and says nothing.
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        Self { stream, key: (0, Vec::new()) }
    }

    /// Opens a session.
    pub(crate) async fn session(gateway: &Gateway) -> Self {
        let mut raw = Self::open(gateway.pg_addr()).await;
        raw.send(&startup(0, &[("user", USER), ("database", USER)])).await;
        raw.log_in(gateway.password()).await;
        let replies = raw.until_ready().await;
        assert!(replies.iter().all(|reply| reply.kind != 'E'), "{replies:?}");
        raw
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Raw<S> {
    /// Speaks over a stream that is open.
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, key: (0, Vec::new()) }
    }

    /// Answers the SCRAM exchange; what follows it is not read.
    pub(crate) async fn log_in(&mut self, password: &str) {
        let offer = self.next().await.unwrap();
        assert_eq!((offer.kind, &offer.body[..4]), ('R', &10_u32.to_be_bytes()[..]), "{offer:?}");
        let mut scram = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
        let mut first = b"SCRAM-SHA-256\0".to_vec();
        first.extend((scram.message().len() as u32).to_be_bytes());
        first.extend(scram.message());
        self.send(&message(b'p', &first)).await;
        let challenge = self.next().await.unwrap();
        assert_eq!(challenge.kind, 'R', "{challenge:?}");
        scram.update(&challenge.body[4..]).unwrap();
        self.send(&message(b'p', scram.message())).await;
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        timeout(PATIENCE, self.stream.write_all(bytes)).await.unwrap().unwrap();
    }

    /// Returns the next message, or `None` once the server has closed.
    pub(crate) async fn next(&mut self) -> Option<Reply> {
        let mut header = [0; 5];
        timeout(PATIENCE, self.stream.read_exact(&mut header)).await.expect("an answer in time").ok()?;
        let length = u32::from_be_bytes(header[1..].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 4];
        timeout(PATIENCE, self.stream.read_exact(&mut body)).await.unwrap().ok()?;
        if header[0] == b'K' {
            self.key = (i32::from_be_bytes(body[..4].try_into().unwrap()), body[4..].to_vec());
        }
        Some(Reply { kind: header[0].into(), body })
    }

    /// Returns the messages up to ReadyForQuery, or up to the end.
    pub(crate) async fn until_ready(&mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        while let Some(reply) = self.next().await {
            let ready = reply.kind == 'Z';
            replies.push(reply);
            if ready {
                break;
            }
        }
        replies
    }

    /// Sends messages and returns the kinds of the answers.
    pub(crate) async fn exchange(&mut self, messages: &[Vec<u8>]) -> Vec<Reply> {
        self.send(&messages.concat()).await;
        self.until_ready().await
    }

    /// Runs a simple query.
    pub(crate) async fn query(&mut self, sql: &str) -> Vec<Reply> {
        self.exchange(&[query(sql)]).await
    }

    /// Ensures that the server says `code`, FATAL, and closes.
    pub(crate) async fn expect_fatal(&mut self, code: &str) {
        let mut last = None;
        while let Some(reply) = self.next().await {
            assert_ne!(reply.kind, 'Z', "the session was opened");
            last = Some(reply);
        }
        let last = last.expect("an error before the end");
        assert_eq!((last.kind, last.field('S').as_deref()), ('E', Some("FATAL")), "{last:?}");
        assert_eq!(last.field('C').as_deref(), Some(code), "{last:?}");
    }
}

/// Returns the kinds of messages as one word, for example `TDCZ`.
pub(crate) fn kinds(replies: &[Reply]) -> String {
    replies.iter().map(|reply| reply.kind).filter(|kind| *kind != 'S' && *kind != 'N').collect()
}

/// Returns the first error's code.
pub(crate) fn code(replies: &[Reply]) -> Option<String> {
    replies.iter().find(|reply| reply.kind == 'E').and_then(|reply| reply.field('C'))
}

/// Returns a message.
pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// Returns a start-up packet of protocol 3.`minor`.
pub(crate) fn startup(minor: u16, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = [0, 3].to_vec();
    body.extend(minor.to_be_bytes());
    for (name, value) in parameters {
        body.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
    }
    body.push(0);
    packet(&body)
}

/// Returns a packet without a type byte.
pub(crate) fn packet(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

pub(crate) fn ssl_request() -> Vec<u8> {
    packet(&80_877_103_u32.to_be_bytes())
}

pub(crate) fn gssenc_request() -> Vec<u8> {
    packet(&80_877_104_u32.to_be_bytes())
}

pub(crate) fn cancel_request((pid, secret): &(i32, Vec<u8>)) -> Vec<u8> {
    packet(&[&80_877_102_u32.to_be_bytes()[..], &pid.to_be_bytes(), secret].concat())
}

pub(crate) fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

pub(crate) fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', &[name.as_bytes(), b"\0", sql.as_bytes(), b"\0\0\0"].concat())
}

/// Binds text parameters, with text results.
pub(crate) fn bind(portal: &str, statement: &str, parameters: &[&str]) -> Vec<u8> {
    let mut body = [portal.as_bytes(), b"\0", statement.as_bytes(), b"\0\0\0"].concat();
    body.extend((parameters.len() as u16).to_be_bytes());
    for parameter in parameters {
        body.extend((parameter.len() as u32).to_be_bytes());
        body.extend(parameter.as_bytes());
    }
    body.extend([0, 0]);
    message(b'B', &body)
}

pub(crate) fn describe(target: u8, name: &str) -> Vec<u8> {
    message(b'D', &[&[target], name.as_bytes(), b"\0"].concat())
}

pub(crate) fn execute(portal: &str, max_rows: u32) -> Vec<u8> {
    message(b'E', &[portal.as_bytes(), b"\0", &max_rows.to_be_bytes()].concat())
}

pub(crate) fn close(target: u8, name: &str) -> Vec<u8> {
    message(b'C', &[&[target], name.as_bytes(), b"\0"].concat())
}

pub(crate) fn sync() -> Vec<u8> {
    message(b'S', b"")
}
