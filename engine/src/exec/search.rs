//! Runs searches: streamed like the rows of queries, with the same threads, memory
//! and cancel.

use std::sync::Arc;
use std::time::Instant;

use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;

use crate::error::Result;
use crate::exec::{Engine, Outcome, RowsTag, query};
use crate::session::StatementContext;
use crate::sql::plan::search::{Answer, SearchPlan, Work, text_row};

/// Runs a search.
pub(super) async fn search(engine: &Engine, plan: &SearchPlan, ctx: &StatementContext) -> Result<Outcome> {
    let (physical, task) = match &plan.work {
        Work::Known(batch) => return Ok(Outcome::batch(batch.clone(), "SELECT")),
        // Lance takes the context of a run for the run.
        Work::Scan(physical) => (merged(physical), plan.state.task_ctx()),
        Work::Query(query) => query::physical(engine, query, Vec::new(), ctx).await?,
    };
    match plan.answer {
        Answer::Rows => {
            let stream = query::described(engine.runtime().stream(physical, task, ctx), &plan.rows);
            Ok(Outcome::Rows { schema: Arc::clone(&plan.rows), stream, tag: RowsTag::Counted("SELECT") })
        }
        Answer::Explain { verbose } => {
            let text = DisplayableExecutionPlan::new(physical.as_ref()).indent(verbose).to_string();
            Ok(Outcome::batch(text_row(&text)?, "EXPLAIN"))
        }
        Answer::Analyze => {
            let began = Instant::now();
            let mut stream = engine.runtime().stream(Arc::clone(&physical), task, ctx);
            while let Some(batch) = stream.next().await {
                batch?;
            }
            let elapsed = began.elapsed();
            let plan = DisplayableExecutionPlan::with_metrics(physical.as_ref()).indent(true).to_string();
            // As Lance tells it: the plan below the node that runs it.
            let mut text = format!("AnalyzeExec verbose=true, elapsed={elapsed:?}\n");
            plan.lines().for_each(|line| text.extend(["  ", line, "\n"]));
            Ok(Outcome::batch(text_row(&text)?, "EXPLAIN"))
        }
    }
}

/// Keeps the order of rows that come from several partitions.
fn merged(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.output_ordering() {
        Some(ordering) if plan.output_partitioning().partition_count() > 1 => {
            Arc::new(SortPreservingMergeExec::new(ordering.clone(), Arc::clone(plan)))
        }
        _ => Arc::clone(plan),
    }
}
