//! `lancegate serve`: one gateway until a signal.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{CommandResult, ConfigArgs, io_runtime, output};
use crate::admin::FirstLogin;
use crate::gateway::Gateway;
use crate::shutdown::{Asked, Signals};
use crate::telemetry;
use lancegate_engine::config::Config;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Write "pg=ADDRESS http=ADDRESS flight=ADDRESS" to this file once ready; for scripts that use port 0.
    #[arg(long, value_name = "FILE")]
    ports_file: Option<PathBuf>,
}

pub(super) fn run(args: ServeArgs) -> CommandResult {
    let config = args.config.load()?;
    telemetry::init(&config.log);
    io_runtime()?.block_on(serve(config, args.ports_file))
}

async fn serve(config: Config, ports_file: Option<PathBuf>) -> CommandResult {
    let mut signals = Signals::listen()?;
    // A signal during a slow start ends it at once; nothing is running yet.
    let gateway = tokio::select! {
        started = Gateway::start(config) => started?,
        signal = signals.next() => {
            output::note(format!("lancegate: stopped by {signal} while starting"));
            return Ok(());
        }
    };
    if let Some(login) = gateway.first_login() {
        announce_login(login);
    }
    if let Some(path) = ports_file {
        write_ports(&path, &gateway)?;
    }
    announce(&gateway);
    let signal = loop {
        match signals.asked().await {
            Asked::Stop(signal) => break signal,
            Asked::Reload => gateway.reload().await,
        }
    };
    output::note(format!("lancegate: {signal}, stopping; a second signal stops at once"));
    tokio::select! {
        () = gateway.stop() => Ok(()),
        again = signals.next() => Err(format!("stopped at once by {again}").into()),
    }
}

/// Prints the first user's login. The random password is printed here and
/// nowhere else, on standard error, so that it is in no pipe by accident.
fn announce_login(login: &FirstLogin) {
    match &login.random_password {
        Some(password) => {
            output::note(format!("created user \"{}\" with password {}", login.user, password.expose()));
            output::note("(shown this once; `lancegate user passwd` sets another)");
        }
        None => output::note(format!("created user \"{}\" with the password of LANCEGATE_PASSWORD", login.user)),
    }
}

fn announce(gateway: &Gateway) {
    let pg = gateway.pg_addr();
    output::line(format!(
        "lancegate {} is ready: psql -h {} -p {} -U lancegate",
        env!("CARGO_PKG_VERSION"),
        pg.ip(),
        pg.port()
    ));
}

/// Writes the file in one step, so that a reader never sees half of it.
fn write_ports(path: &Path, gateway: &Gateway) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let flight = gateway.flight_addr().map(|address| format!(" flight={address}")).unwrap_or_default();
    let ports = format!("pg={} http={}{flight}\n", gateway.pg_addr(), gateway.http_addr());
    io::Write::write_all(&mut file, ports.as_bytes())?;
    file.persist(path)?;
    Ok(())
}
