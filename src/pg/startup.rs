//! From the first byte of a socket to a session: encryption, protocol version,
//! authentication, and the parameters of the start-up packet.
//!
//! Whatever goes wrong here is FATAL and closes the socket; no error leaves a
//! connection that goes on.

use std::panic::AssertUnwindSafe;

use bytes::BytesMut;
use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use lancegate_auth::{CertificateNames, ChannelBinding};
use lancegate_wire::frame::{STARTUP_BYTES_MAX, ensure_nothing_buffered};
use lancegate_wire::{Startup, WireError, backend, decode_startup};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::server::TlsStream;

use crate::audit::Login;
use crate::pg::admission::{Admitted, Applicant};
use crate::pg::authenticate::{Attempt, Trail, authenticate};
use crate::pg::cancel::CancelKey;
use crate::pg::connection::{Connection, Gone, ReadError, Transport};
use crate::pg::origin::{Origin, Peer};
use crate::pg::tls::{PgTls, Prefixed, Socket, named_protocol};
use crate::pg::{PgShared, reply};
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::failpoint;
use lancegate_engine::session::{NoticeReceiver, Session, Settings};
use lancegate_engine::sqlstate::SqlState;

/// The newest minor version that is spoken.
const MINOR_MAX: u16 = 2;

/// A session that may begin.
#[derive(Debug)]
pub(in crate::pg) struct Opened<T> {
    pub(in crate::pg) connection: Connection<Socket<T>>,
    pub(in crate::pg) session: Session,
    pub(in crate::pg) notices: NoticeReceiver,
    pub(in crate::pg) key: CancelKey,
    pub(in crate::pg) place: Admitted,
    /// When what the client has proved stops being true.
    pub(in crate::pg) ends_at: Option<DateTime<Utc>>,
}

/// Why there is no session.
#[derive(Debug)]
pub(in crate::pg) enum StartupError {
    /// The peer is gone, or has what it came for (a CancelRequest).
    Over,
    /// The client is told, as FATAL.
    Refused(SqlError),
    /// The client is told, as FATAL; it only wanted to know where tokens are.
    Discovered(SqlError),
}

impl StartupError {
    /// Returns what the client is told.
    pub(in crate::pg) fn told(&self) -> Option<&SqlError> {
        match self {
            Self::Over => None,
            Self::Refused(error) | Self::Discovered(error) => Some(error),
        }
    }
}

impl From<SqlError> for StartupError {
    fn from(error: SqlError) -> Self {
        Self::Refused(error)
    }
}

impl From<WireError> for StartupError {
    fn from(error: WireError) -> Self {
        Self::Refused(reply::from_wire(&error))
    }
}

impl From<Gone> for StartupError {
    fn from(_: Gone) -> Self {
        Self::Over
    }
}

impl From<ReadError> for StartupError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Gone(gone) => gone.into(),
            ReadError::Wire(error) => error.into(),
        }
    }
}

/// The start-up packet, read.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    minor: u16,
    user: String,
    database: String,
    settings: Vec<(String, String)>,
    negotiate: Option<Vec<String>>,
}

/// As PostgreSQL says it.
fn timed_out() -> StartupError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling authentication due to timeout").into()
}

/// A place where a test makes a login fail.
pub(in crate::pg) async fn reach(place: &'static str) -> Result<(), StartupError> {
    failpoint::reach(place).await.map_err(|error| StartupError::Refused(error.into()))
}

/// A negotiation that failed keeps its connection, to say so.
pub(in crate::pg) type Failed<T> = (Option<Connection<Socket<T>>>, StartupError);

