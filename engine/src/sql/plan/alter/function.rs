//! `ADD COLUMN … AS f(…)` where `f` is a registered Function: one column for its result, or one for each output.

use arrow::datatypes::{DataType, Field, Fields};
use lancegate_auth::{Privilege, Requirement};
use lancegate_catalog::FunctionVersion;
use lancegate_functions::Definition;
use lancegate_functions::definition::Parameter;
use lancegate_functions::types::print_type;
use lancegate_sql::{Ident, ObjectName, ast};
use sqlparser::ast as native;

use super::{Shape, path_text};
use crate::error::{Result, SqlError};
use crate::refresh::expression;
use crate::refresh::function::{constant, groups_by};
use crate::sql::plan::Planner;
use crate::sql::plan::dml::no_column;
use crate::sql::plan::functions::{call, definition_of, no_function, object_of};
use crate::sql::resolve::BoundTable;
use crate::sqlstate::SqlState;
use crate::storage::computed::{self, Application, Argument, Declaration, FunctionCall, WHOLE_RESULT};

/// A bound declaration of Function columns.
pub(super) struct BoundFunction {
    /// One for each column; none if IF NOT EXISTS passes over them.
    pub(super) declarations: Vec<Declaration>,
    /// What is needed of the Function.
    pub(super) usage: Requirement,
}

impl Planner {
    /// Binds `AS f(a, b)` where `f` is a Function of ours; `None` for any other expression.
    pub(super) async fn bind_function(
        &self,
        table: &BoundTable,
        add: &ast::AddComputedColumn,
        shape: &mut Shape,
    ) -> Result<Option<BoundFunction>> {
        let Some((called, arguments)) = called(&add.expression.expr) else { return Ok(None) };
        let Some(function) = self.find_function(&called, add.options.version.as_deref()).await? else {
            if add.options.version.is_some() || add.names.len() > 1 {
                return Err(no_function(&called).at(add.expression.position.get()));
            }
            return Ok(None);
        };
        let bound = bind(table, add, shape, &function, arguments);
        bound
            .map(Some)
            .map_err(|error| if error.position.is_some() { error } else { error.at(add.expression.position.get()) })
    }
}

fn bind(
    table: &BoundTable,
    add: &ast::AddComputedColumn,
    shape: &mut Shape,
    function: &FunctionVersion,
    arguments: &[native::FunctionArg],
) -> Result<BoundFunction> {
    ensure_usable(table, add, function)?;
    let definition = definition_of(function)?;
    let given = call::arguments(&definition, &function.name.name, arguments)?;
    let arguments = bind_arguments(&definition, &given.parameters, shape, table)?;
    let initialization = call::initialization(&definition, &function.name.name, &given.initialization)?;
    let application = application(add, shape, table)?;
    let outputs = outputs(&add.names, &definition, &function.name.name)?;
    let usage = Requirement::new(Privilege::Usage, object_of(&function.name));
    let mut known = 0;
    for (name, _, _) in &outputs {
        known += usize::from(!shape.ensure_new(name, add.if_not_exists, table.name())?);
    }
    if known == outputs.len() {
        return Ok(BoundFunction { declarations: Vec::new(), usage });
    }
    if known > 0 {
        let message = format!("some of the columns of function \"{}\" exist already", function.name.name);
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message).detail("They are filled together."));
    }
    let call = FunctionCall {
        binding_id: format!("fb_{}", ulid::Ulid::new()),
        namespace: function.name.namespace.clone(),
        name: function.name.name.clone(),
        version: function.version,
        digest: definition.digest(),
        parameters: definition.parameters.iter().map(|parameter| parameter.name.clone()).collect(),
        arguments,
        application,
        initialization,
        ordinal: 0,
        result_field: WHOLE_RESULT.to_owned(),
    };
    let mut inputs: Vec<String> = Vec::new();
    for column in call.columns().chain(call.application.reads()) {
        if !inputs.contains(column) {
            inputs.push(column.clone());
        }
    }
    let mut declarations = Vec::with_capacity(outputs.len());
    for ((name, result_field, data_type), ordinal) in outputs.into_iter().zip(0..) {
        shape.add(Field::new(&name, data_type.clone(), true));
        declarations.push(Declaration {
            name,
            data_type,
            expression: String::new(),
            function: Some(FunctionCall { ordinal, result_field, ..call.clone() }),
            inputs: inputs.clone(),
            auto_refresh_enabled: add.options.auto_refresh_enabled,
            auto_refresh_interval_seconds: add.options.auto_refresh_interval_seconds,
        });
    }
    Ok(BoundFunction { declarations, usage })
}

