//! The sum of all statements.

use std::fmt;

use super::{
    AlterFunction, AlterMaterializedView, AlterSchema, AlterSecret, AlterTable, AlterUser, AlterView, AttachDatabase,
    Begin, CancelJob, CatalogListing, CloneTable, CloseCursor, Comment, Commit, Copy, CreateApiKey, CreateDatabase,
    CreateFunction, CreateIndex, CreateMaterializedView, CreateSchema, CreateSecret, CreateStorageIntegration,
    CreateTable, CreateTableAs, CreateUser, CreateView, Deallocate, DeclareCursor, Delete, Describe, DescribeJob,
    DescribeTable, Discard, DropApiKey, DropDatabase, DropFunction, DropIndex, DropMaterializedView, DropSchema,
    DropSecret, DropStorageIntegration, DropTable, DropUser, DropView, Execute, Explain, ExplainJob, ExplainRefresh,
    Fetch, Grant, GrantRole, Insert, Listen, Merge, Move, PauseJob, Prepare, Query, RefreshColumn,
    RefreshMaterializedView, Release, Reset, ResumeJob, Revoke, RevokeRole, Rollback, RollbackTo, Savepoint, Set,
    SetTransaction, Show, ShowApiKeys, ShowErrors, ShowGpuClasses, ShowGrants, ShowJobEvents, ShowJobSplits, ShowJobs,
    ShowRoles, ShowUsers, Truncate, Unlisten, Update, Vacuum, WaitJob,
};

