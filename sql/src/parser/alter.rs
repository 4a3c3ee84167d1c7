//! `ALTER` of everything, and `COMMENT`.

mod table;

use crate::ast::{AlterMaterializedView, AlterSchema, AlterSecret, AlterView, Comment, CommentTarget, Statement};
use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::name::{Ident, ObjectName};
use crate::options::ViewOptions;

/// Parses `ALTER …`.
pub(super) fn alter(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let start = cursor.clone();
    cursor.expect(&["ALTER"])?;
    if cursor.take(&["TABLE"]) {
        return table::alter_table(cursor).map(Statement::AlterTable);
    }
    if cursor.take(&["MATERIALIZED", "VIEW"]) {
        return alter_materialized_view(cursor);
    }
    if cursor.take(&["VIEW"]) {
        let if_exists = cursor.if_exists();
        let view = cursor.object_name()?;
        return rename_view(cursor, view, if_exists, false);
    }
    if cursor.take(&["USER"]) {
        return super::user::alter(cursor);
    }
    if cursor.take(&["FUNCTION"]) {
        return super::function::alter(cursor);
    }
    if cursor.take(&["SECRET"]) {
        let if_exists = cursor.if_exists();
        let name = cursor.object_name()?;
        cursor.take(&["SET"]);
        let value = super::create::secret_value(cursor)?;
        return Ok(Statement::AlterSecret(AlterSecret { name, if_exists, value }));
    }
    if cursor.looking_at(&["SCHEMA"]) || cursor.looking_at(&["NAMESPACE"]) {
        let schema = super::create::schema_or_namespace(cursor)?;
        if cursor.looking_at(&["RENAME"]) || cursor.looking_at(&["OWNER"]) {
            let hint = "Only the properties of a namespace can be changed.";
            return Err(cursor.refuse("this form of ALTER SCHEMA", hint));
        }
        cursor.expect(&["SET"])?;
        cursor.take(&["PROPERTIES"]);
        let properties = super::create::property_list(cursor)?;
        return Ok(Statement::AlterSchema(AlterSchema { schema, properties }));
    }
    let kinds = ["DATABASE", "INDEX", "ROLE", "SYSTEM", "SEQUENCE", "TYPE", "DEFAULT", "GROUP"];
    if let Some(kind) = kinds.iter().find(|kind| cursor.is_keyword(0, kind)) {
        let hint = "Tables, views, schemas, users, Functions and secrets can be altered.";
        return Err(start.refuse(format!("ALTER {kind}"), hint));
    }
    Err(cursor.unexpected())
}

fn alter_materialized_view(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let if_exists = cursor.if_exists();
    let view = cursor.object_name()?;
    if cursor.looking_at(&["RENAME"]) {
        return rename_view(cursor, view, if_exists, true);
    }
    cursor.expect(&["SET"])?;
    let options = ViewOptions::from_options(&super::options::list(cursor)?)?;
    Ok(Statement::AlterMaterializedView(AlterMaterializedView { view, if_exists, options }))
}

fn rename_view(
    cursor: &mut Cursor<'_>,
    view: ObjectName,
    if_exists: bool,
    materialized: bool,
) -> Result<Statement, ParseError> {
    cursor.expect(&["RENAME", "TO"])?;
    let rename_to = cursor.ident()?;
    Ok(Statement::AlterView(AlterView { view, if_exists, materialized, rename_to }))
}

/// Parses `COMMENT ON …`.
pub(super) fn comment(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.expect(&["COMMENT", "ON"])?;
    let target = if cursor.take(&["TABLE"]) {
        CommentTarget::Table(cursor.object_name()?)
    } else if cursor.take(&["MATERIALIZED", "VIEW"]) {
        CommentTarget::MaterializedView(cursor.object_name()?)
    } else if cursor.take(&["VIEW"]) {
        CommentTarget::View(cursor.object_name()?)
    } else if cursor.take(&["COLUMN"]) {
        comment_column(cursor)?
    } else if cursor.take(&["SCHEMA"]) {
        CommentTarget::Schema(cursor.schema_name()?)
    } else if cursor.take(&["DATABASE"]) {
        CommentTarget::Database(cursor.ident()?)
    } else if cursor.take(&["FUNCTION"]) {
        CommentTarget::Function(cursor.object_name()?)
    } else {
        return Err(cursor.unexpected());
    };
    cursor.expect(&["IS"])?;
    let comment = if cursor.take(&["NULL"]) { None } else { Some(cursor.string()?) };
    Ok(Statement::Comment(Comment { target, comment }))
}

fn comment_column(cursor: &mut Cursor<'_>) -> Result<CommentTarget, ParseError> {
    let start = cursor.clone();
    let mut parts = cursor.dotted()?;
    let column = parts.pop().map(Ident::from);
    let table = ObjectName::from_parts(parts);
    match (table, column) {
        (Some(table), Some(column)) => Ok(CommentTarget::Column { table, column }),
        _ => Err(start.unexpected().with_hint("Write the column as <table>.<column>.")),
    }
}
