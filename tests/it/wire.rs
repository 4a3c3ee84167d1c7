//! The PostgreSQL protocol as a client sees it, with raw sockets where a driver
//! would not misbehave enough.

mod authentication;
mod extended;
mod gather;
mod hostile;
pub(crate) mod limits;
pub(crate) mod raw;
mod reuse;
pub(crate) mod session;
