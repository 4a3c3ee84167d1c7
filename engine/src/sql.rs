//! From a typed statement to an authorized plan: names, types, privileges.
//!
//! Nothing here changes data or metadata; `exec` does, and takes only what
//! [`authorize`] has let through.

pub mod authorize;
pub mod caller;
mod checks;
mod coerce;
mod cooperate;
pub mod functions;
pub(crate) mod guard;
pub mod labels;
mod literals;
mod multisets;
pub(crate) mod opaque;
mod operators;
pub mod parameters;
pub mod plan;
pub mod resolve;
pub mod rewrite;
pub mod state;
pub mod types;
pub(crate) mod uuid;
