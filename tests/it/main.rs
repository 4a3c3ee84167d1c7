//! Tests against the real program: one binary, one gateway process for each
//! test that needs one, always on free ports and in a folder of its own.

#![allow(clippy::unwrap_used, reason = "a test's helper fails the test")]

mod cli;
mod harness;
mod http;
mod tidy;
