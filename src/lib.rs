//! lancegate: a PostgreSQL-wire SQL gateway for Lance tables.
//!
//! This crate is what faces people and programs: the command line, the
//! listeners of PostgreSQL's protocol, of HTTP and of Flight SQL, and the start and stop of
//! one gateway. What they ask for is planned and executed in
//! [`lancegate_engine`]. `ARCHITECTURE.md` in the repository's root says how the
//! parts fit.

pub mod admin;
pub mod audit;
pub mod cli;
pub mod flight;
pub mod gateway;
pub mod http;
pub mod pg;
pub mod shutdown;
pub mod telemetry;
pub mod tls;
pub mod tokens;
