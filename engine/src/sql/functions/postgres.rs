//! Functions that clients call in catalog queries and whose answer is the same
//! for every session, because what they ask about does not exist here:
//! sequences, tablespaces, inheritance, advisory locks.

use arrow::datatypes::{DataType, Field};
use datafusion::logical_expr::{ScalarUDF, Volatility};
use datafusion::scalar::ScalarValue;

use lancegate_wire::types;

use super::of_text;
use super::udf::{RowFunction, number, text, utf8};

/// Returns the functions of all sessions.
pub fn functions() -> Vec<ScalarUDF> {
    let mut functions = Vec::new();
    functions.extend(nothing());
    functions.extend(visible());
    functions.extend(sizes());
    functions.extend(encodings());
    functions.extend(of_text::functions());
    functions.push(RowFunction::define("pg_typeof", &[1], DataType::Utf8, Volatility::Stable, |arguments| {
        let name = |value: &ScalarValue| {
            let oid = types::pg_type(&Field::new("", value.data_type(), true)).oid;
            types::format_type(oid, -1)
        };
        Ok(utf8(arguments.first().map(name)))
    }));
    functions.push(RowFunction::define("to_regtype", &[1], DataType::Int32, Volatility::Stable, |arguments| {
        Ok(ScalarValue::Int32(arguments.first().and_then(text).and_then(|name| type_number(&name))))
    }));
    functions.push(RowFunction::define(
        "pg_index_column_has_property",
        &[3],
        DataType::Boolean,
        Volatility::Stable,
        |arguments| Ok(ScalarValue::Boolean(arguments.get(2).and_then(text).and_then(|name| property(&name)))),
    ));
    functions.push(RowFunction::define("pg_get_expr", &[2, 3], DataType::Utf8, Volatility::Stable, |arguments| {
        // What would be a node tree is stored as SQL text.
        Ok(utf8(arguments.first().and_then(text)))
    }));
    functions
}

/// Whether a column of an index has a property: every index is read in ascending order, if in any.
fn property(name: &str) -> Option<bool> {
    match name.to_ascii_lowercase().as_str() {
        "asc" | "nulls_last" | "orderable" | "returnable" | "search_array" | "search_nulls" => Some(true),
        "desc" | "nulls_first" | "distance_orderable" => Some(false),
        _ => None,
    }
}

/// The number of a type by one of its names; `None` for a type that there is not.
fn type_number(name: &str) -> Option<i32> {
    let name = name.trim().replace('"', "");
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name).to_ascii_lowercase();
    let (element, array) = name.strip_suffix("[]").map_or((name.as_str(), false), |element| (element, true));
    let found = types::builtin_by_name(element)
        .or_else(|| types::builtins().iter().find(|found| types::format_type(found.oid, -1) == element))?;
    let oid = if array { types::array_of(found.oid)? } else { found.oid };
    i32::try_from(oid).ok()
}

/// Functions about what does not exist, with the answer for "none".
fn nothing() -> impl Iterator<Item = ScalarUDF> {
    let text = [
        ("obj_description", [1, 2].as_slice()),
        ("col_description", &[2]),
        ("shobj_description", &[2]),
        ("pg_get_indexdef", &[1, 3]),
        ("pg_get_functiondef", &[1]),
        ("pg_get_function_arguments", &[1]),
        ("pg_get_function_identity_arguments", &[1]),
        ("pg_get_function_result", &[1]),
        ("pg_get_function_sqlbody", &[1]),
        ("pg_get_triggerdef", &[1, 2]),
        ("pg_get_ruledef", &[1, 2]),
        ("pg_get_partkeydef", &[1]),
        ("pg_get_statisticsobjdef_columns", &[1]),
        ("pg_tablespace_location", &[1]),
    ];
    let texts = text.into_iter().map(|(name, arguments)| {
        RowFunction::define(name, arguments, DataType::Utf8, Volatility::Stable, |_| Ok(ScalarValue::Utf8(None)))
    });
    let oids = [("pg_my_temp_schema", [0].as_slice()), ("to_regclass", &[1])];
    let oids = oids.into_iter().map(|(name, arguments)| {
        let value = if name == "pg_my_temp_schema" { Some(0) } else { None };
        RowFunction::define(name, arguments, DataType::Int32, Volatility::Stable, move |_| {
            Ok(ScalarValue::Int32(value))
        })
    });
    let booleans = [
        ("pg_is_in_recovery", [0].as_slice(), false),
        ("pg_is_other_temp_schema", &[1], false),
        ("pg_relation_is_publishable", &[1], false),
    ];
    let booleans = booleans.into_iter().map(|(name, arguments, value)| {
        RowFunction::define(name, arguments, DataType::Boolean, Volatility::Stable, move |_| {
            Ok(ScalarValue::Boolean(Some(value)))
        })
    });
    texts.chain(oids).chain(booleans)
}

