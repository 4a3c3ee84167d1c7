//! One statement: read, bound, authorized, and run apart from the call that asked
//! for it, so that its rows can be fetched by another one.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::scalar::ScalarValue;
use futures::{FutureExt as _, StreamExt as _};
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::exec::{Engine, Outcome, RowsTag};
use lancegate_engine::session::{CancelReason, StatementContext};
use lancegate_engine::sql::authorize::Authorized;
use lancegate_engine::sql::plan::Plan;
use lancegate_engine::sqlstate::SqlState;
use lancegate_sql::Statement;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tracing::Instrument as _;

use super::caller::Caller;

/// Texts above this length are parsed off the I/O threads.
const PARSED_HERE_BYTES_MAX: usize = 32 * 1024;
/// Batches that wait for their reader.
const BATCHES_MAX: usize = 2;
/// How long rows wait for a reader before their statement is dropped.
pub(super) const STALL_MAX: Duration = Duration::from_secs(10 * 60);

/// A statement as the client gave it.
#[derive(Clone)]
pub(super) struct Source {
    statement: Arc<Statement>,
    text: Arc<str>,
}

/// Texts may hold passwords and secrets, so they do not print.
impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("statement", &self.statement.kind()).finish_non_exhaustive()
    }
}

impl Source {
    /// Reads a text, which must be one statement that makes sense in a call.
    ///
    /// # Errors
    /// 42601; 0A000 for a statement whose effect would end with the call, and for
    /// COPY, whose data has no way here.
    pub(super) async fn parse(engine: &Engine, text: String) -> Result<Self> {
        let text: Arc<str> = text.into();
        let parsed = if text.len() <= PARSED_HERE_BYTES_MAX {
            lancegate_sql::parse(&text, engine.limits())?
        } else {
            let (text, engine) = (Arc::clone(&text), engine.clone());
            let runtime = engine.query_runtime();
            let parsing = runtime.spawn_blocking(move || lancegate_sql::parse(&text, engine.limits()));
            parsing.await.map_err(SqlError::internal)??
        };
        let [one] = <[_; 1]>::try_from(parsed).map_err(|parsed| {
            let what = if parsed.is_empty() { "there is no statement" } else { "there are several statements" };
            SqlError::new(SqlState::SYNTAX_ERROR, format!("{what}; a call takes one"))
        })?;
        ensure_supported(&one.statement)?;
        Ok(Self { statement: Arc::new(one.statement), text })
    }

    /// Returns about how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        // The tree of a statement is some times its text.
        self.text.len() * 4
    }
}

fn ensure_supported(statement: &Statement) -> Result<()> {
    let refused = |hint: &str| {
        let word = statement.kind().replace('_', " ").to_uppercase();
        Err(SqlError::not_supported(format!("{word} is not supported over Flight SQL")).hint(hint))
    };
    match statement {
        Statement::Set(_)
        | Statement::Reset(_)
        | Statement::Discard(_)
        | Statement::Begin(_)
        | Statement::Commit(_)
        | Statement::Rollback(_)
        | Statement::Savepoint(_)
        | Statement::Release(_)
        | Statement::RollbackTo(_)
        | Statement::SetTransaction(_)
        | Statement::Listen(_)
        | Statement::Unlisten(_) => refused("Each statement is a session of its own here."),
        Statement::Copy(_) => refused("Send rows with an ingest, read them with SELECT."),
        Statement::Prepare(_) | Statement::Execute(_) | Statement::Deallocate(_) => {
            refused("Use the prepared statements of the protocol.")
        }
        Statement::DeclareCursor(_) | Statement::Fetch(_) | Statement::Move(_) | Statement::CloseCursor(_) => {
            refused("Rows are streamed; no cursor is needed.")
        }
        _ => Ok(()),
    }
}

/// Returns the columns of a plan; none where it has no rows.
pub(super) fn columns(plan: &Plan) -> SchemaRef {
    plan.columns().cloned().unwrap_or_else(|| Arc::new(Schema::empty()))
}

impl Caller {
    /// Binds and authorizes a statement whose parameters have no values yet.
    ///
    /// # Errors
    /// What the statement answers at this stage.
    pub(super) async fn plan(&self, source: &Source, types: &[Option<DataType>]) -> Result<Authorized<Plan>> {
        self.authorized(self.engine.plan(&self.session, &source.statement, &source.text, types)).await
    }

