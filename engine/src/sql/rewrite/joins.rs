//! Joins with USING: each column of the list is there once, in front of the others, and is that of the left side, of
//! the right side, or whichever is not NULL (PostgreSQL, "Joined Tables"). DataFusion takes the left one always.

use sqlparser::ast::{
    ExcludeSelectItem, Expr, FunctionArg, FunctionArgExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};

use super::forms::call_with;
use super::outside;
use crate::error::{Result, SqlError};

/// Which side a merged column is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
    Either,
}

/// Names the columns of the one join of a SELECT by their sides.
///
/// # Errors
/// 0A000 for a RIGHT or FULL JOIN that merges columns of more than two relations.
pub(super) fn merged_columns(select: &mut Select) -> Result<()> {
    let sides: Vec<Side> = select.from.iter().flat_map(|from| &from.joins).filter_map(side).collect();
    if sides.is_empty() {
        return Ok(());
    }
    let Some(merged) = Merged::of(&select.from) else {
        return match sides.iter().all(|side| *side == Side::Left) {
            true => Ok(()),
            false => Err(SqlError::not_supported("this RIGHT or FULL JOIN that merges columns is not supported")
                .detail("Columns are merged with USING, and by one join of two relations with names.")
                .hint("Join with ON, and say which column is meant.")),
        };
    };
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) if options == WildcardAdditionalOptions::default() => {
                projection.extend(merged.all());
            }
            SelectItem::UnnamedExpr(Expr::Identifier(name)) if merged.has(&name) => {
                projection.push(SelectItem::ExprWithAlias { expr: merged.value(&name), alias: name });
            }
            other => projection.push(other),
        }
    }
    select.projection = projection;
    // In a subquery the name may be another's.
    let mut named = |expr: &mut Expr| {
        if let Expr::Identifier(name) = expr
            && merged.has(name)
        {
            *expr = merged.value(name);
        }
    };
    outside::of_subqueries(&mut select.projection, &mut named);
    outside::of_subqueries(&mut select.selection, &mut named);
    outside::of_subqueries(&mut select.group_by, &mut named);
    outside::of_subqueries(&mut select.having, &mut named);
    Ok(())
}

fn side(join: &Join) -> Option<Side> {
    let (constraint, side) = match &join.join_operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => (constraint, Side::Left),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (constraint, Side::Right),
        JoinOperator::FullOuter(constraint) => (constraint, Side::Either),
        _ => return None,
    };
    matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural).then_some(side)
}

/// A join of two relations that have names.
struct Merged {
    left: ObjectName,
    right: ObjectName,
    columns: Vec<Ident>,
    side: Side,
}

impl Merged {
    fn of(from: &[TableWithJoins]) -> Option<Self> {
        let [TableWithJoins { relation, joins }] = from else { return None };
        let [join] = joins.as_slice() else { return None };
        let side = side(join)?;
        let (JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)) = &join.join_operator
        else {
            return None;
        };
        let JoinConstraint::Using(columns) = constraint else { return None };
        let columns = columns.iter().map(|name| match name.0.as_slice() {
            [part] => part.as_ident().cloned(),
            _ => None,
        });
        Some(Self {
            left: shown(relation)?,
            right: shown(&join.relation)?,
            columns: columns.collect::<Option<_>>()?,
            side,
        })
    }

    fn has(&self, name: &Ident) -> bool {
        self.columns.iter().any(|column| folded(column) == folded(name))
    }

    fn value(&self, column: &Ident) -> Expr {
        let of = |relation: &ObjectName| {
            let parts = relation.0.iter().filter_map(|part| part.as_ident().cloned());
            Expr::CompoundIdentifier(parts.chain([column.clone()]).collect())
        };
        match self.side {
            Side::Left => of(&self.left),
            Side::Right => of(&self.right),
            Side::Either => {
                let sides = [&self.left, &self.right].map(|side| FunctionArg::Unnamed(FunctionArgExpr::Expr(of(side))));
                call_with("coalesce", sides.to_vec())
            }
        }
    }

    /// What `*` stands for.
    fn all(&self) -> Vec<SelectItem> {
        let column = |name: &Ident| SelectItem::ExprWithAlias { expr: self.value(name), alias: name.clone() };
        let others = |relation: &ObjectName| {
            let names = self.columns.iter().map(|name| ObjectName::from(vec![name.clone()])).collect();
            let options = WildcardAdditionalOptions {
                opt_exclude: Some(ExcludeSelectItem::Multiple(names)),
                ..WildcardAdditionalOptions::default()
            };
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(relation.clone()), options)
        };
        self.columns.iter().map(column).chain([others(&self.left), others(&self.right)]).collect()
    }
}

fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() }
}

/// Returns the name that columns of a relation are qualified with.
fn shown(factor: &TableFactor) -> Option<ObjectName> {
    match factor {
        TableFactor::Table { name, alias: None, args: None, .. } => Some(name.clone()),
        TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } => {
            alias.as_ref().map(|alias| ObjectName::from(vec![alias.name.clone()]))
        }
        _ => None,
    }
}