/// Takes a fresh socket to a session.
///
/// It takes no longer than the configuration allows. Nothing is executed on the way, and no
/// setting of the client is applied before it is authenticated. Even a panic is an error that
/// the client is told and that ends its connection.
pub(in crate::pg) async fn open<T: Transport>(
    shared: &PgShared,
    stream: T,
    origin: Origin,
) -> Result<Opened<T>, Failed<T>> {
    let deadline = Instant::now() + shared.config.authentication_timeout;
    let connection = Connection::new(Socket::Plain(stream), STARTUP_BYTES_MAX, shared.config.write_timeout);
    let mut peer = Peer::new(origin);
    let negotiated = timeout_at(deadline, negotiate(shared, connection, &mut peer)).await;
    // Whoever has not said so far who he is has no words to be told in.
    let (connection, error) = match negotiated {
        Ok(Ok((connection, request))) => return begin_with(shared, (connection, request), &peer, deadline).await,
        Ok(Err(failed)) => failed,
        Err(_) => (None, timed_out()),
    };
    record(shared, &peer, None, &Trail::default(), Err(&error));
    Err((connection, error))
}

/// Takes a connection that has said who it is to a session.
async fn begin_with<T: Transport>(
    shared: &PgShared,
    (mut connection, request): Negotiated<T>,
    peer: &Peer,
    deadline: Instant,
) -> Result<Opened<T>, Failed<T>> {
    let mut trail = Trail::default();
    let named = (request.user.clone(), request.database.clone());
    let begun = AssertUnwindSafe(begin(shared, &mut connection, request, peer, &mut trail)).catch_unwind();
    let begun = match timeout_at(deadline, begun).await {
        Ok(Ok(begun)) => begun,
        Ok(Err(_)) => Err(SqlError::internal("a login panicked").into()),
        Err(_) => Err(timed_out()),
    };
    let begun = begun.and_then(|begun| {
        let recorded = login(peer, Some(&named), &trail, Ok(begun.session.id), |login| shared.record(login));
        recorded.map(|()| begun).map_err(StartupError::from)
    });
    match begun {
        Ok(Begun { session, notices, key, place, ends_at }) => {
            Ok(Opened { connection, session, notices, key, place, ends_at })
        }
        Err(error) => {
            record(shared, peer, Some(&named), &trail, Err(&error));
            Err((Some(connection), error))
        }
    }
}

/// Records an attempt that was refused. If that fails there is nothing more to refuse.
fn record(
    shared: &PgShared,
    peer: &Peer,
    named: Option<&(String, String)>,
    trail: &Trail,
    outcome: Result<i32, &StartupError>,
) {
    let is_attempt = !matches!(outcome, Err(StartupError::Over | StartupError::Discovered(_)));
    if is_attempt {
        let _ = login(peer, named, trail, outcome, |login| shared.record(login));
    }
}

