//! A recursive query whose reader leaves a column out would lose it in its recursive term, too, which may still need it.
//! So a node above it, which is nothing when it runs, reads every column.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{DFSchemaRef, Result, plan_err};
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

/// Returns a query all of whose columns are read.
pub(super) fn kept(input: LogicalPlan) -> LogicalPlan {
    LogicalPlan::Extension(Extension { node: Arc::new(Kept { input }) })
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Hash)]
struct Kept {
    input: LogicalPlan,
}

impl UserDefinedLogicalNodeCore for Kept {
    fn name(&self) -> &'static str {
        "Kept"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Kept: all columns")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        match <[LogicalPlan; 1]>::try_from(inputs) {
            Ok([input]) => Ok(Self { input }),
            Err(_) => plan_err!("a recursive query is one"),
        }
    }

    fn necessary_children_exprs(&self, _: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![(0..self.input.schema().fields().len()).collect()])
    }
}

/// Plans as DataFusion does, and leaves the node out.
#[derive(Debug)]
pub(crate) struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        logical_plan: &LogicalPlan,
        session_state: &SessionState,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(LeftOut)]);
        planner.create_physical_plan(logical_plan, session_state).await
    }
}

struct LeftOut;

#[async_trait]
impl ExtensionPlanner for LeftOut {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        _: &SessionState,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let is_ours = node.as_any().is::<Kept>();
        Ok(physical_inputs.first().filter(|_| is_ours).cloned())
    }
}
