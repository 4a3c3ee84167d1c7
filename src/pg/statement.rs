//! One statement on the query runtime: plan, authorize, execute, encode.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType, SchemaRef};
use bytes::BytesMut;
use datafusion::scalar::ScalarValue;
use lancegate_sql::Statement;
use lancegate_wire::{backend, types};
use tokio::sync::Mutex;

use crate::pg::drive::{Chunks, cancellable};
use crate::pg::portal::{RowSource, Sent, command_tag};
use crate::pg::reply;
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::exec::copy::CopyInputs;
use lancegate_engine::exec::{Engine, Outcome};
use lancegate_engine::session::{Session, StatementContext, TransactionStatus};
use lancegate_engine::sql::authorize::Authorized;
use lancegate_engine::sql::plan::Plan;
use lancegate_engine::sql::plan::copy::CopyPlan;
use lancegate_engine::sqlstate::SqlState;

/// What every step of a statement needs; owned, because the steps run as a task.
#[derive(Debug, Clone)]
pub(in crate::pg) struct Worker {
    pub(in crate::pg) engine: Engine,
    pub(in crate::pg) session: Arc<Mutex<Session>>,
    pub(in crate::pg) ctx: StatementContext,
    pub(in crate::pg) cancel_grace: Duration,
}

/// A plan that was authorized once, for [`Worker::renew`].
pub(in crate::pg) type Known = Arc<Authorized<Plan>>;

/// A statement as the client gave it.
#[derive(Clone)]
pub(in crate::pg) struct Source {
    pub(in crate::pg) statement: Arc<Statement>,
    /// The whole text that the client sent, to which positions refer.
    pub(in crate::pg) text: Arc<str>,
}

/// Texts may hold passwords and secrets, so they do not print.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("statement", &self.statement.kind()).finish_non_exhaustive()
    }
}

/// What started.
#[derive(Debug)]
pub(in crate::pg) enum Started {
    /// It is over; the command tag.
    Done(String),
    /// It has rows.
    Rows(Box<RowSource>),
}

/// A statement that ran to its end or to the row limit.
#[derive(Debug)]
pub(in crate::pg) struct Ran {
    /// Encoded messages that were not sent yet.
    pub(in crate::pg) out: BytesMut,
    pub(in crate::pg) rows: u64,
    pub(in crate::pg) end: RanTo,
}

#[derive(Debug)]
pub(in crate::pg) enum RanTo {
    /// The command tag, and how many rows later runs would count.
    End { tag: String, source: Option<Box<RowSource>> },
    /// The row limit.
    Limit(Box<RowSource>),
}

impl Worker {
    /// Plans and authorizes.
    pub(in crate::pg) async fn plan(&self, source: &Source, types: &[Option<DataType>]) -> Result<Authorized<Plan>> {
        self.plan_with(source, types, &[]).await
    }

    /// Plans and authorizes with the values of the parameters.
    pub(in crate::pg) async fn plan_with(
        &self,
        source: &Source,
        types: &[Option<DataType>],
        values: &[ScalarValue],
    ) -> Result<Authorized<Plan>> {
        let mut session = self.session.lock().await;
        session.settings.take_assigned();
        ensure_block_goes_on(&session, &source.statement)?;
        let planning = async {
            let plan = self.engine.plan_with(&session, (&source.statement, &source.text), types, values).await?;
            self.engine.authorize(&session, plan).await
        };
        cancellable(&self.ctx, Duration::ZERO, planning).await.map_err(|error| error.located(&source.text))
    }

    /// Returns `known`, a plan of the same statement, if it still holds for this
    /// session; otherwise plans again. Privileges are decided anew either way.
    pub(in crate::pg) async fn renew(
        &self,
        source: &Source,
        types: &[Option<DataType>],
        known: Option<Known>,
    ) -> Result<Known> {
        if let Some(plan) = known {
            let mut session = self.session.lock().await;
            session.settings.take_assigned();
            ensure_block_goes_on(&session, &source.statement)?;
            let renewing = self.engine.renew(&session, &plan);
            if cancellable(&self.ctx, Duration::ZERO, renewing).await? {
                return Ok(plan);
            }
        }
        Ok(Arc::new(self.plan(source, types).await?))
    }

