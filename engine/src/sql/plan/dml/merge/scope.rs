//! Which columns the clauses of MERGE can name.

use std::ops::ControlFlow;

use lancegate_sql::Ident;
use sqlparser::ast::{
    Expr, Ident as NativeIdent, Query, SelectItem, TableFactor, Value, Visit, VisitMut, Visitor, VisitorMut,
    WildcardAdditionalOptions,
};

use super::super::select::{self, Target};
use super::{PRESENT, alias, derived, item};
use crate::error::{Result, SqlError};
use crate::sqlstate::SqlState;

/// The name of a source that has none.
const UNNAMED: &str = "__source";

/// Returns the source of MERGE and the name that its columns are qualified with.
///
/// # Errors
/// 0A000 for what is neither a table nor a query.
pub(super) fn named_source(source: &TableFactor) -> Result<(TableFactor, Ident)> {
    let mut source = source.clone();
    let name = match &mut source {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => Ident::from_native(&alias.name),
        TableFactor::Table { name, .. } => {
            let last = name.0.last().and_then(|part| part.as_ident()).map(Ident::from_native);
            last.ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, "improper relation name"))?
        }
        TableFactor::Derived { alias: none, .. } => {
            *none = Some(alias(UNNAMED));
            Ident::new(UNNAMED)
        }
        _ => {
            return Err(SqlError::not_supported("the source of MERGE must be a table or a query")
                .hint("Write USING (SELECT * FROM …) AS s."));
        }
    };
    Ok((source, name))
}

/// Returns the source with a column that is never NULL.
pub(super) fn with_presence(source: TableFactor, name: &Ident) -> TableFactor {
    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let present = item(Expr::Value(Value::Boolean(true).with_empty_span()), PRESENT);
    derived(vec![all, present], source, name.as_str())
}

/// Qualifies the names that stand alone, outside of subqueries.
pub(super) fn qualify(expr: &mut Expr, qualifier: &[NativeIdent]) {
    let _ = expr.visit(&mut Qualify { qualifier, depth: 0 });
}

struct Qualify<'a> {
    qualifier: &'a [NativeIdent],
    depth: usize,
}

impl VisitorMut for Qualify<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let of_session = ["current_user", "session_user", "user", "current_schema", "current_role", "current_catalog"];
        if self.depth == 0
            && !select::is_default(expr)
            && let Expr::Identifier(ident) = expr
            && !(ident.quote_style.is_none() && of_session.iter().any(|name| ident.value.eq_ignore_ascii_case(name)))
        {
            let parts = self.qualifier.iter().cloned().chain([ident.clone()]).collect();
            *expr = Expr::CompoundIdentifier(parts);
        }
        ControlFlow::Continue(())
    }
}

/// Refuses columns of a target row where there is none.
///
/// # Errors
/// 42P01, as PostgreSQL answers.
pub(super) fn ensure_not_of(expr: &Expr, target: &Target) -> Result<()> {
    struct Of<'a>(&'a Target);

    impl Visitor for Of<'_> {
        type Break = String;

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
            let Expr::CompoundIdentifier(parts) = expr else { return ControlFlow::Continue(()) };
            let folded = |ident: &NativeIdent| Ident::from_native(ident).into_string();
            let qualifier = self.0.qualifier();
            let shared = parts.len() == 2 && qualifier.last().map(folded) == parts.first().map(folded);
            if shared || parts.len() > 2 && parts[..parts.len() - 1].iter().map(folded).eq(qualifier.iter().map(folded))
            {
                return ControlFlow::Break(qualifier.last().map(folded).unwrap_or_default());
            }
            ControlFlow::Continue(())
        }
    }

    match expr.visit(&mut Of(target)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => {
            let message = format!("invalid reference to FROM-clause entry for table \"{name}\"");
            Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).detail(format!(
                "There is an entry for table \"{name}\", but it cannot be referenced from this part of the query."
            )))
        }
    }
}
