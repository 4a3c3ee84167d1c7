//! `/admin/authz/…`: grants and role bindings, in the access-list spelling of the
//! LanceDB client: `{"subject": "P:alice", "object": "table:db:ns$t", "privilege": "SELECT"}`.

use axum::http::StatusCode;
use axum::response::Response;
use lancegate_auth::{Object, Privilege, RoleName, Subject, UserName};
use lancegate_engine::error::SqlError;
use lancegate_sql::{Ident, ObjectName};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Routes;
use super::answers::{Done, Grants, PrincipalDescription, RoleBindings};
use super::caller::Caller;
use super::error::{RestError, Result};
use super::names::schema;
use super::openapi::Doc;
use super::request::{Body, Page, page};
use super::tables::no_object;
use crate::http::reply;

pub(super) fn routes(routes: &mut Routes) {
    routes.post(
        "/admin/authz/acl/list",
        list,
        Doc::json::<Grants>("Lists grants.").example(r#"{"subject": "P:alice"}"#),
    );
    routes.post(
        "/admin/authz/acl/add",
        add,
        Doc::json::<Done>("Grants a privilege.")
            .example(r#"{"subject": "P:alice", "object": "table:lancegate:$t", "privilege": "SELECT"}"#),
    );
    routes.post(
        "/admin/authz/acl/delete",
        delete,
        Doc::json::<Done>("Revokes a privilege.")
            .example(r#"{"subject": "P:alice", "object": "table:lancegate:$t", "privilege": "SELECT"}"#),
    );
    routes.post("/admin/authz/role_binding/list", bindings, Doc::json::<RoleBindings>("Lists the roles of users."));
    routes.post(
        "/admin/authz/role_binding/add",
        bind,
        Doc::json::<Done>("Gives a user a role.").example(r#"{"subject": "P:alice", "role": "r:reader"}"#),
    );
    routes.post(
        "/admin/authz/role_binding/delete",
        unbind,
        Doc::json::<Done>("Takes a role from a user.").example(r#"{"subject": "P:alice", "role": "r:reader"}"#),
    );
    routes.post(
        "/admin/authz/principal",
        principal,
        Doc::json::<PrincipalDescription>("Tells a user and his roles.").example(r#"{"principal": "P:alice"}"#),
    );
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "GrantRequest")]
#[serde(deny_unknown_fields)]
struct Entry {
    subject: String,
    object: String,
    privilege: String,
}

/// Reads a user or a role; users may be told by id or by name, which are the same here.
fn subject(text: &str) -> Result<Subject> {
    let text = text.strip_prefix("p:").map_or_else(|| text.to_owned(), |name| format!("P:{name}"));
    match text.parse() {
        Ok(Subject::Group(_)) => {
            Err(RestError::unsupported("groups of an identity provider have no grants of their own"))
        }
        Ok(subject) => Ok(subject),
        // The text may be a key.
        Err(_) => Err(RestError::invalid("the subject is not p:<user>, P:<user> or r:<role>")),
    }
}

fn object(text: &str) -> Result<Object> {
    text.parse().map_err(|error| RestError::invalid(format!("object \"{text}\": {error}")))
}

/// Returns the object in SQL, with its kind.
fn spelled(object: &Object) -> Result<String> {
    let member = |kind: &str, database: &str, namespace: &[String], name: &str| {
        let name =
            ObjectName { database: Some(database.to_owned()), schema: Some(schema(namespace)), name: name.to_owned() };
        format!("{kind} {name}")
    };
    Ok(match object {
        Object::System => "SYSTEM".to_owned(),
        Object::Database(name) => format!("DATABASE {}", Ident::new(name)),
        Object::Namespace { database, path } => {
            format!("SCHEMA {}.{}", Ident::new(database), Ident::new(schema(path)))
        }
        Object::Table { database, namespace, name } | Object::MaterializedView { database, namespace, name } => {
            member("TABLE", database, namespace, name)
        }
        Object::View { database, namespace, name } => member("VIEW", database, namespace, name),
        Object::Secret { database, namespace, name } => member("SECRET", database, namespace, name),
        Object::Function { database, namespace, name } => member("FUNCTION", database, namespace, name),
        Object::StorageIntegration(_) => return Err(RestError::unsupported("storage integrations are not supported")),
    })
}

fn grantee(subject: &Subject) -> String {
    match subject {
        Subject::User(name) => format!("USER {}", Ident::new(name.as_str())),
        Subject::Role(name) => format!("ROLE {}", Ident::new(name.as_str())),
        Subject::Group(name) => format!("GROUP {}", Ident::new(name)),
    }
}

impl Entry {
    fn statement(&self, verb: &str, preposition: &str) -> Result<String> {
        let bad = |_| RestError::invalid(format!("\"{}\" is not a privilege", self.privilege));
        let privilege = Privilege::from_acl(&self.privilege).map_err(bad)?;
        let (object, subject) = (object(&self.object)?, subject(&self.subject)?);
        let on = spelled(&object)?;
        Ok(format!("{verb} {} ON {on} {preposition} {}", privilege.as_sql(), grantee(&subject)))
    }
}

/// `POST /admin/authz/acl/add`
async fn add(mut caller: Caller, Body(entry): Body<Entry>) -> Result<Response> {
    caller.run(&entry.statement("GRANT", "TO")?).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

/// `POST /admin/authz/acl/delete`
async fn delete(mut caller: Caller, Body(entry): Body<Entry>) -> Result<Response> {
    caller.run(&entry.statement("REVOKE", "FROM")?).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "ListGrantsRequest")]
#[serde(default, deny_unknown_fields)]
struct List {
    object: Option<String>,
    subject: Option<String>,
    role: Option<String>,
    max_results: Option<u32>,
    continuation_token: Option<String>,
}

impl List {
    fn page(&self) -> Page {
        Page { limit: self.max_results, page_token: self.continuation_token.clone() }
    }
}

/// Returns how a subject is told: users by id, which is their name.
fn told(subject: &Subject) -> (String, Value) {
    match subject {
        Subject::User(name) => (format!("p:{name}"), json!(name.as_str())),
        Subject::Role(name) => (format!("r:{name}"), json!(name.as_str())),
        Subject::Group(name) => (format!("g:{name}"), json!(name)),
    }
}

/// `POST /admin/authz/acl/list`
async fn list(caller: Caller, Body(asked): Body<List>) -> Result<Response> {
    let scope = match &asked.subject {
        Some(text) => format!(" FOR {}", grantee(&subject(text)?)),
        None => String::new(),
    };
    let plan = caller.plan(&format!("SHOW GRANTS{scope}")).await?;
    let plan = caller.authorize(plan).await?;
    let only = asked.object.as_deref().map(object).transpose()?;
    let grants = caller.engine().grants_shown(caller.session(), &plan).await?;
    let found: Vec<_> = grants
        .into_iter()
        .filter(|grant| only.as_ref().is_none_or(|only| grant.object == *only))
        .map(|grant| (format!("{} {} {}", grant.object, grant.subject, grant.privilege.as_acl()), grant))
        .collect();
    let (keys, token) = page(found.iter().map(|(key, _)| key.clone()).collect(), &asked.page());
    let entries: Vec<Value> = keys
        .iter()
        .filter_map(|key| found.iter().find(|(found, _)| found == key))
        .map(|(_, grant)| {
            let (id, name) = told(&grant.subject);
            json!({
                "subject_id": id,
                "subject_name": name,
                "object": grant.object.to_string(),
                "privilege": grant.privilege.as_acl(),
            })
        })
        .collect();
    Ok(reply::json(StatusCode::OK, &json!({ "entries": entries, "continuation_token": token })))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "RoleBindingRequest")]
#[serde(deny_unknown_fields)]
struct Binding {
    subject: String,
    role: String,
}

impl Binding {
    fn statement(&self, verb: &str, preposition: &str) -> Result<String> {
        let role = self.role.strip_prefix("r:").unwrap_or(&self.role);
        match subject(&self.subject)? {
            Subject::User(name) => {
                Ok(format!("{verb} ROLE {} {preposition} USER {}", Ident::new(role), Ident::new(name.as_str())))
            }
            _ => Err(RestError::unsupported("only users have roles")),
        }
    }
}

/// `POST /admin/authz/role_binding/add`
async fn bind(mut caller: Caller, Body(binding): Body<Binding>) -> Result<Response> {
    caller.run(&binding.statement("GRANT", "TO")?).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

/// `POST /admin/authz/role_binding/delete`
async fn unbind(mut caller: Caller, Body(binding): Body<Binding>) -> Result<Response> {
    caller.run(&binding.statement("REVOKE", "FROM")?).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

async fn all_bindings(caller: &mut Caller) -> Result<Vec<(UserName, RoleName)>> {
    caller.run("SHOW ROLES").await?;
    Ok(caller.engine().catalog().role_bindings().await.map_err(SqlError::from)?)
}

/// `POST /admin/authz/role_binding/list`
async fn bindings(mut caller: Caller, Body(asked): Body<List>) -> Result<Response> {
    let of = asked.subject.as_deref().map(subject).transpose()?;
    let role = asked.role.as_deref().map(|role| role.strip_prefix("r:").unwrap_or(role).to_owned());
    let mut found = all_bindings(&mut caller).await?;
    found.retain(|(user, bound)| {
        of.as_ref().is_none_or(|of| *of == Subject::User(user.clone()))
            && role.as_ref().is_none_or(|role| role == bound.as_str())
    });
    let key = |(user, role): &(UserName, RoleName)| format!("{user} {role}");
    let (keys, token) = page(found.iter().map(key).collect(), &asked.page());
    let told: Vec<Value> = keys
        .iter()
        .filter_map(|wanted| found.iter().find(|binding| key(binding) == *wanted))
        .map(|(user, role)| {
            json!({ "subject_id": format!("p:{user}"), "subject_name": user.as_str(), "role": format!("r:{role}") })
        })
        .collect();
    Ok(reply::json(StatusCode::OK, &json!({ "bindings": told, "continuation_token": token })))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "PrincipalRequest")]
#[serde(deny_unknown_fields)]
struct Who {
    principal: String,
}

/// `POST /admin/authz/principal`: a user and his roles.
async fn principal(mut caller: Caller, Body(who): Body<Who>) -> Result<Response> {
    let Subject::User(user) = subject(&who.principal)? else {
        return Err(RestError::invalid("a principal is p:<user> or P:<user>"));
    };
    let bindings = all_bindings(&mut caller).await?;
    if caller.engine().catalog().user(&user).await.map_err(SqlError::from)?.is_none() {
        return Err(no_object(format!("role \"{user}\" does not exist")));
    }
    let roles: Vec<String> =
        bindings.iter().filter(|(bound, _)| *bound == user).map(|(_, role)| format!("r:{role}")).collect();
    let body = json!({
        "principal_id": format!("p:{user}"), "principal_name": user.as_str(), "groups": [], "roles": roles,
    });
    Ok(reply::json(StatusCode::OK, &body))
}