fn ensure_usable(table: &BoundTable, add: &ast::AddComputedColumn, function: &FunctionVersion) -> Result<()> {
    if add.parent.is_some() {
        return Err(SqlError::not_supported("a Function cannot fill a field inside a column"));
    }
    if function.name.database != table.record.name.database {
        return Err(SqlError::not_supported("a Function of another database cannot fill a column"));
    }
    if let Some(declared) = &add.data_type {
        let message = format!("a Function column has the type of its Function, not {declared}");
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    if function.disabled {
        let message = format!("version {} of function \"{}\" is disabled", function.version, function.name.name);
        return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
            .hint("ALTER FUNCTION … SET (disabled = false) enables it."));
    }
    Ok(())
}

/// Names, result fields and types of the columns.
fn outputs(names: &[Ident], definition: &Definition, function: &str) -> Result<Vec<(String, String, DataType)>> {
    let whole = &definition.output.0;
    if let [name] = names {
        return Ok(vec![(name.as_str().to_owned(), WHOLE_RESULT.to_owned(), whole.clone())]);
    }
    let fields = match whole {
        DataType::Struct(fields) => fields.clone(),
        _ => Fields::empty(),
    };
    if fields.len() != names.len() {
        let message = format!("function {function} has {} outputs, not {}", fields.len().max(1), names.len());
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
            .detail(format!("It returns {}.", print_type(whole))));
    }
    let named = names.iter().enumerate().map(|(index, name)| {
        if names[..index].contains(name) {
            let message = format!("column \"{}\" specified more than once", name.as_str());
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        let field = &fields[index];
        Ok((name.as_str().to_owned(), field.name().clone(), field.data_type().clone()))
    });
    named.collect()
}

/// Binds FILTER, IGNORE NULLS and OVER.
fn application(add: &ast::AddComputedColumn, shape: &Shape, table: &BoundTable) -> Result<Application> {
    let Some(clauses) = &add.application else { return Ok(Application::default()) };
    let mut application = Application { ignore_nulls: clauses.ignore_nulls, ..Application::default() };
    if let Some(filter) = &clauses.filter {
        let at = filter.position.get();
        let analyzed =
            expression::analyze(&filter.text, &shape.schema).map_err(|error| SqlError::from(error).at(at))?;
        // A text of no other type is a NULL.
        if analyzed.data_type != DataType::Boolean && !filter.text.trim().eq_ignore_ascii_case("null") {
            let message = format!("argument of FILTER must be type boolean, not type {}", analyzed.data_type);
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).at(at));
        }
        application.filter = Some(filter.text.trim().to_owned());
        application.filter_reads = analyzed.inputs;
    }
    for column in &clauses.partition_by {
        let path = vec![column.as_str().to_owned()];
        let field = shape.at(&path).ok_or_else(|| no_column(column.as_str(), table.name()))?;
        if !groups_by(field.data_type()) {
            let message = format!("rows cannot be partitioned by column \"{}\"", column.as_str());
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                .detail(format!("Its type is {}.", print_type(field.data_type()))));
        }
        application.partition_by.push(path_text(&path));
    }
    Ok(application)
}

