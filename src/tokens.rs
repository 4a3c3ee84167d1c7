//! Tokens of identity providers: their public keys, fetched and kept, and the check
//! of a token against them.
//!
//! Keys are used for a configured time and then asked for again. A token whose key
//! is not among them asks at once, but no more than once in half a minute for each
//! issuer, however many such tokens come. An answer is bounded in size and time and
//! never redirected. What fails leaves the old keys in use for a day.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lancegate_auth::jwt::KEY_SET_BYTES_MAX;
use lancegate_auth::{Issuer, KeySet, Token, TokenError, UntrustedToken};
use lancegate_engine::config::{JwtIssuer, KeysAt, safe_url};
use reqwest::{Client, Url, redirect};
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::sync::Mutex;

/// The longest time that an answer may take.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The shortest time between two questions because of a key that is not there, and
/// after one that failed.
const UNKNOWN_KEY_INTERVAL: Duration = Duration::from_secs(30);
/// How long keys are used when no new ones can be had.
const STALE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The identity providers of a gateway. Clones are the same ones.
#[derive(Debug, Clone, Default)]
pub struct Tokens(Arc<[Provider]>);

/// Why a token is refused; for the log.
#[derive(Debug, thiserror::Error)]
pub enum TokenRefusal {
    /// The token itself.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// It is of another issuer than the rule says.
    #[error("the rule wants a token of another issuer")]
    OtherIssuer,
    /// There are no keys to check it with.
    #[error("the keys of the issuer cannot be had")]
    NoKeys,
}

#[derive(Debug)]
struct Provider {
    expected: Issuer,
    keys_at: KeysAt,
    refresh_interval: Duration,
    client: Client,
    cached: RwLock<Cached>,
    /// Held while keys are asked for.
    asking: Mutex<Asked>,
}

#[derive(Debug, Default, Clone)]
struct Cached {
    keys: Option<Arc<KeySet>>,
    fetched_at: Option<Instant>,
    /// Whether they are to be asked for again, however young they are.
    expired: bool,
}

#[derive(Debug, Default)]
struct Asked {
    /// When an unknown key was the reason.
    for_unknown: Option<Instant>,
    failed_at: Option<Instant>,
}

