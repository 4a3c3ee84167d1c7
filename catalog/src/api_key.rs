//! API keys: names of keys, and digests by which they are found again.

use lancegate_auth::UserName;

use crate::Timestamp;

/// A key as it is stored. The key itself is shown once, when it is made, and is
/// kept nowhere: it has 256 random bits, so a plain digest gives nothing away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The name, of which there is one in the deployment.
    pub name: String,
    /// Who is logged in by it.
    pub user: UserName,
    /// SHA-256 of the key, 64 lower-case hexadecimal digits.
    pub digest: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working; never without it.
    pub valid_until: Option<Timestamp>,
}

impl ApiKey {
    /// Returns whether it works at `now`.
    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.valid_until.is_none_or(|until| now < until)
    }
}
