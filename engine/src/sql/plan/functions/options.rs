//! CREATE FUNCTION … LANGUAGE python: parameters, result and options.

use arrow::datatypes::DataType;
use lancegate_functions::definition::{ArrowType, CallMode, Parameter, ResultStability, SideEffects};
use lancegate_functions::types::{parse_type, print_type};
use lancegate_functions::{Definition, models};
use lancegate_sql::SqlOption;
use lancegate_sql::ast::FunctionBody;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::call::initializes;
use crate::error::{Result, SqlError};
use crate::sqlstate::SqlState;

/// Returns what CREATE FUNCTION … LANGUAGE python says.
///
/// # Errors
/// 22023, 42P17.
pub(super) fn definition(name: &str, body: &FunctionBody, options: &[SqlOption]) -> Result<Definition> {
    let mut parameters: Vec<Parameter> = Vec::new();
    for parameter in &body.parameters {
        let name = parameter.name.as_str().to_owned();
        if parameters.iter().any(|known| known.name == name) {
            let message = format!("parameter name \"{name}\" used more than once");
            return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        let arrow_type = ArrowType(arrow_type(&parameter.data_type)?);
        parameters.push(Parameter { name, arrow_type, nullable: parameter.nullable });
    }
    let output = ArrowType(arrow_type(&body.returns)?);
    let mut definition = Definition::new(parameters, output, body.source.clone(), name.to_owned());
    change(&mut definition, options)?;
    Ok(definition)
}

/// Sets options of a definition.
///
/// # Errors
/// 22023, 42601 for an option that there is not.
pub(super) fn change(definition: &mut Definition, options: &[SqlOption]) -> Result<()> {
    for option in options {
        set(definition, option).map_err(|error| error.at(option.position.get()))?;
    }
    ensure_consistent(definition)
}

/// Refuses what one option alone does not show.
///
/// # Errors
/// 22023, 42P17.
pub(super) fn ensure_consistent(definition: &Definition) -> Result<()> {
    let refused = |message: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    if !definition.pip.is_empty() && !definition.conda.is_empty() {
        return refused("options \"pip\" and \"conda\" exclude each other");
    }
    if !definition.conda_channels.is_empty() && definition.conda.is_empty() {
        return refused("option \"conda_channels\" needs \"conda\"");
    }
    for (index, field) in definition.initialization.iter().enumerate() {
        let mut before = definition.parameters.iter().chain(&definition.initialization[..index]);
        if before.any(|known| known.name == field.name) {
            let message = format!("parameter name \"{}\" used more than once", field.name);
            return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        if !initializes(&field.arrow_type.0) {
            let message = format!("a class cannot be initialized with type {}", print_type(&field.arrow_type.0));
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .detail("Initialization fields are numbers, texts, bools, and lists and structs of them."));
        }
    }
    Ok(())
}

/// Returns whether the statement waits for the version to be there.
///
/// # Errors
/// 22023.
pub(super) fn wait(options: &[SqlOption]) -> Result<bool> {
    let Some(option) = options.iter().find(|option| option.name == "wait") else { return Ok(true) };
    let text = option.value.as_str();
    option.value.as_bool().ok_or_else(|| bad_value("wait", text, "true or false").at(option.position.get()))
}

fn set(definition: &mut Definition, option: &SqlOption) -> Result<()> {
    let (name, text) = (option.name.as_str(), option.value.as_str());
    match name {
        "mode" => definition.mode = word::<CallMode>(name, text, "'scalar' or 'vectorized'")?,
        "result_stability" => {
            definition.result_stability =
                Some(word::<ResultStability>(name, text, "'input_and_context' or 'per_call'")?);
        }
        "side_effects" => {
            definition.side_effects =
                Some(word::<SideEffects>(name, text, "'none', 'idempotent' or 'non_idempotent'")?);
        }
        "pip" => definition.pip = packages(name, text, is_requirement)?,
        "conda" => definition.conda = packages(name, text, is_conda_requirement)?,
        "conda_channels" => definition.conda_channels = packages(name, text, is_channel)?,
        "initialization" => {
            let form = "a JSON array of {\"name\": …, \"arrow_type\": …, \"nullable\": …}";
            let fields: Vec<Field> = serde_json::from_str(text).map_err(|_| bad_value(name, text, form))?;
            definition.initialization = fields.into_iter().map(Field::parameter).collect::<Result<_>>()?;
        }
        "python_version" => {
            let known = text.split('.').count() == 2 && text.chars().all(|c| c == '.' || c.is_ascii_digit());
            if !known {
                return Err(bad_value(name, text, "a version such as '3.11'"));
            }
            definition.python_version = Some(text.to_owned());
        }
        "env" => {
            definition.env =
                serde_json::from_str(text).map_err(|_| bad_value(name, text, "a JSON object of names and texts"))?;
        }
        "network" => {
            definition.network = option.value.as_bool().ok_or_else(|| bad_value(name, text, "true or false"))?;
        }
        "gpu" => {
            definition.gpu = option.value.as_bool().ok_or_else(|| bad_value(name, text, "true or false"))?;
        }
        "gpu_class" => definition.gpu_class = Some(text.to_owned()),
        "models" => {
            definition.models = serde_json::from_str(text)
                .map_err(|_| bad_value(name, text, "a JSON array of {\"repo\": …, \"revision\": …}"))?;
            models::validate(&definition.models).map_err(|wrong| {
                let message = format!("invalid value for option \"models\": {wrong}");
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            })?;
        }
        // Is about the statement, or is looked up where the catalog is at hand.
        "wait" | "secrets" => {}
        other => {
            let message = format!("unrecognized option \"{other}\" of a Function");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
    }
    Ok(())
}

fn word<T: DeserializeOwned>(name: &str, text: &str, allowed: &str) -> Result<T> {
    serde_json::from_value(serde_json::Value::String(text.to_ascii_lowercase()))
        .map_err(|_| bad_value(name, text, allowed))
}

/// A parameter or an initialization field as documents write it.
#[derive(Debug, Deserialize)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) arrow_type: String,
    #[serde(default = "yes")]
    pub(super) nullable: bool,
}

fn yes() -> bool {
    true
}

impl Field {
    /// Reads its type.
    ///
    /// # Errors
    /// 22023.
    pub(super) fn parameter(self) -> Result<Parameter> {
        let arrow_type = ArrowType(arrow_type(&self.arrow_type)?);
        Ok(Parameter { name: self.name, arrow_type, nullable: self.nullable })
    }
}

/// Names apart by spaces or line ends, a comma behind one allowed. A path, a URL or an option of the tool would have the
/// gateway read or run what it must not.
fn packages(option: &str, text: &str, allowed: fn(&str) -> bool) -> Result<Vec<String>> {
    let packages: Vec<String> = text
        .split_whitespace()
        .map(|item| item.trim_end_matches(',').to_owned())
        .filter(|item| !item.is_empty())
        .collect();
    match packages.iter().find(|item| !allowed(item)) {
        Some(item) => Err(bad_value(option, item, "names of packages, with extras and versions, or of channels")),
        None => Ok(packages),
    }
}

/// Whether a text is a requirement by name.
pub(super) fn is_requirement(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && characters.all(|c| c.is_ascii_alphanumeric() || "._-[],<>=!~*+".contains(c))
}

/// As [`is_requirement`], a channel and `::` before it allowed.
pub(super) fn is_conda_requirement(text: &str) -> bool {
    match text.split_once("::") {
        Some((channel, package)) => is_channel(channel) && is_requirement(package),
        None => is_requirement(text),
    }
}

/// Whether a text names a channel.
pub(super) fn is_channel(text: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    text.split('/').all(part)
}

/// Returns a 22023.
pub(super) fn bad_value(name: &str, value: &str, allowed: &str) -> SqlError {
    let message = format!("invalid value for option \"{name}\": \"{value}\"");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).detail(format!("Option \"{name}\" takes {allowed}."))
}

/// Reads an Arrow type.
///
/// # Errors
/// 22023.
pub(super) fn arrow_type(text: &str) -> Result<DataType> {
    parse_type(text).map_err(|error| {
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, error.to_string())
            .hint("Types of Functions are Arrow types, for example int64, float64, utf8, bool, list<float32>.")
    })
}
