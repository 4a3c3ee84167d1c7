//! SCRAM-SHA-256 over the wire.
//!
//! An unknown user, an expired one and one without a password go through the
//! same messages as a wrong password, and fail with the same words.

use lancegate_auth::{AwaitingFinal, ScramError, ServerExchange, random_bytes};
use lancegate_wire::backend;
use lancegate_wire::frontend::SaslInitialResponse;

use super::{Proven, Way};
use crate::pg::connection::Transport;
use crate::pg::startup::{StartupError, reach};
use lancegate_engine::error::SqlError;
use lancegate_engine::sqlstate::SqlState;

impl<S: Transport> Way<'_, S> {
    /// Runs the exchange.
    ///
    /// # Errors
    /// 28P01 if the proof fails for whatever reason, 08P01 or 28000 if the client
    /// does not follow the exchange.
    pub(super) async fn scram(mut self) -> Result<Proven, StartupError> {
        let user = self.attempt.user;
        reach("login.account").await?;
        let candidate = self.shared.identities.candidate(user).await?;
        let nonce = random_bytes().map_err(SqlError::internal)?;
        let binding = self.attempt.peer.binding.clone();
        backend::authentication_sasl(&mut self.connection.out, binding.mechanisms());
        let exchange = ServerExchange::start(candidate.verifier, candidate.known, binding, nonce);
        self.converse(exchange).await?;
        Ok(Proven { connection_limit: candidate.connection_limit, ends_at: candidate.valid_until })
    }

    async fn converse(&mut self, exchange: ServerExchange) -> Result<(), StartupError> {
        let user = self.attempt.user;
        let first = SaslInitialResponse::decode(&self.next_password().await?)?;
        let Some(data) = first.data else {
            return Err(failure(ScramError::Malformed, user).into());
        };
        let (answer, awaiting): (Vec<u8>, AwaitingFinal) =
            exchange.client_first(&first.mechanism, &data).map_err(|error| failure(error, user))?;
        backend::authentication_sasl_continue(&mut self.connection.out, &answer);
        let proof = self.next_password().await?;
        let signature = awaiting.client_final(&proof).map_err(|error| failure(error, user))?;
        backend::authentication_sasl_final(&mut self.connection.out, &signature);
        Ok(())
    }
}

fn failure(error: ScramError, user: &str) -> SqlError {
    match error {
        ScramError::AuthenticationFailed => {
            let message = format!("password authentication failed for user \"{user}\"");
            SqlError::new(SqlState::INVALID_PASSWORD, message)
        }
        ScramError::BindingMismatch
        | ScramError::BindingDowngraded
        | ScramError::BindingFlagMismatch
        | ScramError::BindingTypeNotSupported
        | ScramError::AuthzidNotSupported => {
            SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, error.to_string())
        }
        ScramError::UnknownMechanism
        | ScramError::TooLong { .. }
        | ScramError::Malformed
        | ScramError::ExtensionNotSupported
        | ScramError::NonceMismatch => SqlError::new(SqlState::PROTOCOL_VIOLATION, error.to_string()),
    }
}
