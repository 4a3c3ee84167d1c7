//! Tests of the parts together, one binary: the refresh engine on real Lance
//! tables, and the real program as a process of its own for each test that
//! needs a gateway.

#![allow(clippy::unwrap_used, reason = "a test's helper fails the test")]

mod auto_refresh;
mod auto_views;
mod bad_input;
mod bounds;
mod cascade;
mod cli;
#[cfg(feature = "failpoints")]
mod clock;
mod comments;
mod computed;
#[cfg(feature = "failpoints")]
mod conflicts;
#[cfg(feature = "failpoints")]
mod control;
mod copy;
mod crash;
mod databases;
mod defaults;
mod engine;
#[cfg(feature = "failpoints")]
mod faults;
mod flight;
mod functions;
#[cfg(feature = "failpoints")]
mod garbage;
mod harness;
mod http;
mod http2;
mod identity;
mod indexes;
mod interop;
mod jobs;
#[cfg(feature = "failpoints")]
mod json;
mod keys;
mod kills;
mod lifecycle;
mod materialized;
mod merge;
mod nested;
mod openapi;
mod privileges;
mod query;
#[cfg(feature = "failpoints")]
mod races;
mod refresh;
mod registry;
mod rest;
mod returning;
mod row_locks;
mod rows;
mod searching;
mod secrets;
mod sessions;
mod stale;
mod subqueries;
mod surface;
mod temporary;
mod tidy;
mod transactions;
mod vacuum;
mod values;
mod watching;
mod wire;