/// A parsed statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// A `SELECT`, `WITH`, `VALUES` or `TABLE`.
    Query(Box<Query>),
    /// `EXPLAIN` of a query or a row change.
    Explain(Explain),
    /// `INSERT`
    Insert(Insert),
    /// `UPDATE`
    Update(Update),
    /// `DELETE`
    Delete(Delete),
    /// `MERGE`
    Merge(Box<Merge>),
    /// `TRUNCATE`
    Truncate(Truncate),
    /// `COPY`
    Copy(Copy),
    /// `CREATE TABLE` with columns.
    CreateTable(CreateTable),
    /// `CREATE TABLE … AS`
    CreateTableAs(CreateTableAs),
    /// `CREATE TABLE … CLONE`
    CloneTable(CloneTable),
    /// `DROP TABLE`
    DropTable(DropTable),
    /// `ALTER TABLE`
    AlterTable(AlterTable),
    /// `CREATE VIEW`
    CreateView(CreateView),
    /// `ALTER VIEW … RENAME`
    AlterView(AlterView),
    /// `DROP VIEW`
    DropView(DropView),
    /// `CREATE MATERIALIZED VIEW`
    CreateMaterializedView(CreateMaterializedView),
    /// `ALTER MATERIALIZED VIEW … SET`
    AlterMaterializedView(AlterMaterializedView),
    /// `DROP MATERIALIZED VIEW`
    DropMaterializedView(DropMaterializedView),
    /// `REFRESH COLUMN`
    RefreshColumn(RefreshColumn),
    /// `REFRESH MATERIALIZED VIEW`
    RefreshMaterializedView(RefreshMaterializedView),
    /// `EXPLAIN REFRESH COLUMN`
    ExplainRefresh(ExplainRefresh),
    /// `EXPLAIN JOB`
    ExplainJob(ExplainJob),
    /// `SHOW JOBS`
    ShowJobs(ShowJobs),
    /// `SHOW JOB EVENTS`
    ShowJobEvents(ShowJobEvents),
    /// `SHOW JOB SPLITS`
    ShowJobSplits(ShowJobSplits),
    /// `DESCRIBE JOB`
    DescribeJob(DescribeJob),
    /// `SHOW ERRORS`
    ShowErrors(ShowErrors),
    /// `PAUSE JOB`
    PauseJob(PauseJob),
    /// `RESUME JOB`
    ResumeJob(ResumeJob),
    /// `CANCEL JOB`
    CancelJob(CancelJob),
    /// `WAIT JOB`
    WaitJob(WaitJob),
    /// `SHOW GPU CLASSES`
    ShowGpuClasses(ShowGpuClasses),
    /// `CREATE USER`
    CreateUser(CreateUser),
    /// `ALTER USER`
    AlterUser(AlterUser),
    /// `DROP USER`
    DropUser(DropUser),
    /// `SHOW USERS`
    ShowUsers(ShowUsers),
    /// `GRANT … ON …`
    Grant(Grant),
    /// `REVOKE … ON …`
    Revoke(Revoke),
    /// `GRANT ROLE`
    GrantRole(GrantRole),
    /// `REVOKE ROLE`
    RevokeRole(RevokeRole),
    /// `SHOW GRANTS`
    ShowGrants(ShowGrants),
    /// `SHOW ROLES`
    ShowRoles(ShowRoles),
    /// `CREATE DATABASE`
    CreateDatabase(CreateDatabase),
    /// `ATTACH DATABASE`
    AttachDatabase(AttachDatabase),
    /// `DROP DATABASE`
    DropDatabase(DropDatabase),
    /// `CREATE SCHEMA`, `CREATE NAMESPACE`
    CreateSchema(CreateSchema),
    /// `ALTER SCHEMA`, `ALTER NAMESPACE`
    AlterSchema(AlterSchema),
    /// `DROP SCHEMA`, `DROP NAMESPACE`
    DropSchema(DropSchema),
    /// `CREATE STORAGE INTEGRATION`
    CreateStorageIntegration(CreateStorageIntegration),
    /// `DROP STORAGE INTEGRATION`
    DropStorageIntegration(DropStorageIntegration),
    /// `SHOW TABLES` and its relatives.
    CatalogListing(CatalogListing),
    /// `DESCRIBE` of a table or view.
    DescribeTable(DescribeTable),
    /// `DESCRIBE` of any other object.
    Describe(Describe),
    /// `COMMENT ON`
    Comment(Comment),
    /// `CREATE FUNCTION`
    CreateFunction(CreateFunction),
    /// `ALTER FUNCTION`
    AlterFunction(AlterFunction),
    /// `DROP FUNCTION`
    DropFunction(DropFunction),
    /// `CREATE SECRET`
    CreateSecret(CreateSecret),
    /// `ALTER SECRET`
    AlterSecret(AlterSecret),
    /// `DROP SECRET`
    DropSecret(DropSecret),
    /// `CREATE API KEY`
    CreateApiKey(CreateApiKey),
    /// `DROP API KEY`
    DropApiKey(DropApiKey),
    /// `SHOW API KEYS`
    ShowApiKeys(ShowApiKeys),
    /// `CREATE INDEX`
    CreateIndex(CreateIndex),
    /// `DROP INDEX`
    DropIndex(DropIndex),
    /// `SET`
    Set(Set),
    /// `SHOW` of settings.
    Show(Show),
    /// `RESET`
    Reset(Reset),
    /// `DISCARD`
    Discard(Discard),
    /// `BEGIN`, `START TRANSACTION`
    Begin(Begin),
    /// `COMMIT`, `END`
    Commit(Commit),
    /// `ROLLBACK`, `ABORT`
    Rollback(Rollback),
    /// `SAVEPOINT`
    Savepoint(Savepoint),
    /// `RELEASE`
    Release(Release),
    /// `ROLLBACK TO`
    RollbackTo(RollbackTo),
    /// `SET TRANSACTION`
    SetTransaction(SetTransaction),
    /// `LISTEN`
    Listen(Listen),
    /// `UNLISTEN`
    Unlisten(Unlisten),
    /// `PREPARE`
    Prepare(Prepare),
    /// `EXECUTE`; the tag is that of the prepared statement.
    Execute(Execute),
    /// `DEALLOCATE`
    Deallocate(Deallocate),
    /// `DECLARE … CURSOR`
    DeclareCursor(DeclareCursor),
    /// `FETCH`
    Fetch(Fetch),
    /// `MOVE`
    Move(Move),
    /// `CLOSE`
    CloseCursor(CloseCursor),
    /// `VACUUM`, `ANALYZE`
    Vacuum(Vacuum),
}

