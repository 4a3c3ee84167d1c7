//! The simple protocol: a text with any number of statements.
//!
//! Each statement is planned, authorized and executed before the next one is
//! looked at, so it sees what the one before did. The first error stops the
//! rest.

use std::sync::Arc;

use bytes::BytesMut;
use lancegate_sql::{Parsed, Statement};
use lancegate_wire::backend;
use tokio::time::Instant;

use crate::pg::connection::Transport;
use crate::pg::session_loop::{Deadline, Failure, SessionLoop};
use crate::pg::statement::{Known, RanTo, Source, Worker};
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::exec::Engine;
use lancegate_engine::session::StatementContext;

/// Texts above this length are parsed off the I/O threads.
const PARSED_HERE_BYTES_MAX: usize = 32 * 1024;

impl<T: Transport> SessionLoop<T> {
    /// Answers a Query message, ReadyForQuery included.
    pub(in crate::pg) async fn simple_query(&mut self, sql: String) -> Result<(), Failure> {
        self.statements.remove("");
        self.portals.remove("");
        match self.run_script(sql).await {
            Ok(()) => {}
            Err(Failure::Statement(error)) => self.fail_statement(&error).await,
            Err(end @ Failure::End(_)) => return Err(end),
        }
        self.ready().await;
        Ok(())
    }

    async fn run_script(&mut self, sql: String) -> Result<(), Failure> {
        if let Some((source, plan)) = self.recent.get(&sql) {
            let plan = self.run_simple(source.clone(), Some(plan)).await?;
            self.remember(source, plan);
            return Ok(());
        }
        let text: Arc<str> = sql.into();
        let script = self.parse_sql(&text).await?;
        if script.is_empty() {
            backend::empty_query_response(&mut self.connection.out);
        }
        let alone = script.len() == 1;
        for Parsed { statement, .. } in script {
            let source = Source { statement: Arc::new(statement), text: Arc::clone(&text) };
            let plan = self.run_simple(source.clone(), None).await?;
            if alone {
                self.remember(source, plan);
            }
            self.connection.make_room().await?;
        }
        Ok(())
    }

    /// Keeps the plan of a small query for the next time.
    fn remember(&mut self, source: Source, plan: Option<Known>) {
        if let Some(plan) = plan.filter(|plan| plan.is_one_row()) {
            self.recent.put(source, plan);
        }
    }

    /// Runs a statement. Returns its plan, unless this session ran it itself.
    async fn run_simple(&mut self, source: Source, known: Option<Known>) -> Result<Option<Known>, Failure> {
        self.statement_begins(&source.statement);
        let deadline = self.statement_deadline().await;
        let statement = Arc::clone(&source.statement);
        if self.is_local(&statement) {
            self.run_local(&source, deadline, None).await?;
            self.statement_answered();
            return Ok(None);
        }
        let (ctx, worker) = self.worker();
        let small = known.is_some() || Engine::is_small(&statement);
        let work = |chunks| worker.run_simple(source, known, chunks);
        let (ran, plan) = self.drive_small(small, &ctx, deadline, work).await?;
        self.send_ran(ran.out, ran.rows);
        if let RanTo::End { tag, .. } = ran.end {
            backend::command_complete(&mut self.connection.out, &tag);
        }
        self.after(&statement).await;
        self.statement_answered();
        Ok(Some(plan))
    }

    /// Splits and parses a text.
    pub(in crate::pg) async fn parse_sql(&self, text: &Arc<str>) -> Result<Vec<Parsed>> {
        if text.len() <= PARSED_HERE_BYTES_MAX {
            return Ok(lancegate_sql::parse(text, &self.shared.config.sql_limits)?);
        }
        let (text, shared) = (Arc::clone(text), Arc::clone(&self.shared));
        let parsing = move || lancegate_sql::parse(&text, &shared.config.sql_limits);
        let parsed = self.shared.config.query_runtime.spawn_blocking(parsing).await;
        Ok(parsed.map_err(SqlError::internal)??)
    }

    /// Appends what a run has left to send.
    pub(in crate::pg) fn send_ran(&mut self, out: BytesMut, rows: u64) {
        self.shared.metrics.rows_sent.inc_by(rows);
        self.connection.queue(out);
    }

    /// Follows in this session's portals and statements what a statement did.
    pub(in crate::pg) async fn after(&mut self, statement: &Statement) {
        match statement {
            Statement::Commit(_) | Statement::Rollback(_) => {
                self.portals.retain(|_, portal| portal.outlives_transaction());
            }
            Statement::Discard(lancegate_sql::ast::Discard::All) => {
                self.statements.clear();
                self.portals.clear();
            }
            _ => {}
        }
        self.generation += 1;
    }

    /// Returns a fresh context and who works under it.
    pub(in crate::pg) fn worker(&self) -> (StatementContext, Worker) {
        let ctx = StatementContext::new();
        let worker = Worker {
            engine: self.shared.engine.clone(),
            session: Arc::clone(&self.session),
            ctx: ctx.clone(),
            cancel_grace: self.shared.config.cancel_grace,
        };
        (ctx, worker)
    }

    /// Returns when a statement that begins now has to be over.
    pub(in crate::pg) async fn statement_deadline(&self) -> Option<Deadline> {
        let timeout = self.session().await.settings.statement_timeout()?;
        Some(Deadline { at: Instant::now() + timeout, timeout })
    }
}
