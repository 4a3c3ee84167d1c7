//! Python environments: baked once per set of packages, then shared and never changed.
//!
//! Without packages a Function runs in the gateway's own Python. With packages, a virtual environment is built in a
//! temporary folder beside its place and renamed into it when it is complete, so a build that was killed leaves no
//! environment. `uv` builds it when it is on the PATH, `venv` and `pip` otherwise. pyarrow is always there: the one that
//! the packages bring, or the gateway's own. Only wheels are installed, and the tools see nothing of the gateway's
//! environment but what they need.
//!
//! Packages of conda are installed by `micromamba` or `conda`, whichever is on the PATH. What they install knows its place,
//! so it is built there, and a file says that it is complete.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::process::Command;
use tokio::time::timeout;

use crate::definition::Definition;

const BUILD_TIMEOUT: Duration = Duration::from_secs(1_800);
const OUTPUT_CHARS: usize = 16_000;
/// The file that says that an environment of conda is complete.
const COMPLETE: &str = ".lancegate-complete";
/// Where conda looks unless a Function says where.
const DEFAULT_CHANNEL: &str = "conda-forge";

/// A Python that workers run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// The executable.
    pub executable: PathBuf,
    /// Its version, for example `3.11.7`.
    pub version: String,
    /// What a worker must be able to read, beside the system's libraries.
    pub readable: Vec<PathBuf>,
    /// What the build printed; empty when there was nothing to build.
    pub build_output: String,
}

/// Why there is no environment.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EnvironmentError {
    /// The Python cannot be run, or lacks pyarrow.
    #[error("python {executable} cannot run Functions: {message}")]
    Python {
        /// The executable.
        executable: String,
        /// What it says.
        message: String,
    },
    /// The tool that builds environments failed.
    #[error("environment could not be built: {message}")]
    Build {
        /// The tool's own message, its end.
        message: String,
    },
}

/// Environments below one folder.
#[derive(Debug, Clone)]
pub struct Environments {
    root: PathBuf,
    base: PathBuf,
    building: Arc<Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>>,
    /// Pythons that were asked what they are; they stay that as long as the process runs.
    known: Arc<Mutex<HashMap<PathBuf, Python>>>,
}

#[derive(Deserialize)]
struct Inspected {
    version: String,
    paths: Vec<PathBuf>,
}

/// Where a Python keeps its packages.
#[derive(Deserialize)]
struct Packages {
    /// For example `3.11`.
    version: String,
    folder: PathBuf,
    pyarrow: Option<PathBuf>,
}

const PACKAGES: &str = "import importlib.util, json, os, sys, sysconfig\n\
found = importlib.util.find_spec('pyarrow')\n\
print(json.dumps({'version': '%d.%d' % sys.version_info[:2], 'folder': sysconfig.get_path('purelib'),\n\
'pyarrow': found and os.path.realpath(os.path.dirname(found.origin))}))";

const INSPECT: &str = "import json, sys, os, pyarrow\n\
paths = {sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.path.dirname(pyarrow.__file__))}\n\
paths |= {os.path.realpath(os.path.dirname(pyarrow.__file__))}\n\
paths |= {os.path.realpath(p) for p in list(paths)} | {os.path.dirname(os.path.realpath(sys.executable))}\n\
print(json.dumps({'version': sys.version.split()[0], 'paths': sorted(paths)}))";

impl Environments {
    /// Keeps environments in `root`; `base` is the Python that they are made from.
    pub fn new(root: PathBuf, base: PathBuf) -> Self {
        Self { root, base, building: Arc::default(), known: Arc::default() }
    }

    /// Returns the Python of a Function, after building its environment if it is not there yet. Concurrent calls for one
    /// environment build it once.
    ///
    /// # Errors
    /// See [`EnvironmentError`].
    pub async fn prepare(&self, definition: &Definition) -> Result<Python, EnvironmentError> {
        if !definition.has_environment() {
            return self.inspect(&self.base).await;
        }
        let digest = digest(definition, &self.base);
        let place = self.root.join(&digest);
        let lock = {
            let mut building = self.building.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(building.entry(digest).or_default())
        };
        let _one = lock.lock().await;
        let executable = place.join("bin/python");
        if is_complete(&place, definition) {
            return self.inspect(&executable).await;
        }
        let build_output = match definition.conda.is_empty() {
            true => self.build(definition, &place).await?,
            false => self.build_with_conda(definition, &place).await?,
        };
        Ok(Python { build_output, ..self.inspect(&executable).await? })
    }

