//! What DataFusion's binder asks for: tables that were loaded before, functions
//! of the state. Remembers which tables it was asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::{DataType, IntervalUnit, SchemaRef, TimeUnit};
use datafusion::catalog::TableFunctionArgs;
use datafusion::common::config::ConfigOptions;
use datafusion::common::file_options::file_type::FileType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue, TableReference, not_impl_err, plan_datafusion_err};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, TypePlanner};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableSource, WindowUDF, col,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use lancegate_wire::FormatSettings;

use crate::sql::functions::input;
use crate::sql::parameters;
use crate::sql::uuid::PostgresTypes;

/// The tables of one statement and the functions of its state.
pub(crate) struct Binder<'a> {
    state: &'a SessionState,
    sources: HashMap<TableReference, Arc<dyn TableSource>>,
    used: Mutex<Vec<TableReference>>,
    types: Arc<dyn TypePlanner>,
    /// The values of the parameters, once they are known.
    values: &'a [ScalarValue],
    /// The parameters that are arguments of table functions.
    arguments: Mutex<Vec<(usize, DataType)>>,
    /// How texts are read.
    settings: FormatSettings,
}

/// Table functions whose arguments are whole numbers, or moments; those of others are texts.
const OF_NUMBERS: [&str; 2] = ["generate_series", "range"];

impl<'a> Binder<'a> {
    /// Returns a binder over loaded tables.
    pub(crate) fn new(
        state: &'a SessionState,
        sources: HashMap<TableReference, Arc<dyn TableSource>>,
        values: &'a [ScalarValue],
        settings: FormatSettings,
    ) -> Self {
        let (used, arguments) = (Mutex::default(), Mutex::default());
        Self { state, sources, used, types: Arc::new(PostgresTypes::of(state)), values, arguments, settings }
    }

    /// Returns the tables that the statement was bound to.
    pub(crate) fn used(&self) -> Vec<TableReference> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the parameters that were arguments of table functions, with their types.
    pub(crate) fn arguments(&self) -> Vec<(usize, DataType)> {
        self.arguments.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts the value of a parameter in its place. Before it is known, which is when the
    /// statement is described, any value will do: a table function has the same columns
    /// whatever its arguments are.
    fn argument(&self, function: &str, expr: Expr) -> Result<Transformed<Expr>> {
        let Expr::Placeholder(placeholder) = expr else { return Ok(Transformed::no(expr)) };
        let index =
            parameters::index_of(&placeholder.id).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let (usual, any) = match OF_NUMBERS.contains(&function) {
            true => (DataType::Int64, ScalarValue::Int64(Some(1))),
            false => (DataType::Utf8, ScalarValue::from("unknown")),
        };
        let known = placeholder.field.as_ref().map(|field| field.data_type().clone()).filter(|known| !known.is_null());
        let data_type = known.unwrap_or(usual);
        let value = match self.values.get(index) {
            Some(value) => value.cast_to(&data_type)?,
            None => any.cast_to(&data_type).or_else(|_| ScalarValue::try_from(&data_type))?,
        };
        // A series takes whole numbers of one type only, whatever the client has declared.
        let value = if data_type.is_integer() { value.cast_to(&DataType::Int64)? } else { value };
        self.arguments.lock().unwrap_or_else(PoisonError::into_inner).push((index, data_type));
        Ok(Transformed::yes(Expr::Literal(value, None)))
    }
}

/// Makes the arguments of a series of moments what DataFusion takes: timestamps of nanoseconds, of which one may be a
/// text, and an interval, which may be one, too.
fn of_moments(args: Vec<Expr>, settings: &FormatSettings) -> Result<Vec<Expr>> {
    let kind = |arg: &Expr| match arg {
        Expr::Literal(value, _) => Some(value.data_type()),
        _ => None,
    };
    let ends: Vec<DataType> = args.iter().take(2).filter_map(kind).collect();
    if args.len() != 3 || !ends.iter().any(|end| matches!(end, DataType::Timestamp(..) | DataType::Date32)) {
        return Ok(args);
    }
    let zone = ends.iter().find_map(|end| match end {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    });
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    let moment = |unit| DataType::Timestamp(unit, zone.clone());
    let made = args.into_iter().enumerate().map(|(index, arg)| {
        let Expr::Literal(value, metadata) = arg else { return Ok(arg) };
        let (reads, takes) = match index {
            0 | 1 => (moment(TimeUnit::Microsecond), moment(TimeUnit::Nanosecond)),
            _ => (interval.clone(), interval.clone()),
        };
        let value = match &value {
            ScalarValue::Utf8(Some(text)) => input::read(text, &reads, settings)?,
            _ => value,
        };
        Ok(Expr::Literal(value.cast_to(&takes)?, metadata))
    });
    made.collect()
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
        let context = SimplifyContext::builder().with_config_options(Arc::clone(self.state.config_options()));
        // `generate_series(now() - interval '7 days', now(), '1 day')`
        let context = context.with_current_time().build();
        let simplifier = ExprSimplifier::new(context);
        let schema = datafusion::common::DFSchema::empty();
        let args = args
            .into_iter()
            .map(|arg| Ok(arg.transform_up(|arg| self.argument(name, arg))?.data))
            .map(|arg: Result<Expr>| simplifier.coerce(arg?, &schema).and_then(|arg| simplifier.simplify(arg)))
            .collect::<Result<Vec<_>>>()?;
        let args = if OF_NUMBERS.contains(&name) { of_moments(args, &self.settings)? } else { args };
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
