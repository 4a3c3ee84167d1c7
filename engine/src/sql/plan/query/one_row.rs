//! Queries of one row that read nothing: `SELECT 1`, `SELECT $1 + 1`,
//! `SELECT current_user`.
//!
//! Clients send them all the time, and choosing operators for them takes far
//! longer than evaluating them. What is let through here is so small that it
//! is bound and evaluated where the connection is served: few expressions,
//! none of which can compute or allocate for long.

use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ParamValues, Result, ScalarValue, internal_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, Operator, Projection};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::planner::create_physical_exprs;
use sqlparser::ast::{self as native, SetExpr, Statement as Native, Visit, Visitor};

use crate::arithmetic;
use crate::sql::functions::{of_path, of_session};
use crate::sql::rewrite::catalog;

/// Expressions of such a query, at most.
const EXPRESSIONS_MAX: usize = 64;

/// A row of no columns, which expressions without columns are evaluated on.
static NO_COLUMNS: LazyLock<Option<RecordBatch>> = LazyLock::new(|| {
    let one = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &one).ok()
});

/// Whether a statement is so small that any thread may bind it: one SELECT of
/// literals, parameters, casts, comparisons, arithmetic, and functions about the
/// session.
pub(crate) fn is_small(statement: &Native) -> bool {
    struct Small {
        expressions: usize,
        queries: usize,
    }
    impl Visitor for Small {
        type Break = ();

        fn pre_visit_query(&mut self, query: &native::Query) -> ControlFlow<()> {
            self.queries += 1;
            let plain = query.with.is_none() && matches!(query.body.as_ref(), SetExpr::Select(_));
            go_on(self.queries == 1 && plain)
        }

        fn pre_visit_table_factor(&mut self, _: &native::TableFactor) -> ControlFlow<()> {
            ControlFlow::Break(())
        }

        fn pre_visit_expr(&mut self, expr: &native::Expr) -> ControlFlow<()> {
            self.expressions += 1;
            go_on(self.expressions <= EXPRESSIONS_MAX && is_small_expression(expr))
        }
    }
    let Native::Query(_) = statement else { return false };
    statement.visit(&mut Small { expressions: 0, queries: 0 }).is_continue()
}

fn go_on(so: bool) -> ControlFlow<()> {
    if so { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

fn is_small_expression(expr: &native::Expr) -> bool {
    use native::{BinaryOperator as Binary, Expr, UnaryOperator as Unary};
    match expr {
        Expr::BinaryOp { op, .. } => matches!(
            op,
            Binary::Plus
                | Binary::Minus
                | Binary::Multiply
                | Binary::Divide
                | Binary::Modulo
                | Binary::Eq
                | Binary::NotEq
                | Binary::Lt
                | Binary::LtEq
                | Binary::Gt
                | Binary::GtEq
                | Binary::And
                | Binary::Or
        ),
        Expr::UnaryOp { op, .. } => matches!(op, Unary::Plus | Unary::Minus | Unary::Not),
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident());
            name.is_some_and(|name| of_session::NAMES.contains(&name.value.to_ascii_lowercase().as_str()))
        }
        // A function without its parentheses, or nothing that this query has.
        Expr::Identifier(name) => !of_path::NAMES.contains(&name.value.to_ascii_lowercase().as_str()),
        // `'t'::regclass` asks the catalog.
        Expr::Cast { data_type, .. } => !catalog::is_object(&data_type.to_string().to_ascii_lowercase()),
        Expr::Value(_)
        | Expr::Nested(_)
        | Expr::TypedString(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::Case { .. } => true,
        _ => false,
    }
}

/// The row of a bound query, ready to be evaluated.
#[derive(Debug, Clone)]
pub struct OneRow {
    /// Absent while parameters are missing.
    expressions: Option<Vec<Arc<dyn PhysicalExpr>>>,
}

impl OneRow {
    /// Returns the row of `plan`, or nothing if it takes more than evaluating a
    /// few small expressions.
    ///
    /// # Errors
    /// If an expression has no evaluation.
    pub(super) fn of(plan: &LogicalPlan, parameters: usize, state: &SessionState) -> Result<Option<Self>> {
        let Some(projection) = projection(plan) else { return Ok(None) };
        let mut count = 0;
        for expr in &projection.expr {
            if !is_small_bound(expr, &mut count)? {
                return Ok(None);
            }
        }
        let expressions = if parameters == 0 { Some(compiled(projection, state)?) } else { None };
        Ok(Some(Self { expressions }))
    }

    /// Evaluates the row of `plan`, the one that this was made of.
    ///
    /// # Errors
    /// What the expressions raise.
    pub(crate) fn evaluate(
        &self,
        plan: &LogicalPlan,
        values: Vec<ScalarValue>,
        state: &SessionState,
    ) -> Result<Vec<ArrayRef>> {
        let Some(row) = NO_COLUMNS.as_ref() else { return internal_err!("an empty row could not be made") };
        let bound;
        let expressions = match &self.expressions {
            Some(expressions) => expressions,
            None => {
                let filled = plan.clone().with_param_values(ParamValues::from(values))?;
                let Some(projection) = projection(&filled) else {
                    return internal_err!("a query changed its form with its parameters");
                };
                bound = compiled(projection, state)?;
                &bound
            }
        };
        expressions.iter().map(|expression| expression.evaluate(row)?.into_array(1)).collect()
    }
}

fn projection(plan: &LogicalPlan) -> Option<&Projection> {
    match plan {
        LogicalPlan::Projection(projection) => match projection.input.as_ref() {
            LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. }) => Some(projection),
            _ => None,
        },
        _ => None,
    }
}

