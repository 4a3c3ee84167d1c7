//! The functions that SQL can call, and the planner state they live in.
//!
//! One state is made at start; a session clones it and adds the functions whose
//! answer depends on the session, anew when its settings change. A statement
//! that needs functions of its own clones once more.

use std::sync::Arc;

use datafusion::execution::disk_manager::DiskManagerMode;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateBuilder};
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::setup_pg_catalog;
use lancegate_wire::FormatSettings;

use crate::error::{Result, SqlError};
use crate::exec::{DEFAULT_DATABASE, QueryConfig};
use crate::sql::caller::Caller;
use crate::sql::cooperate::Cooperate;
use crate::sql::guard::recursion;
use crate::sql::opaque;
use crate::sql::operators::Operators;

mod age;
mod bounded;
pub(crate) mod input;
pub(crate) mod interval_aggregates;
pub(crate) mod intervals;
pub mod json;
mod narrowed;
pub(crate) mod numbers;
pub mod of_backends;
pub mod of_locks;
pub mod of_objects;
pub mod of_path;
pub mod of_privileges;
pub mod of_session;
pub(crate) mod of_text;
pub mod postgres;
pub(crate) mod registered;
pub mod sequences;
pub(crate) mod single_value;
mod sleep;
pub(crate) mod sum;
pub(crate) mod templates;
pub(crate) mod udf;
pub(crate) mod zones;

/// What a sort keeps in reserve to merge what it spilled, at most.
const SORT_RESERVE_BYTES_MAX: usize = 10 << 20;

/// Returns the state that all statements share: memory pool, spill folder,
/// options, functions and type names.
///
/// # Errors
/// If the spill folder cannot be used.
pub fn base_state(query: &QueryConfig) -> Result<SessionState> {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(query.memory_bytes)))
        .with_disk_manager_builder(
            datafusion::execution::disk_manager::DiskManagerBuilder::default()
                .with_mode(DiskManagerMode::Directories(vec![query.spill_directory.clone()]))
                .with_max_temp_directory_size(query.spill_bytes_max),
        )
        .build_arc()?;
    let context = SessionContext::new_with_config_rt(config(query), runtime);
    setup_pg_catalog(&context, DEFAULT_DATABASE, EmptyContextProvider).map_err(|error| SqlError::from(*error))?;
    context.register_udf(opaque::function());
    for function in postgres::functions() {
        context.register_udf(function);
    }
    for function in json::functions() {
        context.register_udf(function);
    }
    for function in age::functions() {
        context.register_udf(function);
    }
    context.register_udf(sleep::function());
    context.register_udf(zones::function());
    // Of a session it is another one, which has its zone; it is bound to this. DataFusion's would come back by its alias.
    context.deregister_udf("to_char");
    context.register_udf(templates::Templates::new(&FormatSettings::default()).of_moment.as_ref().clone());
    for function in bounded::functions(&context) {
        context.register_udf(function);
    }
    for function in narrowed::functions(&context) {
        context.register_udf(function);
    }
    for function in narrowed::window_functions() {
        context.register_udwf(function);
    }
    context.register_udaf(sum::function());
    context.register_udaf(interval_aggregates::average());
    let state = SessionStateBuilder::new_from_existing(context.state());
    let state = state.with_query_planner(Arc::new(recursion::Planner));
    let mut state = state.with_physical_optimizer_rule(Arc::new(Cooperate)).build();
    state.register_expr_planner(Arc::new(json::JsonOperators::new()))?;
    state.register_expr_planner(Arc::new(Operators::new()))?;
    Ok(state)
}

/// Returns the state of the statements of one caller.
pub fn session_state(base: &SessionState, caller: &Caller) -> SessionState {
    let mut config = base.config().clone();
    config.options_mut().execution.time_zone = Some(caller.settings.time_zone());
    let mut state = SessionStateBuilder::new_from_existing(base.clone()).with_config(config).build();
    for function in of_session::functions(caller) {
        register(&mut state, function);
    }
    state
}

/// Adds a function to a state; a function of the same name is replaced.
pub fn register(state: &mut SessionState, function: ScalarUDF) {
    // Registering in a session state only fails for read-only registries.
    let _ = state.register_udf(Arc::new(function));
}

fn config(query: &QueryConfig) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema(DEFAULT_DATABASE, "public")
        .with_information_schema(false)
        .with_target_partitions(query.threads.max(1));
    let options = config.options_mut();
    options.sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;
    options.sql_parser.collect_spans = true;
    // A literal with a point is numeric in PostgreSQL.
    options.sql_parser.parse_float_as_decimal = true;
    // Lance stores no view types, and a computed column's type is inferred here.
    options.sql_parser.map_string_types_to_utf8view = false;
    // The limit on nesting is the parser's; DataFusion's own would be second.
    options.sql_parser.recursion_limit = 10_000;
    // A table's own metadata is lost on the way through a call of a registered
    // Function; the check under an aggregate takes that for a damaged plan.
    options.execution.skip_physical_aggregate_schema_check = true;
    let share = query.memory_bytes / (8 * query.threads.max(1));
    options.execution.sort_spill_reservation_bytes = share.min(SORT_RESERVE_BYTES_MAX);
    config
}