    /// Executes a plan; rows come with the formats of Bind.
    pub(in crate::pg) async fn start(
        &self,
        statement: &Statement,
        plan: &Authorized<Plan>,
        (parameters, formats): (Vec<ScalarValue>, &[i16]),
    ) -> Result<Started> {
        let mut session = self.session.lock().await;
        // A block may have failed since the plan was made.
        ensure_block_goes_on(&session, statement)?;
        let execution = self.engine.execute(&mut session, plan, parameters, &self.ctx);
        let outcome = cancellable(&self.ctx, self.cancel_grace, execution).await?;
        match outcome {
            Outcome::Done(tag) => Ok(Started::Done(tag)),
            Outcome::Rows { schema, stream, tag } => {
                let settings = session.settings.format_settings();
                let source = match &**plan {
                    Plan::Copy(copy) => match &**copy {
                        CopyPlan::To { options, .. } => RowSource::copy(schema, stream, tag, (options, &settings))?,
                        CopyPlan::From { .. } => return Err(SqlError::internal("COPY FROM gave rows")),
                    },
                    _ => RowSource::new(schema, stream, tag, (formats, &settings))?,
                };
                Ok(Started::Rows(Box::new(source)))
            }
        }
    }

    /// Executes a plan once for each of `sets`, all together.
    pub(in crate::pg) async fn run_many(
        &self,
        statement: &Statement,
        plan: &Authorized<Plan>,
        sets: Vec<Vec<ScalarValue>>,
    ) -> Result<()> {
        let mut session = self.session.lock().await;
        ensure_block_goes_on(&session, statement)?;
        let execution = self.engine.execute_many(&mut session, plan, sets, &self.ctx);
        cancellable(&self.ctx, self.cancel_grace, execution).await
    }

    /// Executes COPY FROM with what the client sends; returns the command tag.
    pub(in crate::pg) async fn copy_from(&self, plan: &Authorized<Plan>, inputs: CopyInputs) -> Result<String> {
        let mut session = self.session.lock().await;
        let execution = self.engine.copy_from(&mut session, plan, inputs, &self.ctx);
        match cancellable(&self.ctx, self.cancel_grace, execution).await? {
            Outcome::Done(tag) => Ok(tag),
            Outcome::Rows { .. } => Err(SqlError::internal("COPY FROM gave rows")),
        }
    }

    /// Runs a statement of a simple query. Returns its plan, too, for the next time.
    pub(in crate::pg) async fn run_simple(
        self,
        source: Source,
        known: Option<Known>,
        chunks: Chunks,
    ) -> Result<(Ran, Known)> {
        let text = Arc::clone(&source.text);
        self.ran_simple(source, known, chunks).await.map_err(|error| error.located(&text))
    }

    async fn ran_simple(self, source: Source, known: Option<Known>, chunks: Chunks) -> Result<(Ran, Known)> {
        let plan = self.renew(&source, &[], known).await?;
        if !plan.parameter_types().is_empty() {
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1"));
        }
        let mut out = BytesMut::new();
        match self.start(&source.statement, &plan, (Vec::new(), &[])).await? {
            Started::Done(tag) => Ok((Ran { out, rows: 0, end: RanTo::End { tag, source: None } }, plan)),
            Started::Rows(rows) => {
                match rows.is_copy() {
                    true => rows.begin_copy(&mut out)?,
                    false => describe_rows(&mut out, rows.schema(), &[])?,
                }
                Ok((self.send(rows, None, (out, chunks)).await?, plan))
            }
        }
    }

    /// Sends rows up to a limit.
    pub(in crate::pg) async fn send(
        &self,
        mut source: Box<RowSource>,
        limit: Option<u64>,
        (mut out, chunks): (BytesMut, Chunks),
    ) -> Result<Ran> {
        let Sent { rows, ended } = source.send(limit, &self.ctx, (&mut out, &chunks)).await?;
        let end = match ended {
            true => RanTo::End { tag: command_tag(source.tag(), rows), source: Some(source) },
            false => RanTo::Limit(source),
        };
        Ok(Ran { out, rows, end })
    }
}

/// Appends RowDescription.
///
/// # Errors
/// 08P01 or 22023 if the formats do not fit the columns.
pub(in crate::pg) fn describe_rows(out: &mut BytesMut, schema: &SchemaRef, formats: &[i16]) -> Result<()> {
    let fields = types::fields(schema, formats).map_err(|error| reply::from_wire(&error))?;
    backend::row_description(out, &fields);
    Ok(())
}

/// Refuses what cannot run in a failed block.
///
/// # Errors
/// 25P02 for everything but the end of the block or of a part of it.
pub(in crate::pg) fn ensure_block_goes_on(session: &Session, statement: &Statement) -> Result<()> {
    let ends = matches!(statement, Statement::Commit(_) | Statement::Rollback(_) | Statement::RollbackTo(_));
    if session.transaction != TransactionStatus::Failed || ends {
        return Ok(());
    }
    Err(failed_block())
}

pub(in crate::pg) fn failed_block() -> SqlError {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    SqlError::new(SqlState::IN_FAILED_SQL_TRANSACTION, message)
}
