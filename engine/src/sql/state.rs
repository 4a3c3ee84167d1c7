//! The planner state of a session, made once and shared by its statements.
//!
//! Copying a state copies the registry of every function, which takes longer
//! than a small query. So nothing here changes a state; what differs from
//! statement to statement, the time that `now()` answers, goes in from outside.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};
use datafusion::common::Result;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::{FunctionRegistry, SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::OptimizerConfig;
use datafusion::physical_plan::ExecutionPlan;

use crate::sql::plan::query::calls;

/// A state that is not changed any more.
#[derive(Debug)]
pub struct PlannerState {
    state: SessionState,
    task: OnceLock<Arc<TaskContext>>,
}

impl Deref for PlannerState {
    type Target = SessionState;

    fn deref(&self) -> &SessionState {
        &self.state
    }
}

impl PlannerState {
    /// Returns a state to share.
    pub fn new(mut state: SessionState) -> Self {
        // Gives physical expressions the options of this state, not the defaults.
        state.mark_start_execution();
        Self { state, task: OnceLock::new() }
    }

    /// Returns a copy to add functions to.
    pub fn to_state(&self) -> SessionState {
        self.state.clone()
    }

    /// Returns what plans of this state are executed in.
    pub fn task(&self) -> Arc<TaskContext> {
        Arc::clone(self.task.get_or_init(|| self.state.task_ctx()))
    }

    /// Optimizes a plan and chooses its operators. `now()` is the moment of this
    /// call.
    ///
    /// # Errors
    /// What the optimizer and the table providers raise.
    pub async fn physical(&self, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        if matches!(plan, LogicalPlan::Explain(_)) {
            // Its rows tell of every step, which only the state itself writes down.
            let mut state = self.to_state();
            state.mark_start_execution();
            return state.create_physical_plan(plan).await;
        }
        let analyzed = self.state.analyzer().execute_and_check(plan.clone(), self.state.config_options(), |_, _| {})?;
        let optimized = self.state.optimizer().optimize(analyzed, &Moment::of(&self.state), |_, _| {})?;
        let optimized = calls::lift(optimized)?;
        self.state.query_planner().create_physical_plan(&optimized, &self.state).await
    }
}

/// A state at the time of one statement.
struct Moment<'a> {
    state: &'a SessionState,
    now: DateTime<Utc>,
    aliases: Arc<AliasGenerator>,
}

impl<'a> Moment<'a> {
    fn of(state: &'a SessionState) -> Self {
        Self { state, now: Utc::now(), aliases: Arc::new(AliasGenerator::new()) }
    }
}

impl OptimizerConfig for Moment<'_> {
    fn query_execution_start_time(&self) -> Option<DateTime<Utc>> {
        Some(self.now)
    }

    fn alias_generator(&self) -> &Arc<AliasGenerator> {
        &self.aliases
    }

    fn options(&self) -> Arc<ConfigOptions> {
        Arc::clone(self.state.config_options())
    }

    fn function_registry(&self) -> Option<&dyn FunctionRegistry> {
        Some(self.state)
    }
}