/// Everything that catalog relations show can be named without a schema,
/// because they show what the caller may reach only.
fn visible() -> impl Iterator<Item = ScalarUDF> {
    let names = [
        "pg_type_is_visible",
        "pg_function_is_visible",
        "pg_collation_is_visible",
        "pg_operator_is_visible",
        "pg_opclass_is_visible",
        "pg_opfamily_is_visible",
        "pg_conversion_is_visible",
        "pg_ts_config_is_visible",
        "pg_ts_dict_is_visible",
        "pg_ts_parser_is_visible",
        "pg_ts_template_is_visible",
        "pg_statistics_obj_is_visible",
    ];
    names.into_iter().map(|name| {
        RowFunction::define(name, &[1], DataType::Boolean, Volatility::Stable, |_| Ok(ScalarValue::Boolean(Some(true))))
    })
}

fn sizes() -> impl Iterator<Item = ScalarUDF> {
    let names = ["pg_table_size", "pg_indexes_size", "pg_relation_size", "pg_total_relation_size", "pg_database_size"];
    let sizes = names.into_iter().map(|name| {
        RowFunction::define(name, &[1, 2], DataType::Int64, Volatility::Stable, |_| Ok(ScalarValue::Int64(Some(0))))
    });
    let pretty = RowFunction::define("pg_size_pretty", &[1], DataType::Utf8, Volatility::Immutable, |arguments| {
        Ok(utf8(arguments.first().and_then(number).map(pretty_size)))
    });
    sizes.chain(std::iter::once(pretty))
}

fn encodings() -> [ScalarUDF; 3] {
    let utf8_code = 6;
    [
        RowFunction::constant("getdatabaseencoding", utf8(Some("UTF8"))),
        RowFunction::define("pg_char_to_encoding", &[1], DataType::Int32, Volatility::Immutable, move |arguments| {
            let name = arguments.first().and_then(text).unwrap_or_default().replace('-', "");
            Ok(ScalarValue::Int32(Some(if name.eq_ignore_ascii_case("utf8") { utf8_code } else { -1 })))
        }),
        RowFunction::define("pg_encoding_to_char", &[1], DataType::Utf8, Volatility::Immutable, |arguments| {
            let known = arguments.first().and_then(number) == Some(6);
            Ok(utf8(Some(if known { "UTF8" } else { "" })))
        }),
    ]
}

/// PostgreSQL switches units at ten times their size and rounds half up.
fn pretty_size(bytes: i64) -> String {
    let mut value = bytes;
    for unit in ["bytes", "kB", "MB", "GB", "TB"] {
        if value.abs() < 10 * 1024 || unit == "TB" {
            return format!("{value} {unit}");
        }
        value = (value + value.signum() * 512) / 1024;
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::pretty_size;

    #[test]
    fn sizes_are_written_as_postgresql_writes_them() {
        let cases = [(0, "0 bytes"), (10239, "10239 bytes"), (10240, "10 kB"), (123_456_789, "118 MB")];
        for (bytes, expected) in cases {
            assert_eq!(pretty_size(bytes), expected);
        }
    }
}
