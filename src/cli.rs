//! The command line: arguments to a [`Config`] to a gateway or a report.
//!
//! Owns what is printed and the exit code: 0 for success, 1 for a problem, 2
//! for arguments that make no sense (clap's own).

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use lancegate_engine::config::{CONFIG_VARIABLE, Config, Problems, Sources};

mod check;
mod demo;
mod output;
mod serve;
mod user;

/// What `--help` says below the list of commands.
const AFTER_HELP: &str = "\
Every configuration key can be set in a TOML file (--config), in the environment (LANCEGATE_PG__LISTEN is \
pg.listen) and with --set pg.listen=...; a flag wins over the environment, and that over the file. \
`lancegate config-example` prints all keys.

First steps:
  lancegate serve --data ./mydata
  psql -h 127.0.0.1 -p 5433 -U lancegate";

/// A PostgreSQL-wire SQL gateway for Lance tables.
#[derive(Debug, Parser)]
#[command(name = "lancegate", version, about, after_help = AFTER_HELP, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway until SIGINT or SIGTERM; SIGHUP reads rules, certificates and keys again.
    Serve(serve::ServeArgs),
    /// Show the main job on a small data set in a temporary folder.
    Demo(demo::DemoArgs),
    /// Add, list and drop users and set passwords, while no gateway runs.
    #[command(subcommand)]
    User(user::UserCommand),
    /// Grant privileges, while no gateway runs.
    Grant(user::GrantArgs),
    /// Check the configuration and everything that it names.
    Check(check::CheckArgs),
    /// Print a commented configuration file with every key.
    ConfigExample,
    /// Print the version.
    Version,
    /// Runs as a worker of Functions; the gateway starts it.
    #[command(hide = true, name = "function-worker")]
    FunctionWorker {
        /// What the gateway passes.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// The flags that set configuration keys, the same for every command that reads a configuration.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Configuration")]
struct ConfigArgs {
    /// The TOML file to read.
    #[arg(long, value_name = "FILE", env = CONFIG_VARIABLE)]
    config: Option<PathBuf>,
    /// The folder or s3:// URI of the Lance tables; a missing folder is created [key: data].
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// The SQLite file of users, grants and jobs [key: metadata; default: in the data folder].
    #[arg(long, value_name = "FILE")]
    metadata: Option<String>,
    /// Where PostgreSQL clients connect [key: pg.listen; default: 127.0.0.1:5433].
    #[arg(long, value_name = "ADDRESS")]
    pg_listen: Option<String>,
    /// Where REST, health and metrics are answered [key: http.listen; default: 127.0.0.1:10024].
    #[arg(long, value_name = "ADDRESS")]
    http_listen: Option<String>,
    /// Where Flight SQL is answered [key: flight.listen; default: one port above http.listen].
    #[arg(long, value_name = "ADDRESS")]
    flight_listen: Option<String>,
    /// What is logged: error, warn, info, debug, trace [key: log.level; default: info, less of Lance and DataFusion].
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// How it is logged: text or json [key: log.format; default: text].
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Any other key; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
}

impl ConfigArgs {
    fn load(self) -> Result<Config, Problems> {
        let named = [
            ("--data", "data", self.data),
            ("--metadata", "metadata", self.metadata),
            ("--pg-listen", "pg.listen", self.pg_listen),
            ("--http-listen", "http.listen", self.http_listen),
            ("--flight-listen", "flight.listen", self.flight_listen),
            ("--log-level", "log.level", self.log_level),
            ("--log-format", "log.format", self.log_format),
        ];
        let set = self.set.into_iter().map(|(key, value)| ("--set".to_owned(), key, value));
        let named = named.into_iter().filter_map(|(flag, key, value)| Some((flag.to_owned(), key.to_owned(), value?)));
        Config::load(Sources {
            file: self.config,
            environment: std::env::vars_os().collect(),
            flags: set.chain(named).collect(),
        })
    }
}

fn key_and_value(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, for example query.memory=2GiB")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// What a command answers: an error is printed with its causes.
type CommandResult = Result<(), Box<dyn Error>>;

/// Reads the arguments, runs the command and returns the exit code.
pub fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(args),
        Command::Demo(args) => demo::run(args),
        Command::User(command) => user::run(command),
        Command::Grant(args) => user::grant(args),
        Command::Check(args) => check::run(args),
        Command::ConfigExample => {
            output::text(&lancegate_engine::config::example());
            Ok(())
        }
        Command::FunctionWorker { arguments } => return lancegate_functions::worker_main(&arguments),
        Command::Version => {
            output::line(format!("lancegate {}", env!("CARGO_PKG_VERSION")));
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(error.as_ref());
            ExitCode::FAILURE
        }
    }
}

/// Prints an error and its causes, each line of it under the program's name.
fn report(error: &dyn Error) {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let sentence = inner.to_string();
        // Some errors print their cause themselves.
        if !text.contains(&sentence) {
            text = format!("{text}: {sentence}");
        }
        cause = inner.source();
    }
    for line in text.lines() {
        output::note(format!("lancegate: {line}"));
    }
}

/// Starts the runtime of sockets, authentication and leases.
fn io_runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().thread_name("io").enable_all().build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn set_needs_a_key_and_a_value() {
        assert_eq!(key_and_value("a.b = c=d"), Ok(("a.b".to_owned(), "c=d".to_owned())));
        assert!(key_and_value("a.b").is_err());
    }
}
