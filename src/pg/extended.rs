//! The extended protocol: Parse, Bind, Describe, Execute, Close.
//!
//! A statement is planned at Parse, to describe it. Names, privileges, settings
//! and table versions may have changed when it runs: its last plan is used again
//! only if it would be made from the same, and privileges are decided again each
//! time. An Execute of the same sequence, with nothing run before it, uses the
//! first plan as it is.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::{DataType, SchemaRef};
use bytes::{Bytes, BytesMut};
use datafusion::scalar::ScalarValue;
use lancegate_sql::ast::Statement;
use lancegate_wire::backend;
use lancegate_wire::frontend::Target;

use crate::pg::connection::Transport;
use crate::pg::parameters::{Parameter, declared_types, read_values, resolve};
use crate::pg::portal::{Portal, PortalState, RowSource, command_tag};
use crate::pg::session_loop::{Deadline, Failure, SessionLoop};
use crate::pg::statement::{
    Known, Ran, RanTo, Source, Started, Worker, describe_rows, ensure_block_goes_on, failed_block,
};
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::exec::Engine;
use lancegate_engine::session::TransactionStatus;
use lancegate_engine::sqlstate::SqlState;

/// A prepared statement.
pub(in crate::pg) struct Prepared {
    /// Absent for an empty text.
    pub(in crate::pg) source: Option<Source>,
    pub(in crate::pg) parameters: Vec<Parameter>,
    pub(in crate::pg) columns: Option<SchemaRef>,
    pub(in crate::pg) plan: LastPlan,
    /// The plan is fresh while the session's counter is the same.
    pub(in crate::pg) generation: u64,
}

/// The last plan of a prepared statement; absent for statements that this session
/// runs itself.
#[derive(Debug, Default)]
pub(in crate::pg) struct LastPlan(Mutex<Option<Known>>);

impl LastPlan {
    pub(in crate::pg) fn new(plan: Known) -> Self {
        Self(Mutex::new(Some(plan)))
    }

    pub(in crate::pg) fn get(&self) -> Option<Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, plan: &Known) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(plan));
    }
}

impl Prepared {
    /// Returns a plan that holds now, authorized now.
    ///
    /// # Errors
    /// What planning answers.
    pub(in crate::pg) async fn renewed(&self, worker: &Worker, source: &Source) -> Result<Known> {
        let types = self.types();
        let plan = worker.renew(source, &types, self.plan.get()).await?;
        self.plan.set(&plan);
        Ok(plan)
    }
}

impl Prepared {
    /// Returns the types of the parameters.
    fn types(&self) -> Vec<Option<DataType>> {
        self.parameters.iter().map(|parameter| Some(parameter.data_type.clone())).collect()
    }

    /// Returns `plan`, or one that is made with the values if it awaits them.
    ///
    /// # Errors
    /// What planning answers.
    pub(in crate::pg) async fn with_values(
        &self,
        worker: &Worker,
        (source, plan): (&Source, Known),
        values: &[ScalarValue],
    ) -> Result<Known> {
        if !plan.awaits_values() {
            return Ok(plan);
        }
        Ok(Arc::new(worker.plan_with(source, &self.types(), values).await?))
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

/// The fields of a Bind message.
pub(in crate::pg) struct Bind {
    pub(in crate::pg) portal: String,
    pub(in crate::pg) statement: String,
    pub(in crate::pg) parameter_formats: Vec<i16>,
    pub(in crate::pg) parameters: Vec<Option<Bytes>>,
    pub(in crate::pg) result_formats: Vec<i16>,
}

impl<T: Transport> SessionLoop<T> {
    /// Answers Parse.
    pub(in crate::pg) async fn parse(&mut self, name: String, sql: String, oids: Vec<u32>) -> Result<(), Failure> {
        let deadline = self.sequence_deadline().await;
        if name.is_empty() {
            self.statements.remove("");
        }
        self.ensure_statement_fits(&name)?;
        let text: Arc<str> = sql.into();
        let mut script = self.parse_sql(&text).await?;
        let statement = script.pop().map(|parsed| parsed.statement);
        if !script.is_empty() {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).into());
        }
        let source = statement.map(|statement| Source { statement: Arc::new(statement), text });
        if let Some(source) = &source {
            self.statement_begins(&source.statement);
        }
        let prepared = self.prepare(source, &oids, deadline).await?;
        self.statements.insert(name, Arc::new(prepared));
        backend::parse_complete(&mut self.connection.out);
        Ok(())
    }

