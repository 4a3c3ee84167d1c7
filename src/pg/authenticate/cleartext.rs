//! What is sent as a password and is none: a token, or an API key.
//!
//! Rules allow it only where nobody listens in. Nothing here is hashed slowly, so a
//! flood of wrong ones costs little.

use chrono::DateTime;
use lancegate_auth::{Secret, Token};
use lancegate_wire::backend;
use lancegate_wire::frontend::decode_cleartext_password;

use super::{Proven, Trail, Way, earlier, refused};
use crate::pg::connection::Transport;
use crate::pg::startup::StartupError;
use lancegate_engine::error::SqlError;
use lancegate_engine::sqlstate::SqlState;

impl<S: Transport> Way<'_, S> {
    /// Lets in the user of a token.
    pub(super) async fn jwt(mut self, trail: &mut Trail) -> Result<Proven, StartupError> {
        let user = self.attempt.user;
        let token = self.ask().await?;
        let failed = || refused(format!("JWT authentication failed for user \"{user}\""));
        self.by_token(token.expose(), trail, failed).await
    }

    /// Lets in the user of an API key.
    pub(super) async fn api_key(mut self) -> Result<Proven, StartupError> {
        let user = self.attempt.user;
        let key = self.ask().await?;
        let login = self.shared.engine.login_of_key(key.expose()).await?;
        let failed = || {
            let message = format!("API key authentication failed for user \"{user}\"");
            SqlError::new(SqlState::INVALID_PASSWORD, message)
        };
        let login = login.filter(|login| login.user.as_str() == user).ok_or_else(failed)?;
        let mut proven = self.account(failed).await?;
        proven.ends_at = earlier(proven.ends_at, login.valid_until);
        Ok(proven)
    }

    /// Lets in the user of a token that came by whatever way.
    pub(super) async fn by_token(
        &self,
        token: &str,
        trail: &mut Trail,
        failed: impl Fn() -> SqlError,
    ) -> Result<Proven, StartupError> {
        let user = self.attempt.user;
        let verified = self.shared.identities.tokens().verify(token, self.rule.issuer.as_deref()).await;
        let token: Token = verified.map_err(|error| {
            tracing::info!(user, %error, "token refused");
            failed()
        })?;
        trail.identity = Some(format!("{} of {}", token.subject, token.issuer));
        if !self.access.maps.allows(self.rule.map.as_deref(), &token.identity, user) {
            tracing::info!(user, subject = token.subject, "the token is of another user");
            return Err(failed().into());
        }
        let mut proven = self.account(&failed).await?;
        let expires_at = i64::try_from(token.expires_at).ok().and_then(|at| DateTime::from_timestamp(at, 0));
        proven.ends_at = earlier(proven.ends_at, expires_at);
        Ok(proven)
    }

    async fn ask(&mut self) -> Result<Secret<String>, StartupError> {
        backend::authentication_cleartext_password(&mut self.connection.out);
        let body = self.next_password().await?;
        Ok(Secret::new(decode_cleartext_password(&body)?))
    }
}
