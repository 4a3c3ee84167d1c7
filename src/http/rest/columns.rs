//! Columns of a table: added, declared as computed, changed, dropped.

use std::collections::{BTreeMap, HashMap};

use arrow::datatypes::{DataType, Field};
use axum::body::Body as RawBody;
use axum::extract::{FromRequest as _, Query, Request};
use axum::http::header;
use axum::response::Response;
use lancegate_engine::sql::plan::alter::typed::{ColumnChange, MetadataChange};
use lancegate_engine::storage::describe::shown_metadata;
use lancegate_sql::{Ident, ObjectName};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Routes;
use super::answers::{FieldsDescribed, Versioned};
use super::batches::{Incoming, STREAM};
use super::caller::Caller;
use super::error::{RestError, Result};
use super::functions::{self, Application};
use super::names::{canonical, field_path, sql_path};
use super::openapi::Doc;
use super::request::{Body, Id, bytes};
use super::tables::{at_version, ensure_main, misread, newest_version, readable};
use super::text::{expression, stored_expression};
use super::writes::versioned;

/// The longest body of columns without rows in bytes.
const SCHEMA_BYTES_MAX: u64 = 16 << 20;

pub(super) fn routes(routes: &mut Routes) {
    routes.post(
        "/v1/table/{id}/add_columns",
        add_columns,
        Doc::json::<Versioned>("Adds columns: computed, evaluated once, or of NULLs.")
            .example(r#"{"new_columns": [{"name": "y", "computed": "x + 1"}]}"#)
            .body::<AddColumns>(),
    );
    routes.post(
        "/v1/table/{id}/alter_columns",
        alter_columns,
        Doc::json::<Versioned>("Changes columns.").example(r#"{"alterations": [{"path": "y", "rename": "z"}]}"#),
    );
    routes.post(
        "/v1/table/{id}/update_field_metadata",
        update_field_metadata,
        Doc::json::<FieldsDescribed>("Changes what the metadata of columns says.")
            .example(r#"{"updates": [{"path": "y", "metadata": {"unit": "m", "old": null}}]}"#),
    );
    routes.post(
        "/v1/table/{id}/drop_columns",
        drop_columns,
        Doc::json::<Versioned>("Drops columns.").example(r#"{"columns": ["z"]}"#),
    );
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "AddColumnsRequest")]
#[serde(default, deny_unknown_fields)]
struct AddColumns {
    new_columns: Vec<NewColumn>,
    auto_refresh_enabled: Option<bool>,
    auto_refresh_interval_seconds: Option<u64>,
    function: Option<Application>,
    branch: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct NewColumn {
    name: String,
    /// Evaluated once.
    expression: Option<String>,
    /// Evaluated by refreshes.
    computed: Option<String>,
    virtual_column: Option<Value>,
    all_null: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "BranchParameter")]
struct Branch {
    branch: Option<String>,
}

/// `POST /v1/table/{id}/add_columns`: JSON, or an Arrow stream without rows for
/// columns of NULLs.
async fn add_columns(mut caller: Caller, id: Id, Query(query): Query<Branch>, request: Request) -> Result<Response> {
    ensure_main(query.branch.as_ref())?;
    let name = id.object()?;
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with(STREAM)) {
        add_nulls(&mut caller, &name, request).await.map_err(misread)?;
    } else {
        let bytes = bytes(request, &()).await?;
        let Body(given) = Body::<AddColumns>::from_request(Request::new(RawBody::from(bytes)), &()).await?;
        ensure_main(given.branch.as_ref())?;
        add(&mut caller, &name, given).await.map_err(misread)?;
    }
    let version = newest_version(&caller, &name).await?;
    Ok(versioned(&json!({ "version": version }), version))
}

async fn add_nulls(caller: &mut Caller, name: &ObjectName, request: Request) -> Result<()> {
    let incoming = Incoming::open(request.into_body(), SCHEMA_BYTES_MAX).await?;
    let fields = incoming.schema().fields().iter().map(|field| ColumnChange::Add(field.as_ref().clone())).collect();
    change(caller, name, fields).await
}

async fn change(caller: &mut Caller, name: &ObjectName, changes: Vec<ColumnChange>) -> Result<()> {
    if changes.is_empty() {
        return Err(RestError::invalid("there are no columns"));
    }
    let plan = caller.engine().plan_column_changes(caller.session(), name, changes).await?;
    let plan = caller.authorize(plan).await?;
    caller.execute(&plan).await?;
    Ok(())
}

async fn add(caller: &mut Caller, name: &ObjectName, given: AddColumns) -> Result<()> {
    if given.new_columns.is_empty() {
        return Err(RestError::invalid("new_columns is empty"));
    }
    if given.new_columns.iter().any(|column| column.virtual_column.is_some()) {
        return Err(RestError::unsupported("virtual_column is not supported; declare the column as computed"));
    }
    let options = options(&given);
    if let Some(function) = &given.function {
        let names: Vec<&str> = given.new_columns.iter().map(|column| column.name.as_str()).collect();
        let action = functions::declaration(function, &names)?;
        caller.run(&format!("ALTER TABLE {name} {action}{}", functions::with(&options, function)?)).await?;
        return Ok(());
    }
    let computed = |column: &NewColumn| column.computed.clone();
    if given.new_columns.iter().all(|column| column.computed.is_some()) {
        let actions = given.new_columns.iter().map(|column| {
            let text = stored_expression(&computed(column).unwrap_or_default())?;
            let with = if options.is_empty() { String::new() } else { format!(" WITH ({})", options.join(", ")) };
            Ok(format!("ADD COLUMN {} AS {text}{with}", sql_path(&field_path(&column.name)?)))
        });
        let actions = actions.collect::<Result<Vec<_>>>()?;
        caller.run(&format!("ALTER TABLE {name} {}", actions.join(", "))).await?;
        return Ok(());
    }
    if given.new_columns.iter().all(|column| column.expression.is_some()) {
        return evaluate(caller, name, &given.new_columns).await;
    }
    Err(RestError::invalid("all new columns must be computed, or all must have an expression"))
}

fn options(given: &AddColumns) -> Vec<String> {
    let enabled = given.auto_refresh_enabled.map(|enabled| format!("auto_refresh_enabled = {enabled}"));
    let interval = given.auto_refresh_interval_seconds.map(|every| format!("auto_refresh_interval_seconds = {every}"));
    enabled.into_iter().chain(interval).collect()
}

/// Adds plain columns with the values that expressions have now: the columns first,
/// their values in the next version. If the values cannot be had, the columns go.
async fn evaluate(caller: &mut Caller, name: &ObjectName, columns: &[NewColumn]) -> Result<()> {
    let texts = columns.iter().map(|column| expression(column.expression.as_deref().unwrap_or_default()));
    let texts = texts.collect::<Result<Vec<_>>>()?;
    let listed: Vec<String> = texts.iter().enumerate().map(|(index, text)| format!("{text} AS c{index}")).collect();
    let plan = caller.plan(&format!("SELECT {} FROM {name}", listed.join(", "))).await?;
    let plan = caller.authorize(plan).await?;
    let schema = plan.columns().ok_or_else(|| RestError::internal("a query has no columns"))?;
    let typed = columns.iter().zip(schema.fields());
    let changes = typed.map(|(column, field)| ColumnChange::Add(Field::new(&column.name, stored(field), true)));
    change(caller, name, changes.collect()).await?;
    let set: Vec<String> =
        columns.iter().zip(&texts).map(|(column, text)| format!("{} = {text}", Ident::new(&column.name))).collect();
    let filled = caller.run(&format!("UPDATE {name} SET {}", set.join(", "))).await;
    let Err(error) = filled else { return Ok(()) };
    let drops: Vec<String> = columns.iter().map(|column| format!("DROP COLUMN {}", Ident::new(&column.name))).collect();
    if let Err(left) = caller.run(&format!("ALTER TABLE {name} {}", drops.join(", "))).await {
        tracing::warn!(?left, table = %name, "columns without values were left behind");
    }
    Err(error)
}

fn stored(field: &Field) -> DataType {
    lancegate_engine::sql::types::stored(field.data_type())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "AlterColumnsRequest")]
#[serde(deny_unknown_fields)]
struct AlterColumns {
    #[schemars(length(min = 1))]
    alterations: Vec<Alteration>,
    #[serde(default)]
    branch: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Alteration {
    path: String,
    #[serde(default)]
    rename: Option<String>,
    #[serde(default)]
    data_type: Option<Value>,
    #[serde(default)]
    nullable: Option<bool>,
    #[serde(default)]
    virtual_column: Option<Value>,
}

/// `POST /v1/table/{id}/alter_columns`
async fn alter_columns(mut caller: Caller, id: Id, Body(given): Body<AlterColumns>) -> Result<Response> {
    ensure_main(given.branch.as_ref())?;
    let name = id.object()?;
    alter(&mut caller, &name, &given.alterations).await.map_err(misread)?;
    let version = newest_version(&caller, &name).await?;
    Ok(versioned(&json!({ "version": version }), version))
}

async fn alter(caller: &mut Caller, name: &ObjectName, alterations: &[Alteration]) -> Result<()> {
    let mut types = Vec::new();
    let mut renames = Vec::new();
    for alteration in alterations {
        let path = field_path(&alteration.path)?;
        if alteration.nullable == Some(false) || alteration.virtual_column.is_some() {
            return Err(RestError::unsupported("only rename, data_type and nullable = true can be altered"));
        }
        if alteration.nullable == Some(true) {
            let [column] = path.as_slice() else {
                return Err(RestError::unsupported("a field inside a column cannot be made nullable"));
            };
            types.push(ColumnChange::DropNotNull { column: column.clone() });
        }
        if let Some(data_type) = &alteration.data_type {
            let [column] = path.as_slice() else {
                return Err(RestError::unsupported("the type of a field inside a column cannot be altered"));
            };
            types.push(ColumnChange::Type { column: column.clone(), data_type: arrow_type(data_type)? });
        }
        if let Some(to) = &alteration.rename {
            renames.push(format!("RENAME COLUMN {} TO {}", sql_path(&path), Ident::new(to)));
        }
    }
    if types.is_empty() && renames.is_empty() {
        return Err(RestError::invalid("there is nothing to alter"));
    }
    if !types.is_empty() {
        change(caller, name, types).await?;
    }
    for rename in renames {
        caller.run(&format!("ALTER TABLE {name} {rename}")).await?;
    }
    Ok(())
}

/// Reads a type in Lance's spelling, else in that of the specification.
fn arrow_type(json: &Value) -> Result<DataType> {
    let json = match json {
        Value::String(word) => json!({ "type": word }),
        other => other.clone(),
    };
    let lance = serde_json::from_value::<lance::arrow::json::JsonDataType>(json.clone()).ok();
    if let Some(found) = lance.and_then(|found| DataType::try_from(&found).ok()) {
        return Ok(found);
    }
    let found = serde_json::from_value(json.clone()).ok();
    let found = found.and_then(|found| lance_namespace::schema::convert_json_arrow_type(&found).ok());
    found.ok_or_else(|| RestError::invalid(format!("{json} is not a type")))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "UpdateFieldMetadataRequest")]
#[serde(deny_unknown_fields)]
struct UpdateFieldMetadata {
    #[schemars(length(min = 1))]
    updates: Vec<FieldMetadata>,
    #[serde(default)]
    branch: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FieldMetadata {
    path: String,
    /// A text for each key; null takes it away.
    metadata: BTreeMap<String, Option<String>>,
    /// Whether the other keys of the field go.
    #[serde(default)]
    replace: Option<bool>,
}

/// `POST /v1/table/{id}/update_field_metadata`: answers with what the fields say now.
async fn update_field_metadata(mut caller: Caller, id: Id, Body(given): Body<UpdateFieldMetadata>) -> Result<Response> {
    ensure_main(given.branch.as_ref())?;
    let name = id.object()?;
    let paths = given.updates.iter().map(|update| field_path(&update.path)).collect::<Result<Vec<_>>>()?;
    let changes = given.updates.iter().zip(&paths).map(|(update, path)| {
        let (entries, replace) = (update.metadata.clone(), update.replace.unwrap_or_default());
        ColumnChange::Metadata(MetadataChange { path: path.clone(), entries, replace })
    });
    change(&mut caller, &name, changes.collect()).await.map_err(misread)?;
    let version = newest_version(&caller, &name).await?;
    let table = at_version(&readable(&mut caller, &name).await?, version).await?;
    let told = |path: &Vec<String>| Some((canonical(path), shown_metadata(&table.dataset, path)?));
    let fields: BTreeMap<String, HashMap<String, String>> = paths.iter().filter_map(told).collect();
    Ok(versioned(&json!({ "version": version, "fields": fields }), version))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "DropColumnsRequest")]
#[serde(deny_unknown_fields)]
struct DropColumns {
    #[schemars(length(min = 1))]
    columns: Vec<String>,
    #[serde(default)]
    branch: Option<String>,
}

/// `POST /v1/table/{id}/drop_columns`
async fn drop_columns(mut caller: Caller, id: Id, Body(given): Body<DropColumns>) -> Result<Response> {
    ensure_main(given.branch.as_ref())?;
    let name = id.object()?;
    let drops = given.columns.iter().map(|column| Ok(format!("DROP COLUMN {}", sql_path(&field_path(column)?))));
    let drops = drops.collect::<Result<Vec<_>>>()?;
    if drops.is_empty() {
        return Err(RestError::invalid("columns is empty"));
    }
    caller.run(&format!("ALTER TABLE {name} {}", drops.join(", "))).await.map_err(misread)?;
    let version = newest_version(&caller, &name).await?;
    Ok(versioned(&json!({ "version": version }), version))
}

/// Returns a path as errors show it.
pub(super) fn shown(path: &str) -> Result<String> {
    Ok(canonical(&field_path(path)?))
}
