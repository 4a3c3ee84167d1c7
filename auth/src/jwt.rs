//! Signed tokens (RFC 7519) of identity providers that an operator trusts.
//!
//! A token is split and read ([`UntrustedToken`]), its key is looked up by the
//! caller in the keys of its issuer ([`KeySet`]), and [`UntrustedToken::verify`]
//! gives a [`Token`] or says why not. Nothing of a token chooses how it is
//! checked: the algorithms are those of the [`Issuer`], a key fits one kind of
//! algorithm, and `jku`, `jwk`, `x5u` and `x5c` are never looked at (RFC 8725).
//!
//! Pure: keys and the time come in as values, nothing is fetched here. No error
//! carries anything of the token.

mod claims;
mod json;
mod keys;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use claims::Claims;
use json::Object;
pub use keys::{KEY_SET_BYTES_MAX, KeySet, KeySetError};

/// The longest token; the wire's password message has no more.
pub const TOKEN_BYTES_MAX: usize = 65_535;
/// The longest key id.
const KEY_ID_BYTES_MAX: usize = 256;
/// The most seconds that a clock may differ.
pub const LEEWAY_SECONDS_MAX: u64 = 60;

/// How a token may be signed: with a private key, so that who checks it cannot make one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of RFC 7518 and RFC 8037")]
pub enum Algorithm {
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    EdDSA,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::RS256,
        Self::RS384,
        Self::RS512,
        Self::PS256,
        Self::PS384,
        Self::PS512,
        Self::ES256,
        Self::ES384,
        Self::EdDSA,
    ];

    /// Returns the algorithm of a name; `none` and those with a shared secret have none.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RS256 => "RS256",
            Self::RS384 => "RS384",
            Self::RS512 => "RS512",
            Self::PS256 => "PS256",
            Self::PS384 => "PS384",
            Self::PS512 => "PS512",
            Self::ES256 => "ES256",
            Self::ES384 => "ES384",
            Self::EdDSA => "EdDSA",
        }
    }
}

/// An identity provider and what its tokens must say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// `iss`, to the letter.
    pub issuer: String,
    /// One of these must be in `aud`.
    pub audiences: Vec<String>,
    /// How tokens may be signed.
    pub algorithms: Vec<Algorithm>,
    /// The claim that names the user: `sub` never changes its owner, others may.
    pub user_claim: String,
    /// What `scope` or `scp` must have, if anything.
    pub scopes: Vec<String>,
    /// How far clocks may differ, in seconds.
    pub leeway_seconds: u64,
}

/// A token that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Who signed it.
    pub issuer: String,
    /// `sub`.
    pub subject: String,
    /// The value of the claim that names the user.
    pub identity: String,
    /// `exp`, seconds since 1970, with the leeway: until then the token is let in.
    pub expires_at: u64,
}

/// Why a token is refused. For the log: a client learns only that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Longer than [`TOKEN_BYTES_MAX`].
    #[error("the token is too long")]
    TooLong,
    /// Not three parts of base64url, or not JSON objects without repeated names.
    #[error("the token is malformed")]
    Malformed,
    /// `alg` is none that any issuer may use, as `none` and `HS256` are.
    #[error("the token's algorithm is not allowed")]
    Algorithm,
    /// `crit` names what is not understood, or `b64` is there, or `typ` is of another kind.
    #[error("the token's header asks for what is not understood")]
    Header,
    /// `kid` is longer than 256 bytes or no text.
    #[error("the token's key id is not allowed")]
    KeyId,
    /// No issuer of this name is configured.
    #[error("the token's issuer is not trusted")]
    Issuer,
    /// The issuer has no key of this id for this algorithm.
    #[error("the issuer has no such key")]
    UnknownKey,
    /// The signature does not fit.
    #[error("the token's signature is wrong")]
    Signature,
    /// A claim is missing or of a wrong type.
    #[error("the token's claim \"{0}\" is missing or of a wrong type")]
    Claim(&'static str),
    /// The claim that names the user is missing or no text.
    #[error("the claim that names the user is missing or no text")]
    UserClaim,
    /// `email` names the user and is not verified.
    #[error("the token's e-mail address is not verified")]
    UnverifiedEmail,
    /// Past `exp`.
    #[error("the token has expired")]
    Expired,
    /// Before `nbf` or `iat`.
    #[error("the token is not valid yet")]
    NotYet,
    /// `aud` has none of ours.
    #[error("the token is for another audience")]
    Audience,
    /// A scope is missing.
    #[error("the token lacks a scope")]
    Scope,
}

