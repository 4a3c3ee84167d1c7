//! The single way in: `Statement` → [`Engine::plan`] → [`Engine::authorize`] → [`Engine::execute`].
//!
//! PostgreSQL wire, REST and the console all come through here. Nothing
//! executes, and nothing is described, without an [`Authorized`] proof, whose
//! only constructor is the privilege check.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::scalar::ScalarValue;
use futures::future::BoxFuture;
use lancegate_auth::Privilege;
use lancegate_catalog::{Catalog, Table};
use lancegate_sql::{Limits, Statement};

use crate::activity::Activity;
use crate::audit::{self, Administered, Audit};
use crate::config::GpuClass;
use crate::error::{Result, SqlError};
use crate::jobs::Jobs;
use crate::refresh::FunctionHost;
use crate::secrets::Secrets;
use crate::session::{Session, StatementContext, TransactionStatus};
use crate::sql::authorize::{self, Authorized};
use crate::sql::functions;
use crate::sql::plan::copy::CopyPlan;
use crate::sql::plan::indexes::IndexPlan;
use crate::sql::plan::query::one_row;
use crate::sql::plan::session::session_statements;
use crate::sql::plan::versions::VersionAnswer;
use crate::sql::plan::{Plan, Planner};
use crate::sqlstate::SqlState;
use crate::storage::Store;
use crate::system::pg_catalog::StaticTables;

pub(crate) mod adopt;
pub(crate) mod alter;
mod api_keys;
pub mod auto_refresh;
mod computed_fields;
pub mod copy;
pub(crate) mod databases;
pub(crate) mod dml;
pub(crate) mod explain;
mod filling;
pub(crate) mod grants;
pub(crate) mod indexes;
pub mod ingest;
pub(crate) mod jobs;
pub(crate) mod listing;
pub(crate) mod materialized;
pub(crate) mod merge;
pub(crate) mod names;
pub(crate) mod numbers;
pub(crate) mod places;
pub mod python;
pub(crate) mod query;
pub mod refresh;
mod returning;
pub(crate) mod rewrite_rows;
mod row_locks;
pub(crate) mod runtime;
pub(crate) mod search;
pub(crate) mod secrets;
pub(crate) mod session;
pub(crate) mod show;
pub(crate) mod tables;
mod temp;
mod together;
pub(crate) mod turns;
pub(crate) mod users;
mod vacuum;
pub(crate) mod versions;
pub(crate) mod views;

use self::runtime::QueryRuntime;

/// The name of the database at the data root and of the first user.
pub const DEFAULT_DATABASE: &str = "lancegate";

/// What a statement answers.
pub enum Outcome {
    /// Rows, streamed. The command tag is known once the stream has ended.
    Rows {
        /// The columns; equal to what [`Plan::columns`] described.
        schema: SchemaRef,
        /// The batches, in order; dropping it stops the work.
        stream: SendableRecordBatchStream,
        /// How the tag is made.
        tag: RowsTag,
    },
    /// No rows; the whole command tag, for example `INSERT 0 3`.
    Done(String),
}

/// How the command tag of a statement with rows is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowsTag {
    /// The word and the number of rows sent: `SELECT 5`.
    Counted(&'static str),
    /// The tag as it is: `REFRESH COLUMN`, `EXPLAIN`, `SHOW`.
    Fixed(String),
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows { schema, tag, .. } => {
                f.debug_struct("Rows").field("schema", schema).field("tag", tag).finish_non_exhaustive()
            }
            Self::Done(tag) => f.debug_tuple("Done").field(tag).finish(),
        }
    }
}

impl Outcome {
    /// Returns the rows of one batch under a fixed tag.
    pub fn batch(batch: RecordBatch, tag: impl Into<String>) -> Self {
        let schema = batch.schema();
        Self::rows(batch, schema, RowsTag::Fixed(tag.into()))
    }

    /// Returns the rows of one batch, described as `schema`.
    pub(crate) fn rows(batch: RecordBatch, schema: SchemaRef, tag: RowsTag) -> Self {
        let stream = futures::stream::once(async move { Ok(batch) });
        let stream = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), stream));
        Self::Rows { schema, stream, tag }
    }
}

