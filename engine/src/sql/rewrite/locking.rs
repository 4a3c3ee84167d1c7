//! FOR UPDATE and FOR SHARE: taken out of a query, which DataFusion would run without them.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, LockClause, LockType, NonBlock, ObjectName, Query, Select, SelectItem, SetExpr,
    Spanned, Statement, TableFactor, VisitMut, VisitorMut,
};
use sqlparser::tokenizer::Location;

use super::{AGGREGATES, last_name};
use crate::error::SqlError;
use crate::sql::labels::fold;
use crate::sqlstate::SqlState;

/// A table whose rows a query locks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Locked {
    /// Its name as the query writes it.
    pub(crate) name: ObjectName,
    /// Whether others may lock it like that, too.
    pub(crate) shared: bool,
    pub(crate) wait: Wait,
    /// How the query says it.
    pub(crate) words: &'static str,
}

/// What a query does while others hold the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Block,
    /// NOWAIT
    Fail,
    /// SKIP LOCKED
    Skip,
}

/// Takes the clauses of a statement and of all its subqueries.
///
/// # Errors
/// 0A000 where PostgreSQL allows none, 42P01 for OF what is not in FROM; with the place in the text.
pub(crate) fn take(statement: &mut Statement) -> Result<Vec<Locked>, Box<(SqlError, Location)>> {
    let mut clauses = Clauses::default();
    match statement.visit(&mut clauses) {
        ControlFlow::Break(mistake) => Err(Box::new(mistake)),
        ControlFlow::Continue(()) => Ok(clauses.locked),
    }
}

#[derive(Default)]
struct Clauses {
    locked: Vec<Locked>,
}

impl VisitorMut for Clauses {
    type Break = (SqlError, Location);

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        for clause in std::mem::take(&mut query.locks) {
            match locked(query, &clause) {
                Ok(tables) => self.locked.extend(tables),
                Err(error) => return ControlFlow::Break((error, query.span().start)),
            }
        }
        ControlFlow::Continue(())
    }
}

fn locked(query: &Query, clause: &LockClause) -> Result<Vec<Locked>, SqlError> {
    let words = words(clause);
    let select = match query.body.as_ref() {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { .. } => return Err(refused(words, "is not allowed with UNION/INTERSECT/EXCEPT")),
        SetExpr::Values(_) => return Err(refused(words, "cannot be applied to VALUES")),
        _ => return Ok(Vec::new()),
    };
    ensure_rows(select, words)?;
    let of_query = |name: &ObjectName| {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        name.0.len() == 1 && ctes.into_iter().any(|cte| Some(fold(&cte.alias.name)) == last_part(name))
    };
    let all = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let named: Vec<(String, &ObjectName)> = all.filter_map(named).collect();
    let wanted = match &clause.of {
        None => named,
        Some(of) => {
            let of = last_part(of).unwrap_or_default();
            let found: Vec<_> = named.into_iter().filter(|(name, _)| *name == of).collect();
            if found.is_empty() {
                let message = format!("relation \"{of}\" in {words} clause not found in FROM clause");
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
            }
            found
        }
    };
    let wait = match clause.nonblock {
        None => Wait::Block,
        Some(NonBlock::Nowait) => Wait::Fail,
        Some(NonBlock::SkipLocked) => Wait::Skip,
    };
    let shared = clause.lock_type == LockType::Share;
    let tables = wanted.into_iter().filter(|(_, name)| !of_query(name));
    Ok(tables.map(|(_, name)| Locked { name: name.clone(), shared, wait, words }).collect())
}

fn words(clause: &LockClause) -> &'static str {
    match clause.lock_type {
        LockType::Share => "FOR SHARE",
        LockType::Update => "FOR UPDATE",
    }
}

/// Returns a table of FROM, and what it is called there.
fn named(relation: &TableFactor) -> Option<(String, &ObjectName)> {
    match relation {
        TableFactor::Table { name, alias, args: None, .. } => {
            let alias = alias.as_ref().map(|alias| fold(&alias.name));
            Some((alias.or_else(|| last_part(name))?, name))
        }
        _ => None,
    }
}

fn last_part(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(|part| part.as_ident()).map(fold)
}

/// Refuses a query whose rows are not those of its tables.
fn ensure_rows(select: &Select, words: &str) -> Result<(), SqlError> {
    let grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(expressions, _) => !expressions.is_empty(),
    };
    let calls = |wanted: fn(&sqlparser::ast::Function) -> bool| {
        select.projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => calls_any(expr, wanted),
            _ => false,
        })
    };
    if select.distinct.as_ref().is_some_and(|distinct| !matches!(distinct, Distinct::All)) {
        Err(refused(words, "is not allowed with DISTINCT clause"))
    } else if grouped {
        Err(refused(words, "is not allowed with GROUP BY clause"))
    } else if select.having.is_some() {
        Err(refused(words, "is not allowed with HAVING clause"))
    } else if calls(|function| function.over.is_some()) {
        Err(refused(words, "is not allowed with window functions"))
    } else if calls(|function| last_name(&function.name).is_some_and(|name| AGGREGATES.contains(&name.as_str()))) {
        Err(refused(words, "is not allowed with aggregate functions"))
    } else {
        Ok(())
    }
}

/// Returns whether an expression calls such a function, outside of subqueries.
fn calls_any(expr: &Expr, wanted: fn(&sqlparser::ast::Function) -> bool) -> bool {
    struct Calls(fn(&sqlparser::ast::Function) -> bool, usize);
    impl sqlparser::ast::Visitor for Calls {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.1 += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.1 -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(function) if self.1 == 0 && (self.0)(function) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    sqlparser::ast::Visit::visit(expr, &mut Calls(wanted, 0)).is_break()
}

fn refused(words: &str, why: &str) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{words} {why}"))
}