fn login<R>(
    peer: &Peer,
    named: Option<&(String, String)>,
    trail: &Trail,
    outcome: Result<i32, &StartupError>,
    record: impl FnOnce(&Login<'_>) -> R,
) -> R {
    let origin = peer.origin.to_string();
    record(&Login {
        over: "pg",
        origin: &origin,
        user: named.map(|(user, _)| user.as_str()),
        database: named.map(|(_, database)| database.as_str()),
        method: trail.method.map(lancegate_auth::Method::as_str),
        rule: trail.rule,
        identity: trail.identity.as_deref(),
        tls: peer.is_tls,
        session: outcome.ok(),
        error: outcome.err().and_then(StartupError::told),
    })
}

type Negotiated<T> = (Connection<Socket<T>>, Request);

/// Answers requests for encryption, at most one of each kind, until the
/// start-up packet or a CancelRequest arrives.
async fn negotiate<T: Transport>(
    shared: &PgShared,
    mut connection: Connection<Socket<T>>,
    peer: &mut Peer,
) -> Result<Negotiated<T>, Failed<T>> {
    let (mut asked_tls, mut asked_gss) = (false, false);
    loop {
        let packet = match next_packet(&mut connection).await {
            Ok(packet) => packet,
            Err(error) => return Err((Some(connection), error)),
        };
        match packet {
            Startup::SslRequest if !asked_tls && !connection.stream().is_tls() => {
                asked_tls = true;
                connection = answer_tls(shared, connection, &packet, peer).await?;
            }
            Startup::GssEncRequest if !asked_gss && !connection.stream().is_tls() => {
                asked_gss = true;
                if let Err(error) = refuse_encryption(&mut connection, &packet).await {
                    return Err((Some(connection), error));
                }
            }
            Startup::DirectTls if !asked_tls && !connection.stream().is_tls() => {
                connection = direct_tls(shared, connection, peer).await?;
            }
            Startup::CancelRequest { pid, secret } => {
                if shared.cancels.cancel(pid, &secret, peer.origin.address(), std::time::Instant::now()) {
                    shared.metrics.cancel_requests.inc();
                }
                return Err((None, StartupError::Over));
            }
            Startup::Startup { minor, parameters, unknown_protocol_options, .. } => {
                return match read_request(minor, parameters, unknown_protocol_options) {
                    Ok(request) => Ok((connection, request)),
                    Err(error) => Err((Some(connection), error.into())),
                };
            }
            Startup::SslRequest | Startup::GssEncRequest | Startup::DirectTls => {
                let error = SqlError::new(SqlState::PROTOCOL_VIOLATION, "encryption was requested before");
                return Err((Some(connection), error.into()));
            }
        }
    }
}

async fn next_packet<S: Transport>(connection: &mut Connection<S>) -> Result<Startup, StartupError> {
    loop {
        if let Some(packet) = decode_startup(connection.inbound(), STARTUP_BYTES_MAX)? {
            return Ok(packet);
        }
        connection.progress().await?;
    }
}

/// Answers SSLRequest with `S` and a handshake, or with `N`.
async fn answer_tls<T: Transport>(
    shared: &PgShared,
    mut connection: Connection<Socket<T>>,
    request: &Startup,
    peer: &mut Peer,
) -> Result<Connection<Socket<T>>, Failed<T>> {
    // As PostgreSQL, no TLS within a machine.
    let Some(tls) = shared.tls().filter(|_| matches!(peer.origin, Origin::Tcp(_))) else {
        return match refuse_encryption(&mut connection, request).await {
            Ok(()) => Ok(connection),
            Err(error) => Err((Some(connection), error)),
        };
    };
    // What is buffered now was sent in the clear; after the handshake it would
    // be read as if it had come through TLS.
    if let Err(error) = ensure_nothing_buffered(connection.inbound(), request) {
        return Err((Some(connection), error.into()));
    }
    connection.out.extend_from_slice(b"S");
    if connection.flush_unread().await.is_err() {
        return Err((None, StartupError::Over));
    }
    let stream = handshake(&tls.acceptor, connection, BytesMut::new()).await?;
    let (connection, noted) = secured(shared, stream, &tls, peer);
    match noted {
        Ok(()) => Ok(connection),
        Err(error) => Err((Some(connection), error.into())),
    }
}

/// Goes on with TLS that the client began by itself; it must name the protocol.
async fn direct_tls<T: Transport>(
    shared: &PgShared,
    mut connection: Connection<Socket<T>>,
    peer: &mut Peer,
) -> Result<Connection<Socket<T>>, Failed<T>> {
    let Some(tls) = shared.tls().filter(|_| matches!(peer.origin, Origin::Tcp(_))) else {
        return Err((None, StartupError::Over));
    };
    let hello = connection.inbound().split();
    let stream = handshake(&tls.acceptor, connection, hello).await?;
    let named = named_protocol(stream.get_ref().1);
    let (connection, noted) = secured(shared, stream, &tls, peer);
    let checked = noted.and_then(|()| match named {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::PROTOCOL_VIOLATION,
            "received direct SSL connection request without ALPN protocol negotiation extension",
        )),
    });
    match checked {
        Ok(()) => Ok(connection),
        Err(error) => Err((Some(connection), error.into())),
    }
}

async fn handshake<T: Transport>(
    acceptor: &tokio_rustls::TlsAcceptor,
    connection: Connection<Socket<T>>,
    hello: BytesMut,
) -> Result<TlsStream<Prefixed<T>>, Failed<T>> {
    let Socket::Plain(stream) = connection.into_stream() else {
        return Err((None, StartupError::Over));
    };
    acceptor.accept(Prefixed::new(hello, stream)).await.map_err(|error| {
        tracing::debug!(%error, "TLS handshake failed");
        (None, StartupError::Over)
    })
}