    /// Returns whether [`Self::prepare`] has nothing to build.
    pub fn is_prepared(&self, definition: &Definition) -> bool {
        !definition.has_environment() || is_complete(&self.root.join(digest(definition, &self.base)), definition)
    }

    /// Returns the Python that environments are made from.
    ///
    /// # Errors
    /// [`EnvironmentError::Python`].
    pub async fn base(&self) -> Result<Python, EnvironmentError> {
        self.inspect(&self.base).await
    }

    async fn inspect(&self, executable: &Path) -> Result<Python, EnvironmentError> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(executable).cloned();
        if let Some(python) = known {
            return Ok(python);
        }
        let python = inspect(executable).await?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(executable.to_owned(), python.clone());
        Ok(python)
    }

    /// Gives an environment the pyarrow of the gateway's own Python, if it has none and is of the same version of Python.
    /// Returns whether it has one now. Nothing is installed into the environment after that, so nothing is ever
    /// written through the link.
    async fn link_pyarrow(&self, python: &Path) -> Result<bool, EnvironmentError> {
        let (own, base) = (packages(python).await?, packages(&self.base).await?);
        match (own.pyarrow, base.pyarrow) {
            (Some(_), _) => Ok(true),
            (None, Some(pyarrow)) if own.version == base.version => {
                let link = own.folder.join("pyarrow");
                std::os::unix::fs::symlink(pyarrow, link)
                    .map_err(|error| EnvironmentError::Build { message: error.to_string() })?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    async fn build(&self, definition: &Definition, place: &Path) -> Result<String, EnvironmentError> {
        let failed = |error: std::io::Error| EnvironmentError::Build { message: error.to_string() };
        std::fs::create_dir_all(&self.root).map_err(failed)?;
        let folder = tempfile::Builder::new().prefix(".build-").tempdir_in(&self.root).map_err(failed)?;
        let target = folder.path().join("env");
        let python = target.join("bin/python");
        let uv = Command::new("uv").arg("--version").output().await.is_ok_and(|output| output.status.success());
        let version = definition.python_version.as_deref();
        let mut make;
        if uv {
            make = Command::new("uv");
            make.arg("venv").arg("--relocatable");
            match version {
                Some(version) => make.args(["--python", version]),
                None => make.arg("--python").arg(&self.base),
            };
            make.arg(&target);
        } else {
            make = match version {
                Some(version) => Command::new(format!("python{version}")),
                None => Command::new(&self.base),
            };
            make.args(["-m", "venv"]).arg(&target);
        }
        let mut output = run(make).await?;
        if !definition.pip.is_empty() {
            output.push_str(&run(install(uv, &python, &definition.pip)).await?);
        }
        if !self.link_pyarrow(&python).await? {
            output.push_str(&run(install(uv, &python, &["pyarrow".to_owned()])).await?);
        }
        // A virtual environment finds itself by its own place, so it can be renamed; only its scripts name the old one.
        std::fs::rename(&target, place).map_err(failed)?;
        Ok(output)
    }

    async fn build_with_conda(&self, definition: &Definition, place: &Path) -> Result<String, EnvironmentError> {
        let failed = |error: std::io::Error| EnvironmentError::Build { message: error.to_string() };
        let Some(tool) = conda().await else {
            let message = "option \"conda\" needs micromamba or conda on the PATH of the gateway, and neither is there";
            return Err(EnvironmentError::Build { message: message.to_owned() });
        };
        std::fs::create_dir_all(&self.root).map_err(failed)?;
        // What a build that was killed has left.
        match std::fs::remove_dir_all(place) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let mut create = Command::new(tool);
        create.args(["create", "--yes", "--quiet", "--override-channels", "--prefix"]).arg(place);
        let default = [DEFAULT_CHANNEL.to_owned()];
        let channels = if definition.conda_channels.is_empty() { &default[..] } else { &definition.conda_channels };
        for channel in channels {
            create.args(["--channel", channel]);
        }
        let python = match &definition.python_version {
            Some(version) => format!("python={version}"),
            None => format!("python={}", packages(&self.base).await?.version),
        };
        create.arg(python).args(&definition.conda);
        if !definition.conda.iter().any(|package| package.starts_with("pyarrow")) {
            create.arg("pyarrow");
        }
        let output = run(create).await;
        let complete = match &output {
            Ok(_) => std::fs::write(place.join(COMPLETE), "").map_err(failed),
            Err(error) => Err(error.clone()),
        };
        if complete.is_err() {
            let _ = std::fs::remove_dir_all(place);
        }
        complete?;
        output
    }
}

fn is_complete(place: &Path, definition: &Definition) -> bool {
    place.join("bin/python").exists() && (definition.conda.is_empty() || place.join(COMPLETE).exists())
}

/// Returns the tool that installs packages of conda.
async fn conda() -> Option<&'static str> {
    for tool in ["micromamba", "conda"] {
        let mut version = Command::new(tool);
        version.arg("--version");
        if run(version).await.is_ok() {
            return Some(tool);
        }
    }
    None
}

/// Wheels only: building a package would run its code as the gateway.
fn install(uv: bool, python: &Path, packages: &[String]) -> Command {
    let mut install = Command::new(if uv { Path::new("uv") } else { python });
    if uv {
        install.args(["pip", "install", "--no-build", "--python"]).arg(python);
    } else {
        let wheels = ["--only-binary", ":all:"];
        install.args(["-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]).args(wheels);
    }
    // After `--` nothing is an option of the tool.
    install.arg("--").args(packages);
    install
}

async fn run(mut command: Command) -> Result<String, EnvironmentError> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    // The gateway's environment may hold its password and those of its storage.
    command.env_clear().envs(std::env::vars_os().filter(|(name, _)| is_for_tools(&name.to_string_lossy())));
    let child = command.kill_on_drop(true).stdin(std::process::Stdio::null()).output();
    let output = match timeout(BUILD_TIMEOUT, child).await {
        Err(_) => return Err(EnvironmentError::Build { message: format!("{program} took too long") }),
        Ok(Err(error)) => return Err(EnvironmentError::Build { message: format!("{program}: {error}") }),
        Ok(Ok(output)) => output,
    };
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let end = text.char_indices().nth_back(OUTPUT_CHARS).map_or(0, |(at, _)| at);
    let text = text[end..].trim().to_owned();
    if output.status.success() { Ok(text) } else { Err(EnvironmentError::Build { message: text }) }
}

/// Where programs are, and how indexes of packages are reached.
fn is_for_tools(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    matches!(name.as_str(), "PATH" | "HOME" | "LANG" | "TMPDIR" | "SSL_CERT_FILE" | "SSL_CERT_DIR" | "XDG_CACHE_HOME")
        || name.ends_with("_PROXY")
        || name.starts_with("PIP_")
        || name.starts_with("UV_")
        || name.starts_with("MAMBA_")
        || name.starts_with("CONDA_")
}

async fn packages(executable: &Path) -> Result<Packages, EnvironmentError> {
    let mut ask = Command::new(executable);
    ask.args(["-I", "-c", PACKAGES]);
    let told = run(ask).await?;
    serde_json::from_str(told.lines().last().unwrap_or_default())
        .map_err(|error| EnvironmentError::Build { message: error.to_string() })
}

async fn inspect(executable: &Path) -> Result<Python, EnvironmentError> {
    let refused = |message: String| EnvironmentError::Python { executable: executable.display().to_string(), message };
    let output = Command::new(executable).args(["-I", "-c", INSPECT]).output().await;
    let output = output.map_err(|error| refused(error.to_string()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(refused(text.lines().last().unwrap_or_default().to_owned()));
    }
    let Inspected { version, mut paths } =
        serde_json::from_slice(&output.stdout).map_err(|error| refused(error.to_string()))?;
    paths.retain(|path| path.components().count() > 1 && !path.starts_with("/usr"));
    // A folder inside another one is there with it.
    let all = paths.clone();
    paths.retain(|path| !all.iter().any(|other| other != path && path.starts_with(other)));
    Ok(Python { executable: executable.to_owned(), version, readable: paths, build_output: String::new() })
}

fn digest(definition: &Definition, base: &Path) -> String {
    let mut packages = definition.pip.clone();
    packages.sort();
    let mut text = serde_json::json!([packages, definition.python_version, base]);
    if !definition.conda.is_empty() {
        let mut conda = definition.conda.clone();
        conda.sort();
        text = serde_json::json!([text, conda, definition.conda_channels]);
    }
    let text = text.to_string();
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
