//! Views: queries with a name.

use axum::http::StatusCode;
use axum::response::Response;
use lancegate_sql::{Ident, ObjectName};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Routes;
use super::answers::{Done, ViewDescription, Views};
use super::caller::Caller;
use super::error::{RestError, Result};
use super::names;
use super::openapi::Doc;
use super::request::{Body, Id, PageOf, page};
use crate::http::reply;

pub(super) fn routes(routes: &mut Routes) {
    routes.post(
        "/v1/view/{id}/create",
        create,
        Doc::json::<ViewDescription>("Makes a view.").example(r#"{"query": "SELECT x FROM t"}"#),
    );
    routes.post("/v1/view/{id}/describe", describe, Doc::json::<ViewDescription>("Tells a view."));
    routes.post("/v1/view/{id}/drop", drop, Doc::json::<Done>("Drops a view."));
    routes.get("/v1/namespace/{id}/view/list", list, Doc::json::<Views>("Lists views."));
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ViewRequest")]
#[serde(deny_unknown_fields)]
struct Definition {
    query: String,
}

/// `POST /v1/view/{id}/create`
async fn create(mut caller: Caller, id: Id, Body(given): Body<Definition>) -> Result<Response> {
    let name = id.object()?;
    caller.run(&format!("CREATE VIEW {name} AS {}", given.query)).await?;
    description(&mut caller, &name).await
}

/// `POST /v1/view/{id}/describe`
async fn describe(mut caller: Caller, id: Id) -> Result<Response> {
    description(&mut caller, &id.object()?).await
}

async fn description(caller: &mut Caller, name: &ObjectName) -> Result<Response> {
    let (record, schema) = super::tables::relation(caller, name).await?;
    let Some(query) = record.definition.filter(|_| record.kind == lancegate_catalog::TableKind::View) else {
        return Err(RestError::not_found(format!("view \"{}\" does not exist", name.name)));
    };
    let body = json!({
        "name": record.name.name,
        "namespace": record.name.namespace,
        "query": query,
        "default_database": record.name.database,
        "default_namespace": record.name.namespace,
        "schema": super::tables::namespace_schema(&schema)?,
    });
    Ok(reply::json(StatusCode::OK, &body))
}

/// `POST /v1/view/{id}/drop`
async fn drop(mut caller: Caller, id: Id) -> Result<Response> {
    caller.run(&format!("DROP VIEW {}", id.object()?)).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

/// `GET /v1/namespace/{id}/view/list`
async fn list(mut caller: Caller, id: Id, PageOf(asked): PageOf) -> Result<Response> {
    let schema = Ident::new(names::schema(&id.namespace()?));
    let names = caller.run(&format!("SHOW VIEWS IN {schema}")).await?.texts("name");
    let (names, token) = page(names, &asked);
    let body: Value = json!({ "views": names, "page_token": token });
    Ok(reply::json(StatusCode::OK, &body))
}