/// Bounds on the work of queries.
#[derive(Debug, Clone)]
pub struct QueryConfig {
    /// Memory that all running queries share.
    pub memory_bytes: usize,
    /// Where they spill when it is used up.
    pub spill_directory: PathBuf,
    /// The most that they spill.
    pub spill_bytes_max: u64,
    /// Threads that run queries, and partitions of one query.
    pub threads: usize,
}

/// What an engine is built from.
#[derive(Debug)]
pub struct EngineParts {
    /// Names, users, grants, jobs.
    pub catalog: Catalog,
    /// The tables.
    pub store: Store,
    /// Bounds on queries.
    pub query: QueryConfig,
    /// Bounds on statement texts, for the texts of views.
    pub limits: Limits,
    /// The GPU classes of the deployment.
    pub gpu_classes: Vec<GpuClass>,
    /// The runner of jobs.
    pub jobs: Arc<Jobs>,
    /// Where Functions run.
    pub functions: FunctionHost,
    /// The secrets of users.
    pub secrets: Secrets,
    /// What takes records of decisions, if they are kept.
    pub audit: Option<Arc<dyn Audit>>,
}

/// Binds, authorizes and executes statements. Clones are one engine.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

pub(in crate::exec) struct Inner {
    parts: EngineParts,
    runtime: QueryRuntime,
    state: SessionState,
    static_tables: StaticTables,
    turns: turns::Turns,
    places: places::Places,
    unnamed: names::Unnamed,
    activity: Arc<Activity>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("catalog", &self.inner.parts.catalog).finish_non_exhaustive()
    }
}

impl Engine {
    /// Builds an engine and starts the threads that run queries.
    ///
    /// # Errors
    /// If the spill folder cannot be made or the threads cannot be started.
    pub fn new(parts: EngineParts) -> Result<Self> {
        let runtime = QueryRuntime::start(parts.query.threads)?;
        let state = functions::base_state(&parts.query)?;
        let static_tables = StaticTables::load()?;
        let inner = Arc::new(Inner {
            parts,
            runtime,
            state,
            static_tables,
            turns: turns::Turns::default(),
            places: places::Places::default(),
            unnamed: names::Unnamed::default(),
            activity: Arc::default(),
        });
        inner.parts.jobs.attach(Arc::new(materialized::refresh::Refresher(Arc::downgrade(&inner))));
        Ok(Self { inner })
    }

    /// Returns the metadata store.
    pub fn catalog(&self) -> &Catalog {
        &self.inner.parts.catalog
    }

    /// Returns a claim on the memory that all queries share, still of nothing.
    pub fn memory(&self, what: &str) -> MemoryReservation {
        MemoryConsumer::new(what).register(&self.inner.state.runtime_env().memory_pool)
    }

    /// Returns the folders that somebody has taken.
    pub(in crate::exec) fn places(&self) -> &places::Places {
        &self.inner.places
    }

