//! CREATE FUNCTION, DROP FUNCTION, SHOW FUNCTIONS, DESCRIBE FUNCTION, and the binding of Functions to columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lancegate_auth::{Object, Privilege, Requirement};
use lancegate_catalog::{FunctionVersion, TableName};
use lancegate_functions::definition::{ArrowType, CallMode, Parameter, ResultStability, SecretRef, SideEffects};
use lancegate_functions::types::{parse_type, print_type};
use lancegate_functions::{Definition, models};
use lancegate_sql::ast::{self, FunctionBody, FunctionDefinition};
use lancegate_sql::{ObjectName, SqlOption};
use serde::de::DeserializeOwned;

use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::sql::resolve::namespace_of;
use crate::sqlstate::SqlState;

/// A bound statement about Functions.
#[derive(Debug, Clone)]
pub enum FunctionPlan {
    /// CREATE FUNCTION.
    Create {
        /// Its full name.
        name: TableName,
        /// What it is.
        definition: Box<Definition>,
        /// Whether it has no version yet.
        new: bool,
    },
    /// DROP FUNCTION of one version.
    Drop {
        /// The version; `None` if IF EXISTS passes over it.
        function: Option<FunctionVersion>,
        /// Whether it goes although columns use it.
        cascade: bool,
    },
    /// SHOW FUNCTIONS.
    Show {
        /// The database.
        database: String,
        /// The columns.
        schema: SchemaRef,
    },
    /// DESCRIBE FUNCTION.
    Describe {
        /// The newest version.
        function: FunctionVersion,
        /// The columns.
        schema: SchemaRef,
    },
}

/// The columns of SHOW FUNCTIONS and DESCRIBE FUNCTION.
pub const COLUMNS: [&str; 9] =
    ["namespace_path", "name", "version", "parameters", "returns", "mode", "owner", "created_at", "digest"];

impl FunctionPlan {
    /// Returns the columns of the answer.
    pub fn columns(&self) -> Option<&SchemaRef> {
        match self {
            Self::Show { schema, .. } | Self::Describe { schema, .. } => Some(schema),
            Self::Create { .. } | Self::Drop { .. } => None,
        }
    }

    /// Returns what is needed; SHOW leaves out what the caller may not use.
    pub fn requirements(&self) -> Vec<Requirement> {
        match self {
            Self::Create { name, definition, new } => {
                let schema = Object::Namespace { database: name.database.clone(), path: name.namespace.clone() };
                let own = match new {
                    true => Requirement::new(Privilege::CreateFunction, schema),
                    false => Requirement::new(Privilege::Ownership, object_of(name)),
                };
                let bind = |secret: &SecretRef| {
                    let SecretRef { namespace, name: secret } = secret.clone();
                    let object = Object::Secret { database: name.database.clone(), namespace, name: secret };
                    Requirement::new(Privilege::Usage, object)
                };
                std::iter::once(own).chain(definition.secrets.values().map(bind)).collect()
            }
            Self::Drop { function, .. } => {
                let owned =
                    |function: &FunctionVersion| Requirement::new(Privilege::Ownership, object_of(&function.name));
                function.iter().map(owned).collect()
            }
            Self::Show { .. } => Vec::new(),
            Self::Describe { function, .. } => vec![Requirement::new(Privilege::Usage, object_of(&function.name))],
        }
    }

    /// Returns the tag of a statement that writes.
    pub fn writes(&self) -> Option<&'static str> {
        match self {
            Self::Create { .. } => Some("CREATE FUNCTION"),
            Self::Drop { .. } => Some("DROP FUNCTION"),
            Self::Show { .. } | Self::Describe { .. } => None,
        }
    }
}

/// Returns what privileges on a Function are held on.
pub fn object_of(name: &TableName) -> Object {
    let TableName { database, namespace, name } = name.clone();
    Object::Function { database, namespace, name }
}

/// Returns what a version of a Function is.
///
/// # Errors
/// XX000 if the metadata store holds what this software does not understand.
pub fn definition_of(function: &FunctionVersion) -> Result<Definition> {
    serde_json::from_value(function.definition.clone()).map_err(SqlError::internal)
}

