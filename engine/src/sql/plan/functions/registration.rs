//! CREATE FUNCTION … FROM: the registration document that the `lancedb` SDK makes of a decorated Python callable.
//!
//! Keys: `artifact` (`kind`, `digest`, `entrypoint`, `content`, `adapter`), `signature` (`inputs`, `output`,
//! `initialization`), `runtime` (`kind`, `python_version`, `environment`, `env`, `gpu`), `secret_bindings`, and the contract
//! in `behavior` or beside the others: `result_stability`, `side_effects`. The artifact is one source, or a bundle: JSON of
//! files, of which `user_function.py` has the entrypoint. What is in it and cannot be honoured is refused.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Field as ArrowField};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lancegate_functions::definition::{ArrowType, CallMode, Parameter, ResultStability, SecretRef, SideEffects};
use lancegate_functions::{Definition, Model, models};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::is_variable;
use super::options::{
    Field, arrow_type, bad_value, ensure_consistent, is_channel, is_conda_requirement, is_requirement,
};
use crate::error::{Result, SqlError};
use crate::sqlstate::SqlState;

/// The file of a bundle that has the entrypoint.
const ENTRY_FILE: &str = "user_function.py";
/// The longest source.
const SOURCE_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Deserialize)]
struct Registration {
    artifact: Artifact,
    signature: Signature,
    runtime: Runtime,
    #[serde(default)]
    secret_bindings: Vec<SecretBinding>,
    #[serde(default)]
    models: Vec<Model>,
    #[serde(default)]
    behavior: Behavior,
    #[serde(flatten)]
    beside: Behavior,
}

/// A secret, and how it reaches the Function.
#[derive(Debug, Deserialize)]
struct SecretBinding {
    kind: String,
    variable: Option<String>,
    secret_ref: Option<SecretReference>,
}

#[derive(Debug, Deserialize)]
struct SecretReference {
    name: String,
    #[serde(default)]
    namespace_path: Vec<String>,
}

