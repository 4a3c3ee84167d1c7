//! `DROP` of everything.

use crate::ast::{
    DropApiKey, DropDatabase, DropIndex, DropMaterializedView, DropSchema, DropSecret, DropStorageIntegration,
    DropTable, DropUser, DropView, Statement,
};
use crate::cursor::Cursor;
use crate::error::ParseError;

/// Parses `DROP …`.
pub(super) fn drop(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let start = cursor.clone();
    cursor.expect(&["DROP"])?;
    if cursor.take(&["TABLE"]) {
        let if_exists = cursor.if_exists();
        let tables = cursor.comma_separated(Cursor::object_name)?;
        let behavior = cursor.drop_behavior();
        return Ok(Statement::DropTable(DropTable { if_exists, tables, behavior }));
    }
    if cursor.take(&["VIEW"]) {
        let if_exists = cursor.if_exists();
        let views = cursor.comma_separated(Cursor::object_name)?;
        let behavior = cursor.drop_behavior();
        return Ok(Statement::DropView(DropView { if_exists, views, behavior }));
    }
    if cursor.take(&["MATERIALIZED", "VIEW"]) {
        let if_exists = cursor.if_exists();
        let views = cursor.comma_separated(Cursor::object_name)?;
        let behavior = cursor.drop_behavior();
        return Ok(Statement::DropMaterializedView(DropMaterializedView { if_exists, views, behavior }));
    }
    if cursor.take(&["DATABASE"]) {
        let if_exists = cursor.if_exists();
        let name = cursor.ident()?;
        let behavior = cursor.drop_behavior();
        return Ok(Statement::DropDatabase(DropDatabase { name, if_exists, behavior }));
    }
    if cursor.looking_at(&["SCHEMA"]) || cursor.looking_at(&["NAMESPACE"]) {
        return drop_schema(cursor);
    }
    if cursor.take(&["INDEX"]) {
        cursor.take(&["CONCURRENTLY"]);
        let if_exists = cursor.if_exists();
        let indexes = cursor.comma_separated(Cursor::field_path)?;
        let behavior = cursor.drop_behavior();
        return Ok(Statement::DropIndex(DropIndex { if_exists, indexes, behavior }));
    }
    if cursor.take(&["FUNCTION"]) {
        return super::function::drop(cursor);
    }
    if cursor.take(&["USER"]) {
        let if_exists = cursor.if_exists();
        let names = cursor.comma_separated(Cursor::ident)?;
        return Ok(Statement::DropUser(DropUser { if_exists, names }));
    }
    if cursor.take(&["SECRET"]) {
        let if_exists = cursor.if_exists();
        return Ok(Statement::DropSecret(DropSecret { name: cursor.object_name()?, if_exists }));
    }
    if cursor.take(&["API", "KEY"]) {
        let if_exists = cursor.if_exists();
        return Ok(Statement::DropApiKey(DropApiKey { name: cursor.ident()?, if_exists }));
    }
    if cursor.take(&["STORAGE", "INTEGRATION"]) {
        let if_exists = cursor.if_exists();
        let name = cursor.ident()?;
        return Ok(Statement::DropStorageIntegration(DropStorageIntegration { name, if_exists }));
    }
    if cursor.looking_at(&["ROLE"]) {
        let hint = "A role is gone once nothing is granted to it and it to nobody.";
        return Err(start.refuse("DROP ROLE", hint));
    }
    Err(cursor.unexpected())
}

fn drop_schema(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let namespace = cursor.looking_at(&["NAMESPACE"]);
    cursor.advance();
    let if_exists = cursor.if_exists();
    let schemas = if namespace {
        vec![super::create::namespace_path(cursor)?]
    } else {
        cursor.comma_separated(Cursor::schema_name)?
    };
    let behavior = cursor.drop_behavior();
    Ok(Statement::DropSchema(DropSchema { schemas, if_exists, behavior }))
}
