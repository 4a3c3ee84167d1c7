//! Table functions over system relations: `gpu_classes()`, `describe_job(id)`,
//! `explain_job(id)`, `job_children(id)`, `function_errors(table)`, `column_status(table)`.
//!
//! A function has arguments and so is no relation that the binder finds by its
//! name; it checks the caller's privileges itself, before it reads anything.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{TableFunctionImpl, TableProvider};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use futures::future::BoxFuture;
use lancegate_auth::Requirement;
use lancegate_sql::ObjectName;
use sqlparser::tokenizer::Token;

use super::column_status::StatusesOfTable;
use super::describe_job::DescribeJob;
use super::explain_job::ExplainJob;
use super::function_errors::ErrorsOfTable;
use super::gpu_classes::GpuClasses;
use super::jobs::ChildrenOf;
use super::{LazyRelation, SystemContext, SystemRelation};
use crate::error::{Result, SqlError};

/// Returns whether a table function is one of these.
pub fn is_one(name: &str) -> bool {
    ["gpu_classes", "describe_job", "explain_job", "job_children", "function_errors", "column_status"].contains(&name)
}

/// Makes the functions known to a planner state, for one caller.
pub fn register(state: &mut SessionState, context: &SystemContext) {
    let functions: [(&str, Make); 6] = [
        ("gpu_classes", |arguments| {
            no_arguments("gpu_classes", arguments)?;
            Ok(Arc::new(GpuClasses))
        }),
        ("describe_job", |arguments| Ok(Arc::new(DescribeJob { id: text("describe_job", "job id", arguments)? }))),
        ("explain_job", |arguments| Ok(Arc::new(ExplainJob { id: text("explain_job", "job id", arguments)? }))),
        ("job_children", |arguments| Ok(Arc::new(ChildrenOf { id: text("job_children", "job id", arguments)? }))),
        ("function_errors", |arguments| {
            let table = table_name(&text("function_errors", "table name", arguments)?)?;
            Ok(Arc::new(ErrorsOfTable { table }))
        }),
        ("column_status", |arguments| {
            let table = table_name(&text("column_status", "table name", arguments)?)?;
            Ok(Arc::new(StatusesOfTable { table }))
        }),
    ];
    for (name, make) in functions {
        let function = Arc::new(RelationFunction { make, context: context.clone() });
        state.register_udtf(name, function);
    }
}

type Make = fn(&[Expr]) -> DataFusionResult<Arc<dyn SystemRelation>>;

#[derive(Debug)]
struct RelationFunction {
    make: Make,
    context: SystemContext,
}

impl TableFunctionImpl for RelationFunction {
    fn call(&self, arguments: &[Expr]) -> DataFusionResult<Arc<dyn TableProvider>> {
        let relation = Arc::new(Guarded((self.make)(arguments)?));
        Ok(Arc::new(LazyRelation::new(relation, self.context.clone())))
    }
}

/// A relation that nobody else checks the requirements of.
#[derive(Debug)]
struct Guarded(Arc<dyn SystemRelation>);

impl SystemRelation for Guarded {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn requirements(&self) -> Vec<Requirement> {
        self.0.requirements()
    }

    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move {
            for Requirement { privilege, object } in self.requirements() {
                let shown = object.to_string();
                if !context.allows(privilege, object).await? {
                    return Err(SqlError::permission_denied("function", self.name())
                        .detail(format!("It needs {} on {shown}.", privilege.as_sql())));
                }
            }
            self.0.rows(context, limit).await
        })
    }
}

fn no_arguments(name: &str, arguments: &[Expr]) -> DataFusionResult<()> {
    if arguments.is_empty() { Ok(()) } else { plan_err!("function {name}() takes no arguments") }
}

fn text(name: &str, what: &str, arguments: &[Expr]) -> DataFusionResult<String> {
    match arguments {
        [
            Expr::Literal(
                ScalarValue::Utf8(Some(id)) | ScalarValue::LargeUtf8(Some(id)) | ScalarValue::Utf8View(Some(id)),
                _,
            ),
        ] => Ok(id.clone()),
        _ => plan_err!("function {name}(text) takes one {what} as a literal"),
    }
}

/// Reads a name as SQL writes it: parts apart by dots, folded unless they are quoted.
fn table_name(text: &str) -> DataFusionResult<ObjectName> {
    let parsed = sqlparser::parser::Parser::new(&sqlparser::dialect::PostgreSqlDialect {}).try_with_sql(text).and_then(
        |mut parser| {
            let name = parser.parse_object_name(false)?;
            parser.expect_token(&Token::EOF).map(|_| name)
        },
    );
    match parsed.ok().as_ref().and_then(ObjectName::from_native) {
        Some(name) => Ok(name),
        None => plan_err!("invalid name \"{text}\""),
    }
}
