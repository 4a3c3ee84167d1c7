//! Named places where a test makes the process fail.
//!
//! Compiled in with the cargo feature `failpoints` only; without it every place
//! is nothing. A test's gateway reads `LANCEGATE_FAILPOINTS`, pairs of place and
//! action separated by `;`:
//!
//! ```text
//! publish.committed=exit@2;stage.batch=delay(200)@*
//! ```
//!
//! | action | what happens |
//! |---|---|
//! | `exit`, `exit(300)` | the process aborts, at once or after so many milliseconds: no destructor runs, nothing is flushed |
//! | `error` | the place reports an I/O error that another attempt may not meet |
//! | `full` | the place reports that no space is left on the device |
//! | `panic` | the place panics |
//! | `delay(300)` | the place takes so many milliseconds longer |
//! | `hold` | the place waits until the test lets it go on, see below |
//!
//! `@n` acts at the n-th visit only, `@*` at every one; without it at the first.
//!
//! A place that holds makes the file `<place>.<visit>` in the folder that
//! `LANCEGATE_FAILPOINT_HOLDS` names, and goes on once that file is gone or
//! `<place>.go` is there. So a test knows that the place was reached, does what it
//! wants to do meanwhile, and no time is waited for.

#[cfg(not(feature = "failpoints"))]
use crate::storage::StorageError;

#[cfg(feature = "failpoints")]
mod active;

#[cfg(feature = "failpoints")]
pub(crate) use self::active::is_variable;
#[cfg(feature = "failpoints")]
pub use self::active::{LOGIN_PLACES, PLACES, WRITE_PLACES, reach};

/// Does nothing: the feature is off.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub fn reach(_place: &'static str) -> std::future::Ready<Result<(), StorageError>> {
    std::future::ready(Ok(()))
}

/// No variable is ours: the feature is off.
#[cfg(not(feature = "failpoints"))]
pub(crate) fn is_variable(_name: &str) -> bool {
    false
}
