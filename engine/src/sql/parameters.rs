//! The types of `$1`, `$2`, …: what the client declared, else what the place of
//! the parameter asks for, else `text`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, TypeSignature};
use datafusion::scalar::ScalarValue;
use lancegate_wire::types::PG_TYPE_KEY;

use crate::error::{Result, SqlError};
use crate::sqlstate::SqlState;

/// More parameters than the protocol can count.
const PARAMETERS_MAX: usize = 65_535;

/// Returns what DataFusion is told before it binds.
pub fn declared_fields(declared: &[Option<DataType>]) -> Vec<Option<FieldRef>> {
    let field = |(index, data_type): (usize, &Option<DataType>)| {
        let data_type = data_type.clone()?;
        Some(Arc::new(Field::new(format!("${}", index + 1), data_type, true)))
    };
    declared.iter().enumerate().map(field).collect()
}

/// The parameters of a bound plan.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    /// The types that the client is told and sends values of; a field says whether a text is JSON.
    pub reported: Vec<FieldRef>,
    /// The types that the plan was bound with; a value is cast to its own.
    bound: Vec<DataType>,
    /// Whether values of parameters decide what the plan is, and it was made without.
    pub awaits_values: bool,
}

impl Parameters {
    /// Returns the values as the plan takes them.
    ///
    /// # Errors
    /// 08P01 for a wrong number of values; 22P02, 22003 for one that does not fit.
    pub fn bind(&self, values: Vec<ScalarValue>) -> Result<Vec<ScalarValue>> {
        if self.awaits_values {
            return Err(SqlError::not_supported("parameters as arguments of table functions are not supported here"));
        }
        if values.len() != self.bound.len() {
            let message = format!("{} parameters are needed, {} were given", self.bound.len(), values.len());
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        let bound = values.into_iter().zip(&self.bound).map(|(value, data_type)| {
            if value.data_type() == *data_type { Ok(value) } else { value.cast_to(data_type) }
        });
        Ok(bound.collect::<Result<Vec<_>, _>>()?)
    }
}

/// Returns the parameters of a bound plan, and the plan with every one typed; `placed` are
/// those that binding has taken the place of, `with_values` or without.
///
/// # Errors
/// 42P02 for a name that is not a number.
pub fn resolve(
    plan: LogicalPlan,
    declared: &[Option<DataType>],
    (placed, with_values): (Vec<(usize, DataType)>, bool),
) -> Result<(LogicalPlan, Parameters)> {
    let mut inferred: Vec<Option<FieldRef>> = vec![None; declared.len()];
    let of_type = |data_type: DataType| Arc::new(Field::new("", data_type, true));
    let awaits_values = !placed.is_empty() && !with_values;
    for (index, data_type) in placed {
        if inferred.len() <= index {
            inferred.resize(index + 1, None);
        }
        inferred[index] = Some(of_type(data_type));
    }
    let found = plan.get_parameter_fields()?;
    for (name, field) in &found {
        let index = index_of(name)?;
        if inferred.len() <= index {
            inferred.resize(index + 1, None);
        }
        if let Some(found) = field.as_ref().filter(|found| !found.data_type().is_null()) {
            inferred[index] = Some(Arc::clone(found));
        }
    }
    for index in of_json(&plan)? {
        if let Some(inferred) = inferred.get_mut(index) {
            let metadata = HashMap::from([(PG_TYPE_KEY.to_owned(), "json".to_owned())]);
            *inferred = Some(Arc::new(Field::new("", DataType::Utf8, true).with_metadata(metadata)));
        }
    }
    for (index, data_type) in cast(&plan)?.into_iter().chain(arguments(&plan)?) {
        if let Some(inferred) = inferred.get_mut(index) {
            inferred.get_or_insert_with(|| of_type(data_type));
        }
    }
    for index in counted(&plan)? {
        if let Some(inferred) = inferred.get_mut(index) {
            inferred.get_or_insert_with(|| of_type(DataType::Int64));
        }
    }
    let of = |index: usize| declared.get(index).cloned().flatten();
    let reported: Vec<FieldRef> = inferred
        .iter()
        .enumerate()
        .map(|(index, inferred)| {
            let declared = of(index).map(of_type);
            declared.or_else(|| inferred.clone()).unwrap_or_else(|| of_type(DataType::Utf8))
        })
        .collect();
    let bound: Vec<DataType> = inferred
        .iter()
        .zip(&reported)
        .map(|(inferred, reported)| inferred.as_ref().unwrap_or(reported).data_type().clone())
        .collect();
    let plan = if found.is_empty() { plan } else { typed(plan, &bound)? };
    Ok((plan, Parameters { reported, bound, awaits_values }))
}

/// Returns the place of a parameter, counted from 0.
///
/// # Errors
/// 42P02 for a name that is not a number.
pub(crate) fn index_of(name: &str) -> Result<usize> {
    let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
    number
        .filter(|number| (1..=PARAMETERS_MAX).contains(number))
        .map(|number| number - 1)
        .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}")))
}

