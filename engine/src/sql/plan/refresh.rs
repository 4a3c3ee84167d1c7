//! REFRESH COLUMN and EXPLAIN REFRESH COLUMN: which column of which table, with
//! which options.
//!
//! Everything that can be refused is refused here, before a job exists.

use arrow::datatypes::SchemaRef;
use lancegate_auth::{Object, Privilege, Requirement};
use lancegate_catalog::{FunctionVersion, TableName};
use lancegate_functions::Definition;
use lancegate_sql::{ErrorPolicy, FieldPath, RefreshOptions, ast};

use super::functions::definition_of;
use super::{Plan, Planner};
use crate::config::{DEFAULT_CLASS, GpuClass};
use crate::error::query::in_text;
use crate::error::{Result, SqlError};
use crate::exec::refresh::answer;
use crate::refresh::expression::{self, ExpressionError};
use crate::refresh::function::{Budget, MadeBy};
use crate::refresh::{FunctionSpec, RefreshSpec};
use crate::sql::resolve::BoundTable;
use crate::sqlstate::SqlState;
use crate::storage::computed::{self, ComputedColumn, ComputedKind};
use crate::storage::{StorageError, nested};
use crate::system::explain_job;

/// A bound REFRESH COLUMN.
#[derive(Debug, Clone)]
pub struct RefreshPlan {
    /// The table at the version that the column was looked up in.
    pub table: BoundTable,
    /// The column.
    pub column: ComputedColumn,
    /// Filter, options and WAIT as written.
    pub statement: ast::RefreshColumn,
    /// What fills a Function column.
    pub function: Option<FunctionSpec>,
    /// See [`RefreshPlan::columns`].
    pub schema: SchemaRef,
}

/// A bound EXPLAIN REFRESH COLUMN.
#[derive(Debug, Clone)]
pub struct ExplainRefreshPlan {
    /// Whether every step of the planner is shown.
    pub verbose: bool,
    /// The refresh that would run.
    pub refresh: RefreshPlan,
    /// See [`ExplainRefreshPlan::columns`].
    pub schema: SchemaRef,
}

