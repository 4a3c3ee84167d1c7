//! Secrets of the deployment itself.

use rand::TryRngCore;
use rand::rngs::OsRng;

use super::rows::damaged;
use super::{Catalog, Durability};
use crate::error::Result;

const SECRET_BYTES: usize = 32;

impl Catalog {
    /// Returns the secret of this name, random when it is first asked for and
    /// the same ever after.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store),
    /// [`DamagedValue`](crate::CatalogError::DamagedValue).
    ///
    /// # Panics
    ///
    /// When the operating system has no random source.
    pub async fn get_or_create_secret(&self, name: &str) -> Result<[u8; SECRET_BYTES]> {
        let name = name.to_owned();
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let mut fresh = [0; SECRET_BYTES];
                OsRng.try_fill_bytes(&mut fresh).expect("the operating system provides random bytes");
                sqlx::query(
                    "INSERT INTO server_secrets (name, value) VALUES ($1, $2)
                     ON CONFLICT (name) DO NOTHING",
                )
                .bind(&name)
                .bind(to_hex(&fresh))
                .execute(tx.connection())
                .await?;
                let stored: String = sqlx::query_scalar("SELECT value FROM server_secrets WHERE name = $1")
                    .bind(&name)
                    .fetch_one(tx.connection())
                    .await?;
                // The value itself must not reach an error message.
                from_hex(&stored).ok_or_else(|| damaged("server_secrets.value", "<redacted>"))
            })
        })
        .await
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<[u8; SECRET_BYTES]> {
    if text.len() != 2 * SECRET_BYTES {
        return None;
    }
    let mut bytes = [0; SECRET_BYTES];
    for (index, byte) in bytes.iter_mut().enumerate() {
        let digits = text.get(2 * index..2 * index + 2)?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(bytes)
}
