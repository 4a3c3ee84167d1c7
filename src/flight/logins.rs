//! What lasts from one call to the next: a login that a handshake has made, and the
//! options that a client has set.
//!
//! Both are found by a secret. That of a login comes as a Bearer token and
//! authenticates; that of options alone comes as a cookie beside other credentials
//! and authenticates nobody.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lancegate_auth::UserName;
use lancegate_engine::error::Result;

use super::registry::Handle;

/// What the token of a login begins with, so that no other is looked for here.
pub(super) const TOKEN_PREFIX: &str = "lgt_";
/// The cookie that has the options of a session, as the Flight SQL clients name it.
pub(super) const COOKIE: &str = "arrow_flight_session_id";

/// How long a session is kept that nobody uses.
const KEPT: Duration = Duration::from_secs(8 * 60 * 60);
/// The most sessions of one user; the oldest gives its place to the next.
const OF_USER: usize = 256;
/// The most of all users.
const OF_ALL: usize = 16_384;

/// What names a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionId(Handle);

/// It is a credential and does not print.
impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId")
    }
}

impl SessionId {
    /// Reads the text behind the prefix of a token, or in a cookie.
    pub(super) fn read(text: &str) -> Option<Self> {
        // A longer text would only be decoded in vain.
        let bytes = (text.len() <= 64).then(|| URL_SAFE_NO_PAD.decode(text).ok()).flatten()?;
        Handle::read(&bytes).map(Self)
    }

    /// Returns the text of it.
    pub(super) fn text(self) -> String {
        URL_SAFE_NO_PAD.encode(self.0.bytes())
    }
}

/// Options of a session (Flight SQL, `SetSessionOptions`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// The database of its calls.
    pub(super) catalog: Option<String>,
    /// The schema of names without one.
    pub(super) schema: Option<String>,
}

/// A session.
#[derive(Clone)]
pub(super) struct Login {
    /// Whose it is.
    pub(super) user: UserName,
    /// What his password was when he proved it, as it is stored; `None` if the session
    /// authenticates nobody.
    pub(super) proven: Option<String>,
    /// What he has set.
    pub(super) options: Options,
    used_at: Instant,
}

/// The stored form of a password does not print.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).field("options", &self.options).finish_non_exhaustive()
    }
}

impl Login {
    pub(super) fn new(user: UserName, proven: Option<String>) -> Self {
        Self { user, proven, options: Options::default(), used_at: Instant::now() }
    }
}

/// Returns the session that was not used for the longest, of one user or of all.
fn oldest(sessions: &HashMap<Handle, Login>, of: Option<&UserName>) -> Option<Handle> {
    let of = sessions.iter().filter(|(_, session)| of.is_none_or(|user| session.user == *user));
    of.min_by_key(|(_, session)| session.used_at).map(|(handle, _)| *handle)
}

/// All sessions.
#[derive(Debug, Default)]
pub(super) struct Logins(Mutex<HashMap<Handle, Login>>);

impl Logins {
    /// Keeps a session.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(super) fn insert(&self, login: Login) -> Result<SessionId> {
        let handle = Handle::new()?;
        let mut sessions = self.lock();
        let own = sessions.values().filter(|session| session.user == login.user).count();
        let out = match () {
            () if own >= OF_USER => oldest(&sessions, Some(&login.user)),
            () if sessions.len() >= OF_ALL => oldest(&sessions, None),
            () => None,
        };
        if let Some(out) = out {
            sessions.remove(&out);
        }
        sessions.insert(handle, login);
        Ok(SessionId(handle))
    }

    /// Returns a session and keeps it for longer.
    pub(super) fn get(&self, id: SessionId) -> Option<Login> {
        let mut sessions = self.lock();
        let session = sessions.get_mut(&id.0).filter(|session| session.used_at.elapsed() < KEPT)?;
        session.used_at = Instant::now();
        Some(session.clone())
    }

    /// Sets the options of a session.
    pub(super) fn set(&self, id: SessionId, options: Options) {
        if let Some(session) = self.lock().get_mut(&id.0) {
            session.options = options;
        }
    }

    /// Ends a session.
    pub(super) fn remove(&self, id: SessionId) {
        self.lock().remove(&id.0);
    }

    /// Forgets what nobody has used for long.
    pub(super) fn sweep(&self) {
        self.lock().retain(|_, session| session.used_at.elapsed() < KEPT);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Handle, Login>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_session_of_a_user_gives_its_place_to_the_next() {
        let logins = Logins::default();
        let user = |name: &str| UserName::parse(name).unwrap();
        let other = logins.insert(Login::new(user("bob"), None)).unwrap();
        let first = logins.insert(Login::new(user("ada"), None)).unwrap();
        let second = logins.insert(Login::new(user("ada"), None)).unwrap();
        assert!(logins.get(first).is_some());
        for _ in 2..=OF_USER {
            logins.insert(Login::new(user("ada"), None)).unwrap();
        }
        // The first was used after the second was made.
        assert!(logins.get(second).is_none() && logins.get(first).is_some() && logins.get(other).is_some());
    }

    #[test]
    fn an_id_is_read_as_it_is_told() {
        let logins = Logins::default();
        let id = logins.insert(Login::new(UserName::parse("ada").unwrap(), None)).unwrap();
        assert_eq!(SessionId::read(&id.text()), Some(id));
        for bad in ["", "x", "!!!!", &"A".repeat(42), &"A".repeat(65)] {
            assert_eq!(SessionId::read(bad), None, "{bad}");
        }
        logins.set(id, Options { catalog: Some("d".to_owned()), schema: None });
        assert_eq!(logins.get(id).unwrap().options.catalog.as_deref(), Some("d"));
        logins.remove(id);
        assert!(logins.get(id).is_none());
    }
}
