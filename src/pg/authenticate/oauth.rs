//! OAUTHBEARER over the wire (RFC 7628), as the clients of PostgreSQL 18 speak it.

use std::time::Duration;

use lancegate_auth::oauthbearer::{DUMMY, First, MessageError, OAUTHBEARER, first, refusal};
use lancegate_wire::backend;
use lancegate_wire::frontend::SaslInitialResponse;

use super::{Proven, Trail, Way, refused};
use crate::pg::connection::Transport;
use crate::pg::startup::StartupError;
use lancegate_engine::error::SqlError;
use lancegate_engine::sqlstate::SqlState;

/// How long a client may take to say that it has heard; less than any time to log in.
const HEARD_MAX: Duration = Duration::from_millis(500);

impl<S: Transport> Way<'_, S> {
    /// Lets in the user of a token, or says where tokens are.
    pub(super) async fn oauth(mut self, trail: &mut Trail) -> Result<Proven, StartupError> {
        let user = self.attempt.user;
        backend::authentication_sasl(&mut self.connection.out, &[OAUTHBEARER]);
        let response = SaslInitialResponse::decode(&self.next_password().await?)?;
        if response.mechanism != OAUTHBEARER {
            let message = "client selected an invalid SASL authentication mechanism";
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message).into());
        }
        let data = response.data.ok_or_else(|| malformed(MessageError::Malformed))?;
        let failed = || refused(format!("OAuth bearer authentication failed for user \"{user}\""));
        let refusal = match first(&data).map_err(malformed)? {
            First::Discovery => StartupError::Discovered(failed()),
            First::Token(token) => match self.by_token(token, trail, failed).await {
                Ok(proven) => return Ok(proven),
                Err(error) => error,
            },
        };
        self.tell(refusal).await
    }

    /// Tells where tokens are; the client says that it has heard before it is told
    /// that it was refused. One that hangs up or says nothing was refused all the same,
    /// and counts as such.
    async fn tell(mut self, refused: StartupError) -> Result<Proven, StartupError> {
        let issuer = self.shared.identities.tokens().issuer(self.rule.issuer.as_deref());
        // Rules with this method are refused without an issuer.
        let Some(issuer) = issuer else { return Err(refused) };
        backend::authentication_sasl_continue(&mut self.connection.out, &refusal(&issuer.issuer, &issuer.scopes));
        match tokio::time::timeout(HEARD_MAX, self.next_password()).await {
            Ok(Ok(heard)) if heard.as_ref() != DUMMY => Err(malformed(MessageError::Malformed).into()),
            _ => Err(refused),
        }
    }
}

fn malformed(error: MessageError) -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, error.to_string())
}
