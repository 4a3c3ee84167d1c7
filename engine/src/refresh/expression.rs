//! SQL expressions of computed columns and refresh predicates: text in, a typed
//! and checked evaluator out.
//!
//! An expression sees the columns of one row and nothing else: no subquery, no
//! aggregate, no window, and only immutable functions, since its value must be a
//! function of its inputs' values.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, ExprSchemable, Volatility, cast};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::arithmetic::checked;
use crate::storage::nested;

/// Why a text is not an expression that a column can be computed by.
#[derive(Debug, thiserror::Error)]
pub enum ExpressionError {
    /// It does not parse, or names or types in it do not resolve.
    #[error(transparent)]
    Invalid(#[from] DataFusionError),
    /// A function whose result may differ for equal arguments.
    #[error("function {0}() is not immutable")]
    NotImmutable(String),
    /// A predicate of another type.
    #[error("argument of WHERE must be type boolean, not type {0}")]
    NotBoolean(DataType),
    /// Something that looks at more than one row.
    #[error("{0} are not allowed in the expression of a computed column")]
    NotScalar(&'static str),
}

/// What ADD COLUMN … AS must know of an expression before declaring it.
#[derive(Debug, Clone, PartialEq)]
pub struct Analyzed {
    /// The type of its values.
    pub data_type: DataType,
    /// Names of the columns that it reads, or paths of the fields inside them, in
    /// the table's order.
    pub inputs: Vec<String>,
}

/// An expression ready to run over batches of its input columns.
#[derive(Debug, Clone)]
pub struct Evaluator {
    inputs: SchemaRef,
    expression: Arc<dyn PhysicalExpr>,
}

static STATE: LazyLock<SessionState> = LazyLock::new(|| {
    let mut config = SessionConfig::new();
    config.options_mut().sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;
    // Errors point at the name that they are about.
    config.options_mut().sql_parser.collect_spans = true;
    SessionContext::new_with_config(config).state()
});

/// Parses and checks an expression over a table's columns.
///
/// # Errors
/// See [`ExpressionError`].
pub fn analyze(text: &str, table: &Schema) -> Result<Analyzed, ExpressionError> {
    let schema = DFSchema::try_from(table.clone())?;
    let expression = parse(text, &schema)?;
    ensure_row_wise(&expression)?;
    let inputs = inputs(&expression, table)?;
    let data_type = match expression.get_type(&schema)? {
        DataType::Null => DataType::Utf8,
        other => other,
    };
    Ok(Analyzed { data_type, inputs })
}

/// Returns what an expression reads: a field inside a column by its path, if
/// nothing else of the column is read.
fn inputs(expression: &Expr, table: &Schema) -> Result<Vec<String>, DataFusionError> {
    let mut read: Vec<Vec<String>> = Vec::new();
    expression.apply(|node| {
        let Some(path) = field_path(node) else { return Ok(TreeNodeRecursion::Continue) };
        read.push(path);
        Ok(TreeNodeRecursion::Jump)
    })?;
    let place = |path: &Vec<String>| table.fields().iter().position(|field| Some(field.name()) == path.first());
    read.sort_by(|one, two| (place(one), one).cmp(&(place(two), two)));
    // A path sorts before the fields inside it.
    read.dedup_by(|inner, outer| inner.starts_with(outer));
    let text = |path: &Vec<String>| nested::path_text(&path.iter().map(String::as_str).collect::<Vec<_>>());
    Ok(read.iter().map(text).collect())
}

fn field_path(expression: &Expr) -> Option<Vec<String>> {
    match expression {
        Expr::Column(column) => Some(vec![column.name.clone()]),
        Expr::ScalarFunction(call) if call.func.name() == "get_field" => {
            let (column, names) = call.args.split_first()?;
            let mut path = field_path(column)?;
            for name in names {
                let Expr::Literal(value, _) = name else { return None };
                path.push(value.try_as_str()??.to_owned());
            }
            Some(path)
        }
        _ => None,
    }
}

/// Parses and checks a predicate; the answer is what Lance's scanner filters by.
///
/// # Errors
/// See [`ExpressionError`]; a predicate that is not boolean is invalid.
pub fn predicate(text: &str, table: &Schema) -> Result<Expr, ExpressionError> {
    let mut fields: Vec<Arc<Field>> = table.fields().iter().cloned().collect();
    fields.extend(["_rowid", "_rowaddr"].map(|name| Arc::new(Field::new(name, DataType::UInt64, true))));
    let schema = DFSchema::try_from(Schema::new(fields))?;
    let expression = parse(text, &schema)?;
    ensure_row_wise(&expression)?;
    match expression.get_type(&schema)? {
        DataType::Boolean => Ok(expression),
        DataType::Null => Ok(cast(expression, DataType::Boolean)),
        other => Err(ExpressionError::NotBoolean(other)),
    }
}

impl Evaluator {
    /// Compiles a declared expression for batches with exactly the columns of
    /// `inputs`, giving values of `data_type`.
    ///
    /// # Errors
    /// See [`ExpressionError`].
    pub fn new(text: &str, inputs: SchemaRef, data_type: &DataType) -> Result<Self, ExpressionError> {
        let schema = DFSchema::try_from(inputs.as_ref().clone())?;
        let expression = parse(text, &schema)?;
        ensure_row_wise(&expression)?;
        let expression =
            if expression.get_type(&schema)? == *data_type { expression } else { cast(expression, data_type.clone()) };
        let expression = STATE.create_physical_expr(expression, &schema)?;
        Ok(Self { inputs, expression })
    }

    /// Returns the columns that [`Self::evaluate`] wants, in order.
    pub fn inputs(&self) -> &SchemaRef {
        &self.inputs
    }

    /// Computes one value per row of the batch.
    ///
    /// # Errors
    /// What the expression raises, for example a division by zero.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, DataFusionError> {
        self.expression.evaluate(batch)?.into_array(batch.num_rows())
    }
}

/// Unquoted names fold to lower case as PostgreSQL folds them. Tables declared
/// by other writers may spell an input as it is, without quotes; if folding
/// leaves a name unresolved, names are taken as written.
fn parse(text: &str, schema: &DFSchema) -> Result<Expr, ExpressionError> {
    let expression = match STATE.create_logical_expr(text, schema) {
        Ok(expression) => expression,
        Err(error) => as_written(text, schema).map_err(|_| error)?,
    };
    let context = SimplifyContext::builder().with_schema(Arc::new(schema.clone())).build();
    let coerced = ExprSimplifier::new(context).coerce(expression.unalias(), schema)?;
    // A value that has wrapped around would be stored.
    Ok(checked(coerced, schema)?)
}

fn as_written(text: &str, schema: &DFSchema) -> Result<Expr, DataFusionError> {
    let mut config = STATE.config().clone();
    config.options_mut().sql_parser.enable_ident_normalization = false;
    config.options_mut().sql_parser.dialect = datafusion::config::Dialect::Generic;
    SessionContext::new_with_config(config).state().create_logical_expr(text, schema)
}

fn ensure_row_wise(expression: &Expr) -> Result<(), ExpressionError> {
    let mut refusal = None;
    expression.apply(|node| {
        refusal = match node {
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) => {
                Some(ExpressionError::NotScalar("subqueries"))
            }
            Expr::AggregateFunction(_) | Expr::GroupingSet(_) => {
                Some(ExpressionError::NotScalar("aggregate functions"))
            }
            Expr::WindowFunction(_) => Some(ExpressionError::NotScalar("window functions")),
            Expr::Unnest(_) => Some(ExpressionError::NotScalar("set-returning functions")),
            Expr::Placeholder(_) => Some(ExpressionError::NotScalar("parameters")),
            Expr::ScalarFunction(call) if call.func.signature().volatility != Volatility::Immutable => {
                Some(ExpressionError::NotImmutable(call.func.name().to_owned()))
            }
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Ok(TreeNodeRecursion::Stop)
    })?;
    refusal.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Schema {
        Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("body", DataType::Utf8, true),
            Field::new("Mixed", DataType::Float64, true),
        ])
    }

    #[test]
    fn type_and_inputs_are_inferred() {
        let cases = [
            ("length(body)", DataType::Int32, vec!["body"]),
            ("id * 2 + length(body)", DataType::Int64, vec!["id", "body"]),
            ("\"Mixed\" / 2", DataType::Float64, vec!["Mixed"]),
            ("Mixed + 1", DataType::Float64, vec!["Mixed"]),
            ("case when id > 1 then upper(body) end", DataType::Utf8, vec!["id", "body"]),
            ("1 + 1", DataType::Int64, vec![]),
        ];
        for (text, data_type, inputs) in cases {
            let analyzed = analyze(text, &table()).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                (analyzed.data_type, analyzed.inputs),
                (data_type, inputs.into_iter().map(str::to_owned).collect()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_a_function_of_the_row_is_refused() {
        for text in ["random()", "now()", "sum(id)", "row_number() over ()", "(select 1)", "id + $1", "nope", "id +"] {
            assert!(analyze(text, &table()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_predicate_may_read_row_ids_and_must_be_boolean() {
        for text in ["_rowid in (1, 2)", "_rowaddr = 4294967296 and id is null", "body like 'a%'"] {
            predicate(text, &table()).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        for text in ["id + 1", "random() < 0.5"] {
            assert!(predicate(text, &table()).is_err(), "{text}");
        }
    }
}
