//! A version of a Function as the document that the `lancedb` SDK reads.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use lancegate_catalog::FunctionVersion;
use lancegate_functions::Definition;
use lancegate_functions::types::print_type;
use serde_json::{Value, json};

/// Returns the document.
pub(super) fn document(function: &FunctionVersion, definition: &Definition) -> Value {
    let bindings = definition.secrets.iter().map(|(variable, secret)| {
        let mut reference = json!({ "name": secret.name });
        if !secret.namespace.is_empty() {
            reference["namespace_path"] = json!(secret.namespace);
        }
        json!({ "kind": "env", "variable": variable, "secret_ref": reference })
    });
    let mut signature = json!({ "inputs": definition.parameters, "output": output(definition) });
    if !definition.initialization.is_empty() {
        signature["initialization"] = json!(definition.initialization);
    }
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
        "signature": signature,
        "secret_bindings": bindings.collect::<Vec<_>>(),
        "created_at_millis": function.created_at.timestamp_millis(),
        "metadata": {},
        "disabled": function.disabled,
    })
}

/// The clients bind only Functions whose outputs take no NULL by themselves: a row
/// that is not computed is NULL all the same.
fn output(definition: &Definition) -> Value {
    match &definition.output.0 {
        DataType::Struct(fields) => {
            let field = |field: &Arc<Field>| json!({ "name": field.name(), "arrow_type": print_type(field.data_type()), "nullable": false });
            json!({ "kind": "named_struct", "fields": fields.iter().map(field).collect::<Vec<_>>() })
        }
        other => json!({ "kind": "scalar", "arrow_type": print_type(other), "nullable": false }),
    }
}
