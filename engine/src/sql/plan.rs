//! Bound statements: every name is an object, every type is known.
//!
//! One file per family below; each adds its part of [`Planner`] and the structs
//! that its variants of [`Plan`] carry. A plan is described and executed only
//! inside an [`Authorized`](crate::sql::authorize::Authorized).

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::scalar::ScalarValue;
use futures::future::BoxFuture;
use lancegate_sql::ast::{CatalogObject, Statement};

use crate::error::{Result, SqlError};
use crate::exec::Engine;
use crate::session::Session;
use crate::sql::caller::Caller;
use crate::system::SystemContext;

pub mod alter;
pub mod api_keys;
pub mod comments;
pub mod copy;
pub mod databases;
pub(crate) mod dependents;
pub mod dml;
pub mod explain;
pub mod functions;
pub mod grants;
pub mod indexes;
pub mod ingest;
pub mod jobs;
pub mod listing;
pub mod materialized;
pub mod query;
pub mod refresh;
pub mod search;
pub mod secrets;
pub mod session;
pub mod tables;
pub mod users;
pub mod vacuum;
pub mod versions;
pub mod views;

pub use alter::{AlterTablePlan, RenameViewPlan};
pub use api_keys::ApiKeyPlan;
pub use comments::CommentPlan;
pub use databases::DatabasePlan;
use dml::Returning;
pub use dml::{DeletePlan, InsertPlan, MergePlan, TruncatePlan, UpdatePlan};
pub use explain::ExplainPlan;
pub use functions::FunctionPlan;
pub use grants::GrantPlan;
pub use indexes::IndexPlan;
pub use jobs::JobsPlan;
pub use listing::ListingPlan;
pub use materialized::MaterializedPlan;
pub use query::QueryPlan;
pub use refresh::{ExplainRefreshPlan, RefreshPlan};
pub use search::SearchPlan;
pub use secrets::SecretPlan;
pub use session::SessionPlan;
use session::session_statements;
pub use tables::{CreateTableAsPlan, CreateTablePlan, DropTablePlan};
pub use users::UserPlan;
pub use vacuum::VacuumPlan;
pub use versions::VersionPlan;
pub use views::{CreateViewPlan, DropViewPlan};

/// A bound statement.
#[derive(Debug, Clone)]
pub enum Plan {
    /// SELECT, VALUES, TABLE, WITH.
    Query(Box<QueryPlan>),
    /// EXPLAIN of a query.
    Explain(Box<ExplainPlan>),
    /// INSERT.
    Insert(Box<InsertPlan>),
    /// UPDATE.
    Update(Box<UpdatePlan>),
    /// DELETE.
    Delete(Box<DeletePlan>),
    /// MERGE and INSERT … ON CONFLICT.
    Merge(Box<MergePlan>),
    /// COPY.
    Copy(Box<copy::CopyPlan>),
    /// Rows that a client sends as Arrow batches.
    Ingest(Box<ingest::IngestPlan>),
    /// TRUNCATE.
    Truncate(Box<TruncatePlan>),
    /// VACUUM and ANALYZE.
    Vacuum(Box<VacuumPlan>),
    /// CREATE TABLE with columns.
    CreateTable(Box<CreateTablePlan>),
    /// CREATE TABLE … AS.
    CreateTableAs(Box<CreateTableAsPlan>),
    /// DROP TABLE.
    DropTable(Box<DropTablePlan>),
    /// ALTER TABLE.
    AlterTable(Box<AlterTablePlan>),
    /// ALTER VIEW … RENAME.
    RenameView(Box<RenameViewPlan>),
    /// CREATE VIEW.
    CreateView(Box<CreateViewPlan>),
    /// DROP VIEW.
    DropView(Box<DropViewPlan>),
    /// CREATE, ALTER, DROP, DESCRIBE and REFRESH MATERIALIZED VIEW.
    Materialized(Box<MaterializedPlan>),
    /// CREATE, ALTER and DROP of databases and schemas.
    Database(Box<DatabasePlan>),
    /// COMMENT ON.
    Comment(Box<CommentPlan>),
    /// GRANT, REVOKE and SHOW GRANTS, SHOW ROLES.
    Grant(Box<GrantPlan>),
    /// CREATE, ALTER, DROP USER and SHOW USERS.
    User(Box<UserPlan>),
    /// CREATE, DROP and SHOW API KEYS.
    ApiKey(Box<ApiKeyPlan>),
    /// CREATE, ALTER, DROP and DESCRIBE SECRET.
    Secret(Box<SecretPlan>),
    /// SHOW TABLES and its kin, DESCRIBE.
    Listing(Box<ListingPlan>),
    /// Statements that concern the session only.
    Session(Box<SessionPlan>),
    /// REFRESH COLUMN.
    RefreshColumn(Box<RefreshPlan>),
    /// EXPLAIN REFRESH COLUMN.
    ExplainRefresh(Box<ExplainRefreshPlan>),
    /// SHOW JOBS and everything else about jobs and GPU classes.
    Jobs(Box<JobsPlan>),
    /// CREATE, DROP, SHOW and DESCRIBE FUNCTION.
    Function(Box<FunctionPlan>),
    /// A search, as the client library asks for it.
    Search(Box<SearchPlan>),
    /// CREATE INDEX, DROP INDEX, SHOW INDEXES.
    Index(Box<IndexPlan>),
    /// Versions, tags and branches of a table.
    Version(Box<VersionPlan>),
}