impl Statement {
    /// Returns the statement's kind for metrics labels; never part of the text.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Query(_) => "query",
            Self::Explain(_) => "explain",
            Self::Insert(_) => "insert",
            Self::Update(_) => "update",
            Self::Delete(_) => "delete",
            Self::Merge(_) => "merge",
            Self::Truncate(_) => "truncate",
            Self::Copy(_) => "copy",
            Self::CreateTable(_) => "create_table",
            Self::CreateTableAs(_) => "create_table_as",
            Self::CloneTable(_) => "clone_table",
            Self::DropTable(_) => "drop_table",
            Self::AlterTable(_) => "alter_table",
            Self::CreateView(_) => "create_view",
            Self::AlterView(_) => "alter_view",
            Self::DropView(_) => "drop_view",
            Self::CreateMaterializedView(_) => "create_materialized_view",
            Self::AlterMaterializedView(_) => "alter_materialized_view",
            Self::DropMaterializedView(_) => "drop_materialized_view",
            Self::RefreshColumn(_) => "refresh_column",
            Self::RefreshMaterializedView(_) => "refresh_materialized_view",
            Self::ExplainRefresh(_) => "explain_refresh",
            Self::ExplainJob(_) => "explain_job",
            Self::ShowJobs(_) => "show_jobs",
            Self::ShowJobEvents(_) => "show_job_events",
            Self::ShowJobSplits(_) => "show_job_splits",
            Self::DescribeJob(_) => "describe_job",
            Self::ShowErrors(_) => "show_errors",
            Self::PauseJob(_) => "pause_job",
            Self::ResumeJob(_) => "resume_job",
            Self::CancelJob(_) => "cancel_job",
            Self::WaitJob(_) => "wait_job",
            Self::ShowGpuClasses(_) => "show_gpu_classes",
            Self::CreateUser(_) => "create_user",
            Self::AlterUser(_) => "alter_user",
            Self::DropUser(_) => "drop_user",
            Self::ShowUsers(_) => "show_users",
            Self::Grant(_) => "grant",
            Self::Revoke(_) => "revoke",
            Self::GrantRole(_) => "grant_role",
            Self::RevokeRole(_) => "revoke_role",
            Self::ShowGrants(_) => "show_grants",
            Self::ShowRoles(_) => "show_roles",
            Self::CreateDatabase(_) => "create_database",
            Self::AttachDatabase(_) => "attach_database",
            Self::DropDatabase(_) => "drop_database",
            Self::CreateSchema(_) => "create_schema",
            Self::AlterSchema(_) => "alter_schema",
            Self::DropSchema(_) => "drop_schema",
            Self::CreateStorageIntegration(_) => "create_storage_integration",
            Self::DropStorageIntegration(_) => "drop_storage_integration",
            Self::CatalogListing(_) => "catalog_listing",
            Self::DescribeTable(_) => "describe_table",
            Self::Describe(_) => "describe",
            Self::Comment(_) => "comment",
            Self::CreateFunction(_) => "create_function",
            Self::AlterFunction(_) => "alter_function",
            Self::DropFunction(_) => "drop_function",
            Self::CreateSecret(_) => "create_secret",
            Self::AlterSecret(_) => "alter_secret",
            Self::DropSecret(_) => "drop_secret",
            Self::CreateApiKey(_) => "create_api_key",
            Self::DropApiKey(_) => "drop_api_key",
            Self::ShowApiKeys(_) => "show_api_keys",
            Self::CreateIndex(_) => "create_index",
            Self::DropIndex(_) => "drop_index",
            Self::Set(_) => "set",
            Self::Show(_) => "show",
            Self::Reset(_) => "reset",
            Self::Discard(_) => "discard",
            Self::Begin(_) => "begin",
            Self::Commit(_) => "commit",
            Self::Rollback(_) => "rollback",
            Self::Savepoint(_) => "savepoint",
            Self::Release(_) => "release",
            Self::RollbackTo(_) => "rollback_to",
            Self::SetTransaction(_) => "set_transaction",
            Self::Listen(_) => "listen",
            Self::Unlisten(_) => "unlisten",
            Self::Prepare(_) => "prepare",
            Self::Execute(_) => "execute",
            Self::Deallocate(_) => "deallocate",
            Self::DeclareCursor(_) => "declare_cursor",
            Self::Fetch(_) => "fetch",
            Self::Move(_) => "move",
            Self::CloseCursor(_) => "close_cursor",
            Self::Vacuum(_) => "vacuum",
        }
    }

    /// Returns the tag of the command's completion, or `None` where it carries a
    /// count of rows or depends on another statement.
    pub fn command_tag(&self) -> Option<&'static str> {
        Some(match self {
            Self::AlterView(s) => {
                if s.materialized {
                    "ALTER MATERIALIZED VIEW"
                } else {
                    "ALTER VIEW"
                }
            }
            Self::Discard(s) => match s {
                Discard::All => "DISCARD ALL",
                Discard::Plans => "DISCARD PLANS",
                Discard::Sequences => "DISCARD SEQUENCES",
                Discard::Temp => "DISCARD TEMP",
            },
            Self::Begin(s) => {
                if s.start {
                    "START TRANSACTION"
                } else {
                    "BEGIN"
                }
            }
            Self::Deallocate(s) => {
                if s.name.is_some() {
                    "DEALLOCATE"
                } else {
                    "DEALLOCATE ALL"
                }
            }
            Self::CloseCursor(s) => {
                if s.cursor.is_some() {
                    "CLOSE CURSOR"
                } else {
                    "CLOSE CURSOR ALL"
                }
            }
            Self::Vacuum(s) => {
                if s.vacuum {
                    "VACUUM"
                } else {
                    "ANALYZE"
                }
            }
            Self::Explain(_) | Self::ExplainRefresh(_) | Self::ExplainJob(_) => "EXPLAIN",
            Self::Truncate(_) => "TRUNCATE TABLE",
            Self::CreateTable(_) | Self::CloneTable(_) => "CREATE TABLE",
            Self::DropTable(_) => "DROP TABLE",
            Self::AlterTable(_) => "ALTER TABLE",
            Self::CreateView(_) => "CREATE VIEW",
            Self::DropView(_) => "DROP VIEW",
            Self::CreateMaterializedView(_) => "CREATE MATERIALIZED VIEW",
            Self::AlterMaterializedView(_) => "ALTER MATERIALIZED VIEW",
            Self::DropMaterializedView(_) => "DROP MATERIALIZED VIEW",
            Self::RefreshColumn(_) => "REFRESH COLUMN",
            Self::RefreshMaterializedView(_) => "REFRESH MATERIALIZED VIEW",
            Self::ShowJobs(_)
            | Self::ShowJobEvents(_)
            | Self::ShowJobSplits(_)
            | Self::ShowErrors(_)
            | Self::ShowGpuClasses(_)
            | Self::ShowUsers(_)
            | Self::ShowGrants(_)
            | Self::ShowRoles(_)
            | Self::CatalogListing(_)
            | Self::ShowApiKeys(_)
            | Self::Show(_) => "SHOW",
            Self::DescribeJob(_) | Self::DescribeTable(_) | Self::Describe(_) => "DESCRIBE",
            Self::PauseJob(_) => "PAUSE JOB",
            Self::ResumeJob(_) => "RESUME JOB",
            Self::CancelJob(_) => "CANCEL JOB",
            Self::WaitJob(_) => "WAIT JOB",
            Self::CreateUser(_) => "CREATE ROLE",
            Self::AlterUser(_) => "ALTER ROLE",
            Self::DropUser(_) => "DROP ROLE",
            Self::Grant(_) => "GRANT",
            Self::Revoke(_) => "REVOKE",
            Self::GrantRole(_) => "GRANT ROLE",
            Self::RevokeRole(_) => "REVOKE ROLE",
            Self::CreateDatabase(_) => "CREATE DATABASE",
            Self::AttachDatabase(_) => "ATTACH DATABASE",
            Self::DropDatabase(_) => "DROP DATABASE",
            Self::CreateSchema(_) => "CREATE SCHEMA",
            Self::AlterSchema(_) => "ALTER SCHEMA",
            Self::DropSchema(_) => "DROP SCHEMA",
            Self::CreateStorageIntegration(_) => "CREATE STORAGE INTEGRATION",
            Self::DropStorageIntegration(_) => "DROP STORAGE INTEGRATION",
            Self::Comment(_) => "COMMENT",
            Self::CreateFunction(_) => "CREATE FUNCTION",
            Self::AlterFunction(_) => "ALTER FUNCTION",
            Self::DropFunction(_) => "DROP FUNCTION",
            Self::CreateSecret(_) => "CREATE SECRET",
            Self::AlterSecret(_) => "ALTER SECRET",
            Self::DropSecret(_) => "DROP SECRET",
            Self::CreateApiKey(_) => "CREATE API KEY",
            Self::DropApiKey(_) => "DROP API KEY",
            Self::CreateIndex(_) => "CREATE INDEX",
            Self::DropIndex(_) => "DROP INDEX",
            Self::Set(_) | Self::SetTransaction(_) => "SET",
            Self::Reset(_) => "RESET",
            Self::Commit(_) => "COMMIT",
            Self::Rollback(_) | Self::RollbackTo(_) => "ROLLBACK",
            Self::Savepoint(_) => "SAVEPOINT",
            Self::Release(_) => "RELEASE",
            Self::Listen(_) => "LISTEN",
            Self::Unlisten(_) => "UNLISTEN",
            Self::Prepare(_) => "PREPARE",
            Self::DeclareCursor(_) => "DECLARE CURSOR",
            Self::Query(_)
            | Self::Insert(_)
            | Self::Update(_)
            | Self::Delete(_)
            | Self::Merge(_)
            | Self::Copy(_)
            | Self::CreateTableAs(_)
            | Self::Execute(_)
            | Self::Fetch(_)
            | Self::Move(_) => return None,
        })
    }

    /// Returns whether the statement opens, ends or moves within a transaction
    /// block, and so may run in a failed one.
    pub fn is_transaction_control(&self) -> bool {
        matches!(
            self,
            Self::Begin(_)
                | Self::Commit(_)
                | Self::Rollback(_)
                | Self::Savepoint(_)
                | Self::Release(_)
                | Self::RollbackTo(_)
                | Self::SetTransaction(_)
        )
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Query(statement) => statement.fmt(f),
            Self::Explain(statement) => statement.fmt(f),
            Self::Insert(statement) => statement.fmt(f),
            Self::Update(statement) => statement.fmt(f),
            Self::Delete(statement) => statement.fmt(f),
            Self::Merge(statement) => statement.fmt(f),
            Self::Truncate(statement) => statement.fmt(f),
            Self::Copy(statement) => statement.fmt(f),
            Self::CreateTable(statement) => statement.fmt(f),
            Self::CreateTableAs(statement) => statement.fmt(f),
            Self::CloneTable(statement) => statement.fmt(f),
            Self::DropTable(statement) => statement.fmt(f),
            Self::AlterTable(statement) => statement.fmt(f),
            Self::CreateView(statement) => statement.fmt(f),
            Self::AlterView(statement) => statement.fmt(f),
            Self::DropView(statement) => statement.fmt(f),
            Self::CreateMaterializedView(statement) => statement.fmt(f),
            Self::AlterMaterializedView(statement) => statement.fmt(f),
            Self::DropMaterializedView(statement) => statement.fmt(f),
            Self::RefreshColumn(statement) => statement.fmt(f),
            Self::RefreshMaterializedView(statement) => statement.fmt(f),
            Self::ExplainRefresh(statement) => statement.fmt(f),
            Self::ExplainJob(statement) => statement.fmt(f),
            Self::ShowJobs(statement) => statement.fmt(f),
            Self::ShowJobEvents(statement) => statement.fmt(f),
            Self::ShowJobSplits(statement) => statement.fmt(f),
            Self::DescribeJob(statement) => statement.fmt(f),
            Self::ShowErrors(statement) => statement.fmt(f),
            Self::PauseJob(statement) => statement.fmt(f),
            Self::ResumeJob(statement) => statement.fmt(f),
            Self::CancelJob(statement) => statement.fmt(f),
            Self::WaitJob(statement) => statement.fmt(f),
            Self::ShowGpuClasses(statement) => statement.fmt(f),
            Self::CreateUser(statement) => statement.fmt(f),
            Self::AlterUser(statement) => statement.fmt(f),
            Self::DropUser(statement) => statement.fmt(f),
            Self::ShowUsers(statement) => statement.fmt(f),
            Self::Grant(statement) => statement.fmt(f),
            Self::Revoke(statement) => statement.fmt(f),
            Self::GrantRole(statement) => statement.fmt(f),
            Self::RevokeRole(statement) => statement.fmt(f),
            Self::ShowGrants(statement) => statement.fmt(f),
            Self::ShowRoles(statement) => statement.fmt(f),
            Self::CreateDatabase(statement) => statement.fmt(f),
            Self::AttachDatabase(statement) => statement.fmt(f),
            Self::DropDatabase(statement) => statement.fmt(f),
            Self::CreateSchema(statement) => statement.fmt(f),
            Self::AlterSchema(statement) => statement.fmt(f),
            Self::DropSchema(statement) => statement.fmt(f),
            Self::CreateStorageIntegration(statement) => statement.fmt(f),
            Self::DropStorageIntegration(statement) => statement.fmt(f),
            Self::CatalogListing(statement) => statement.fmt(f),
            Self::DescribeTable(statement) => statement.fmt(f),
            Self::Describe(statement) => statement.fmt(f),
            Self::Comment(statement) => statement.fmt(f),
            Self::CreateFunction(statement) => statement.fmt(f),
            Self::AlterFunction(statement) => statement.fmt(f),
            Self::DropFunction(statement) => statement.fmt(f),
            Self::CreateSecret(statement) => statement.fmt(f),
            Self::AlterSecret(statement) => statement.fmt(f),
            Self::DropSecret(statement) => statement.fmt(f),
            Self::CreateApiKey(statement) => statement.fmt(f),
            Self::DropApiKey(statement) => statement.fmt(f),
            Self::ShowApiKeys(statement) => statement.fmt(f),
            Self::CreateIndex(statement) => statement.fmt(f),
            Self::DropIndex(statement) => statement.fmt(f),
            Self::Set(statement) => statement.fmt(f),
            Self::Show(statement) => statement.fmt(f),
            Self::Reset(statement) => statement.fmt(f),
            Self::Discard(statement) => statement.fmt(f),
            Self::Begin(statement) => statement.fmt(f),
            Self::Commit(statement) => statement.fmt(f),
            Self::Rollback(statement) => statement.fmt(f),
            Self::Savepoint(statement) => statement.fmt(f),
            Self::Release(statement) => statement.fmt(f),
            Self::RollbackTo(statement) => statement.fmt(f),
            Self::SetTransaction(statement) => statement.fmt(f),
            Self::Listen(statement) => statement.fmt(f),
            Self::Unlisten(statement) => statement.fmt(f),
            Self::Prepare(statement) => statement.fmt(f),
            Self::Execute(statement) => statement.fmt(f),
            Self::Deallocate(statement) => statement.fmt(f),
            Self::DeclareCursor(statement) => statement.fmt(f),
            Self::Fetch(statement) => statement.fmt(f),
            Self::Move(statement) => statement.fmt(f),
            Self::CloseCursor(statement) => statement.fmt(f),
            Self::Vacuum(statement) => statement.fmt(f),
        }
    }
}
