//! The clock of the registry of jobs.
//!
//! Leases, delays and the order of events must not depend on who sets the clock of the machine meanwhile. So this is
//! the wall clock as it was when the process first looked, and since then the time that has passed. It never goes back.
//! A clock that was set is followed from the next start on, which is also when no lease and no rest of this process
//! counts any more. The time that a machine is suspended does not pass here.

use std::sync::OnceLock;
use std::time::Instant;

use chrono::{TimeDelta, Utc};
use lancegate_catalog::Timestamp;

/// Returns the time for what is written to the registry, and compared with it.
pub(crate) fn now() -> Timestamp {
    static BEGAN: OnceLock<(Timestamp, Instant)> = OnceLock::new();
    let (wall, at) = BEGAN.get_or_init(|| (Utc::now(), Instant::now()));
    // No process runs for so long that this fails.
    TimeDelta::from_std(at.elapsed()).map_or(*wall, |passed| *wall + passed)
}
