//! Secrets of users: sealed in the metadata store, opened at the start of a job.
//!
//! Owns the way between a value and its sealed form, and who may have it opened.
//! A value leaves this module only through [`Secrets::resolve`], which decides
//! the privilege anew. It is never logged, never part of an error, and never
//! answered to a client; no function here is given a place to write it to.

use std::sync::Arc;

use chrono::Utc;
use lancegate_auth::{Decision, Principal, Privilege, Requirement, Secret, UserName, decide};
use lancegate_catalog::{Catalog, CatalogError, ObjectChange, SecretName, SecretRecord};

pub mod key;
mod seal;

use self::key::KeyRing;
pub use self::seal::SealError;

/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;
/// Times that a new value is sealed again because another one came first.
const EXCHANGES_MAX: usize = 10;

/// Why a secret cannot be stored or opened. No variant holds a value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// There is no such secret, or the caller may not know that there is.
    #[error("secret \"{}\" does not exist", .0.name)]
    NotFound(SecretName),
    /// The caller lacks USAGE.
    #[error("permission denied for secret {}", .0.name)]
    Denied(SecretName),
    /// The value is longer than [`VALUE_BYTES_MAX`].
    #[error("value of secret \"{}\" is too long", .0.name)]
    TooLong(SecretName),
    /// The value holds a NUL, which no environment variable can.
    #[error("value of secret \"{}\" contains a NUL character", .0.name)]
    Nul(SecretName),
    /// Others changed it again and again meanwhile.
    #[error("secret \"{}\" is being changed by others", .0.name)]
    Contended(SecretName),
    /// It cannot be sealed or opened.
    #[error("secret \"{}\": {source}", name.name)]
    Seal {
        /// The secret.
        name: SecretName,
        /// The cause.
        source: SealError,
    },
    /// The metadata store.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// The secrets of a deployment. Clones are one.
#[derive(Debug, Clone)]
pub struct Secrets {
    catalog: Catalog,
    keys: Arc<KeyRing>,
}

impl Secrets {
    /// Returns the secrets of a store, sealed with these keys.
    pub fn new(catalog: Catalog, keys: KeyRing) -> Self {
        Self { catalog, keys: Arc::new(keys) }
    }

    /// Stores a new secret together with `grants`, which make somebody its owner.
    ///
    /// # Errors
    /// [`SecretError::TooLong`], [`SecretError::Nul`];
    /// [`CatalogError::AlreadyExists`], [`CatalogError::NotFound`] for the namespace.
    pub async fn create(
        &self,
        name: &SecretName,
        value: &Secret<String>,
        grants: Vec<ObjectChange>,
    ) -> Result<(), SecretError> {
        ensure_storable(name, value)?;
        let now = Utc::now();
        let sealed = self.keys.seal(name, 1, value).map_err(|source| cannot(name, source))?;
        let record = SecretRecord { name: name.clone(), version: 1, sealed, created_at: now, updated_at: now };
        let mut changes = vec![ObjectChange::CreateSecret(record)];
        changes.extend(grants);
        Ok(self.catalog.apply(changes).await?)
    }

    /// Gives a secret another value. Jobs that have started keep the earlier one.
    ///
    /// # Errors
    /// [`SecretError::NotFound`], [`SecretError::TooLong`], [`SecretError::Nul`],
    /// [`SecretError::Contended`].
    pub async fn alter(&self, name: &SecretName, value: &Secret<String>) -> Result<(), SecretError> {
        ensure_storable(name, value)?;
        for _ in 0..EXCHANGES_MAX {
            let record = self.catalog.secret(name).await?.ok_or_else(|| SecretError::NotFound(name.clone()))?;
            if self.exchange(record, value, true).await? {
                return Ok(());
            }
        }
        Err(SecretError::Contended(name.clone()))
    }

