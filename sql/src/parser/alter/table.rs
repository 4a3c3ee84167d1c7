//! `ALTER TABLE`.

use sqlparser::ast::{ColumnOption, Expr};
use sqlparser::tokenizer::Token;

use crate::ast::{
    AddColumn, AddComputedColumn, AlterColumnSet, AlterColumnType, AlterOperation, AlterTable, DropBehavior,
    DropColumn, FunctionApplication, RenameColumn,
};
use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::name::{FieldPath, Ident};
use crate::options::ColumnOptions;
use crate::parser::options;

/// Parses what follows `ALTER TABLE`.
pub(super) fn alter_table(cursor: &mut Cursor<'_>) -> Result<AlterTable, ParseError> {
    let if_exists = cursor.if_exists();
    cursor.take(&["ONLY"]);
    let table = cursor.object_name()?;
    let operations = cursor.comma_separated(|cursor| {
        // The native parser copies the tokens it is given, so it gets only these.
        let mut part = cursor.until_comma();
        let operation = operation(&mut part)?;
        part.expect_end()?;
        cursor.rewind(part.mark());
        Ok(operation)
    })?;
    Ok(AlterTable { table, if_exists, operations })
}

fn operation(cursor: &mut Cursor<'_>) -> Result<AlterOperation, ParseError> {
    let start = cursor.clone();
    match cursor.take_one(&["ADD", "DROP", "RENAME", "ALTER", "SET", "UNSET", "OWNER"]) {
        Some("ADD") => add(cursor, &start),
        Some("DROP") => drop(cursor, &start),
        Some("RENAME") => rename(cursor, &start),
        Some("ALTER") => alter_column(cursor),
        Some("SET") => set(cursor, &start),
        Some("UNSET") => Err(start.refuse("UNSET", WAL_HINT)),
        Some(_) => Err(start.refuse("OWNER TO", "GRANT OWNERSHIP ON TABLE makes another owner.")),
        None => Err(cursor.unexpected()),
    }
}

const WAL_HINT: &str = "Tables have no write-ahead log of their own; writes commit at once.";
const CONSTRAINT_HINT: &str = "A PRIMARY KEY can be added, which is recorded and not enforced.";

fn add(cursor: &mut Cursor<'_>, start: &Cursor<'_>) -> Result<AlterOperation, ParseError> {
    let constraints = ["CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK", "EXCLUDE"];
    if constraints.iter().any(|word| cursor.is_keyword(0, word)) {
        if cursor.take(&["CONSTRAINT"]) {
            // PostgreSQL would call it so; here a table has one key and no names of keys.
            cursor.ident()?;
        }
        if cursor.take(&["PRIMARY", "KEY"]) {
            return cursor.parenthesized(Cursor::ident).map(AlterOperation::SetUnenforcedPrimaryKey);
        }
        return Err(start.refuse("ADD CONSTRAINT", CONSTRAINT_HINT));
    }
    cursor.take(&["COLUMN"]);
    let if_not_exists = cursor.if_not_exists();
    if cursor.peek() == Some(&Token::LParen) {
        let names = cursor.parenthesized(Cursor::ident)?;
        cursor.expect(&["AS"])?;
        return computed(cursor, None, names, if_not_exists);
    }
    let named = cursor.clone();
    let (parent, name) = column(cursor)?;
    if cursor.take(&["AS"]) {
        return computed(cursor, parent, vec![name], if_not_exists);
    }
    let data_type = cursor.native(|parser| parser.parse_data_type())?;
    if cursor.take(&["GENERATED"]) {
        cursor.expect(&["ALWAYS", "AS"])?;
        cursor.expect_token(&Token::LParen)?;
        let expression = cursor.expression()?;
        cursor.expect_token(&Token::RParen)?;
        if cursor.looking_at(&["VIRTUAL"]) {
            let hint = "Write STORED, or define a view.";
            return Err(cursor.refuse("GENERATED … VIRTUAL", hint));
        }
        cursor.take(&["STORED"]);
        return Ok(AlterOperation::AddComputedColumn(Box::new(AddComputedColumn {
            parent,
            names: vec![name],
            if_not_exists,
            data_type: Some(data_type),
            expression,
            application: None,
            options: ColumnOptions::from_options(&options::with(cursor)?)?,
        })));
    }
    let (mut default, mut not_null) = (None, false);
    loop {
        if cursor.looking_at(&["DEFAULT"]) {
            if default.is_some() {
                return Err(cursor.unexpected());
            }
            default = Some(default_value(cursor)?);
        } else if cursor.take(&["NOT", "NULL"]) {
            not_null = true;
        } else if !cursor.take(&["NULL"]) {
            break;
        }
    }
    let extras = ["PRIMARY", "UNIQUE", "REFERENCES", "CHECK", "CONSTRAINT", "GENERATED"];
    if let Some(word) = extras.iter().find(|word| cursor.is_keyword(0, word)) {
        let hint = "A column is added with a DEFAULT, and NOT NULL.";
        return Err(cursor.refuse(format!("{word} in ADD COLUMN"), hint));
    }
    if parent.is_some() {
        let hint = "A field that is computed can be added with AS.";
        return Err(named.refuse("ADD COLUMN of a plain field inside a column", hint));
    }
    Ok(AlterOperation::AddColumn(AddColumn { name, data_type, default, not_null, if_not_exists }))
}