impl Planner {
    /// Binds CREATE FUNCTION.
    ///
    /// # Errors
    /// 22023 for a type or an option that is not understood, 0A000 for what is not built.
    pub(super) async fn plan_create_function(&self, create: &ast::CreateFunction) -> Result<Plan> {
        let FunctionDefinition::Source(body) = &create.definition else {
            return Err(SqlError::not_supported("CREATE FUNCTION … FROM is not supported yet")
                .hint("Write CREATE FUNCTION … LANGUAGE python AS '…'."));
        };
        let name = self.creation_name(&create.name).await?;
        let mut definition = Box::new(definition(&create.name.name, body, &create.options)?);
        if let Some(option) = create.options.iter().find(|option| option.name == "secrets") {
            let bound = self.bound_secrets(option, &name.database, &definition.env).await;
            definition.secrets = bound.map_err(|error| error.at(option.position.get()))?;
        }
        let new = self.engine.catalog().function(&name, None).await?.is_none();
        Ok(Plan::Function(Box::new(FunctionPlan::Create { name, definition, new })))
    }

    /// Returns the secrets that a Function is given, by environment variable.
    ///
    /// # Errors
    /// 22023 for what is no such option, 42704 for a secret that does not exist.
    async fn bound_secrets(
        &self,
        option: &SqlOption,
        database: &str,
        env: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, SecretRef>> {
        let text = option.value.as_str();
        let named: BTreeMap<String, SecretOption> = serde_json::from_str(text).map_err(|_| {
            let form = "a JSON object of variables and names of secrets, or {\"schema\": …, \"name\": …}";
            bad_value("secrets", text, form)
        })?;
        let mut bound = BTreeMap::new();
        for (variable, secret) in named {
            if !is_variable(&variable) || env.contains_key(&variable) {
                return Err(bad_value("secrets", &variable, "names of variables that \"env\" does not set"));
            }
            let (schema, name) = match secret {
                SecretOption::Name(name) => (None, name),
                SecretOption::Full { schema, name } => (Some(schema), name),
            };
            let name = ObjectName { database: Some(database.to_owned()), schema, name };
            let Object::Secret { namespace, name, .. } = self.secret_object(&name, true).await? else {
                return Err(SqlError::internal("a secret is an object of another kind"));
            };
            bound.insert(variable, SecretRef { namespace, name });
        }
        Ok(bound)
    }

    /// Binds DROP FUNCTION.
    ///
    /// # Errors
    /// 42883; 42601 without a version.
    pub(super) async fn plan_drop_function(&self, drop: &ast::DropFunction) -> Result<Plan> {
        let found = self.find_function(&drop.name, drop.version.as_deref()).await?;
        let function = match found {
            None if drop.if_exists => None,
            None => return Err(no_function(&drop.name)),
            Some(_) if drop.version.is_none() => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "DROP FUNCTION needs a version")
                    .hint("DROP FUNCTION <name> WITH (version = '1')."));
            }
            found => found,
        };
        Ok(Plan::Function(Box::new(FunctionPlan::Drop { function, cascade: drop.cascade })))
    }

    /// Binds SHOW FUNCTIONS.
    pub(super) fn plan_show_functions(&self) -> Plan {
        let database = self.caller.database.clone();
        Plan::Function(Box::new(FunctionPlan::Show { database, schema: text_columns() }))
    }

    /// Binds DESCRIBE FUNCTION.
    ///
    /// # Errors
    /// 42883.
    pub(super) async fn plan_describe_function(&self, name: &ObjectName) -> Result<Plan> {
        let function = self.find_function(name, None).await?.ok_or_else(|| no_function(name))?;
        Ok(Plan::Function(Box::new(FunctionPlan::Describe { function, schema: text_columns() })))
    }

    /// Returns a version of a Function, the newest unless one is named; `None` if there is none.
    ///
    /// # Errors
    /// 22023 for a version that is no number.
    pub async fn find_function(&self, name: &ObjectName, version: Option<&str>) -> Result<Option<FunctionVersion>> {
        let version = match version {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| bad_value("version", text, "a version number such as '1'"))?),
        };
        let database = name.database.clone().unwrap_or_else(|| self.caller.database.clone());
        let schemas = name.schema.clone().map_or_else(|| self.caller.creation_path(), |schema| vec![schema]);
        for schema in schemas {
            let full =
                TableName { database: database.clone(), namespace: namespace_of(&schema), name: name.name.clone() };
            if let Some(found) = self.engine.catalog().function(&full, version).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// Returns a 42883.
pub fn no_function(name: &ObjectName) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function \"{}\" does not exist", name.name))
}

