//! What DataFusion's binder asks for: tables that were loaded before, functions
//! of the state. Remembers which tables it was asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::TableFunctionArgs;
use datafusion::common::config::ConfigOptions;
use datafusion::common::file_options::file_type::FileType;
use datafusion::common::{Result, TableReference, not_impl_err, plan_datafusion_err};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, TypePlanner};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableSource, WindowUDF, col,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use crate::sql::uuid::PostgresTypes;

/// The tables of one statement and the functions of its state.
pub(crate) struct Binder<'a> {
    state: &'a SessionState,
    sources: HashMap<TableReference, Arc<dyn TableSource>>,
    used: Mutex<Vec<TableReference>>,
    types: Arc<dyn TypePlanner>,
}

impl<'a> Binder<'a> {
    /// Returns a binder over loaded tables.
    pub(crate) fn new(state: &'a SessionState, sources: HashMap<TableReference, Arc<dyn TableSource>>) -> Self {
        Self { state, sources, used: Mutex::default(), types: Arc::new(PostgresTypes::default()) }
    }

    /// Returns the tables that the statement was bound to.
    pub(crate) fn used(&self) -> Vec<TableReference> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Gives the columns of a plan the names that clients see.
pub(crate) fn renamed(plan: LogicalPlan, columns: &SchemaRef) -> Result<LogicalPlan> {
    let pairs = plan.schema().columns().into_iter().zip(columns.fields());
    let exprs: Vec<Expr> = pairs.map(|(column, field)| Expr::Column(column).alias(field.name())).collect();
    LogicalPlanBuilder::from(plan).project(exprs)?.build()
}

/// Returns an unqualified column whose name is taken as it is.
pub(crate) fn column(name: &str) -> Expr {
    col(datafusion::common::Column::from_name(name))
}

impl ContextProvider for Binder<'_> {
    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::clone(&self.types))
    }

    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let source = self.sources.get(&name).cloned();
        let source = source.ok_or_else(|| plan_datafusion_err!("table '{name}' not found"))?;
        self.used.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        Ok(source)
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        let function = self.state.table_functions().get(name).cloned();
        let function = function.ok_or_else(|| plan_datafusion_err!("table function '{name}' not found"))?;
        let context = SimplifyContext::builder().with_config_options(Arc::clone(self.state.config_options())).build();
        let simplifier = ExprSimplifier::new(context);
        let schema = datafusion::common::DFSchema::empty();
        let args = args
            .into_iter()
            .map(|arg| simplifier.coerce(arg, &schema).and_then(|arg| simplifier.simplify(arg)))
            .collect::<Result<Vec<_>>>()?;
        let provider = function.create_table_provider_with_args(TableFunctionArgs::new(&args, self.state))?;
        Ok(provider_as_source(provider))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.state.scalar_functions().get(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }

    fn get_file_type(&self, _extension: &str) -> Result<Arc<dyn FileType>> {
        not_impl_err!("files cannot be written")
    }
}
