//! CREATE, ALTER and DROP FUNCTION, SHOW FUNCTIONS and DESCRIBE FUNCTION.
//!
//! A version never changes: CREATE FUNCTION of a name that is there and ALTER FUNCTION make another one.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lancegate_auth::{Object, Privilege, Requirement};
use lancegate_catalog::{FunctionVersion, TableName};
use lancegate_functions::Definition;
use lancegate_functions::definition::{Parameter, SecretRef};
use lancegate_functions::types::print_type;
use lancegate_sql::ast::{self, FunctionDefinition};
use lancegate_sql::{ObjectName, SqlOption};

use self::options::bad_value;
use super::query::registered::is_known;
use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::sql::resolve::{namespace_of, schema_of};
use crate::sqlstate::SqlState;

pub mod call;
mod options;
mod registration;

/// How a statement that makes a version answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreationAnswer {
    /// With its tag, when the version is there.
    Tag(&'static str),
    /// With the version as a document, when it is there.
    Document,
    /// At once, with the job that makes it.
    Job,
}

/// A bound statement about Functions.
#[derive(Debug, Clone)]
pub enum FunctionPlan {
    /// CREATE FUNCTION, and ALTER FUNCTION where it makes another version.
    Create {
        /// Its full name.
        name: TableName,
        /// What it is.
        definition: Box<Definition>,
        /// Whether it has no version yet.
        new: bool,
        /// How to answer.
        answer: CreationAnswer,
        /// The columns of the answer, if it has any.
        schema: Option<SchemaRef>,
    },
    /// ALTER FUNCTION … SET (disabled = …).
    Disable {
        /// The version.
        function: FunctionVersion,
        /// Whether it may not be used.
        disabled: bool,
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
            Self::Create { schema, .. } => schema.as_ref(),
            Self::Disable { .. } | Self::Drop { .. } => None,
        }
    }

    /// Returns what is needed; SHOW leaves out what the caller may not use.
    pub fn requirements(&self) -> Vec<Requirement> {
        match self {
            Self::Create { name, definition, new, .. } => {
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
            Self::Disable { function, .. } => {
                vec![Requirement::new(Privilege::Ownership, object_of(&function.name))]
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
            Self::Create { answer: CreationAnswer::Tag(tag), .. } => Some(tag),
            Self::Create { .. } => Some("CREATE FUNCTION"),
            Self::Disable { .. } => Some("ALTER FUNCTION"),
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
    /// 22023 for a type or an option that is not understood, 0A000 for what is not built, 42602.
    pub(super) async fn plan_create_function(&self, create: &ast::CreateFunction) -> Result<Plan> {
        let name = self.creation_name(&create.name).await?;
        ensure_function_name(&name.name)?;
        if is_known(self.engine.state(), &name.name) {
            // Unqualified, it would stand for the other in the expressions of everybody.
            let message = format!("function \"{}\" already exists", name.name);
            return Err(SqlError::new(SqlState::DUPLICATE_FUNCTION, message).detail("It is a built-in function."));
        }
        let wait = options::wait(&create.options)?;
        let (mut definition, answer) = match &create.definition {
            FunctionDefinition::Source(body) => {
                let definition = options::definition(&create.name.name, body, &create.options)?;
                (definition, CreationAnswer::Tag("CREATE FUNCTION"))
            }
            FunctionDefinition::Registration(document) => {
                let definition = registration::definition(document)?;
                self.ensure_secrets(&definition, &name.database).await?;
                (definition, CreationAnswer::Document)
            }
        };
        self.bind_secrets(&mut definition, &name.database, &create.options).await?;
        let answer = if wait { answer } else { CreationAnswer::Job };
        self.creation(name, definition, answer).await
    }

    /// Binds ALTER FUNCTION: the newest version with other options is another version.
    ///
    /// # Errors
    /// 42883, 22023.
    pub(super) async fn plan_alter_function(&self, alter: &ast::AlterFunction) -> Result<Plan> {
        let named = |name: &str| alter.options.iter().find(|option| option.name == name);
        if let Some(option) = named("disabled") {
            return self.plan_disable_function(alter, option).await;
        }
        let newest = self.find_function(&alter.name, None).await?.ok_or_else(|| no_function(&alter.name))?;
        let mut definition = definition_of(&newest)?;
        options::change(&mut definition, &alter.options)?;
        self.bind_secrets(&mut definition, &newest.name.database, &alter.options).await?;
        let answer = match options::wait(&alter.options)? {
            true => CreationAnswer::Tag("ALTER FUNCTION"),
            false => CreationAnswer::Job,
        };
        self.creation(newest.name, definition, answer).await
    }

    async fn plan_disable_function(&self, alter: &ast::AlterFunction, option: &SqlOption) -> Result<Plan> {
        let at = |error: SqlError, option: &SqlOption| error.at(option.position.get());
        if let Some(other) = alter.options.iter().find(|other| !matches!(other.name.as_str(), "disabled" | "version")) {
            let message = format!("option \"{}\" cannot stand beside \"disabled\"", other.name);
            return Err(at(SqlError::new(SqlState::SYNTAX_ERROR, message), other)
                .detail("A version is disabled as it is; other options make another version."));
        }
        let disabled = option.value.as_bool();
        let disabled =
            disabled.ok_or_else(|| at(bad_value("disabled", option.value.as_str(), "true or false"), option))?;
        let version = alter.options.iter().find(|option| option.name == "version");
        let version = version.map(|option| option.value.as_str());
        let function = self.find_function(&alter.name, version).await?.ok_or_else(|| no_function(&alter.name))?;
        Ok(Plan::Function(Box::new(FunctionPlan::Disable { function, disabled })))
    }

    async fn creation(&self, name: TableName, definition: Definition, answer: CreationAnswer) -> Result<Plan> {
        if let Some(class) = &definition.gpu_class {
            super::refresh::ensure_gpu_class(self.engine.gpu_classes(), class)?;
        }
        let new = self.engine.catalog().function(&name, None).await?.is_none();
        let columns = |names: &[&str]| {
            let fields = names.iter().map(|name| Field::new(*name, DataType::Utf8, false));
            Arc::new(Schema::new(fields.collect::<Vec<_>>()))
        };
        let schema = match answer {
            CreationAnswer::Tag(_) => None,
            CreationAnswer::Document => Some(columns(&["definition"])),
            CreationAnswer::Job => Some(columns(&["operation", "status", "job_id"])),
        };
        let definition = Box::new(definition);
        Ok(Plan::Function(Box::new(FunctionPlan::Create { name, definition, new, answer, schema })))
    }

    /// Checks that the secrets exist that a document names.
    ///
    /// # Errors
    /// 42704.
    async fn ensure_secrets(&self, definition: &Definition, database: &str) -> Result<()> {
        for secret in definition.secrets.values() {
            let schema = Some(schema_of(&secret.namespace));
            let name = ObjectName { database: Some(database.to_owned()), schema, name: secret.name.clone() };
            self.secret_object(&name, true).await?;
        }
        Ok(())
    }

    /// Sets the secrets of a definition, if an option names them.
    async fn bind_secrets(&self, definition: &mut Definition, database: &str, options: &[SqlOption]) -> Result<()> {
        if let Some(option) = options.iter().find(|option| option.name == "secrets") {
            let bound = self.bound_secrets(option, database, &definition.env).await;
            definition.secrets = bound.map_err(|error| error.at(option.position.get()))?;
        }
        Ok(())
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
    Full { schema: String, name: String },
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The SDK's rule for names of Functions, which is narrower than that for tables.
fn ensure_function_name(name: &str) -> Result<()> {
    if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(());
    }
    Err(SqlError::new(SqlState::INVALID_NAME, format!("invalid name \"{name}\""))
        .detail("Names of Functions consist of letters, digits and \"_\"."))
}

/// Returns the columns of SHOW FUNCTIONS.
pub fn text_columns() -> SchemaRef {
    Arc::new(Schema::new(COLUMNS.map(|name| Field::new(name, DataType::Utf8, false)).to_vec()))
}

/// Returns parameters as CREATE FUNCTION writes them.
pub fn signature(parameters: &[Parameter]) -> String {
    let shown = |p: &Parameter| {
        format!("{} {}{}", p.name, print_type(&p.arrow_type.0), if p.nullable { "" } else { " NOT NULL" })
    };
    parameters.iter().map(shown).collect::<Vec<_>>().join(", ")
}
