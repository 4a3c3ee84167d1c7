//! What lancegate knows and does between the front ends and the tables: binds,
//! authorizes and executes statements, refreshes computed columns, runs jobs.
//!
//! No socket and no command line here: those are the crate `lancegate`, which
//! comes in through [`exec::Engine`] alone. Each module's own doc says what it
//! owns and what it never does.

pub mod activity;
mod arithmetic;
pub mod audit;
mod clock;
pub mod config;
pub mod error;
pub mod exec;
pub mod failpoint;
pub mod jobs;
pub mod metrics;
pub mod refresh;
pub mod secrets;
pub mod session;
pub mod sql;
pub mod sqlstate;
pub mod storage;
pub mod system;
