//! From what a client says it is to what it has proved.
//!
//! The first rule that fits decides what has to be proved; each way of proving it
//! has a file. Failures of one way have the same words and codes whatever their
//! cause, which only the log and the audit record have.

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use lancegate_auth::{Claim, ClientCertificate, Method, Rule, UserName};
use lancegate_wire::{FrontendMessage, Phase, backend};

use crate::pg::PgShared;
use crate::pg::access::AccessRules;
use crate::pg::connection::{Connection, Transport};
use crate::pg::origin::{Origin, Peer};
use crate::pg::startup::{StartupError, reach};
use crate::pg::unix::user_name;
use lancegate_engine::error::SqlError;
use lancegate_engine::sqlstate::SqlState;

mod cleartext;
mod oauth;
mod scram;

/// Who knocks, and over what.
#[derive(Debug, Clone, Copy)]
pub(in crate::pg) struct Attempt<'a> {
    pub(in crate::pg) user: &'a str,
    pub(in crate::pg) database: &'a str,
    pub(in crate::pg) peer: &'a Peer,
}

/// What is known of a user after it has proved itself.
#[derive(Debug, Default)]
pub(in crate::pg) struct Proven {
    pub(in crate::pg) connection_limit: Option<u32>,
    /// When what was proved stops being true.
    pub(in crate::pg) ends_at: Option<DateTime<Utc>>,
}

/// How an attempt goes, for the record; filled in while it does.
#[derive(Debug, Default)]
pub(in crate::pg) struct Trail {
    pub(in crate::pg) method: Option<Method>,
    /// The line of the rule.
    pub(in crate::pg) rule: Option<usize>,
    /// What was proved, where that is not the user.
    pub(in crate::pg) identity: Option<String>,
}

/// Lets a client prove who it is; AuthenticationOk is in the buffer when it returns.
///
/// # Errors
/// 28000 if no rule fits or its proof fails, 28P01 for wrong passwords and keys,
/// 08P01 if the client does not follow the exchange. All of them end the connection.
pub(in crate::pg) async fn authenticate<S: Transport>(
    connection: &mut Connection<S>,
    shared: &PgShared,
    attempt: Attempt<'_>,
    trail: &mut Trail,
) -> Result<Proven, StartupError> {
    let access = shared.access.get();
    reach("login.rule").await?;
    let rule = first_rule(shared, &access, attempt).await?;
    (trail.method, trail.rule) = (Some(rule.method), Some(rule.line));
    ensure_certificate(&access, rule, attempt)?;
    reach("login.turn").await?;
    wait_for_turn(shared, attempt).await;
    let method = Way { connection: &mut *connection, shared, access: &access, rule, attempt };
    let proven = match rule.method {
        Method::ScramSha256 => method.scram().await,
        Method::Jwt => method.jwt(trail).await,
        Method::OAuth => method.oauth(trail).await,
        Method::ApiKey => method.api_key().await,
        Method::Certificate => method.certificate(trail).await,
        Method::Peer => method.peer(trail).await,
        Method::Reject => Err(rejected(attempt).into()),
    };
    let address = attempt.peer.origin.address();
    match proven {
        Ok(proven) => {
            shared.identities.succeeded(attempt.user, address);
            backend::authentication_ok(&mut connection.out);
            Ok(proven)
        }
        Err(error) => {
            if counts_as_failure(&error) {
                shared.identities.failed(attempt.user, address);
            }
            Err(error)
        }
    }
}

/// A client that only asks where tokens are, or goes away, has guessed nothing.
fn counts_as_failure(error: &StartupError) -> bool {
    !matches!(error, StartupError::Over | StartupError::Discovered(_))
}

/// One way of proving who one is, with what it needs.
struct Way<'a, S> {
    connection: &'a mut Connection<S>,
    shared: &'a PgShared,
    access: &'a AccessRules,
    rule: &'a Rule,
    attempt: Attempt<'a>,
}

async fn first_rule<'a>(
    shared: &PgShared,
    access: &'a AccessRules,
    attempt: Attempt<'_>,
) -> Result<&'a Rule, StartupError> {
    let Attempt { user, database, peer } = attempt;
    let roles: Vec<_> = match access.rules.asks_roles() {
        true => shared.identities.roles(user).await?,
        false => Vec::new(),
    };
    let claim = Claim { channel: peer.channel(), address: peer.origin.address(), database, user, roles: &roles };
    let rule = access
        .rules
        .first(&claim)
        .ok_or_else(|| refused(format!("no pg_hba.conf entry for {}", described(attempt))))?;
    Ok(rule)
}

