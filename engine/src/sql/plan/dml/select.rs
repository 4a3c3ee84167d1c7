//! The queries that read the rows of an UPDATE or DELETE.

use std::ops::ControlFlow;

use arrow::datatypes::{FieldRef, Schema};
use lancegate_sql::ObjectName;
use sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, Ident, Select, SelectItem, SetExpr, Statement, TableFactor,
    TableWithJoins, Update, UpdateTableFromKind, Value,
};

use super::exactly;
use crate::error::{Result, SqlError};
use crate::sql::rewrite::build;
use crate::sqlstate::SqlState;
use crate::storage::computed;

/// The column of a row's stable id in such a query.
pub(crate) const ROW_ID: &str = "_rowid";
/// The column of a row's address.
pub(crate) const ROW_ADDRESS: &str = "_rowaddr";

/// The table of a change and the name that its columns are qualified with.
pub(super) struct Target {
    pub(super) name: ObjectName,
    qualifier: Vec<Ident>,
}

/// Returns the table that UPDATE or DELETE names.
///
/// # Errors
/// 0A000 for anything but a table at its newest version.
pub(super) fn target(table: &TableWithJoins) -> Result<Target> {
    let TableFactor::Table { name, alias, args: None, version, .. } = &table.relation else {
        return Err(SqlError::not_supported("only tables can be changed"));
    };
    if version.is_some() {
        return Err(SqlError::not_supported("an earlier version of a table cannot be changed"));
    }
    let object = ObjectName::from_native(name)
        .ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, format!("improper relation name {name}")))?;
    let qualifier = match alias {
        Some(alias) => vec![alias.name.clone()],
        None => name.0.iter().filter_map(|part| part.as_ident().cloned()).collect(),
    };
    Ok(Target { name: object, qualifier })
}

/// Returns the assignments as pairs of column and value.
///
/// # Errors
/// 42601 for a column that is assigned twice, 0A000 for a list from a subquery.
pub(super) fn assignments(list: &[Assignment]) -> Result<Vec<(String, Expr)>> {
    let mut pairs: Vec<(String, Expr)> = Vec::new();
    for assignment in list {
        match (&assignment.target, &assignment.value) {
            (AssignmentTarget::ColumnName(name), value) => pairs.push((column(name)?, value.clone())),
            (AssignmentTarget::Tuple(names), Expr::Tuple(values)) if names.len() == values.len() => {
                for (name, value) in names.iter().zip(values) {
                    pairs.push((column(name)?, value.clone()));
                }
            }
            (AssignmentTarget::Tuple(names), value) if names.len() == 1 => {
                pairs.push((column(&names[0])?, value.clone()));
            }
            (AssignmentTarget::Tuple(_), _) => {
                return Err(SqlError::not_supported("assigning a list of columns from a subquery is not supported"));
            }
        }
    }
    for (index, (name, _)) in pairs.iter().enumerate() {
        if pairs[..index].iter().any(|(earlier, _)| earlier == name) {
            let message = format!("multiple assignments to same column \"{name}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
    }
    Ok(pairs)
}

fn column(name: &sqlparser::ast::ObjectName) -> Result<String> {
    match ObjectName::from_native(name) {
        Some(ObjectName { database: None, schema: None, name }) => Ok(name),
        _ => Err(SqlError::not_supported(format!("assigning to a part of a column ({name}) is not supported"))),
    }
}

/// Returns the name of what is stored in the column at `index`, beside its new value.
pub(crate) fn stored_name(index: usize) -> String {
    format!("__stored_{index}")
}

/// `SELECT t._rowid, t._rowaddr, <assigned columns with computed fields as they are stored>,
/// <every stored column, assigned ones anew> FROM … WHERE …`
pub(super) fn of_update(
    update: &Update,
    target: &Target,
    stored: &Schema,
    assignments: &[(String, Expr)],
    assigned: &[String],
) -> Statement {
    let mut projection = vec![item(target.column(ROW_ID), ROW_ID), item(target.column(ROW_ADDRESS), ROW_ADDRESS)];
    for (index, field) in stored.fields().iter().enumerate() {
        if assigned.contains(field.name()) && computed::holds_computed(field) {
            projection.push(item(target.column(field.name()), &stored_name(index)));
        }
    }
    for (index, field) in stored.fields().iter().enumerate() {
        let value = assignments.iter().find(|(name, _)| name == field.name() && assigned.contains(name));
        let expr = match value {
            Some((_, value)) if is_default(value) => Expr::Value(Value::Null.with_empty_span()),
            Some((_, value)) => value.clone(),
            None => target.column(field.name()),
        };
        projection.push(item(expr, &format!("__new_{index}")));
    }
    let mut from = vec![update.table.clone()];
    match &update.from {
        Some(UpdateTableFromKind::BeforeSet(more) | UpdateTableFromKind::AfterSet(more)) => from.extend(more.clone()),
        None => {}
    }
    statement(build::select(projection, from, update.selection.clone()))
}

/// `SELECT t._rowaddr, <kept columns> FROM … WHERE …`
pub(super) fn of_delete(delete: &Delete, table: &TableWithJoins, target: &Target, kept: &[FieldRef]) -> Statement {
    let kept =
        kept.iter().enumerate().map(|(index, field)| item(target.column(field.name()), &format!("__new_{index}")));
    let projection = std::iter::once(item(target.column(ROW_ADDRESS), ROW_ADDRESS)).chain(kept).collect();
    let mut from = vec![table.clone()];
    from.extend(delete.using.iter().flatten().cloned());
    statement(build::select(projection, from, delete.selection.clone()))
}

/// Returns whether a value is the word DEFAULT.
pub(super) fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// Returns whether an expression reads a column or a subquery.
pub(super) fn reads_columns(value: &Expr) -> bool {
    if is_default(value) {
        return false;
    }
    sqlparser::ast::visit_expressions(value, |expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

impl Target {
    /// Returns a column of the table.
    pub(super) fn column(&self, name: &str) -> Expr {
        let mut parts = self.qualifier.clone();
        parts.push(exactly(name));
        Expr::CompoundIdentifier(parts)
    }

    /// Returns what the table's columns are qualified with.
    pub(super) fn qualifier(&self) -> &[Ident] {
        &self.qualifier
    }
}

/// Returns a column of a relation, both names as they are written.
pub(super) fn exactly_column(relation: &str, name: &str) -> Expr {
    Expr::CompoundIdentifier(vec![exactly(relation), exactly(name)])
}

/// Returns `<expr> AS <alias>`.
pub(super) fn item(expr: Expr, alias: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: exactly(alias) }
}

fn statement(select: Select) -> Statement {
    Statement::Query(Box::new(build::query(SetExpr::Select(Box::new(select)))))
}
