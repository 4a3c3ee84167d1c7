//! Versions, tags and branches of a table.

use axum::extract::{OriginalUri, Query};
use axum::http::StatusCode;
use axum::response::Response;
use lancegate_engine::sql::plan::versions::{TagRow, VersionAction, VersionAnswer};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Routes;
use super::answers::{Branches, Done, TaggedVersion, Tags, Versioned, Versions};
use super::caller::Caller;
use super::error::{Code, RestError, Result};
use super::openapi::Doc;
use super::request::{Body, Id};
use super::tables::misread;
use super::writes::versioned;
use crate::http::reply;

pub(super) fn routes(routes: &mut Routes) {
    routes.post(
        "/v1/table/{id}/version/list",
        list,
        Doc::json::<Versions>("Lists the versions of a table.").example(r#"{"limit": 10, "descending": true}"#),
    );
    routes.post(
        "/v1/table/{id}/restore",
        restore,
        Doc::json::<Versioned>("Makes an old version the newest one.").example(r#"{"version": 1}"#),
    );
    routes.post("/v1/table/{id}/tags/list", tags, Doc::json::<Tags>("Lists the tags of a table."));
    routes.post(
        "/v1/table/{id}/tags/version",
        tag,
        Doc::json::<TaggedVersion>("Tells the version that a tag names.").example(r#"{"tag": "good"}"#),
    );
    routes.post(
        "/v1/table/{id}/tags/create",
        create_tag,
        Doc::json::<Done>("Gives a version a name.").example(r#"{"tag": "good", "version": 1}"#),
    );
    routes.post(
        "/v1/table/{id}/tags/update",
        move_tag,
        Doc::json::<Done>("Gives the name of a version to another.").example(r#"{"tag": "good", "version": 1}"#),
    );
    routes.post(
        "/v1/table/{id}/tags/delete",
        drop_tag,
        Doc::json::<Done>("Drops the name of a version.").example(r#"{"tag": "good"}"#),
    );
    routes.post("/v1/table/{id}/branches/list", branches, Doc::json::<Branches>("Lists the branches of a table."));
    routes.post(
        "/v1/table/{id}/branches/create",
        create_branch,
        Doc::json::<Done>("Makes a branch.").example(r#"{"name": "try"}"#),
    );
    routes.post(
        "/v1/table/{id}/branches/delete",
        drop_branch,
        Doc::json::<Done>("Drops a branch.").example(r#"{"name": "try"}"#),
    );
}

/// Which versions are listed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "ListVersionsRequest")]
#[serde(default, deny_unknown_fields)]
struct Which {
    branch: Option<String>,
    limit: Option<u32>,
    descending: Option<bool>,
    #[serde(rename = "page_token")]
    _page_token: Option<String>,
}

/// Tags and branches come in one page.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "ListNamesRequest")]
#[serde(default, deny_unknown_fields)]
struct All {
    #[serde(rename = "limit")]
    _limit: Option<u32>,
    #[serde(rename = "page_token")]
    _page_token: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "RestoreRequest")]
#[serde(deny_unknown_fields)]
struct Old {
    version: u64,
    #[serde(default)]
    branch: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "TagRequest")]
#[serde(deny_unknown_fields)]
struct Tag {
    tag: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "TagVersionRequest")]
#[serde(deny_unknown_fields)]
struct Tagging {
    tag: String,
    version: u64,
    #[serde(default)]
    branch: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "CreateBranchRequest")]
#[serde(deny_unknown_fields)]
struct NewBranch {
    name: String,
    #[serde(default)]
    from_branch: Option<String>,
    #[serde(default)]
    from_version: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "BranchRequest")]
#[serde(deny_unknown_fields)]
struct Branch {
    name: String,
}

async fn act(caller: &mut Caller, id: &Id, branch: Option<&str>, action: VersionAction) -> Result<VersionAnswer> {
    let table = id.object()?;
    let plan = caller.engine().plan_version(caller.session(), &table, branch, action).await?;
    let plan = caller.authorize(plan).await?;
    let (engine, session, _) = caller.parts();
    Ok(engine.versions(session, &plan).await?)
}

fn done() -> Response {
    reply::json(StatusCode::OK, &json!({}))
}

fn unexpected() -> RestError {
    RestError::internal("a statement about versions answered something else")
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "VersionBranch")]
struct OnBranch {
    branch: Option<String>,
}

/// `POST /v1/table/{id}/version/list`
async fn list(mut caller: Caller, id: Id, Query(on): Query<OnBranch>, Body(given): Body<Which>) -> Result<Response> {
    let branch = on.branch.or(given.branch);
    let VersionAnswer::Versions(mut rows) = act(&mut caller, &id, branch.as_deref(), VersionAction::List).await? else {
        return Err(unexpected());
    };
    if given.descending.unwrap_or_default() {
        rows.reverse();
    }
    rows.truncate(given.limit.map_or(usize::MAX, |limit| limit as usize));
    let versions: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "version": row.version,
                "timestamp": row.timestamp.to_rfc3339(),
                "timestamp_millis": row.timestamp.timestamp_millis(),
                "metadata": row.metadata,
            })
        })
        .collect();
    Ok(reply::json(StatusCode::OK, &json!({ "versions": versions })))
}

