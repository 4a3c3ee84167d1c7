//! Who asks: the proof of it, before anything else of a call is read, and the
//! session in which his statements run.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use base64::Engine as _;
use datafusion::scalar::ScalarValue;
use lancegate_auth::Principal;
use lancegate_engine::error::SqlError;
use lancegate_engine::exec::{DEFAULT_DATABASE, Engine, Outcome};
use lancegate_engine::session::{CancelReason, Session, Settings, StatementContext};
use lancegate_engine::sql::authorize::Authorized;
use lancegate_engine::sql::plan::Plan;
use lancegate_engine::sqlstate::SqlState;
use lancegate_sql::Ident;
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;

use super::FlightShared;
use super::error::{Result, invalid, status, unsupported};
use super::logins::{COOKIE, Login, Options, SessionId, TOKEN_PREFIX};
use super::registry::Owner;
use crate::admin;
use crate::audit::Login as Attempt;
use crate::http::rest::{self, Door, Front};
use crate::pg::cancellable;

/// The number that `pg_backend_pid()` answers.
const NO_BACKEND: i32 = 0;
/// How long a cancelled statement may go on before it is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// What API keys begin with; one may stand for the password of its user.
const KEY_PREFIX: &str = "lgk_";
/// The user name that LanceDB's clients send where the password alone says who it is.
const ANY_USER: &str = "lancedb";

/// A caller who has proved who he is, and where his names are looked up.
#[derive(Debug, Clone)]
pub(super) struct Authenticated {
    pub(super) principal: Principal,
    /// Where he is.
    address: SocketAddr,
    /// The session that he has, by token or cookie.
    pub(super) session: Option<SessionId>,
    /// What he has set in it.
    pub(super) options: Options,
    proof: Proof,
}

/// What he has proved himself with.
#[derive(Clone)]
enum Proof {
    Password,
    /// A key or a token, as the header that it goes on to come in.
    Bearer(String),
    /// A key in a header of its own.
    Key,
}

/// It may be a credential and does not print.
impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Password => "Password",
            Self::Bearer(_) => "Bearer",
            Self::Key => "Key",
        })
    }
}

/// Authenticates a call by its headers, as REST does, or by the token of a handshake.
///
/// # Errors
/// UNAUTHENTICATED; UNAVAILABLE while the gateway starts.
pub(super) async fn authenticate(shared: &FlightShared, headers: &HeaderMap, door: Door) -> Result<Authenticated> {
    let front = shared.front.get().ok_or_else(|| Status::unavailable("the gateway is starting (57P03)"))?;
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (scheme, value) = authorization.split_once(' ').unwrap_or_default();
    // As REST has it, a key in its own header comes before everything else.
    let is = |wanted: &str| scheme.eq_ignore_ascii_case(wanted) && !headers.contains_key("x-api-key");
    if let Some(token) = value.trim().strip_prefix(TOKEN_PREFIX).filter(|_| is("bearer")) {
        return by_token(shared, front, token, (authorization, door)).await;
    }
    let basic = if is("basic") { basic(value) } else { None };
    // What cannot be in a header is no key, and is refused as a password.
    let as_key = |(user, password): &(String, String)| {
        let key = HeaderValue::from_str(password).ok().filter(|_| password.starts_with(KEY_PREFIX))?;
        Some((user.clone(), HeaderMap::from_iter([(HeaderName::from_static("x-api-key"), key)])))
    };
    let key = basic.as_ref().and_then(as_key);
    let told = match &key {
        Some((user, headers)) => {
            let named = Some(user.as_str()).filter(|user| *user != ANY_USER);
            rest::authenticated(front, headers, door, named).await
        }
        None => rest::authenticated(front, headers, door, None).await,
    };
    let principal = told.map_err(|(code, message)| refused(code, message))?;
    let proof = match basic {
        Some((_, password)) if key.is_some() => Proof::Bearer(format!("Bearer {password}")),
        Some(_) => Proof::Password,
        None if is("bearer") => Proof::Bearer(authorization.to_owned()),
        None => Proof::Key,
    };
    let (session, options) = by_cookie(shared, headers, &principal).unzip();
    Ok(Authenticated { principal, address: door.address, session, options: options.unwrap_or_default(), proof })
}

fn refused(code: StatusCode, message: String) -> Status {
    match code {
        StatusCode::UNAUTHORIZED => unauthenticated(&message),
        StatusCode::SERVICE_UNAVAILABLE => Status::unavailable(message),
        _ => Status::internal(message),
    }
}

fn unauthenticated(message: &str) -> Status {
    status(&SqlError::new(SqlState::INVALID_PASSWORD, message))
}

fn basic(value: &str) -> Option<(String, String)> {
    let decoded = String::from_utf8(rest::BASIC.decode(value.trim()).ok()?).ok()?;
    decoded.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()))
}