fn bind_arguments(
    definition: &Definition,
    arguments: &[native::Expr],
    shape: &Shape,
    table: &BoundTable,
) -> Result<Vec<Argument>> {
    let pairs = definition.parameters.iter().zip(arguments);
    let mut bound: Vec<Argument> = Vec::with_capacity(arguments.len());
    for (parameter, argument) in pairs {
        bound.push(match column_of(argument, shape) {
            Some(path) => {
                let column = path_text(&path);
                let field = shape.at(&path).ok_or_else(|| no_column(&column, table.name()))?;
                ensure_fits(parameter, &column, field.data_type())?;
                Argument::Column(column)
            }
            None => literal(parameter, argument)?,
        });
    }
    Ok(bound)
}

/// An argument without columns is evaluated once, here to see that it can be.
fn literal(parameter: &Parameter, argument: &native::Expr) -> Result<Argument> {
    let text = argument.to_string();
    let value = constant(&text, &parameter.arrow_type.0).map_err(|error| {
        let hint = "Arguments are columns and constants; declare an expression column and refresh it first.";
        SqlError::from(error).detail(format!("It is the argument for parameter \"{}\".", parameter.name)).hint(hint)
    })?;
    if value.is_null() && !parameter.nullable {
        let message = format!("parameter \"{}\" takes no NULL", parameter.name);
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
    }
    Ok(Argument::Literal { literal: text })
}

/// Returns name and arguments, if an expression is nothing but a call.
fn called(expression: &native::Expr) -> Option<(ObjectName, &[native::FunctionArg])> {
    let native::Expr::Function(function) = expression else { return None };
    let mut parts: Vec<String> = Vec::new();
    for part in &function.name.0 {
        parts.push(call::folded(part.as_ident()?));
    }
    let name = parts.pop()?;
    let (schema, database) = (parts.pop(), parts.pop());
    let native::FunctionArguments::List(list) = &function.args else { return None };
    Some((ObjectName { database, schema, name }, &list.args))
}

/// Returns the path of a column, if the argument names one.
fn column_of(argument: &native::Expr, shape: &Shape) -> Option<Vec<String>> {
    let idents = match argument {
        native::Expr::Identifier(ident) => std::slice::from_ref(ident),
        native::Expr::CompoundIdentifier(idents) => idents.as_slice(),
        _ => return None,
    };
    // As in expressions, a name that folding leaves unknown is taken as written.
    let path: Vec<String> = idents.iter().map(call::folded).collect();
    let written = || idents.iter().map(|ident| ident.value.clone()).collect();
    Some(if shape.at(&path).is_some() { path } else { written() })
}

/// The type of a column must be that of the parameter, whatever is said of NULLs inside it.
fn ensure_fits(parameter: &Parameter, column: &str, found: &DataType) -> Result<()> {
    if found.equals_datatype(&parameter.arrow_type.0) || print_type(found) == print_type(&parameter.arrow_type.0) {
        return Ok(());
    }
    let message = format!("column \"{column}\" does not fit parameter \"{}\"", parameter.name);
    let (found, wanted) = (print_type(found), print_type(&parameter.arrow_type.0));
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
        .detail(format!("The column is {found}, the parameter {wanted}.")))
}

/// Refuses to drop some of the columns that a Function fills together (decision 29).
pub(super) fn ensure_together(table: &BoundTable, column: &str, dropped: &[String]) -> Result<()> {
    let Some(computed) = computed::column(&table.dataset, column)? else { return Ok(()) };
    let Ok(outputs) = computed::outputs(&table.dataset, &computed) else { return Ok(()) };
    if outputs.iter().all(|output| dropped.contains(&output.name)) {
        return Ok(());
    }
    let names: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
    let drops: Vec<String> = names.iter().map(|name| format!("DROP COLUMN {name}")).collect();
    let message = format!("cannot drop column {column} of table {} alone", table.name());
    Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .detail(format!("Columns {} are filled together by {}.", names.join(", "), computed.expression))
        .hint(format!("ALTER TABLE {} {}.", table.name(), drops.join(", "))))
}
