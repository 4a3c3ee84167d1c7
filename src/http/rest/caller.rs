//! Who asks: the proof of it, and the session in which his statements run.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use lancegate_auth::Principal;
use lancegate_engine::error::SqlError;
use lancegate_engine::exec::refresh::reads_registry;
use lancegate_engine::exec::{DEFAULT_DATABASE, Engine, Outcome};
use lancegate_engine::session::{CancelReason, Session, Settings, StatementContext};
use lancegate_engine::sql::authorize::Authorized;
use lancegate_engine::sql::plan::Plan;
use lancegate_engine::sqlstate::SqlState;
use lancegate_sql::Statement;
use tokio_util::task::AbortOnDropHandle;

use super::Front;
use super::error::{Code, RestError, Result};
use super::request::{self, RequestId};
use super::rows::Rows;
use crate::admin;
use crate::audit::Login;
use crate::http::HttpShared;
use crate::http::listener::Peer;

/// The encoding of RFC 7617. Clients of Flight SQL that are written in Go leave the padding out.
pub(crate) const BASIC: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The user that the throttle counts failed keys under: a key does not say whose it is.
const KEY_USER: &str = "";
/// The longest an answer to a failed attempt is held back.
const DELAY_MAX: Duration = Duration::from_secs(10);
/// The number that `pg_backend_pid()` answers in a request.
const NO_BACKEND: i32 = 0;

/// An authenticated caller with the session of this request. Its statements end
/// when it is dropped, as when the client goes away.
#[derive(Debug)]
pub(super) struct Caller {
    engine: Engine,
    session: Session,
    ctx: StatementContext,
    /// Ends the statements at the time that the client or the configuration has set.
    _deadline: Option<AbortOnDropHandle<()>>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.ctx.cancel(CancelReason::ClientGone);
    }
}

impl FromRequestParts<Arc<HttpShared>> for Caller {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<HttpShared>) -> Result<Self> {
        let engine = request::engine(shared)?.clone();
        let front = shared.front.get().ok_or_else(|| RestError::internal("the engine went away"))?;
        let address = parts.extensions.get::<ConnectInfo<Peer>>().map(|ConnectInfo(peer)| peer.address);
        let address = address.ok_or_else(|| RestError::internal("the address of a client is unknown"))?;
        let door = Door { over: "http", address, tls: false };
        let principal = authenticate(front, &parts.headers, door, None).await?;
        let database = database(&engine, &parts.headers).await?;
        let user = principal.user.as_str();
        let mut settings = Settings::for_user(user, *user == *admin::first_user().as_str());
        settings.set_default("application_name", "REST")?;
        let (mut session, _) = Session::new(NO_BACKEND, principal, database, settings);
        session.idempotency_key = idempotency_key(parts)?;
        session.origin = Some(address.to_string());
        let ctx = StatementContext::new();
        let own = Some(front.statement_timeout).filter(|time| !time.is_zero());
        let time = deadline(&parts.headers)?.into_iter().chain(own).min();
        let deadline = time.map(|time| {
            let ctx = ctx.clone();
            AbortOnDropHandle::new(tokio::spawn(async move {
                tokio::time::sleep(time).await;
                ctx.cancel(CancelReason::StatementTimeout(time));
            }))
        });
        Ok(Self { engine, session, ctx, _deadline: deadline })
    }
}

impl Caller {
    /// Returns the engine.
    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the session.
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Refuses who may not read the registry of jobs, where the answer is a job's id.
    ///
    /// # Errors
    /// 403.
    pub(super) async fn ensure_registry(&self) -> Result<()> {
        if reads_registry(&self.engine, &self.session.principal).await? {
            return Ok(());
        }
        let message = "permission denied: the answer is a job, which takes USAGE and OPERATE ON SYSTEM";
        Err(RestError::new(StatusCode::FORBIDDEN, Code::PermissionDenied, message))
    }

    /// Reads tables and changes their rows on a branch from now on, if one is given.
    pub(super) fn on_branch(&mut self, branch: Option<String>) {
        self.session.branch = branch.filter(|branch| branch != "main");
    }

    /// Returns the database that the request is about.
    pub(super) fn database(&self) -> &str {
        &self.session.database
    }

    /// Binds one statement of SQL.
    ///
    /// # Errors
    /// What the statement answers; positions in it are left out, because its
    /// text is ours.
    pub(super) async fn plan(&self, sql: &str) -> Result<Plan> {
        let parsed = lancegate_sql::parse(sql, self.engine.limits());
        let parsed = parsed.map_err(|error| RestError::invalid(error.to_string()))?;
        match parsed.as_slice() {
            [one] => self.plan_statement(&one.statement, sql).await,
            _ => Err(RestError::invalid("the request is not one statement")),
        }
    }

