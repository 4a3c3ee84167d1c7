//! Conversions between the rows of a UNION or of VALUES, the sides of a join, and the keys of
//! a sort.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::logical_plan::{Join, Projection, Sort, Union, Values};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, LogicalPlanBuilder};

use super::{Coercions, Float, kind};

pub(super) fn convert(coercions: &Coercions, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Union(union) => unite(coercions, union),
        LogicalPlan::Values(values) => rows(coercions, values),
        LogicalPlan::Join(join) if !join.on.is_empty() => sides(coercions, join),
        LogicalPlan::Sort(sort) => keys(coercions, sort),
        other => Ok(Transformed::no(other)),
    }
}

/// A column that is a float in one query and a decimal in another is a float in all.
fn unite(coercions: &Coercions, union: Union) -> Result<Transformed<LogicalPlan>> {
    let width = union.schema.fields().len();
    let kinds = |column: usize| {
        let of = |input: &Arc<LogicalPlan>| input.schema().fields().get(column).map(|field| field.data_type().clone());
        union.inputs.iter().filter_map(of).collect::<Vec<_>>()
    };
    let mut floats: Vec<Option<bool>> = Vec::with_capacity(width);
    for column in 0..width {
        let kinds = kinds(column);
        let mixed = kinds.iter().any(DataType::is_floating) && kinds.iter().any(DataType::is_decimal);
        floats.push(mixed.then(|| !kinds.contains(&DataType::Float64)));
    }
    if floats.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.into_iter().map(|input| {
        let columns = input.schema().iter().zip(&floats).map(|((relation, field), float)| {
            let column = Expr::Column((relation, field).into());
            match float {
                Some(single) if field.data_type().is_decimal() => {
                    coercions.float(column, *single).alias_qualified(relation.cloned(), field.name())
                }
                _ => column,
            }
        });
        let columns = columns.collect();
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, input)?)))
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// The scale of the decimal that DataFusion gives a float.
const SCALES: [(DataType, i8); 2] = [(DataType::Float64, 15), (DataType::Float32, 7)];

/// A column of VALUES that was made a decimal although there are floats in it.
fn rows(coercions: &Coercions, values: Values) -> Result<Transformed<LogicalPlan>> {
    let Values { schema, values } = values;
    let mut rows = values;
    let mut changed = false;
    for (column, field) in schema.fields().iter().enumerate() {
        let DataType::Decimal128(_, scale) = field.data_type() else { continue };
        let float = |value: &Expr| {
            let Expr::Cast(Cast { expr, field: to }) = value else { return None };
            let from = kind(expr, &schema)?;
            let made = SCALES.iter().any(|(float, own)| *float == from && own <= scale);
            (made && to.data_type() == field.data_type()).then_some(from)
        };
        let floats: Vec<DataType> = rows.iter().filter_map(|row| row.get(column).and_then(float)).collect();
        // Floats alone are decimals because the statement says so.
        if floats.is_empty() || floats.len() == rows.len() {
            continue;
        }
        let single = !floats.contains(&DataType::Float64);
        for value in rows.iter_mut().filter_map(|row| row.get_mut(column)) {
            let own = match std::mem::take(value) {
                Expr::Cast(Cast { expr, field: to }) if to.data_type() == field.data_type() => *expr,
                other => other,
            };
            let decimal = kind(&own, &schema).is_some_and(|kind| kind.is_decimal());
            *value = if decimal { coercions.float(own, single) } else { own };
        }
        changed = true;
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Values(Values { schema, values: rows })));
    }
    LogicalPlanBuilder::values(rows)?.build().map(Transformed::yes)
}

fn sides(coercions: &Coercions, mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut changed = false;
    for (left, right) in &mut join.on {
        let kinds = (kind(left, join.left.schema()), kind(right, join.right.schema()));
        let (Some(left_kind), Some(right_kind)) = kinds else { continue };
        let mut values = vec![left.clone(), right.clone()];
        if coercions.compared(&mut values, &[left_kind, right_kind], Float::Double)? {
            *right = values.pop().unwrap_or_default();
            *left = values.pop().unwrap_or_default();
            changed = true;
        }
    }
    let join = LogicalPlan::Join(join);
    Ok(if changed { Transformed::yes(join) } else { Transformed::no(join) })
}

fn keys(coercions: &Coercions, sort: Sort) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&[sort.input.as_ref()]);
    let mut changed = false;
    let keys = sort.expr.into_iter().map(|key| {
        let key = coercions.sort_key(key, &schema);
        changed |= key.transformed;
        key.data
    });
    let keys = keys.collect();
    let sort = LogicalPlan::Sort(Sort { expr: keys, ..sort });
    Ok(if changed { Transformed::yes(sort) } else { Transformed::no(sort) })
}
