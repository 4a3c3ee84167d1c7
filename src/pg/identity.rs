//! Who may log in: users of the metadata store, their roles, and the throttle
//! on failed attempts.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::Utc;
use lancegate_auth::{
    MockSecret, Principal, RoleName, ScramVerifier, Throttle, ThrottleConfig, ThrottleKey, UserName, Verdict,
};
use lancegate_catalog::{Catalog, Timestamp, User};

use crate::tokens::Tokens;

use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::sqlstate::SqlState;

/// The name under which the store keeps the secret of mock verifiers, so that
/// an unknown user looks the same after a restart.
const MOCK_SECRET: &str = "scram_mock";

/// The users of a metadata store as the front door sees them.
#[derive(Debug, Clone)]
pub struct Identities {
    catalog: Catalog,
    mock: Arc<MockSecret>,
    throttle: Arc<Mutex<Throttle>>,
    tokens: Tokens,
    /// The moment from which the throttle counts.
    began_at: Instant,
}

/// What a user name must prove. For a name that cannot log in it is a mock that
/// nothing proves, so the client cannot tell.
#[derive(Debug)]
pub(in crate::pg) struct Candidate {
    pub(in crate::pg) verifier: ScramVerifier,
    pub(in crate::pg) known: bool,
    pub(in crate::pg) connection_limit: Option<u32>,
    pub(in crate::pg) valid_until: Option<Timestamp>,
}

impl Identities {
    /// Opens the users of `catalog`, who may also prove themselves by `tokens`.
    ///
    /// # Errors
    /// What the store answers.
    pub async fn open(catalog: Catalog, tokens: Tokens) -> Result<Self> {
        let secret = catalog.get_or_create_secret(MOCK_SECRET).await?;
        let throttle = Mutex::new(Throttle::new(ThrottleConfig::default()));
        Ok(Self {
            catalog,
            mock: Arc::new(MockSecret::new(secret)),
            throttle: Arc::new(throttle),
            tokens,
            began_at: Instant::now(),
        })
    }

    /// Returns what `user` must prove.
    pub(in crate::pg) async fn candidate(&self, user: &str) -> Result<Candidate> {
        let stored = match UserName::parse(user) {
            Ok(name) => self.catalog.user(&name).await?,
            // A name that no user can have is looked up no further.
            Err(_) => None,
        };
        let connection_limit = stored.as_ref().and_then(|stored| stored.connection_limit);
        let valid_until = stored.as_ref().and_then(|stored| stored.valid_until);
        let expired = valid_until.is_some_and(|until| until <= Utc::now());
        let verifier = stored.and_then(|stored| stored.verifier).and_then(|text| parse_verifier(user, &text));
        Ok(Candidate {
            known: verifier.is_some() && !expired,
            verifier: verifier.unwrap_or_else(|| ScramVerifier::mock(user, &self.mock)),
            connection_limit,
            valid_until,
        })
    }

    /// Returns a user who may log in now; for ways that do not read its password.
    pub(crate) async fn account(&self, name: &UserName) -> Result<Option<User>> {
        let user = self.catalog.user(name).await?;
        Ok(user.filter(|user| user.valid_until.is_none_or(|until| until > Utc::now())))
    }

    /// Returns the roles of what may be a user.
    pub(in crate::pg) async fn roles(&self, user: &str) -> Result<Vec<RoleName>> {
        match UserName::parse(user) {
            Ok(name) => Ok(self.catalog.roles_of(&name).await?.into_iter().collect()),
            Err(_) => Ok(Vec::new()),
        }
    }

    /// Returns the identity providers.
    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Returns whom a token logs in over HTTP, where nobody says who he is: the user
    /// that it names. `None` if it is not valid or there is no such user.
    pub(crate) async fn by_token(&self, token: &str) -> Result<Option<Principal>> {
        let token = match self.tokens.verify(token, None).await {
            Ok(token) => token,
            Err(error) => {
                tracing::info!(%error, "token refused");
                return Ok(None);
            }
        };
        let Ok(name) = UserName::parse(&token.identity) else { return Ok(None) };
        match self.account(&name).await? {
            Some(user) => self.principal(user.name.as_str()).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the authenticated user with its roles.
    pub(in crate::pg) async fn principal(&self, user: &str) -> Result<Principal> {
        let name = UserName::parse(user).map_err(SqlError::internal)?;
        let roles = self.catalog.roles_of(&name).await?;
        Ok(Principal { roles, ..Principal::user(name) })
    }

    /// Returns whom a password logs in; `None` if it is wrong, whatever the reason.
    /// Takes the same time for a user that is not there.
    pub(crate) async fn by_password(&self, user: &str, password: &str) -> Result<Option<Principal>> {
        let candidate = self.candidate(user).await?;
        let (verifier, given) = (candidate.verifier, password.to_owned());
        // Hashing takes milliseconds by design.
        let proven = tokio::task::spawn_blocking(move || verifier.verify_password(&given));
        let proven = proven.await.map_err(SqlError::internal)?;
        match proven && candidate.known {
            true => self.principal(user).await.map(Some),
            false => Ok(None),
        }
    }

    /// Returns the stored form of a user's password, which changes with it; `None` if
    /// he may not log in with one now.
    pub(crate) async fn password_of(&self, user: &UserName) -> Result<Option<String>> {
        let stored = self.catalog.user(user).await?;
        let valid = stored.filter(|stored| stored.valid_until.is_none_or(|until| until > Utc::now()));
        Ok(valid.and_then(|stored| stored.verifier))
    }

    /// Returns whether a session can be in the database.
    ///
    /// # Errors
    /// 3D000 if there is none of that name.
    pub(in crate::pg) async fn ensure_database(&self, name: &str) -> Result<()> {
        match self.catalog.database(name).await? {
            Some(_) => Ok(()),
            None => Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist"))),
        }
    }

    /// Returns how long this user at this address has to wait for an answer.
    pub(crate) fn delay(&self, user: &str, address: Option<IpAddr>) -> Duration {
        let key = ThrottleKey::new(address, user);
        match self.throttle().check(&key, self.began_at.elapsed()) {
            Verdict::Proceed => Duration::ZERO,
            Verdict::Wait(time) => time,
        }
    }

    /// Counts an attempt that failed.
    pub(crate) fn failed(&self, user: &str, address: Option<IpAddr>) {
        self.throttle().failed(&ThrottleKey::new(address, user), self.began_at.elapsed());
    }

    /// Forgets failed attempts after one that succeeded.
    pub(crate) fn succeeded(&self, user: &str, address: Option<IpAddr>) {
        self.throttle().succeeded(&ThrottleKey::new(address, user));
    }

    fn throttle(&self) -> MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn parse_verifier(user: &str, text: &str) -> Option<ScramVerifier> {
    ScramVerifier::parse(text).inspect_err(|error| tracing::error!(user, %error, "stored verifier cannot be read")).ok()
}
