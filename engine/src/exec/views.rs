//! Runs CREATE VIEW and DROP VIEW.

use chrono::Utc;
use lancegate_catalog::{ObjectChange, Table, TableChange, TableId, TableKind};

use crate::error::{Result, SqlError};
use crate::exec::{Engine, Outcome, tables};
use crate::session::{NoticeSeverity, Session};
use crate::sql::plan::{CreateViewPlan, DropViewPlan, RenameViewPlan};
use crate::sql::resolve::object_of;
use crate::sqlstate::SqlState;

/// Runs CREATE VIEW.
pub(super) async fn create(engine: &Engine, session: &mut Session, plan: &CreateViewPlan) -> Result<Outcome> {
    let done = || Ok(Outcome::Done("CREATE VIEW".to_owned()));
    if let Some(view) = &plan.replaces {
        let change = TableChange { definition: Some(plan.text.clone()), ..TableChange::default() };
        engine.change_names(session, vec![ObjectChange::AlterTable { id: view.id, change }]).await?;
        return done();
    }
    if plan.if_not_exists && session.names.table(engine.catalog(), &plan.name).await?.is_some() {
        let message = format!("relation \"{}\" already exists, skipping", plan.name.name);
        session.notify(NoticeSeverity::Notice, SqlError::new(SqlState::DUPLICATE_TABLE, message));
        return done();
    }
    let now = Utc::now();
    let view = Table {
        id: TableId::new(now),
        kind: TableKind::View,
        name: plan.name.clone(),
        location: String::new(),
        definition: Some(plan.text.clone()),
        comment: None,
        owner: session.principal.user.as_str().to_owned(),
        created_at: now,
    };
    let ownership = tables::ownership(&session.principal, object_of(&view));
    engine.change_names(session, vec![ObjectChange::CreateTable(view), ownership]).await?;
    done()
}

/// Runs ALTER VIEW … RENAME.
pub(super) async fn rename(engine: &Engine, session: &mut Session, plan: &RenameViewPlan) -> Result<Outcome> {
    if let (Some(view), Some(to)) = (&plan.view, &plan.to) {
        engine.change_names(session, vec![ObjectChange::RenameTable { id: view.id, to: to.clone() }]).await?;
    }
    Ok(Outcome::Done(plan.tag.to_owned()))
}

/// Runs DROP VIEW.
pub(super) async fn drop(engine: &Engine, session: &mut Session, plan: &DropViewPlan) -> Result<Outcome> {
    for name in &plan.missing {
        let message = format!("view \"{name}\" does not exist, skipping");
        session.notify(NoticeSeverity::Notice, SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
    }
    tables::drop_with(engine, session, &plan.views, &plan.cascaded).await?;
    Ok(Outcome::Done("DROP VIEW".to_owned()))
}
