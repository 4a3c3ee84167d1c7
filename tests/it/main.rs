//! The integration tests of lancegate, one binary.

mod bad_input;
mod crash;
mod engine;
mod interop;

fn main() {}