/// A token holds as long as the password that it was given for. Its use is no login, but a refused one is a failed one.
async fn by_token(
    shared: &FlightShared,
    front: &Front,
    token: &str,
    (authorization, door): (&str, Door),
) -> Result<Authenticated> {
    let kept = SessionId::read(token).and_then(|id| Some((id, shared.logins.get(id)?)));
    let Some((id, login)) = kept.filter(|(_, login)| login.proven.is_some()) else {
        return Err(no_token(front, door, None));
    };
    let stored = front.identities.password_of(&login.user).await.map_err(|error| status(&error))?;
    if stored.is_none() || stored != login.proven {
        shared.logins.remove(id);
        return Err(no_token(front, door, Some(login.user.as_str())));
    }
    let principal = front.engine.principal(login.user).await.map_err(|error| status(&error))?;
    let proof = Proof::Bearer(authorization.to_owned());
    Ok(Authenticated { principal, address: door.address, session: Some(id), options: login.options, proof })
}

/// Records that a token was refused, and returns what its client is told.
fn no_token(front: &Front, door: Door, user: Option<&str>) -> Status {
    let message = "the token is not valid or has expired; authenticate again";
    let error = SqlError::new(SqlState::INVALID_PASSWORD, message);
    let login = Attempt { user, method: Some("token"), error: Some(&error), ..Attempt::default() };
    match rest::record(front, door, login) {
        Ok(()) => status(&error),
        Err(error) => status(&error),
    }
}

fn by_cookie(shared: &FlightShared, headers: &HeaderMap, principal: &Principal) -> Option<(SessionId, Options)> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let id = pairs.filter(|(name, _)| *name == COOKIE).find_map(|(_, value)| SessionId::read(value))?;
    let login = shared.logins.get(id).filter(|login| login.user == principal.user)?;
    Some((id, login.options))
}

impl Authenticated {
    /// Returns the credential of the calls after a handshake: a new token after a
    /// password, otherwise the one that was sent.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub(super) async fn log_in(&self, shared: &FlightShared) -> Result<String> {
        match &self.proof {
            Proof::Password => {}
            Proof::Bearer(header) => return Ok(header.clone()),
            // A token would outlive the key.
            Proof::Key => return Err(unsupported("a handshake takes a user and a password, or a Bearer token")),
        }
        let front = shared.front.get().ok_or_else(|| Status::unavailable("the gateway is starting (57P03)"))?;
        let user = self.principal.user.clone();
        let proven = front.identities.password_of(&user).await.map_err(|error| status(&error))?;
        if proven.is_none() {
            return Err(unauthenticated("the password has changed meanwhile; authenticate again"));
        }
        let id = shared.logins.insert(Login::new(user, proven)).map_err(|error| status(&error))?;
        Ok(format!("Bearer {TOKEN_PREFIX}{}", id.text()))
    }
}

/// The session of one call. Its statements end when it is dropped.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) engine: Engine,
    pub(super) session: Session,
    pub(super) ctx: StatementContext,
    pub(super) owner: Owner,
    /// Ends the statements in time, and when the gateway stops.
    _watch: AbortOnDropHandle<()>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.ctx.cancel(CancelReason::ClientGone);
    }
}

impl Caller {
    /// Opens the session of a call.
    ///
    /// # Errors
    /// 3D000 for a database that does not exist.
    pub(super) async fn open(shared: &FlightShared, who: &Authenticated, headers: &HeaderMap) -> Result<Self> {
        let front = shared.front.get().ok_or_else(|| Status::unavailable("the gateway is starting (57P03)"))?;
        let database = database(headers, &who.options)?.unwrap_or(DEFAULT_DATABASE).to_owned();
        let found = front.engine.catalog().database(&database).await;
        if found.map_err(|error| status(&error.into()))?.is_none() {
            let message = format!("database \"{database}\" does not exist");
            return Err(status(&SqlError::new(SqlState::INVALID_CATALOG_NAME, message)));
        }
        let namespace = namespace(headers, &who.options)?;
        let caller = Self::with(shared, &front.engine, who, (database, namespace));
        caller.map_err(|error| status(&error))
    }

    fn with(
        shared: &FlightShared,
        engine: &Engine,
        who: &Authenticated,
        (database, namespace): (String, Option<&str>),
    ) -> Result<Self, SqlError> {
        let principal = &who.principal;
        let user = principal.user.as_str();
        let mut settings = Settings::for_user(user, *user == *admin::first_user().as_str());
        settings.set_default("application_name", "Flight SQL")?;
        settings.set_default("statement_timeout", &shared.statement_timeout.as_millis().to_string())?;
        if let Some(schema) = namespace {
            // Quoted where the name needs it.
            let path = format!("{}", Ident::new(schema));
            settings.set_default("search_path", &path)?;
        }
        let ctx = StatementContext::new();
        let watch = watch(ctx.clone(), settings.statement_timeout(), shared.closing.clone());
        let owner = Owner { user: principal.user.clone(), database: database.clone() };
        let (mut session, _) = Session::new(NO_BACKEND, principal.clone(), database, settings);
        session.origin = Some(who.address.to_string());
        Ok(Self { engine: engine.clone(), session, ctx, owner, _watch: watch })
    }

