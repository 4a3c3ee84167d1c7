//! Registered Functions that a query calls.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::logical_expr::ScalarUDF;
use lancegate_auth::{Privilege, Requirement};
use lancegate_functions::Definition;
use lancegate_sql::ObjectName;
use sha2::{Digest as _, Sha256};
use sqlparser::ast::{
    self as native, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName as NativeName,
    Statement as Native, visit_expressions, visit_expressions_mut,
};

use crate::error::{Result, SqlError};
use crate::refresh::FunctionHost;
use crate::refresh::function::MadeBy;
use crate::sql::functions::register;
use crate::sql::functions::registered::RegisteredFunction;
use crate::sql::plan::Planner;
use crate::sql::plan::functions::{call, definition_of, object_of};
use crate::sqlstate::SqlState;

/// What a statement calls that the planner state does not know.
#[derive(Default)]
pub(super) struct Registered {
    /// By the names that it calls them by.
    found: BTreeMap<String, Found>,
    /// What it calls: one for each, or for each thing that a class is initialized with.
    functions: Vec<ScalarUDF>,
    /// What is needed of them.
    pub(super) requirements: Vec<Requirement>,
}

struct Found {
    own_name: String,
    definition: Definition,
    made_by: MadeBy,
    host: FunctionHost,
}

impl Registered {
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Makes them known to a state.
    pub(super) fn register(&self, state: &mut SessionState) {
        for function in &self.functions {
            register(state, function.clone());
        }
    }

    /// Makes names of several parts one part, as they are registered, and puts arguments in the order of the parameters.
    ///
    /// # Errors
    /// 42883, 42601 for arguments that do not fit.
    pub(super) fn rename(&mut self, statement: &mut Native) -> Result<()> {
        let mut renamed: BTreeMap<String, ScalarUDF> = BTreeMap::new();
        let result = visit_expressions_mut(statement, |expr| {
            if let Expr::Function(function) = expr
                && let Some(name) = ObjectName::from_native(&function.name)
                && let Some(found) = self.found.get(&key(&name))
                && let Err(error) = found.rename(function, key(&name), &mut renamed)
            {
                return ControlFlow::Break(error);
            }
            ControlFlow::Continue(())
        });
        self.functions = renamed.into_values().collect();
        result.break_value().map_or(Ok(()), Err)
    }
}

impl Found {
    fn rename(
        &self,
        function: &mut native::Function,
        mut called: String,
        renamed: &mut BTreeMap<String, ScalarUDF>,
    ) -> Result<()> {
        let mut made_with = None;
        let named = |argument: &FunctionArg| !matches!(argument, FunctionArg::Unnamed(_));
        if let FunctionArguments::List(list) = &mut function.args
            && (!self.definition.initialization.is_empty() || list.args.iter().any(named))
        {
            let given = call::arguments(&self.definition, &self.own_name, &list.args)?;
            made_with = call::initialization(&self.definition, &self.own_name, &given.initialization)?;
            let parameters = given.parameters.into_iter();
            list.args = parameters.map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).collect();
        }
        if let Some(made_with) = &made_with {
            let digest = Sha256::digest(&made_with.row);
            called = format!("{called}#{digest:x}").chars().take(called.len() + 17).collect();
        }
        function.name = NativeName::from(vec![Ident::with_quote('"', &called)]);
        let row = made_with.map(|made_with| made_with.row);
        renamed.entry(called).or_insert_with_key(|called| {
            let Self { own_name, definition, made_by, host } = self;
            let function = RegisteredFunction {
                called: called.clone(),
                own_name: own_name.clone(),
                definition: Arc::new(definition.clone()),
                made_by: made_by.clone(),
                initialization: row,
                host: host.clone(),
            };
            function.define()
        });
        Ok(())
    }
}

impl Planner {
    /// Finds the Functions that a statement calls.
    ///
    /// # Errors
    /// 55000 for one that is disabled.
    pub(super) async fn registered(&self, state: &SessionState, statement: &Native) -> Result<Registered> {
        let mut unknown: BTreeMap<String, ObjectName> = BTreeMap::new();
        let _ = visit_expressions(statement, |expr| {
            if let Expr::Function(function) = expr
                && let Some(name) = ObjectName::from_native(&function.name)
                && !is_known(state, &key(&name))
            {
                unknown.insert(key(&name), name);
            }
            ControlFlow::<()>::Continue(())
        });
        let mut found = Registered::default();
        for (called, name) in unknown {
            let Some(function) = self.find_function(&name, None).await? else { continue };
            if function.disabled {
                let message = format!("version {} of function \"{}\" is disabled", function.version, name.name);
                return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
            }
            found.requirements.push(Requirement::new(Privilege::Usage, object_of(&function.name)));
            let definition = definition_of(&function)?;
            let host = self.engine.functions().clone();
            let made_by = MadeBy { database: function.name.database.clone(), owner: function.owner };
            found.found.insert(called, Found { own_name: function.name.name, definition, made_by, host });
        }
        Ok(found)
    }
}

/// Returns whether a name is that of a built-in function.
pub(crate) fn is_known(state: &SessionState, name: &str) -> bool {
    state.scalar_functions().contains_key(name)
        || state.aggregate_functions().contains_key(name)
        || state.window_functions().contains_key(name)
}

/// The name as one text.
fn key(name: &ObjectName) -> String {
    let parts = [name.database.as_deref(), name.schema.as_deref(), Some(name.name.as_str())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(".")
}
