//! What the server keeps instead of a password.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::saslprep::prepare;
use super::{ITERATIONS_DEFAULT, ITERATIONS_MAX, ITERATIONS_MIN, SCRAM_SHA_256, hmac_sha256};
use crate::secret::REDACTED;

/// Salt of new verifiers, in bytes, as in PostgreSQL.
pub(super) const SALT_BYTES: usize = 16;
/// Longest salt of a verifier that is read, in bytes.
const SALT_BYTES_MAX: usize = 64;

/// The stored form of a SCRAM-SHA-256 password.
///
/// `Display` writes the text of PostgreSQL's `rolpassword`:
/// `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`. It is for the
/// metadata store alone: whoever has it can try passwords against it.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct ScramVerifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: [u8; 32],
    server_key: [u8; 32],
}

/// Says why a text is not a usable verifier. It does not repeat the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerifierError {
    /// The text does not begin with `SCRAM-SHA-256$`.
    #[error("not a SCRAM-SHA-256 verifier")]
    UnknownMechanism,
    /// A part is missing, is not base64 or has the wrong length.
    #[error("malformed SCRAM-SHA-256 verifier")]
    Malformed,
    /// The iterations are outside the accepted range.
    #[error("SCRAM-SHA-256 iterations must be between {min} and {max}")]
    Iterations {
        /// Fewest accepted.
        min: u32,
        /// Most accepted.
        max: u32,
    },
}

impl ScramVerifier {
    /// Reads the text form, strictly.
    ///
    /// The salt may have 1 to 64 bytes and the iterations must lie between
    /// [`ITERATIONS_MIN`] and [`ITERATIONS_MAX`]: fewer are weaker than RFC 7677
    /// allows, more would let a stored text keep a core busy.
    ///
    /// # Errors
    /// [`VerifierError`]; the text is never part of it.
    pub fn parse(text: &str) -> Result<Self, VerifierError> {
        let (mechanism, rest) = text.split_once('$').ok_or(VerifierError::UnknownMechanism)?;
        if mechanism != SCRAM_SHA_256 {
            return Err(VerifierError::UnknownMechanism);
        }
        let (settings, keys) = rest.split_once('$').ok_or(VerifierError::Malformed)?;
        let (iterations, salt) = settings.split_once(':').ok_or(VerifierError::Malformed)?;
        let (stored_key, server_key) = keys.split_once(':').ok_or(VerifierError::Malformed)?;
        Ok(Self {
            iterations: parse_iterations(iterations)?,
            salt: parse_salt(salt)?,
            stored_key: parse_key(stored_key)?,
            server_key: parse_key(server_key)?,
        })
    }

    /// Derives the verifier of `password`, which is prepared as PostgreSQL
    /// prepares it.
    ///
    /// `iterations` outside [`ITERATIONS_MIN`]`..=`[`ITERATIONS_MAX`] are
    /// brought into the range. Takes about 1.6 ms at 4,096 iterations and grows
    /// in proportion: run it off the I/O threads. That an empty password is not
    /// a password is for the caller to say; this verifier of it never passes
    /// [`ScramVerifier::verify_password`].
    pub fn from_password(password: &str, salt: [u8; SALT_BYTES], iterations: u32) -> Self {
        let iterations = iterations.clamp(ITERATIONS_MIN, ITERATIONS_MAX);
        Self::derive(password, &salt, iterations)
    }

    fn derive(password: &str, salt: &[u8], iterations: u32) -> Self {
        let password = prepare(password);
        let mut salted = Zeroizing::new([0; 32]);
        pbkdf2::pbkdf2_hmac::<Sha256>(&password, salt, iterations, &mut *salted);
        let client_key = Zeroizing::new(hmac_sha256(&*salted, &[b"Client Key"]));
        Self {
            iterations,
            salt: salt.to_vec(),
            stored_key: Sha256::digest(client_key.as_slice()).into(),
            server_key: hmac_sha256(&*salted, &[b"Server Key"]),
        }
    }

