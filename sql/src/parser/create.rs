//! `CREATE` of everything but users and Functions, and `ATTACH`.

use sqlparser::ast as native;
use sqlparser::tokenizer::Token;

use super::options;
use crate::ast::{
    AttachDatabase, CloneTable, CreateApiKey, CreateDatabase, CreateIndex, CreateMaterializedView, CreateSchema,
    CreateSecret, CreateStorageIntegration, CreateTable, CreateTableAs, CreateView, Password, Property, SecretValue,
    Statement, VersionReference,
};
use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::name::{ObjectName, SchemaName};
use crate::options::{OptionValue, ViewOptions};

/// Parses `CREATE …`.
pub(super) fn create(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let start = cursor.clone();
    cursor.expect(&["CREATE"])?;
    if cursor.take(&["DATABASE"]) {
        return create_database(cursor);
    }
    if cursor.looking_at(&["SCHEMA"]) || cursor.looking_at(&["NAMESPACE"]) {
        return create_schema(cursor);
    }
    if cursor.take(&["STORAGE", "INTEGRATION"]) {
        return create_storage_integration(cursor);
    }
    if cursor.take(&["MATERIALIZED", "VIEW"]) {
        return create_materialized_view(cursor);
    }
    if cursor.take(&["FUNCTION"]) {
        return super::function::create(cursor);
    }
    if cursor.take(&["SECRET"]) {
        return create_secret(cursor);
    }
    if cursor.take(&["API", "KEY"]) {
        return create_api_key(cursor);
    }
    if cursor.take(&["USER"]) {
        return super::user::create(cursor);
    }
    if cursor.looking_at(&["ROLE"]) {
        let hint = "A role exists once something is granted to it; see CREATE USER for logins.";
        return Err(start.refuse("CREATE ROLE", hint));
    }
    if cursor.looking_at(&["INDEX"]) || cursor.looking_at(&["UNIQUE", "INDEX"]) {
        return create_index(cursor);
    }
    let replace = cursor.take(&["OR", "REPLACE"]);
    if replace && cursor.looking_at(&["FUNCTION"]) {
        let hint = "CREATE FUNCTION makes a new version of an existing Function.";
        return Err(start.refuse("CREATE OR REPLACE FUNCTION", hint));
    }
    cursor.take_one(&["LOCAL", "GLOBAL"]);
    cursor.take_one(&["TEMPORARY", "TEMP", "UNLOGGED"]);
    if cursor.looking_at(&["TABLE"]) && !replace {
        return create_table(cursor, start);
    }
    if cursor.looking_at(&["VIEW"]) {
        return create_view(cursor, start);
    }
    Err(refused_kind(&start).unwrap_or_else(|| cursor.unexpected()))
}

/// Names the kinds that PostgreSQL has and we do not.
fn refused_kind(start: &Cursor<'_>) -> Option<ParseError> {
    const KINDS: &[&str] = &[
        "SEQUENCE",
        "TYPE",
        "DOMAIN",
        "TRIGGER",
        "EXTENSION",
        "PROCEDURE",
        "AGGREGATE",
        "OPERATOR",
        "RULE",
        "POLICY",
        "SERVER",
        "PUBLICATION",
        "SUBSCRIPTION",
        "TABLESPACE",
        "COLLATION",
        "CAST",
        "GROUP",
        "LANGUAGE",
        "EVENT",
        "FOREIGN",
        "STATISTICS",
        "RECURSIVE",
    ];
    let kind = KINDS.iter().find(|kind| start.is_keyword(1, kind))?;
    let hint = "Tables, views, indexes, schemas, databases, users, Functions and secrets exist; sequences belong to serial and identity columns.";
    Some(start.refuse(format!("CREATE {kind}"), hint))
}

