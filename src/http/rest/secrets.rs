//! Secrets. No answer and no log has a value.

use axum::http::StatusCode;
use axum::response::Response;
use lancegate_sql::{Ident, ObjectName};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Routes;
use super::answers::{Done, SecretDescription, Secrets};
use super::caller::Caller;
use super::error::{RestError, Result};
use super::names::{self, literal};
use super::openapi::Doc;
use super::request::{Body, Id, PageOf, page};
use crate::http::reply;

pub(super) fn routes(routes: &mut Routes) {
    routes.post(
        "/v1/secret/{id}/create",
        create,
        Doc::json::<Done>("Makes a secret.").example(r#"{"value": "of the secret"}"#),
    );
    routes.post(
        "/v1/secret/{id}/alter",
        alter,
        Doc::json::<Done>("Gives a secret another value.").example(r#"{"value": "of the secret"}"#),
    );
    routes.post(
        "/v1/secret/{id}/describe",
        describe,
        Doc::json::<SecretDescription>("Tells a secret without its value."),
    );
    routes.post("/v1/secret/{id}/drop", drop, Doc::json::<Done>("Drops a secret."));
    routes.get("/v1/namespace/{id}/secret/list", list, Doc::json::<Secrets>("Lists secrets without their values."));
}

/// A value that does not print.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "SecretRequest")]
#[serde(deny_unknown_fields)]
struct Given {
    value: String,
}

/// `POST /v1/secret/{id}/create`
async fn create(mut caller: Caller, id: Id, Body(given): Body<Given>) -> Result<Response> {
    let name = spelled(&id.object()?);
    run(&mut caller, format!("CREATE SECRET {name} TYPE = GENERIC_STRING SECRET_STRING = "), &given).await
}

/// `POST /v1/secret/{id}/alter`
async fn alter(mut caller: Caller, id: Id, Body(given): Body<Given>) -> Result<Response> {
    let name = spelled(&id.object()?);
    run(&mut caller, format!("ALTER SECRET {name} SECRET_STRING = "), &given).await
}

async fn run(caller: &mut Caller, statement: String, given: &Given) -> Result<Response> {
    // A text with a zero byte is no literal; the parser would cut it.
    if given.value.contains('\0') {
        return Err(RestError::invalid("the value of a secret cannot have a zero byte"));
    }
    caller.run(&(statement + &literal(&given.value))).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

/// `POST /v1/secret/{id}/describe`
async fn describe(mut caller: Caller, id: Id) -> Result<Response> {
    let rows = caller.run(&format!("DESCRIBE SECRET {}", spelled(&id.object()?))).await?;
    let body = json!({
        "name": rows.text(0, "name"),
        "created_at_millis": rows.number(0, "created_at_millis"),
        "updated_at_millis": rows.number(0, "updated_at_millis"),
    });
    Ok(reply::json(StatusCode::OK, &body))
}

/// `POST /v1/secret/{id}/drop`
async fn drop(mut caller: Caller, id: Id) -> Result<Response> {
    caller.run(&format!("DROP SECRET {}", spelled(&id.object()?))).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

/// `GET /v1/namespace/{id}/secret/list`
async fn list(mut caller: Caller, id: Id, PageOf(asked): PageOf) -> Result<Response> {
    let schema = Ident::new(names::schema(&id.namespace()?));
    let names = caller.run(&format!("SHOW SECRETS IN {schema}")).await?.texts("name");
    let (names, token) = page(names, &asked);
    let secrets: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
    Ok(reply::json(StatusCode::OK, &json!({ "secrets": secrets, "page_token": token })))
}

/// Returns the name in SQL.
pub(super) fn spelled(name: &ObjectName) -> String {
    name.to_string()
}
