//! A version of a Function as the document that the `lancedb` SDK reads.

use arrow::datatypes::DataType;
use lancegate_catalog::FunctionVersion;
use lancegate_functions::Definition;
use lancegate_functions::types::print_type;
use serde_json::{Value, json};

/// Returns the document.
pub(super) fn document(function: &FunctionVersion, definition: &Definition) -> Value {
    let inputs = definition.parameters.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "arrow_type": print_type(&parameter.arrow_type.0),
            "nullable": parameter.nullable,
        })
    });
    let output = match &definition.output.0 {
        DataType::Struct(fields) => {
            let field = |field: &std::sync::Arc<arrow::datatypes::Field>| json!({ "name": field.name(), "arrow_type": print_type(field.data_type()), "nullable": true });
            json!({ "kind": "named_struct", "fields": fields.iter().map(field).collect::<Vec<_>>() })
        }
        other => json!({ "kind": "scalar", "arrow_type": print_type(other), "nullable": true }),
    };
    json!({
        "name": function.name.name,
        "namespace_path": function.name.namespace,
        "object_id": function.name.name,
        "location": "",
        "version": function.version.to_string(),
        "image": {
            "manifest_digest": format!("sha256:{}", definition.digest()),
            "descriptor": {
                "format_version": 1,
                "entrypoint": format!("user_function:{}", definition.entrypoint),
                "behavior": {
                    "result_stability": definition.result_stability,
                    "side_effects": definition.side_effects,
                },
            },
            "source": true,
        },
        "signature": { "inputs": inputs.collect::<Vec<_>>(), "output": output, "initialization": [] },
        "secret_bindings": [],
        "created_at_millis": function.created_at.timestamp_millis(),
        "metadata": {},
        "disabled": function.disabled,
    })
}
