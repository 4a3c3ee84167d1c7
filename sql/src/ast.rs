//! The typed statements.
//!
//! One file per family. Every struct prints itself as SQL that parses back to
//! the same value, and no `Display` prints a password or a secret.

mod alter_table;
mod catalog;
mod copy;
mod database;
mod dml;
mod expr;
mod function;
mod grant;
mod index;
mod job;
mod merge;
mod query;
mod refresh;
mod secret;
mod session;
mod statement;
mod table;
mod user;
mod view;

pub use alter_table::{
    AddColumn, AddComputedColumn, AlterColumnSet, AlterColumnType, AlterOperation, AlterTable, AlterView, DropColumn,
    FunctionApplication, RenameColumn,
};
pub use catalog::{
    CatalogListing, CatalogObject, Comment, CommentTarget, Describe, DescribeTable, DescribeTarget, ListingScope,
};
pub use copy::Copy;
pub use database::{
    AlterSchema, AttachDatabase, CreateDatabase, CreateSchema, CreateStorageIntegration, DropBehavior, DropDatabase,
    DropSchema, DropStorageIntegration, Property,
};
pub use dml::{Delete, Insert, Truncate, Update};
pub use expr::{Position, SourceExpr};
pub use function::{AlterFunction, CreateFunction, DropFunction, FunctionBody, FunctionDefinition, FunctionParameter};
pub use grant::{
    Grant, GrantRole, GrantTarget, Grantee, Identity, Privilege, Revoke, RevokeRole, ShowGrants, ShowRoles,
};
pub use index::{CreateIndex, DropIndex};
pub use job::{
    CancelJob, DescribeJob, JobFormat, JobScope, PauseJob, ResumeJob, ShowErrors, ShowGpuClasses, ShowJobEvents,
    ShowJobSplits, ShowJobs, WaitJob,
};
pub use merge::{Matching, Merge, MergeAction, MergeClause};
pub use query::{Explain, ExplainFormat, ExplainOptions, Query};
pub use refresh::{ExplainJob, ExplainRefresh, RefreshColumn, RefreshMaterializedView, Wait};
pub use secret::{AlterSecret, CreateApiKey, CreateSecret, DropApiKey, DropSecret, SecretValue, ShowApiKeys};
pub use session::{
    Begin, CloseCursor, Commit, Deallocate, DeclareCursor, Discard, Execute, Fetch, FetchDirection, IsolationLevel,
    Listen, Move, Prepare, Release, Reset, Rollback, RollbackTo, Savepoint, Set, SetItem, SetScope, SetTransaction,
    SetValue, Show, TransactionModes, Unlisten, Vacuum,
};
pub use statement::Statement;
pub use table::{CloneTable, CreateTable, CreateTableAs, DropTable, DropView, VersionReference};
pub use user::{AlterUser, CreateUser, DropUser, Password, ShowUsers, UserOptions};
pub use view::{AlterMaterializedView, CreateMaterializedView, CreateView, DropMaterializedView};
