//! Registered Functions that a query calls.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::logical_expr::ScalarUDF;
use lancegate_auth::{Privilege, Requirement};
use lancegate_sql::ObjectName;
use sqlparser::ast::{
    Expr, Ident, ObjectName as NativeName, Statement as Native, visit_expressions, visit_expressions_mut,
};

use crate::error::{Result, SqlError};
use crate::refresh::function::MadeBy;
use crate::sql::functions::register;
use crate::sql::functions::registered::RegisteredFunction;
use crate::sql::plan::Planner;
use crate::sql::plan::functions::{definition_of, object_of};
use crate::sqlstate::SqlState;

/// What a statement calls that the planner state does not know.
#[derive(Default)]
pub(super) struct Registered {
    functions: Vec<ScalarUDF>,
    /// What is needed of them.
    pub(super) requirements: Vec<Requirement>,
}

impl Registered {
    pub(super) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Makes them known to a state.
    pub(super) fn register(&self, state: &mut SessionState) {
        for function in &self.functions {
            register(state, function.clone());
        }
    }

    /// Makes names of several parts one part, as they are registered.
    pub(super) fn rename(&self, statement: &mut Native) {
        let _ = visit_expressions_mut(statement, |expr| {
            if let Expr::Function(function) = expr
                && let Some(name) = ObjectName::from_native(&function.name)
                && self.functions.iter().any(|known| known.name() == key(&name))
            {
                function.name = NativeName::from(vec![Ident::with_quote('"', key(&name))]);
            }
            ControlFlow::<()>::Continue(())
        });
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
            let definition = definition_of(&function)?;
            found.requirements.push(Requirement::new(Privilege::Usage, object_of(&function.name)));
            let host = self.engine.functions().clone();
            let made_by = MadeBy { database: function.name.database.clone(), owner: function.owner };
            let name = function.name.name;
            found.functions.push(RegisteredFunction::define(called, name, definition, made_by, host));
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