impl RefreshPlan {
    /// Returns the columns of the answer.
    pub fn columns(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns what the caller must hold: UPDATE on the table and SELECT on it,
    /// because an expression reads its inputs.
    pub fn requirements(&self) -> Vec<Requirement> {
        let object = self.table.object();
        let mut needed =
            vec![Requirement::new(Privilege::Update, object.clone()), Requirement::new(Privilege::Select, object)];
        if let Some(call) = &self.column.function {
            let database = self.table.record.name.database.clone();
            let function = Object::Function { database, namespace: call.namespace.clone(), name: call.name.clone() };
            needed.push(Requirement::new(Privilege::Usage, function));
        }
        needed
    }

    /// Returns the work.
    pub fn spec(&self) -> RefreshSpec {
        RefreshSpec {
            location: self.table.record.location.clone(),
            column: self.column.name.clone(),
            field_id: Some(self.column.field_id),
            predicate: self.statement.filter.as_ref().map(|filter| filter.text.clone()),
            branch: self.statement.options.branch.clone(),
            num_workers: self.statement.options.num_workers,
            function: self.function.clone(),
        }
    }
}

impl ExplainRefreshPlan {
    /// Returns the columns of the answer.
    pub fn columns(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Planner {
    /// Binds REFRESH COLUMN.
    ///
    /// # Errors
    /// 42P01, 42703, 42809 for a column that is not computed, and bad options.
    pub(super) async fn plan_refresh(&self, statement: &ast::RefreshColumn) -> Result<Plan> {
        Ok(Plan::RefreshColumn(Box::new(self.bind_refresh(statement).await?)))
    }

    /// Binds EXPLAIN REFRESH COLUMN.
    ///
    /// # Errors
    /// As REFRESH COLUMN.
    pub(super) async fn plan_explain_refresh(&self, statement: &ast::ExplainRefresh) -> Result<Plan> {
        let refresh = self.bind_refresh(&statement.refresh).await?;
        let plan = ExplainRefreshPlan { verbose: statement.verbose, refresh, schema: explain_job::schema() };
        Ok(Plan::ExplainRefresh(Box::new(plan)))
    }

    async fn bind_refresh(&self, statement: &ast::RefreshColumn) -> Result<RefreshPlan> {
        let mut table = self.changeable_table(&statement.table).await?;
        table.ensure_lasting("a refresh")?;
        if let Some(branch) = &statement.options.branch {
            self.enter_branch(&mut table, branch, &statement.options).await?;
        }
        let named = computed_column(&table, &statement.column)?;
        // Columns that a Function fills together are refreshed by the first of them.
        let column = computed::outputs(&table.dataset, &named)?.into_iter().next().unwrap_or(named);
        ensure_options(&column, &statement.options)?;
        ensure_computable(&table, &column)?;
        ensure_predicate(&table, statement)?;
        let function = self.function_of(&table, &column, &statement.options).await?;
        Ok(RefreshPlan { table, column, statement: statement.clone(), function, schema: answer::schema() })
    }

    /// Returns what a Function column is filled by, with the options of this refresh.
    async fn function_of(
        &self,
        table: &BoundTable,
        column: &ComputedColumn,
        options: &RefreshOptions,
    ) -> Result<Option<FunctionSpec>> {
        if column.kind == ComputedKind::Expression {
            return Ok(None);
        }
        let Some(call) = &column.function else {
            return Err(SqlError::not_supported(format!("refreshing column \"{}\" is not supported", column.name))
                .detail("Other software bound its Function."));
        };
        let name = TableName {
            database: table.record.name.database.clone(),
            namespace: call.namespace.clone(),
            name: call.name.clone(),
        };
        if let Some(class) = &options.gpu_class {
            ensure_gpu_class(self.engine.gpu_classes(), class)
                .map_err(|error| error.at(options.position_of("gpu_class")))?;
        }
        let found = self.engine.catalog().function(&name, Some(call.version)).await?;
        let Some(version) = found else {
            let message = format!("version {} of function \"{}\" does not exist", call.version, call.name);
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
                .detail(format!("Column \"{}\" keeps its values and cannot be refreshed.", column.name)));
        };
        ensure_enabled(&version)?;
        let definition = definition_of(&version)?;
        if definition.gpu {
            self.ensure_gpus(&version.name.name, &definition, options)?;
        }
        Ok(Some(FunctionSpec {
            made_by: MadeBy { database: name.database, owner: version.owner.clone() },
            name: call.name.clone(),
            version: call.version,
            definition,
            arguments: call.arguments.clone(),
            application: call.application.clone(),
            initialization: call.initialization.as_ref().map(|initialization| initialization.row.clone()),
            skip: options.error_policy == Some(ErrorPolicy::Skip),
            max_failed_fraction: options.max_failed_fraction,
            max_failed_rows: options.max_failed_rows,
            row_timeout_seconds: options.row_timeout_seconds,
            init_timeout_seconds: options.init_timeout_seconds,
            batch_size: options.batch_size,
            processes_max: options.max_executor_processes_per_worker,
            budget: Budget {
                cpu_millis: options.cpu_millis,
                memory_bytes: options.memory_bytes,
                gpu_count: options.gpu_count,
            },
            gpu_class: options.gpu_class.clone(),
            publication_interval_rows: options.publication_interval_rows,
        }))
    }

    /// Refuses a refresh that needs a GPU where there is none for it.
    fn ensure_gpus(&self, function: &str, definition: &Definition, options: &RefreshOptions) -> Result<()> {
        if options.gpu_count == Some(0) {
            let message = format!("function \"{function}\" needs a GPU, and option \"gpu_count\" is 0");
            let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
            return Err(error.at(options.position_of("gpu_count")));
        }
        let class = options.gpu_class.as_deref().or(definition.gpu_class.as_deref()).unwrap_or(DEFAULT_CLASS);
        if self.engine.functions().has_devices(class) {
            return Ok(());
        }
        let message =
            format!("function \"{function}\" needs a GPU, and class \"{class}\" has no devices on this machine");
        Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint(
            "Key \"devices\" of the class in the configuration names them; option gpu_class names another class.",
        ))
    }

    async fn enter_branch(&self, table: &mut BoundTable, branch: &str, options: &RefreshOptions) -> Result<()> {
        let spec = RefreshSpec {
            location: table.record.location.clone(),
            column: String::new(),
            field_id: None,
            predicate: None,
            branch: Some(branch.to_owned()),
            num_workers: None,
            function: None,
        };
        table.dataset = match spec.open(self.engine.store()).await {
            Ok(dataset) => dataset,
            Err(StorageError::NotFound { .. }) => {
                let message = format!("branch \"{branch}\" of table \"{}\" does not exist", table.name());
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).at(options.position_of("branch")));
            }
            Err(error) => return Err(error.into()),
        };
        Ok(())
    }
}