impl Plan {
    /// Returns the columns of the answer; `None` if the statement returns no rows.
    pub fn columns(&self) -> Option<&SchemaRef> {
        match self {
            Self::Query(plan) => Some(&plan.columns),
            Self::Explain(plan) => Some(&plan.columns),
            Self::Materialized(plan) => plan.columns(),
            Self::Database(plan) => plan.columns(),
            Self::Grant(plan) => plan.columns(),
            Self::User(plan) => plan.columns(),
            Self::ApiKey(plan) => plan.columns(),
            Self::Secret(plan) => Some(plan.columns()),
            Self::Listing(plan) => Some(plan.columns()),
            Self::Session(plan) => plan.columns(),
            Self::RefreshColumn(plan) => Some(plan.columns()),
            Self::ExplainRefresh(plan) => Some(plan.columns()),
            Self::Jobs(plan) => plan.columns(),
            Self::Function(plan) => plan.columns(),
            Self::Search(plan) => Some(plan.columns()),
            Self::Index(plan) => plan.columns(),
            Self::Insert(plan) => plan.returning.as_ref().map(Returning::columns),
            Self::Update(plan) => plan.returning.as_ref().map(Returning::columns),
            Self::Delete(plan) => plan.returning.as_ref().map(Returning::columns),
            Self::Merge(plan) => plan.returning.as_ref().map(Returning::columns),
            Self::Copy(_)
            | Self::Comment(_)
            | Self::Ingest(_)
            | Self::Truncate(_)
            | Self::Vacuum(_)
            | Self::CreateTable(_)
            | Self::CreateTableAs(_)
            | Self::DropTable(_)
            | Self::AlterTable(_)
            | Self::RenameView(_)
            | Self::CreateView(_)
            | Self::DropView(_)
            | Self::Version(_) => None,
        }
    }

    /// Returns whether this is a query that reads nothing and is evaluated on the spot.
    pub fn is_one_row(&self) -> bool {
        matches!(self, Self::Query(query) if query.one_row.is_some())
    }

    /// Returns whether the plan is one for describing only, because parameters are arguments
    /// of table functions: it is made again with their values.
    pub fn awaits_values(&self) -> bool {
        matches!(self, Self::Query(query) if query.parameters.awaits_values)
    }

