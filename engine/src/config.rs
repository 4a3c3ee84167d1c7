//! The gateway's configuration: one struct per concern, checked once at start.
//!
//! Precedence is flag over environment over file over default. Everything
//! outside this module takes values; nothing else reads the environment. A
//! refused configuration names every offending key, where it was set and what
//! is allowed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use lancegate_auth::Secret;
use serde::Deserialize;

mod example;
mod gpu;
mod identity;
mod keys;
mod kind;
mod layer;
mod listeners;
mod problem;
mod value;
mod work;

pub use example::example;
pub use gpu::{DEFAULT_CLASS, GpuClass, GpuDefault};
pub use identity::{AuditConfig, AuditFailure, AuditedStatements, JwtIssuer, KeysAt, safe_url};
pub use layer::{CONFIG_VARIABLE, ENVIRONMENT_PREFIX};
pub use listeners::{FlightConfig, HttpConfig, PgConfig};
pub use problem::{Origin, Problem, Problems};
pub use value::{ByteSize, Duration, ValueError};
use work::SecretsConfig;
pub use work::{ColumnRefreshConfig, FunctionsConfig, JobsConfig, LogConfig, LogFormat, QueryConfig};

use layer::{Layers, Origins};

/// The folder under the data folder that holds our own state.
pub const STATE_FOLDER: &str = "_lancegate";
/// The metadata file in [`STATE_FOLDER`].
pub const METADATA_FILE: &str = "metadata.db";
/// The key file beside it.
pub const KEY_FILE: &str = "secrets.key";

/// Everything that an operator can set.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The root of database `lancegate`: a folder or an `s3://` URI.
    pub data: String,
    /// The SQLite file; see [`Config::metadata_path`].
    metadata: Option<PathBuf>,
    /// The password that the first start gives to user `lancegate`.
    pub password: Option<Secret<String>>,
    /// The PostgreSQL wire.
    pub pg: PgConfig,
    /// What is recorded of connections and statements.
    pub audit: AuditConfig,
    /// Health, readiness and metrics.
    pub http: HttpConfig,
    /// Arrow Flight SQL.
    pub flight: FlightConfig,
    /// What statements may use.
    pub query: QueryConfig,
    /// Refresh jobs and their history.
    pub jobs: JobsConfig,
    /// Automatic refreshes.
    pub column_refresh: ColumnRefreshConfig,
    /// Workers of Functions.
    pub functions: FunctionsConfig,
    /// Where the keys of secrets are.
    #[serde(default)]
    secrets: SecretsConfig,
    #[serde(default)]
    gpu_default: GpuDefault,
    #[serde(default)]
    gpu_classes: Vec<GpuClass>,
    /// Identity providers whose tokens log in.
    #[serde(default)]
    pub jwt_issuers: Vec<JwtIssuer>,
    /// What is written to standard error.
    pub log: LogConfig,
}

/// What to read, in rising precedence.
#[derive(Debug, Default)]
pub struct Sources {
    /// The TOML file, if one is named.
    pub file: Option<PathBuf>,
    /// The environment; only variables with [`ENVIRONMENT_PREFIX`] are read.
    pub environment: Vec<(OsString, OsString)>,
    /// Flags: the flag's name, the key and the value.
    pub flags: Vec<(String, String, String)>,
}

impl Config {
    /// Reads, merges and checks all sources.
    ///
    /// # Errors
    /// All problems that were found, each named by its key.
    pub fn load(sources: Sources) -> Result<Self, Problems> {
        let mut layers = Layers::with_defaults();
        if let Some(path) = &sources.file {
            layers.add_file(path, &read(path)?);
        }
        layers.add_environment(sources.environment);
        for (flag, key, value) in &sources.flags {
            layers.add_flag(flag, key, value);
        }
        let (table, origins) = layers.finish()?;
        ensure_data(&table)?;
        // The table of keys has checked every value; what is left is a
        // difference between it and the structs, which a test excludes.
        let config: Self =
            table.try_into().map_err(|error: toml::de::Error| Problem::new("configuration", error.message()))?;
        config.check(&origins)?;
        Ok(config)
    }

    /// Returns the data folder, or `None` if the data is behind a URI.
    pub fn data_folder(&self) -> Option<&Path> {
        (!self.data.contains("://")).then(|| Path::new(&self.data))
    }

    /// Returns the path of the SQLite file.
    pub fn metadata_path(&self) -> PathBuf {
        match &self.metadata {
            Some(path) => path.clone(),
            None => Path::new(&self.data).join(STATE_FOLDER).join(METADATA_FILE),
        }
    }

    /// Returns the path of the key file of secrets, and whether the operator has
    /// chosen it.
    pub fn key_file(&self) -> (PathBuf, bool) {
        match &self.secrets.key_file {
            Some(path) => (path.clone(), true),
            None => (self.metadata_path().with_file_name(KEY_FILE), false),
        }
    }

    /// Returns the legacy default class and then the named ones.
    pub fn gpu_classes(&self) -> Vec<GpuClass> {
        gpu::all(&self.gpu_default, &self.gpu_classes)
    }

    fn check(&self, origins: &Origins) -> Result<(), Problems> {
        let mut problems = Problems::default();
        if self.data_folder().is_none() && self.metadata.is_none() {
            let what = "is not set; data behind a URI needs a local SQLite file for users, grants and jobs";
            problems.push(origins.problem("metadata", what));
        }
        self.pg.check(origins, &mut problems);
        self.http.check(origins, &mut problems);
        self.flight.check(&self.http, origins, &mut problems);
        gpu::check(&self.gpu_default, &self.gpu_classes, origins, &mut problems);
        identity::check(&self.jwt_issuers, origins, &mut problems);
        problems.into_result()
    }
}

fn read(path: &Path) -> Result<String, Problem> {
    std::fs::read_to_string(path)
        .map_err(|error| Problem::new(path.display().to_string(), format!("cannot be read: {error}")))
}

fn ensure_data(table: &toml::Table) -> Result<(), Problem> {
    if table.contains_key("data") {
        return Ok(());
    }
    let what = "is not set; name the folder of Lance tables with --data, LANCEGATE_DATA or \"data\" in the file";
    Err(Problem::new("data", what))
}

#[cfg(test)]
#[path = "config/tests.rs"]
mod tests;
