//! CREATE, ALTER and DROP USER, SHOW USERS.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use lancegate_auth::{Object, Privilege, Requirement};
use lancegate_sql::ast::{AlterUser, Statement};

use super::{Plan, Planner};
use crate::error::Result;

/// A bound statement about users.
#[derive(Debug, Clone)]
pub struct UserPlan {
    /// The statement.
    pub statement: Statement,
    /// The columns of SHOW USERS.
    pub schema: Option<SchemaRef>,
    /// Whether it only changes the caller's own password.
    pub own_password: bool,
}

impl UserPlan {
    /// Returns the columns of the answer, if it has rows.
    pub fn columns(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// Returns what is needed: users are the operator's business, one's own
    /// password is one's own.
    pub fn requirements(&self) -> Vec<Requirement> {
        let privilege = if self.schema.is_some() { Privilege::Usage } else { Privilege::Operate };
        if self.own_password { Vec::new() } else { vec![Requirement::new(privilege, Object::System)] }
    }

    /// Returns the command word of a change.
    pub fn writes(&self) -> Option<&'static str> {
        match self.statement {
            Statement::CreateUser(_) => Some("CREATE ROLE"),
            Statement::AlterUser(_) => Some("ALTER ROLE"),
            Statement::DropUser(_) => Some("DROP ROLE"),
            _ => None,
        }
    }
}

impl Planner {
    /// Binds a statement about users.
    ///
    /// # Errors
    /// None; names are looked up when it runs.
    pub(super) fn plan_user(&self, statement: &Statement) -> Result<Plan> {
        let schema = matches!(statement, Statement::ShowUsers(_)).then(columns);
        let own_password = matches!(statement, Statement::AlterUser(alter) if self.is_own_password(alter));
        Ok(Plan::User(Box::new(UserPlan { statement: statement.clone(), schema, own_password })))
    }

    fn is_own_password(&self, alter: &AlterUser) -> bool {
        alter.name.as_str() == self.caller.principal.user.as_str()
            && alter.options.valid_until.is_none()
            && alter.options.connection_limit.is_none()
    }
}

fn columns() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC")));
    Arc::new(Schema::new(vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("can_login", DataType::Boolean, false),
        Field::new("valid_until", time.clone(), true),
        Field::new("connection_limit", DataType::Int32, true),
        Field::new("created_at", time, false),
    ]))
}
