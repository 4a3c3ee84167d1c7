//! Functions that answer about objects by number: owners, definitions, comments.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ScalarUDF, Volatility};
use datafusion::scalar::ScalarValue;
use lancegate_catalog::TableKind;

use super::udf::{RowFunction, number, text, utf8};
use crate::error::Result;
use crate::session::temp;
use crate::storage::defaults;
use crate::system::SystemContext;
use crate::system::objects::RelationRow;

/// The functions that also answer in a statement that reads no relation.
pub const NAMES: [&str; 11] = [
    "pg_get_constraintdef",
    "pg_get_serial_sequence",
    "pg_get_userbyid",
    "pg_get_viewdef",
    "pg_get_indexdef",
    "obj_description",
    "col_description",
    "shobj_description",
    "pg_table_is_visible",
    "pg_my_temp_schema",
    "to_regclass",
];

/// Returns the functions of one statement that reads the catalog.
///
/// # Errors
/// If the metadata store or the data root fails.
pub async fn functions(context: &SystemContext) -> Result<Vec<ScalarUDF>> {
    let objects = context.objects().await?;
    let roles = objects.roles.iter().map(|role| (i64::from(role.oid), role.name.clone())).collect();
    let views = objects
        .relations
        .iter()
        .filter(|row| row.record.kind != TableKind::Table)
        .filter_map(|row| Some((i64::from(row.oid), format!(" {};", row.record.definition.as_ref()?))))
        .collect();
    let constraints = objects.relations.iter().filter_map(|row| {
        let key = row.primary_key.as_ref()?;
        let columns = key.columns.iter().filter_map(|number| Some(spelled(row.columns.get(number - 1)?.name())));
        Some((i64::from(key.oid), format!("PRIMARY KEY ({})", columns.collect::<Vec<_>>().join(", "))))
    });
    let constraints = constraints.collect();
    let relations = objects.relations.iter().filter_map(|row| Some((i64::from(row.oid), row.record.comment.clone()?)));
    let schemas = objects.namespaces.iter().filter_map(|row| Some((i64::from(row.oid), row.comment.clone()?)));
    let comments: HashMap<i64, String> = relations.chain(schemas).collect();
    let of_databases: HashMap<i64, String> =
        objects.databases.iter().filter_map(|row| Some((i64::from(row.oid), row.comment.clone()?))).collect();
    let of_columns: HashMap<(i64, i64), String> = objects
        .relations
        .iter()
        .flat_map(|row| row.comments.iter().map(|(number, comment)| (row.oid, *number, comment.clone())))
        .map(|(oid, number, comment)| ((i64::from(oid), i64::from(number)), comment))
        .collect();
    let own = temp::schema(context.caller.session_id);
    let temporary = objects.namespaces.iter().find(|row| row.name == own).map_or(0, |row| row.oid);
    let path = context.caller.creation_path();
    let visible: HashMap<i64, String> = objects
        .relations
        .iter()
        .filter(|row| row.is_temporary() || path.contains(&row.schema))
        .map(|row| (i64::from(row.oid), String::new()))
        .collect();
    let hidden: Arc<HashMap<i64, bool>> = Arc::new(
        objects.relations.iter().map(|row| (i64::from(row.oid), !visible.contains_key(&i64::from(row.oid)))).collect(),
    );
    Ok(vec![
        lookup("pg_get_constraintdef", &[1, 2], constraints),
        lookup("pg_get_userbyid", &[1], roles),
        lookup("pg_get_viewdef", &[1, 2], views),
        lookup("obj_description", &[1, 2], comments),
        lookup("shobj_description", &[2], of_databases),
        RowFunction::define("col_description", &[2], DataType::Utf8, Volatility::Stable, move |arguments| {
            let [oid, number_of, ..] = arguments else { return Ok(ScalarValue::Utf8(None)) };
            let key = number(oid).zip(number(number_of));
            Ok(utf8(key.and_then(|key| of_columns.get(&key)).cloned()))
        }),
        index_definitions(&objects.relations),
        serial_sequences(&objects.relations, context.caller.search_path()),
        RowFunction::define("pg_my_temp_schema", &[0], DataType::Int32, Volatility::Stable, move |_| {
            Ok(ScalarValue::Int32(Some(temporary)))
        }),
        joined(),
        numbers_of_names(&objects.relations, context.caller.search_path()),
        RowFunction::define("pg_table_is_visible", &[1], DataType::Boolean, Volatility::Stable, move |arguments| {
            let oid = arguments.first().and_then(number);
            let hidden = oid.and_then(|oid| hidden.get(&oid)).copied().unwrap_or(false);
            Ok(ScalarValue::Boolean(oid.map(|_| !hidden)))
        }),
    ])
}

