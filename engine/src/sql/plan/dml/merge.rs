//! MERGE and INSERT … ON CONFLICT: which rows belong together, and what becomes
//! of each pair.
//!
//! Both become one query over the join of target and source. It gives row id and
//! row address of the target, a number that says what is done ([`RowAction`]), and
//! every stored column as it shall be. A pair that nothing is done with is left out.
//!
//! No index makes keys unique. The columns of ON CONFLICT are the key because the
//! statement says so; rows of the table that share a key are all updated.

use arrow::datatypes::{FieldRef, Schema};
use datafusion::logical_expr::{Case, Expr as Bound, LogicalPlan, Projection, cast};
use lancegate_sql::ast::{Matching, Merge, MergeAction, MergeClause};
use lancegate_sql::{Ident, ObjectName};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Join, JoinConstraint, JoinOperator, SelectItem, SetExpr, Statement as Native,
    TableAlias, TableFactor, TableWithJoins, Value,
};

use super::select::{self, Target, exactly_column, item};
use super::{
    Plan, Planner, QueryPlan, Rebind, Returning, default, exactly, is_computed, no_column, non_default, table_schema,
    typed,
};
use crate::error::{Result, SqlError};
use crate::sql::resolve::BoundTable;
use crate::sql::rewrite::{self, build};
use crate::sqlstate::SqlState;
use crate::storage::{computed, defaults, provider};

mod scope;

/// The column that says what is done with a pair of rows.
pub(crate) const ACTION: &str = "__action";
/// The column of the source that is there in each of its rows.
const PRESENT: &str = "__present";

/// What is done with a pair of rows, as [`ACTION`] says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
pub(crate) enum RowAction {
    /// Nothing; such a pair is not in the rows.
    Nothing = 0,
    /// The row of the target gets other values.
    Update = 1,
    /// The row of the target goes.
    Delete = 2,
    /// A row is added.
    Insert = 3,
    /// The statement fails: its own rows have the same key.
    SameKey = 4,
}

impl RowAction {
    /// Returns the action of a number.
    pub(crate) fn of(number: i64) -> Option<Self> {
        [Self::Nothing, Self::Update, Self::Delete, Self::Insert, Self::SameKey]
            .into_iter()
            .find(|action| *action as i64 == number)
    }
}

/// Which statement merges, for its tag and its errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeCommand {
    /// MERGE.
    Merge,
    /// INSERT … ON CONFLICT.
    OnConflict,
}

impl MergeCommand {
    /// Returns the statement's first word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Merge => "MERGE",
            Self::OnConflict => "INSERT",
        }
    }
}

/// A bound MERGE or INSERT … ON CONFLICT.
#[derive(Debug, Clone)]
pub struct MergePlan {
    /// The table.
    pub table: BoundTable,
    /// See the module documentation.
    pub rows: QueryPlan,
    /// The columns that change in rows that are there.
    pub assigned: Vec<String>,
    /// Those of them that get the next numbers of their sequences where they come as NULL.
    pub drawn: Vec<String>,
    /// What is bound again after a lost race.
    pub(crate) rebind: Rebind,
    /// Which statement it is.
    pub command: MergeCommand,
    /// Whether rows may be added.
    pub inserts: bool,
    /// Whether rows may be changed.
    pub updates: bool,
    /// Whether rows may be deleted.
    pub deletes: bool,
    /// What is answered.
    pub returning: Option<Returning>,
}

/// What is done with the pairs for which `when` holds, unless an earlier branch does.
pub(super) struct Branch {
    pub(super) when: Expr,
    pub(super) action: RowAction,
    /// The values that are given.
    pub(super) values: Vec<(String, Expr)>,
}

/// The join of target and source.
pub(super) struct Pairs<'a> {
    pub(super) table: &'a BoundTable,
    pub(super) target: &'a Target,
    /// The target as the statement names it.
    pub(super) relation: TableFactor,
    pub(super) source: TableFactor,
    pub(super) join: fn(JoinConstraint) -> JoinOperator,
    pub(super) on: Expr,
}

