//! The privilege check. Its proof, [`Authorized`], is what executes.
//!
//! What a plan needs is listed here, for every kind of plan and without a
//! catch-all, and decided by `lancegate-auth` over the grants of this moment.
//! Queries need SELECT on everything that they were bound to, wherever in the
//! statement it stands.

use std::ops::Deref;

use lancegate_auth::{Decision, Grants, Missing, Object, Principal, Privilege, Requirement, UserName, decide};
use lancegate_catalog::{Table, TableName};

use crate::audit::{self, Checked, Decided};
use crate::error::{Result, SqlError};
use crate::exec::Engine;
use crate::session::{Session, temp};
use crate::sql::plan::copy::CopyPlan;
use crate::sql::plan::dml::Returning;
use crate::sql::plan::ingest::IngestPlan;
use crate::sql::plan::query::{QueryPlan, Read};
use crate::sql::plan::secrets::no_secret;
use crate::sql::plan::{DatabasePlan, MaterializedPlan, MergePlan, Plan};
use crate::sql::resolve::{BoundTable, object_of};
use crate::sqlstate::SqlState;

/// A value that the caller may act on. Only [`authorize`] makes one.
#[derive(Debug, Clone)]
pub struct Authorized<T>(T);

impl<T> Deref for Authorized<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// One thing that a plan needs.
#[derive(Debug, Clone)]
struct Need {
    requirement: Requirement,
    on_behalf_of: Option<UserName>,
}

/// Checks the privileges that `plan` needs.
///
/// # Errors
/// 42501; 42P01 where the caller may not know that a relation exists.
pub(crate) async fn authorize(engine: &Engine, session: &Session, plan: Plan) -> Result<Authorized<Plan>> {
    check(engine, session, &plan).await?;
    Ok(Authorized(plan))
}

/// Checks the privileges that a plan needs once more, before it is used again.
///
/// # Errors
/// As [`authorize`].
pub(crate) async fn again(engine: &Engine, session: &Session, plan: &Authorized<Plan>) -> Result<()> {
    check(engine, session, &plan.0).await
}

async fn check(engine: &Engine, session: &Session, plan: &Plan) -> Result<()> {
    let needs = needs(plan);
    let Some(audit) = engine.audit() else { return decide_all(engine, session, &needs).await.1 };
    let (held, decision) = decide_all(engine, session, &needs).await;
    if needs.is_empty() && audit::administration(session, plan).is_none() {
        return decision;
    }
    let denied = decision.as_ref().err();
    let looked_at = needs.iter().take(held + usize::from(denied.is_some())).enumerate();
    let checked: Vec<Checked<'_>> = looked_at
        .map(|(index, need)| Checked {
            requirement: &need.requirement,
            on_behalf_of: need.on_behalf_of.as_ref(),
            held: index < held,
        })
        .collect();
    audit.decided(&Decided { session, plan, checked: &checked, denied })?;
    decision
}

/// Decides needs in order; returns how many are held before one that is not.
async fn decide_all(engine: &Engine, session: &Session, needs: &[Need]) -> (usize, Result<()>) {
    if needs.is_empty() {
        return (0, Ok(()));
    }
    let grants = match session.names.grants(engine.catalog()).await {
        Ok(grants) => grants,
        Err(error) => return (0, Err(error.into())),
    };
    for (index, need) in needs.iter().enumerate() {
        let decision = match &need.on_behalf_of {
            None => ensure(&session.principal, &grants, &need.requirement),
            Some(owner) => match engine.principal(owner.clone()).await {
                Ok(owner) => ensure(&owner, &grants, &need.requirement),
                Err(error) => Err(error),
            },
        };
        if decision.is_err() {
            return (index, decision);
        }
    }
    (needs.len(), Ok(()))
}

/// Checks one requirement of a caller.
///
/// # Errors
/// As [`authorize`].
pub(crate) fn ensure(principal: &Principal, grants: &Grants, requirement: &Requirement) -> Result<()> {
    // Nobody but its session is ever bound to a temporary table.
    if let Object::Table { namespace: path, .. } | Object::Namespace { path, .. } = &requirement.object
        && temp::is_temporary(path)
    {
        return Ok(());
    }
    match decide(principal, grants, requirement) {
        Decision::Allowed => Ok(()),
        Decision::Denied(missing) => Err(denied(requirement, &missing)),
    }
}

