//! Refreshes that nobody asks for: computed columns and materialized views whose rows are not current are refreshed
//! again by themselves.
//!
//! [`decide`] is what happens and why, a pure function of what was observed and of the time. [`Scheduler`] looks at
//! the tables ([`Source`]), decides, and submits; it keeps nothing that a restart must not lose: what refreshes have
//! come to is in the registry ([`RefreshHistory`](lancegate_catalog::RefreshHistory)). What it submits is a job like
//! any other, with the rights of the table's owner, decided at each claim.
//!
//! Gates come first, and rows are looked at only when all of them are open: a column that waits, is blocked or was
//! found up to date at this version of its table costs no more than learning that the table has no newer version.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lancegate_catalog::Timestamp;

mod decide;
mod scheduler;

pub use self::decide::{
    Active, Binding, BlockedReason, Due, Sight, Standing, State, TableLoad, Target, cooldown, gates, retry_delay,
    settled,
};
pub use self::scheduler::{Scheduler, Scope, Seen, Source, Unit};
pub(crate) use self::scheduler::{active, in_flight};

/// How automatic refreshes run (`[column_refresh]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoConfig {
    /// The deployment switch.
    pub enabled: bool,
    /// The least time from a success to the next automatic refresh of a column that sets none.
    pub interval: Duration,
    /// The longest time until a change of a table is noticed.
    pub look_interval: Duration,
    /// Refreshes of one table that run at one time, before an automatic one is added.
    pub in_flight_per_table: usize,
    /// Automatic refreshes that are unfinished at one time.
    pub in_flight: usize,
    /// The wait after the first failure; it doubles with each further one.
    pub retry_delay: Duration,
    /// Failures in a row after which nothing runs until somebody refreshes the column; zero is no limit.
    pub failures_max: u32,
    /// How long an attempt may run.
    pub execution_limit: Duration,
}

impl Default for AutoConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            interval: Duration::from_secs(60),
            look_interval: Duration::from_secs(10),
            in_flight_per_table: 1,
            in_flight: 4,
            retry_delay: Duration::from_secs(15 * 60),
            failures_max: 0,
            execution_limit: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl AutoConfig {
    /// Takes what an operator can set. No more automatic refreshes wait at one time than can run, so that they are
    /// not in the way of others.
    pub fn new(set: &crate::config::ColumnRefreshConfig, jobs_max: usize) -> Self {
        Self {
            enabled: set.enabled,
            interval: set.interval.get(),
            look_interval: set.look_interval.get(),
            in_flight_per_table: set.in_flight_per_table,
            in_flight: jobs_max,
            retry_delay: set.retry_delay.get(),
            failures_max: set.failures_max,
            execution_limit: set.execution_limit.get(),
        }
    }
}

/// The first wait after a refresh that could not even be submitted, and the longest.
const PREPARATION_DELAY: Duration = Duration::from_secs(60);
const PREPARATION_DELAY_MAX: Duration = Duration::from_secs(60 * 60);

/// Refreshes that could not be submitted. In memory only: after a restart each is tried once more.
#[derive(Debug, Clone, Default)]
pub struct Preparations(Arc<Mutex<HashMap<String, Preparation>>>);

/// Why a column is not refreshed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preparation {
    /// What went wrong.
    pub message: String,
    /// The table version that it went wrong at; another one is tried at once.
    pub version: u64,
    /// How often.
    pub failures: u32,
    /// When it is tried again.
    pub until: Timestamp,
}

impl Preparations {
    /// Returns what went wrong with a binding at this version of its table.
    pub fn of(&self, key: &str, version: u64) -> Option<Preparation> {
        self.all().get(key).filter(|preparation| preparation.version == version).cloned()
    }

    /// Notes that a refresh could not be submitted.
    pub fn failed(&self, key: &str, version: u64, message: String, now: Timestamp) {
        let mut all = self.all();
        let earlier = all.get(key).filter(|preparation| preparation.version == version);
        let failures = earlier.map_or(1, |earlier| earlier.failures.saturating_add(1));
        let delay = decide::doubled(PREPARATION_DELAY, failures, PREPARATION_DELAY_MAX);
        all.insert(key.to_owned(), Preparation { message, version, failures, until: decide::later(now, delay) });
    }

    /// Notes that one was.
    pub fn succeeded(&self, key: &str) {
        self.all().remove(key);
    }

    /// Forgets bindings that are gone.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.all().retain(|key, _| keep(key));
    }

    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<String, Preparation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
