//! The PostgreSQL protocol as a client sees it, with raw sockets where a driver
//! would not misbehave enough.

mod authentication;
mod extended;
mod hostile;
mod raw;
mod reuse;
mod session;