    /// Returns the types of `$1`, `$2`, … in order.
    pub fn parameter_types(&self) -> &[FieldRef] {
        match self {
            Self::Query(plan) => &plan.parameters.reported,
            Self::Explain(plan) => plan.parameter_types(),
            Self::Insert(plan) => &plan.source.parameters.reported,
            Self::Update(plan) => &plan.rows.parameters.reported,
            Self::Delete(plan) => plan.parameter_types(),
            Self::Merge(plan) => &plan.rows.parameters.reported,
            Self::Copy(plan) => plan.parameter_types(),
            Self::CreateTableAs(plan) => &plan.source.parameters.reported,
            Self::Secret(plan) => plan.parameter_types(),
            Self::Truncate(_)
            | Self::Vacuum(_)
            | Self::Comment(_)
            | Self::Ingest(_)
            | Self::CreateTable(_)
            | Self::DropTable(_)
            | Self::AlterTable(_)
            | Self::RenameView(_)
            | Self::CreateView(_)
            | Self::DropView(_)
            | Self::Materialized(_)
            | Self::Database(_)
            | Self::Grant(_)
            | Self::User(_)
            | Self::ApiKey(_)
            | Self::Listing(_)
            | Self::Session(_)
            | Self::RefreshColumn(_)
            | Self::ExplainRefresh(_)
            | Self::Jobs(_)
            | Self::Function(_)
            | Self::Search(_)
            | Self::Index(_)
            | Self::Version(_) => &[],
        }
    }
}

/// Binds one statement of one caller. Cheap to clone and free of borrows, so
/// that binding can move to a thread with a large stack.
#[derive(Clone)]
pub struct Planner {
    /// Where names are looked up.
    pub engine: Engine,
    /// Who asks, with which settings.
    pub caller: Arc<Caller>,
    /// The whole text that the client sent; positions count from its start.
    pub text: Arc<str>,
    /// What the client declared about `$1`, `$2`, ….
    pub declared: Arc<[Option<DataType>]>,
    /// The values of `$1`, `$2`, …, where they are known already.
    pub values: Arc<[ScalarValue]>,
    /// For whom system relations are made.
    pub(crate) system: SystemContext,
}