    async fn plan_statement(&self, statement: &Statement, text: &str) -> Result<Plan> {
        Ok(self.engine.plan(&self.session, statement, text, &[]).await?)
    }

    /// Checks what a plan needs.
    ///
    /// # Errors
    /// 403, or the 404 of an object that the caller may not know.
    pub(super) async fn authorize(&self, plan: Plan) -> Result<Authorized<Plan>> {
        Ok(self.engine.authorize(&self.session, plan).await?)
    }

    /// Executes a plan and returns its rows, of which it must have few.
    ///
    /// # Errors
    /// What the statement answers.
    pub(super) async fn execute(&mut self, plan: &Authorized<Plan>) -> Result<Rows> {
        match self.outcome(plan).await? {
            Outcome::Rows { stream, .. } => Rows::of(stream).await,
            Outcome::Done(tag) => Ok(Rows::done(tag)),
        }
    }

    /// Executes a plan.
    ///
    /// # Errors
    /// What the statement answers before its first row.
    pub(super) async fn outcome(&mut self, plan: &Authorized<Plan>) -> Result<Outcome> {
        let ctx = self.ctx.clone();
        Ok(self.engine.execute(&mut self.session, plan, Vec::new(), &ctx).await?)
    }

    /// Binds, authorizes and executes one statement of SQL.
    ///
    /// # Errors
    /// What the statement answers.
    pub(super) async fn run(&mut self, sql: &str) -> Result<Rows> {
        let plan = self.plan(sql).await?;
        let plan = self.authorize(plan).await?;
        self.execute(&plan).await
    }

    /// Takes the parts that rows are sent to.
    pub(super) fn parts(&mut self) -> (&Engine, &mut Session, &StatementContext) {
        (&self.engine, &mut self.session, &self.ctx)
    }
}

/// What a client proves himself with.
enum Credential {
    Key(String),
    Token(String),
    Password { user: String, password: String },
}

impl Credential {
    /// Returns the user that it says it is of; keys and tokens do not say it.
    fn user(&self) -> &str {
        match self {
            Self::Key(_) | Self::Token(_) => KEY_USER,
            Self::Password { user, .. } => user,
        }
    }

    fn method(&self) -> &'static str {
        match self {
            Self::Key(_) => "api-key",
            Self::Token(_) => "jwt",
            Self::Password { .. } => "password",
        }
    }
}

/// Returns whether a Bearer token is one of an identity provider: our keys have no dots.
fn is_signed(token: &str) -> bool {
    token.bytes().filter(|byte| *byte == b'.').count() == 2
}

fn credential(headers: &HeaderMap) -> Result<Credential> {
    let text = |name: &str| match headers.get(name).map(|value| value.to_str()) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
        Some(Err(_)) => Err(RestError::unauthenticated(format!("header {name} is not text"))),
    };
    if let Some(key) = text("x-api-key")? {
        return Ok(Credential::Key(key.to_owned()));
    }
    let header = text(header::AUTHORIZATION.as_str())?;
    let Some((scheme, value)) = header.and_then(|header| header.split_once(' ')) else {
        return Err(RestError::unauthenticated("credentials are missing: send an API key as x-api-key"));
    };
    if scheme.eq_ignore_ascii_case("bearer") {
        let token = value.trim().to_owned();
        return Ok(if is_signed(&token) { Credential::Token(token) } else { Credential::Key(token) });
    }
    let decoded = Some(value.trim()).filter(|_| scheme.eq_ignore_ascii_case("basic"));
    let decoded = decoded.and_then(|value| BASIC.decode(value).ok()).and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded.as_deref().and_then(|pair| pair.split_once(':')) {
        Some((user, password)) => Ok(Credential::Password { user: user.to_owned(), password: password.to_owned() }),
        None => Err(RestError::unauthenticated("the credentials are neither a Bearer token nor Basic")),
    }
}

/// What a client comes over, for the record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Door {
    /// `http` or `flight`.
    pub(crate) over: &'static str,
    /// Where the client is.
    pub(crate) address: SocketAddr,
    /// Whether it came through TLS.
    pub(crate) tls: bool,
}

