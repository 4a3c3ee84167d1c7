//! A worker process as a program of its own, for tests of this crate; the gateway has it as a subcommand.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    lancegate_functions::worker_main(&arguments)
}