fn rejected(attempt: Attempt<'_>) -> SqlError {
    refused(format!("pg_hba.conf rejects connection for {}", described(attempt)))
}

/// As PostgreSQL words it.
fn described(Attempt { user, database, peer }: Attempt<'_>) -> String {
    match peer.origin {
        Origin::Unix { .. } => format!("host \"[local]\", user \"{user}\", database \"{database}\", no encryption"),
        Origin::Tcp(address) => {
            let encryption = if peer.is_tls { "SSL encryption" } else { "no encryption" };
            format!("host \"{}\", user \"{user}\", database \"{database}\", {encryption}", address.ip())
        }
    }
}

/// Checks the certificate that a rule wants besides its method.
fn ensure_certificate(access: &AccessRules, rule: &Rule, attempt: Attempt<'_>) -> Result<(), StartupError> {
    if !rule.reads_certificate() {
        return Ok(());
    }
    let Some(names) = &attempt.peer.certificate else {
        return Err(refused("connection requires a valid client certificate").into());
    };
    let wants_name = rule.method != Method::Certificate && rule.client_certificate == ClientCertificate::VerifyFull;
    let is_his = || names.identities().any(|name| access.maps.allows(rule.map.as_deref(), name, attempt.user));
    if wants_name && !is_his() {
        let user = attempt.user;
        return Err(refused(format!("client certificate is not valid for user \"{user}\"")).into());
    }
    Ok(())
}

/// Holds back who has failed before, short of the deadline, so that who waited
/// still gets an answer.
async fn wait_for_turn(shared: &PgShared, attempt: Attempt<'_>) {
    let delay_max: Duration = shared.config.authentication_timeout.mul_f64(0.75);
    let delay = shared.identities.delay(attempt.user, attempt.peer.origin.address());
    tokio::time::sleep(delay.min(delay_max)).await;
}

impl<S: Transport> Way<'_, S> {
    /// Lets in who has shown a certificate of one of its users.
    async fn certificate(self, trail: &mut Trail) -> Result<Proven, StartupError> {
        let Attempt { user, peer, .. } = self.attempt;
        let map = self.rule.map.as_deref();
        let names = peer.certificate.as_ref();
        trail.identity = names.map(|names| names.subject.clone());
        let mut identities = names.into_iter().flat_map(|names| names.identities());
        let identity = identities.find(|name| self.access.maps.allows(map, name, user));
        let failed = || refused(format!("certificate authentication failed for user \"{user}\""));
        trail.identity = Some(identity.ok_or_else(failed)?.to_owned());
        self.account(failed).await
    }

    /// Lets in a process of this machine that runs as one of its users.
    async fn peer(self, trail: &mut Trail) -> Result<Proven, StartupError> {
        let user = self.attempt.user;
        let failed = || refused(format!("Peer authentication failed for user \"{user}\""));
        let Origin::Unix { user_id: Some(id) } = self.attempt.peer.origin else { return Err(failed().into()) };
        let name = tokio::task::spawn_blocking(move || user_name(id)).await.map_err(SqlError::internal)?;
        trail.identity = Some(name.clone().unwrap_or_else(|| format!("user {id}")));
        let map = self.rule.map.as_deref();
        if !name.is_some_and(|name| self.access.maps.allows(map, &name, user)) {
            return Err(failed().into());
        }
        self.account(failed).await
    }

    /// Ensures that the user is there and may log in, for ways that prove it by
    /// something else than its password.
    async fn account(&self, failed: impl FnOnce() -> SqlError) -> Result<Proven, StartupError> {
        reach("login.account").await?;
        let account = match UserName::parse(self.attempt.user) {
            Ok(name) => self.shared.identities.account(&name).await?,
            Err(_) => None,
        };
        let account = account.ok_or_else(failed)?;
        Ok(Proven { connection_limit: account.connection_limit, ends_at: account.valid_until })
    }

    async fn next_password(&mut self) -> Result<Bytes, StartupError> {
        match self.connection.next_message(Phase::Authenticating).await? {
            FrontendMessage::Password(body) => Ok(body),
            // The phase lets nothing else through.
            _ => Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, "expected password response").into()),
        }
    }
}

fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message)
}

/// Returns the earlier of two ends.
fn earlier(one: Option<DateTime<Utc>>, other: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    [one, other].into_iter().flatten().min()
}
