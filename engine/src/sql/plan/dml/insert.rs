//! INSERT: the columns that are given and the rows that are written.

use arrow::datatypes::DataType;
use datafusion::logical_expr::LogicalPlan;
use lancegate_sql::{Ident, ObjectName, ast};
use sqlparser::ast::{
    Expr, Insert, Query, SetExpr, Statement as Native, TableAlias, TableObject, TableWithJoins, Value,
};

use super::{InsertPlan, default, exactly, is_computed, no_column, non_default, only_columns, select, table_schema};
use crate::error::{Result, SqlError};
use crate::exec::dml::null_in;
use crate::sql::plan::{Plan, Planner};
use crate::sql::resolve::BoundTable;
use crate::sql::rewrite::{self, build};
use crate::sqlstate::SqlState;
use crate::storage::{defaults, nested, provider};

impl Planner {
    /// Binds INSERT.
    ///
    /// # Errors
    /// 428C9 for a value of a computed column, 42601 for too many or too few
    /// values, and what the query for the rows raises.
    pub(in crate::sql::plan) async fn plan_insert(&self, statement: &ast::Insert) -> Result<Plan> {
        let insert = statement.0.as_ref();
        let TableObject::TableName(native_name) = &insert.table else {
            return Err(SqlError::not_supported("only tables can be inserted into"));
        };
        let name = ObjectName::from_native(native_name)
            .ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, format!("improper relation name {native_name}")))?;
        let table = self.change_target(&name).await?;
        let source = insert.source.clone().unwrap_or_else(|| Box::new(one_default_row()));
        let (columns, source) = self.given(&table, insert, *source)?;
        let conflict = self.conflict(&table, insert)?;
        let defaults = self.defaults(&table, &columns).await?;
        let written = match &conflict {
            None => columns.iter().chain(defaults.iter().map(|(field, _)| field.name())).cloned().collect(),
            Some(_) => plain_columns(&table),
        };
        let finish = move |plan: LogicalPlan| only_columns(plan, &written, &defaults);
        let native = Native::Insert(Insert {
            columns: columns.iter().map(|column| vec![exactly(column)].into()).collect(),
            source: Some(Box::new(source)),
            table_alias: None,
            on: None,
            returning: None,
            ..insert.clone()
        });
        let source = self.bind_change(native, &name, &finish).await?;
        let from = TableWithJoins { relation: build::table(native_name.clone(), alias(insert)), joins: Vec::new() };
        let named = select::target(&from)?;
        let returning = self.plan_returning(insert.returning.as_ref(), from.clone(), &table).await?;
        if let Some(conflict) = conflict {
            let target = (table, named, from.relation);
            return self.plan_conflict(target, (insert, conflict), source, returning).await;
        }
        Ok(Plan::Insert(Box::new(InsertPlan { table, source, returning })))
    }

    /// Returns the columns that get a value, and the rows without the others.
    fn given(&self, table: &BoundTable, insert: &Insert, mut source: Query) -> Result<(Vec<String>, Query)> {
        let visible = provider::visible_schema(&table.dataset);
        let mut columns = Vec::new();
        for native in &insert.columns {
            let name = match ObjectName::from_native(native) {
                Some(ObjectName { database: None, schema: None, name }) => name,
                _ => return Err(part_of_column(table, native)?),
            };
            if visible.field_with_name(&name).is_err() {
                return Err(no_column(&name, table.name()).at(self.position(native)));
            }
            if columns.contains(&name) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            columns.push(name);
        }
        let listed = !columns.is_empty();
        if !listed {
            columns = visible.fields().iter().map(|field| field.name().clone()).collect();
        }
        if let SetExpr::Values(values) = source.body.as_mut() {
            let extra = values.rows.iter().find_map(|row| row.content.get(columns.len()));
            let extra = extra.and_then(|extra| self.position(extra));
            let mut rows: Vec<&mut Vec<Expr>> = values.rows.iter_mut().map(|row| &mut row.content).collect();
            columns = of_values(table, columns, listed, &mut rows).map_err(|error| match error.position {
                None if error.code == SqlState::SYNTAX_ERROR => error.at(extra),
                _ => error,
            })?;
        } else if !listed {
            // A query may give fewer columns than the table has; which it gives
            // is known when it is bound, so computed ones are left out here.
            columns.retain(|column| !is_computed(table, column));
            if let Some(width) = width(&source) {
                columns.truncate(width);
            }
        }
        let values = matches!(source.body.as_ref(), SetExpr::Values(_));
        if mixes_numbers(table, &columns, &source)?
            && let SetExpr::Values(values) = source.body.as_mut()
            && let Some(query) = rewrite::sets::in_order(values)
        {
            source = query;
        }
        for column in &columns {
            if is_computed(table, column) {
                return Err(non_default(column, table.name()));
            }
            if !values && visible.field_with_name(column).is_ok_and(default::is_always_numbered) {
                return Err(default::non_default_number(column));
            }
        }
        Ok((columns, source))
    }
}

