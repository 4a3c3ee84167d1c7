//! CREATE, DROP and SHOW API KEYS.
//!
//! One's own keys are one's own business; those of others are the operator's.
//! A key that the caller may not touch is for him one that does not exist.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use lancegate_auth::{Object, Privilege, Requirement};
use lancegate_sql::Ident;
use lancegate_sql::ast::Statement;

use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::sqlstate::SqlState;

/// A bound statement about API keys.
#[derive(Debug, Clone)]
pub enum ApiKeyPlan {
    /// CREATE API KEY.
    Create {
        /// The key's name.
        name: Ident,
        /// Whose key it will be; the caller's without it.
        user: Option<Ident>,
        /// When it stops working, as written.
        valid_until: Option<String>,
        /// `name`, `key`.
        schema: SchemaRef,
    },
    /// DROP API KEY.
    Drop {
        /// The key's name.
        name: Ident,
        /// Whose it is; `None` if IF EXISTS passes over it.
        owned: Option<Owned>,
    },
    /// SHOW API KEYS.
    Show {
        /// Whether keys of other users are shown.
        all: bool,
        /// `name`, `user_name`, `created_at`, `valid_until`.
        schema: SchemaRef,
    },
}

/// Whose a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owned {
    /// The caller's.
    ByCaller,
    /// Another user's.
    ByOther,
}

impl ApiKeyPlan {
    /// Returns the columns of the answer, if it has rows.
    pub fn columns(&self) -> Option<&SchemaRef> {
        match self {
            Self::Create { schema, .. } | Self::Show { schema, .. } => Some(schema),
            Self::Drop { .. } => None,
        }
    }

    /// Returns what is needed: OPERATE for keys of others, nothing for one's own.
    pub fn requirements(&self) -> Vec<Requirement> {
        let of_others = match self {
            Self::Create { user, .. } => user.is_some(),
            Self::Drop { owned, .. } => *owned == Some(Owned::ByOther),
            Self::Show { all, .. } => *all,
        };
        if of_others { vec![Requirement::new(Privilege::Operate, Object::System)] } else { Vec::new() }
    }

    /// Returns the command word of a change.
    pub fn writes(&self) -> Option<&'static str> {
        match self {
            Self::Create { .. } => Some("CREATE API KEY"),
            Self::Drop { .. } => Some("DROP API KEY"),
            Self::Show { .. } => None,
        }
    }
}

impl Planner {
    /// Binds a statement about API keys.
    ///
    /// # Errors
    /// 42704 for a key that does not exist.
    pub(super) async fn plan_api_key(&self, statement: &Statement) -> Result<Plan> {
        let caller = &self.caller.principal.user;
        let plan = match statement {
            Statement::CreateApiKey(create) => ApiKeyPlan::Create {
                name: create.name.clone(),
                user: create.user.clone().filter(|user| user.as_str() != caller.as_str()),
                valid_until: create.valid_until.clone(),
                schema: created(),
            },
            Statement::DropApiKey(drop) => {
                let keys = self.engine.catalog().api_keys().await?;
                let found = keys.into_iter().find(|key| key.name == drop.name.as_str());
                let owned = match found {
                    Some(key) if key.user == *caller => Some(Owned::ByCaller),
                    Some(_) if self.operates().await? => Some(Owned::ByOther),
                    _ if drop.if_exists => None,
                    _ => {
                        let message = format!("API key \"{}\" does not exist", drop.name);
                        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
                    }
                };
                ApiKeyPlan::Drop { name: drop.name.clone(), owned }
            }
            _ => ApiKeyPlan::Show { all: self.operates().await?, schema: shown() },
        };
        Ok(Plan::ApiKey(Box::new(plan)))
    }

    async fn operates(&self) -> Result<bool> {
        self.engine.allows(&self.caller.principal, Privilege::Operate, Object::System).await
    }
}

fn created() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("name", DataType::Utf8, false), Field::new("key", DataType::Utf8, false)]))
}

fn shown() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC")));
    Arc::new(Schema::new(vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("user_name", DataType::Utf8, false),
        Field::new("created_at", time.clone(), false),
        Field::new("valid_until", time, true),
    ]))
}