    /// Returns the verifier to run the exchange of `user` on when there is no
    /// such user.
    ///
    /// It is the same at every call with the same secret, as a stored one would
    /// be, and has the salt length and iterations of new passwords (see
    /// [`MockSecret::with_iterations`]). Users whose verifiers have other
    /// iterations can be told from unknown ones, as in PostgreSQL. Nobody knows
    /// a password for it.
    pub fn mock(user: &str, secret: &MockSecret) -> Self {
        let derive = |purpose: &[u8]| hmac_sha256(&secret.key, &[purpose, user.as_bytes()]);
        Self {
            iterations: secret.iterations,
            salt: derive(b"salt:")[..SALT_BYTES].to_vec(),
            stored_key: derive(b"stored key:"),
            server_key: derive(b"server key:"),
        }
    }

    /// Says whether `password` belongs to this verifier, comparing in constant
    /// time. An empty password and one with a NUL never do: the key of an HMAC
    /// is padded with zeros, so trailing NULs would pass unnoticed.
    ///
    /// Costs as much as [`ScramVerifier::from_password`].
    pub fn verify_password(&self, password: &str) -> bool {
        let derived = Self::derive(password, &self.salt, self.iterations);
        let same_stored = derived.stored_key.ct_eq(&self.stored_key);
        let same_server = derived.server_key.ct_eq(&self.server_key);
        bool::from(same_stored & same_server) && !password.is_empty() && !password.contains('\0')
    }

    /// Returns the number of PBKDF2 iterations.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Returns the salt, which every client gets to see.
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    pub(super) fn stored_key(&self) -> &[u8; 32] {
        &self.stored_key
    }

    pub(super) fn server_key(&self) -> &[u8; 32] {
        &self.server_key
    }
}

fn parse_iterations(text: &str) -> Result<u32, VerifierError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(VerifierError::Malformed);
    }
    let out_of_range = VerifierError::Iterations { min: ITERATIONS_MIN, max: ITERATIONS_MAX };
    text.parse().ok().filter(|iterations| (ITERATIONS_MIN..=ITERATIONS_MAX).contains(iterations)).ok_or(out_of_range)
}

fn parse_salt(text: &str) -> Result<Vec<u8>, VerifierError> {
    STANDARD.decode(text).ok().filter(|salt| (1..=SALT_BYTES_MAX).contains(&salt.len())).ok_or(VerifierError::Malformed)
}

fn parse_key(text: &str) -> Result<[u8; 32], VerifierError> {
    let bytes = STANDARD.decode(text).map(Zeroizing::new).map_err(|_| VerifierError::Malformed)?;
    <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| VerifierError::Malformed)
}

impl FromStr for ScramVerifier {
    type Err = VerifierError;

    fn from_str(text: &str) -> Result<Self, VerifierError> {
        Self::parse(text)
    }
}

impl fmt::Display for ScramVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{SCRAM_SHA_256}${}:{}${}:{}",
            self.iterations,
            STANDARD.encode(&self.salt),
            STANDARD.encode(self.stored_key),
            STANDARD.encode(self.server_key),
        )
    }
}

impl fmt::Debug for ScramVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScramVerifier({REDACTED})")
    }
}

/// Compares the keys in constant time.
impl PartialEq for ScramVerifier {
    fn eq(&self, other: &Self) -> bool {
        let same_keys = self.stored_key.ct_eq(&other.stored_key) & self.server_key.ct_eq(&other.server_key);
        bool::from(same_keys) && self.iterations == other.iterations && self.salt == other.salt
    }
}

impl Eq for ScramVerifier {}

/// The server's key for mock verifiers: drawn once, kept in the metadata store,
/// shared by all gateways of a deployment.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct MockSecret {
    key: [u8; 32],
    iterations: u32,
}

impl MockSecret {
    /// Wraps 32 random bytes. Mocks have [`ITERATIONS_DEFAULT`] iterations.
    pub fn new(key: [u8; 32]) -> Self {
        Self { key, iterations: ITERATIONS_DEFAULT }
    }

    /// Gives mocks the iterations that the deployment uses for new passwords,
    /// brought into the accepted range as in [`ScramVerifier::from_password`].
    #[must_use]
    pub fn with_iterations(mut self, iterations: u32) -> Self {
        self.iterations = iterations.clamp(ITERATIONS_MIN, ITERATIONS_MAX);
        self
    }
}

