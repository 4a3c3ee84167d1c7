//! The expressions of a part of a query that are not inside of its subqueries, where the same names are others.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Query, VisitMut, VisitorMut};

/// Changes each of them, before those inside of it.
pub fn of_subqueries(part: &mut impl VisitMut, change: impl FnMut(&mut Expr)) {
    let _ = part.visit(&mut Outside { depth: 0, change });
}

struct Outside<F> {
    depth: usize,
    change: F,
}

impl<F: FnMut(&mut Expr)> VisitorMut for Outside<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 {
            (self.change)(expr);
        }
        ControlFlow::Continue(())
    }
}
