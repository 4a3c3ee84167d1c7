//! `WITH` before INSERT, UPDATE and DELETE: the queries are put where they are read, because the syntax tree has no
//! place for them there. What each means is the same, unless it draws numbers: then each place draws its own.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::{Cte, Ident, Query, TableAlias, TableFactor, VisitMut, VisitorMut, With};

/// Queries that one place may hold, those within others counted: who reads each twice doubles them again and again.
const QUERIES_MAX: usize = 64;

/// Why the queries cannot be put where they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// One reads itself.
    Recursive,
    /// There would be too many of them.
    TooMany,
}

/// Puts the queries of `WITH` into the places of a statement that read them.
pub(super) fn inline(with: With, statement: &mut impl VisitMut) -> Result<(), Refused> {
    if with.recursive {
        return Err(Refused::Recursive);
    }
    let mut inlined = Inlined::default();
    for mut cte in with.cte_tables {
        // It may read those before it.
        let queries = inlined.fill(cte.query.as_mut())? + 1;
        inlined.known.insert(folded(&cte.alias.name), (cte, queries));
    }
    inlined.fill(statement).map(drop)
}

#[derive(Default)]
struct Inlined {
    /// By name, each with the number of queries that it holds.
    known: HashMap<String, (Cte, usize)>,
    /// Names that queries around the place give to others.
    hidden: Vec<Vec<String>>,
    /// Queries that were put into the statement.
    queries: usize,
}

impl Inlined {
    /// Returns how many queries were put there.
    fn fill(&mut self, tree: &mut impl VisitMut) -> Result<usize, Refused> {
        self.queries = 0;
        match tree.visit(self) {
            ControlFlow::Continue(()) => Ok(self.queries),
            ControlFlow::Break(refused) => Err(refused),
        }
    }
}

impl VisitorMut for Inlined {
    type Break = Refused;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Refused> {
        let names = query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| folded(&cte.alias.name));
        self.hidden.push(names.collect());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Refused> {
        self.hidden.pop();
        ControlFlow::Continue(())
    }

    // After its parts: what is put there has been filled already.
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Refused> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return ControlFlow::Continue(()) };
        let [part] = name.0.as_slice() else { return ControlFlow::Continue(()) };
        let known =
            part.as_ident().map(folded).filter(|name| !self.hidden.iter().flatten().any(|hidden| hidden == name));
        let Some((cte, queries)) = known.and_then(|name| self.known.get(&name)) else {
            return ControlFlow::Continue(());
        };
        self.queries += queries;
        if self.queries > QUERIES_MAX {
            return ControlFlow::Break(Refused::TooMany);
        }
        let alias = match alias.take() {
            None => cte.alias.clone(),
            Some(alias) if alias.columns.is_empty() => TableAlias { columns: cte.alias.columns.clone(), ..alias },
            Some(alias) => alias,
        };
        *factor =
            TableFactor::Derived { lateral: false, subquery: cte.query.clone(), alias: Some(alias), sample: None };
        ControlFlow::Continue(())
    }
}

fn folded(name: &Ident) -> String {
    crate::Ident::from_native(name).into_string()
}
