//! Sealing: AES-256-GCM with a fresh random nonce for each value.
//!
//! The sealed text is `1:` and the base64 of the nonce (12 bytes), the
//! ciphertext and the tag (16 bytes). What the value belongs to is authenticated
//! with it: a record that was moved to another name, version or key does not
//! open. An older record of the same secret does, if the store's file as a whole
//! is put back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lancegate_auth::{EntropyUnavailable, Secret, random_bytes};
use lancegate_catalog::{Sealed, SecretName};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use super::key::KEY_BYTES;

/// The form of a sealed text; another one is of newer software.
const FORM: &str = "1:";
/// What the authenticated data begin with, so that the key serves one purpose.
const PURPOSE: &[u8] = b"lancegate secret 1";

/// Why a value cannot be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The key file does not have the key that it was sealed with.
    #[error("it was sealed with key {key_id}, which the key file does not have")]
    UnknownKey {
        /// The key, as the record names it.
        key_id: String,
    },
    /// It is not what was sealed under this name.
    #[error("its stored value is damaged, or was moved here from another secret")]
    Tampered,
    /// Newer software sealed it.
    #[error("its stored value has a form of newer software")]
    NewerForm,
    /// There are no random bytes.
    #[error(transparent)]
    Entropy(#[from] EntropyUnavailable),
}

/// One key, ready to use.
pub(super) struct SealingKey(LessSafeKey);

impl SealingKey {
    pub(super) fn new(bytes: &[u8; KEY_BYTES]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, bytes).expect("a key of this algorithm has 32 bytes");
        Self(LessSafeKey::new(key))
    }

    pub(super) fn seal(
        &self,
        key_id: &str,
        (name, version): (&SecretName, u64),
        value: &Secret<String>,
    ) -> Result<Sealed, SealError> {
        let nonce: [u8; NONCE_LEN] = random_bytes()?;
        // Wiped, because it holds the value until it is sealed in place.
        let mut buffer = Secret::new(Vec::with_capacity(value.expose().len()));
        buffer.expose_mut().extend_from_slice(value.expose().as_bytes());
        let bound = Aad::from(bound(key_id, name, version));
        let tag = self
            .0
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), bound, buffer.expose_mut())
            .expect("a value is far shorter than the algorithm's limit");
        let bytes = [&nonce[..], buffer.expose(), tag.as_ref()].concat();
        Ok(Sealed { key_id: key_id.to_owned(), text: format!("{FORM}{}", STANDARD.encode(bytes)) })
    }

    pub(super) fn open(
        &self,
        (name, version): (&SecretName, u64),
        sealed: &Sealed,
    ) -> Result<Secret<String>, SealError> {
        let text = sealed.text.strip_prefix(FORM).ok_or_else(|| match sealed.text.split_once(':') {
            Some((form, _)) if form.parse::<u32>().is_ok_and(|form| form > 1) => SealError::NewerForm,
            _ => SealError::Tampered,
        })?;
        let mut bytes = Secret::new(STANDARD.decode(text).map_err(|_| SealError::Tampered)?);
        let (nonce, rest) = bytes.expose_mut().split_first_chunk_mut::<NONCE_LEN>().ok_or(SealError::Tampered)?;
        let bound = Aad::from(bound(&sealed.key_id, name, version));
        let value =
            self.0.open_in_place(Nonce::assume_unique_for_key(*nonce), bound, rest).map_err(|_| SealError::Tampered)?;
        // Only text is ever sealed.
        let value = std::str::from_utf8(value).map_err(|_| SealError::Tampered)?;
        Ok(Secret::new(value.to_owned()))
    }
}

/// Returns what a value is bound to; each part with its length, so that no two
/// lists of parts are the same bytes.
fn bound(key_id: &str, name: &SecretName, version: u64) -> Vec<u8> {
    let version = version.to_be_bytes();
    let mut parts: Vec<&[u8]> = vec![PURPOSE, key_id.as_bytes(), name.database.as_bytes(), &version];
    parts.extend(name.namespace.iter().map(String::as_bytes));
    parts.push(name.name.as_bytes());
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend((part.len() as u64).to_be_bytes());
        bytes.extend(part);
    }
    bytes
}
