//! INSERT … ON CONFLICT: the key, and what happens to rows that have one already.
//!
//! The rows are bound as those of any INSERT, and then stand in a merge under the
//! name `excluded`.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::datasource::ViewTable;
use lancegate_sql::Ident;
use sqlparser::ast::{
    BinaryOperator, ConflictTarget, Expr, Insert, JoinOperator, ObjectName, OnConflict, OnConflictAction, OnInsert,
    Query, SelectItem, SetExpr, TableFactor, Value, Values, WildcardAdditionalOptions,
};

use super::merge::{self, Branch, MergeCommand, MergePlan, Pairs, RowAction, and, binary, is_not_null, not, number};
use super::select::{self, Target, exactly_column, item};
use super::{Plan, Planner, QueryPlan, Rebind, Returning, default, exactly, is_computed, no_column, table_schema};
use crate::error::{Result, SqlError};
use crate::sql::plan::query::binder;
use crate::sql::resolve::BoundTable;
use crate::sql::rewrite::build;
use crate::sqlstate::SqlState;
use crate::storage::{key, provider};

/// The rows of the INSERT, as the statement names them.
const EXCLUDED: &str = "excluded";
/// The relation that they are bound to.
pub(super) const GIVEN: &str = "__given";
/// A number for each of them.
const ORDINAL: &str = "__ordinal";
/// Which of those with the same key it is, counted from one.
const NTH: &str = "__nth";
/// Rows whose keys are looked up with an index; more are found by a join alone.
const LOOKED_UP_MAX: usize = 200;

/// What ON CONFLICT says.
pub(super) struct Conflict {
    /// The columns of the key.
    key: Vec<String>,
    action: OnConflictAction,
}