/// Parses DEFAULT and its value, as in CREATE TABLE: a NOT NULL that follows is a word about the column, and not the
/// operator that asks whether the value is NULL.
fn default_value(cursor: &mut Cursor<'_>) -> Result<Box<Expr>, ParseError> {
    match cursor.native(|parser| parser.parse_optional_column_option())? {
        Some(ColumnOption::Default(value)) => Ok(Box::new(value)),
        _ => Err(cursor.unexpected()),
    }
}

/// Takes a column, or a field inside one by its path: what it is in, and its own name.
fn column(cursor: &mut Cursor<'_>) -> Result<(Option<FieldPath>, Ident), ParseError> {
    let mut parts = cursor.field_path()?.parts().to_vec();
    let name = parts.pop().ok_or_else(|| cursor.unexpected())?;
    Ok((FieldPath::from_parts(parts), Ident::new(name)))
}

/// Parses what follows `AS`.
fn computed(
    cursor: &mut Cursor<'_>,
    parent: Option<FieldPath>,
    names: Vec<Ident>,
    if_not_exists: bool,
) -> Result<AlterOperation, ParseError> {
    // A bare call with clauses of ours after it ends at its parenthesis; the
    // native parser would read the clauses as those of an aggregate.
    let call_end = call_end(cursor);
    let clauses = call_end.is_some_and(|end| {
        let mut after = cursor.clone();
        after.rewind(end);
        ["FILTER", "IGNORE", "RESPECT", "OVER"].iter().any(|word| after.is_keyword(0, word))
    });
    let (expression, application) = match call_end {
        Some(end) if clauses => {
            let mut call = cursor.up_to(end);
            let expression = call.expression()?;
            call.expect_end()?;
            cursor.rewind(end);
            (expression, Some(application(cursor)?))
        }
        _ => (cursor.expression()?, None),
    };
    let options = ColumnOptions::from_options(&options::with(cursor)?)?;
    Ok(AlterOperation::AddComputedColumn(Box::new(AddComputedColumn {
        parent,
        names,
        if_not_exists,
        data_type: None,
        expression,
        application,
        options,
    })))
}

/// Returns the index behind `<name>(…)` when that stands next.
fn call_end(cursor: &Cursor<'_>) -> Option<usize> {
    let mut call = cursor.clone();
    call.dotted().ok()?;
    (call.peek() == Some(&Token::LParen)).then(|| call.closing(call.mark())).flatten()
}

fn application(cursor: &mut Cursor<'_>) -> Result<FunctionApplication, ParseError> {
    let mut application = FunctionApplication::default();
    if cursor.take(&["FILTER"]) {
        cursor.expect_token(&Token::LParen)?;
        cursor.expect(&["WHERE"])?;
        application.filter = Some(cursor.expression()?);
        cursor.expect_token(&Token::RParen)?;
    }
    if !cursor.take(&["RESPECT", "NULLS"]) {
        application.ignore_nulls = cursor.take(&["IGNORE", "NULLS"]);
    }
    if cursor.take(&["OVER"]) {
        cursor.expect_token(&Token::LParen)?;
        cursor.expect(&["PARTITION", "BY"])?;
        application.partition_by = cursor.comma_separated(Cursor::ident)?;
        cursor.expect_token(&Token::RParen)?;
    }
    Ok(application)
}