fn create_table(cursor: &mut Cursor<'_>, start: Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.expect(&["TABLE"])?;
    let if_not_exists = cursor.if_not_exists();
    let table = cursor.object_name()?;
    if cursor.take(&["CLONE"]) {
        let source = cursor.object_name()?;
        let at = if cursor.take(&["AT"]) { Some(version(cursor)?) } else { None };
        return Ok(Statement::CloneTable(CloneTable { table, if_not_exists, source, at }));
    }
    // The native parser reads the whole statement; only the tail that it lacks
    // is taken here.
    let with_data = data_clause(cursor);
    let mut whole = cursor.up_to(with_data.map_or(usize::MAX, |(index, _)| index));
    whole.rewind(start.mark());
    whole.advance();
    // It says nothing here, and the native parser does not know it.
    whole.take(&["UNLOGGED"]);
    let statement = whole.native(|parser| parser.parse_create())?;
    cursor.rewind(whole.mark());
    if with_data.is_some() {
        whole.expect_end()?;
        cursor.rewind(cursor.end());
    }
    let native::Statement::CreateTable(native) = statement else {
        return Err(start.unexpected());
    };
    let hive_location = native.hive_formats.as_ref().and_then(|formats| formats.location.as_ref());
    if native.external || native.location.is_some() || hive_location.is_some() {
        // Left out silently, the table would be somewhere else than its maker thinks.
        return Err(start.refuse("LOCATION in CREATE TABLE", "Tables are in the folder of their database."));
    }
    // Neither are these: the table would lack columns, or hold what it should not.
    if native.inherits.is_some() {
        return Err(start.refuse("INHERITS in CREATE TABLE", "Name all columns in the table."));
    }
    if native.partition_by.is_some() || native.partition_of.is_some() {
        return Err(start.refuse("PARTITION in CREATE TABLE", "Lance keeps a table in fragments by itself."));
    }
    let native = Box::new(native);
    Ok(match native.query {
        Some(_) => {
            let with_data = with_data.is_none_or(|(_, with_data)| with_data);
            Statement::CreateTableAs(CreateTableAs { table, native, with_data })
        }
        None => Statement::CreateTable(CreateTable { table, native }),
    })
}

/// Finds `WITH [NO] DATA` at the end of the statement: where, and which.
fn data_clause(cursor: &Cursor<'_>) -> Option<(usize, bool)> {
    let end = cursor.end();
    let word = |back: usize, keyword: &str| {
        end.checked_sub(back).is_some_and(|index| {
            index >= cursor.mark()
                && matches!(cursor.token_at(index), Some(Token::Word(word))
                    if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(keyword))
        })
    };
    if !word(1, "DATA") {
        None
    } else if word(2, "WITH") {
        Some((end - 2, true))
    } else if word(2, "NO") && word(3, "WITH") {
        Some((end - 3, false))
    } else {
        None
    }
}

fn version(cursor: &mut Cursor<'_>) -> Result<VersionReference, ParseError> {
    if cursor.take(&["VERSION"]) {
        return cursor.integer().map(VersionReference::Version);
    }
    if cursor.take(&["TAG"]) {
        return cursor.string().map(VersionReference::Tag);
    }
    if cursor.take(&["TIMESTAMP"]) || cursor.is_string(0) {
        return cursor.string().map(VersionReference::Timestamp);
    }
    cursor.integer().map(VersionReference::Version)
}

fn create_view(cursor: &mut Cursor<'_>, start: Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.rewind(start.mark());
    let statement = cursor.native(|parser| parser.parse_statement())?;
    let native::Statement::CreateView(native) = statement else {
        return Err(start.unexpected());
    };
    super::query::ensure_reads_only(&*native.query, &start)?;
    let view = ObjectName::from_native(&native.name).ok_or_else(|| start.unexpected())?;
    // The first AS stands before the query: names before it are no keywords.
    let mut query = start;
    while !query.at_end() && !query.take(&["AS"]) {
        query.advance();
    }
    let query_start = query.mark();
    query.rewind(cursor.mark());
    let query_text = query.text_since(query_start).to_owned();
    Ok(Statement::CreateView(CreateView { view, native: Box::new(native), query_text }))
}