impl fmt::Debug for MockSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MockSecret({REDACTED})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Password `pencil` with the salt of RFC 7677, section 3.
    const PENCIL: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
         WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

    const SALT: [u8; 16] =
        [0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa, 0x81];

    #[test]
    fn a_password_gives_the_verifier_that_postgres_stores() {
        let verifier = ScramVerifier::from_password("pencil", SALT, 4_096);
        assert_eq!(verifier.to_string(), PENCIL);
        assert_eq!(ScramVerifier::parse(PENCIL), Ok(verifier));
    }

    #[test]
    fn only_the_right_password_passes() {
        let verifier = ScramVerifier::parse(PENCIL).unwrap();
        assert!(verifier.verify_password("pencil"));
        for wrong in ["", "Pencil", "pencil ", "pencil\0"] {
            assert!(!verifier.verify_password(wrong), "{wrong:?}");
        }
        let empty = ScramVerifier::from_password("", SALT, 4_096);
        assert!(!empty.verify_password(""));
    }

    #[test]
    fn equivalent_spellings_of_a_password_pass() {
        let verifier = ScramVerifier::from_password("I\u{ad}X", SALT, 4_096);
        assert!(verifier.verify_password("IX"));
        assert!(verifier.verify_password("\u{2168}"));
    }

    #[test]
    fn iterations_are_brought_into_the_range() {
        assert_eq!(ScramVerifier::from_password("x", SALT, 0).iterations(), 4_096);
        assert_eq!(ScramVerifier::from_password("x", SALT, 5_000).iterations(), 5_000);
    }

    #[test]
    fn a_text_that_is_not_exactly_a_verifier_is_refused() {
        let check = |text: &str, expected| {
            assert_eq!(ScramVerifier::parse(text), Err(expected), "{text:?}");
        };
        let range = VerifierError::Iterations { min: 4_096, max: 1_000_000 };
        check("", VerifierError::UnknownMechanism);
        check("md5d1b2", VerifierError::UnknownMechanism);
        check(&PENCIL.replace("SCRAM-SHA-256$", "scram-sha-256$"), VerifierError::UnknownMechanism);
        check(&PENCIL.replace("4096:", ""), VerifierError::Malformed);
        check(&PENCIL.replace("4096", ""), VerifierError::Malformed);
        check(&PENCIL.replace("4096", "+4096"), VerifierError::Malformed);
        check(&PENCIL.replace("4096", " 4096"), VerifierError::Malformed);
        check(&PENCIL.replace("4096", "4095"), range);
        check(&PENCIL.replace("4096", "1000001"), range);
        check(&PENCIL.replace("4096", "99999999999999999999"), range);
        check(&PENCIL.replace("W22ZaJ0SNY7soEsUEjb6gQ==", ""), VerifierError::Malformed);
        check(&PENCIL.replace("gQ==", "gQ"), VerifierError::Malformed);
        check(&PENCIL.replace("gQ==", "gR=="), VerifierError::Malformed);
        check(&PENCIL.replace("$WG5d", "$"), VerifierError::Malformed);
        check(&format!("{PENCIL} "), VerifierError::Malformed);
        check(&format!("{PENCIL}:x"), VerifierError::Malformed);
    }

    #[test]
    fn a_mock_is_stable_per_user_and_looks_like_a_new_verifier() {
        let secret = MockSecret::new([7; 32]);
        let ann = ScramVerifier::mock("ann", &secret);
        assert_eq!(ann, ScramVerifier::mock("ann", &secret));
        assert_ne!(ann.salt(), ScramVerifier::mock("bob", &secret).salt());
        assert_ne!(ann.salt(), ScramVerifier::mock("ann", &MockSecret::new([8; 32])).salt());
        assert_eq!((ann.iterations(), ann.salt().len()), (4_096, 16));
        let slower = ScramVerifier::mock("ann", &secret.with_iterations(10_000));
        assert_eq!(slower.iterations(), 10_000);
        assert_eq!(slower.salt(), ann.salt());
    }

    #[test]
    fn debug_output_has_no_key_and_no_salt() {
        let verifier = ScramVerifier::parse(PENCIL).unwrap();
        assert_eq!(format!("{verifier:?}"), "ScramVerifier(<redacted>)");
        assert_eq!(format!("{:?}", MockSecret::new([7; 32])), "MockSecret(<redacted>)");
    }
}
