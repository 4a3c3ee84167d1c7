//! lancegate: a PostgreSQL-wire SQL gateway for Lance tables.
//!
//! `ARCHITECTURE.md` in the repository's root says how the parts fit; each
//! module's own doc says what it owns and what it never does.

pub mod admin;
pub mod cli;
pub mod config;
pub mod gateway;
pub mod http;
pub mod metrics;
pub mod shutdown;
pub mod telemetry;
pub mod tls;
