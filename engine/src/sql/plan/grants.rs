//! GRANT, REVOKE, roles, SHOW GRANTS, SHOW ROLES.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lancegate_auth::{Grant, Object, Privilege, Requirement, RoleName, Subject, UserName};
use lancegate_catalog::TableKind;
use lancegate_sql::ast::{GrantTarget, Grantee, Identity, ShowGrants, Statement};
use lancegate_sql::{Ident, ObjectName};

use super::functions::{no_function, object_of as function_object};
use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::sql::resolve::{namespace_of, no_database, no_relation, no_schema, object_of};
use crate::sqlstate::SqlState;

/// A bound statement about privileges.
#[derive(Debug, Clone)]
pub enum GrantPlan {
    /// GRANT … ON …
    Grant {
        /// What is added.
        grants: Vec<Grant>,
    },
    /// REVOKE … ON …
    Revoke {
        /// What is taken away.
        grants: Vec<Grant>,
        /// Whether there is no such object, or not any more.
        missing: bool,
    },
    /// GRANT ROLE.
    GrantRole {
        /// Role and user.
        bindings: Vec<(RoleName, UserName)>,
    },
    /// REVOKE ROLE.
    RevokeRole {
        /// Role and user.
        bindings: Vec<(RoleName, UserName)>,
    },
    /// SHOW GRANTS.
    ShowGrants {
        /// Only those of this subject.
        subject: Option<Subject>,
        /// Only those on this object.
        object: Option<Object>,
        /// Whether the caller asks about himself.
        own: bool,
        /// `grantee_type`, `grantee`, `privilege`, `object_type`, `object`.
        schema: SchemaRef,
    },
    /// SHOW ROLES.
    ShowRoles {
        /// `role`, `user_name`.
        schema: SchemaRef,
    },
}

impl GrantPlan {
    /// Returns the columns of the answer, if it has rows.
    pub fn columns(&self) -> Option<&SchemaRef> {
        match self {
            Self::ShowGrants { schema, .. } | Self::ShowRoles { schema } => Some(schema),
            Self::Grant { .. } | Self::Revoke { .. } | Self::GrantRole { .. } | Self::RevokeRole { .. } => None,
        }
    }

    /// Returns what is needed: OWNERSHIP of the object, or of what it would be in if it
    /// is not there; OPERATE on the system, which has no owner, and for roles.
    pub fn requirements(&self) -> Vec<Requirement> {
        let operate = || vec![Requirement::new(Privilege::Operate, Object::System)];
        match self {
            Self::Revoke { grants, missing: true } => {
                let mut needed: Vec<Requirement> = grants.iter().map(authority_above).collect();
                needed.dedup();
                needed
            }
            Self::Grant { grants } | Self::Revoke { grants, missing: false } => {
                let mut needed: Vec<Requirement> = grants.iter().map(authority).collect();
                needed.dedup();
                needed
            }
            Self::GrantRole { .. } | Self::RevokeRole { .. } => operate(),
            Self::ShowGrants { object: Some(object), .. } => match object {
                Object::System => vec![Requirement::new(Privilege::Usage, Object::System)],
                object => vec![Requirement::new(Privilege::Ownership, object.clone())],
            },
            // Without an object the caller is shown what he may see.
            Self::ShowGrants { .. } => Vec::new(),
            Self::ShowRoles { .. } => vec![Requirement::new(Privilege::Usage, Object::System)],
        }
    }

    /// Returns the command word of a change.
    pub fn writes(&self) -> Option<&'static str> {
        match self {
            Self::Grant { .. } => Some("GRANT"),
            Self::Revoke { .. } => Some("REVOKE"),
            Self::GrantRole { .. } => Some("GRANT ROLE"),
            Self::RevokeRole { .. } => Some("REVOKE ROLE"),
            Self::ShowGrants { .. } | Self::ShowRoles { .. } => None,
        }
    }
}

fn authority(grant: &Grant) -> Requirement {
    match &grant.object {
        Object::System => Requirement::new(Privilege::Operate, Object::System),
        object => Requirement::new(Privilege::Ownership, object.clone()),
    }
}

fn authority_above(grant: &Grant) -> Requirement {
    match grant.object.parents().pop() {
        Some(above) => Requirement::new(Privilege::Ownership, above),
        None => Requirement::new(Privilege::Operate, Object::System),
    }
}

