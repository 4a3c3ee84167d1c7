//! The `lancegate` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    lancegate::cli::run()
}