/// `to_regclass(name)`: NULL for what is no relation.
fn numbers_of_names(relations: &[RelationRow], path: Vec<String>) -> ScalarUDF {
    let all = relations.iter().map(|row| ((row.schema.clone(), row.record.name.name.clone()), row.oid));
    let numbers: HashMap<(String, String), i32> = all.collect();
    RowFunction::define("to_regclass", &[1], DataType::Int32, Volatility::Stable, move |arguments| {
        let Some(written) = arguments.first().and_then(text) else { return Ok(ScalarValue::Int32(None)) };
        let parts =
            super::of_privileges::name_parts(&written).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let find = |schema: &String, name: &String| numbers.get(&(schema.clone(), name.clone())).copied();
        Ok(ScalarValue::Int32(match parts.as_slice() {
            [name] => path.iter().find_map(|schema| find(schema, name)),
            [schema, name] | [_, schema, name] => find(schema, name),
            _ => None,
        }))
    })
}

/// `pg_get_indexdef(oid)`, and `pg_get_indexdef(oid, n, pretty)`: its `n`th column if
/// that is not 0.
fn index_definitions(relations: &[RelationRow]) -> ScalarUDF {
    let all = relations.iter().flat_map(|row| row.indexes.iter().map(move |index| (row, index)));
    let definitions: HashMap<i64, (String, String)> =
        all.map(|(row, index)| (i64::from(index.oid), (row.index_definition(index), index.column.clone()))).collect();
    RowFunction::define("pg_get_indexdef", &[1, 3], DataType::Utf8, Volatility::Stable, move |arguments| {
        let found = arguments.first().and_then(number).and_then(|oid| definitions.get(&oid));
        Ok(utf8(found.and_then(|(definition, column)| match arguments.get(1).and_then(number) {
            None | Some(0) => Some(definition.clone()),
            Some(1) => Some(column.clone()),
            Some(_) => None,
        })))
    })
}

fn spelled(name: &str) -> String {
    lancegate_sql::Ident::from(name).to_string()
}

/// `pg_get_serial_sequence(table, column)`: the column as it is written, the table as it
/// would stand in a statement.
fn serial_sequences(relations: &[RelationRow], path: Vec<String>) -> ScalarUDF {
    let columns = relations.iter().flat_map(|row| {
        let numbered = row.columns.iter().filter(|field| defaults::numbering_of(field).is_some());
        numbered.map(move |field| {
            let (schema, table) = (row.schema.clone(), row.record.name.name.clone());
            (schema, table, field.name().clone())
        })
    });
    let columns: Vec<(String, String, String)> = columns.collect();
    RowFunction::define("pg_get_serial_sequence", &[2], DataType::Utf8, Volatility::Stable, move |arguments| {
        let [table, column] = arguments else { return Ok(ScalarValue::Utf8(None)) };
        let (Some(table), Some(column)) = (text(table), text(column)) else { return Ok(ScalarValue::Utf8(None)) };
        let parts =
            super::of_privileges::name_parts(&table).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let is = |found: &(String, String, String), schema: &str, table: &str| {
            found.0 == schema && found.1 == table && found.2 == column
        };
        let found = match parts.as_slice() {
            [table] => path.iter().find_map(|schema| columns.iter().find(|found| is(found, schema, table))),
            [schema, table] => columns.iter().find(|found| is(found, schema, table)),
            _ => None,
        };
        Ok(utf8(found.map(|(schema, table, column)| {
            let name = defaults::sequence_name(table, column);
            // PostgreSQL quotes no name that is a word only of our own statements.
            let schema = if schema == "public" { schema.clone() } else { spelled(schema) };
            format!("{schema}.{}", spelled(&name))
        })))
    })
}

/// `array_to_string` that also takes the text that some catalog columns hold in
/// place of an array.
fn joined() -> ScalarUDF {
    RowFunction::define("array_to_string", &[2, 3], DataType::Utf8, Volatility::Immutable, |arguments| {
        let [array, separator, rest @ ..] = arguments else { return Ok(ScalarValue::Utf8(None)) };
        let ScalarValue::List(list) = array else { return Ok(utf8(text(array))) };
        let Some(separator) = text(separator).filter(|_| list.is_valid(0)) else { return Ok(ScalarValue::Utf8(None)) };
        let null = rest.first().and_then(text);
        let values = list.value(0);
        let values = (0..values.len()).map(|index| ScalarValue::try_from_array(&values, index));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let parts: Vec<String> = values.iter().filter_map(|value| text(value).or_else(|| null.clone())).collect();
        Ok(utf8(Some(parts.join(&separator))))
    })
}

fn lookup(name: &str, arguments: &[usize], values: HashMap<i64, String>) -> ScalarUDF {
    let unknown_user = name == "pg_get_userbyid";
    RowFunction::define(name, arguments, DataType::Utf8, Volatility::Stable, move |arguments| {
        let Some(oid) = arguments.first().and_then(number) else { return Ok(ScalarValue::Utf8(None)) };
        let found = values.get(&oid).cloned();
        Ok(utf8(found.or_else(|| unknown_user.then(|| format!("unknown (OID={oid})")))))
    })
}