/// Sources by their paths on the import path.
#[derive(Debug, Deserialize)]
struct Bundle {
    files: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct Artifact {
    kind: String,
    digest: String,
    entrypoint: String,
    content: Content,
    adapter: Adapter,
}

#[derive(Debug, Deserialize)]
struct Content {
    encoding: String,
    data: String,
}

#[derive(Debug, Deserialize)]
struct Adapter {
    kind: String,
    version: u32,
}

#[derive(Debug, Deserialize)]
struct Signature {
    inputs: Vec<Field>,
    output: Output,
    #[serde(default)]
    initialization: Vec<Field>,
}

#[derive(Debug, Deserialize)]
struct Output {
    kind: String,
    arrow_type: Option<String>,
    #[serde(default)]
    fields: Vec<Field>,
}

#[derive(Debug, Deserialize)]
struct Runtime {
    kind: String,
    python_version: Option<String>,
    environment: Option<Environment>,
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    gpu: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Environment {
    kind: String,
    #[serde(default)]
    packages: Vec<String>,
    #[serde(default)]
    channels: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Behavior {
    result_stability: Option<ResultStability>,
    side_effects: Option<SideEffects>,
}

/// Returns what a document registers.
///
/// # Errors
/// 22023 for a document that is none or does not agree with itself, 0A000 for what this version has not.
pub(super) fn definition(document: &str) -> Result<Definition> {
    let registration: Registration = serde_json::from_str(document).map_err(|error| invalid(&error.to_string()))?;
    ensure_known(&registration)?;
    let Registration { artifact, signature, runtime, secret_bindings, models, behavior, beside } = registration;
    let (source, files) = sources(&artifact)?;
    let mut parameters: Vec<Parameter> = Vec::new();
    for input in signature.inputs {
        if parameters.iter().any(|known| known.name == input.name) {
            return Err(invalid(&format!("parameter \"{}\" is there twice", input.name)));
        }
        parameters.push(input.parameter()?);
    }
    models::validate(&models).map_err(|wrong| invalid(&format!("models: {wrong}")))?;
    let env = runtime.env.unwrap_or_default();
    let mut definition = Definition {
        mode: CallMode::Annotated,
        files,
        initialization: signature.initialization.into_iter().map(Field::parameter).collect::<Result<_>>()?,
        result_stability: behavior.result_stability.or(beside.result_stability),
        side_effects: behavior.side_effects.or(beside.side_effects),
        secrets: secrets(secret_bindings, &env)?,
        env,
        models,
        gpu: runtime.gpu.unwrap_or_default(),
        ..Definition::new(parameters, ArrowType(output(&signature.output)?), source, artifact.entrypoint)
    };
    if let Some(environment) = runtime.environment {
        install(&mut definition, environment)?;
    }
    // The version of the client's Python is a wish that only an environment of its own can fulfil.
    let own = !definition.pip.is_empty() || !definition.conda.is_empty();
    definition.python_version = runtime.python_version.filter(|_| own);
    ensure_consistent(&definition)?;
    Ok(definition)
}

/// Takes over the packages of an environment.
fn install(definition: &mut Definition, environment: Environment) -> Result<()> {
    let Environment { kind, packages, channels } = environment;
    let allowed = if kind == "conda" { is_conda_requirement } else { is_requirement };
    if let Some(item) = packages.iter().find(|item| !allowed(item)) {
        return Err(bad_value("packages", item, "names of packages, with extras and versions"));
    }
    if let Some(item) = channels.iter().find(|item| !is_channel(item)) {
        return Err(bad_value("channels", item, "names of channels"));
    }
    match kind.as_str() {
        "pip" => definition.pip = packages,
        "conda" => definition.conda = packages,
        kind => return Err(SqlError::not_supported(format!("environment kind \"{kind}\" is not supported"))),
    }
    definition.conda_channels = channels;
    Ok(())
}

/// Returns secrets by the variables that hold them.
fn secrets(bindings: Vec<SecretBinding>, env: &BTreeMap<String, String>) -> Result<BTreeMap<String, SecretRef>> {
    let mut secrets = BTreeMap::new();
    for binding in bindings {
        if binding.kind != "env" {
            return Err(SqlError::not_supported(format!("secret binding kind \"{}\" is not supported", binding.kind)));
        }
        let (Some(variable), Some(SecretReference { name, namespace_path })) = (binding.variable, binding.secret_ref)
        else {
            return Err(invalid("a secret binding names no variable or no secret"));
        };
        if !is_variable(&variable) || env.contains_key(&variable) {
            return Err(invalid(&format!("\"{variable}\" cannot hold a secret")));
        }
        let secret = SecretRef { namespace: namespace_path, name };
        if secrets.insert(variable.clone(), secret).is_some() {
            return Err(invalid(&format!("variable \"{variable}\" holds two secrets")));
        }
    }
    Ok(secrets)
}

fn ensure_known(registration: &Registration) -> Result<()> {
    let Registration { artifact, runtime, .. } = registration;
    let unsupported = |what: String| Err(SqlError::not_supported(format!("{what} is not supported")));
    if !matches!(artifact.kind.as_str(), "python_callable" | "python_bundle") {
        return unsupported(format!("artifact kind \"{}\"", artifact.kind));
    }
    if (artifact.adapter.kind.as_str(), artifact.adapter.version) != ("scalar_to_arrow_batch", 1) {
        return unsupported(format!("adapter \"{}\" {}", artifact.adapter.kind, artifact.adapter.version));
    }
    if !matches!(runtime.kind.as_str(), "python" | "python_v2") {
        return unsupported(format!("runtime kind \"{}\"", runtime.kind));
    }
    if runtime.kind == "python" && runtime.gpu.is_some() {
        return Err(invalid("runtime kind \"python\" carries no \"gpu\""));
    }
    Ok(())
}

/// Returns the source of the entrypoint, and the modules that came with it.
fn sources(artifact: &Artifact) -> Result<(String, BTreeMap<String, String>)> {
    let content = content(artifact)?;
    if artifact.kind == "python_callable" {
        return Ok((content, BTreeMap::new()));
    }
    let Bundle { mut files } = serde_json::from_str(&content).map_err(|error| invalid(&error.to_string()))?;
    let entry = files.remove(ENTRY_FILE).ok_or_else(|| invalid(&format!("the bundle has no {ENTRY_FILE}")))?;
    match files.keys().find(|path| !is_module(path)) {
        Some(path) => Err(invalid(&format!("\"{path}\" is no path of a module"))),
        None => Ok((entry, files)),
    }
}

/// Whether a path is one that `import` could look for.
fn is_module(path: &str) -> bool {
    let name = |part: &str| is_variable(part);
    path.strip_suffix(".py").is_some_and(|path| path.split('/').all(name))
}

fn content(artifact: &Artifact) -> Result<String> {
    if artifact.content.encoding != "base64" {
        return Err(SqlError::not_supported(format!("encoding \"{}\" is not supported", artifact.content.encoding)));
    }
    let bytes = STANDARD.decode(&artifact.content.data).map_err(|_| invalid("the content is not base64"))?;
    if bytes.len() > SOURCE_BYTES_MAX {
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "the source of a Function is too long")
            .detail(format!("It has {} bytes; the limit is {SOURCE_BYTES_MAX}.", bytes.len())));
    }
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if artifact.digest != format!("sha256:{digest}") {
        return Err(invalid("the digest of the artifact is not that of its content"));
    }
    String::from_utf8(bytes).map_err(|_| invalid("the content is not UTF-8"))
}

fn output(output: &Output) -> Result<DataType> {
    match (output.kind.as_str(), &output.arrow_type) {
        ("scalar", Some(text)) => arrow_type(text),
        ("named_struct", _) if !output.fields.is_empty() => {
            let field = |field: &Field| Ok(ArrowField::new(&field.name, arrow_type(&field.arrow_type)?, true));
            Ok(DataType::Struct(output.fields.iter().map(field).collect::<Result<Vec<_>>>()?.into()))
        }
        ("scalar" | "named_struct", _) => Err(invalid("the output has no type")),
        (kind, _) => Err(SqlError::not_supported(format!("output kind \"{kind}\" is not supported"))),
    }
}

fn invalid(what: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "invalid registration document").detail(format!("{what}."))
}
