//! SCRAM-SHA-256 over the wire.
//!
//! An unknown user, an expired one and one without a password go through the
//! same messages as a wrong password, and fail with the same words.

use std::net::IpAddr;

use bytes::Bytes;
use lancegate_auth::{AwaitingFinal, ChannelBinding, ScramError, ServerExchange, random_bytes};
use lancegate_wire::frontend::SaslInitialResponse;
use lancegate_wire::{FrontendMessage, Phase, backend};

use crate::pg::PgShared;
use crate::pg::connection::{Connection, Transport};
use crate::pg::startup::StartupError;
use lancegate_engine::error::SqlError;
use lancegate_engine::sqlstate::SqlState;

/// Who knocks, and over what.
#[derive(Debug)]
pub(in crate::pg) struct Attempt<'a> {
    pub(in crate::pg) user: &'a str,
    pub(in crate::pg) address: IpAddr,
    pub(in crate::pg) binding: ChannelBinding,
}

/// What is known of a user after it has proved itself.
#[derive(Debug)]
pub(in crate::pg) struct Proven {
    pub(in crate::pg) connection_limit: Option<u32>,
}

/// Runs the exchange; AuthenticationOk is in the buffer when it returns.
///
/// # Errors
/// 28P01 if the proof fails for whatever reason, 08P01 or 28000 if the client
/// does not follow the exchange. All of them end the connection.
pub(in crate::pg) async fn authenticate<S: Transport>(
    connection: &mut Connection<S>,
    shared: &PgShared,
    attempt: Attempt<'_>,
) -> Result<Proven, StartupError> {
    let Attempt { user, address, binding } = attempt;
    // Short of the deadline, so that who waited still gets an answer.
    let delay_max = shared.config.authentication_timeout.mul_f64(0.75);
    tokio::time::sleep(shared.identities.delay(user, address).min(delay_max)).await;
    let candidate = shared.identities.candidate(user).await?;
    let nonce = random_bytes().map_err(SqlError::internal)?;
    let mechanisms = binding.mechanisms();
    let exchange = ServerExchange::start(candidate.verifier, candidate.known, binding, nonce);
    backend::authentication_sasl(&mut connection.out, mechanisms);
    match converse(connection, exchange, user).await {
        Ok(()) => {
            shared.identities.succeeded(user, address);
            backend::authentication_ok(&mut connection.out);
            Ok(Proven { connection_limit: candidate.connection_limit })
        }
        Err(error) => {
            shared.identities.failed(user, address);
            Err(error)
        }
    }
}

async fn converse<S: Transport>(
    connection: &mut Connection<S>,
    exchange: ServerExchange,
    user: &str,
) -> Result<(), StartupError> {
    let first = SaslInitialResponse::decode(&next_password(connection).await?)?;
    let Some(data) = first.data else {
        return Err(failure(ScramError::Malformed, user).into());
    };
    let (answer, awaiting): (Vec<u8>, AwaitingFinal) =
        exchange.client_first(&first.mechanism, &data).map_err(|error| failure(error, user))?;
    backend::authentication_sasl_continue(&mut connection.out, &answer);
    let proof = next_password(connection).await?;
    let signature = awaiting.client_final(&proof).map_err(|error| failure(error, user))?;
    backend::authentication_sasl_final(&mut connection.out, &signature);
    Ok(())
}

async fn next_password<S: Transport>(connection: &mut Connection<S>) -> Result<Bytes, StartupError> {
    match connection.next_message(Phase::Authenticating).await? {
        FrontendMessage::Password(body) => Ok(body),
        // The phase lets nothing else through.
        _ => Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, "expected password response").into()),
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
