//! Statements that concern the session only: settings, transaction blocks,
//! channels, upkeep.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lancegate_auth::Requirement;
use lancegate_sql::ast::{Show, Statement};

use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::session::JOBS_CHANNEL;

/// The statements that concern the session only, as a pattern: the one list of
/// them. They are over at once.
macro_rules! session_statements {
    () => {
        ::lancegate_sql::Statement::Set(_)
            | ::lancegate_sql::Statement::Show(_)
            | ::lancegate_sql::Statement::Reset(_)
            | ::lancegate_sql::Statement::Discard(_)
            | ::lancegate_sql::Statement::Begin(_)
            | ::lancegate_sql::Statement::Commit(_)
            | ::lancegate_sql::Statement::Rollback(_)
            | ::lancegate_sql::Statement::Savepoint(_)
            | ::lancegate_sql::Statement::Release(_)
            | ::lancegate_sql::Statement::RollbackTo(_)
            | ::lancegate_sql::Statement::SetTransaction(_)
            | ::lancegate_sql::Statement::Listen(_)
            | ::lancegate_sql::Statement::Unlisten(_)
    };
}
pub(crate) use session_statements;

/// A statement about the session.
#[derive(Debug, Clone)]
pub struct SessionPlan {
    /// The statement.
    pub statement: Statement,
    /// The columns of SHOW.
    pub schema: Option<SchemaRef>,
}

impl SessionPlan {
    /// Returns the columns of the answer, if it has rows.
    pub fn columns(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// Returns what the caller must hold: news of jobs are for those who may list them.
    pub fn requirements(&self) -> Vec<Requirement> {
        match &self.statement {
            Statement::Listen(_) => Requirement::job_registry().into(),
            _ => Vec::new(),
        }
    }

    /// Returns whether the statement may run in a block that an error has ended.
    pub fn ends_failed_block(&self) -> bool {
        matches!(self.statement, Statement::Commit(_) | Statement::Rollback(_) | Statement::RollbackTo(_))
    }
}

impl Planner {
    /// Binds a statement about the session.
    ///
    /// # Errors
    /// 42704 for SHOW of an unknown parameter, 0A000 for a channel.
    pub(super) fn plan_session(&self, statement: &Statement) -> Result<Plan> {
        let text = |name: &str| Field::new(name, DataType::Utf8, true);
        let schema = match statement {
            Statement::Show(Show::All) => Some(vec![text("name"), text("setting"), text("description")]),
            Statement::Show(Show::Setting(name)) => {
                self.caller.settings.get(name)?;
                Some(vec![text(name)])
            }
            Statement::Listen(listen) if listen.channel.as_str() != JOBS_CHANNEL => {
                return Err(no_channel(listen.channel.as_str()));
            }
            _ => None,
        };
        let schema = schema.map(|fields| Arc::new(Schema::new(fields)));
        Ok(Plan::Session(Box::new(SessionPlan { statement: statement.clone(), schema })))
    }
}

fn no_channel(name: &str) -> SqlError {
    SqlError::not_supported(format!("channel \"{name}\" is not supported"))
        .hint(format!("The one channel is \"{JOBS_CHANNEL}\", which tells of changes of jobs."))
}

#[cfg(test)]
mod tests {
    use lancegate_sql::{Limits, parse};

    use crate::exec::Engine;

    #[test]
    fn statements_about_the_session_are_small() {
        let cases = [
            ("SET search_path = public", true),
            ("SHOW search_path", true),
            ("RESET ALL", true),
            ("DISCARD ALL", true),
            ("BEGIN", true),
            ("COMMIT", true),
            ("ROLLBACK", true),
            ("SAVEPOINT s", true),
            ("RELEASE s", true),
            ("ROLLBACK TO s", true),
            ("SET TRANSACTION READ ONLY", true),
            ("LISTEN c", true),
            ("UNLISTEN *", true),
            ("VACUUM", false),
            ("SELECT 1", true),
            ("SELECT * FROM t", false),
            ("SHOW TABLES", false),
            ("SHOW JOBS", false),
            ("DROP TABLE t", false),
        ];
        for (sql, small) in cases {
            let statement = parse(sql, &Limits::default()).unwrap().remove(0).statement;
            assert_eq!(Engine::is_small(&statement), small, "{sql}");
        }
    }
}