    /// Opens secrets for a job that starts on behalf of `principal`, in the order
    /// of `names`. Each needs USAGE on the secret, its namespace and its
    /// database, decided over the grants of this moment: what was allowed when the
    /// job was submitted may have been revoked. What is returned wipes itself; it
    /// is for the environment of the worker and nothing that is written down.
    ///
    /// # Errors
    /// [`SecretError::NotFound`], also where the way to a secret is closed;
    /// [`SecretError::Denied`]; [`SecretError::Seal`] if the key is not there or
    /// the record was tampered with. None of the values is returned then.
    pub async fn resolve(
        &self,
        principal: &Principal,
        names: &[SecretName],
    ) -> Result<Vec<Secret<String>>, SecretError> {
        let grants = self.catalog.grants().await?;
        let mut records = Vec::with_capacity(names.len());
        // All privileges first, so that nothing is opened for a job that is refused.
        for name in names {
            let object = name.object();
            let needed = Requirement::new(Privilege::Usage, object.clone());
            match decide(principal, &grants, &needed) {
                Decision::Allowed => {}
                Decision::Denied(missing) if missing.object == object => {
                    // Grants end with their object, so only an existing one can be denied.
                    let exists = self.catalog.secret(name).await?.is_some();
                    return Err(if exists { SecretError::Denied } else { SecretError::NotFound }(name.clone()));
                }
                Decision::Denied(_) => return Err(SecretError::NotFound(name.clone())),
            }
            records.push(self.catalog.secret(name).await?.ok_or_else(|| SecretError::NotFound(name.clone()))?);
        }
        let open = |record: &SecretRecord| {
            let opened = self.keys.open_sealed(&record.name, record.version, &record.sealed);
            opened.map_err(|source| cannot(&record.name, source))
        };
        records.iter().map(open).collect()
    }

    /// [`Self::resolve`] for a user with the roles of this moment.
    ///
    /// # Errors
    /// As there; [`SecretError::NotFound`] for a name that no user can have.
    pub async fn resolve_for(&self, user: &str, names: &[SecretName]) -> Result<Vec<Secret<String>>, SecretError> {
        let Ok(user) = UserName::parse(user) else {
            return names.first().map_or(Ok(Vec::new()), |name| Err(SecretError::NotFound(name.clone())));
        };
        let roles = self.catalog.roles_of(&user).await?;
        self.resolve(&Principal { roles, ..Principal::user(user) }, names).await
    }

    /// Seals every value anew that another key of the key file has sealed, so
    /// that the old key can be taken out of the file. What cannot be opened stays
    /// as it is and is named in the log. Returns how many were sealed anew.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub async fn rotate(&self) -> Result<usize, SecretError> {
        let mut sealed_anew = 0;
        for record in self.catalog.secrets(None).await? {
            let name = record.name.clone();
            match self.keys.open_sealed(&name, record.version, &record.sealed) {
                Ok(_) if record.sealed.key_id == self.keys.current_id() => {}
                // One that is changed meanwhile is sealed with the current key by that.
                Ok(value) => sealed_anew += usize::from(self.exchange(record, &value, false).await?),
                Err(error) => tracing::warn!(secret = %name, %error, "a secret cannot be opened"),
            }
        }
        if sealed_anew > 0 {
            tracing::info!(secrets = sealed_anew, "secrets were sealed anew with the current key");
        }
        Ok(sealed_anew)
    }

    async fn exchange(&self, record: SecretRecord, value: &Secret<String>, is_new: bool) -> Result<bool, SecretError> {
        let version = record.version + 1;
        let sealed = self.keys.seal(&record.name, version, value).map_err(|source| cannot(&record.name, source))?;
        let updated_at = if is_new { Utc::now() } else { record.updated_at };
        let after = SecretRecord { version, sealed, updated_at, ..record.clone() };
        Ok(self.catalog.exchange_secret(record, after).await?)
    }
}

fn cannot(name: &SecretName, source: SealError) -> SecretError {
    SecretError::Seal { name: name.clone(), source }
}

fn ensure_storable(name: &SecretName, value: &Secret<String>) -> Result<(), SecretError> {
    match value.expose() {
        value if value.len() > VALUE_BYTES_MAX => Err(SecretError::TooLong(name.clone())),
        value if value.contains('\0') => Err(SecretError::Nul(name.clone())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
