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
mod functions;
mod harness;
mod http;
mod interop;
mod jobs;
mod query;
mod refresh;
mod rows;
mod tidy;
mod wire;
