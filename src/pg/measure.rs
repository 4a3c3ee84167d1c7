//! What a session adds to the gateway's metrics.
//!
//! A statement is counted once, with its kind and its outcome: when its answer
//! is complete, when it fails, or when the session ends under it. A Parse,
//! Bind or Describe that fails counts as the statement that it was about.

use std::sync::Arc;
use std::time::Instant;

use lancegate_sql::Statement;
use lancegate_sql::ast::Execute;

use crate::pg::connection::Transport;
use crate::pg::session_loop::SessionLoop;
use lancegate_engine::error::SqlError;
use lancegate_engine::metrics::{Metrics, Outcome, StatementKind};
use lancegate_engine::sqlstate::SqlState;

/// A session that is open; counted as long as this lives.
#[derive(Debug)]
pub(in crate::pg) struct OpenSession(Arc<Metrics>);

impl OpenSession {
    pub(in crate::pg) fn new(metrics: Arc<Metrics>) -> Self {
        metrics.connections.inc();
        Self(metrics)
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.0.connections.dec();
    }
}

/// A statement that has begun and was not counted yet.
#[derive(Debug, Clone, Copy)]
pub(in crate::pg) struct UnderWay {
    kind: StatementKind,
    began_at: Instant,
}

impl UnderWay {
    /// Starts the clock of a text that was not parsed yet.
    pub(in crate::pg) fn unknown() -> Self {
        Self { kind: StatementKind::Unknown, began_at: Instant::now() }
    }
}

impl<T: Transport> SessionLoop<T> {
    /// Starts the clock of a statement.
    pub(in crate::pg) fn statement_begins(&mut self, statement: &Arc<Statement>) {
        self.entered.begins(statement);
        let kind = match statement.as_ref() {
            Statement::Execute(execute) => self.executed_kind(execute),
            other => kind(other),
        };
        self.under_way = Some(UnderWay { kind, began_at: Instant::now() });
    }

    /// Counts a statement that is answered.
    pub(in crate::pg) fn statement_answered(&mut self) {
        self.count_under_way(Outcome::Ok);
    }

    /// Counts statements that were answered together; each took its share of the time.
    pub(in crate::pg) fn statements_answered(&mut self, count: usize) {
        let Some(UnderWay { kind, began_at }) = self.under_way.take() else { return };
        let share = began_at.elapsed() / u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        for _ in 0..count {
            self.shared.metrics.statement(kind, Outcome::Ok, share);
        }
    }

    /// Counts a statement that failed, or that somebody ended.
    pub(in crate::pg) fn statement_failed(&mut self, error: &SqlError) {
        self.under_way.get_or_insert_with(UnderWay::unknown);
        self.count_under_way(match error.code {
            SqlState::QUERY_CANCELED | SqlState::ADMIN_SHUTDOWN => Outcome::Canceled,
            _ => Outcome::Error,
        });
    }

    /// Counts a statement that ends with the session, if one is under way.
    pub(in crate::pg) fn session_ended(&mut self) {
        self.count_under_way(Outcome::Canceled);
    }

    fn count_under_way(&mut self, outcome: Outcome) {
        if let Some(UnderWay { kind, began_at }) = self.under_way.take() {
            self.shared.metrics.statement(kind, outcome, began_at.elapsed());
        }
    }

    /// EXECUTE counts as what it executes.
    fn executed_kind(&self, execute: &Execute) -> StatementKind {
        let prepared = self.statements.get(execute.name.as_str());
        let source = prepared.and_then(|prepared| prepared.source.as_ref());
        source.map_or(StatementKind::Session, |source| kind(&source.statement))
    }
}

fn kind(statement: &Statement) -> StatementKind {
    match statement {
        Statement::Query(_)
        | Statement::DeclareCursor(_)
        | Statement::Fetch(_)
        | Statement::Move(_)
        | Statement::CloseCursor(_) => StatementKind::Query,
        Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Merge(_)
        | Statement::Truncate(_)
        | Statement::Copy(_) => StatementKind::Write,
        Statement::CreateTable(_)
        | Statement::CreateTableAs(_)
        | Statement::CloneTable(_)
        | Statement::DropTable(_)
        | Statement::AlterTable(_)
        | Statement::CreateView(_)
        | Statement::AlterView(_)
        | Statement::DropView(_)
        | Statement::CreateMaterializedView(_)
        | Statement::AlterMaterializedView(_)
        | Statement::DropMaterializedView(_)
        | Statement::CreateDatabase(_)
        | Statement::AttachDatabase(_)
        | Statement::DropDatabase(_)
        | Statement::CreateSchema(_)
        | Statement::AlterSchema(_)
        | Statement::DropSchema(_)
        | Statement::CreateStorageIntegration(_)
        | Statement::DropStorageIntegration(_)
        | Statement::Comment(_)
        | Statement::CreateFunction(_)
        | Statement::AlterFunction(_)
        | Statement::DropFunction(_)
        | Statement::CreateSecret(_)
        | Statement::AlterSecret(_)
        | Statement::DropSecret(_)
        | Statement::CreateIndex(_)
        | Statement::DropIndex(_)
        | Statement::Vacuum(_) => StatementKind::Definition,
        Statement::RefreshColumn(_) | Statement::RefreshMaterializedView(_) => StatementKind::Refresh,
        Statement::Explain(_) | Statement::ExplainRefresh(_) | Statement::ExplainJob(_) => StatementKind::Explain,
        Statement::ShowJobs(_)
        | Statement::ShowJobEvents(_)
        | Statement::ShowJobSplits(_)
        | Statement::DescribeJob(_)
        | Statement::ShowErrors(_)
        | Statement::ShowGpuClasses(_)
        | Statement::PauseJob(_)
        | Statement::ResumeJob(_)
        | Statement::CancelJob(_)
        | Statement::WaitJob(_) => StatementKind::Job,
        Statement::CreateUser(_)
        | Statement::AlterUser(_)
        | Statement::DropUser(_)
        | Statement::ShowUsers(_)
        | Statement::Grant(_)
        | Statement::Revoke(_)
        | Statement::GrantRole(_)
        | Statement::RevokeRole(_)
        | Statement::ShowGrants(_)
        | Statement::ShowRoles(_)
        | Statement::CreateApiKey(_)
        | Statement::DropApiKey(_)
        | Statement::ShowApiKeys(_) => StatementKind::Privilege,
        Statement::Begin(_)
        | Statement::Commit(_)
        | Statement::Rollback(_)
        | Statement::Savepoint(_)
        | Statement::Release(_)
        | Statement::RollbackTo(_)
        | Statement::SetTransaction(_) => StatementKind::Transaction,
        Statement::CatalogListing(_)
        | Statement::DescribeTable(_)
        | Statement::Describe(_)
        | Statement::Set(_)
        | Statement::Show(_)
        | Statement::Reset(_)
        | Statement::Discard(_)
        | Statement::Listen(_)
        | Statement::Unlisten(_)
        | Statement::Prepare(_)
        | Statement::Execute(_)
        | Statement::Deallocate(_) => StatementKind::Session,
    }
}