    /// Binds and authorizes a statement with the values of its parameters. Where its
    /// text does not say what a parameter is, the value's own type counts.
    ///
    /// # Errors
    /// As [`Caller::plan`].
    pub(super) async fn plan_with(&self, source: &Source, values: &[ScalarValue]) -> Result<Authorized<Plan>> {
        let plan = self.plan(source, &[]).await?;
        let own = |(reported, value): (&FieldRef, &ScalarValue)| {
            let given = value.data_type();
            let says = !given.is_null() && !given.is_string();
            (*reported.data_type() == DataType::Utf8 && says).then_some(given)
        };
        let types: Vec<Option<DataType>> = plan.parameter_types().iter().zip(values).map(own).collect();
        match types.iter().any(Option::is_some) {
            true => self.plan(source, &types).await,
            false => Ok(plan),
        }
    }

    /// Runs a statement to its end and returns how many rows it is about.
    ///
    /// # Errors
    /// What the statement answers.
    pub(super) async fn update(&mut self, source: &Source, values: Vec<ScalarValue>) -> Result<i64> {
        let plan = self.plan_with(source, &values).await?;
        let ctx = self.ctx.clone();
        match self.execute(&plan, values).await? {
            Outcome::Done(tag) => Ok(tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or_default()),
            Outcome::Rows { mut stream, tag, .. } => {
                let mut count: i64 = 0;
                while let Some(batch) = next(&mut stream, &ctx).await? {
                    count = count.saturating_add_unsigned(batch.num_rows() as u64);
                }
                Ok(if matches!(tag, RowsTag::Counted(_)) { count } else { 0 })
            }
        }
    }
}

async fn next(stream: &mut SendableRecordBatchStream, ctx: &StatementContext) -> Result<Option<RecordBatch>> {
    let batch = tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => return Err(ctx.error()),
        batch = stream.next() => batch,
    };
    batch.transpose().map_err(SqlError::from)
}

/// How far a statement has come.
#[derive(Debug, Clone)]
pub(super) enum Stage {
    /// Its first row is not there yet.
    Running,
    /// Its rows can be read; it is over if it has none.
    Ready,
    /// It has failed.
    Failed(SqlError),
}

/// A statement under way. It ends when this is dropped with its rows.
#[derive(Debug)]
pub(super) struct Running {
    ctx: StatementContext,
    stage: watch::Receiver<Stage>,
    rows: Mutex<Option<Rows>>,
}

/// What the statement gives its reader.
#[derive(Debug)]
enum Item {
    Batch(RecordBatch),
    /// The last of all: without it the statement has come to grief.
    End,
}

/// The rows of a statement.
#[derive(Debug)]
pub(super) struct Rows {
    receiver: mpsc::Receiver<Result<Item>>,
    ctx: StatementContext,
}

impl Rows {
    /// Returns the next rows.
    ///
    /// # Errors
    /// What the statement answers.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self.receiver.recv().await {
            Some(Ok(Item::Batch(batch))) => Ok(Some(batch)),
            Some(Ok(Item::End)) => Ok(None),
            Some(Err(error)) => Err(error),
            None => Err(SqlError::internal("a statement has ended without a word")),
        }
    }

    /// Returns what tells why the statement was ended.
    pub(super) fn ctx(&self) -> &StatementContext {
        &self.ctx
    }
}

/// What is to be run.
pub(super) struct Start {
    pub(super) source: Source,
    pub(super) values: Vec<ScalarValue>,
    /// The columns that the client was told, if it was.
    pub(super) told: Option<SchemaRef>,
    /// A place among all statements.
    pub(super) place: OwnedSemaphorePermit,
}

impl Running {
    /// Starts a statement.
    pub(super) fn start(caller: Caller, start: Start) -> Self {
        let (sender, receiver) = mpsc::channel(BATCHES_MAX);
        let (stage, watched) = watch::channel(Stage::Running);
        let ctx = caller.ctx.clone();
        let runtime = caller.engine.query_runtime();
        let rows = Rows { receiver, ctx: ctx.clone() };
        let work = async move {
            let result = AssertUnwindSafe(run(caller, start, &sender, &stage)).catch_unwind().await;
            let result = result.unwrap_or_else(|_| Err(SqlError::internal("a statement panicked")));
            let last = match result {
                Ok(()) => {
                    stage.send_replace(Stage::Ready);
                    Ok(Item::End)
                }
                Err(error) => {
                    // Rows that were read before stay read; the reader is told by the stream.
                    stage.send_if_modified(|stage| {
                        let first = matches!(stage, Stage::Running);
                        if first {
                            *stage = Stage::Failed(error.clone());
                        }
                        first
                    });
                    Err(error)
                }
            };
            // Nobody reads the rows of a statement that is gone.
            let _ = tokio::time::timeout(STALL_MAX, sender.send(last)).await;
        };
        runtime.spawn(work.instrument(tracing::Span::current()));
        Self { ctx, stage: watched, rows: Mutex::new(Some(rows)) }
    }

