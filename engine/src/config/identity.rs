//! Identity providers, and what is recorded of those who connect.

use std::net::IpAddr;
use std::path::PathBuf;

use lancegate_auth::{Algorithm, Issuer};
use serde::Deserialize;
use url::{Host, Url};

use super::keys::JWT_ISSUERS;
use super::layer::Origins;
use super::problem::Problems;
use super::value::Duration;

/// How far clocks may differ unless it is said.
const LEEWAY: Duration = Duration::from_secs(10);
/// How long keys are used unless it is said.
const REFRESH_INTERVAL: Duration = Duration::from_secs(600);

/// One of `[[jwt_issuers]]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwtIssuer {
    /// What `iss` says.
    pub issuer: String,
    /// What `aud` must have, with commas between.
    audience: String,
    /// Where the keys are, as it is written.
    jwks: Option<String>,
    algorithms: Option<String>,
    user_claim: Option<String>,
    scope: Option<String>,
    leeway: Option<Duration>,
    refresh_interval: Option<Duration>,
}

/// Where the public keys of an issuer are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeysAt {
    /// In a file.
    File(PathBuf),
    /// Behind a URL.
    Url(Url),
    /// Where this document says.
    Discovered(Url),
}

/// `[audit]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditConfig {
    /// Where records go; unset: there are none.
    pub file: Option<PathBuf>,
    /// Which statements have one.
    pub statements: AuditedStatements,
    /// What happens to what cannot be recorded.
    pub on_failure: AuditFailure,
}

/// Which statements that need a privilege have a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditedStatements {
    /// All.
    All,
    /// Those that change something, and those that were denied.
    Changes,
    /// Those that were denied.
    Denied,
}

/// What happens to what cannot be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditFailure {
    /// It is refused.
    Refuse,
    /// It goes on.
    Warn,
}

/// How tokens may be signed where nothing is said.
const ALGORITHMS: &str = "RS256,ES256";

impl JwtIssuer {
    /// Returns what tokens of the issuer must say.
    pub fn expectations(&self) -> Issuer {
        let algorithms = words(self.algorithms.as_deref().unwrap_or(ALGORITHMS), ',');
        Issuer {
            issuer: self.issuer.clone(),
            audiences: words(&self.audience, ','),
            algorithms: algorithms.iter().filter_map(|name| Algorithm::parse(name)).collect(),
            user_claim: self.user_claim.clone().unwrap_or_else(|| "sub".to_owned()),
            scopes: words(self.scope.as_deref().unwrap_or_default(), ' '),
            leeway_seconds: self.leeway.unwrap_or(LEEWAY).get().as_secs(),
        }
    }

    /// Returns where the keys are; `None` if that cannot be read.
    pub fn keys_at(&self) -> Option<KeysAt> {
        match &self.jwks {
            None => {
                let discovery = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
                safe_url(&discovery).map(KeysAt::Discovered)
            }
            Some(text) if text.contains("://") => safe_url(text).map(KeysAt::Url),
            Some(path) => Some(KeysAt::File(path.into())),
        }
    }

    /// Returns how long keys are used before they are asked for again.
    pub fn refresh_interval(&self) -> std::time::Duration {
        self.refresh_interval.unwrap_or(REFRESH_INTERVAL).get()
    }
}

/// Reads a URL whose answer nobody can change on the way.
pub fn safe_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_loopback = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => IpAddr::from(address).is_loopback(),
        Host::Ipv6(address) => IpAddr::from(address).is_loopback(),
    };
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback);
    (is_safe && url.username().is_empty() && url.password().is_none()).then_some(url)
}

fn words(text: &str, separator: char) -> Vec<String> {
    text.split(separator).map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Refuses issuers that could never let anybody in, or let in the wrong ones.
pub(super) fn check(issuers: &[JwtIssuer], origins: &Origins, problems: &mut Problems) {
    let mut refuse = |index: usize, key: &str, what: String| {
        let problem = origins.problem(JWT_ISSUERS, what).at(format!("{JWT_ISSUERS}[{index}].{key}"));
        problems.push(problem);
    };
    for (index, issuer) in issuers.iter().enumerate() {
        if issuers[..index].iter().any(|earlier| earlier.issuer == issuer.issuer) {
            refuse(index, "issuer", format!("\"{}\" is there twice", issuer.issuer));
        }
        if words(&issuer.audience, ',').is_empty() {
            refuse(index, "audience", "names no audience".to_owned());
        }
        let algorithms = words(issuer.algorithms.as_deref().unwrap_or(ALGORITHMS), ',');
        let unknown = algorithms.iter().find(|name| Algorithm::parse(name).is_none());
        if let Some(name) = unknown {
            let known: Vec<&str> = Algorithm::ALL.iter().map(|algorithm| algorithm.as_str()).collect();
            refuse(index, "algorithms", format!("\"{name}\" is not allowed; use {}", known.join(", ")));
        } else if algorithms.is_empty() {
            refuse(index, "algorithms", "names no algorithm".to_owned());
        }
        if issuer.keys_at().is_none() {
            let what = "is neither a path nor a URL with https, or with http on this machine, and without a password";
            let key = if issuer.jwks.is_some() { "jwks" } else { "issuer" };
            refuse(index, key, what.to_owned());
        }
    }
}
