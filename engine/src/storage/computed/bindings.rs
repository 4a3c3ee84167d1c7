//! Function bindings in the schema's metadata, as the open `lancedb` crate reads them.
//!
//! lancegate itself reads the fields' own metadata, which is committed first. So a crash between the two commits leaves
//! columns that can be refreshed, and the next declaration or change of a column writes what is missing.

use std::collections::BTreeMap;

use arrow::datatypes::{Field, Schema};
use lance::Dataset;
use lance_core::datatypes::Field as LanceField;
use lance_namespace::schema::arrow_schema_to_json;
use lancegate_functions::types::print_type;
use serde_json::{Value, json};

use super::{Argument, Declaration, FunctionCall, WHOLE_RESULT};
use crate::storage::{StorageError, nested};

/// The schema metadata key of all bindings.
const BINDINGS: &str = "lancedb::function_bindings";

/// Adds the bindings of new Function columns.
pub(super) async fn add(dataset: &mut Dataset, declarations: &[Declaration]) -> Result<(), StorageError> {
    let mut all = read(dataset);
    let mut new: BTreeMap<&str, Vec<(&FunctionCall, &Declaration)>> = BTreeMap::new();
    for declaration in declarations {
        if let Some(call) = &declaration.function {
            new.entry(&call.binding_id).or_default().push((call, declaration));
        }
    }
    for outputs in new.values() {
        all.push(binding(dataset, outputs)?);
    }
    write(dataset, all).await
}

/// Forgets the bindings of columns that are gone, and names outputs as they are named now.
///
/// # Errors
/// What Lance reports.
pub async fn sync(dataset: &mut Dataset) -> Result<(), StorageError> {
    let before = read(dataset);
    let schema = dataset.schema();
    let current = |binding: &Value| {
        let mut binding = binding.clone();
        for output in binding["outputs"].as_array_mut()? {
            let id = i32::try_from(output["output_field_id"].as_i64()?).ok()?;
            output["output_name"] = json!(nested::path_of(schema, id)?);
        }
        Some(binding)
    };
    let after: Vec<Value> = before.iter().filter_map(current).collect();
    if after == before { Ok(()) } else { write(dataset, after).await }
}

fn read(dataset: &Dataset) -> Vec<Value> {
    let text = dataset.schema().metadata.get(BINDINGS);
    let envelope: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
    envelope.and_then(|mut envelope| envelope["bindings"].as_array_mut().map(std::mem::take)).unwrap_or_default()
}

async fn write(dataset: &mut Dataset, bindings: Vec<Value>) -> Result<(), StorageError> {
    let text = json!({ "version": 1, "bindings": bindings }).to_string();
    dataset.update_schema_metadata(vec![(BINDINGS.to_owned(), Some(text))]).await?;
    Ok(())
}

fn binding(dataset: &Dataset, outputs: &[(&FunctionCall, &Declaration)]) -> Result<Value, StorageError> {
    let call = outputs[0].0;
    let (inputs, presented) = inputs(dataset, call)?;
    let mut filled = Vec::with_capacity(outputs.len());
    let mut shown = Vec::with_capacity(outputs.len());
    for (call, declaration) in outputs {
        filled.push(json!({
            "result_field": call.result_field,
            "output_name": declaration.name,
            "output_field_id": field(dataset, &declaration.name)?.id,
            "output_ordinal": call.ordinal,
            "arrow_type": print_type(&declaration.data_type),
            // That a result of several outputs is NULL as a whole, the SDK would look up in a column that we do not keep.
            "nullable": call.result_field == WHOLE_RESULT,
        }));
        shown.push(Field::new(&declaration.name, declaration.data_type.clone(), true));
    }
    let mut binding = json!({
        "binding_id": call.binding_id,
        "function": {
            "name": call.name,
            "namespace_path": call.namespace,
            "object_id": call.name,
            "location": "",
            "version": call.version.to_string(),
            "manifest_digest": format!("sha256:{}", call.digest),
        },
        "inputs": inputs,
        "outputs": filled,
        "input_schema": exact(presented)?,
        "output_schema": exact(shown)?,
    });
    if let Some(initialization) = &call.initialization {
        binding["initialization"] = json!(initialization.row);
    }
    Ok(binding)
}

/// The arguments that are columns; the SDK has no other, so constants are in the fields' own metadata alone. A column that
/// is computed never passes a NULL that was not computed, which the SDK calls not nullable.
fn inputs(dataset: &Dataset, call: &FunctionCall) -> Result<(Vec<Value>, Vec<Field>), StorageError> {
    let mut inputs = Vec::new();
    let mut presented = Vec::new();
    for (parameter, argument) in call.parameters.iter().zip(&call.arguments) {
        let Argument::Column(path) = argument else { continue };
        let input = field(dataset, path)?;
        let root = nested::parts(path).first().and_then(|root| dataset.schema().field(root));
        let nullable = input.nullable && !root.is_some_and(super::is_marked);
        let shown = Field::new(parameter, input.data_type(), nullable);
        inputs.push(json!({
            "parameter": parameter,
            "field_id": input.id,
            "field_path": path,
            "arrow_type": type_of(&shown)?,
            "nullable": nullable,
        }));
        presented.push(shown);
    }
    Ok((inputs, presented))
}

/// The type as the SDK compares it: a name, or the exact JSON of what has more than one.
fn type_of(field: &Field) -> Result<String, StorageError> {
    let exact = exact(vec![field.clone().with_name("value")])?;
    let exact = &exact["fields"][0]["type"];
    match exact.as_object() {
        Some(object) if object.len() == 1 => Ok(exact["type"].as_str().unwrap_or_default().to_owned()),
        _ => Ok(exact.to_string()),
    }
}

fn field<'a>(dataset: &'a Dataset, path: &str) -> Result<&'a LanceField, StorageError> {
    nested::field(dataset.schema(), path).ok_or_else(|| StorageError::NoColumn { column: path.to_owned() })
}

fn exact(fields: Vec<Field>) -> Result<Value, StorageError> {
    Ok(json!(arrow_schema_to_json(&Schema::new(fields))?))
}
