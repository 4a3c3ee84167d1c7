//! lancegate: a PostgreSQL-wire SQL gateway for Lance tables.
//!
//! `ARCHITECTURE.md` in the repository's root says how the parts fit; each
//! module's own doc says what it owns and what it never does.

pub mod admin;
mod arithmetic;
pub mod cli;
pub mod config;
pub mod error;
pub mod exec;
pub mod failpoint;
pub mod gateway;
pub mod http;
pub mod jobs;
pub mod metrics;
pub mod pg;
pub mod refresh;
pub mod secrets;
pub mod session;
pub mod shutdown;
pub mod sql;
pub mod sqlstate;
pub mod storage;
pub mod system;
pub mod telemetry;
pub mod tls;