impl Planner {
    /// Binds MERGE.
    ///
    /// # Errors
    /// 428C9 for a value of a computed column, 42601 for too many or too few values,
    /// 0A000 for a volatile condition, and what the query for the rows raises.
    pub(in crate::sql::plan) async fn plan_merge(&self, merge: &Merge) -> Result<Plan> {
        let relation = TableWithJoins { relation: merge.target.clone(), joins: Vec::new() };
        let target = select::target(&relation)?;
        let table = self.change_target(&target.name).await?;
        let (source, source_name) = scope::named_source(&merge.source)?;
        let mut branches = Vec::new();
        for clause in &merge.clauses {
            branches.push(self.branch(&table, &target, &source_name, clause)?);
        }
        let does = |action: RowAction| branches.iter().any(|branch| branch.action == action);
        let (inserts, updates, deletes) = (does(RowAction::Insert), does(RowAction::Update), does(RowAction::Delete));
        let of = |matching: Matching| merge.clauses.iter().any(|clause| clause.matching == matching);
        let join = match (of(Matching::NotMatchedByTarget), of(Matching::NotMatchedBySource)) {
            (true, true) => JoinOperator::FullOuter,
            (true, false) => JoinOperator::RightOuter,
            (false, true) => JoinOperator::LeftOuter,
            (false, false) => JoinOperator::Inner,
        };
        let pairs = Pairs {
            table: &table,
            target: &target,
            relation: merge.target.clone(),
            source: scope::with_presence(source, &source_name),
            join,
            on: merge.on.clone(),
        };
        let mut drawn = Vec::new();
        for clause in &merge.clauses {
            if let MergeAction::Update(assignments) = &clause.action {
                drawn.extend(default::drawn(
                    &provider::visible_schema(&table.dataset),
                    &select::assignments(assignments)?,
                ));
            }
        }
        let (query, assigned) = pairs.query(&branches);
        let rebind = Rebind {
            planner: self.clone(),
            target: target.name.clone(),
            select: Box::new(query),
            columns: table_schema(&table).fields().iter().cloned().collect(),
            merges: true,
            given: None,
        };
        let rows = rebind.bind().await?;
        let command = MergeCommand::Merge;
        Ok(Plan::Merge(Box::new(MergePlan {
            table,
            rows,
            assigned,
            drawn,
            rebind,
            command,
            inserts,
            updates,
            deletes,
            returning: None,
        })))
    }

    fn branch(&self, table: &BoundTable, target: &Target, source: &Ident, clause: &MergeClause) -> Result<Branch> {
        let there = is_not_null(target.column(select::ROW_ADDRESS));
        let given = is_not_null(exactly_column(source.as_str(), PRESENT));
        let matching = match clause.matching {
            Matching::Matched => and(there, given),
            Matching::NotMatchedByTarget => not(there),
            Matching::NotMatchedBySource => not(given),
        };
        // A row that is alone has only its own columns.
        let scoped = |mut expr: Expr| {
            match clause.matching {
                Matching::Matched => {}
                Matching::NotMatchedByTarget => {
                    scope::ensure_not_of(&expr, target)?;
                    scope::qualify(&mut expr, &[exactly(source.as_str())]);
                }
                Matching::NotMatchedBySource => scope::qualify(&mut expr, target.qualifier()),
            }
            Ok::<_, SqlError>(expr)
        };
        let when = match clause.condition.clone() {
            Some(condition) => and(matching, Expr::Nested(Box::new(scoped(condition)?))),
            None => matching,
        };
        let (action, values) = match &clause.action {
            MergeAction::Nothing => (RowAction::Nothing, Vec::new()),
            MergeAction::Delete => (RowAction::Delete, Vec::new()),
            MergeAction::Update(assignments) => (RowAction::Update, self.updated(table, assignments)?),
            MergeAction::Insert { columns, values } => {
                (RowAction::Insert, inserted(table, columns, values.as_deref())?)
            }
        };
        let values = values.into_iter().map(|(column, value)| Ok((column, scoped(value)?)));
        Ok(Branch { when, action, values: values.collect::<Result<_>>()? })
    }