    /// Returns the open sessions.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.inner.activity
    }

    /// Returns the tables.
    pub fn store(&self) -> &Store {
        &self.inner.parts.store
    }

    /// Returns where Functions run.
    pub fn functions(&self) -> &FunctionHost {
        &self.inner.parts.functions
    }

    /// Returns the runner of jobs.
    pub fn jobs(&self) -> &Arc<Jobs> {
        &self.inner.parts.jobs
    }

    /// Returns the secrets of users.
    pub fn secrets(&self) -> &Secrets {
        &self.inner.parts.secrets
    }

    /// Returns the GPU classes of the deployment.
    pub fn gpu_classes(&self) -> &[GpuClass] {
        &self.inner.parts.gpu_classes
    }

    /// Returns what takes records of decisions, if they are kept.
    pub(crate) fn audit(&self) -> Option<&dyn Audit> {
        self.inner.parts.audit.as_deref()
    }

    /// Returns the bounds on statement texts.
    pub fn limits(&self) -> &Limits {
        &self.inner.parts.limits
    }

    /// Returns the planner state that every statement starts from: functions,
    /// type names, memory pool and options, but no tables.
    pub fn state(&self) -> &SessionState {
        &self.inner.state
    }

    /// Returns what runs statements apart from sockets and jobs.
    pub fn query_runtime(&self) -> tokio::runtime::Handle {
        self.inner.runtime.handle()
    }

    /// Returns the threads that queries run on.
    pub(crate) fn runtime(&self) -> &QueryRuntime {
        &self.inner.runtime
    }

    /// Returns the memory that all running queries share, in bytes.
    pub(crate) fn query_memory(&self) -> usize {
        self.inner.parts.query.memory_bytes
    }

    /// Returns the relations of `pg_catalog` that never change.
    pub(crate) fn static_tables(&self) -> &StaticTables {
        &self.inner.static_tables
    }

    /// Binds names to objects, expressions to types and parameters to numbers,
    /// each table at its newest version.
    ///
    /// # Errors
    /// What PostgreSQL answers at this stage: 42P01, 42703, 42883, 42804, ….
    pub async fn plan(
        &self,
        session: &Session,
        statement: &Statement,
        text: &str,
        parameter_types: &[Option<DataType>],
    ) -> Result<Plan> {
        self.plan_with(session, (statement, text), parameter_types, &[]).await
    }

    /// Binds as [`Self::plan`] does, with the values of the parameters, for a plan that
    /// [awaits](Plan::awaits_values) them.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub async fn plan_with(
        &self,
        session: &Session,
        (statement, text): (&Statement, &str),
        parameter_types: &[Option<DataType>],
        values: &[ScalarValue],
    ) -> Result<Plan> {
        let planner =
            Planner { values: Arc::from(values), ..Planner::new(self.clone(), session, text, parameter_types) };
        if Self::is_small(statement) {
            return Box::pin(planner.plan(statement)).await;
        }
        let statement = statement.clone();
        // Binding recurses with the depth of the statement; the query threads
        // have the stack for it.
        self.runtime().run(async move { Box::pin(planner.plan(&statement)).await }).await
    }

    /// Returns whether a statement is over at once: it may be planned, and most
    /// often executed, by a thread that has other things to do.
    pub fn is_small(statement: &Statement) -> bool {
        match statement {
            Statement::Query(query) => one_row::is_small(query),
            session_statements!() => true,
            _ => false,
        }
    }

    /// Returns whether a plan that was authorized before still is what planning
    /// the statement again would give, and checks the caller's privileges again.
    /// Only a plan of this session may be asked about.
    ///
    /// # Errors
    /// As [`Engine::authorize`], or if the metadata store or the storage fails.
    pub async fn renew(&self, session: &Session, plan: &Authorized<Plan>) -> Result<bool> {
        let Plan::Query(query) = &**plan else { return Ok(false) };
        let Some(basis) = &query.basis else { return Ok(false) };
        if !Planner::new(self.clone(), session, "", &[]).stands_on(basis).await? {
            return Ok(false);
        }
        authorize::again(self, session, plan).await?;
        Ok(true)
    }

    /// Checks the privileges of the caller.
    ///
    /// # Errors
    /// 42501, or what an unknown object answers where the caller may not know
    /// that the object exists.
    pub async fn authorize(&self, session: &Session, plan: Plan) -> Result<Authorized<Plan>> {
        Box::pin(authorize::authorize(self, session, plan)).await
    }

    /// Executes a plan. `parameters` are the values of `$1`, `$2`, … in order.
    /// Transaction control and SET change `session`.
    ///
    /// # Errors
    /// 25P02 in a failed block, 25006 for a write in a read-only one, and what
    /// the statement itself raises.
    pub async fn execute(
        &self,
        session: &mut Session,
        plan: &Authorized<Plan>,
        parameters: Vec<ScalarValue>,
        ctx: &StatementContext,
    ) -> Result<Outcome> {
        let Some(audit) = self.audit() else { return self.run(session, plan, parameters, ctx).await };
        let Some(changes) = audit::administration(session, plan) else {
            return self.run(session, plan, parameters, ctx).await;
        };
        let command = audit::command(plan);
        let outcome = self.run(session, plan, parameters, ctx).await;
        audit.administered(&Administered { session, command, changes: &changes, error: outcome.as_ref().err() });
        outcome
    }

    async fn run(
        &self,
        session: &mut Session,
        plan: &Authorized<Plan>,
        parameters: Vec<ScalarValue>,
        ctx: &StatementContext,
    ) -> Result<Outcome> {
        ensure_runnable(session, plan)?;
        let _writing = row_locks::writing(self, session, plan, ctx).await?;
        let in_block = session.transaction == TransactionStatus::InBlock;
        let needs = if in_block { session.names.stored(authorize::requirements(plan)) } else { Vec::new() };
        let before = session.names.mark();
        match self.dispatch(session, plan, parameters, ctx).await {
            Err(error) => Err(self.failed_on(&written(plan), error).await),
            done => {
                // COMMIT asks for it again.
                if in_block && session.names.mark() != before {
                    session.names.require(needs);
                }
                done
            }
        }
    }

    /// Returns whether a plan may be [executed for many](Self::execute_many) sets of parameters at once.
    pub fn takes_many(plan: &Plan) -> bool {
        together::takes_many(plan)
    }

    /// Executes an INSERT for each of `sets`, all rows in one commit. Each set is the values of
    /// `$1`, `$2`, … in order.
    ///
    /// # Errors
    /// As [`Engine::execute`]; the rows of no set are there then.
    pub async fn execute_many(
        &self,
        session: &mut Session,
        plan: &Authorized<Plan>,
        sets: Vec<Vec<ScalarValue>>,
        ctx: &StatementContext,
    ) -> Result<()> {
        ensure_runnable(session, plan)?;
        match &**plan {
            Plan::Insert(insert) => match Box::pin(together::insert(self, session, insert, sets, ctx)).await {
                Err(error) => Err(self.failed_on(&written(plan), error).await),
                Ok(()) => Ok(()),
            },
            _ => Err(SqlError::internal("only INSERT is executed for many sets of parameters")),
        }
    }

    /// The future has no type of its own, or whoever awaits it would be compiled with all that is below.
    fn dispatch<'a>(
        &'a self,
        session: &'a mut Session,
        plan: &'a Authorized<Plan>,
        parameters: Vec<ScalarValue>,
        ctx: &'a StatementContext,
    ) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            // Boxed, because the futures of all statements together are large.
            match &**plan {
                Plan::Query(query) => Box::pin(query::select(self, session, query, parameters, ctx)).await,
                Plan::Explain(explain) => Box::pin(explain::explain(self, session, explain, parameters, ctx)).await,
                Plan::Insert(insert) => Box::pin(dml::insert(self, session, insert, parameters, ctx)).await,
                Plan::Update(update) => Box::pin(dml::update(self, session, update, parameters, ctx)).await,
                Plan::Delete(delete) => Box::pin(dml::delete(self, session, delete, parameters, ctx)).await,
                Plan::Merge(merge) => Box::pin(merge::merge(self, session, merge, parameters, ctx)).await,
                Plan::Copy(copy) => Box::pin(copy::copy_to(self, session, copy, parameters, ctx)).await,
                Plan::Ingest(_) => Err(SqlError::internal("an ingest was executed without its rows")),
                Plan::Truncate(truncate) => Box::pin(dml::truncate(self, session, truncate, ctx)).await,
                Plan::Vacuum(vacuum) => Box::pin(vacuum::run(self, session, vacuum, ctx)).await,
                Plan::CreateTable(create) => Box::pin(tables::create(self, session, create)).await,
                Plan::CreateTableAs(create) => {
                    Box::pin(tables::create_as(self, session, create, parameters, ctx)).await
                }
                Plan::DropTable(drop) => Box::pin(tables::drop(self, session, drop)).await,
                Plan::AlterTable(alter) => Box::pin(alter::alter(self, session, alter, ctx)).await,
                Plan::RenameView(rename) => Box::pin(views::rename(self, session, rename)).await,
                Plan::CreateView(create) => Box::pin(views::create(self, session, create)).await,
                Plan::DropView(drop) => Box::pin(views::drop(self, session, drop)).await,
                Plan::Materialized(plan) => Box::pin(materialized::run(self, session, plan, ctx)).await,
                Plan::Database(database) => Box::pin(databases::run(self, session, database)).await,
                Plan::Comment(comment) => {
                    self.change_names(session, vec![comment.change.clone()]).await?;
                    Ok(Outcome::Done("COMMENT".to_owned()))
                }
                Plan::Grant(grant) => Box::pin(grants::run(self, session, grant)).await,
                Plan::User(user) => Box::pin(users::run(self, session, user)).await,
                Plan::ApiKey(key) => Box::pin(api_keys::run(self, session, key)).await,
                Plan::Secret(secret) => Box::pin(secrets::run(self, session, secret, parameters)).await,
                Plan::Listing(listing) => Box::pin(listing::run(self, session, listing)).await,
                Plan::Session(statement) => Box::pin(session::run(self, session, statement)).await,
                Plan::RefreshColumn(plan) => Box::pin(refresh::refresh(self, session, plan, ctx)).await,
                Plan::ExplainRefresh(plan) => Box::pin(refresh::explain(self, session, plan, ctx)).await,
                Plan::Jobs(plan) => Box::pin(jobs::run(self, session, plan, ctx)).await,
                Plan::Function(plan) => Box::pin(python::run(self, session, plan, ctx)).await,
                Plan::Search(plan) => Box::pin(search::search(self, plan, ctx)).await,
                Plan::Index(plan) => Box::pin(indexes::run(self, session, plan, ctx)).await,
                Plan::Version(plan) => {
                    Box::pin(versions::run(self, session, plan)).await?;
                    Ok(Outcome::Done(plan.action.writes().unwrap_or("SHOW").to_owned()))
                }
            }
        })
    }

    /// Does what [`Engine::plan_version`] has bound, and answers in its own types.
    ///
    /// # Errors
    /// As [`Engine::execute`]; 42704 for a tag or a branch, 22023 for a version that does
    /// not exist; 42710 for a name that is taken, 42602 for one that cannot be.
    pub async fn versions(&self, session: &mut Session, plan: &Authorized<Plan>) -> Result<VersionAnswer> {
        ensure_runnable(session, plan)?;
        match &**plan {
            Plan::Version(plan) => Box::pin(versions::run(self, session, plan)).await,
            _ => Err(SqlError::internal("not a plan about versions")),
        }
    }

    /// Executes COPY FROM with what its client sends meanwhile.
    ///
    /// # Errors
    /// As [`Engine::execute`].
    pub async fn copy_from(
        &self,
        session: &mut Session,
        plan: &Authorized<Plan>,
        inputs: copy::CopyInputs,
        ctx: &StatementContext,
    ) -> Result<Outcome> {
        ensure_runnable(session, plan)?;
        match &**plan {
            Plan::Copy(copy) => match Box::pin(copy::copy_from(self, session, copy, inputs, ctx)).await {
                Err(error) => Err(self.failed_on(&written(plan), error).await),
                done => done,
            },
            _ => Err(SqlError::internal("only COPY FROM takes data")),
        }
    }

    /// Returns the roles of a user, for sessions that begin.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub async fn principal(&self, user: lancegate_auth::UserName) -> Result<lancegate_auth::Principal> {
        let roles = self.catalog().roles_of(&user).await?;
        Ok(lancegate_auth::Principal { roles, ..lancegate_auth::Principal::user(user) })
    }

    /// Returns whether the caller may do something, for callers that show less
    /// instead of failing.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub async fn allows(
        &self,
        principal: &lancegate_auth::Principal,
        privilege: Privilege,
        object: lancegate_auth::Object,
    ) -> Result<bool> {
        let grants = self.catalog().grants().await?;
        let requirement = lancegate_auth::Requirement::new(privilege, object);
        Ok(lancegate_auth::decide(principal, &grants, &requirement).allowed())
    }
}