    /// Plans something, authorizes it and returns the proof.
    ///
    /// # Errors
    /// What the statement answers at this stage.
    pub(super) async fn authorized(
        &self,
        planning: impl Future<Output = Result<Plan, SqlError>>,
    ) -> Result<Authorized<Plan>, SqlError> {
        let planning = async { self.engine.authorize(&self.session, planning.await?).await };
        cancellable(&self.ctx, Duration::ZERO, planning).await
    }

    /// Executes a plan.
    ///
    /// # Errors
    /// What the statement answers before its first row.
    pub(super) async fn execute(
        &mut self,
        plan: &Authorized<Plan>,
        parameters: Vec<ScalarValue>,
    ) -> Result<Outcome, SqlError> {
        let ctx = self.ctx.clone();
        let execution = self.engine.execute(&mut self.session, plan, parameters, &ctx);
        cancellable(&ctx, CANCEL_GRACE, execution).await
    }
}

fn watch(
    ctx: StatementContext,
    timeout: Option<Duration>,
    closing: tokio_util::sync::CancellationToken,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let timed_out = async {
            match timeout {
                Some(time) => {
                    tokio::time::sleep(time).await;
                    CancelReason::StatementTimeout(time)
                }
                None => std::future::pending().await,
            }
        };
        let reason = tokio::select! {
            reason = timed_out => reason,
            () = closing.cancelled() => CancelReason::Shutdown,
        };
        ctx.cancel(reason);
    }))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>> {
    match headers.get(name).map(HeaderValue::to_str) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
        Some(Err(_)) => Err(invalid(format!("header {name} is not text"))),
    }
}

/// The header is `database` from LanceDB's clients, and as REST has it from others.
fn database<'a>(headers: &'a HeaderMap, options: &'a Options) -> Result<Option<&'a str>> {
    if headers.contains_key("x-lancedb-database-prefix") {
        return Err(unsupported("prefixes of databases are not supported"));
    }
    let given = text(headers, "database")?.or(text(headers, "x-lancedb-database")?);
    Ok(given.or(options.catalog.as_deref()))
}

/// Returns the schema of names without one, if it is not the root.
fn namespace<'a>(headers: &'a HeaderMap, options: &'a Options) -> Result<Option<&'a str>> {
    let given = text(headers, "namespace-path")?.or(options.schema.as_deref());
    Ok(given.filter(|path| *path != "public"))
}

/// Opens the session of a call. Nothing of the call's body is touched meanwhile.
///
/// # Errors
/// As [`Caller::open`].
pub(super) fn open<'a, T>(
    shared: &'a FlightShared,
    request: &tonic::Request<T>,
) -> impl Future<Output = Result<Caller>> + Send + use<'a, T> {
    let who = who(request).cloned();
    let headers = request.metadata().as_ref().clone();
    async move { Caller::open(shared, &who?, &headers).await }
}

/// Returns who asks.
///
/// # Errors
/// Internal errors only: nothing gets here that has not authenticated.
pub(super) fn who<T>(request: &tonic::Request<T>) -> Result<&Authenticated> {
    request.extensions().get().ok_or_else(|| super::error::internal("a call went past its authentication"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_win_over_the_options_of_a_session() {
        let options = Options { catalog: Some("c".to_owned()), schema: Some("s".to_owned()) };
        let headers = HeaderMap::new();
        assert_eq!(database(&headers, &options).unwrap(), Some("c"));
        assert_eq!(namespace(&headers, &options).unwrap(), Some("s"));
        let mut headers = HeaderMap::new();
        headers.insert("database", HeaderValue::from_static("d"));
        headers.insert("namespace-path", HeaderValue::from_static("public"));
        assert_eq!(database(&headers, &options).unwrap(), Some("d"));
        assert_eq!(namespace(&headers, &options).unwrap(), None);
        headers.insert("x-lancedb-database-prefix", HeaderValue::from_static("p"));
        assert!(database(&headers, &options).is_err());
    }

    #[test]
    fn basic_credentials_are_a_user_and_a_password() {
        assert_eq!(basic("YTpiOmM="), Some(("a".to_owned(), "b:c".to_owned())));
        for bad in ["", "YQ==", "////", "x"] {
            assert_eq!(basic(bad), None, "{bad}");
        }
    }
}
