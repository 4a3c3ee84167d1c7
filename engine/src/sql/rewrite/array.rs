//! Array literals: `'{a,"b c",NULL}'` where an array is meant.
//!
//! PostgreSQL documentation, "Array Value Input". Only one dimension is read;
//! anything else is left for the binder to refuse.

use std::ops::ControlFlow;

use arrow::datatypes::{DataType as ArrowType, Field};
use lancegate_wire::types::{format_type, pg_type};
use sqlparser::ast::{Array, ArrayElemTypeDef, CastKind, DataType, Expr, Statement, Value, VisitMut, VisitorMut};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

/// Replaces the operand of `'{…}'::type[]`.
pub(super) fn cast_literal(operand: &mut Box<Expr>, data_type: &DataType) {
    let DataType::Array(element) = data_type else { return };
    let element = match element {
        ArrayElemTypeDef::AngleBracket(element)
        | ArrayElemTypeDef::SquareBracket(element, _)
        | ArrayElemTypeDef::Parenthesis(element) => element.as_ref(),
        ArrayElemTypeDef::None => return,
    };
    if let Some(items) = literal(operand).and_then(parse) {
        **operand = array(items, Some(element));
    }
}

/// Writes out the types of parameters that the client has declared as arrays. DataFusion does not look at declared types
/// in an INSERT, and `unnest($1)` has no other.
pub(crate) fn cast_parameters(statement: &mut Statement, declared: &[Option<ArrowType>]) {
    struct Cast<'a>(&'a [Option<ArrowType>]);
    impl VisitorMut for Cast<'_> {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let Expr::Value(value) = &*expr else { return ControlFlow::Continue(()) };
            let Value::Placeholder(name) = &value.value else { return ControlFlow::Continue(()) };
            let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
            let declared = number.and_then(|number| self.0.get(number.checked_sub(1)?)?.as_ref());
            if let Some(data_type) = declared.filter(|declared| declared.is_list()).and_then(sql_type) {
                let operand = Box::new(expr.clone());
                *expr = Expr::Cast { kind: CastKind::Cast, expr: operand, data_type, array: false, format: None };
            }
            ControlFlow::Continue(())
        }
    }
    if declared.iter().flatten().any(ArrowType::is_list) {
        let _ = statement.visit(&mut Cast(declared));
    }
}

fn sql_type(data_type: &ArrowType) -> Option<DataType> {
    let name = format_type(pg_type(&Field::new("", data_type.clone(), true)).oid, -1);
    Parser::new(&PostgreSqlDialect {}).try_with_sql(&name).ok()?.parse_data_type().ok()
}

/// Replaces the right side of `left = ANY ('{…}')`.
pub(super) fn compared_literal(right: &mut Box<Expr>) {
    if let Expr::Nested(inner) = right.as_ref() {
        let inner = inner.clone();
        *right = inner;
    }
    if let Some(items) = literal(right).and_then(parse) {
        **right = array(items, None);
    }
}

/// Replaces a string that is given for an array or vector column: `'{1,2}'` as
/// PostgreSQL writes arrays, `'[1,2]'` as pgvector writes vectors.
pub(crate) fn given_for_array(value: &mut Expr) {
    let text = literal(value).map(str::trim);
    let braces = text.and_then(|text| {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        inner.map_or_else(|| text.starts_with('{').then(|| text.to_owned()), |inner| Some(format!("{{{inner}}}")))
    });
    if let Some(items) = braces.as_deref().and_then(parse) {
        *value = array(items, None);
    }
}

fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
            _ => None,
        },
        Expr::Nested(inner) => literal(inner),
        _ => None,
    }
}

fn array(items: Vec<Option<String>>, element: Option<&DataType>) -> Expr {
    let elem = items.into_iter().map(|item| {
        let value = match item {
            // A number stays one, so that the array has the type that is meant.
            Some(text) if element.is_none() && text.parse::<f64>().is_ok_and(f64::is_finite) => {
                Expr::Value(Value::Number(text, false).with_empty_span())
            }
            Some(text) => Expr::Value(Value::SingleQuotedString(text).with_empty_span()),
            None => Expr::Value(Value::Null.with_empty_span()),
        };
        match element {
            Some(data_type) => Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(value),
                data_type: data_type.clone(),
                array: false,
                format: None,
            },
            None => value,
        }
    });
    Expr::Array(Array { elem: elem.collect(), named: true })
}

/// Splits the text of an array literal; `None` if it is not a flat one.
fn parse(text: &str) -> Option<Vec<Option<String>>> {
    let body = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    let mut items = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let (item, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (item, after) = quoted_item(quoted)?;
                (Some(item), after.trim_start())
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (unquoted(&rest[..end])?, &rest[end..])
            }
        };
        items.push(item);
        rest = match after.strip_prefix(',') {
            Some(more) if more.trim().is_empty() => return None,
            Some(more) => more.trim_start(),
            None if after.is_empty() => after,
            None => return None,
        };
    }
    Some(items)
}

/// Reads up to the closing quote; a backslash takes the next character as it is.
fn quoted_item(text: &str) -> Option<(String, &str)> {
    let mut item = String::new();
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '\\' => item.push(chars.next()?.1),
            '"' => return Some((item, &text[index + 1..])),
            c => item.push(c),
        }
    }
    None
}

fn unquoted(item: &str) -> Option<Option<String>> {
    let item = item.trim();
    match item {
        "" => None,
        nested if nested.contains(['{', '}', '"']) => None,
        null if null.eq_ignore_ascii_case("null") => Some(None),
        text => Some(Some(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn array_literals_are_split_as_postgresql_splits_them() {
        let cases: [(&str, Option<Vec<Option<&str>>>); 8] = [
            ("{}", Some(vec![])),
            ("{a,b}", Some(vec![Some("a"), Some("b")])),
            ("{ 1 , 2 }", Some(vec![Some("1"), Some("2")])),
            (r#"{"a,b",c}"#, Some(vec![Some("a,b"), Some("c")])),
            (r#"{c,"x\"y"}"#, Some(vec![Some("c"), Some("x\"y")])),
            ("{NULL,\"NULL\"}", Some(vec![None, Some("NULL")])),
            ("{{1},{2}}", None),
            ("nope", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|items| items.into_iter().map(|item| item.map(str::to_owned)).collect());
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
