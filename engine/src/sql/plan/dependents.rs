//! What reads a relation that is dropped: views and materialized views, by the names
//! in their queries.
//!
//! A query is kept as text and its names are looked up when it runs. So what depends
//! on a relation is what would find it now.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use lancegate_catalog::{Table, TableId, TableKind};
use lancegate_sql::ast::DropBehavior;
use lancegate_sql::{Ident, ObjectName};
use sqlparser::ast::{Cte, ObjectName as NativeName, Query, Statement as Native, Visit, Visitor};

use super::Planner;
use crate::error::{Result, SqlError};
use crate::session::temp;
use crate::sqlstate::SqlState;

impl Planner {
    /// Returns what is dropped with `dropped`, in the order in which it depends on it.
    /// Without a word about it nothing else is: a view finds whatever gets the name
    /// next, and a materialized view keeps its rows.
    ///
    /// # Errors
    /// 2BP01 if something depends on it and RESTRICT was said.
    pub(super) async fn dependents(&self, dropped: &[Table], behavior: Option<DropBehavior>) -> Result<Vec<Table>> {
        if behavior.is_none() {
            return Ok(Vec::new());
        }
        let lasting: Vec<&Table> = dropped.iter().filter(|table| !temp::is_temporary(&table.name.namespace)).collect();
        if lasting.is_empty() {
            return Ok(Vec::new());
        }
        let mut views = Vec::new();
        // A view may read a table of another database.
        for database in self.engine.catalog().databases().await? {
            let all = self.caller.names.tables(self.engine.catalog(), &database.name, None).await?;
            views.extend(all.into_iter().filter(|table| table.kind != TableKind::Table));
        }
        let mut reads = HashMap::new();
        for view in &views {
            reads.insert(view.id, self.read_by(view).await?);
        }
        let mut found: Vec<(Table, Table)> = Vec::new();
        loop {
            let gone: Vec<Table> = lasting
                .iter()
                .map(|table| (*table).clone())
                .chain(found.iter().map(|(view, _)| view.clone()))
                .collect();
            let known: BTreeSet<TableId> = gone.iter().map(|table| table.id).collect();
            let next: Vec<(Table, Table)> = views
                .iter()
                .filter(|view| !known.contains(&view.id))
                .filter_map(|view| {
                    let base =
                        gone.iter().find(|base| reads.get(&view.id).is_some_and(|ids| ids.contains(&base.id)))?;
                    Some((view.clone(), base.clone()))
                })
                .collect();
            if next.is_empty() {
                break;
            }
            found.extend(next);
        }
        if !found.is_empty() && behavior == Some(DropBehavior::Restrict) {
            return Err(depended_on(dropped, &found));
        }
        Ok(found.into_iter().map(|(view, _)| view).collect())
    }

    /// Returns the relations that the query of a view names.
    async fn read_by(&self, view: &Table) -> Result<BTreeSet<TableId>> {
        let Ok(query) = self.view_query(view, &view.definition.clone().unwrap_or_default()) else {
            return Ok(BTreeSet::new());
        };
        let there = self.for_view(view);
        let mut read = BTreeSet::new();
        for name in named(&query) {
            read.extend(there.find(&name).await?.map(|table| table.id));
        }
        Ok(read)
    }
}

/// Returns the names of relations in a query, without those that stand for WITH lists where they are.
fn named(query: &Native) -> Vec<ObjectName> {
    let mut names = Names::default();
    let _ = query.visit(&mut names);
    names.relations
}

#[derive(Default)]
struct Names {
    relations: Vec<ObjectName>,
    /// The lists that can be named in each query that is being visited.
    scopes: Vec<BTreeSet<String>>,
    /// The queries of lists, by address, and what can be named in them: without RECURSIVE
    /// a list sees those before it, and not itself.
    bodies: Vec<(*const Query, BTreeSet<String>)>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let of_list = self.bodies.iter().find(|(body, _)| std::ptr::eq(*body, query));
        let outer = of_list.map(|(_, scope)| scope).or(self.scopes.last());
        let mut scope = outer.cloned().unwrap_or_default();
        if let Some(with) = &query.with {
            let name = |table: &Cte| Ident::from_native(&table.alias.name).into_string();
            if with.recursive {
                scope.extend(with.cte_tables.iter().map(name));
            }
            for table in &with.cte_tables {
                self.bodies.push((&raw const *table.query, scope.clone()));
                scope.insert(name(table));
            }
        }
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &NativeName) -> ControlFlow<()> {
        let is_list = |name: &ObjectName| {
            name.schema.is_none() && self.scopes.last().is_some_and(|scope| scope.contains(&name.name))
        };
        self.relations.extend(ObjectName::from_native(relation).filter(|name| !is_list(name)));
        ControlFlow::Continue(())
    }
}

/// Returns what a relation is called in a message.
pub(crate) fn described(table: &Table) -> String {
    let kind = match table.kind {
        TableKind::Table => "table",
        TableKind::View => "view",
        TableKind::MaterializedView => "materialized view",
    };
    format!("{kind} {}", table.name.name)
}

fn depended_on(dropped: &[Table], found: &[(Table, Table)]) -> SqlError {
    let message = match dropped {
        [only] => format!("cannot drop {} because other objects depend on it", described(only)),
        _ => "cannot drop desired object(s) because other objects depend on them".to_owned(),
    };
    let lines: Vec<String> =
        found.iter().map(|(view, base)| format!("{} depends on {}", described(view), described(base))).collect();
    SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .detail(lines.join("\n"))
        .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let dialect = sqlparser::dialect::PostgreSqlDialect {};
        let query = sqlparser::parser::Parser::parse_sql(&dialect, text).unwrap().remove(0);
        named(&query).into_iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn a_list_hides_a_relation_only_where_it_can_be_named() {
        assert_eq!(names("WITH t AS (SELECT * FROM t) SELECT * FROM t"), ["t"]);
        assert_eq!(names("WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT * FROM t) SELECT * FROM t"), [""; 0]);
        assert_eq!(names("WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b, s.a"), ["s.a"]);
        assert_eq!(names("SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t) AS x, t"), ["t"]);
        assert_eq!(names("SELECT * FROM a WHERE id IN (SELECT id FROM b)"), ["a", "b"]);
    }
}