impl Planner {
    /// Returns what ON CONFLICT says; `None` where it has no effect.
    ///
    /// # Errors
    /// 42703, 42704 for a constraint, 42P10 for a key that can have no value.
    pub(super) fn conflict(&self, table: &BoundTable, insert: &Insert) -> Result<Option<Conflict>> {
        let Some(on) = &insert.on else { return Ok(None) };
        let OnInsert::OnConflict(OnConflict { conflict_target, action }) = on else {
            return Err(SqlError::not_supported("ON DUPLICATE KEY UPDATE is not supported").hint("Use ON CONFLICT."));
        };
        let recorded = key::columns(&table.dataset);
        let columns = match conflict_target {
            Some(ConflictTarget::Columns(columns)) => columns,
            Some(ConflictTarget::OnConstraint(name)) if is_key_of(table, name) && !recorded.is_empty() => {
                return Ok(Some(Conflict { key: recorded, action: action.clone() }));
            }
            Some(ConflictTarget::OnConstraint(name)) => {
                let message = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name());
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                    .hint("Name the columns of the key: ON CONFLICT (id)."));
            }
            // Without a key there is nothing that could be violated.
            None if matches!(action, OnConflictAction::DoNothing) => {
                let conflict = Conflict { key: recorded, action: action.clone() };
                return Ok(Some(conflict).filter(|conflict| !conflict.key.is_empty()));
            }
            None => {
                let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                return Err(
                    SqlError::new(SqlState::SYNTAX_ERROR, message).hint("For example, ON CONFLICT (column_name).")
                );
            }
        };
        let visible = provider::visible_schema(&table.dataset);
        let mut key: Vec<String> = Vec::new();
        for column in columns {
            let name = Ident::from_native(column).into_string();
            if visible.field_with_name(&name).is_err() {
                return Err(no_column(&name, table.name()));
            }
            if is_computed(table, &name) {
                let message = format!("computed column \"{name}\" cannot be the key of ON CONFLICT");
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                    .detail("New rows have no value in it before it is refreshed."));
            }
            if !key.contains(&name) {
                key.push(name);
            }
        }
        Ok(Some(Conflict { key, action: action.clone() }))
    }

    /// Binds the merge of an INSERT's rows, which `source` gives: all columns of the
    /// table but computed ones.
    ///
    /// # Errors
    /// As UPDATE.
    pub(super) async fn plan_conflict(
        &self,
        (table, target, relation): (BoundTable, Target, TableFactor),
        (insert, conflict): (&Insert, Conflict),
        source: QueryPlan,
        returning: Option<Returning>,
    ) -> Result<Plan> {
        let single = insert.source.as_deref().is_none_or(|query| row_count(query) == Some(1));
        let mut on = conflict
            .key
            .iter()
            .map(|name| binary(target.column(name), BinaryOperator::Eq, exactly_column(EXCLUDED, name)));
        let first = on.next().ok_or_else(|| SqlError::internal("a key has no columns"))?;
        let mut on = on.fold(first, and);
        for lookup in self.lookups(insert, &table, &target, &conflict.key) {
            on = and(on, lookup);
        }
        let updates = matches!(conflict.action, OnConflictAction::DoUpdate(_));
        let branches = self.branches(&table, &target, &conflict, single)?;
        let drawn = match &conflict.action {
            OnConflictAction::DoUpdate(update) => {
                default::drawn(&provider::visible_schema(&table.dataset), &select::assignments(&update.assignments)?)
            }
            OnConflictAction::DoNothing => Vec::new(),
        };
        let pairs = Pairs {
            table: &table,
            target: &target,
            relation,
            source: rows(&conflict.key, single),
            join: JoinOperator::RightOuter,
            on,
        };
        let (query, assigned) = pairs.query(&branches);
        let view = ViewTable::new(binder::renamed(source.logical.clone(), &source.columns)?, None);
        let given: Arc<dyn TableProvider> = Arc::new(view);
        let rebind = Rebind {
            planner: self.clone(),
            target: target.name.clone(),
            select: Box::new(query),
            columns: table_schema(&table).fields().iter().cloned().collect(),
            merges: true,
            given: Some((merge::object(GIVEN), given)),
        };
        let mut rows = rebind.bind().await?;
        rows.reads.extend(source.reads);
        Ok(Plan::Merge(Box::new(MergePlan {
            table,
            rows,
            assigned,
            drawn,
            rebind,
            command: MergeCommand::OnConflict,
            inserts: true,
            updates,
            deletes: false,
            returning,
        })))
    }

    /// Returns what the keys of a few rows that are written out ask of the table, so
    /// that an index finds them. Only values that are compared as they are count:
    /// `'01'` is another text than `'1'` and the same number.
    fn lookups(&self, insert: &Insert, table: &BoundTable, target: &Target, key: &[String]) -> Vec<Expr> {
        let Some(values) = insert.source.as_deref().and_then(values) else { return Vec::new() };
        if values.rows.len() > LOOKED_UP_MAX {
            return Vec::new();
        }
        let visible = provider::visible_schema(&table.dataset);
        let last = |name: &ObjectName| name.0.last().and_then(|part| part.as_ident()).map(Ident::from_native);
        let columns: Vec<String> = match insert.columns.as_slice() {
            [] => visible.fields().iter().map(|field| field.name().clone()).collect(),
            named => named.iter().filter_map(last).map(Ident::into_string).collect(),
        };
        let lookup = |name: &String| {
            let index = columns.iter().position(|column| column == name)?;
            let field = visible.field_with_name(name).ok()?;
            let list: Option<Vec<Expr>> = values.rows.iter().map(|row| row.content.get(index).cloned()).collect();
            let list = list?;
            list.iter().all(|value| self.is_of(value, field.data_type())).then(|| Expr::InList {
                expr: Box::new(target.column(name)),
                list,
                negated: false,
            })
        };
        key.iter().filter_map(lookup).collect()
    }

    fn is_of(&self, value: &Expr, data_type: &DataType) -> bool {
        let Expr::Value(value) = value else { return false };
        match &value.value {
            Value::Number(text, _) => data_type.is_integer() && text.bytes().all(|byte| byte.is_ascii_digit()),
            Value::SingleQuotedString(_) => *data_type == DataType::Utf8,
            Value::Placeholder(name) => {
                let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
                let declared = number.and_then(|number| self.declared.get(number.checked_sub(1)?)?.clone());
                // Of another type it would be two parameters of one number.
                declared.is_none_or(|declared| declared == *data_type)
            }
            _ => false,
        }
    }

    /// Returns what becomes of rows that are new, that come again in the same
    /// statement, and that are there.
    fn branches(&self, table: &BoundTable, target: &Target, conflict: &Conflict, single: bool) -> Result<Vec<Branch>> {
        let there = is_not_null(target.column(select::ROW_ADDRESS));
        let mut branches = Vec::new();
        let again = match &conflict.action {
            OnConflictAction::DoNothing => RowAction::Nothing,
            OnConflictAction::DoUpdate(_) => RowAction::SameKey,
        };
        if !single {
            let later = binary(exactly_column(EXCLUDED, NTH), BinaryOperator::Gt, number(1));
            // NULL is no key, and equals none.
            let keys = conflict.key.iter().map(|name| is_not_null(exactly_column(EXCLUDED, name)));
            branches.push(Branch { when: keys.fold(later, and), action: again, values: Vec::new() });
        }
        let visible = provider::visible_schema(&table.dataset);
        let plain = visible.fields().iter().filter(|field| !is_computed(table, field.name()));
        let given = plain.map(|field| (field.name().clone(), exactly_column(EXCLUDED, field.name())));
        branches.push(Branch { when: not(there.clone()), action: RowAction::Insert, values: given.collect() });
        if let OnConflictAction::DoUpdate(update) = &conflict.action {
            let when = match &update.selection {
                Some(condition) => and(there, Expr::Nested(Box::new(condition.clone()))),
                None => there,
            };
            let values = self.updated(table, &update.assignments)?;
            branches.push(Branch { when, action: RowAction::Update, values });
        }
        Ok(branches)
    }
}