impl Planner {
    /// Binds a statement about privileges.
    ///
    /// # Errors
    /// 42704, 42P01, 3D000, 3F000 for what does not exist; 0LP01-like 42601 for
    /// a privilege that is not valid on the object.
    pub(super) async fn plan_grant(&self, statement: &Statement) -> Result<Plan> {
        let plan = match statement {
            Statement::Grant(grant) => {
                let object = self.grant_object(&grant.target, true).await?;
                let grants = grants(&grant.privileges, &object, &grant.grantees)?;
                let owners = grants.iter().filter(|grant| grant.privilege == Privilege::Ownership).count();
                if owners > 1 {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "OWNERSHIP is granted to one grantee only"));
                }
                GrantPlan::Grant { grants }
            }
            Statement::Revoke(revoke) => {
                let (object, missing) = match self.grant_object(&revoke.target, true).await {
                    Ok(object) => (object, false),
                    // What is wrong with it otherwise is wrong again.
                    Err(_) => (self.grant_object(&revoke.target, false).await?, true),
                };
                GrantPlan::Revoke { grants: grants(&revoke.privileges, &object, &revoke.grantees)?, missing }
            }
            Statement::GrantRole(grant) => GrantPlan::GrantRole { bindings: bindings(&grant.roles, &grant.grantees)? },
            Statement::RevokeRole(revoke) => {
                GrantPlan::RevokeRole { bindings: bindings(&revoke.roles, &revoke.grantees)? }
            }
            Statement::ShowGrants(show) => {
                let schema = grant_columns();
                let (subject, object) = match show {
                    ShowGrants::All => (None, None),
                    ShowGrants::For(grantee) => (Some(subject(grantee)?), None),
                    ShowGrants::On(target) => (None, Some(self.grant_object(target, true).await?)),
                };
                let own = subject.as_ref().is_some_and(|subject| self.caller.principal.answers_to(subject));
                GrantPlan::ShowGrants { subject, object, own, schema }
            }
            Statement::ShowRoles(_) => GrantPlan::ShowRoles { schema: text_columns(&["role", "user_name"]) },
            other => return Err(SqlError::internal(format!("{} is not about privileges", other.kind()))),
        };
        Ok(Plan::Grant(Box::new(plan)))
    }

    /// Returns the object that a GRANT names; a GRANT needs it to exist, a
    /// REVOKE does not.
    async fn grant_object(&self, target: &GrantTarget, must_exist: bool) -> Result<Object> {
        Ok(match target {
            GrantTarget::System => Object::System,
            GrantTarget::Database(name) => {
                if must_exist && self.engine.catalog().database(name.as_str()).await?.is_none() {
                    return Err(no_database(name.as_str()));
                }
                Object::Database(name.as_str().to_owned())
            }
            GrantTarget::Schema(name) => {
                let (database, path) = self.schema_path(name);
                if must_exist && !self.schema_exists(&database, &name.schema).await? {
                    return Err(no_schema(&name.schema));
                }
                Object::Namespace { database, path }
            }
            GrantTarget::Table(name) => self.relation(name, TableKind::Table, must_exist).await?,
            GrantTarget::View(name) => self.relation(name, TableKind::View, must_exist).await?,
            GrantTarget::MaterializedView(name) => self.relation(name, TableKind::MaterializedView, must_exist).await?,
            GrantTarget::Function(name) => {
                let found = self.find_function(name, None).await?;
                match found {
                    Some(function) => function_object(&function.name),
                    None if must_exist => return Err(no_function(name)),
                    None => {
                        let database = name.database.clone().unwrap_or_else(|| self.caller.database.clone());
                        let namespace = name.schema.as_deref().map(namespace_of).unwrap_or_default();
                        Object::Function { database, namespace, name: name.name.clone() }
                    }
                }
            }
            GrantTarget::Secret(name) => self.secret_object(name, must_exist).await?,
            GrantTarget::StorageIntegration(_) => {
                return Err(SqlError::not_supported(format!("privileges on {target} are not supported yet")));
            }
        })
    }

    async fn relation(&self, name: &ObjectName, kind: TableKind, must_exist: bool) -> Result<Object> {
        match self.find(name).await? {
            Some(record) if record.kind == kind => Ok(object_of(&record)),
            Some(_) => {
                let word = kind.as_str().replace('_', " ");
                let message = format!("\"{}\" is not a {word}", name.name);
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            None if must_exist => Err(no_relation(name)),
            None => {
                let database = name.database.clone().unwrap_or_else(|| self.caller.database.clone());
                let namespace = name.schema.as_deref().map(namespace_of).unwrap_or_default();
                let name = name.name.clone();
                Ok(match kind {
                    TableKind::View => Object::View { database, namespace, name },
                    TableKind::Table | TableKind::MaterializedView => Object::Table { database, namespace, name },
                })
            }
        }
    }
}

fn grants(privileges: &[Privilege], object: &Object, grantees: &[Grantee]) -> Result<Vec<Grant>> {
    let mut grants = Vec::new();
    for &privilege in privileges {
        if !privilege.valid_on(object.kind()) {
            let message = format!("invalid privilege type {} for {}", privilege.as_sql(), object.kind().as_str());
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        for grantee in grantees {
            grants.push(Grant { subject: subject(grantee)?, privilege, object: object.clone() });
        }
    }
    Ok(grants)
}

fn subject(grantee: &Grantee) -> Result<Subject> {
    Ok(match grantee {
        Grantee::Role(name) => Subject::Role(role(name)?),
        Grantee::User(identity) => Subject::User(user(identity)?),
        Grantee::Group(Identity::Name(name)) => Subject::Group(name.as_str().to_owned()),
        Grantee::Group(Identity::Id(_)) => return Err(no_identity_provider()),
    })
}

fn bindings(roles: &[Ident], grantees: &[Grantee]) -> Result<Vec<(RoleName, UserName)>> {
    let mut bindings = Vec::new();
    for name in roles {
        for grantee in grantees {
            let Grantee::User(identity) = grantee else {
                return Err(SqlError::not_supported("roles can be granted to users only"));
            };
            bindings.push((role(name)?, user(identity)?));
        }
    }
    Ok(bindings)
}

fn role(name: &Ident) -> Result<RoleName> {
    RoleName::parse(name.as_str()).map_err(|error| SqlError::new(SqlState::INVALID_NAME, error.to_string()))
}

fn user(identity: &Identity) -> Result<UserName> {
    match identity {
        Identity::Name(name) => {
            UserName::parse(name.as_str()).map_err(|error| SqlError::new(SqlState::INVALID_NAME, error.to_string()))
        }
        Identity::Id(_) => Err(no_identity_provider()),
    }
}

fn no_identity_provider() -> SqlError {
    SqlError::not_supported("grantees cannot be named by id").hint("Name the user.")
}

/// Returns the columns of SHOW GRANTS.
pub fn grant_columns() -> SchemaRef {
    text_columns(&["grantee_type", "grantee", "privilege", "object_type", "object"])
}

fn text_columns(names: &[&str]) -> SchemaRef {
    let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect();
    Arc::new(Schema::new(fields))
}
