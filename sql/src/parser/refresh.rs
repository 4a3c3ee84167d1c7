//! Refreshes and previews of them.

use crate::ast::{ExplainJob, ExplainOptions, ExplainRefresh, RefreshColumn, RefreshMaterializedView, Statement, Wait};
use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::options::{RefreshOptions, RefreshViewOptions};

/// Parses `REFRESH COLUMN` and `REFRESH MATERIALIZED VIEW`.
pub(super) fn refresh(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.expect(&["REFRESH"])?;
    if cursor.looking_at(&["COLUMN"]) {
        return refresh_column(cursor).map(Statement::RefreshColumn);
    }
    cursor.expect(&["MATERIALIZED", "VIEW"])?;
    if cursor.looking_at(&["CONCURRENTLY"]) {
        return Err(cursor.refuse(
            "REFRESH MATERIALIZED VIEW CONCURRENTLY",
            "Leave CONCURRENTLY out: readers see the old rows until the refresh is published.",
        ));
    }
    let view = cursor.object_name()?;
    if cursor.looking_at(&["CASCADE"]) {
        return Err(cursor.refuse(
            "REFRESH MATERIALIZED VIEW … CASCADE",
            "Refresh the views that this one reads first, each by itself.",
        ));
    }
    let options = RefreshViewOptions::from_options(&super::options::with(cursor)?)?;
    let wait = wait(cursor);
    Ok(Statement::RefreshMaterializedView(RefreshMaterializedView { view, options, wait }))
}

fn refresh_column(cursor: &mut Cursor<'_>) -> Result<RefreshColumn, ParseError> {
    cursor.expect(&["COLUMN"])?;
    let column = cursor.field_path()?;
    cursor.expect(&["ON"])?;
    cursor.take(&["TABLE"]);
    let table = cursor.object_name()?;
    let filter = if cursor.take(&["WHERE"]) { Some(cursor.expression()?) } else { None };
    let options = RefreshOptions::from_options(&super::options::with(cursor)?)?;
    let wait = wait(cursor);
    Ok(RefreshColumn { column, table, filter, options, wait })
}

fn wait(cursor: &mut Cursor<'_>) -> Option<Wait> {
    match cursor.take_one(&["WAIT", "NOWAIT"])? {
        "WAIT" => Some(Wait::Wait),
        _ => Some(Wait::NoWait),
    }
}

/// Parses what follows `EXPLAIN` for a refresh or a job.
pub(super) fn explained(cursor: &mut Cursor<'_>, options: ExplainOptions) -> Result<Statement, ParseError> {
    if options.analyze {
        return Err(
            cursor.refuse("EXPLAIN ANALYZE of a refresh", "Run the refresh and ask DESCRIBE JOB where its time went.")
        );
    }
    if options.format.is_some() {
        return Err(cursor.refuse("EXPLAIN FORMAT of a refresh", "Leave FORMAT out: the plan of a refresh is text."));
    }
    let verbose = options.verbose;
    if cursor.take(&["JOB"]) {
        let job_id = cursor.string()?;
        return Ok(Statement::ExplainJob(ExplainJob { verbose, job_id }));
    }
    cursor.expect(&["REFRESH"])?;
    if cursor.looking_at(&["MATERIALIZED"]) {
        return Err(cursor.refuse("EXPLAIN REFRESH MATERIALIZED VIEW", "Explain the view's query instead."));
    }
    let refresh = refresh_column(cursor)?;
    Ok(Statement::ExplainRefresh(ExplainRefresh { verbose, refresh }))
}
