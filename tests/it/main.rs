//! Tests of the parts together, one binary: the refresh engine on real Lance
//! tables, and the real program as a process of its own for each test that
//! needs a gateway.

#![allow(clippy::unwrap_used, reason = "a test's helper fails the test")]

mod bad_input;
mod cli;
mod computed;
mod crash;
mod databases;
mod engine;
#[cfg(feature = "failpoints")]
mod faults;
mod harness;
mod http;
mod interop;
mod jobs;
mod lifecycle;
mod nested;
mod privileges;
mod query;
mod refresh;
mod rows;
mod secrets;
mod surface;
mod tidy;
mod wire;
