//! Runs REFRESH COLUMN and EXPLAIN REFRESH COLUMN.

use crate::error::{Result, SqlError};
use crate::exec::{Engine, Outcome};
use crate::session::{Session, StatementContext};
use crate::sql::plan::{ExplainRefreshPlan, RefreshPlan};

/// Submits a refresh and answers with its handle, or waits for its end.
///
/// # Errors
/// 55006 if the column is being refreshed, and what the job ends with.
pub(crate) async fn refresh(
    engine: &Engine,
    session: &mut Session,
    plan: &RefreshPlan,
    ctx: &StatementContext,
) -> Result<Outcome> {
    let _ = (engine, session, plan, ctx);
    Err(SqlError::not_supported("REFRESH COLUMN is not supported yet"))
}

/// Shows what a refresh would do.
///
/// # Errors
/// As the planning of the refresh itself.
pub(crate) async fn explain(
    engine: &Engine,
    session: &Session,
    plan: &ExplainRefreshPlan,
    ctx: &StatementContext,
) -> Result<Outcome> {
    let _ = (engine, session, plan, ctx);
    Err(SqlError::not_supported("EXPLAIN REFRESH COLUMN is not supported yet"))
}
