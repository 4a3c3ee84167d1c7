//! The exchange, from the server's side, as a typed state machine.
//!
//! Each step consumes the state before it, so a message cannot be answered
//! twice or out of order, and an exchange that failed cannot go on.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

use super::message::{BindingFlag, ClientFinal, ClientFirst};
use super::{SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramError, ScramVerifier, hmac_sha256};

/// The one channel-binding type on offer (RFC 5929, section 4).
const TLS_SERVER_END_POINT: &str = "tls-server-end-point";

/// What the connection can bind a login to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelBinding {
    /// Nothing: the connection is not encrypted.
    Unavailable,
    /// The hash of the server's certificate in use on this connection, made
    /// with the hash function of the certificate's signature (SHA-256 instead
    /// of MD5 and SHA-1).
    TlsServerEndPoint(Vec<u8>),
}

impl ChannelBinding {
    /// Returns the mechanisms to offer, the preferred one first.
    pub fn mechanisms(&self) -> &'static [&'static str] {
        match self {
            Self::Unavailable => &[SCRAM_SHA_256],
            Self::TlsServerEndPoint(_) => &[SCRAM_SHA_256_PLUS, SCRAM_SHA_256],
        }
    }
}

/// An exchange that waits for the client's first message.
pub struct ServerExchange {
    verifier: ScramVerifier,
    known: bool,
    binding: ChannelBinding,
    server_nonce: String,
}

/// An exchange that waits for the client's proof.
pub struct AwaitingFinal {
    verifier: ScramVerifier,
    known: bool,
    /// The `c` attribute that the client must send.
    binding_text: String,
    /// Client nonce followed by server nonce.
    nonce: String,
    client_first_bare: String,
    server_first: String,
}

impl ServerExchange {
    /// Begins an exchange on `verifier`.
    ///
    /// With `known` false the exchange runs to its end and fails there whatever
    /// the proof: for an unknown user together with [`ScramVerifier::mock`], for
    /// a user that may not log in with the stored one. `nonce` must be fresh
    /// random bytes for every exchange.
    pub fn start(verifier: ScramVerifier, known: bool, binding: ChannelBinding, nonce: [u8; 18]) -> Self {
        Self { verifier, known, binding, server_nonce: STANDARD.encode(nonce) }
    }

    /// Takes the mechanism the client chose and its first message; returns the
    /// answer and the state that waits for the last message.
    ///
    /// # Errors
    /// Any [`ScramError`] but those of the proof, the nonce and the binding
    /// data. None of them depends on the verifier or on `known`.
    pub fn client_first(self, mechanism: &str, data: &[u8]) -> Result<(Vec<u8>, AwaitingFinal), ScramError> {
        if !self.binding.mechanisms().contains(&mechanism) {
            return Err(ScramError::UnknownMechanism);
        }
        let message = ClientFirst::parse(data)?;
        let binding_text = self.binding_text(mechanism, &message)?;
        let nonce = format!("{}{}", message.nonce, self.server_nonce);
        let server_first =
            format!("r={nonce},s={},i={}", STANDARD.encode(self.verifier.salt()), self.verifier.iterations());
        let awaiting = AwaitingFinal {
            verifier: self.verifier,
            known: self.known,
            binding_text,
            nonce,
            client_first_bare: message.bare.to_owned(),
            server_first: server_first.clone(),
        };
        Ok((server_first.into_bytes(), awaiting))
    }

    /// Checks the flag of the first message and returns what the last one must
    /// repeat.
    fn binding_text(&self, mechanism: &str, message: &ClientFirst<'_>) -> Result<String, ScramError> {
        let header = message.gs2_header.as_bytes();
        match &self.binding {
            ChannelBinding::TlsServerEndPoint(hash) if mechanism == SCRAM_SHA_256_PLUS => {
                ensure_bound(message.flag)?;
                Ok(STANDARD.encode([header, hash].concat()))
            }
            offer => {
                ensure_unbound(message.flag, offer)?;
                Ok(STANDARD.encode(header))
            }
        }
    }
}

/// The flag of a client that chose the mechanism with channel binding
/// (RFC 5802, section 6).
fn ensure_bound(flag: BindingFlag<'_>) -> Result<(), ScramError> {
    match flag {
        BindingFlag::Used(TLS_SERVER_END_POINT) => Ok(()),
        BindingFlag::Used(_) => Err(ScramError::BindingTypeNotSupported),
        BindingFlag::NotOffered | BindingFlag::NotSupported => Err(ScramError::BindingFlagMismatch),
    }
}

/// The flag of a client that chose the mechanism without channel binding.
fn ensure_unbound(flag: BindingFlag<'_>, offer: &ChannelBinding) -> Result<(), ScramError> {
    match (flag, offer) {
        (BindingFlag::NotSupported, _) => Ok(()),
        (BindingFlag::NotOffered, ChannelBinding::Unavailable) => Ok(()),
        (BindingFlag::NotOffered, ChannelBinding::TlsServerEndPoint(_)) => Err(ScramError::BindingDowngraded),
        (BindingFlag::Used(_), _) => Err(ScramError::BindingFlagMismatch),
    }
}

impl AwaitingFinal {
    /// Takes the client's last message; returns the server's signature for it.
    /// Only then is the client logged in.
    ///
    /// # Errors
    /// [`ScramError::TooLong`], [`ScramError::Malformed`] and
    /// [`ScramError::ExtensionNotSupported`] for the message,
    /// [`ScramError::BindingMismatch`] and [`ScramError::NonceMismatch`] for
    /// what it must repeat, [`ScramError::AuthenticationFailed`] for the proof.
    pub fn client_final(self, data: &[u8]) -> Result<Vec<u8>, ScramError> {
        let message = ClientFinal::parse(data)?;
        if message.binding != self.binding_text {
            return Err(ScramError::BindingMismatch);
        }
        if message.nonce != self.nonce {
            return Err(ScramError::NonceMismatch);
        }
        let signed: [&[u8]; 5] = [
            self.client_first_bare.as_bytes(),
            b",",
            self.server_first.as_bytes(),
            b",",
            message.without_proof.as_bytes(),
        ];
        let proven = self.proof_holds(&message.proof, &signed);
        let signature = hmac_sha256(self.verifier.server_key(), &signed);
        // One branch at the very end: unknown users and wrong passwords take
        // the same path to it.
        if bool::from(proven & Choice::from(u8::from(self.known))) {
            return Ok(format!("v={}", STANDARD.encode(signature)).into_bytes());
        }
        Err(ScramError::AuthenticationFailed)
    }

    /// RFC 5802, section 3: the proof is the client key under a mask that only
    /// who knows the stored key can compute.
    fn proof_holds(&self, proof: &[u8; 32], signed: &[&[u8]]) -> Choice {
        let mask = Zeroizing::new(hmac_sha256(self.verifier.stored_key(), signed));
        let mut client_key = Zeroizing::new(*proof);
        for (byte, mask) in client_key.iter_mut().zip(mask.iter()) {
            *byte ^= mask;
        }
        let stored_key: [u8; 32] = Sha256::digest(client_key.as_slice()).into();
        stored_key.ct_eq(self.verifier.stored_key())
    }
}

impl fmt::Debug for ServerExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerExchange").finish_non_exhaustive()
    }
}

impl fmt::Debug for AwaitingFinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwaitingFinal").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