fn create_materialized_view(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let if_not_exists = cursor.if_not_exists();
    let view = cursor.object_name()?;
    let options = ViewOptions::from_options(&options::with(cursor)?)?;
    cursor.expect(&["AS"])?;
    if let Some((index, with_data)) = data_clause(cursor) {
        let mut part = cursor.up_to(index);
        let position = part.position();
        let (query, query_text) = super::query::query(&mut part)?;
        part.expect_end()?;
        cursor.rewind(cursor.end());
        return Ok(Statement::CreateMaterializedView(CreateMaterializedView {
            view,
            if_not_exists,
            options,
            with_data,
            query,
            query_text,
            position,
        }));
    }
    let position = cursor.position();
    let (query, query_text) = super::query::query(cursor)?;
    Ok(Statement::CreateMaterializedView(CreateMaterializedView {
        view,
        if_not_exists,
        options,
        with_data: true,
        query,
        query_text,
        position,
    }))
}

fn create_database(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let if_not_exists = cursor.if_not_exists();
    let name = cursor.ident()?;
    if cursor.looking_at(&["WITH"]) {
        return Err(cursor.refuse("WITH in CREATE DATABASE", "A database has no options."));
    }
    Ok(Statement::CreateDatabase(CreateDatabase { name, if_not_exists }))
}

/// Parses `ATTACH DATABASE …`.
pub(super) fn attach(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.expect(&["ATTACH", "DATABASE"])?;
    let if_not_exists = cursor.if_not_exists();
    let name = cursor.ident()?;
    match cursor.take_one(&["FROM", "LOCATION", "AT"]) {
        Some(_) => {
            cursor.take_token(&Token::Eq);
        }
        None => return Err(cursor.unexpected()),
    }
    let location = cursor.string()?;
    Ok(Statement::AttachDatabase(AttachDatabase { name, if_not_exists, location }))
}

fn create_schema(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let namespace = cursor.looking_at(&["NAMESPACE"]);
    cursor.advance();
    let if_not_exists = cursor.if_not_exists();
    let schema = if namespace { namespace_path(cursor)? } else { cursor.schema_name()? };
    if cursor.looking_at(&["AUTHORIZATION"]) {
        let hint = "GRANT OWNERSHIP ON SCHEMA makes another user the owner.";
        return Err(cursor.refuse("AUTHORIZATION in CREATE SCHEMA", hint));
    }
    let mut properties = Vec::new();
    if cursor.take(&["WITH"]) {
        cursor.take(&["PROPERTIES"]);
        properties = property_list(cursor)?;
    } else if cursor.take(&["PROPERTIES"]) {
        properties = property_list(cursor)?;
    }
    Ok(Statement::CreateSchema(CreateSchema { schema, if_not_exists, properties }))
}

/// Takes `SCHEMA <path>` or `NAMESPACE <component> [IN <schema>]`.
pub(super) fn schema_or_namespace(cursor: &mut Cursor<'_>) -> Result<SchemaName, ParseError> {
    match cursor.take_one(&["SCHEMA", "NAMESPACE"]) {
        Some("SCHEMA") => cursor.schema_name(),
        Some(_) => namespace_path(cursor),
        None => Err(cursor.unexpected()),
    }
}

/// Takes `<component> [IN <schema>]`.
pub(super) fn namespace_path(cursor: &mut Cursor<'_>) -> Result<SchemaName, ParseError> {
    let component = cursor.ident()?;
    if cursor.peek() == Some(&Token::Period) {
        return Err(cursor.unexpected().with_hint("NAMESPACE takes one component; name its parent with IN."));
    }
    let parent = if cursor.take(&["IN"]) { cursor.schema_name()? } else { SchemaName::new("public") };
    Ok(parent.child(component.as_str()))
}

/// Takes `('<key>' = '<value>', …)`; keys may be bare words.
pub(super) fn property_list(cursor: &mut Cursor<'_>) -> Result<Vec<Property>, ParseError> {
    cursor.parenthesized(|cursor| {
        let key = if cursor.is_string(0) { cursor.string()? } else { cursor.any_word()? };
        cursor.expect_token(&Token::Eq)?;
        Ok(Property { key, value: cursor.string()? })
    })
}

