//! `lancegate check`: everything that a start would trip over, by key.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use clap::Args;
use lancegate_catalog::CatalogError;

use super::{CommandResult, ConfigArgs, io_runtime, output};
use crate::gateway::{StartError, client_authorities, metadata_advice, open_catalog, prepare_folder};
use crate::pg::AccessRules;
use crate::tls::{self, ClientAuthorities};
use lancegate_engine::config::Config;
use lancegate_engine::secrets::key::KeyRing;

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

/// What one look found.
enum Finding {
    /// In order.
    Good(String),
    /// Worth knowing, no problem.
    Note(String),
    /// A gateway would not start or not work.
    Problem(String),
}

pub(super) fn run(args: CheckArgs) -> CommandResult {
    let config = args.config.load()?;
    let (metadata, running, secrets) = check_metadata(&config)?;
    let mut looks = vec![
        ("data", check_data(&config)),
        ("metadata", metadata),
        ("secrets.key_file", check_keys(&config, secrets)),
        ("pg.listen", check_port(config.pg.listen, running)),
        ("http.listen", check_port(config.http.listen, running)),
    ];
    if let Some(listen) = flight_listen(&config) {
        looks.push(("flight.listen", check_port(listen, running)));
    }
    if let Some((certificate, key)) = config.pg.tls() {
        looks.push(("pg.tls_cert", check_tls("pg", certificate, key, client_authorities(&config))));
    }
    if let Some((certificate, key)) = config.flight.tls() {
        looks.push(("flight.tls_cert", check_tls("flight", certificate, key, None)));
    }
    looks.push(("pg.hba_file", check_access(&config)));
    if let Some(folder) = &config.pg.unix_socket_directory {
        looks.push(("pg.unix_socket_directory", check_folder(folder)));
    }
    if let Some(file) = &config.audit.file {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        looks.push(("audit.file", check_folder(folder.unwrap_or(Path::new(".")))));
    }
    looks.push(("query.spill_directory", check_spill(&config)));
    looks.push(("query.memory", check_memory(&config)));

    let problems = looks.iter().filter(|(_, finding)| matches!(finding, Finding::Problem(_))).count();
    for (key, finding) in &looks {
        let (word, text) = match finding {
            Finding::Good(text) => ("ok", text),
            Finding::Note(text) => ("note", text),
            Finding::Problem(text) => ("PROBLEM", text),
        };
        output::line(format!("{word:<8}{key}: {text}"));
    }
    match problems {
        0 => Ok(()),
        1 => Err("1 problem".into()),
        more => Err(format!("{more} problems").into()),
    }
}

fn check_data(config: &Config) -> Finding {
    let Some(folder) = config.data_folder() else {
        return Finding::Note(format!("{} is not reached by this check", config.data));
    };
    if !folder.exists() {
        return Finding::Note(format!("{} does not exist; the first start creates it", folder.display()));
    }
    writable(folder)
}

fn check_spill(config: &Config) -> Finding {
    check_folder(&config.query.spill_directory.clone().unwrap_or_else(std::env::temp_dir))
}

fn check_folder(folder: &Path) -> Finding {
    if folder.exists() { writable(folder) } else { Finding::Problem(format!("{} does not exist", folder.display())) }
}

fn check_access(config: &Config) -> Finding {
    match AccessRules::load(config) {
        Ok(_) if config.pg.hba_file.is_none() => Finding::Good("not set: everybody by scram-sha-256".to_owned()),
        Ok(rules) => Finding::Good(format!("{} rules can be used", rules.count())),
        Err(error) => Finding::Problem(error.to_string()),
    }
}

fn writable(folder: &Path) -> Finding {
    match prepare_folder(folder) {
        Ok(()) => Finding::Good(format!("{} can be written", folder.display())),
        Err(StartError::Data { source, .. }) => {
            Finding::Problem(format!("{} cannot be written: {source}", folder.display()))
        }
        Err(other) => Finding::Problem(other.to_string()),
    }
}

/// Returns what was found, whether a gateway runs on the store, and how many
/// secrets are in it as far as that can be told.
fn check_metadata(config: &Config) -> std::io::Result<(Finding, bool, usize)> {
    let path = config.metadata_path();
    if !path.exists() {
        let text = format!("{} does not exist; the first start creates it", path.display());
        return Ok((Finding::Note(text), false, 0));
    }
    Ok(io_runtime()?.block_on(async {
        match open_catalog(&path).await {
            Ok(catalog) => {
                let secrets = catalog.secrets(None).await.map_or(0, |secrets| secrets.len());
                catalog.close().await;
                (Finding::Good(format!("{} opens", path.display())), false, secrets)
            }
            Err(StartError::Metadata(CatalogError::InUse { .. })) => {
                (Finding::Note(format!("{} is in use by a running gateway", path.display())), true, 0)
            }
            Err(StartError::Metadata(error)) => (Finding::Problem(metadata_advice(&error)), false, 0),
            Err(other) => (Finding::Problem(other.to_string()), false, 0),
        }
    }))
}

fn check_keys(config: &Config, secrets: usize) -> Finding {
    let (path, chosen) = config.key_file();
    if !path.exists() && !chosen && secrets == 0 {
        return Finding::Note(format!("{} does not exist; the first start creates it", path.display()));
    }
    // A file that is not there is made only in the case above.
    match KeyRing::open(&path, true, secrets) {
        Ok(_) => Finding::Good(format!("{} can be used", path.display())),
        Err(error) => Finding::Problem(error.to_string()),
    }
}

fn check_port(address: SocketAddr, running: bool) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) => Finding::Good(format!("{address} is free")),
        Err(error) if running && error.kind() == ErrorKind::AddrInUse => {
            Finding::Note(format!("{address} is in use, it seems by the running gateway"))
        }
        Err(error) => Finding::Problem(format!("cannot listen on {address}: {error}")),
    }
}

/// Returns where Flight SQL would answer.
fn flight_listen(config: &Config) -> Option<SocketAddr> {
    let above = || match config.http.listen.port() {
        // The start looks for two free ports in a row.
        0 => None,
        port => Some(SocketAddr::new(config.http.listen.ip(), port.checked_add(1)?)),
    };
    config.flight.listen.or_else(above).filter(|_| config.flight.enabled)
}

fn check_tls(section: &str, certificate: &Path, key: &Path, clients: Option<ClientAuthorities<'_>>) -> Finding {
    match tls::server_config(certificate, key, clients) {
        Ok(_) => Finding::Good(format!("{} and its key can be used", certificate.display())),
        Err(error) => Finding::Problem(format!("{section}.{}: {error}", error.file_key())),
    }
}

/// Compares the memory of queries with the machine's.
fn check_memory(config: &Config) -> Finding {
    let wanted = config.query.memory;
    match machine_memory() {
        Some(total) if wanted.get() > total => {
            Finding::Problem(format!("{wanted} is more than this machine has, {} MiB", total >> 20))
        }
        Some(total) => Finding::Good(format!("{wanted} of {} MiB", total >> 20)),
        None => Finding::Note(format!("{wanted}; the machine's memory is not known here")),
    }
}

fn machine_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
