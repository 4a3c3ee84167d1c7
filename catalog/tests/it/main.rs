//! Tests of the store on real files.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod children;
mod claims;
mod control;
mod failures;
mod grants;
mod jobs;
mod objects;
mod opening;
mod secrets;
mod support;
mod turns;
