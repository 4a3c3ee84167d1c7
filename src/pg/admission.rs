//! How many connections there may be, before and after authentication.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::pg::PgConfig;
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::sqlstate::SqlState;

/// The counts behind the limits.
#[derive(Debug)]
pub(in crate::pg) struct Admission {
    limits: Limits,
    counts: Mutex<Counts>,
}

#[derive(Debug)]
struct Limits {
    sessions_max: usize,
    sessions_reserved: usize,
    unauthenticated_max: usize,
    unauthenticated_per_address_max: usize,
}

#[derive(Debug, Default)]
struct Counts {
    unauthenticated: usize,
    by_address: HashMap<Option<IpAddr>, usize>,
    sessions: usize,
    by_user: HashMap<String, usize>,
}

/// A place among the connections that have not authenticated.
#[derive(Debug)]
pub(in crate::pg) struct Waiting {
    address: Option<IpAddr>,
    admission: Arc<Admission>,
}

/// A place among the sessions.
#[derive(Debug)]
pub(in crate::pg) struct Admitted {
    user: String,
    admission: Arc<Admission>,
}

/// Who asks for a session.
#[derive(Debug, Clone, Copy)]
pub(in crate::pg) struct Applicant<'a> {
    /// The authenticated user.
    pub(in crate::pg) user: &'a str,
    /// Sessions that this user may have.
    pub(in crate::pg) connection_limit: Option<u32>,
    /// Whether the reserve is open to it.
    pub(in crate::pg) bootstrap: bool,
}

impl Admission {
    pub(in crate::pg) fn new(config: &PgConfig) -> Self {
        let limits = Limits {
            sessions_max: config.connections_max,
            sessions_reserved: config.connections_reserved,
            unauthenticated_max: config.unauthenticated_max,
            unauthenticated_per_address_max: config.unauthenticated_per_address_max,
        };
        Self { limits, counts: Mutex::default() }
    }

    /// Takes a place for a fresh socket; all Unix sockets are from one address.
    ///
    /// # Errors
    /// 53300 if too many have not authenticated yet.
    pub(in crate::pg) fn enter(self: &Arc<Self>, address: Option<IpAddr>) -> Result<Waiting> {
        let mut counts = self.lock();
        let here = counts.by_address.get(&address).copied().unwrap_or(0);
        if counts.unauthenticated >= self.limits.unauthenticated_max
            || here >= self.limits.unauthenticated_per_address_max
        {
            return Err(too_many("too many connections are not authenticated yet"));
        }
        counts.unauthenticated += 1;
        counts.by_address.insert(address, here + 1);
        Ok(Waiting { address, admission: Arc::clone(self) })
    }

    /// Takes a place for an authenticated user.
    ///
    /// # Errors
    /// 53300 if there are too many sessions, of all or of this user.
    pub(in crate::pg) fn admit(self: &Arc<Self>, applicant: Applicant<'_>) -> Result<Admitted> {
        let mut counts = self.lock();
        if counts.sessions >= self.limits.sessions_max {
            return Err(too_many("sorry, too many clients already"));
        }
        if !applicant.bootstrap && counts.sessions + self.limits.sessions_reserved >= self.limits.sessions_max {
            return Err(too_many("remaining connection slots are reserved for the bootstrap user"));
        }
        let own = counts.by_user.get(applicant.user).copied().unwrap_or(0);
        let full = applicant.connection_limit.is_some_and(|limit| own >= limit as usize);
        if full && !applicant.bootstrap {
            return Err(too_many(format!("too many connections for role \"{}\"", applicant.user)));
        }
        counts.sessions += 1;
        counts.by_user.insert(applicant.user.to_owned(), own + 1);
        Ok(Admitted { user: applicant.user.to_owned(), admission: Arc::clone(self) })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut counts = self.admission.lock();
        counts.unauthenticated -= 1;
        release(&mut counts.by_address, &self.address);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self.admission.lock();
        counts.sessions -= 1;
        release(&mut counts.by_user, &self.user);
    }
}

fn release<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

fn too_many(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::TOO_MANY_CONNECTIONS, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission() -> Arc<Admission> {
        let limits = Limits {
            sessions_max: 3,
            sessions_reserved: 1,
            unauthenticated_max: 3,
            unauthenticated_per_address_max: 2,
        };
        Arc::new(Admission { limits, counts: Mutex::default() })
    }

    fn applicant(user: &str) -> Applicant<'_> {
        Applicant { user, connection_limit: None, bootstrap: user == "root" }
    }

    #[test]
    fn one_address_cannot_take_all_places() {
        let admission = admission();
        let (here, there) = (Some([1, 1, 1, 1].into()), Some([2, 2, 2, 2].into()));
        let _first = admission.enter(here).unwrap();
        let second = admission.enter(here).unwrap();
        assert!(admission.enter(here).is_err());
        let _other = admission.enter(there).unwrap();
        drop(second);
        let _third = admission.enter(here).unwrap();
        assert!(admission.enter(there).is_err());
    }

    #[test]
    fn the_reserve_is_for_the_bootstrap_user() {
        let admission = admission();
        let _first = admission.admit(applicant("ada")).unwrap();
        let second = admission.admit(applicant("ada")).unwrap();
        assert_eq!(admission.admit(applicant("bob")).unwrap_err().code.as_str(), "53300");
        let _root = admission.admit(applicant("root")).unwrap();
        assert!(admission.admit(applicant("root")).is_err());
        drop(second);
        assert!(admission.admit(applicant("bob")).is_err());
    }

    #[test]
    fn a_user_stays_within_its_own_limit() {
        let admission = admission();
        let limited = Applicant { connection_limit: Some(1), ..applicant("ada") };
        let first = admission.admit(limited).unwrap();
        let message = admission.admit(limited).unwrap_err().message;
        assert_eq!(message, "too many connections for role \"ada\"");
        drop(first);
        assert!(admission.admit(limited).is_ok());
    }
}