/// Returns whether a name is that of a table's primary key.
fn is_key_of(table: &BoundTable, name: &ObjectName) -> bool {
    let name = name.0.last().and_then(|part| part.as_ident()).map(Ident::from_native);
    let known = key::name(table.dataset.schema().fields.iter().map(|field| &field.metadata), table.name());
    name.is_some_and(|name| name.as_str() == known)
}

/// Returns the rows of the INSERT as `excluded`; of several, each says which of
/// those with its key it is.
fn rows(key: &[String], single: bool) -> TableFactor {
    let given = build::table(merge::given_table(GIVEN), Some(merge::alias(EXCLUDED)));
    if single {
        return given;
    }
    let all = || SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let numbered = merge::derived(vec![all(), item(row_number(&[], None), ORDINAL)], given, EXCLUDED);
    let nth = row_number(key, Some(ORDINAL));
    merge::derived(vec![all(), item(nth, NTH)], numbered, EXCLUDED)
}

/// `row_number() OVER (PARTITION BY … ORDER BY …)`
fn row_number(partition: &[String], order: Option<&str>) -> Expr {
    use sqlparser::ast::{
        Function, FunctionArgumentList, FunctionArguments, OrderByExpr, OrderByOptions, WindowSpec, WindowType,
    };
    let order_by = order.into_iter().map(|name| OrderByExpr {
        expr: Expr::Identifier(exactly(name)),
        options: OrderByOptions::default(),
        with_fill: None,
    });
    Expr::Function(Function {
        name: ObjectName::from(vec!["row_number".into()]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: Vec::new(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: Some(WindowType::WindowSpec(WindowSpec {
            window_name: None,
            partition_by: partition.iter().map(|name| Expr::Identifier(exactly(name))).collect(),
            order_by: order_by.collect(),
            window_frame: None,
        })),
        within_group: Vec::new(),
    })
}

fn row_count(query: &Query) -> Option<usize> {
    values(query).map(|values| values.rows.len())
}

fn values(query: &Query) -> Option<&Values> {
    match query.body.as_ref() {
        SetExpr::Values(values) if query.with.is_none() => Some(values),
        _ => None,
    }
}