    /// Returns the columns that an UPDATE gives values, with these.
    ///
    /// # Errors
    /// 428C9, 42703, 42601.
    pub(super) fn updated(
        &self,
        table: &BoundTable,
        assignments: &[sqlparser::ast::Assignment],
    ) -> Result<Vec<(String, Expr)>> {
        let visible = provider::visible_schema(&table.dataset);
        let mut values = Vec::new();
        for (column, mut value) in select::assignments(assignments)? {
            if visible.field_with_name(&column).is_err() {
                return Err(no_column(&column, table.name()));
            }
            if self.may_assign(table, &column, &value)? {
                default::fill_in(&visible, &column, &mut value)?;
                values.push((column, value));
            }
        }
        Ok(values)
    }
}

/// Returns the columns that an INSERT clause gives values, with these.
fn inserted(
    table: &BoundTable,
    columns: &[sqlparser::ast::Ident],
    values: Option<&[Expr]>,
) -> Result<Vec<(String, Expr)>> {
    let visible = provider::visible_schema(&table.dataset);
    let mut names: Vec<String> = Vec::new();
    for ident in columns {
        let name = Ident::from_native(ident).into_string();
        if visible.field_with_name(&name).is_err() {
            return Err(no_column(&name, table.name()));
        }
        if names.contains(&name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        names.push(name);
    }
    let Some(values) = values else { return with_defaults(&visible, Vec::new()) };
    if names.is_empty() {
        names = visible.fields().iter().map(|field| field.name().clone()).collect();
    }
    if values.len() > names.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more expressions than target columns"));
    }
    if !columns.is_empty() && values.len() < names.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more target columns than expressions"));
    }
    let mut given = Vec::new();
    for (name, value) in names.into_iter().zip(values) {
        if select::is_default(value) {
            continue;
        }
        if is_computed(table, &name) {
            return Err(non_default(&name, table.name()));
        }
        if visible.field_with_name(&name).is_ok_and(default::is_always_numbered) {
            return Err(default::non_default_number(&name));
        }
        let mut value = value.clone();
        if visible.field_with_name(&name).is_ok_and(|field| field.data_type().is_list()) {
            rewrite::array::given_for_array(&mut value);
        }
        given.push((name, value));
    }
    with_defaults(&visible, given)
}

/// Adds the defaults of the columns that a row gives no value.
fn with_defaults(visible: &Schema, mut given: Vec<(String, Expr)>) -> Result<Vec<(String, Expr)>> {
    for field in visible.fields() {
        if defaults::default_of(field).is_some() && !given.iter().any(|(name, _)| name == field.name()) {
            given.push((field.name().clone(), default::in_place(field)?));
        }
    }
    Ok(given)
}

impl Pairs<'_> {
    /// Returns the query for the rows, and the columns that change.
    pub(super) fn query(self, branches: &[Branch]) -> (Native, Vec<String>) {
        let Self { table, target, relation, source, join, on } = self;
        let stored = table_schema(table);
        let action = case(branches, |branch| number(branch.action as i64), Some(number(0)));
        let column = |name: &str| target.column(name);
        let mut projection = vec![
            item(column(select::ROW_ID), select::ROW_ID),
            item(column(select::ROW_ADDRESS), select::ROW_ADDRESS),
            item(action.clone(), ACTION),
        ];
        let gives = |branch: &Branch, name: &str| branch.values.iter().any(|(given, _)| given == name);
        let updates = branches.iter().filter(|branch| branch.action == RowAction::Update);
        let assigned: Vec<String> = stored
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .filter(|name| updates.clone().any(|branch| gives(branch, name)))
            .collect();
        for (index, field) in stored.fields().iter().enumerate() {
            if assigned.contains(field.name()) && computed::holds_computed(field) {
                projection.push(item(column(field.name()), &select::stored_name(index)));
            }
        }
        for (index, field) in stored.fields().iter().enumerate() {
            let name = field.name();
            let value = |branch: &Branch| match branch.values.iter().find(|(given, _)| given == name) {
                Some((_, value)) if select::is_default(value) => Expr::Value(Value::Null.with_empty_span()),
                Some((_, value)) => value.clone(),
                None => column(name),
            };
            let expr = match branches.iter().any(|branch| gives(branch, name)) {
                true => case(branches, value, None),
                // What a new row does not give is NULL, as a target that is not there.
                false => column(name),
            };
            projection.push(item(expr, &format!("__new_{index}")));
        }
        let join = Join { relation: source, global: false, join_operator: join(JoinConstraint::On(on)) };
        let from = TableWithJoins { relation, joins: vec![join] };
        let something = binary(action, BinaryOperator::NotEq, number(0));
        let select = build::select(projection, vec![from], Some(something));
        (Native::Query(Box::new(build::query(SetExpr::Select(Box::new(select))))), assigned)
    }
}