/// Returns the parameters whose type is written out, as in `$1::bigint`. A UUID
/// is sixteen bytes in the plan and is left as text, which converts to it.
fn cast(plan: &LogicalPlan) -> Result<Vec<(usize, DataType)>> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Cast(Cast { expr, field }) = expr
                    && let Expr::Placeholder(placeholder) = expr.as_ref()
                    && !matches!(field.data_type(), DataType::FixedSizeBinary(_))
                {
                    let index = index_of(&placeholder.id).ok();
                    found.extend(index.map(|index| (index, field.data_type().clone())));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Returns the parameters that are conditions, arguments of functions with one signature, as registered Functions have,
/// and the lists of `x = ANY ($1)`.
fn arguments(plan: &LogicalPlan) -> Result<Vec<(usize, DataType)>> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                for condition in conditions(expr) {
                    if let Expr::Placeholder(placeholder) = condition {
                        found.extend(index_of(&placeholder.id).ok().map(|index| (index, DataType::Boolean)));
                    }
                }
                if let Expr::ScalarFunction(function) = expr {
                    let types = argument_types(function, &schema);
                    for (argument, data_type) in function.args.iter().zip(types) {
                        if let Expr::Placeholder(placeholder) = argument {
                            found.extend(index_of(&placeholder.id).ok().map(|index| (index, data_type)));
                        }
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Returns the parameters that are cast to `json`, which a function does.
fn of_json(plan: &LogicalPlan) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(function) = expr
                    && function.func.name() == "json"
                    && let [Expr::Placeholder(placeholder)] = function.args.as_slice()
                {
                    found.extend(index_of(&placeholder.id).ok());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Returns the operands of an expression that are conditions.
fn conditions(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Not(operand) | Expr::IsTrue(operand) | Expr::IsFalse(operand) => vec![operand],
        Expr::BinaryExpr(binary) if matches!(binary.op, Operator::And | Operator::Or) => {
            vec![&binary.left, &binary.right]
        }
        _ => Vec::new(),
    }
}

/// Returns the types that the arguments of a call have to have, as far as they are known.
fn argument_types(function: &ScalarFunction, schema: &DFSchema) -> Vec<DataType> {
    match &function.func.signature().type_signature {
        TypeSignature::Exact(types) => types.clone(),
        // A cast to uuid, which takes text and bytes.
        _ if function.func.name() == "uuid" => vec![DataType::FixedSizeBinary(16)],
        // What `x = ANY (list)` is bound to.
        _ if function.func.name() == "array_has" => {
            let element = function.args.get(1).and_then(|element| element.get_type(schema).ok());
            let element = element.filter(|element| !element.is_null());
            element.map(|element| DataType::List(Arc::new(Field::new_list_field(element, true)))).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the parameters of LIMIT and OFFSET, which are whole numbers.
fn counted(plan: &LogicalPlan) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            for expr in [&limit.skip, &limit.fetch].into_iter().flatten() {
                expr.apply(|expr| {
                    if let Expr::Placeholder(placeholder) = expr {
                        found.extend(index_of(&placeholder.id).ok());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Types the parameters that binding left open, so that the columns of the
/// answer can be described.
fn typed(plan: LogicalPlan, types: &[DataType]) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| {
        let node = node.map_expressions(|expr| {
            expr.transform_up(|expr| match expr {
                Expr::Placeholder(mut placeholder)
                    if placeholder.field.as_ref().is_none_or(|field| field.data_type().is_null()) =>
                {
                    let known = index_of(&placeholder.id).ok().and_then(|index| types.get(index));
                    placeholder.field = known.map(|known| Arc::new(Field::new(&placeholder.id, known.clone(), true)));
                    Ok(Transformed::yes(Expr::Placeholder(placeholder)))
                }
                other => Ok(Transformed::no(other)),
            })
        })?;
        if !node.transformed {
            return Ok(node);
        }
        node.map_data(|node| match node {
            // The columns of VALUES are what was found when nothing was known of the parameters.
            LogicalPlan::Values(values) if values.schema.fields().iter().any(|field| field.data_type().is_null()) => {
                LogicalPlanBuilder::values(values.values)?.build()
            }
            node => node.recompute_schema(),
        })
    })?;
    // A column that got its type changes the schemas of all nodes above it.
    Ok(plan.data.transform_up(|node| node.recompute_schema().map(Transformed::yes))?.data)
}
