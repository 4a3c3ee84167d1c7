//! What a client is given a handle of: statements under way, results that wait for
//! their reader, prepared statements.
//!
//! A handle has 256 random bits. It is of one user in one database; to everybody
//! else it does not exist. How many there are, how much memory they hold, and how long
//! one is kept that nobody asks for are bounded.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lancegate_auth::{UserName, random_bytes};
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::sqlstate::SqlState;

/// Whose a handle is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    /// The user who has authenticated.
    pub(super) user: UserName,
    /// The database that his calls are about.
    pub(super) database: String,
}

/// The name of something that a client may come back for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Handle([u8; 32]);

/// A handle is a credential and does not print.
impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle")
    }
}

impl Handle {
    /// Returns a new one.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(super) fn new() -> Result<Self> {
        random_bytes().map(Self).map_err(SqlError::internal)
    }

    /// Reads one that a client sends; what has another length is none.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns it for a client.
    pub(super) fn bytes(self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }
}

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// What is kept, in the plural, for messages.
    pub(super) what: &'static str,
    /// The most of one user.
    pub(super) of_user: usize,
    /// The most of all.
    pub(super) of_all: usize,
    /// The most bytes that those of one user hold.
    pub(super) bytes_of_user: usize,
    /// How long one is kept after it was last asked for.
    pub(super) kept: Duration,
}

/// Values by handle.
pub(super) struct Registry<T> {
    bounds: Bounds,
    entries: Mutex<HashMap<Handle, Entry<T>>>,
}

/// Values may hold parameters, which may be secrets, so they do not print.
impl<T> fmt::Debug for Registry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

struct Entry<T> {
    owner: Owner,
    bytes: usize,
    expires_at: Instant,
    value: Arc<T>,
}

impl<T> Entry<T> {
    /// What a call is about at this moment does not expire.
    fn has_expired(&self) -> bool {
        self.expires_at <= Instant::now() && Arc::strong_count(&self.value) == 1
    }
}