/// The text may hold passwords and secrets, so it does not print.
impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl Planner {
    /// Returns the planner of one statement.
    pub fn new(engine: Engine, session: &Session, text: &str, declared: &[Option<DataType>]) -> Self {
        let caller = Caller::of(session);
        let system = SystemContext::new(engine.clone(), Arc::clone(&caller));
        Self { engine, caller, text: Arc::from(text), declared: Arc::from(declared), values: Arc::from([]), system }
    }

    /// Binds a statement.
    ///
    /// # Errors
    /// What PostgreSQL answers for names, types and options that do not fit;
    /// 0A000 for what is not built.
    pub fn plan<'a>(&'a self, statement: &'a Statement) -> BoxFuture<'a, Result<Plan>> {
        Box::pin(async move {
            match statement {
                Statement::Query(query) => self.plan_query(query).await,
                Statement::Explain(explain) => self.plan_explain(explain).await,
                Statement::Insert(insert) => self.plan_insert(insert).await,
                Statement::Update(update) => self.plan_update(update).await,
                Statement::Delete(delete) => self.plan_delete(delete).await,
                Statement::Merge(merge) => self.plan_merge(merge).await,
                Statement::Copy(copy) => self.plan_copy(copy).await,
                Statement::Truncate(truncate) => self.plan_truncate(truncate).await,
                Statement::Vacuum(vacuum) => self.plan_vacuum(vacuum).await,
                Statement::CreateTable(create) => self.plan_create_table(create).await,
                Statement::CreateTableAs(create) => self.plan_create_table_as(create).await,
                Statement::DropTable(drop) => self.plan_drop_table(drop).await,
                Statement::AlterTable(alter) => self.plan_alter_table(alter).await,
                Statement::AlterView(alter) => self.plan_alter_view(alter).await,
                Statement::CreateView(create) => self.plan_create_view(create).await,
                Statement::DropView(drop) => self.plan_drop_view(drop).await,
                Statement::CreateMaterializedView(create) => self.plan_create_materialized(create).await,
                Statement::AlterMaterializedView(alter) => self.plan_alter_materialized(alter).await,
                Statement::DropMaterializedView(drop) => self.plan_drop_materialized(drop).await,
                Statement::RefreshMaterializedView(refresh) => self.plan_refresh_materialized(refresh).await,
                Statement::CreateDatabase(_)
                | Statement::DropDatabase(_)
                | Statement::CreateSchema(_)
                | Statement::AlterSchema(_)
                | Statement::DropSchema(_) => self.plan_database(statement).await,
                Statement::Grant(_)
                | Statement::Revoke(_)
                | Statement::GrantRole(_)
                | Statement::RevokeRole(_)
                | Statement::ShowGrants(_)
                | Statement::ShowRoles(_) => self.plan_grant(statement).await,
                Statement::CreateUser(_)
                | Statement::AlterUser(_)
                | Statement::DropUser(_)
                | Statement::ShowUsers(_) => self.plan_user(statement),
                Statement::CreateSecret(_) | Statement::AlterSecret(_) | Statement::DropSecret(_) => {
                    self.plan_secret(statement).await
                }
                Statement::CreateApiKey(_) | Statement::DropApiKey(_) | Statement::ShowApiKeys(_) => {
                    self.plan_api_key(statement).await
                }
                Statement::CreateFunction(create) => self.plan_create_function(create).await,
                Statement::AlterFunction(alter) => self.plan_alter_function(alter).await,
                Statement::DropFunction(drop) => self.plan_drop_function(drop).await,
                Statement::CatalogListing(listing) if listing.object == CatalogObject::Functions => {
                    Ok(self.plan_show_functions())
                }
                Statement::CatalogListing(listing) if listing.object == CatalogObject::Indexes => {
                    self.plan_show_indexes(listing).await
                }
                Statement::CatalogListing(listing) => self.plan_listing(listing).await,
                Statement::Comment(comment) => self.plan_comment(comment).await,
                Statement::CreateIndex(create) => self.plan_create_index(create).await,
                Statement::DropIndex(drop) => self.plan_drop_index(drop).await,
                Statement::Describe(describe) => self.plan_describe(describe).await,
                Statement::DescribeTable(describe) => self.plan_describe_table(&describe.table).await,
                Statement::RefreshColumn(refresh) => self.plan_refresh(refresh).await,
                Statement::ExplainRefresh(explain) => self.plan_explain_refresh(explain).await,
                Statement::ShowJobs(_)
                | Statement::ShowJobEvents(_)
                | Statement::ShowJobSplits(_)
                | Statement::DescribeJob(_)
                | Statement::ExplainJob(_)
                | Statement::ShowErrors(_)
                | Statement::PauseJob(_)
                | Statement::ResumeJob(_)
                | Statement::CancelJob(_)
                | Statement::WaitJob(_)
                | Statement::ShowGpuClasses(_) => self.plan_jobs(statement).await,
                session_statements!() => self.plan_session(statement),
                Statement::CloneTable(_)
                | Statement::AttachDatabase(_)
                | Statement::CreateStorageIntegration(_)
                | Statement::DropStorageIntegration(_)
                | Statement::Prepare(_)
                | Statement::Execute(_)
                | Statement::Deallocate(_)
                | Statement::DeclareCursor(_)
                | Statement::Fetch(_)
                | Statement::Move(_)
                | Statement::CloseCursor(_) => Err(SqlError::not_supported(format!(
                    "{} is not supported yet",
                    statement.kind().replace('_', " ").to_uppercase()
                ))),
            }
        })
    }
}
