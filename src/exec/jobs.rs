//! Runs the statements about jobs.

use crate::error::{Result, SqlError};
use crate::exec::{Engine, Outcome};
use crate::session::{Session, StatementContext};
use crate::sql::plan::JobsPlan;

/// Lists, describes or controls jobs.
///
/// # Errors
/// 42704 for an unknown job, 55000 for one that is not in a state for this.
pub(crate) async fn run(
    engine: &Engine,
    session: &mut Session,
    plan: &JobsPlan,
    ctx: &StatementContext,
) -> Result<Outcome> {
    let _ = (engine, session, ctx);
    Err(SqlError::not_supported(format!("{} is not supported yet", plan.statement)))
}