/// Returns the tables that a statement commits to. One that a DROP has come before fails for
/// that reason, whatever it has met.
fn written(plan: &Plan) -> Vec<&Table> {
    match plan {
        Plan::Insert(plan) => vec![&plan.table.record],
        Plan::Update(plan) => vec![&plan.table.record],
        Plan::Delete(plan) => vec![&plan.table.record],
        Plan::Merge(plan) => vec![&plan.table.record],
        Plan::Truncate(plan) => plan.tables.iter().map(|table| &table.record).collect(),
        Plan::Vacuum(plan) => plan.tables.iter().map(|table| &table.record).collect(),
        Plan::AlterTable(plan) => plan.table.iter().map(|table| &table.record).collect(),
        Plan::Version(plan) => vec![&plan.table.record],
        Plan::Copy(plan) => match &**plan {
            CopyPlan::From { table, .. } => vec![&table.record],
            CopyPlan::To { .. } => Vec::new(),
        },
        Plan::Index(plan) => match &**plan {
            IndexPlan::Create(plan) => vec![&plan.table.record],
            IndexPlan::Drop(_) | IndexPlan::List(_) | IndexPlan::Prewarm { .. } => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Refuses what the state of the transaction block does not let through.
fn ensure_runnable(session: &Session, plan: &Plan) -> Result<()> {
    let ends_block = matches!(plan, Plan::Session(statement) if statement.ends_failed_block());
    if session.transaction == TransactionStatus::Failed && !ends_block {
        return Err(SqlError::new(
            SqlState::IN_FAILED_SQL_TRANSACTION,
            "current transaction is aborted, commands ignored until end of transaction block",
        ));
    }
    let locks = matches!(plan, Plan::Query(query) if query.locking.is_some()).then_some("SELECT FOR UPDATE");
    match writes(plan).or(locks) {
        Some(command) if session.settings.transaction_read_only() => Err(SqlError::new(
            SqlState::READ_ONLY_SQL_TRANSACTION,
            format!("cannot execute {command} in a read-only transaction"),
        )),
        _ => Ok(()),
    }
}

/// Returns the command word of a plan that changes data or metadata.
pub(crate) fn writes(plan: &Plan) -> Option<&'static str> {
    match plan {
        Plan::Insert(_) => Some("INSERT"),
        Plan::Update(_) => Some("UPDATE"),
        Plan::Delete(_) => Some("DELETE"),
        Plan::Merge(plan) => Some(plan.command.word()),
        Plan::Copy(copy) => matches!(**copy, CopyPlan::From { .. }).then_some("COPY FROM"),
        Plan::Ingest(_) => Some("INSERT"),
        Plan::Truncate(_) => Some("TRUNCATE TABLE"),
        Plan::CreateTable(_) => Some("CREATE TABLE"),
        Plan::CreateTableAs(_) => Some("CREATE TABLE AS"),
        Plan::DropTable(_) => Some("DROP TABLE"),
        Plan::AlterTable(_) => Some("ALTER TABLE"),
        Plan::RenameView(plan) => Some(plan.tag),
        Plan::CreateView(_) => Some("CREATE VIEW"),
        Plan::DropView(_) => Some("DROP VIEW"),
        Plan::Materialized(plan) => plan.writes(),
        Plan::Database(plan) => plan.writes(),
        Plan::Comment(_) => Some("COMMENT"),
        Plan::Grant(plan) => plan.writes(),
        Plan::User(plan) => plan.writes(),
        Plan::Function(plan) => plan.writes(),
        Plan::ApiKey(plan) => plan.writes(),
        Plan::Secret(plan) => plan.writes(),
        Plan::RefreshColumn(_) => Some("REFRESH COLUMN"),
        Plan::Index(plan) => plan.writes(),
        Plan::Version(plan) => plan.action.writes(),
        Plan::Query(_)
        | Plan::Explain(_)
        | Plan::Listing(_)
        | Plan::Session(_)
        // PostgreSQL runs it in a read-only transaction, too: no row changes.
        | Plan::Vacuum(_)
        | Plan::ExplainRefresh(_)
        | Plan::Search(_)
        | Plan::Jobs(_) => None,
    }
}