fn compiled(projection: &Projection, state: &SessionState) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    create_physical_exprs(&projection.expr, &DFSchema::empty(), state.execution_props())
}

fn is_small_bound(expr: &Expr, count: &mut usize) -> Result<bool> {
    let mut small = true;
    expr.apply(|expr| {
        *count += 1;
        // Binding adds casts, but not many.
        small = *count <= 4 * EXPRESSIONS_MAX && is_small_node(expr);
        Ok(if small { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(small)
}

/// Other functions may need the optimizer to give them their meaning, may answer
/// differently each time, or may work for long.
fn is_small_node(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..)
        | Expr::Alias(_)
        | Expr::Placeholder(_)
        | Expr::Cast(_)
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::Negative(_)
        | Expr::Case(_) => true,
        Expr::BinaryExpr(binary) => matches!(
            binary.op,
            Operator::Plus
                | Operator::Minus
                | Operator::Multiply
                | Operator::Divide
                | Operator::Modulo
                | Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
                | Operator::And
                | Operator::Or
        ),
        Expr::ScalarFunction(call) => {
            of_session::NAMES.contains(&call.func.name()) || arithmetic::is_checked(&call.func)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(text: &str) -> bool {
        let parsed = lancegate_sql::parse(text, &lancegate_sql::Limits::default()).unwrap();
        match &parsed[0].statement {
            lancegate_sql::Statement::Query(query) => is_small(query),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_what_is_over_at_once_is_small() {
        for text in [
            "SELECT 1",
            "SELECT 1 AS a, 'x', NULL, true, -1.5",
            "SELECT $1::int + 1",
            "SELECT current_user, current_database(), version()",
            "SELECT CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END",
            "SELECT date '2024-01-01'",
        ] {
            assert!(small(text), "{text}");
        }
        for text in [
            "SELECT 1 FROM t",
            "SELECT (SELECT 1)",
            "SELECT EXISTS (SELECT 1)",
            "SELECT 1 UNION SELECT 2",
            "VALUES (1)",
            "WITH a AS (SELECT 1) SELECT 1",
            "SELECT repeat('x', 1000000000)",
            "SELECT random()",
            "SELECT 'a' ~ 'b'",
            "SELECT count(*)",
            "SELECT current_schema",
            "SELECT 't'::regclass::oid",
            "SELECT current_schema()",
            "SELECT * FROM generate_series(1, 10)",
        ] {
            assert!(!small(text), "{text}");
        }
        let long = format!("SELECT {}", vec!["1"; EXPRESSIONS_MAX + 1].join(", "));
        assert!(!small(&long));
        let deep = format!("SELECT 1{}", " + 1".repeat(EXPRESSIONS_MAX));
        assert!(!small(&deep));
    }
}