fn denied(requirement: &Requirement, missing: &Missing) -> SqlError {
    let Requirement { privilege, object } = requirement;
    let relation = matches!(object, Object::Table { .. } | Object::View { .. } | Object::MaterializedView { .. });
    if missing.object != *object && relation && *privilege == Privilege::Select {
        // The way to it is closed: whether it exists must not show.
        let message = format!("relation \"{}\" does not exist", object.name());
        return SqlError::new(SqlState::UNDEFINED_TABLE, message);
    }
    if missing.object != *object && matches!(object, Object::Secret { .. }) {
        return no_secret(&object.name());
    }
    let kind = missing.object.kind().as_str();
    let name = missing.object.name();
    match missing.privilege {
        Privilege::Ownership => {
            SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("must be owner of {kind} {name}"))
        }
        Privilege::CreateDatabase => {
            SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, "permission denied to create database")
        }
        other if missing.object == Object::System => {
            SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, "permission denied for system")
                .detail(format!("It takes {} ON SYSTEM.", other.as_sql()))
        }
        other => {
            SqlError::permission_denied(kind, &name).detail(format!("It takes {} on {kind} {name}.", other.as_sql()))
        }
    }
}

/// Returns what the caller himself needs for a plan.
pub(crate) fn requirements(plan: &Plan) -> Vec<Requirement> {
    needs(plan).into_iter().filter(|need| need.on_behalf_of.is_none()).map(|need| need.requirement).collect()
}

fn needs(plan: &Plan) -> Vec<Need> {
    match plan {
        Plan::Query(query) => reads(&query.reads),
        Plan::Explain(explain) => needs(&explain.plan),
        Plan::Insert(insert) => {
            returned(with(own(Privilege::Insert, &insert.table), &insert.source), insert.returning.as_ref())
        }
        Plan::Update(update) => {
            returned(with(own(Privilege::Update, &update.table), &update.rows), update.returning.as_ref())
        }
        Plan::Delete(delete) => {
            let own = own(Privilege::Delete, &delete.table);
            let needs = match &delete.rows {
                Some((rows, _)) => with(own, rows),
                None => vec![own],
            };
            returned(needs, delete.returning.as_ref())
        }
        Plan::Merge(merge) => returned(of_merge(merge), merge.returning.as_ref()),
        Plan::Copy(copy) => match &**copy {
            CopyPlan::To { query, .. } => reads(&query.reads),
            CopyPlan::From { table, .. } => vec![own(Privilege::Insert, table)],
        },
        Plan::Ingest(ingest) => of_ingest(ingest),
        Plan::Truncate(truncate) => truncate.tables.iter().map(|table| own(Privilege::Ownership, table)).collect(),
        Plan::Vacuum(vacuum) => plain(vacuum.requirements()),
        Plan::CreateTable(create) => vec![create_in(Privilege::CreateTable, &create.name)],
        Plan::CreateTableAs(create) => with(create_in(Privilege::CreateTable, &create.name), &create.source),
        Plan::DropTable(drop) => drop.tables.iter().map(owned).collect(),
        Plan::AlterTable(alter) => {
            let used = plain(alter.functions.clone());
            alter.table.iter().map(|table| owned(&table.record)).chain(used).collect()
        }
        Plan::RenameView(rename) => rename.view.iter().map(owned).collect(),
        Plan::CreateView(create) => {
            let mut needs = with(create_in(Privilege::CreateView, &create.name), &create.query);
            needs.extend(create.replaces.iter().map(owned));
            needs
        }
        Plan::DropView(drop) => drop.views.iter().map(owned).collect(),
        Plan::Materialized(plan) => {
            let mut needs = plain(plan.requirements());
            if let MaterializedPlan::Create(create) = &**plan {
                needs.extend(reads(&create.query.reads));
            }
            needs
        }
        Plan::Database(database) => of_database(database),
        Plan::Comment(comment) => plain(comment.requirements()),
        Plan::Grant(grant) => plain(grant.requirements()),
        Plan::User(user) => plain(user.requirements()),
        Plan::ApiKey(key) => plain(key.requirements()),
        Plan::Secret(secret) => plain(secret.requirements()),
        Plan::Listing(listing) => plain(listing.requirements()),
        // SET, SHOW, BEGIN and their kin act on the caller's own session and need nothing.
        Plan::Session(session) => plain(session.requirements()),
        Plan::RefreshColumn(refresh) => plain(refresh.requirements()),
        Plan::ExplainRefresh(explain) => plain(explain.refresh.requirements()),
        Plan::Jobs(jobs) => plain(jobs.requirements.clone()),
        Plan::Function(function) => plain(function.requirements()),
        Plan::Search(search) => reads(search.reads()),
        Plan::Index(index) => plain(index.requirements()),
        Plan::Version(version) => plain(version.requirements()),
    }
}