/// Why keys could not be had.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    #[error(transparent)]
    File(#[from] std::io::Error),
    #[error("the answer is longer than {KEY_SET_BYTES_MAX} bytes")]
    TooLong,
    #[error("the discovery document is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the discovery document names another issuer")]
    OtherIssuer,
    #[error("the discovery document names no safe place for keys")]
    NoPlace,
    #[error(transparent)]
    Keys(#[from] lancegate_auth::jwt::KeySetError),
}

impl Tokens {
    /// Makes the providers of a configuration; nothing is fetched before the first token.
    ///
    /// # Errors
    /// The HTTP client cannot be made.
    pub fn new(issuers: &[JwtIssuer]) -> Result<Self, reqwest::Error> {
        let provider = |issuer: &JwtIssuer| {
            // A redirect could lead to anywhere, and a proxy of the environment, too.
            let client = Client::builder().redirect(redirect::Policy::none()).timeout(FETCH_TIMEOUT);
            let client = match issuer.keys_at() {
                Some(KeysAt::Url(url) | KeysAt::Discovered(url)) if url.scheme() == "http" => client.no_proxy(),
                _ => client,
            };
            let client = client.build()?;
            Ok(issuer.keys_at().map(|keys_at| Provider {
                expected: issuer.expectations(),
                keys_at,
                refresh_interval: issuer.refresh_interval(),
                client,
                cached: RwLock::default(),
                asking: Mutex::default(),
            }))
        };
        // The configuration has refused those whose place cannot be read.
        let providers: Vec<Option<Provider>> = issuers.iter().map(provider).collect::<Result<_, _>>()?;
        Ok(Self(providers.into_iter().flatten().collect()))
    }

    /// Returns whether there is any provider.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns what tokens of an issuer must say; the first one's without a name.
    pub fn issuer(&self, name: Option<&str>) -> Option<&Issuer> {
        let is_it = |provider: &&Provider| name.is_none_or(|name| provider.expected.issuer == name);
        self.0.iter().find(is_it).map(|provider| &provider.expected)
    }

    /// Checks a token, of one issuer only if it is named.
    ///
    /// # Errors
    /// See [`TokenRefusal`].
    pub async fn verify(&self, token: &str, only: Option<&str>) -> Result<Token, TokenRefusal> {
        let token = UntrustedToken::read(token)?;
        let issuer = token.issuer()?;
        let provider = self.0.iter().find(|provider| provider.expected.issuer == issuer).ok_or(TokenError::Issuer)?;
        if only.is_some_and(|only| only != issuer) {
            return Err(TokenRefusal::OtherIssuer);
        }
        // Nothing is fetched for what no key could make good.
        token.ensure_allowed(&provider.expected)?;
        let keys = provider.keys_for(&token).await.ok_or(TokenRefusal::NoKeys)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(token.verify(&provider.expected, &keys, now)?)
    }

    /// Forgets how old the keys are, so that the next token asks for new ones.
    pub async fn expire(&self) {
        for provider in self.0.iter() {
            *provider.asking.lock().await = Asked::default();
            provider.cached.write().unwrap_or_else(PoisonError::into_inner).expired = true;
        }
    }
}

impl Provider {
    /// Returns the keys that a token is to be checked with.
    async fn keys_for(&self, token: &UntrustedToken<'_>) -> Option<Arc<KeySet>> {
        if let Some(keys) = self.fresh().filter(|keys| token.has_key(keys)) {
            return Some(keys);
        }
        let mut asked = self.asking.lock().await;
        // Whoever held the lock may have brought what is needed.
        let fresh = self.fresh();
        if let Some(keys) = fresh.as_ref().filter(|keys| token.has_key(keys)) {
            return Some(Arc::clone(keys));
        }
        let recent = |at: Option<Instant>| at.is_some_and(|at| at.elapsed() < UNKNOWN_KEY_INTERVAL);
        let is_unknown = fresh.is_some();
        if recent(asked.failed_at) || (is_unknown && recent(asked.for_unknown)) {
            return self.usable();
        }
        if is_unknown {
            asked.for_unknown = Some(Instant::now());
        }
        // Also if whoever asks gives up meanwhile.
        asked.failed_at = Some(Instant::now());
        match self.fetch().await {
            Ok(keys) => {
                asked.failed_at = None;
                let cached = Cached { keys: Some(Arc::new(keys)), fetched_at: Some(Instant::now()), expired: false };
                *self.cached.write().unwrap_or_else(PoisonError::into_inner) = cached;
            }
            Err(error) => {
                asked.failed_at = Some(Instant::now());
                let issuer = &self.expected.issuer;
                tracing::warn!(issuer, %error, "the keys of an issuer cannot be had");
            }
        }
        self.usable()
    }

    fn cached(&self) -> Cached {
        self.cached.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the keys if they need not be asked for again.
    fn fresh(&self) -> Option<Arc<KeySet>> {
        let Cached { keys, fetched_at, expired } = self.cached();
        keys.filter(|_| !expired && fetched_at.is_some_and(|at| at.elapsed() < self.refresh_interval))
    }

    /// Returns the keys if they can be used at all.
    fn usable(&self) -> Option<Arc<KeySet>> {
        let Cached { keys, fetched_at, expired: _ } = self.cached();
        keys.filter(|_| fetched_at.is_some_and(|at| at.elapsed() < STALE_MAX))
    }

    async fn fetch(&self) -> Result<KeySet, FetchError> {
        let text = match &self.keys_at {
            KeysAt::File(path) => {
                let mut text = Vec::new();
                let file = tokio::fs::File::open(path).await?;
                file.take(KEY_SET_BYTES_MAX as u64 + 1).read_to_end(&mut text).await?;
                if text.len() > KEY_SET_BYTES_MAX {
                    return Err(FetchError::TooLong);
                }
                text
            }
            KeysAt::Url(url) => self.get(url.clone()).await?,
            KeysAt::Discovered(url) => {
                let document: Value = serde_json::from_slice(&self.get(url.clone()).await?)?;
                if document["issuer"].as_str() != Some(self.expected.issuer.as_str()) {
                    return Err(FetchError::OtherIssuer);
                }
                let place = document["jwks_uri"].as_str().and_then(safe_url);
                // A document may name https anywhere, but not reach into this machine from outside.
                let place = place.filter(|place| place.scheme() == "https" || url.scheme() == "http");
                self.get(place.ok_or(FetchError::NoPlace)?).await?
            }
        };
        Ok(KeySet::parse(&text)?)
    }

    /// Asks for a document.
    async fn get(&self, url: Url) -> Result<Vec<u8>, FetchError> {
        let mut response = self.client.get(url).send().await?.error_for_status()?;
        let mut text = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if text.len() + chunk.len() > KEY_SET_BYTES_MAX {
                return Err(FetchError::TooLong);
            }
            text.extend_from_slice(&chunk);
        }
        Ok(text)
    }
}
