//! Versions, tags and branches of a table, as the client library asks for them.
//!
//! Looking at them takes SELECT on the table; restoring a version, and making,
//! moving or dropping tags and branches takes OWNERSHIP of it.

use lancegate_auth::{Privilege, Requirement};
use lancegate_sql::ObjectName;

use super::{Plan, Planner};
use crate::error::Result;
use crate::exec::Engine;
use crate::session::Session;
use crate::sql::resolve::BoundTable;

pub use crate::storage::versions::{BranchRow, TagRow, VersionRow};

/// A bound statement about versions of a table.
#[derive(Debug, Clone)]
pub struct VersionPlan {
    /// The table, on its main branch.
    pub table: BoundTable,
    /// The branch; `None` for the main one.
    pub branch: Option<String>,
    /// What is done.
    pub action: VersionAction,
}

/// What is done with versions, tags and branches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionAction {
    /// Lists the versions of the branch.
    List,
    /// Makes an older version the newest one.
    Restore {
        /// The version.
        version: u64,
    },
    /// Lists the tags.
    Tags,
    /// Looks a tag up.
    Tag {
        /// Its name.
        tag: String,
    },
    /// Names a version.
    CreateTag {
        /// The name.
        tag: String,
        /// The version of the branch.
        version: u64,
    },
    /// Lets a tag name another version.
    MoveTag {
        /// The name.
        tag: String,
        /// The version of the branch.
        version: u64,
    },
    /// Forgets a tag.
    DropTag {
        /// The name.
        tag: String,
    },
    /// Lists the branches.
    Branches,
    /// Makes a branch of a version of the branch.
    CreateBranch {
        /// The name.
        name: String,
        /// The version; the newest without it.
        version: Option<u64>,
    },
    /// Drops a branch.
    DropBranch {
        /// The name.
        name: String,
    },
}

/// What a statement about versions answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionAnswer {
    /// The versions, oldest first.
    Versions(Vec<VersionRow>),
    /// The tags, by name.
    Tags(Vec<TagRow>),
    /// One tag.
    Tag(TagRow),
    /// The branches, by name.
    Branches(Vec<BranchRow>),
    /// The newest version after a restore, or the first one of a branch.
    Version(u64),
    /// It is done.
    Done,
}

impl VersionAction {
    /// Returns the command word of a change.
    pub fn writes(&self) -> Option<&'static str> {
        match self {
            Self::List | Self::Tags | Self::Tag { .. } | Self::Branches => None,
            Self::Restore { .. } => Some("RESTORE"),
            Self::CreateTag { .. } => Some("CREATE TAG"),
            Self::MoveTag { .. } => Some("ALTER TAG"),
            Self::DropTag { .. } => Some("DROP TAG"),
            Self::CreateBranch { .. } => Some("CREATE BRANCH"),
            Self::DropBranch { .. } => Some("DROP BRANCH"),
        }
    }
}

impl VersionPlan {
    /// Returns what is needed: OWNERSHIP to change something, SELECT to look.
    pub fn requirements(&self) -> Vec<Requirement> {
        let privilege = if self.action.writes().is_some() { Privilege::Ownership } else { Privilege::Select };
        vec![Requirement::new(privilege, self.table.object())]
    }
}

impl Engine {
    /// Binds what is done with versions, tags and branches; [`Engine::versions`] does it.
    ///
    /// # Errors
    /// 42P01, 42809 for a view.
    pub async fn plan_version(
        &self,
        session: &Session,
        table: &ObjectName,
        branch: Option<&str>,
        action: VersionAction,
    ) -> Result<Plan> {
        let planner = Planner::new(self.clone(), session, "", &[]);
        let table = match action {
            VersionAction::Restore { .. } => planner.changeable_table(table).await?,
            _ => planner.table(table).await?,
        };
        let branch = branch.filter(|branch| *branch != "main").map(str::to_owned);
        Ok(Plan::Version(Box::new(VersionPlan { table, branch, action })))
    }
}