    /// Waits until it is settled whether the statement has rows, at most for so long.
    pub(super) async fn settled(&self, patience: Duration) -> Stage {
        let mut stage = self.stage.clone();
        let settling = stage.wait_for(|stage| !matches!(stage, Stage::Running));
        match tokio::time::timeout(patience, settling).await {
            Ok(Ok(stage)) => stage.clone(),
            Ok(Err(_)) => Stage::Failed(SqlError::internal("a statement has ended without a word")),
            Err(_) => Stage::Running,
        }
    }

    /// Takes the rows, which can be read once.
    pub(super) fn take(&self) -> Option<Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns what tells why the statement was ended.
    pub(super) fn ctx(&self) -> &StatementContext {
        &self.ctx
    }

    /// Ends the statement. Returns whether it is over within some time.
    pub(super) async fn cancel(&self, patience: Duration) -> bool {
        self.ctx.cancel(CancelReason::User);
        drop(self.take());
        let mut stage = self.stage.clone();
        let over = async { while stage.changed().await.is_ok() {} };
        tokio::time::timeout(patience, over).await.is_ok()
    }
}

async fn run(
    mut caller: Caller,
    start: Start,
    sender: &mpsc::Sender<Result<Item>>,
    stage: &watch::Sender<Stage>,
) -> Result<()> {
    let Start { source, values, told, place: _place } = start;
    let ctx = caller.ctx.clone();
    let work = async {
        let plan = caller.plan_with(&source, &values).await?;
        let found = columns(&plan);
        if told.as_ref().is_some_and(|told| *told != found) {
            return Err(SqlError::not_supported("cached plan must not change result type")
                .detail("The columns have changed since they were told."));
        }
        Ok::<_, SqlError>((caller.execute(&plan, values).await?, found))
    };
    let (outcome, schema) = unless_gone(&ctx, sender, work).await?;
    let Outcome::Rows { mut stream, .. } = outcome else { return Ok(()) };
    loop {
        // The first row says that there are some; whoever polls is told then.
        let batch = unless_gone(&ctx, sender, next(&mut stream, &ctx)).await?;
        stage.send_if_modified(|stage| {
            let first = matches!(stage, Stage::Running);
            *stage = Stage::Ready;
            first
        });
        let Some(batch) = batch else { return Ok(()) };
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), batch.columns().to_vec(), &options)?;
        match tokio::time::timeout(STALL_MAX, sender.send(Ok(Item::Batch(batch)))).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => {
                ctx.cancel(CancelReason::ClientGone);
                return Err(ctx.error());
            }
        }
    }
}

/// Ends a step when nobody is there to read what comes of it.
async fn unless_gone<R>(
    ctx: &StatementContext,
    sender: &mpsc::Sender<Result<Item>>,
    step: impl Future<Output = Result<R>>,
) -> Result<R> {
    tokio::pin!(step);
    tokio::select! {
        biased;
        done = &mut step => done,
        () = sender.closed() => {
            ctx.cancel(CancelReason::ClientGone);
            step.await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_whose_effect_would_end_with_the_call_are_refused() {
        let limits = lancegate_sql::Limits::default();
        let told = |text: &str| ensure_supported(&lancegate_sql::parse(text, &limits).unwrap()[0].statement);
        for text in ["SET search_path = s", "BEGIN", "COMMIT", "DISCARD ALL", "LISTEN c", "COPY t TO STDOUT"] {
            let error = told(text).unwrap_err();
            assert_eq!(error.code.as_str(), "0A000", "{text}");
            assert!(error.hint.is_some(), "{text}");
        }
        for text in ["SELECT 1", "SHOW search_path", "SHOW JOBS", "INSERT INTO t VALUES (1)", "VACUUM"] {
            assert!(told(text).is_ok(), "{text}");
        }
    }
}
