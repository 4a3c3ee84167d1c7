//! The one place of this crate that draws random bytes.
//!
//! Everything else takes randomness as a value, so tests decide it. This module
//! only asks the operating system; it keeps no generator and no state.

use rand::TryRngCore;
use rand::rngs::OsRng;

/// Says that the operating system gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("no random bytes from the operating system")]
pub struct EntropyUnavailable(#[source] rand::rand_core::OsError);

/// Returns `N` bytes from the operating system: a salt (16), a nonce (18), a
/// [`MockSecret`](crate::MockSecret) (32).
///
/// # Errors
/// [`EntropyUnavailable`]; the caller must refuse the operation, never go on
/// with bytes from elsewhere.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], EntropyUnavailable> {
    let mut bytes = [0; N];
    OsRng.try_fill_bytes(&mut bytes).map_err(EntropyUnavailable)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_draws_differ() {
        assert_ne!(random_bytes::<18>().unwrap(), random_bytes::<18>().unwrap());
    }
}
