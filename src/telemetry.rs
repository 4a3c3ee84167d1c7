//! Log events to standard error, as text or as JSON.
//!
//! Owns the one global subscriber; standard output stays free for what a
//! command prints.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::TryInitError;

use lancegate_engine::config::{LogConfig, LogFormat};

/// What is never written, whatever the level.
const SILENT: &str = "sqlparser=off";

/// Starts writing events. A second call changes nothing.
pub fn init(config: &LogConfig) {
    // The only failure is that a subscriber is already there, as in a process
    // that starts several gateways.
    let _ = try_init(config);
}

fn try_init(config: &LogConfig) -> Result<(), TryInitError> {
    use tracing_subscriber::util::SubscriberInitExt as _;
    // The configuration has checked the directives.
    let filter = EnvFilter::builder().parse_lossy(&config.level);
    // The parser tells at this level which literals it reads, passwords among them.
    let filter = filter.add_directive(SILENT.parse().expect("the constant is a directive"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match config.format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).finish().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init(),
    }
}
