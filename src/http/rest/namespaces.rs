//! Namespaces, which are schemas of SQL.

use axum::http::StatusCode;
use axum::response::Response;
use lancegate_sql::Ident;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Routes;
use super::answers::{Done, NamespaceProperties, Namespaces};
use super::caller::Caller;
use super::error::{Code, RestError, Result};
use super::names::{self, literal};
use super::openapi::Doc;
use super::request::{Body, Id, PageOf, page};
use crate::http::reply;

pub(super) fn routes(routes: &mut Routes) {
    routes.get("/v1/namespace/{id}/list", list, Doc::json::<Namespaces>("Lists the namespaces right below one."));
    routes.post(
        "/v1/namespace/{id}/create",
        create,
        Doc::json::<NamespaceProperties>("Makes a namespace.")
            .example(r#"{"mode": "create", "properties": {"owner": "us"}}"#),
    );
    routes.post(
        "/v1/namespace/{id}/describe",
        describe,
        Doc::json::<NamespaceProperties>("Tells the properties of a namespace."),
    );
    routes.post("/v1/namespace/{id}/exists", exists, Doc::json::<Done>("Tells whether a namespace is there."));
    routes.post(
        "/v1/namespace/{id}/drop",
        drop,
        Doc::json::<NamespaceProperties>("Drops a namespace.").example(r#"{"behavior": "restrict"}"#),
    );
}

/// The parts that every request of the specification may have and nothing here needs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "NamespaceRequest")]
#[serde(default, deny_unknown_fields)]
struct Request {
    mode: Option<String>,
    behavior: Option<String>,
    properties: Option<Map<String, Value>>,
}

impl Request {
    /// Reads a word as clients spell it: `ExistOk`, `exist_ok`.
    fn word(word: Option<&String>) -> String {
        word.map(|word| word.replace('_', "").to_ascii_lowercase()).unwrap_or_default()
    }
}

/// `GET /v1/namespace/{id}/list`: the namespaces right below.
async fn list(mut caller: Caller, id: Id, PageOf(asked): PageOf) -> Result<Response> {
    let path = id.namespace()?;
    let names = match path.as_slice() {
        [] => {
            let names = caller.run("SHOW SCHEMAS").await?.texts("name");
            names.into_iter().filter(|name| name != "public" && !name.contains(names::DELIMITER)).collect()
        }
        path => {
            ensure_exists(&mut caller, path).await?;
            let listed = caller.run(&format!("SHOW SCHEMAS IN {}", Ident::new(names::schema(path)))).await?;
            let last = |name: &String| name.rsplit(names::DELIMITER).next().unwrap_or(name).to_owned();
            listed.texts("name").iter().map(last).collect()
        }
    };
    let (names, token) = page(names, &asked);
    Ok(reply::json(StatusCode::OK, &json!({ "namespaces": names, "page_token": token })))
}

async fn ensure_exists(caller: &mut Caller, path: &[String]) -> Result<()> {
    if !path.is_empty() {
        caller.run(&format!("DESCRIBE SCHEMA {}", Ident::new(names::schema(path)))).await?;
    }
    Ok(())
}

/// `POST /v1/namespace/{id}/create`
async fn create(mut caller: Caller, id: Id, Body(request): Body<Request>) -> Result<Response> {
    let path = id.namespace()?;
    if path.is_empty() {
        return Err(RestError::new(
            StatusCode::CONFLICT,
            Code::NamespaceAlreadyExists,
            "the root namespace exists already",
        ));
    }
    let if_not_exists = match Request::word(request.mode.as_ref()).as_str() {
        "" | "create" => "",
        "existok" => "IF NOT EXISTS ",
        "overwrite" => return Err(RestError::unsupported("a namespace cannot be overwritten")),
        other => return Err(RestError::invalid(format!("mode \"{other}\" is not create or exist_ok"))),
    };
    let mut sql = format!("CREATE SCHEMA {if_not_exists}{}", Ident::new(names::schema(&path)));
    let properties = request.properties.unwrap_or_default();
    if !properties.is_empty() {
        let pairs = properties.iter().map(|(name, value)| match value {
            Value::String(text) => Ok(format!("{} = {}", literal(name), literal(text))),
            _ => Err(RestError::invalid(format!("property \"{name}\" is not text"))),
        });
        sql.push_str(&format!(" WITH PROPERTIES ({})", pairs.collect::<Result<Vec<_>>>()?.join(", ")));
    }
    caller.run(&sql).await?;
    Ok(reply::json(StatusCode::OK, &json!({ "properties": properties })))
}

/// `POST /v1/namespace/{id}/describe`
async fn describe(mut caller: Caller, id: Id, Body(_): Body<Request>) -> Result<Response> {
    let path = id.namespace()?;
    let properties = match path.is_empty() {
        true => None,
        false => {
            let rows = caller.run(&format!("DESCRIBE SCHEMA {}", Ident::new(names::schema(&path)))).await?;
            rows.json(0, "properties")
        }
    };
    Ok(reply::json(StatusCode::OK, &json!({ "properties": properties.unwrap_or_else(|| json!({})) })))
}

/// `POST /v1/namespace/{id}/exists`
async fn exists(mut caller: Caller, id: Id, Body(_): Body<Request>) -> Result<Response> {
    ensure_exists(&mut caller, &id.namespace()?).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

/// `POST /v1/namespace/{id}/drop`
async fn drop(mut caller: Caller, id: Id, Body(request): Body<Request>) -> Result<Response> {
    let path = id.namespace()?;
    if path.is_empty() {
        return Err(RestError::invalid("the root namespace cannot be dropped"));
    }
    let if_exists = match Request::word(request.mode.as_ref()).as_str() {
        "" | "fail" => "",
        "skip" => "IF EXISTS ",
        other => return Err(RestError::invalid(format!("mode \"{other}\" is not skip or fail"))),
    };
    let behavior = match Request::word(request.behavior.as_ref()).as_str() {
        "" | "restrict" => "",
        "cascade" => " CASCADE",
        other => return Err(RestError::invalid(format!("behavior \"{other}\" is not restrict or cascade"))),
    };
    caller.run(&format!("DROP SCHEMA {if_exists}{}{behavior}", Ident::new(names::schema(&path)))).await?;
    Ok(reply::json(StatusCode::OK, &json!({ "properties": {} })))
}
