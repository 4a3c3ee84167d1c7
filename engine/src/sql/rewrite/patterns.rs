//! Patterns of SIMILAR TO, and regular expressions with PostgreSQL's ends of words.

use sqlparser::ast::{BinaryOperator, Expr, Value};

use super::names::{binary, call_of, literal};
use crate::sql::functions::of_text;

/// `x SIMILAR TO p` is a regular expression that matches all of `x`.
pub(super) fn similar(expr: &mut Expr) {
    let Expr::SimilarTo { negated, expr: text, pattern, escape_char } = &*expr else { return };
    let escape = escape_char.as_ref().map(|escape| escape.value.clone());
    let escape = match escape {
        None => "\\".to_owned(),
        Some(Value::SingleQuotedString(escape)) => escape,
        Some(_) => return,
    };
    let given = match pattern.as_ref() {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => of_text::similar_pattern(text, &escape).ok(),
            _ => None,
        },
        _ => None,
    };
    // A pattern that is wrong is refused when it is used.
    let wanted = match given {
        Some(known) => literal(Value::SingleQuotedString(known)),
        None => {
            let parts = [pattern.as_ref().clone(), literal(Value::SingleQuotedString(escape))];
            call_of(of_text::SIMILAR_PATTERN, parts)
        }
    };
    let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
    *expr = Expr::Nested(Box::new(binary(text.as_ref().clone(), op, wanted)));
}

/// Whether an operator compares with a regular expression.
pub(super) fn matches_pattern(op: &BinaryOperator) -> bool {
    use BinaryOperator::{PGRegexIMatch, PGRegexMatch, PGRegexNotIMatch, PGRegexNotMatch};
    matches!(op, PGRegexMatch | PGRegexIMatch | PGRegexNotMatch | PGRegexNotIMatch)
}

/// Spells the ends of words in a pattern as Rust's regular expressions do: `\y`, `\m` and `\M` of PostgreSQL.
pub(super) fn word_ends(pattern: &mut Expr) {
    let Expr::Value(value) = pattern else { return };
    let Value::SingleQuotedString(text) = &mut value.value else { return };
    if !["\\y", "\\m", "\\M"].iter().any(|escape| text.contains(escape)) {
        return;
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('y')) => out.push_str("\\b"),
            ('\\', Some('m')) => out.push_str("\\b{start}"),
            ('\\', Some('M')) => out.push_str("\\b{end}"),
            (c, escaped) => {
                out.push(c);
                out.extend(escaped);
            }
        }
    }
    *text = out;
}