/// Notes what TLS has told about the client; fails if its certificate cannot be read.
fn secured<T: Transport>(
    shared: &PgShared,
    stream: TlsStream<Prefixed<T>>,
    tls: &PgTls,
    peer: &mut Peer,
) -> (Connection<Socket<T>>, Result<()>) {
    let end_point = tls.end_point.as_ref();
    peer.is_tls = true;
    peer.binding =
        end_point.map_or(ChannelBinding::Unavailable, |hash| ChannelBinding::TlsServerEndPoint(hash.to_vec()));
    // The handshake has verified it; it is there only if an authority is configured.
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let names = shown.map(|certificate| CertificateNames::read(certificate)).transpose();
    let connection = Connection::new(Socket::Tls(Box::new(stream)), STARTUP_BYTES_MAX, shared.config.write_timeout);
    let noted = names.map(|names| peer.certificate = names);
    let refused =
        noted.map_err(|error| SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, error.to_string()));
    (connection, refused)
}

async fn refuse_encryption<S: Transport>(
    connection: &mut Connection<S>,
    request: &Startup,
) -> Result<(), StartupError> {
    ensure_nothing_buffered(connection.inbound(), request)?;
    connection.out.extend_from_slice(b"N");
    Ok(connection.flush_unread().await?)
}

/// What a session begins with.
struct Begun {
    session: Session,
    notices: NoticeReceiver,
    key: CancelKey,
    place: Admitted,
    ends_at: Option<DateTime<Utc>>,
}

/// Authenticates and applies what the packet asked for.
async fn begin<T: Transport>(
    shared: &PgShared,
    connection: &mut Connection<Socket<T>>,
    request: Request,
    peer: &Peer,
    trail: &mut Trail,
) -> Result<Begun, StartupError> {
    let is_exposed = matches!(peer.origin, Origin::Tcp(_)) && !peer.is_tls;
    if is_exposed && !shared.config.allow_plaintext {
        return Err(SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, "connection is not encrypted")
            .hint("Connect with sslmode=require or stricter.")
            .into());
    }
    if let Some(options) = &request.negotiate {
        backend::negotiate_protocol_version(&mut connection.out, request.minor, options);
    }
    let attempt = Attempt { user: &request.user, database: &request.database, peer };
    let proven = authenticate(connection, shared, attempt, trail).await?;
    reach("login.proven").await?;
    let bootstrap = request.user == shared.config.bootstrap_user;
    let applicant = Applicant { user: &request.user, connection_limit: proven.connection_limit, bootstrap };
    let place = shared.admission.admit(applicant)?;
    reach("login.principal").await?;
    let principal = shared.identities.principal(&request.user).await?;
    reach("login.database").await?;
    shared.identities.ensure_database(&request.database).await?;
    let settings = initial_settings(shared, &request, bootstrap)?;
    reach("login.begun").await?;
    let key = shared.cancels.register(request.minor);
    let (mut session, notices) = Session::new(key.pid(), principal, request.database, settings);
    session.origin = Some(peer.origin.to_string());
    backend::backend_key_data(&mut connection.out, key.pid(), key.secret());
    connection.allow_messages_of(shared.config.message_bytes_max);
    Ok(Begun { session, notices, key, place, ends_at: proven.ends_at })
}

fn initial_settings(shared: &PgShared, request: &Request, superuser: bool) -> Result<Settings> {
    let mut settings = Settings::for_user(&request.user, superuser);
    settings.pin("max_connections", &shared.config.connections_max.to_string());
    settings.pin("ssl", if shared.tls().is_some() { "on" } else { "off" });
    for (name, value) in shared.config.session_defaults.iter().chain(&request.settings) {
        settings.set_default(name, value)?;
    }
    Ok(settings)
}