/// A secret as the option names it.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum SecretOption {
    /// Along the search path.
    Name(String),
    /// In a schema.
    #[serde(deny_unknown_fields)]
    Full { schema: String, name: String },
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn text_columns() -> SchemaRef {
    Arc::new(Schema::new(COLUMNS.map(|name| Field::new(name, DataType::Utf8, false)).to_vec()))
}

fn definition(name: &str, body: &FunctionBody, options: &[SqlOption]) -> Result<Definition> {
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
    let mut definition = Definition {
        parameters,
        output: ArrowType(arrow_type(&body.returns)?),
        mode: CallMode::Scalar,
        source: body.source.clone(),
        entrypoint: name.to_owned(),
        result_stability: None,
        side_effects: None,
        pip: Vec::new(),
        python_version: None,
        env: BTreeMap::new(),
        secrets: BTreeMap::new(),
        models: Vec::new(),
        network: false,
    };
    for option in options {
        set(&mut definition, option).map_err(|error| error.at(option.position.get()))?;
    }
    Ok(definition)
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
        "pip" => definition.pip = packages(text)?,
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
        "models" => {
            definition.models = serde_json::from_str(text)
                .map_err(|_| bad_value(name, text, "a JSON array of {\"repo\": …, \"revision\": …}"))?;
            models::validate(&definition.models).map_err(|wrong| {
                SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("invalid value for option \"models\": {wrong}"),
                )
            })?;
        }
        "network" => {
            definition.network = option.value.as_bool().ok_or_else(|| bad_value(name, text, "true or false"))?;
        }
        // Looked up where the catalog is at hand.
        "secrets" => {}
        "wait" => {
            option.value.as_bool().ok_or_else(|| bad_value(name, text, "true or false"))?;
        }
        other => {
            return Err(SqlError::not_supported(format!("option \"{other}\" of CREATE FUNCTION is not supported yet")));
        }
    }
    Ok(())
}

fn word<T: DeserializeOwned>(name: &str, text: &str, allowed: &str) -> Result<T> {
    serde_json::from_value(serde_json::Value::String(text.to_ascii_lowercase()))
        .map_err(|_| bad_value(name, text, allowed))
}

/// Requirements apart by spaces or line ends, a comma behind one allowed. What begins with `-` would be an option.
fn packages(text: &str) -> Result<Vec<String>> {
    let packages: Vec<String> = text
        .split_whitespace()
        .map(|item| item.trim_end_matches(',').to_owned())
        .filter(|item| !item.is_empty())
        .collect();
    match packages.iter().find(|item| item.starts_with('-')) {
        Some(item) => Err(bad_value("pip", item, "names of packages, with versions")),
        None => Ok(packages),
    }
}

fn bad_value(name: &str, value: &str, allowed: &str) -> SqlError {
    let message = format!("invalid value for option \"{name}\": \"{value}\"");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).detail(format!("Option \"{name}\" takes {allowed}."))
}

fn arrow_type(text: &str) -> Result<DataType> {
    parse_type(text).map_err(|error| {
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, error.to_string())
            .hint("Types of Functions are Arrow types, for example int64, float64, utf8, bool, list<float32>.")
    })
}

/// Returns the parameters as CREATE FUNCTION writes them.
pub fn signature(definition: &Definition) -> String {
    let shown = |p: &Parameter| {
        format!("{} {}{}", p.name, print_type(&p.arrow_type.0), if p.nullable { "" } else { " NOT NULL" })
    };
    definition.parameters.iter().map(shown).collect::<Vec<_>>().join(", ")
}