/// `POST /v1/table/{id}/restore`
async fn restore(mut caller: Caller, id: Id, Body(given): Body<Old>) -> Result<Response> {
    let action = VersionAction::Restore { version: given.version };
    match act(&mut caller, &id, given.branch.as_deref(), action).await.map_err(misread)? {
        VersionAnswer::Version(version) => Ok(versioned(&json!({ "version": version }), version)),
        _ => Err(unexpected()),
    }
}

fn described(tag: &TagRow) -> Value {
    let mut told = json!({ "version": tag.version, "manifestSize": tag.manifest_size });
    if let Some(branch) = &tag.branch {
        told["branch"] = json!(branch);
    }
    if let Some(at) = tag.created_at {
        told["createdAt"] = json!(at.to_rfc3339());
    }
    if let Some(at) = tag.updated_at {
        told["updatedAt"] = json!(at.to_rfc3339());
    }
    told
}

/// `POST /v1/table/{id}/tags/list`: by name; the specification wraps the map.
async fn tags(mut caller: Caller, id: Id, OriginalUri(uri): OriginalUri, Body(_): Body<All>) -> Result<Response> {
    let VersionAnswer::Tags(rows) = act(&mut caller, &id, None, VersionAction::Tags).await? else {
        return Err(unexpected());
    };
    let map: Map<String, Value> = rows.iter().map(|tag| (tag.name.clone(), described(tag))).collect();
    let body = if uri.path().ends_with('/') { Value::Object(map) } else { json!({ "tags": map }) };
    Ok(reply::json(StatusCode::OK, &body))
}

/// `POST /v1/table/{id}/tags/version`
async fn tag(mut caller: Caller, id: Id, Body(Tag { tag }): Body<Tag>) -> Result<Response> {
    let action = VersionAction::Tag { tag };
    match act(&mut caller, &id, None, action).await.map_err(misread_tag)? {
        VersionAnswer::Tag(row) => {
            Ok(reply::json(StatusCode::OK, &json!({ "version": row.version, "branch": row.branch })))
        }
        _ => Err(unexpected()),
    }
}

/// The clients show the text of a 400, and of a 404 only that the table is missing.
fn misread_tag(error: RestError) -> RestError {
    if error.is_undefined_object() {
        error.with_code(Code::TableTagNotFound).into_bad_request()
    } else {
        misread(error)
    }
}

async fn change(mut caller: Caller, id: Id, branch: Option<String>, action: VersionAction) -> Result<Response> {
    act(&mut caller, &id, branch.as_deref(), action).await.map_err(misread_tag)?;
    Ok(done())
}

/// `POST /v1/table/{id}/tags/create`
async fn create_tag(caller: Caller, id: Id, Body(given): Body<Tagging>) -> Result<Response> {
    let Tagging { tag, version, branch } = given;
    change(caller, id, branch, VersionAction::CreateTag { tag, version }).await
}

/// `POST /v1/table/{id}/tags/update`
async fn move_tag(caller: Caller, id: Id, Body(given): Body<Tagging>) -> Result<Response> {
    let Tagging { tag, version, branch } = given;
    change(caller, id, branch, VersionAction::MoveTag { tag, version }).await
}

/// `POST /v1/table/{id}/tags/delete`
async fn drop_tag(caller: Caller, id: Id, Body(Tag { tag }): Body<Tag>) -> Result<Response> {
    change(caller, id, None, VersionAction::DropTag { tag }).await
}

/// `POST /v1/table/{id}/branches/list`
async fn branches(mut caller: Caller, id: Id, Body(_): Body<All>) -> Result<Response> {
    let VersionAnswer::Branches(rows) = act(&mut caller, &id, None, VersionAction::Branches).await? else {
        return Err(unexpected());
    };
    let map: Map<String, Value> = rows
        .iter()
        .map(|branch| {
            let told = json!({
                "parentBranch": branch.parent_branch,
                "parentVersion": branch.parent_version,
                "createAt": branch.created_at,
                "manifestSize": branch.manifest_size,
            });
            (branch.name.clone(), told)
        })
        .collect();
    Ok(reply::json(StatusCode::OK, &json!({ "branches": map })))
}

/// `POST /v1/table/{id}/branches/create`
async fn create_branch(mut caller: Caller, id: Id, Body(given): Body<NewBranch>) -> Result<Response> {
    let action = VersionAction::CreateBranch { name: given.name, version: given.from_version };
    act(&mut caller, &id, given.from_branch.as_deref(), action).await?;
    Ok(done())
}

/// `POST /v1/table/{id}/branches/delete`
async fn drop_branch(mut caller: Caller, id: Id, Body(Branch { name }): Body<Branch>) -> Result<Response> {
    let action = VersionAction::DropBranch { name };
    act(&mut caller, &id, None, action).await?;
    Ok(done())
}
