//! What a token says, and whether that is enough.

use serde_json::Value;

use super::json::Object;
use super::{Issuer, LEEWAY_SECONDS_MAX, Token, TokenError};

/// The latest time that is taken for one: the end of the year 9999.
const LATEST: u64 = 253_402_300_799;

/// The claims of a token whose signature fits.
pub(super) struct Claims<'a>(pub(super) &'a Object);

impl Claims<'_> {
    /// Checks everything that an issuer's tokens must say.
    pub(super) fn check(&self, issuer: &Issuer, now: u64) -> Result<Token, TokenError> {
        let leeway = issuer.leeway_seconds.min(LEEWAY_SECONDS_MAX);
        let expires_at = self.time("exp")?.ok_or(TokenError::Claim("exp"))?;
        if now >= expires_at.saturating_add(leeway) {
            return Err(TokenError::Expired);
        }
        for begin in ["nbf", "iat"] {
            if self.time(begin)?.is_some_and(|begin| begin > now.saturating_add(leeway)) {
                return Err(TokenError::NotYet);
            }
        }
        let subject = self.text("sub")?.ok_or(TokenError::Claim("sub"))?;
        if !self.audiences()?.iter().any(|audience| issuer.audiences.iter().any(|ours| ours == audience)) {
            return Err(TokenError::Audience);
        }
        self.ensure_scopes(&issuer.scopes)?;
        let identity = self.identity(&issuer.user_claim)?;
        Ok(Token {
            issuer: issuer.issuer.clone(),
            subject: subject.to_owned(),
            identity: identity.to_owned(),
            expires_at: expires_at.saturating_add(leeway),
        })
    }

    /// A NumericDate: a number that is not negative. A fraction is cut off.
    fn time(&self, claim: &'static str) -> Result<Option<u64>, TokenError> {
        let Some(value) = self.0.get(claim) else { return Ok(None) };
        let seconds = match value {
            Value::Number(number) => match number.as_u64() {
                Some(seconds) => Some(seconds),
                None => number.as_f64().filter(|seconds| (0.0..=LATEST as f64).contains(seconds)).map(|s| s as u64),
            },
            _ => None,
        };
        seconds.filter(|seconds| *seconds <= LATEST).map(Some).ok_or(TokenError::Claim(claim))
    }

    fn text(&self, claim: &'static str) -> Result<Option<&str>, TokenError> {
        match self.0.get(claim) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(TokenError::Claim(claim)),
        }
    }

    fn audiences(&self) -> Result<Vec<&str>, TokenError> {
        let refused = TokenError::Claim("aud");
        match self.0.get("aud") {
            Some(Value::String(one)) => Ok(vec![one]),
            Some(Value::Array(several)) => several.iter().map(|one| one.as_str().ok_or(refused)).collect(),
            _ => Err(refused),
        }
    }

    /// Scopes are a text with blanks (RFC 8693) or, as some providers have it, a list in `scp`.
    fn ensure_scopes(&self, needed: &[String]) -> Result<(), TokenError> {
        if needed.is_empty() {
            return Ok(());
        }
        let granted: Vec<&str> = match (self.0.get("scope"), self.0.get("scp")) {
            (Some(Value::String(scopes)), _) | (None, Some(Value::String(scopes))) => scopes.split(' ').collect(),
            (None, Some(Value::Array(scopes))) => scopes.iter().filter_map(Value::as_str).collect(),
            _ => return Err(TokenError::Scope),
        };
        let has = |scope: &String| granted.contains(&scope.as_str());
        if needed.iter().all(has) { Ok(()) } else { Err(TokenError::Scope) }
    }

    fn identity(&self, claim: &str) -> Result<&str, TokenError> {
        let identity = self.0.get(claim).and_then(Value::as_str).filter(|identity| !identity.is_empty());
        let identity = identity.ok_or(TokenError::UserClaim)?;
        // Whoever may write any address into his account could be anybody.
        if claim == "email" && self.0.get("email_verified") != Some(&Value::Bool(true)) {
            return Err(TokenError::UnverifiedEmail);
        }
        Ok(identity)
    }
}