fn drop(cursor: &mut Cursor<'_>, start: &Cursor<'_>) -> Result<AlterOperation, ParseError> {
    if cursor.looking_at(&["CONSTRAINT"]) {
        return Err(start.refuse("DROP CONSTRAINT", CONSTRAINT_HINT));
    }
    cursor.take(&["COLUMN"]);
    let if_exists = cursor.if_exists();
    let (parent, name) = column(cursor)?;
    let cascade = cursor.drop_behavior() == Some(DropBehavior::Cascade);
    Ok(AlterOperation::DropColumn(DropColumn { parent, name, if_exists, cascade }))
}

fn rename(cursor: &mut Cursor<'_>, start: &Cursor<'_>) -> Result<AlterOperation, ParseError> {
    if cursor.take(&["TO"]) {
        return cursor.ident().map(AlterOperation::RenameTable);
    }
    if cursor.looking_at(&["CONSTRAINT"]) {
        return Err(start.refuse("RENAME CONSTRAINT", CONSTRAINT_HINT));
    }
    cursor.take(&["COLUMN"]);
    let from = cursor.ident()?;
    cursor.expect(&["TO"])?;
    Ok(AlterOperation::RenameColumn(RenameColumn { from, to: cursor.ident()? }))
}

fn alter_column(cursor: &mut Cursor<'_>) -> Result<AlterOperation, ParseError> {
    cursor.take(&["COLUMN"]);
    let named = cursor.clone();
    let (parent, name) = column(cursor)?;
    if cursor.take(&["TYPE"]) || cursor.take(&["SET", "DATA", "TYPE"]) {
        if parent.is_some() {
            return Err(named.refuse("changing the type of a field inside a column", "Change it with the Lance SDK."));
        }
        let data_type = cursor.native(|parser| parser.parse_data_type())?;
        let using = if cursor.take(&["USING"]) { Some(Box::new(cursor.expression()?)) } else { None };
        return Ok(AlterOperation::AlterColumnType(AlterColumnType { name, data_type, using }));
    }
    if cursor.looking_at(&["SET"]) && cursor.peek_nth(1) == Some(&Token::LParen) {
        cursor.advance();
        let options = ColumnOptions::from_settable(&options::list(cursor)?)?;
        return Ok(AlterOperation::AlterColumnSet(AlterColumnSet { parent, name, options }));
    }
    if parent.is_none() {
        if cursor.take(&["DROP", "NOT", "NULL"]) {
            return Ok(AlterOperation::DropNotNull(name));
        }
        if cursor.take(&["SET", "NOT", "NULL"]) {
            return Ok(AlterOperation::SetNotNull(name));
        }
        if cursor.take(&["DROP", "DEFAULT"]) {
            return Ok(AlterOperation::DropDefault(name));
        }
        if cursor.looking_at(&["SET", "DEFAULT"]) {
            cursor.advance();
            return Ok(AlterOperation::SetDefault(name, default_value(cursor)?));
        }
    }
    if cursor.looking_at(&["SET"]) || cursor.looking_at(&["DROP"]) {
        let hint = "A column's type, default, NOT NULL and automatic refresh can be changed.";
        return Err(cursor.refuse("this form of ALTER COLUMN", hint));
    }
    Err(cursor.unexpected())
}

fn set(cursor: &mut Cursor<'_>, start: &Cursor<'_>) -> Result<AlterOperation, ParseError> {
    if cursor.take(&["UNENFORCED", "PRIMARY", "KEY"]) {
        let columns = cursor.parenthesized(Cursor::ident)?;
        return Ok(AlterOperation::SetUnenforcedPrimaryKey(columns));
    }
    if cursor.looking_at(&["WAL"]) {
        return Err(start.refuse("SET WAL", WAL_HINT));
    }
    if cursor.looking_at(&["SCHEMA"]) {
        return Err(start.refuse("SET SCHEMA", "CREATE TABLE … CLONE makes one in another schema."));
    }
    Err(cursor.unexpected())
}