fn of_merge(plan: &MergePlan) -> Vec<Need> {
    let MergePlan { table, rows, inserts, updates, deletes, .. } = plan;
    let mut needs = Vec::new();
    needs.extend(inserts.then(|| own(Privilege::Insert, table)));
    needs.extend(updates.then(|| own(Privilege::Update, table)));
    needs.extend(deletes.then(|| own(Privilege::Delete, table)));
    needs.extend(reads(&rows.reads));
    needs
}

fn of_ingest(plan: &IngestPlan) -> Vec<Need> {
    match plan {
        IngestPlan::New { name, schema: _ } => vec![create_in(Privilege::CreateTable, name)],
        // That it exists is told only to those who could have made it.
        IngestPlan::Kept(table) => vec![create_in(Privilege::CreateTable, &table.name)],
        IngestPlan::Append { table, .. } => vec![own(Privilege::Insert, table)],
        IngestPlan::Overwrite { table, schema: _ } => vec![owned(&table.record)],
        IngestPlan::Merge { table, merge, filling: _ } => {
            // Which rows match is told by what it answers.
            let mut needs = vec![own(Privilege::Select, table)];
            needs.extend(merge.insert_unmatched.then(|| own(Privilege::Insert, table)));
            needs.extend(merge.update_matched.then(|| own(Privilege::Update, table)));
            needs.extend(merge.delete_unmatched.then(|| own(Privilege::Delete, table)));
            needs
        }
    }
}

fn of_database(plan: &DatabasePlan) -> Vec<Need> {
    let namespace =
        |database: &String, path: &[String]| Object::Namespace { database: database.clone(), path: path.to_vec() };
    match plan {
        DatabasePlan::CreateDatabase { name: _, if_not_exists: _, schema: _ } => {
            plain(vec![Requirement::new(Privilege::CreateDatabase, Object::System)])
        }
        DatabasePlan::DropDatabase { name, cascade: _, missing } => match missing {
            true => Vec::new(),
            false => plain(vec![Requirement::new(Privilege::Ownership, Object::Database(name.clone()))]),
        },
        DatabasePlan::CreateSchema { database, parent, path: _, if_not_exists: _, properties: _ } => {
            let parent = match parent.as_slice() {
                [] => Object::Database(database.clone()),
                parent => namespace(database, parent),
            };
            plain(vec![Requirement::new(Privilege::CreateNamespace, parent)])
        }
        DatabasePlan::AlterSchema { database, path, properties: _ } => {
            plain(vec![Requirement::new(Privilege::Ownership, namespace(database, path))])
        }
        DatabasePlan::DropSchemas { schemas, contents: _ } => {
            let owned = |(database, path): &(String, Vec<String>)| {
                Requirement::new(Privilege::Ownership, namespace(database, path))
            };
            plain(schemas.iter().map(owned).collect())
        }
    }
}

fn own(privilege: Privilege, table: &BoundTable) -> Need {
    Need { requirement: Requirement::new(privilege, table.object()), on_behalf_of: None }
}

fn owned(record: &Table) -> Need {
    Need { requirement: Requirement::new(Privilege::Ownership, object_of(record)), on_behalf_of: None }
}

fn create_in(privilege: Privilege, name: &TableName) -> Need {
    let object = Object::Namespace { database: name.database.clone(), path: name.namespace.clone() };
    Need { requirement: Requirement::new(privilege, object), on_behalf_of: None }
}

/// Adds what a RETURNING list reads.
fn returned(mut needs: Vec<Need>, returning: Option<&Returning>) -> Vec<Need> {
    needs.extend(returning.into_iter().flat_map(|returning| reads(&returning.query().reads)));
    needs
}

fn with(first: Need, query: &QueryPlan) -> Vec<Need> {
    std::iter::once(first).chain(reads(&query.reads)).collect()
}

fn reads(reads: &[Read]) -> Vec<Need> {
    let need = |read: &Read| Need { requirement: read.requirement.clone(), on_behalf_of: read.on_behalf_of.clone() };
    reads.iter().map(need).collect()
}

fn plain(requirements: Vec<Requirement>) -> Vec<Need> {
    requirements.into_iter().map(|requirement| Need { requirement, on_behalf_of: None }).collect()
}