impl<T> Registry<T> {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { bounds, entries: Mutex::default() }
    }

    /// Returns how long a value is kept after it was last asked for.
    pub(super) fn kept(&self) -> Duration {
        self.bounds.kept
    }

    /// Keeps a value, which holds so many bytes, under a new handle.
    ///
    /// # Errors
    /// 53400 if there are too many already, of this user or of all.
    pub(super) fn insert(&self, owner: &Owner, value: Arc<T>, bytes: usize) -> Result<Handle> {
        let handle = Handle::new()?;
        self.put(handle, owner, value, bytes)?;
        Ok(handle)
    }

    /// Keeps another value under a handle that there is.
    ///
    /// # Errors
    /// As [`Self::insert`]; the old value is gone then.
    pub(super) fn replace(&self, handle: Handle, owner: &Owner, value: Arc<T>, bytes: usize) -> Result<()> {
        self.put(handle, owner, value, bytes)
    }

    fn put(&self, handle: Handle, owner: &Owner, value: Arc<T>, bytes: usize) -> Result<()> {
        let mut dropped = Vec::new();
        let mut entries = self.lock();
        dropped.extend(entries.remove(&handle));
        dropped.extend(expired(&mut entries));
        let (mut count, mut held) = (0, bytes);
        for entry in entries.values().filter(|entry| entry.owner.user == owner.user) {
            count += 1;
            held += entry.bytes;
        }
        let Bounds { what, of_user, of_all, bytes_of_user, kept } = self.bounds;
        let (of, most) = match () {
            () if count >= of_user => (format!("of user \"{}\"", owner.user), of_user.to_string()),
            () if held > bytes_of_user => (format!("of user \"{}\"", owner.user), format!("{bytes_of_user} bytes")),
            () if entries.len() >= of_all => ("of all users".to_owned(), of_all.to_string()),
            () => {
                let expires_at = Instant::now() + kept;
                entries.insert(handle, Entry { owner: owner.clone(), bytes, expires_at, value });
                // Values end their work when they are dropped, which is not to be waited for.
                drop(entries);
                return Ok(());
            }
        };
        let message = format!("too many {what} {of}");
        let hint = format!("There may be {most}. Read, close or cancel some, or wait until they expire.");
        Err(SqlError::new(SqlState::parse("53400"), message).hint(hint))
    }

    /// Returns a value and keeps it for longer.
    ///
    /// # Errors
    /// 42704 if the handle is unknown, has expired, or is somebody else's.
    pub(super) fn get(&self, owner: &Owner, bytes: &[u8]) -> Result<(Handle, Arc<T>)> {
        let found = Handle::read(bytes).and_then(|handle| {
            let mut entries = self.lock();
            let entry = entries.get_mut(&handle)?;
            if entry.owner != *owner || entry.has_expired() {
                return None;
            }
            entry.expires_at = Instant::now() + self.bounds.kept;
            Some((handle, Arc::clone(&entry.value)))
        });
        found.ok_or_else(|| {
            let message = format!("there is no such handle among the {}", self.bounds.what);
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                .hint("It may have expired, or belong to another user or database.")
        })
    }

    /// Forgets a value of an owner and returns it.
    pub(super) fn remove(&self, owner: &Owner, bytes: &[u8]) -> Option<Arc<T>> {
        let handle = Handle::read(bytes)?;
        let mut entries = self.lock();
        entries.get(&handle).filter(|entry| entry.owner == *owner)?;
        entries.remove(&handle).map(|entry| entry.value)
    }

    /// Forgets what has expired.
    pub(super) fn sweep(&self) {
        let gone = expired(&mut self.lock());
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Handle, Entry<T>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes out what has expired; to be dropped once the lock is given back.
fn expired<T>(entries: &mut HashMap<Handle, Entry<T>>) -> Vec<Entry<T>> {
    entries.extract_if(|_, entry| entry.has_expired()).map(|(_, entry)| entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(user: &str, database: &str) -> Owner {
        Owner { user: UserName::parse(user).unwrap(), database: database.to_owned() }
    }

    fn registry(kept: Duration) -> Registry<u8> {
        Registry::new(Bounds { what: "results", of_user: 2, of_all: 3, bytes_of_user: 10, kept })
    }

    #[test]
    fn a_handle_is_of_one_user_in_one_database() {
        let registry = registry(Duration::from_secs(60));
        let ada = owner("ada", "d");
        let handle = registry.insert(&ada, Arc::new(1), 1).unwrap().bytes();
        assert_eq!(*registry.get(&ada, &handle).unwrap().1, 1);
        for other in [owner("bob", "d"), owner("ada", "e")] {
            assert_eq!(registry.get(&other, &handle).unwrap_err().code.as_str(), "42704");
            assert!(registry.remove(&other, &handle).is_none());
        }
        for bad in [&b""[..], &[0; 32], &[7; 33]] {
            assert!(registry.get(&ada, bad).is_err());
        }
        assert!(registry.remove(&ada, &handle).is_some());
        assert!(registry.get(&ada, &handle).is_err());
    }

    #[test]
    fn what_nobody_asks_for_expires_and_gives_its_place_to_the_next() {
        let registry = registry(Duration::ZERO);
        let ada = owner("ada", "d");
        let value = Arc::new(1);
        let handle = registry.insert(&ada, Arc::clone(&value), 9).unwrap().bytes();
        // Somebody is busy with it.
        assert!(registry.get(&ada, &handle).is_ok());
        let dropped = Arc::downgrade(&value);
        drop(value);
        assert!(registry.get(&ada, &handle).is_err());
        registry.insert(&ada, Arc::new(2), 9).unwrap();
        assert!(dropped.upgrade().is_none());
    }

    #[test]
    fn neither_one_user_nor_all_of_them_keep_more_than_their_bounds() {
        let registry = registry(Duration::from_secs(60));
        let (ada, bob) = (owner("ada", "d"), owner("bob", "d"));
        let first = registry.insert(&ada, Arc::new(1), 6).unwrap();
        let code = |result: Result<Handle>| result.unwrap_err().code.as_str().to_owned();
        assert_eq!(code(registry.insert(&ada, Arc::new(1), 5)), "53400");
        registry.insert(&ada, Arc::new(1), 4).unwrap();
        assert_eq!(code(registry.insert(&ada, Arc::new(1), 0)), "53400");
        registry.insert(&bob, Arc::new(1), 10).unwrap();
        assert_eq!(code(registry.insert(&bob, Arc::new(1), 0)), "53400");
        registry.replace(first, &ada, Arc::new(2), 5).unwrap();
        assert_eq!(*registry.get(&ada, &first.bytes()).unwrap().1, 2);
    }
}
