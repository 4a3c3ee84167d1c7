//! The server side of SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677)
//! as PostgreSQL speaks it.
//!
//! Owns verifiers, their text form, and the exchange of four messages as a
//! typed state machine. Never frames messages, chooses a user, draws a nonce or
//! sees a clear password during an exchange. A login that must fail – unknown
//! user, no right to log in – runs the whole exchange on a mock verifier and
//! fails in its last step, like a wrong password.

mod exchange;
mod message;
mod saslprep;
mod verifier;

use hmac::{Hmac, Mac};
use sha2::Sha256;

pub use exchange::{AwaitingFinal, ChannelBinding, ServerExchange};
pub use verifier::{MockSecret, ScramVerifier, VerifierError};

/// Mechanism name without channel binding.
pub const SCRAM_SHA_256: &str = "SCRAM-SHA-256";
/// Mechanism name with channel binding.
pub const SCRAM_SHA_256_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// Iterations for new passwords, PostgreSQL's default.
pub const ITERATIONS_DEFAULT: u32 = 4_096;
/// Fewest iterations of a verifier, the lower bound of RFC 7677, section 4.
pub const ITERATIONS_MIN: u32 = 4_096;
/// Most iterations of a verifier: about a third of a second per check.
pub const ITERATIONS_MAX: u32 = 1_000_000;

/// Longest client message, in bytes. Real ones stay under 300.
pub const MESSAGE_BYTES_MAX: usize = 4_096;
/// Longest client nonce, in bytes.
pub const CLIENT_NONCE_BYTES_MAX: usize = 256;

/// Says why an exchange ended without a login.
///
/// No variant carries anything the client sent or the server keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    /// The client chose a mechanism that was not offered on this connection.
    #[error("client selected an invalid SASL authentication mechanism")]
    UnknownMechanism,
    /// A message is longer than [`MESSAGE_BYTES_MAX`].
    #[error("SCRAM message is longer than {bytes_max} bytes")]
    TooLong {
        /// The limit.
        bytes_max: usize,
    },
    /// A message breaks the grammar of RFC 5802, section 7.
    #[error("malformed SCRAM message")]
    Malformed,
    /// The client asks to act as somebody else.
    #[error("client uses authorization identity, but it is not supported")]
    AuthzidNotSupported,
    /// The client demands an extension (`m=`).
    #[error("client requires an unsupported SCRAM extension")]
    ExtensionNotSupported,
    /// Mechanism and channel-binding flag of the client contradict each other.
    #[error("channel-binding flag does not fit the SCRAM mechanism")]
    BindingFlagMismatch,
    /// The client asks for a binding type other than `tls-server-end-point`.
    #[error("unsupported SCRAM channel-binding type")]
    BindingTypeNotSupported,
    /// The client supports binding and believes the server does not, though it
    /// offered it: somebody cut the offer out.
    #[error("SCRAM channel-binding negotiation was tampered with")]
    BindingDowngraded,
    /// The binding data is that of another connection.
    #[error("SCRAM channel binding check failed")]
    BindingMismatch,
    /// The last message answers another exchange.
    #[error("SCRAM nonce does not match")]
    NonceMismatch,
    /// The proof is wrong, or the login had to fail from the start.
    #[error("password authentication failed")]
    AuthenticationFailed,
}

/// HMAC-SHA-256 over the concatenation of `parts`.
fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}
