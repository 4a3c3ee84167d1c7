//! CREATE, ALTER, DROP and DESCRIBE SECRET.
//!
//! A plan holds the value as the statement wrote it, in a type that does not
//! print. Whether a secret exists is told only to those who reach its schema.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use lancegate_auth::object::SECRET_BYTES_MAX;
use lancegate_auth::{Object, Privilege, Requirement};
use lancegate_catalog::SecretName;
use lancegate_sql::ObjectName;
use lancegate_sql::ast::{SecretValue, Statement};

use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::sql::resolve::{ensure_plain_name, namespace_of};
use crate::sqlstate::SqlState;

/// A bound statement about one secret.
#[derive(Debug, Clone)]
pub struct SecretPlan {
    /// The secret.
    pub name: SecretName,
    /// What is done.
    pub action: SecretAction,
    schema: SchemaRef,
    parameters: Vec<FieldRef>,
}

/// What is done with a secret.
#[derive(Debug, Clone)]
pub enum SecretAction {
    /// CREATE SECRET.
    Create {
        /// Whether an existing secret is no error.
        if_not_exists: bool,
        /// Its value.
        value: SecretValue,
    },
    /// ALTER SECRET.
    Alter {
        /// Whether IF EXISTS passes over it.
        passes: Passes,
        /// Its new value.
        value: SecretValue,
    },
    /// DROP SECRET.
    Drop {
        /// Whether IF EXISTS passes over it.
        passes: Passes,
    },
    /// DESCRIBE SECRET.
    Describe {
        /// A privilege of the caller that lets him see it.
        privilege: Privilege,
    },
}

/// What IF EXISTS makes of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    /// It was not written, so the secret exists.
    Never,
    /// It was written and the secret exists.
    NotNow,
    /// It was written and there is no such secret.
    Now,
}

impl SecretPlan {
    /// Returns the columns of the answer.
    pub fn columns(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the type of `$1`, if the value is a parameter.
    pub fn parameter_types(&self) -> &[FieldRef] {
        &self.parameters
    }

    /// Returns what is needed: CREATE SECRET on the schema, UPDATE to give a
    /// secret another value, OWNERSHIP to drop it, any privilege on it to
    /// describe it.
    pub fn requirements(&self) -> Vec<Requirement> {
        let on_secret = |privilege| Requirement::new(privilege, self.name.object());
        // With IF EXISTS both answers need the way to the schema, first of all.
        let way = || Requirement::new(Privilege::Usage, self.name.home());
        let if_exists = |passes: Passes, privilege| match passes {
            Passes::Never => vec![on_secret(privilege)],
            Passes::NotNow => vec![way(), on_secret(privilege)],
            Passes::Now => vec![way()],
        };
        match &self.action {
            SecretAction::Create { if_not_exists: _, value: _ } => {
                vec![Requirement::new(Privilege::CreateSecret, self.name.home())]
            }
            SecretAction::Alter { passes, value: _ } => if_exists(*passes, Privilege::Update),
            SecretAction::Drop { passes } => if_exists(*passes, Privilege::Ownership),
            SecretAction::Describe { privilege } => vec![on_secret(*privilege)],
        }
    }

    /// Returns the command word of a change.
    pub fn writes(&self) -> Option<&'static str> {
        match self.action {
            SecretAction::Create { .. } => Some("CREATE SECRET"),
            SecretAction::Alter { .. } => Some("ALTER SECRET"),
            SecretAction::Drop { .. } => Some("DROP SECRET"),
            SecretAction::Describe { .. } => None,
        }
    }
}

impl Planner {
    /// Binds CREATE, ALTER or DROP SECRET.
    ///
    /// # Errors
    /// 42704, 3D000, 3F000, 42602, 42622; 42P02 for a parameter other than `$1`.
    pub(super) async fn plan_secret(&self, statement: &Statement) -> Result<Plan> {
        let (name, action) = match statement {
            Statement::CreateSecret(create) => {
                ensure_secret_name(&create.name.name)?;
                let (database, namespace) = self.creation_schema(&create.name).await?;
                let name = SecretName { database, namespace, name: create.name.name.clone() };
                let value = create.value.clone();
                (name, SecretAction::Create { if_not_exists: create.if_not_exists, value })
            }
            Statement::AlterSecret(alter) => {
                let (name, passes) = self.existing_secret(&alter.name, alter.if_exists).await?;
                (name, SecretAction::Alter { passes, value: alter.value.clone() })
            }
            Statement::DropSecret(drop) => {
                let (name, passes) = self.existing_secret(&drop.name, drop.if_exists).await?;
                (name, SecretAction::Drop { passes })
            }
            other => return Err(SqlError::internal(format!("{} is not about secrets", other.kind()))),
        };
        let parameters = match &action {
            SecretAction::Create { value, .. } | SecretAction::Alter { value, .. } => self.secret_parameters(value)?,
            SecretAction::Drop { .. } | SecretAction::Describe { .. } => Vec::new(),
        };
        let fields = ["operation", "name", "status"].map(|name| Field::new(name, DataType::Utf8, false));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        Ok(Plan::Secret(Box::new(SecretPlan { name, action, schema, parameters })))
    }

