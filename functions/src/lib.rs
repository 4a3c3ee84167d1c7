//! Functions: Python code that computes columns, in processes of its own.
//!
//! ```text
//! Definition ──Launch──▶ Worker (one process, one instance) ──call──▶ values and errors of rows
//!                          ▲ Pool: idle workers, kept warm
//! batch ──Executor::evaluate──▶ calls sized by latency, errors by policy, recovery ──▶ Evaluated
//! ```
//!
//! - [`definition`] says what a version of a Function is, [`types`] how its types are written. [`check`] looks at its
//!   source before there is a version.
//! - [`environment`] builds the Python that runs it, [`models`] fetches the model snapshots that it declares.
//! - [`sandbox`] confines a worker; `protocol` checks what it sends; [`redact`] takes secrets out of what it says.
//! - [`executor`] runs a batch: [`sizing`] of calls, [`limits`] on failures, range recovery, quarantine.
//! - [`devices`] says which worker has which GPUs.
//! - [`pool`] keeps workers between jobs. A worker is in one executor at a time.
//!
//! The crate knows no SQL, no catalog and no table.
#![forbid(unsafe_code)]

mod cgroup;
pub mod check;
pub mod definition;
pub mod devices;
pub mod environment;
pub mod executor;
pub mod fleet;
pub mod limits;
pub mod models;
mod output;
pub mod pool;
mod protocol;
pub mod redact;
pub mod sandbox;
pub mod sizing;
pub mod types;
pub mod worker;

pub use self::check::{CheckError, check};
pub use self::definition::Definition;
pub use self::devices::Devices;
pub use self::environment::{EnvironmentError, Environments, Python};
pub use self::executor::{Evaluated, Executor, ExecutorError, Options, RowError};
pub use self::fleet::Fleet;
pub use self::models::{Model, ModelError, Models};
pub use self::pool::Pool;
#[doc(hidden)]
pub use self::protocol::decode_answer;
pub use self::protocol::{Raised, encode};
pub use self::sandbox::worker_main;
pub use self::worker::{Launch, Worker, WorkerError};
