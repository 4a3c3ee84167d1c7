//! Which statement a CancelRequest reaches.
//!
//! A key is known from the moment its session may run statements until the
//! session ends; a statement is known only while it runs. A request outside
//! that time changes nothing.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand::RngCore;
use subtle::ConstantTimeEq;

use lancegate_engine::session::{CancelReason, StatementContext};

/// Wrong keys from one address within [`GUESS_WINDOW`] before its requests are
/// dropped unread.
const GUESSES_MAX: u32 = 10;
const GUESS_WINDOW: Duration = Duration::from_secs(1);
/// Bytes of a key in protocol 3.0, which has no room for more.
const SECRET_BYTES_3_0: usize = 4;
/// Bytes of a key in protocol 3.2.
const SECRET_BYTES_3_2: usize = 32;

/// The keys of all sessions.
#[derive(Debug, Default)]
pub(in crate::pg) struct CancelRegistry {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<i32, Entry>,
    last_pid: i32,
    guesses: HashMap<Option<IpAddr>, u32>,
    window_began_at: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    secret: Vec<u8>,
    running: Option<StatementContext>,
}

/// A session's key; dropping it forgets the session.
#[derive(Debug)]
pub(in crate::pg) struct CancelKey {
    pid: i32,
    secret: Vec<u8>,
    registry: Arc<CancelRegistry>,
}

/// A statement that can be cancelled; dropping it ends that.
#[derive(Debug)]
pub(in crate::pg) struct Running {
    pid: i32,
    registry: Arc<CancelRegistry>,
}

impl CancelRegistry {
    /// Makes the key of a new session that speaks 3.`minor`.
    pub(in crate::pg) fn register(self: &Arc<Self>, minor: u16) -> CancelKey {
        let bytes = if minor >= 2 { SECRET_BYTES_3_2 } else { SECRET_BYTES_3_0 };
        let mut secret = vec![0; bytes];
        rand::rng().fill_bytes(&mut secret);
        let mut state = self.lock();
        let pid = state.free_pid();
        state.sessions.insert(pid, Entry { secret: secret.clone(), running: None });
        CancelKey { pid, secret, registry: Arc::clone(self) }
    }

    /// Cancels the running statement of the session if the key is right.
    /// Returns whether a statement was reached; the client is told nothing.
    pub(in crate::pg) fn cancel(&self, pid: i32, secret: &[u8], from: Option<IpAddr>, now: Instant) -> bool {
        let mut state = self.lock();
        if state.guesses_of(from, now) >= GUESSES_MAX {
            return false;
        }
        let entry = state.sessions.get(&pid);
        // Slices of different lengths are unequal, and their lengths are no secret.
        let Some(entry) = entry.filter(|entry| entry.secret.ct_eq(secret).into()) else {
            *state.guesses.entry(from).or_default() += 1;
            return false;
        };
        match &entry.running {
            Some(statement) => {
                statement.cancel(CancelReason::User);
                true
            }
            None => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn free_pid(&mut self) -> i32 {
        loop {
            self.last_pid = self.last_pid.checked_add(1).unwrap_or(1);
            if !self.sessions.contains_key(&self.last_pid) {
                return self.last_pid;
            }
        }
    }

    fn guesses_of(&mut self, from: Option<IpAddr>, now: Instant) -> u32 {
        let fresh = self.window_began_at.is_some_and(|began| now.duration_since(began) < GUESS_WINDOW);
        if !fresh {
            self.guesses.clear();
            self.window_began_at = Some(now);
        }
        self.guesses.get(&from).copied().unwrap_or(0)
    }
}

impl CancelKey {
    /// Returns the process id of BackendKeyData.
    pub(in crate::pg) fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the secret of BackendKeyData.
    pub(in crate::pg) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Makes a statement reachable until the result is dropped.
    pub(in crate::pg) fn begin(&self, statement: &StatementContext) -> Running {
        if let Some(entry) = self.registry.lock().sessions.get_mut(&self.pid) {
            entry.running = Some(statement.clone());
        }
        Running { pid: self.pid, registry: Arc::clone(&self.registry) }
    }
}

impl Drop for CancelKey {
    fn drop(&mut self) {
        self.registry.lock().sessions.remove(&self.pid);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(entry) = self.registry.lock().sessions.get_mut(&self.pid) {
            entry.running = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));

    #[test]
    fn a_request_reaches_only_a_running_statement() {
        let registry = Arc::new(CancelRegistry::default());
        let key = registry.register(0);
        let now = Instant::now();
        let statement = StatementContext::new();
        assert!(!registry.cancel(key.pid(), key.secret(), HERE, now));
        let running = key.begin(&statement);
        assert!(registry.cancel(key.pid(), key.secret(), HERE, now));
        assert!(statement.cancel.is_cancelled());
        drop(running);
        let next = StatementContext::new();
        assert!(!registry.cancel(key.pid(), key.secret(), HERE, now));
        let _running = key.begin(&next);
        assert!(!next.cancel.is_cancelled());
    }

    #[test]
    fn wrong_and_truncated_keys_change_nothing() {
        let registry = Arc::new(CancelRegistry::default());
        let key = registry.register(2);
        assert_eq!(key.secret().len(), 32);
        let statement = StatementContext::new();
        let _running = key.begin(&statement);
        let now = Instant::now();
        assert!(!registry.cancel(key.pid(), &key.secret()[..4], HERE, now));
        assert!(!registry.cancel(key.pid(), &[0; 32], HERE, now));
        assert!(!registry.cancel(key.pid() + 1, key.secret(), HERE, now));
        assert!(!statement.cancel.is_cancelled());
    }

    #[test]
    fn an_address_that_guesses_is_ignored_for_a_while() {
        let registry = Arc::new(CancelRegistry::default());
        let key = registry.register(0);
        let statement = StatementContext::new();
        let _running = key.begin(&statement);
        let now = Instant::now();
        for _ in 0..GUESSES_MAX {
            registry.cancel(key.pid(), b"none", HERE, now);
        }
        assert!(!registry.cancel(key.pid(), key.secret(), HERE, now));
        assert!(registry.cancel(key.pid(), key.secret(), HERE, now + GUESS_WINDOW));
    }

    #[test]
    fn the_key_of_an_ended_session_is_gone() {
        let registry = Arc::new(CancelRegistry::default());
        let key = registry.register(0);
        let (pid, secret) = (key.pid(), key.secret().to_vec());
        drop(key);
        let next = registry.register(0);
        assert_ne!(next.pid(), pid);
        assert!(!registry.cancel(pid, &secret, HERE, Instant::now()));
    }
}
