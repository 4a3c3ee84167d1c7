//! The names of result columns, as PostgreSQL gives them: `max`, not
//! `max(docs.id)`; `?column?` for what has no name.
//!
//! Labels are put into the statement as aliases. Two equal labels of one select
//! list are told apart by a mark that is taken off again when the result is
//! described, because DataFusion refuses equal names.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, Statement, VisitMut, VisitorMut,
};

/// Begins the part of a name that the client does not see. It cannot come from
/// a client, whose text holds no such character outside of quotes.
const MARK: char = '\u{1f}';

/// Gives every unnamed expression of every select list its PostgreSQL name.
pub fn apply(statement: &mut Statement) {
    struct Labels {
        depth: usize,
    }
    impl VisitorMut for Labels {
        type Break = ();

        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            label(select, self.depth > 1);
            ControlFlow::Continue(())
        }
    }
    let _ = statement.visit(&mut Labels { depth: 0 });
}

/// Returns the schema with the names that the client sees.
pub fn visible(schema: &Schema) -> SchemaRef {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| {
            let name = field.name().split(MARK).next().unwrap_or_default();
            field.as_ref().clone().with_name(name)
        })
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The list of an inner query can be named by the one around it, so as little of it as possible is marked.
fn label(select: &mut Select, is_inner: bool) {
    let wildcards = Wildcards::of(select);
    let mut seen: HashMap<String, usize> = HashMap::new();
    for name in select.projection.iter().filter_map(name_of) {
        *seen.entry(name).or_default() += 1;
    }
    let mut used = HashMap::new();
    for (index, item) in select.projection.iter_mut().enumerate() {
        let Some(name) = name_of(item) else { continue };
        let ambiguous = seen.get(&name).copied().unwrap_or(0) > 1;
        let first = used.insert(name.clone(), ()).is_none();
        match item {
            // A plain column keeps its qualifier, unless it would be there twice.
            SelectItem::UnnamedExpr(expr) if is_column(expr) && !wildcards.have(expr) && (!ambiguous || first) => {}
            SelectItem::UnnamedExpr(expr) if is_column(expr) => {
                let alias = marked(&name, index);
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
            SelectItem::UnnamedExpr(expr) => {
                let is_twice = if is_inner { ambiguous && !first } else { wildcards.any() || ambiguous };
                let alias = if is_twice { marked(&name, index) } else { Ident::with_quote('"', name) };
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
            SelectItem::ExprWithAlias { alias, .. } if ambiguous && !first => *alias = marked(&name, index),
            _ => {}
        }
    }
}

/// The `*` and `t.*` of a select list.
struct Wildcards {
    all: bool,
    of: Vec<String>,
    /// Whether there is one relation that a name without a qualifier can be of.
    one_relation: bool,
}

impl Wildcards {
    fn of(select: &Select) -> Self {
        let all = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
        let of = select.projection.iter().filter_map(|item| match item {
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                name.0.last().and_then(|part| part.as_ident()).map(fold)
            }
            _ => None,
        });
        let one_relation = matches!(select.from.as_slice(), [from] if from.joins.is_empty());
        Self { all, of: of.collect(), one_relation }
    }

    fn any(&self) -> bool {
        self.all || !self.of.is_empty()
    }

    /// Returns whether one of them has a column, as far as its name tells.
    fn have(&self, column: &Expr) -> bool {
        match column {
            Expr::CompoundIdentifier(parts) if parts.len() > 1 => {
                self.all || self.of.contains(&fold(&parts[parts.len() - 2]))
            }
            _ => self.all || (self.any() && self.one_relation),
        }
    }
}

fn marked(name: &str, index: usize) -> Ident {
    Ident::with_quote('"', format!("{name}{MARK}{index}"))
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// Returns the label of an item of a select list.
pub(crate) fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => Some(figure(expr).unwrap_or_else(|| "?column?".to_owned())),
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        _ => None,
    }
}

/// PostgreSQL's rule for the name of an expression (`FigureColname`).
fn figure(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(fold(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(fold),
        Expr::Function(function) => function.name.0.last().and_then(|part| part.as_ident()).map(fold),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner),
        Expr::Cast { expr, data_type, .. } => figure(expr).or_else(|| Some(type_name(data_type))),
        Expr::Case { else_result, .. } => {
            else_result.as_ref().and_then(|result| figure(result)).or_else(|| Some("case".to_owned()))
        }
        Expr::Array(_) => Some("array".to_owned()),
        Expr::Exists { .. } => Some("exists".to_owned()),
        Expr::Subquery(query) => match query.body.as_ref() {
            sqlparser::ast::SetExpr::Select(select) => match select.projection.as_slice() {
                [item] => name_of(item).filter(|name| name != "?column?"),
                _ => None,
            },
            _ => None,
        },
        Expr::Extract { .. } => Some("extract".to_owned()),
        Expr::Position { .. } => Some("position".to_owned()),
        Expr::Substring { .. } => Some("substring".to_owned()),
        Expr::Trim { .. } => Some("btrim".to_owned()),
        Expr::Overlay { .. } => Some("overlay".to_owned()),
        Expr::Ceil { .. } => Some("ceil".to_owned()),
        Expr::Floor { .. } => Some("floor".to_owned()),
        Expr::AtTimeZone { .. } => Some("timezone".to_owned()),
        Expr::CompoundFieldAccess { root, .. } => figure(root),
        Expr::Interval(_) => Some("interval".to_owned()),
        Expr::TypedString(typed) => Some(type_name(&typed.data_type)),
        Expr::Tuple(_) => Some("row".to_owned()),
        Expr::Value(value) => match &value.value {
            sqlparser::ast::Value::Boolean(_) => Some("bool".to_owned()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns a name as PostgreSQL reads it: in lower case unless it is quoted.
pub(crate) fn fold(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}

/// The internal name of a type, under which PostgreSQL shows casts.
fn type_name(data_type: &sqlparser::ast::DataType) -> String {
    let text = data_type.to_string().to_ascii_lowercase();
    let base = text.split(['(', '[']).next().unwrap_or_default().trim();
    let base = base.strip_prefix("pg_catalog.").unwrap_or(base);
    match base {
        "int" | "integer" | "int4" => "int4",
        "bigint" | "int8" => "int8",
        "smallint" | "int2" => "int2",
        "real" | "float4" => "float4",
        "double precision" | "double" | "float" | "float8" => "float8",
        "boolean" | "bool" => "bool",
        "character varying" | "varchar" => "varchar",
        "character" | "char" => "bpchar",
        "decimal" | "dec" | "numeric" => "numeric",
        "timestamp with time zone" | "timestamptz" => "timestamptz",
        "timestamp" | "timestamp without time zone" => "timestamp",
        "time" | "time without time zone" => "time",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    use super::*;

    #[test]
    fn expressions_are_named_as_postgresql_names_them() {
        let cases = [
            ("max(a)", "max"),
            ("1 + 1", "?column?"),
            ("'x'", "?column?"),
            ("a::text", "a"),
            ("1::bigint", "int8"),
            ("case when a then b else c end", "c"),
            ("case when a then b else 1 end", "case"),
            ("t.\"Mixed\"", "Mixed"),
            ("Upper(A)", "upper"),
            ("(select max(x) from t)", "max"),
            ("exists (select 1)", "exists"),
            ("true", "bool"),
        ];
        for (text, expected) in cases {
            let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text).unwrap();
            let item = SelectItem::UnnamedExpr(parser.parse_expr().unwrap());
            assert_eq!(name_of(&item).unwrap(), expected, "{text}");
        }
    }
}
