//! The PostgreSQL frontend/backend protocol, versions 3.0 and 3.2, as pure
//! functions over byte buffers.
//!
//! The crate owns framing, message bodies, the mapping of Arrow types to
//! PostgreSQL types, and the text, binary and COPY forms of values. It never
//! opens a socket, waits, or knows what a statement means; a session feeds it
//! bytes and sends what it appends. No input makes it panic: every length and
//! count that a client sends is checked against the bytes that are there.
//!
//! Rules come from the PostgreSQL manual, chapter "Frontend/Backend Protocol"
//! (<https://www.postgresql.org/docs/current/protocol.html>).

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod backend;
pub mod copy;
pub mod decode;
pub mod encode;
pub mod error;
pub mod frame;
pub mod frontend;
pub mod settings;
pub mod types;

pub use decode::{ParameterValue, decode_parameter};
pub use encode::RowEncoder;
pub use error::WireError;
pub use frame::{Phase, Startup, decode_frontend, decode_startup};
pub use frontend::FrontendMessage;
pub use settings::{Format, FormatSettings};
pub use types::{FieldDescription, PgType};