/// Reads the parameters of a start-up packet.
fn read_request(minor: u16, parameters: Vec<(String, String)>, unknown: Vec<String>) -> Result<Request> {
    let mut request = Request {
        minor: minor.min(MINOR_MAX),
        user: String::new(),
        database: String::new(),
        settings: Vec::new(),
        negotiate: (minor > MINOR_MAX || !unknown.is_empty()).then_some(unknown),
    };
    for (name, value) in parameters {
        match name.as_str() {
            "user" => request.user = value,
            "database" => request.database = value,
            "options" => request.settings.extend(read_options(&value)?),
            "replication" if matches!(value.as_str(), "false" | "off" | "no" | "0") => {}
            "replication" => return Err(SqlError::not_supported("replication connections are not supported")),
            _ => request.settings.push((name, value)),
        }
    }
    if request.user.is_empty() {
        let message = "no PostgreSQL user name specified in startup packet";
        return Err(SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message));
    }
    if request.database.is_empty() {
        request.database.clone_from(&request.user);
    }
    Ok(request)
}

/// Reads `-c name=value` and `--name=value` (PostgreSQL documentation,
/// "options" of libpq): words are separated by blanks, a backslash keeps one.
fn read_options(text: &str) -> Result<Vec<(String, String)>> {
    let mut settings = Vec::new();
    let mut words = split_options(text).into_iter();
    while let Some(word) = words.next() {
        let assignment = match word.strip_prefix("--") {
            Some(long) => Some(long.to_owned()),
            None => match word.strip_prefix("-c") {
                Some("") => words.next(),
                Some(glued) => Some(glued.to_owned()),
                None => None,
            },
        };
        let setting = assignment.as_deref().and_then(|assignment| assignment.split_once('='));
        let (name, value) = setting.ok_or_else(|| {
            let message = format!("invalid command-line argument for server process: {word}");
            SqlError::new(SqlState::SYNTAX_ERROR, message)
        })?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

fn split_options(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            char if char.is_ascii_whitespace() => words.extend(word.take()),
            '\\' => word.get_or_insert_default().extend(chars.next()),
            char => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(parameters: &[(&str, &str)]) -> Result<Request> {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        read_request(0, parameters.collect(), Vec::new())
    }

    fn settings(options: &str) -> Vec<(String, String)> {
        request(&[("user", "ada"), ("options", options)]).unwrap().settings
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn the_database_is_named_like_the_user_unless_said() {
        assert_eq!(request(&[("user", "ada")]).unwrap().database, "ada");
        assert_eq!(request(&[("database", "lancegate"), ("user", "ada")]).unwrap().database, "lancegate");
        assert_eq!(request(&[("database", "lancegate")]).unwrap_err().code.as_str(), "28000");
    }

    #[test]
    fn options_hold_settings_in_three_spellings() {
        assert_eq!(settings("-c statement_timeout=5s"), [pair("statement_timeout", "5s")]);
        assert_eq!(settings("-cjit=off  --search-path=a,b"), [pair("jit", "off"), pair("search_path", "a,b")]);
        assert_eq!(settings(r"-c application_name=two\ words\\"), [pair("application_name", r"two words\")]);
        assert_eq!(settings("  "), []);
        for wrong in ["-x", "-c", "-c novalue", "statement_timeout=1"] {
            assert_eq!(request(&[("user", "a"), ("options", wrong)]).unwrap_err().code.as_str(), "42601", "{wrong}");
        }
    }

    #[test]
    fn replication_is_refused_unless_it_is_off() {
        assert!(request(&[("user", "ada"), ("replication", "false")]).unwrap().settings.is_empty());
        assert_eq!(request(&[("user", "ada"), ("replication", "database")]).unwrap_err().code.as_str(), "0A000");
    }

    #[test]
    fn a_newer_minor_version_and_unknown_options_are_negotiated() {
        let newer = read_request(9999, vec![pair("user", "ada")], Vec::new()).unwrap();
        assert_eq!((newer.minor, newer.negotiate), (2, Some(Vec::new())));
        let option = read_request(0, vec![pair("user", "ada")], vec!["_pq_.x".to_owned()]).unwrap();
        assert_eq!((option.minor, option.negotiate), (0, Some(vec!["_pq_.x".to_owned()])));
        assert_eq!(request(&[("user", "ada")]).unwrap().negotiate, None);
    }
}