fn create_storage_integration(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let if_not_exists = cursor.if_not_exists();
    let name = cursor.ident()?;
    let (mut provider, mut prefix, mut rest) = (None, None, Vec::new());
    while !cursor.at_end() {
        let option = options::option(cursor)?;
        let position = option.position.get();
        let slot = match option.name.as_str() {
            "storage_provider" => &mut provider,
            "storage_prefix" => &mut prefix,
            _ if rest.iter().any(|seen: &crate::SqlOption| seen.name == option.name) => {
                return Err(crate::options::duplicate(&option.name).at(position));
            }
            _ => {
                rest.push(option);
                continue;
            }
        };
        let OptionValue::String(text) = option.value else {
            return Err(cursor.unexpected());
        };
        if slot.replace(text).is_some() {
            return Err(crate::options::duplicate(&option.name).at(position));
        }
    }
    let (Some(provider), Some(prefix)) = (provider, prefix) else {
        return Err(cursor.unexpected().with_hint("An integration needs STORAGE_PROVIDER and STORAGE_PREFIX."));
    };
    Ok(Statement::CreateStorageIntegration(CreateStorageIntegration {
        name,
        if_not_exists,
        provider,
        prefix,
        options: rest,
    }))
}

fn create_secret(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let if_not_exists = cursor.if_not_exists();
    let name = cursor.object_name()?;
    if cursor.take(&["TYPE"]) {
        cursor.expect_token(&Token::Eq)?;
        cursor.expect(&["GENERIC_STRING"])?;
    }
    Ok(Statement::CreateSecret(CreateSecret { name, if_not_exists, value: secret_value(cursor)? }))
}

/// Takes `SECRET_STRING = {'<value>' | $1}`.
pub(super) fn secret_value(cursor: &mut Cursor<'_>) -> Result<SecretValue, ParseError> {
    cursor.expect(&["SECRET_STRING"])?;
    cursor.expect_token(&Token::Eq)?;
    if let Some(Token::Placeholder(text)) = cursor.peek() {
        let number = text.trim_start_matches('$').parse().ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| cursor.unexpected())?;
        cursor.advance();
        return Ok(SecretValue::Parameter(number));
    }
    cursor.string().map(|text| SecretValue::Text(Password::new(text)))
}

fn create_api_key(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let name = cursor.ident()?;
    let user = if cursor.take(&["FOR", "USER"]) { Some(cursor.ident()?) } else { None };
    let valid_until = if cursor.take(&["VALID", "UNTIL"]) { Some(cursor.string()?) } else { None };
    Ok(Statement::CreateApiKey(CreateApiKey { name, user, valid_until }))
}

fn create_index(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let unique = cursor.take(&["UNIQUE"]);
    cursor.expect(&["INDEX"])?;
    cursor.take(&["CONCURRENTLY"]);
    let if_not_exists = cursor.if_not_exists();
    let name = if !if_not_exists && cursor.looking_at(&["ON"]) { None } else { Some(cursor.ident()?) };
    cursor.expect(&["ON"])?;
    let table = cursor.object_name()?;
    let mut method = index_method(cursor)?;
    let columns = cursor.parenthesized(|cursor| {
        let column = cursor.field_path()?;
        // Orders say nothing about an index that only finds rows.
        cursor.take_one(&["ASC", "DESC"]);
        if cursor.take(&["NULLS"]) {
            cursor.take_one(&["FIRST", "LAST"]).ok_or_else(|| cursor.unexpected())?;
        }
        Ok(column)
    })?;
    if method.is_none() {
        method = index_method(cursor)?;
    }
    let options = options::with(cursor)?;
    ensure_once(&options)?;
    Ok(Statement::CreateIndex(CreateIndex { name, if_not_exists, unique, table, method, columns, options }))
}

fn index_method(cursor: &mut Cursor<'_>) -> Result<Option<String>, ParseError> {
    if !cursor.take(&["USING"]) {
        return Ok(None);
    }
    cursor.any_word().map(|word| Some(word.to_ascii_lowercase()))
}

/// Refuses a list that names an option twice.
pub(super) fn ensure_once(options: &[crate::SqlOption]) -> Result<(), ParseError> {
    for (index, option) in options.iter().enumerate() {
        if options[..index].iter().any(|seen| seen.name == option.name) {
            return Err(crate::options::duplicate(&option.name).at(option.position.get()));
        }
    }
    Ok(())
}