fn computed_column(table: &BoundTable, path: &FieldPath) -> Result<ComputedColumn> {
    let relation = table.name();
    let parts: Vec<&str> = path.parts().iter().map(String::as_str).collect();
    let name = nested::path_text(&parts);
    let found = match computed::column(&table.dataset, &name) {
        Err(StorageError::NoColumn { .. }) => {
            let message = format!("column \"{name}\" of relation \"{relation}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        }
        found => found?,
    };
    if let Some(found) = found {
        return Ok(found);
    }
    let message = format!("column \"{name}\" of table \"{relation}\" is not a computed column");
    let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).detail("Only computed columns can be refreshed.");
    for outer in (1..parts.len()).rev().map(|length| nested::path_text(&parts[..length])) {
        if computed::column(&table.dataset, &outer)?.is_some() {
            return Err(error.hint(format!("It is a part of the computed column \"{outer}\". Refresh that.")));
        }
    }
    Err(error.hint(format!("Declare it with ALTER TABLE {relation} ADD COLUMN {path} AS (<expression>).")))
}

/// Refuses a declaration that cannot be computed any more: other software may
/// have dropped an input, or made columns read each other.
fn ensure_computable(table: &BoundTable, column: &ComputedColumn) -> Result<()> {
    for input in &column.inputs {
        if nested::field(table.dataset.schema(), input).is_none() {
            let message = format!("column \"{input}\" of relation \"{}\" does not exist", table.name());
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message)
                .detail(format!("Computed column \"{}\" is computed from it.", column.name))
                .hint("Drop the computed column and declare it again."));
        }
    }
    computed::read_by(&table.dataset, column)?;
    Ok(())
}

/// Refuses options that belong to the other kind of computed column, by name.
fn ensure_options(column: &ComputedColumn, options: &RefreshOptions) -> Result<()> {
    match column.kind {
        ComputedKind::Expression => match options.function_only().first() {
            None => Ok(()),
            Some(name) => Err(refused_option(name, column, options).detail(
                "The column is computed by a SQL expression; the option applies to columns computed by a Function.",
            )),
        },
        ComputedKind::Function if options.num_workers.is_some() => Err(refused_option("num_workers", column, options)
            .detail("The workers of a Function follow its resource budget.")
            .hint("Set cpu_millis, memory_bytes and gpu_count instead.")),
        ComputedKind::Function => Ok(()),
    }
}

fn ensure_enabled(function: &FunctionVersion) -> Result<()> {
    let (name, version) = (&function.name.name, function.version);
    if function.disabled {
        let message = format!("version {version} of function \"{name}\" is disabled");
        return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
            .hint("ALTER FUNCTION … SET (disabled = false) enables it."));
    }
    Ok(())
}

/// Refuses a class that the deployment has not (OP-03).
///
/// # Errors
/// 22023.
pub(super) fn ensure_gpu_class(classes: &[GpuClass], name: &str) -> Result<()> {
    if classes.iter().any(|class| class.name == name) {
        return Ok(());
    }
    let known: Vec<String> = classes.iter().map(|class| format!("'{}'", class.name)).collect();
    let message = format!("invalid value for option \"gpu_class\": \"{name}\"");
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        .detail(format!("Option \"gpu_class\" takes one of {}.", known.join(", ")))
        .hint("SHOW GPU CLASSES lists them."))
}

fn refused_option(name: &str, column: &ComputedColumn, options: &RefreshOptions) -> SqlError {
    let message = format!("option \"{name}\" is not valid for column \"{}\"", column.name);
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).at(options.position_of(name))
}

fn ensure_predicate(table: &BoundTable, statement: &ast::RefreshColumn) -> Result<()> {
    let Some(filter) = &statement.filter else { return Ok(()) };
    let schema = arrow::datatypes::Schema::from(table.dataset.schema());
    let Err(error) = expression::predicate(&filter.text, &schema) else { return Ok(()) };
    let error = predicate_error(error, &filter.text);
    // The place in the predicate, if it is known, in the client's text.
    let start = filter.position.get();
    let position = error.position.zip(start).map(|(within, start)| start + within - 1);
    Err(SqlError { position: None, ..error }.at(position.or(start)))
}

fn predicate_error(error: ExpressionError, text: &str) -> SqlError {
    match error {
        ExpressionError::Invalid(error) => in_text(&error, text),
        ExpressionError::NotImmutable(function) => {
            let message = "functions in the WHERE clause of REFRESH COLUMN are not immutable";
            SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message)
                .detail(format!("{function}() may give another result for another row or time."))
        }
        error @ ExpressionError::NotBoolean(_) => SqlError::from(error),
        ExpressionError::NotScalar(what) => {
            let message = format!("{what} are not allowed in the WHERE clause of REFRESH COLUMN");
            match what {
                "aggregate functions" => SqlError::new(SqlState::GROUPING_ERROR, message),
                "window functions" => SqlError::new(SqlState::WINDOWING_ERROR, message),
                _ => SqlError::not_supported(message),
            }
        }
    }
}
