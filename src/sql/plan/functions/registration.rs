//! CREATE FUNCTION … FROM: the registration document that the `lancedb` SDK makes of a decorated Python callable.
//!
//! Keys: `artifact` (`kind`, `digest`, `entrypoint`, `content`, `adapter`), `signature` (`inputs`, `output`,
//! `initialization`), `runtime` (`kind`, `python_version`, `environment`, `env`, `gpu`), `secret_bindings`, and the contract
//! in `behavior` or beside the others: `result_stability`, `side_effects`. What is in it and cannot be honoured is refused.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Field};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lancegate_functions::Definition;
use lancegate_functions::definition::{ArrowType, CallMode, Parameter, ResultStability, SideEffects};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::options::{arrow_type, bad_value, is_requirement};
use crate::error::{Result, SqlError};
use crate::sqlstate::SqlState;

/// The longest source.
const SOURCE_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Deserialize)]
struct Registration {
    artifact: Artifact,
    signature: Signature,
    runtime: Runtime,
    #[serde(default)]
    secret_bindings: Vec<serde_json::Value>,
    #[serde(default)]
    models: Vec<serde_json::Value>,
    #[serde(default)]
    behavior: Behavior,
    #[serde(flatten)]
    beside: Behavior,
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
    inputs: Vec<Typed>,
    output: Output,
    #[serde(default)]
    initialization: Vec<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Typed {
    name: String,
    arrow_type: String,
    #[serde(default = "yes")]
    nullable: bool,
}

#[derive(Debug, Deserialize)]
struct Output {
    kind: String,
    arrow_type: Option<String>,
    #[serde(default)]
    fields: Vec<Typed>,
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
}

#[derive(Debug, Default, Deserialize)]
struct Behavior {
    result_stability: Option<ResultStability>,
    side_effects: Option<SideEffects>,
}

fn yes() -> bool {
    true
}

/// Returns what a document registers.
///
/// # Errors
/// 22023 for a document that is none or does not agree with itself, 0A000 for what this version has not.
pub(super) fn definition(document: &str) -> Result<Definition> {
    let registration: Registration = serde_json::from_str(document).map_err(|error| invalid(&error.to_string()))?;
    ensure_known(&registration)?;
    let Registration { artifact, signature, runtime, behavior, beside, .. } = registration;
    let source = source(&artifact)?;
    let mut parameters: Vec<Parameter> = Vec::new();
    for input in &signature.inputs {
        if parameters.iter().any(|known| known.name == input.name) {
            return Err(invalid(&format!("parameter \"{}\" is there twice", input.name)));
        }
        let arrow_type = ArrowType(arrow_type(&input.arrow_type)?);
        parameters.push(Parameter { name: input.name.clone(), arrow_type, nullable: input.nullable });
    }
    let packages = runtime.environment.map(|environment| environment.packages).unwrap_or_default();
    if let Some(item) = packages.iter().find(|item| !is_requirement(item)) {
        return Err(bad_value("packages", item, "names of packages, with extras and versions"));
    }
    Ok(Definition {
        parameters,
        output: ArrowType(output(&signature.output)?),
        mode: CallMode::Scalar,
        source,
        entrypoint: artifact.entrypoint,
        result_stability: behavior.result_stability.or(beside.result_stability),
        side_effects: behavior.side_effects.or(beside.side_effects),
        // The version of the client's Python is a wish that only an environment of its own can fulfil.
        python_version: runtime.python_version.filter(|_| !packages.is_empty()),
        pip: packages,
        env: runtime.env.unwrap_or_default(),
        secrets: BTreeMap::new(),
        models: Vec::new(),
        network: false,
        gpu: runtime.gpu.unwrap_or_default(),
        gpu_class: None,
    })
}

fn ensure_known(registration: &Registration) -> Result<()> {
    let Registration { artifact, signature, runtime, .. } = registration;
    let unsupported = |what: String| Err(SqlError::not_supported(format!("{what} is not supported")));
    if artifact.kind != "python_callable" {
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
    if let Some(environment) = runtime.environment.as_ref().filter(|environment| environment.kind != "pip") {
        return unsupported(format!("environment kind \"{}\"", environment.kind));
    }
    if !signature.initialization.is_empty() {
        return unsupported("a Function with initialization fields".to_owned());
    }
    if !registration.secret_bindings.is_empty() {
        return unsupported("a Function with secrets".to_owned());
    }
    if !registration.models.is_empty() {
        return unsupported("a Function with models".to_owned());
    }
    Ok(())
}

fn source(artifact: &Artifact) -> Result<String> {
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
            let field = |field: &Typed| Ok(Field::new(&field.name, arrow_type(&field.arrow_type)?, true));
            Ok(DataType::Struct(output.fields.iter().map(field).collect::<Result<Vec<_>>>()?.into()))
        }
        ("scalar" | "named_struct", _) => Err(invalid("the output has no type")),
        (kind, _) => Err(SqlError::not_supported(format!("output kind \"{kind}\" is not supported"))),
    }
}

fn invalid(what: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "invalid registration document").detail(format!("{what}."))
}