    /// Binds DESCRIBE SECRET.
    ///
    /// # Errors
    /// 42704.
    pub(super) async fn plan_describe_secret(&self, name: &ObjectName) -> Result<Plan> {
        let (name, _) = self.existing_secret(name, false).await?;
        // Whoever may rotate it may see when that was done last.
        let rotates = self.engine.allows(&self.caller.principal, Privilege::Update, name.object()).await?;
        let privilege = if rotates { Privilege::Update } else { Privilege::Usage };
        let schema = Arc::new(Schema::new(vec![
            Field::new("name", DataType::Utf8, false),
            Field::new("created_at_millis", DataType::Int64, false),
            Field::new("updated_at_millis", DataType::Int64, false),
        ]));
        let action = SecretAction::Describe { privilege };
        Ok(Plan::Secret(Box::new(SecretPlan { name, action, schema, parameters: Vec::new() })))
    }

    /// Returns the object of a GRANT or REVOKE; a GRANT needs it to exist.
    ///
    /// # Errors
    /// 42704.
    pub(super) async fn secret_object(&self, name: &ObjectName, must_exist: bool) -> Result<Object> {
        Ok(self.existing_secret(name, !must_exist).await?.0.object())
    }

    /// Returns the types of the parameters. A value of another type than text is
    /// refused here: what cannot read it would quote it.
    fn secret_parameters(&self, value: &SecretValue) -> Result<Vec<FieldRef>> {
        match value {
            SecretValue::Text(_) => Ok(Vec::new()),
            SecretValue::Parameter(1) => match self.declared.first().cloned().flatten() {
                None | Some(DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => {
                    Ok(vec![Arc::new(Field::new("", DataType::Utf8, true))])
                }
                Some(_) => Err(no_text()),
            },
            SecretValue::Parameter(number) => {
                let message = format!("there is no parameter ${number}");
                Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, message).hint("The value is the only parameter, $1."))
            }
        }
    }

    /// Looks a secret up along the search path.
    async fn existing_secret(&self, name: &ObjectName, if_exists: bool) -> Result<(SecretName, Passes)> {
        let schemas = match &name.schema {
            Some(schema) => vec![schema.clone()],
            None => self.caller.creation_path(),
        };
        let mut first = None;
        for schema in schemas {
            let namespace = namespace_of(&schema);
            if namespace.iter().any(String::is_empty) {
                continue;
            }
            let database = name.database.clone().unwrap_or_else(|| self.caller.database.clone());
            let full = SecretName { database, namespace, name: name.name.clone() };
            if self.engine.catalog().secret(&full).await?.is_some() {
                return Ok((full, if if_exists { Passes::NotNow } else { Passes::Never }));
            }
            // Where it would be: in the first schema that there is.
            if first.is_none() && self.schema_exists(&full.database, &schema).await? {
                first = Some(full);
            }
        }
        match first {
            Some(full) if if_exists => Ok((full, Passes::Now)),
            _ => Err(no_secret(&name.name)),
        }
    }
}

/// Returns a 42704. It names the secret without its schema, so that it is the
/// same for a secret that the caller cannot reach.
pub(crate) fn no_secret(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("secret \"{name}\" does not exist"))
}

fn ensure_secret_name(name: &str) -> Result<()> {
    if name.len() > SECRET_BYTES_MAX {
        return Err(SqlError::new(SqlState::NAME_TOO_LONG, format!("identifier \"{name}\" is too long"))
            .detail(format!("The name of a secret has at most {SECRET_BYTES_MAX} bytes.")));
    }
    ensure_plain_name(name)
}

/// Returns a 42804.
pub(crate) fn no_text() -> SqlError {
    SqlError::new(SqlState::DATATYPE_MISMATCH, "the value of a secret must be of type text")
}
