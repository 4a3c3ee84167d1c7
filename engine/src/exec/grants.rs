//! Runs GRANT, REVOKE, role statements, SHOW GRANTS and SHOW ROLES.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use lancegate_auth::{Grant, Object, Principal, Privilege, Subject, UserName, decide};
use lancegate_catalog::{CatalogError, ObjectChange};

use crate::error::{Result, SqlError};
use crate::exec::{Engine, Outcome};
use crate::session::{NoticeSeverity, Session};
use crate::sql::authorize::Authorized;
use crate::sql::plan::grants::grant_columns;
use crate::sql::plan::{GrantPlan, Plan};
use crate::sqlstate::SqlState;

/// Runs one statement about privileges.
pub(super) async fn run(engine: &Engine, session: &mut Session, plan: &GrantPlan) -> Result<Outcome> {
    match plan {
        GrantPlan::Grant { grants } => {
            ensure_subjects(engine, grants.iter().map(|grant| &grant.subject)).await?;
            engine.change_names(session, grants.iter().cloned().map(ObjectChange::Grant).collect()).await?;
            Ok(Outcome::Done("GRANT".to_owned()))
        }
        GrantPlan::Revoke { grants, missing: _ } => {
            let held = session.names.grants(engine.catalog()).await?;
            for grant in grants {
                // PostgreSQL takes away what is not there without a word.
                if !held.contains(grant) {
                    continue;
                }
                match engine.change_names(session, vec![ObjectChange::Revoke(grant.clone())]).await {
                    Err(error) if error.code == SqlState::UNDEFINED_OBJECT => {}
                    done => done?,
                }
            }
            Ok(Outcome::Done("REVOKE".to_owned()))
        }
        GrantPlan::GrantRole { bindings } => {
            for (_, user) in bindings {
                ensure_user(engine, user).await?;
            }
            for (role, user) in bindings {
                engine.catalog().bind_role(role, user).await?;
            }
            Ok(Outcome::Done("GRANT ROLE".to_owned()))
        }
        GrantPlan::RevokeRole { bindings } => {
            for (role, user) in bindings {
                match engine.catalog().unbind_role(role, user).await {
                    Ok(()) => {}
                    Err(CatalogError::NotFound { .. }) => {
                        let message = format!("role \"{user}\" has not been granted role \"{role}\"");
                        session.notify(NoticeSeverity::Warning, SqlError::new(SqlState::WARNING, message));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(Outcome::Done("REVOKE ROLE".to_owned()))
        }
        GrantPlan::ShowGrants { subject, object, own, schema } => {
            let shown = shown(engine, &session.principal, subject.as_ref(), object.as_ref(), *own).await?;
            Ok(Outcome::batch(grant_rows(&shown, schema)?, "SHOW"))
        }
        GrantPlan::ShowRoles { schema } => {
            let bindings = engine.catalog().role_bindings().await?;
            let mut rows: Vec<(String, String)> =
                bindings.iter().map(|(user, role)| (role.to_string(), user.to_string())).collect();
            rows.sort();
            let (roles, users): (Vec<String>, Vec<String>) = rows.into_iter().unzip();
            let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(roles)), Arc::new(StringArray::from(users))];
            Ok(Outcome::batch(RecordBatch::try_new(Arc::clone(schema), columns)?, "SHOW"))
        }
    }
}

/// Ensures that there is whoever a privilege is granted to; a role comes into being by its name.
pub(super) async fn ensure_subjects<'a>(engine: &Engine, subjects: impl Iterator<Item = &'a Subject>) -> Result<()> {
    for subject in subjects {
        match subject {
            Subject::User(user) => ensure_user(engine, user).await?,
            Subject::Role(_) => {}
            // Nobody is a member of one, so it would be granted to nobody without a word.
            Subject::Group(group) => {
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("group \"{group}\" does not exist"))
                    .hint("There are no groups here. Grant it to a role, and the role to users."));
            }
        }
    }
    Ok(())
}

async fn ensure_user(engine: &Engine, user: &UserName) -> Result<()> {
    match engine.catalog().user(user).await? {
        Some(_) => Ok(()),
        None => Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{user}\" does not exist"))),
    }
}

/// Returns the grants that the caller may see: his own, those on what he owns,
/// and everything with USAGE on the system.
async fn shown(
    engine: &Engine,
    principal: &Principal,
    subject: Option<&Subject>,
    object: Option<&Object>,
    own: bool,
) -> Result<Vec<Grant>> {
    let grants = engine.catalog().grants().await?;
    let usage = lancegate_auth::Requirement::new(Privilege::Usage, Object::System);
    let all = own || object.is_some() || decide(principal, &grants, &usage).allowed();
    let visible = |grant: &Grant| {
        all || principal.answers_to(&grant.subject) || grants.holds(principal, Privilege::Ownership, &grant.object)
    };
    let wanted = |grant: &Grant| {
        subject.is_none_or(|subject| grant.subject == *subject) && object.is_none_or(|object| grant.object == *object)
    };
    Ok(grants.iter().filter(|grant| wanted(grant) && visible(grant)).collect())
}

impl Engine {
    /// Returns what SHOW GRANTS shows its caller.
    ///
    /// # Errors
    /// If the metadata store cannot be read.
    pub async fn grants_shown(&self, session: &Session, plan: &Authorized<Plan>) -> Result<Vec<Grant>> {
        match &**plan {
            Plan::Grant(grant) => match &**grant {
                GrantPlan::ShowGrants { subject, object, own, schema: _ } => {
                    shown(self, &session.principal, subject.as_ref(), object.as_ref(), *own).await
                }
                _ => Err(SqlError::internal("only SHOW GRANTS lists grants")),
            },
            _ => Err(SqlError::internal("only SHOW GRANTS lists grants")),
        }
    }
}

/// Returns what SHOW GRANTS and `system.public.grants` list.
///
/// # Errors
/// If the metadata store cannot be read.
pub(crate) async fn listed(engine: &Engine, principal: &Principal) -> Result<RecordBatch> {
    grant_rows(&shown(engine, principal, None, None, false).await?, &grant_columns())
}

fn grant_rows(grants: &[Grant], schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |value: &dyn Fn(&Grant) -> String| -> ArrayRef {
        Arc::new(StringArray::from(grants.iter().map(value).collect::<Vec<_>>()))
    };
    let columns = vec![
        column(&|grant| kind(&grant.subject).to_owned()),
        column(&|grant| name(&grant.subject)),
        column(&|grant| grant.privilege.as_sql().to_owned()),
        column(&|grant| grant.object.kind().as_str().to_owned()),
        column(&|grant| full_name(&grant.object)),
    ];
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

fn kind(subject: &Subject) -> &'static str {
    match subject {
        Subject::User(_) => "user",
        Subject::Role(_) => "role",
        Subject::Group(_) => "group",
    }
}

fn name(subject: &Subject) -> String {
    match subject {
        Subject::User(user) => user.to_string(),
        Subject::Role(role) => role.to_string(),
        Subject::Group(group) => group.clone(),
    }
}

fn full_name(object: &Object) -> String {
    let parents = object.parents();
    let mut parts: Vec<String> = parents.iter().map(|parent| parent.name().into_owned()).collect();
    parts.push(object.name().into_owned());
    parts.join(".")
}