/// Returns who sends these headers, for what comes over HTTP and is not REST. `named` is
/// whom a key has to be of.
///
/// # Errors
/// The status and the message that REST would answer.
pub(crate) async fn authenticated(
    front: &Front,
    headers: &HeaderMap,
    door: Door,
    named: Option<&str>,
) -> Result<Principal, (StatusCode, String)> {
    authenticate(front, headers, door, named).await.map_err(|error| (error.status(), error.message().to_owned()))
}

/// Returns who is asking. Failed attempts are slowed down as on the wire.
async fn authenticate(front: &Front, headers: &HeaderMap, door: Door, named: Option<&str>) -> Result<Principal> {
    let credential = credential(headers)?;
    let (user, from) = (credential.user(), Some(door.address.ip()));
    tokio::time::sleep(front.identities.delay(user, from).min(DELAY_MAX)).await;
    let is_named = |principal: &Principal| named.is_none_or(|named| principal.user.as_str() == named);
    let principal = match &credential {
        Credential::Key(key) => front.engine.principal_of_key(key).await?.filter(is_named),
        Credential::Token(token) => front.identities.by_token(token).await?,
        Credential::Password { user, password } => front.identities.by_password(user, password).await?,
    };
    match &principal {
        Some(_) => front.identities.succeeded(user, from),
        None => front.identities.failed(user, from),
    }
    let failed = || match &credential {
        Credential::Key(_) => match named {
            Some(named) => format!("the API key is not one of user \"{named}\""),
            None => "the API key is not valid".to_owned(),
        },
        Credential::Token(_) => "the token is not valid".to_owned(),
        Credential::Password { user, .. } => format!("password authentication failed for user \"{user}\""),
    };
    let claimed = named.or(Some(user).filter(|user| !user.is_empty()));
    let refused = principal.is_none().then(|| SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, failed()));
    let login = Login {
        user: principal.as_ref().map(|principal| principal.user.as_str()).or(claimed),
        method: Some(credential.method()),
        error: refused.as_ref(),
        ..Login::default()
    };
    record(front, door, login)?;
    principal.ok_or_else(|| RestError::unauthenticated(failed()))
}

/// Records who came, and who did not get in.
///
/// # Errors
/// 58030 if it cannot be recorded and must be.
pub(crate) fn record(front: &Front, door: Door, login: Login<'_>) -> Result<(), SqlError> {
    let Some(audit) = &front.audit else { return Ok(()) };
    let origin = door.address.to_string();
    audit.login(&Login { over: door.over, origin: &origin, tls: door.tls, ..login })
}

async fn database(engine: &Engine, headers: &HeaderMap) -> Result<String> {
    let name = match headers.get("x-lancedb-database").map(|value| value.to_str()) {
        None => DEFAULT_DATABASE,
        Some(Ok(name)) => name,
        Some(Err(_)) => return Err(RestError::invalid("header x-lancedb-database is not text")),
    };
    if headers.contains_key("x-lancedb-database-prefix") {
        return Err(RestError::unsupported("prefixes of databases are not supported"));
    }
    match engine.catalog().database(name).await.map_err(lancegate_engine::error::SqlError::from)? {
        Some(_) => Ok(name.to_owned()),
        None => {
            let message = format!("database \"{name}\" does not exist");
            let not_found = lancegate_engine::sqlstate::SqlState::INVALID_CATALOG_NAME;
            Err(lancegate_engine::error::SqlError::new(not_found, message).into())
        }
    }
}

/// Returns how long the client is willing to wait.
fn deadline(headers: &HeaderMap) -> Result<Option<Duration>> {
    let Some(value) = headers.get("x-request-timeout-ms") else { return Ok(None) };
    let millis = value.to_str().ok().and_then(|text| text.parse().ok());
    let millis = millis.ok_or_else(|| RestError::invalid("x-request-timeout-ms is not a number"))?;
    Ok(Some(Duration::from_millis(millis)))
}

/// Returns what makes a repeated request the same one: the client's own key, else
/// the id of the request, which LanceDB's clients keep when they try again.
fn idempotency_key(parts: &Parts) -> Result<Option<String>> {
    let given = match parts.headers.get("idempotency-key").map(|value| value.to_str()) {
        None => None,
        Some(Ok(key)) if (1..=256).contains(&key.len()) => Some(format!("key/{key}")),
        Some(_) => return Err(RestError::invalid("Idempotency-Key must have 1 to 256 characters")),
    };
    let id = || parts.extensions.get::<RequestId>().map(|RequestId(id)| format!("request/{id}"));
    Ok(given.or_else(id))
}
