//! The public keys of an issuer (RFC 7517).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER;
use serde_json::Value;

use super::Algorithm;
use super::json::{self, Object};

/// The most bytes of a set of keys.
pub const KEY_SET_BYTES_MAX: usize = 1024 * 1024;
/// The most keys of a set; providers have two or three.
const KEYS_MAX: usize = 100;
/// The fewest bytes of an RSA modulus: 2,048 bits (RFC 7518, 3.3), and the most
/// that are worth the time.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// The keys of an issuer that can sign tokens.
#[derive(Debug, Clone)]
pub struct KeySet {
    keys: Vec<Key>,
}

/// Why a text is no set of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// Longer than [`KEY_SET_BYTES_MAX`], or more than 100 keys.
    #[error("the set of keys is too large")]
    TooLarge,
    /// Not `{"keys": […]}`.
    #[error("this is no JSON Web Key Set")]
    Malformed,
    /// None of the keys can sign a token as it is allowed here.
    #[error("the set has no key for signatures that is supported")]
    NoKey,
}

/// One public key.
#[derive(Debug, Clone)]
pub(super) struct Key {
    id: Option<String>,
    kind: Kind,
    /// `alg`: the only algorithm that it is for.
    only: Option<Algorithm>,
    key: DecodingKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rsa,
    P256,
    P384,
    Ed25519,
}

impl KeySet {
    /// Reads a set. Keys of other kinds and for other uses are left out, as the
    /// RFC wants it.
    ///
    /// # Errors
    /// See [`KeySetError`].
    pub fn parse(text: &[u8]) -> Result<Self, KeySetError> {
        if text.len() > KEY_SET_BYTES_MAX {
            return Err(KeySetError::TooLarge);
        }
        let set = json::object(text).ok_or(KeySetError::Malformed)?;
        let keys = set.get("keys").and_then(Value::as_array).ok_or(KeySetError::Malformed)?;
        if keys.len() > KEYS_MAX {
            return Err(KeySetError::TooLarge);
        }
        let keys: Vec<Key> = keys.iter().filter_map(Value::as_object).filter_map(Key::read).collect();
        if keys.is_empty() { Err(KeySetError::NoKey) } else { Ok(Self { keys }) }
    }

    /// Returns the keys that a token may be signed with. Without an id, all that fit its algorithm.
    pub(super) fn find<'a>(&'a self, id: Option<&'a str>, algorithm: Algorithm) -> impl Iterator<Item = &'a Key> {
        let is_it = move |key: &&Key| id.is_none_or(|id| key.id.as_deref() == Some(id));
        self.keys.iter().filter(is_it).filter(move |key| key.fits(algorithm))
    }
}

impl Key {
    fn read(key: &Object) -> Option<Self> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        if text("use").is_some_and(|r#use| r#use != "sig") {
            return None;
        }
        if let Some(operations) = key.get("key_ops")
            && !operations.as_array()?.iter().any(|operation| operation == "verify")
        {
            return None;
        }
        let only = match key.get("alg") {
            None => None,
            Some(name) => Some(Algorithm::parse(name.as_str()?)?),
        };
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let (kind, decoding) = match (text("kty")?, text("crv")) {
            ("RSA", None) => {
                let modulus = bytes("n")?;
                let significant = modulus.iter().skip_while(|byte| **byte == 0).count();
                if !RSA_BYTES.contains(&significant) {
                    return None;
                }
                (Kind::Rsa, DecodingKey::from_rsa_raw_components(&modulus, &bytes("e")?))
            }
            ("EC", Some("P-256")) => (Kind::P256, elliptic(text("x")?, text("y")?, 32)?),
            ("EC", Some("P-384")) => (Kind::P384, elliptic(text("x")?, text("y")?, 48)?),
            ("OKP", Some("Ed25519")) if bytes("x")?.len() == 32 => {
                (Kind::Ed25519, DecodingKey::from_ed_components(text("x")?).ok()?)
            }
            _ => return None,
        };
        let id = text("kid").map(str::to_owned);
        Some(Self { id, kind, only, key: decoding })
    }

    fn fits(&self, algorithm: Algorithm) -> bool {
        let kind = match algorithm {
            Algorithm::RS256 | Algorithm::RS384 | Algorithm::RS512 => Kind::Rsa,
            Algorithm::PS256 | Algorithm::PS384 | Algorithm::PS512 => Kind::Rsa,
            Algorithm::ES256 => Kind::P256,
            Algorithm::ES384 => Kind::P384,
            Algorithm::EdDSA => Kind::Ed25519,
        };
        self.kind == kind && self.only.is_none_or(|only| only == algorithm)
    }

    /// Returns whether the key has signed these bytes.
    pub(super) fn signed(&self, algorithm: Algorithm, bytes: &[u8], signature: &[u8]) -> bool {
        let algorithm = match algorithm {
            Algorithm::RS256 => jsonwebtoken::Algorithm::RS256,
            Algorithm::RS384 => jsonwebtoken::Algorithm::RS384,
            Algorithm::RS512 => jsonwebtoken::Algorithm::RS512,
            Algorithm::PS256 => jsonwebtoken::Algorithm::PS256,
            Algorithm::PS384 => jsonwebtoken::Algorithm::PS384,
            Algorithm::PS512 => jsonwebtoken::Algorithm::PS512,
            Algorithm::ES256 => jsonwebtoken::Algorithm::ES256,
            Algorithm::ES384 => jsonwebtoken::Algorithm::ES384,
            Algorithm::EdDSA => jsonwebtoken::Algorithm::EdDSA,
        };
        // The provider is named, so that no other crate of the tree chooses it.
        let verifier = (DEFAULT_PROVIDER.verifier_factory)(&algorithm, &self.key);
        verifier.is_ok_and(|verifier| verifier.verify(bytes, &signature.to_vec()).is_ok())
    }
}

fn elliptic(x: &str, y: &str, bytes: usize) -> Option<DecodingKey> {
    for coordinate in [x, y] {
        if URL_SAFE_NO_PAD.decode(coordinate).ok()?.len() != bytes {
            return None;
        }
    }
    DecodingKey::from_ec_components(x, y).ok()
}
