//! Lets statements be ended that spend their time in joins.
//!
//! A task that is not wanted any more ends where it yields. DataFusion makes the leaves of a plan yield now and then, but
//! a join may make millions of batches of one batch of a leaf, all without asking the leaf again: the task went on for
//! minutes after its client had gone. So joins, and what unfolds lists, yield as well.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;

/// Operators that give more than they take.
const UNFOLDING: [&str; 6] =
    ["CrossJoinExec", "NestedLoopJoinExec", "HashJoinExec", "SortMergeJoinExec", "SymmetricHashJoinExec", "UnnestExec"];

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Cooperate;

impl PhysicalOptimizerRule for Cooperate {
    fn name(&self) -> &str {
        "cooperate"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let wrapped = plan.transform_up(|plan| {
            Ok(match UNFOLDING.contains(&plan.name()) {
                true => Transformed::yes(Arc::new(CooperativeExec::new(plan)) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(plan),
            })
        });
        wrapped.map(|wrapped| wrapped.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}