/// Returns whether rows of VALUES leave a number to the column in some rows only. They then
/// have NULL there, which VALUES for a column that takes none must not have; the values of
/// a query may.
fn mixes_numbers(table: &BoundTable, columns: &[String], source: &Query) -> Result<bool> {
    let SetExpr::Values(values) = source.body.as_ref() else { return Ok(false) };
    let stored = table_schema(table);
    for (index, column) in columns.iter().enumerate() {
        let numbered = defaults::numbering_of(stored.field_with_name(column)?).is_some();
        if numbered && values.rows.iter().any(|row| row.content.get(index).is_some_and(is_null)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_null(value: &Expr) -> bool {
    matches!(value, Expr::Value(value) if value.value == Value::Null)
}

/// Returns the columns that a row may give values of.
fn plain_columns(table: &BoundTable) -> Vec<String> {
    let visible = provider::visible_schema(&table.dataset);
    let names = visible.fields().iter().map(|field| field.name().clone());
    names.filter(|name| !is_computed(table, name)).collect()
}

/// Returns the other name of the table, which its RETURNING list may use.
fn alias(insert: &Insert) -> Option<TableAlias> {
    let named = insert.table_alias.as_ref()?;
    Some(TableAlias { explicit: named.explicit, name: named.alias.clone(), columns: Vec::new(), at: None })
}

/// Returns why a field inside a column gets no value of its own.
fn part_of_column(table: &BoundTable, name: &sqlparser::ast::ObjectName) -> Result<SqlError> {
    let idents = name.0.iter().filter_map(|part| part.as_ident());
    let parts: Vec<String> = idents.map(|ident| Ident::from_native(ident).into_string()).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let path = nested::path_text(&parts);
    if nested::field(table.dataset.schema(), &path).is_none() {
        return Ok(no_column(&path, table.name()));
    }
    let computed = table.computed()?.iter().any(|column| column.name == path);
    let refused = SqlError::not_supported("inserting into a part of a column is not supported");
    Ok(if computed { non_default(&path, table.name()) } else { refused.hint("Give a value of the whole column.") })
}

/// Takes DEFAULT out of the rows of VALUES: a column that is DEFAULT in every row is not
/// given at all; in a mixed one DEFAULT is its value, or NULL, which numbered columns
/// take for the next number.
fn of_values(
    table: &BoundTable,
    mut columns: Vec<String>,
    listed: bool,
    rows: &mut [&mut Vec<Expr>],
) -> Result<Vec<String>> {
    let width = rows.first().map_or(0, |row| row.len());
    if rows.iter().any(|row| row.len() != width) {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length"));
    }
    if width > columns.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more expressions than target columns"));
    }
    if listed && width < columns.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more target columns than expressions"));
    }
    columns.truncate(width);
    let stored = table_schema(table);
    let mut index = 0;
    while index < columns.len() {
        let defaults = rows.iter().filter(|row| select::is_default(&row[index])).count();
        if defaults < rows.len() && is_computed(table, &columns[index]) {
            return Err(non_default(&columns[index], table.name()));
        }
        let field = stored.field_with_name(&columns[index])?;
        if defaults < rows.len() && default::is_always_numbered(field) {
            return Err(default::non_default_number(&columns[index]));
        }
        // One column has to stay, so that there are rows at all.
        if defaults == rows.len() && (columns.len() > 1 || is_computed(table, &columns[index])) {
            columns.remove(index);
            rows.iter_mut().for_each(|row| {
                row.remove(index);
            });
            continue;
        }
        for row in rows.iter_mut().filter(|row| select::is_default(&row[index])) {
            row[index] = default::in_place(field)?;
        }
        let numbered = defaults::numbering_of(field).is_some();
        if !field.is_nullable() && !numbered && rows.iter().any(|row| is_null(&row[index])) {
            return Err(null_in(field.name()));
        }
        if field.data_type().is_list() {
            rows.iter_mut().for_each(|row| rewrite::array::given_for_array(&mut row[index]));
        }
        if *field.data_type() == DataType::FixedSizeBinary(16) {
            rows.iter_mut().for_each(|row| rewrite::names::given_for_uuid(&mut row[index]));
        }
        index += 1;
    }
    if columns.is_empty() {
        return default_row(table, rows);
    }
    Ok(columns)
}

/// A row of defaults only: one plain column says so.
fn default_row(table: &BoundTable, rows: &mut [&mut Vec<Expr>]) -> Result<Vec<String>> {
    let visible = provider::visible_schema(&table.dataset);
    let plain = visible.fields().iter().find(|field| !is_computed(table, field.name()));
    let plain =
        plain.ok_or_else(|| SqlError::not_supported("a table of computed columns only cannot be inserted into"))?;
    for row in rows {
        row.push(default::in_place(plain)?);
    }
    Ok(vec![plain.name().clone()])
}

fn width(query: &Query) -> Option<usize> {
    use sqlparser::ast::SelectItem;
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let plain = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    select.projection.iter().all(plain).then_some(select.projection.len())
}

/// `INSERT INTO t DEFAULT VALUES` is one row of DEFAULT.
fn one_default_row() -> Query {
    let values = sqlparser::ast::Values {
        explicit_row: false,
        value_keyword: false,
        rows: vec![sqlparser::ast::Parens::with_empty_span(vec![Expr::Identifier("DEFAULT".into())])],
    };
    build::query(SetExpr::Values(values))
}
