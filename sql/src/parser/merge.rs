//! `MERGE`, clause by clause.

use sqlparser::ast as native;
use sqlparser::parser::IsOptional;
use sqlparser::tokenizer::Token;

use super::query::ensure_reads_only;
use crate::ast::{Matching, Merge, MergeAction, MergeClause, Statement};
use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::limits::exceeded;

/// The most clauses: each is looked at for every row.
const CLAUSES_MAX: usize = 64;

/// Parses `MERGE`.
pub(super) fn merge(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let start = cursor.clone();
    cursor.expect(&["MERGE", "INTO"])?;
    cursor.take(&["ONLY"]);
    let target = cursor.native(|parser| parser.parse_table_factor())?;
    cursor.expect(&["USING"])?;
    let source = cursor.native(|parser| parser.parse_table_factor())?;
    ensure_reads_only(&source, &start)?;
    cursor.expect(&["ON"])?;
    let on = cursor.native(|parser| parser.parse_expr())?;
    ensure_reads_only(&on, &start)?;
    let mut clauses = vec![clause(cursor)?];
    while cursor.looking_at(&["WHEN"]) {
        if clauses.len() == CLAUSES_MAX {
            return Err(exceeded("MERGE has too many WHEN clauses").at(cursor.position().get()));
        }
        clauses.push(clause(cursor)?);
    }
    if cursor.looking_at(&["RETURNING"]) {
        return Err(cursor.refuse("RETURNING in MERGE", "Read the rows with a SELECT."));
    }
    Ok(Statement::Merge(Box::new(Merge { target, source, on, clauses })))
}

fn clause(cursor: &mut Cursor<'_>) -> Result<MergeClause, ParseError> {
    cursor.expect(&["WHEN"])?;
    let negated = cursor.take(&["NOT"]);
    cursor.expect(&["MATCHED"])?;
    let matching = match () {
        () if !negated => Matching::Matched,
        () if cursor.take(&["BY", "SOURCE"]) => Matching::NotMatchedBySource,
        () => {
            cursor.take(&["BY", "TARGET"]);
            Matching::NotMatchedByTarget
        }
    };
    let condition = match cursor.take(&["AND"]) {
        true => Some(expression(cursor)?),
        false => None,
    };
    cursor.expect(&["THEN"])?;
    Ok(MergeClause { matching, condition, action: action(cursor, matching)? })
}

fn action(cursor: &mut Cursor<'_>, matching: Matching) -> Result<MergeAction, ParseError> {
    if cursor.take(&["DO", "NOTHING"]) {
        return Ok(MergeAction::Nothing);
    }
    if matching == Matching::NotMatchedByTarget {
        cursor.expect(&["INSERT"])?;
        return insert(cursor);
    }
    if cursor.take(&["DELETE"]) {
        return Ok(MergeAction::Delete);
    }
    let start = cursor.clone();
    cursor.expect(&["UPDATE", "SET"])?;
    let assignments = cursor.native(|parser| parser.parse_comma_separated(|parser| parser.parse_assignment()))?;
    for assignment in &assignments {
        ensure_reads_only(assignment, &start)?;
    }
    Ok(MergeAction::Update(assignments))
}

fn insert(cursor: &mut Cursor<'_>) -> Result<MergeAction, ParseError> {
    let columns = match cursor.peek() {
        Some(Token::LParen) => {
            cursor.native(|parser| parser.parse_parenthesized_column_list(IsOptional::Mandatory, false))?
        }
        _ => Vec::new(),
    };
    if cursor.take(&["DEFAULT", "VALUES"]) {
        return Ok(MergeAction::Insert { columns, values: None });
    }
    cursor.expect(&["VALUES"])?;
    let start = cursor.clone();
    let values = cursor.native(|parser| {
        parser.expect_token(&Token::LParen)?;
        let values = parser.parse_comma_separated(|parser| parser.parse_expr())?;
        parser.expect_token(&Token::RParen)?;
        Ok(values)
    })?;
    for value in &values {
        ensure_reads_only(value, &start)?;
    }
    Ok(MergeAction::Insert { columns, values: Some(values) })
}

fn expression(cursor: &mut Cursor<'_>) -> Result<native::Expr, ParseError> {
    let start = cursor.clone();
    let expr = cursor.native(|parser| parser.parse_expr())?;
    ensure_reads_only(&expr, &start)?;
    Ok(expr)
}