/// A token that was read and not checked.
pub struct UntrustedToken<'a> {
    signed: &'a [u8],
    signature: Vec<u8>,
    algorithm: Algorithm,
    key_id: Option<String>,
    claims: Object,
}

impl std::fmt::Debug for UntrustedToken<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UntrustedToken").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

impl<'a> UntrustedToken<'a> {
    /// Reads a token.
    ///
    /// # Errors
    /// What of [`TokenError`] can be told without a key.
    pub fn read(token: &'a str) -> Result<Self, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed);
        let object = |part: &str| json::object(&decoded(part)?).ok_or(TokenError::Malformed);
        let header = object(header)?;
        Ok(Self {
            signed: signed.as_bytes(),
            signature: decoded(signature)?,
            algorithm: algorithm(&header)?,
            key_id: key_id(&header)?,
            claims: object(claims)?,
        })
    }

    /// Returns who the token says has signed it.
    ///
    /// # Errors
    /// [`TokenError::Claim`].
    pub fn issuer(&self) -> Result<&str, TokenError> {
        self.claims.get("iss").and_then(serde_json::Value::as_str).ok_or(TokenError::Claim("iss"))
    }

    /// Ensures that an issuer may sign like this at all, before its keys are asked for.
    ///
    /// # Errors
    /// [`TokenError::Issuer`], [`TokenError::Algorithm`].
    pub fn ensure_allowed(&self, issuer: &Issuer) -> Result<(), TokenError> {
        if self.issuer()? != issuer.issuer {
            return Err(TokenError::Issuer);
        }
        if !issuer.algorithms.contains(&self.algorithm) {
            return Err(TokenError::Algorithm);
        }
        Ok(())
    }

    /// Returns whether a set has a key that the token may be signed with: if not,
    /// a newer set may.
    pub fn has_key(&self, keys: &KeySet) -> bool {
        keys.find(self.key_id.as_deref(), self.algorithm).next().is_some()
    }

    /// Checks the token against its issuer's keys at `now`, seconds since 1970.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn verify(&self, issuer: &Issuer, keys: &KeySet, now: u64) -> Result<Token, TokenError> {
        self.ensure_allowed(issuer)?;
        let mut keys = keys.find(self.key_id.as_deref(), self.algorithm).peekable();
        if keys.peek().is_none() {
            return Err(TokenError::UnknownKey);
        }
        if !keys.any(|key| key.signed(self.algorithm, self.signed, &self.signature)) {
            return Err(TokenError::Signature);
        }
        Claims(&self.claims).check(issuer, now)
    }
}

fn algorithm(header: &Object) -> Result<Algorithm, TokenError> {
    // RFC 7515, 4.1.11: what is critical and not understood refuses the token; we
    // understand none. `b64` changes what is signed.
    if header.contains_key("crit") || header.contains_key("b64") {
        return Err(TokenError::Header);
    }
    // RFC 9068 calls access tokens at+jwt; other kinds, as of logout, are no proof.
    match header.get("typ").map(serde_json::Value::as_str) {
        None => {}
        Some(Some(kind)) if ["jwt", "at+jwt", "application/at+jwt"].contains(&kind.to_ascii_lowercase().as_str()) => {}
        Some(_) => return Err(TokenError::Header),
    }
    let name = header.get("alg").and_then(serde_json::Value::as_str).ok_or(TokenError::Algorithm)?;
    Algorithm::parse(name).ok_or(TokenError::Algorithm)
}

fn key_id(header: &Object) -> Result<Option<String>, TokenError> {
    match header.get("kid") {
        None => Ok(None),
        Some(serde_json::Value::String(id)) if id.len() <= KEY_ID_BYTES_MAX => Ok(Some(id.clone())),
        Some(_) => Err(TokenError::KeyId),
    }
}

#[cfg(test)]
mod tests;