    /// Refuses a name that is taken and one statement too many.
    pub(in crate::pg) fn ensure_statement_fits(&self, name: &str) -> Result<()> {
        if self.statements.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        if self.statements.len() >= self.shared.config.prepared_statements_max {
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "too many prepared statements")
                .hint("Close or DEALLOCATE those that are not used any more."));
        }
        Ok(())
    }

    /// Plans a statement to find its parameters and columns.
    pub(in crate::pg) async fn prepare(
        &mut self,
        source: Option<Source>,
        oids: &[u32],
        deadline: Option<Deadline>,
    ) -> Result<Prepared, Failure> {
        let generation = self.generation;
        let types = declared_types(oids)?;
        let Some(source) = source else {
            let plan = LastPlan::default();
            return Ok(Prepared { source, parameters: Vec::new(), columns: None, plan, generation });
        };
        if self.is_local(&source.statement) {
            ensure_block_goes_on(&*self.session().await, &source.statement)?;
            let columns = self.local_columns(&source.statement)?;
            let plan = LastPlan::default();
            return Ok(Prepared { source: Some(source), parameters: Vec::new(), columns, plan, generation });
        }
        let (ctx, worker) = self.worker();
        let planned = source.clone();
        let work = |_| async move { worker.plan(&planned, &types).await };
        let plan = self.drive_small(Engine::is_small(&source.statement), &ctx, deadline, work).await?;
        Ok(Prepared {
            source: Some(source),
            parameters: resolve(oids, plan.parameter_types()),
            columns: plan.columns().cloned(),
            plan: LastPlan::new(Arc::new(plan)),
            generation,
        })
    }

    /// Answers Bind.
    pub(in crate::pg) async fn bind(&mut self, bind: Bind) -> Result<(), Failure> {
        self.sequence_deadline().await;
        let prepared = self.prepared(&bind.statement)?;
        if let Some(source) = &prepared.source {
            self.statement_begins(&source.statement);
        }
        if bind.parameters.len() != prepared.parameters.len() {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                bind.parameters.len(),
                bind.statement,
                prepared.parameters.len(),
            );
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message).into());
        }
        let session = self.session().await;
        if let Some(source) = &prepared.source {
            ensure_block_goes_on(&session, &source.statement)?;
        }
        let settings = session.settings.format_settings();
        drop(session);
        let values = read_values(&prepared.parameters, &bind.parameter_formats, &bind.parameters, &settings)?;
        if let Some(columns) = &prepared.columns {
            lancegate_wire::types::fields(columns, &bind.result_formats).map_err(|error| Failure::from(&error))?;
        }
        if bind.portal.is_empty() {
            self.portals.remove("");
        }
        let portal =
            Portal { prepared, result_formats: bind.result_formats, state: PortalState::Bound(values), hold: false };
        self.insert_portal(bind.portal, portal)?;
        backend::bind_complete(&mut self.connection.out);
        Ok(())
    }

    /// Keeps a portal under a name that is free.
    pub(in crate::pg) fn insert_portal(&mut self, name: String, portal: Portal) -> Result<()> {
        self.ensure_portal_fits(&name)?;
        self.portals.insert(name, portal);
        Ok(())
    }

    /// Refuses a name that is taken and one portal too many.
    pub(in crate::pg) fn ensure_portal_fits(&self, name: &str) -> Result<()> {
        if self.portals.contains_key(name) {
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")));
        }
        if self.portals.len() >= self.shared.config.portals_max {
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "too many open portals"));
        }
        Ok(())
    }

    /// Answers Describe.
    pub(in crate::pg) async fn describe(&mut self, target: Target, name: &str) -> Result<(), Failure> {
        self.sequence_deadline().await;
        let (prepared, formats) = match target {
            Target::Statement => (self.prepared(name)?, Vec::new()),
            Target::Portal => {
                let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
                (Arc::clone(&portal.prepared), portal.result_formats.clone())
            }
        };
        if prepared.columns.is_some() && self.session().await.transaction == TransactionStatus::Failed {
            return Err(failed_block().into());
        }
        let out = &mut self.connection.out;
        if target == Target::Statement {
            let oids: Vec<u32> = prepared.parameters.iter().map(|parameter| parameter.oid).collect();
            backend::parameter_description(out, &oids);
        }
        match &prepared.columns {
            Some(columns) => describe_rows(out, columns, &formats)?,
            None => backend::no_data(out),
        }
        Ok(())
    }

    /// Answers Close, also of what does not exist.
    pub(in crate::pg) fn close(&mut self, target: Target, name: &str) {
        match target {
            Target::Statement => drop(self.statements.remove(name)),
            Target::Portal => drop(self.portals.remove(name)),
        }
        backend::close_complete(&mut self.connection.out);
    }

    /// Answers Execute.
    pub(in crate::pg) async fn execute(&mut self, name: &str, max_rows: i32) -> Result<(), Failure> {
        let deadline = self.sequence_deadline().await;
        let prepared = self.portals.get(name).map(|portal| Arc::clone(&portal.prepared));
        let prepared = prepared.ok_or_else(|| no_portal(name))?;
        if self.gathered.is_some() && !self.gathers(&prepared) {
            self.settle().await?;
        }
        let portal = self.portals.get_mut(name).ok_or_else(|| no_portal(name))?;
        let state = std::mem::replace(&mut portal.state, PortalState::Finished);
        let formats = portal.result_formats.clone();
        let Some(source) = &prepared.source else {
            portal.state = state;
            backend::empty_query_response(&mut self.connection.out);
            return Ok(());
        };
        self.statement_begins(&source.statement);
        if self.is_local(&source.statement) {
            return match state {
                PortalState::Bound(_) => {
                    self.run_local(source, deadline, Some(&formats)).await?;
                    self.statement_answered();
                    Ok(())
                }
                _ => Err(cannot_run(name).into()),
            };
        }
        ensure_block_goes_on(&*self.session().await, &source.statement)?;
        let limit = u64::try_from(max_rows).ok().filter(|limit| *limit > 0);
        let (ctx, worker) = self.worker();
        let ran = match state {
            PortalState::Bound(values) if self.gathers(&prepared) => {
                self.gather(prepared, values);
                return Ok(());
            }
            PortalState::Bound(values) => {
                let fresh = prepared.generation == self.generation;
                let run = Run { prepared: Arc::clone(&prepared), fresh, values, formats, limit };
                let small = Engine::is_small(&source.statement);
                self.drive_small(small, &ctx, deadline, |chunks| run.execute(worker, chunks)).await?
            }
            PortalState::Suspended(rows) => {
                let out = BytesMut::new();
                self.drive(&ctx, deadline, |chunks| async move { worker.send(rows, limit, (out, chunks)).await })
                    .await?
            }
            PortalState::Exhausted(tag) => {
                let end = RanTo::End { tag: command_tag(&tag, 0), source: None };
                self.set_state(name, PortalState::Exhausted(tag));
                Ran { out: BytesMut::new(), rows: 0, end }
            }
            PortalState::Finished => return Err(cannot_run(name).into()),
        };
        self.finish_execute(name, ran, &source.statement).await;
        self.statement_answered();
        Ok(())
    }

    /// Keeps what a run left of its portal, and tells the rest.
    async fn finish_execute(&mut self, name: &str, ran: Ran, statement: &Statement) {
        let Ran { out, rows, end } = ran;
        self.send_ran(out, rows);
        match end {
            RanTo::Limit(source) => {
                self.set_state(name, PortalState::Suspended(source));
                backend::portal_suspended(&mut self.connection.out);
            }
            RanTo::End { tag, source } => {
                if let Some(source) = source {
                    self.set_state(name, PortalState::Exhausted(source.tag().clone()));
                }
                backend::command_complete(&mut self.connection.out, &tag);
                self.after(statement).await;
                self.deadline = None;
            }
        }
    }

    pub(in crate::pg) fn set_state(&mut self, name: &str, state: PortalState) {
        if let Some(portal) = self.portals.get_mut(name) {
            portal.state = state;
        }
    }

    /// Returns a prepared statement.
    pub(in crate::pg) fn prepared(&self, name: &str) -> Result<Arc<Prepared>> {
        self.statements.get(name).map(Arc::clone).ok_or_else(|| no_statement(name))
    }

    /// Returns when the sequence under way has to be over; its first message
    /// starts the clock.
    async fn sequence_deadline(&mut self) -> Option<Deadline> {
        if self.deadline.is_none() {
            self.deadline = self.statement_deadline().await;
        }
        self.deadline
    }
}

