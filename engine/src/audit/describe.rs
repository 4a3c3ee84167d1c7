//! What a record calls a statement, and what an administrative one changes.

use lancegate_auth::Grant;
use lancegate_sql::ast::Statement;

use crate::exec::writes;
use crate::session::Session;
use crate::sql::plan::copy::CopyPlan;
use crate::sql::plan::grants::GrantPlan;
use crate::sql::plan::jobs::JobsAction;
use crate::sql::plan::{ApiKeyPlan, Plan};

/// Returns the command of a statement, for example `SELECT` or `GRANT`.
pub fn command(plan: &Plan) -> &'static str {
    if let Some(command) = writes(plan) {
        return command;
    }
    match plan {
        Plan::Query(_) => "SELECT",
        Plan::Explain(_) => "EXPLAIN",
        Plan::ExplainRefresh(_) => "EXPLAIN REFRESH",
        Plan::Search(_) => "SEARCH",
        Plan::Session(_) => "SESSION",
        Plan::Copy(copy) => match **copy {
            CopyPlan::To { .. } => "COPY TO",
            CopyPlan::From { .. } => "COPY FROM",
        },
        Plan::Jobs(jobs) => match jobs.action {
            JobsAction::Pause { .. } => "PAUSE JOB",
            JobsAction::Resume { .. } => "RESUME JOB",
            JobsAction::Cancel { .. } => "CANCEL JOB",
            JobsAction::Wait { .. } => "WAIT JOB",
            JobsAction::Explain { .. } => "EXPLAIN JOB",
            JobsAction::Describe { .. } => "DESCRIBE JOB",
            JobsAction::Errors { .. } => "SHOW ERRORS",
            JobsAction::GpuClasses => "SHOW GPU CLASSES",
            JobsAction::Show { .. }
            | JobsAction::Children { .. }
            | JobsAction::Events { .. }
            | JobsAction::Splits { .. } => "SHOW JOBS",
        },
        Plan::Grant(_) => "SHOW GRANTS",
        Plan::User(_) => "SHOW USERS",
        Plan::ApiKey(_) => "SHOW API KEYS",
        Plan::Secret(_) => "DESCRIBE SECRET",
        Plan::Function(_) => "DESCRIBE FUNCTION",
        Plan::Materialized(_) => "DESCRIBE MATERIALIZED VIEW",
        Plan::Index(_) => "SHOW INDEXES",
        Plan::Version(_) => "SHOW VERSIONS",
        Plan::Listing(_) => "SHOW",
        Plan::Vacuum(plan) => plan.tag(),
        // They all change something, so they have a command already.
        Plan::Insert(_)
        | Plan::Update(_)
        | Plan::Delete(_)
        | Plan::Merge(_)
        | Plan::RenameView(_)
        | Plan::Comment(_)
        | Plan::Ingest(_)
        | Plan::Truncate(_)
        | Plan::CreateTable(_)
        | Plan::CreateTableAs(_)
        | Plan::DropTable(_)
        | Plan::AlterTable(_)
        | Plan::CreateView(_)
        | Plan::DropView(_)
        | Plan::Database(_)
        | Plan::RefreshColumn(_) => "STATEMENT",
    }
}

/// Returns whether a statement changes data, metadata, users or jobs.
pub fn changes(plan: &Plan) -> bool {
    let is_control = |action: &JobsAction| {
        matches!(action, JobsAction::Pause { .. } | JobsAction::Resume { .. } | JobsAction::Cancel { .. })
    };
    writes(plan).is_some()
        || matches!(plan, Plan::Jobs(jobs) if is_control(&jobs.action))
        || matches!(plan, Plan::Vacuum(vacuum) if vacuum.statement.vacuum)
}

/// Returns what a change of users, privileges, keys or secrets is about, one entry
/// for each; `None` for every other statement.
pub fn administration(session: &Session, plan: &Plan) -> Option<Vec<String>> {
    match plan {
        Plan::Grant(grant) => match &**grant {
            GrantPlan::Grant { grants } => Some(grants.iter().map(|grant| granted(grant, "to")).collect()),
            GrantPlan::Revoke { grants, .. } => Some(grants.iter().map(|grant| granted(grant, "from")).collect()),
            GrantPlan::GrantRole { bindings } => Some(bound(bindings, "to")),
            GrantPlan::RevokeRole { bindings } => Some(bound(bindings, "from")),
            GrantPlan::ShowGrants { .. } | GrantPlan::ShowRoles { .. } => None,
        },
        Plan::User(user) => match &user.statement {
            Statement::CreateUser(create) => Some(vec![format!("user {}", create.name.as_str())]),
            Statement::AlterUser(alter) => Some(vec![format!("user {}", alter.name.as_str())]),
            Statement::DropUser(drop) => {
                Some(drop.names.iter().map(|name| format!("user {}", name.as_str())).collect())
            }
            _ => None,
        },
        Plan::ApiKey(key) => match &**key {
            ApiKeyPlan::Create { name, user, .. } => {
                let user = user.as_ref().map_or(session.principal.user.as_str(), |user| user.as_str());
                Some(vec![format!("key {} of user {user}", name.as_str())])
            }
            ApiKeyPlan::Drop { name, .. } => Some(vec![format!("key {}", name.as_str())]),
            ApiKeyPlan::Show { .. } => None,
        },
        Plan::Secret(secret) => secret.writes().map(|_| vec![secret.name.object().to_string()]),
        _ => None,
    }
}

fn granted(grant: &Grant, way: &str) -> String {
    format!("{} on {} {way} {}", grant.privilege.as_sql(), grant.object, grant.subject)
}

fn bound<R: std::fmt::Display, U: std::fmt::Display>(bindings: &[(R, U)], way: &str) -> Vec<String> {
    bindings.iter().map(|(role, user)| format!("role {role} {way} user {user}")).collect()
}
