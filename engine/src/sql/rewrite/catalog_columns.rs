//! Columns that every relation of PostgreSQL's catalog has, or had under another
//! name, and that the relations here do not show: `tableoid`, `xmin`,
//! `colliculocale`, and functions by number where only their names are kept.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, DataType, Expr, Ident, Select, Statement, TableFactor, Value, ValueWithSpan, VisitMut, VisitorMut,
};

/// PostgreSQL's numbers of the relations that `tableoid` is asked of.
const NUMBERS: [(&str, i32); 24] = [
    ("pg_am", 2601),
    ("pg_attrdef", 2604),
    ("pg_authid", 1260),
    ("pg_cast", 2605),
    ("pg_class", 1259),
    ("pg_collation", 3456),
    ("pg_constraint", 2606),
    ("pg_conversion", 2607),
    ("pg_database", 1262),
    ("pg_event_trigger", 3466),
    ("pg_extension", 3079),
    ("pg_foreign_data_wrapper", 2328),
    ("pg_foreign_server", 1417),
    ("pg_language", 2612),
    ("pg_namespace", 2615),
    ("pg_opclass", 2616),
    ("pg_operator", 2617),
    ("pg_opfamily", 2753),
    ("pg_proc", 1255),
    ("pg_rewrite", 2618),
    ("pg_statistic_ext", 3381),
    ("pg_tablespace", 1213),
    ("pg_trigger", 2620),
    ("pg_type", 1247),
];

/// Columns that hold the name of a function where PostgreSQL has its number.
const PROCEDURES: [&str; 6] = ["amproc", "oprcode", "typinput", "typoutput", "typreceive", "typsend"];

/// Puts what there is in the place of these columns.
pub(super) fn replace(statement: &mut Statement) {
    let _ = VisitMut::visit(statement, &mut Replace(Vec::new()));
}

/// The relations of the SELECTs around an expression by the names that their columns are qualified with, innermost last.
struct Replace(Vec<HashMap<String, String>>);

/// Relations by alias.
fn relations(select: &Select) -> HashMap<String, String> {
    let factors = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let named = |factor: &TableFactor| {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
        let relation = name.0.last().and_then(|part| part.as_ident())?.value.to_ascii_lowercase();
        let shown = alias.as_ref().map_or_else(|| relation.clone(), |alias| alias.name.value.to_ascii_lowercase());
        Some((shown, relation))
    };
    factors.filter_map(named).collect()
}

impl Replace {
    /// Returns the relation and the column of `a.c`.
    fn column<'a>(&self, expr: &'a mut Expr) -> Option<(&str, &'a mut Ident)> {
        let Expr::CompoundIdentifier(parts) = expr else { return None };
        let [.., qualifier, column] = parts.as_mut_slice() else { return None };
        let qualifier = qualifier.value.to_ascii_lowercase();
        let relation = self.0.iter().rev().find_map(|scope| scope.get(&qualifier))?;
        Some((relation.as_str(), column))
    }

    /// Whether an expression is a column that holds the name of a function.
    fn is_procedure(expr: &Expr) -> bool {
        let column = match expr {
            Expr::Identifier(column) => Some(column),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        column.is_some_and(|column| PROCEDURES.contains(&column.value.to_ascii_lowercase().as_str()))
    }

    /// `p.oid = t.typinput` compares names, and `t.typinput = 'array_in'::regproc`, too.
    fn by_name(&self, named: &Expr, other: &mut Expr) {
        if !Self::is_procedure(named) {
            return;
        }
        if let Some(name) = procedure_literal(other) {
            *other = Expr::Value(Value::SingleQuotedString(name).with_empty_span());
        } else if let Some((relation, column)) = self.column(other)
            && relation == "pg_proc"
            && column.value.eq_ignore_ascii_case("oid")
        {
            "proname".clone_into(&mut column.value);
        }
    }
}

fn is_procedure_type(data_type: &DataType) -> bool {
    let name = data_type.to_string().to_ascii_lowercase();
    matches!(name.strip_prefix("pg_catalog.").unwrap_or(&name), "regproc" | "regprocedure")
}

/// Returns the name in `'pg_catalog.array_in'::regproc`.
fn procedure_literal(expr: &Expr) -> Option<String> {
    let Expr::Cast { expr, data_type, .. } = expr else { return None };
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(name), .. }) = expr.as_ref() else { return None };
    is_procedure_type(data_type).then(|| name.strip_prefix("pg_catalog.").unwrap_or(name).to_owned())
}

impl VisitorMut for Replace {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.0.push(relations(select));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.0.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                self.by_name(left, right);
                self.by_name(right, left);
            }
            // What is shown of a function is its name.
            Expr::Cast { expr: operand, data_type, .. }
                if is_procedure_type(data_type) && Self::is_procedure(operand) =>
            {
                let operand = operand.as_ref().clone();
                *expr = operand;
            }
            // No statistics are kept, and their kinds are no array here.
            Expr::AnyOp { right, .. } if matches!(right.as_ref(), Expr::CompoundIdentifier(parts) if parts.last().is_some_and(|column| column.value == "stxkind")) =>
            {
                *expr = Expr::Value(Value::Boolean(false).with_empty_span());
            }
            _ => self.plain_column(expr),
        }
        ControlFlow::Continue(())
    }
}

impl Replace {
    fn plain_column(&self, expr: &mut Expr) {
        let Some((relation, column)) = self.column(expr) else { return };
        let number = match column.value.as_str() {
            "tableoid" => NUMBERS.iter().find(|(name, _)| *name == relation).map(|(_, number)| number.to_string()),
            // A transaction that has been over for long.
            "xmin" if relation.starts_with("pg_") => Some("1".to_owned()),
            "colliculocale" if relation == "pg_collation" => {
                "colllocale".clone_into(&mut column.value);
                None
            }
            _ => None,
        };
        if let Some(number) = number {
            *expr = Expr::Value(Value::Number(number, false).with_empty_span());
        }
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    #[test]
    fn columns_that_are_not_kept_are_replaced() {
        let cases = [
            ("SELECT c.tableoid, c.oid FROM pg_class c", "SELECT 1259, c.oid FROM pg_class c"),
            ("SELECT n.xmin FROM pg_catalog.pg_namespace AS n", "SELECT 1 FROM pg_catalog.pg_namespace AS n"),
            ("SELECT c.tableoid FROM mine c", "SELECT c.tableoid FROM mine c"),
            (
                "SELECT 1 FROM pg_type t JOIN pg_proc p ON p.oid = t.typinput",
                "SELECT 1 FROM pg_type t JOIN pg_proc p ON p.proname = t.typinput",
            ),
            (
                "SELECT 1 FROM pg_type WHERE typinput = 'pg_catalog.array_in'::regproc",
                "SELECT 1 FROM pg_type WHERE typinput = 'array_in'",
            ),
            ("SELECT a.amproc::regprocedure FROM pg_amproc a", "SELECT a.amproc FROM pg_amproc a"),
            (
                "SELECT t.tableoid FROM pg_class t UNION ALL SELECT t.tableoid FROM pg_type t",
                "SELECT 1259 FROM pg_class t UNION ALL SELECT 1247 FROM pg_type t",
            ),
            ("SELECT c.colliculocale FROM pg_collation c", "SELECT c.colllocale FROM pg_collation c"),
        ];
        for (text, expected) in cases {
            let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, text).unwrap().remove(0);
            super::replace(&mut statement);
            assert_eq!(statement.to_string(), expected, "{text}");
        }
    }
}