/// One Execute of a portal that has not run.
struct Run {
    prepared: Arc<Prepared>,
    fresh: bool,
    values: Vec<ScalarValue>,
    formats: Vec<i16>,
    limit: Option<u64>,
}

impl Run {
    async fn execute(self, worker: Worker, chunks: crate::pg::drive::Chunks) -> Result<Ran> {
        let text = self.prepared.source.as_ref().map(|source| Arc::clone(&source.text));
        let ran = self.started(worker, chunks).await;
        ran.map_err(|error| error.located(text.as_deref().unwrap_or_default()))
    }

    async fn started(self, worker: Worker, chunks: crate::pg::drive::Chunks) -> Result<Ran> {
        let mut out = BytesMut::new();
        let source = self.prepared.source.as_ref().ok_or_else(|| SqlError::internal("portal without statement"))?;
        let plan = match self.prepared.plan.get() {
            Some(plan) if self.fresh => plan,
            _ => self.prepared.renewed(&worker, source).await?,
        };
        let plan = self.prepared.with_values(&worker, (source, plan), &self.values).await?;
        match worker.start(&source.statement, &plan, (self.values, &self.formats)).await? {
            Started::Done(tag) => Ok(Ran { out, rows: 0, end: RanTo::End { tag, source: None } }),
            // A row limit does not count for COPY, as for all statements without a result of rows.
            Started::Rows(rows) if rows.is_copy() => {
                rows.begin_copy(&mut out)?;
                worker.send(rows, None, (out, chunks)).await
            }
            Started::Rows(rows) => {
                ensure_described(&self.prepared, &rows)?;
                worker.send(rows, self.limit, (out, chunks)).await
            }
        }
    }
}

/// Refuses rows of another shape than the client was told.
fn ensure_described(prepared: &Prepared, rows: &RowSource) -> Result<()> {
    let told = prepared.columns.iter().flat_map(|schema| schema.fields());
    let same = prepared.columns.as_ref().is_some_and(|schema| schema.fields().len() == rows.schema().fields().len())
        && told.zip(rows.schema().fields()).all(|(told, field)| told.data_type() == field.data_type());
    if same {
        return Ok(());
    }
    Err(SqlError::not_supported("cached plan must not change result type"))
}

pub(in crate::pg) fn no_statement(name: &str) -> SqlError {
    let message = match name {
        "" => "unnamed prepared statement does not exist".to_owned(),
        name => format!("prepared statement \"{name}\" does not exist"),
    };
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}

fn cannot_run(name: &str) -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("portal \"{name}\" cannot be run"))
}