/// Types the values of a bound query for rows: each branch is cast to what the
/// column stores, and parameters that are given as they are get its type.
///
/// # Errors
/// 0A000 for a condition that is not the same when it is evaluated again.
pub(super) fn as_stored(plan: LogicalPlan, columns: &[FieldRef]) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(Projection { expr, input, .. }) = plan else {
        return Err(SqlError::internal("the rows of a merge are not a projection"));
    };
    let system = expr.len().saturating_sub(columns.len());
    let typed = expr.into_iter().enumerate().map(|(index, expr)| {
        match index.checked_sub(system).and_then(|index| columns.get(index)) {
            Some(field) => Ok(stored_value(expr.unalias(), field)?.alias(field.name())),
            None if index == 2 && expr.is_volatile() => Err(SqlError::not_supported(
                "conditions of MERGE and ON CONFLICT with functions that are not stable are not supported",
            )),
            None => Ok(expr),
        }
    });
    let mut typed = typed.collect::<Result<Vec<_>>>()?;
    typed[2] = cast(typed[2].clone().unalias(), arrow::datatypes::DataType::Int64).alias(ACTION);
    Ok(LogicalPlan::Projection(Projection::try_new(typed, input)?))
}

fn stored_value(expr: Bound, field: &FieldRef) -> Result<Bound> {
    let Bound::Case(Case { expr: None, when_then_expr, else_expr: None }) = expr else {
        return Ok(cast(typed(expr, field)?, field.data_type().clone()));
    };
    let branches = when_then_expr.into_iter().map(|(when, then)| {
        let value = cast(typed(*then, field)?, field.data_type().clone());
        Ok((when, Box::new(value)))
    });
    Ok(Bound::Case(Case { expr: None, when_then_expr: branches.collect::<Result<_>>()?, else_expr: None }))
}

/// `CASE WHEN … THEN … … [ELSE …] END` over all branches.
fn case(branches: &[Branch], result: impl Fn(&Branch) -> Expr, otherwise: Option<Expr>) -> Expr {
    let conditions = branches.iter().map(|branch| CaseWhen { condition: branch.when.clone(), result: result(branch) });
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: conditions.collect(),
        else_result: otherwise.map(Box::new),
    }
}

pub(super) fn and(left: Expr, right: Expr) -> Expr {
    binary(left, BinaryOperator::And, right)
}

pub(super) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

pub(super) fn is_not_null(expr: Expr) -> Expr {
    Expr::IsNotNull(Box::new(expr))
}

pub(super) fn not(expr: Expr) -> Expr {
    match expr {
        Expr::IsNotNull(expr) => Expr::IsNull(expr),
        other => Expr::UnaryOp { op: sqlparser::ast::UnaryOperator::Not, expr: Box::new(other) },
    }
}

pub(super) fn number(number: i64) -> Expr {
    Expr::Value(Value::Number(number.to_string(), false).with_empty_span())
}

/// Returns an alias that is taken as it is written.
pub(super) fn alias(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: exactly(name), columns: Vec::new(), at: None }
}

/// Returns the name of a relation that only a [`Rebind`] gives.
pub(super) fn given_table(name: &str) -> sqlparser::ast::ObjectName {
    sqlparser::ast::ObjectName::from(vec![exactly(name)])
}

/// Returns `SELECT <items> FROM <relation>` as a relation of its own.
pub(super) fn derived(items: Vec<SelectItem>, relation: TableFactor, name: &str) -> TableFactor {
    let from = TableWithJoins { relation, joins: Vec::new() };
    let select = build::select(items, vec![from], None);
    TableFactor::Derived {
        lateral: false,
        subquery: Box::new(build::query(SetExpr::Select(Box::new(select)))),
        alias: Some(alias(name)),
        sample: None,
    }
}

/// Returns a name that no statement can give.
pub(super) fn object(name: &str) -> ObjectName {
    ObjectName { database: None, schema: None, name: name.to_owned() }
}
