//! The REST API: what the published LanceDB clients and clients of the Lance
//! namespace specification send, answered through the same statements as SQL.
//!
//! A request is authenticated, becomes one statement, is planned and authorized by
//! the engine, and its result is written as JSON or as an Arrow stream. Nothing
//! here decides what a caller may do. Handlers of one family are in one file.
//!
//! - Paths are answered with and without a slash at their end. Where the remote
//!   protocol of LanceDB (with it) and the specification (without) differ, the
//!   slash says which client asks.
//! - An id is the components of a namespace and a name, joined by `$` or by what
//!   the parameter `delimiter` says; the delimiter alone is the root.
//! - Every route is registered with what its document says (`openapi.rs`), which is served
//!   at `/v1/openapi.json`.
//! - Errors are `{"error", "code", "detail", "instance"}` with the codes of the
//!   specification. What is wrong for good is 400 on routes of tables, because the
//!   clients send a 409 again and read every 404 as a missing table.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::handler::Handler;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use lancegate_engine::exec::Engine;
use schemars::SchemaGenerator;

use super::HttpShared;
use crate::audit::AuditLog;
use crate::pg::Identities;

mod answers;
mod authz;
mod batches;
mod caller;
mod columns;
mod error;
mod errors;
mod frames;
mod functions;
mod gpu;
mod indexes;
mod jobs;
mod lz4;
mod materialized;
mod names;
mod namespaces;
pub(super) mod openapi;
mod refresh;
mod request;
mod rows;
mod search;
mod secrets;
mod strict;
mod tables;
mod text;
mod versions;
mod views;
mod writes;

pub(crate) use batches::is_too_deep;
pub(crate) use caller::{BASIC, Door, authenticated, record};
pub(crate) use frames::{MESSAGE_BYTES_MAX, decompressed, too_long};
use openapi::{Doc, Operation, Registered, Signature};
pub(crate) use request::{REQUEST_ID, request_id};
pub(super) use request::{guard, limit_time};

/// What the API stands on once the gateway is ready.
#[derive(Debug)]
pub struct Front {
    /// Plans, authorizes and executes.
    pub engine: Engine,
    /// Who may log in.
    pub identities: Identities,
    /// What is recorded of logins.
    pub audit: Option<AuditLog>,
    /// The time of a statement of REST, none if it is zero.
    pub statement_timeout: Duration,
}

/// The version of the remote protocol whose features are answered.
const PROTOCOL: (&str, &str) = ("phalanx-version", "0.3.0");

/// Returns the routes that end within the time of a request.
pub(super) fn quick() -> Routes {
    let mut routes = Routes::default();
    namespaces::routes(&mut routes);
    tables::routes(&mut routes);
    versions::routes(&mut routes);
    refresh::routes(&mut routes);
    errors::routes(&mut routes);
    jobs::routes(&mut routes);
    functions::routes(&mut routes);
    secrets::routes(&mut routes);
    views::routes(&mut routes);
    materialized::routes(&mut routes);
    gpu::routes(&mut routes);
    authz::routes(&mut routes);
    routes
}

/// Returns the routes that read or change rows: they take as long as there are some, and one
/// that was given up in the middle might still take effect.
pub(super) fn long() -> Routes {
    let mut routes = Routes::default();
    writes::routes(&mut routes);
    tables::long_routes(&mut routes);
    columns::routes(&mut routes);
    search::routes(&mut routes);
    indexes::routes(&mut routes);
    routes
}

/// What the routes beside the API answer.
pub(super) fn beside() -> [Doc; 4] {
    [
        Doc::json::<answers::Alive>("Tells that the process answers."),
        Doc::json::<answers::Readiness>("Tells whether statements are answered.").with(&[200, 503]),
        Doc::text("Tells what the gateway counts."),
        Doc::json::<answers::Document>("Tells this document."),
    ]
}

/// Adds what every answer of the API carries.
pub(super) fn wrap(router: Router<Arc<HttpShared>>) -> Router<Arc<HttpShared>> {
    router.layer(middleware::map_response(|mut response: Response| async {
        let (name, value) = PROTOCOL;
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        response
    }))
}

/// Routes, with what the document says about them. Those of the API are answered with and
/// without a slash at their end.
#[derive(Default)]
pub(super) struct Routes {
    router: Router<Arc<HttpShared>>,
    registered: Vec<Registered>,
}

impl Routes {
    fn post<H, T>(&mut self, path: &str, handler: H, doc: Doc)
    where
        H: Handler<T, Arc<HttpShared>>,
        T: Signature + 'static,
    {
        self.add(("post", path, doc), T::describe, &post(handler), true);
    }

    fn get<H, T>(&mut self, path: &str, handler: H, doc: Doc)
    where
        H: Handler<T, Arc<HttpShared>>,
        T: Signature + 'static,
    {
        self.add(("get", path, doc), T::describe, &get(handler), true);
    }

    /// Adds a route that is not one of the API.
    pub(super) fn plain<H, T>(&mut self, path: &str, handler: H, doc: Doc)
    where
        H: Handler<T, Arc<HttpShared>>,
        T: Signature + 'static,
    {
        self.add(("get", path, doc), T::describe, &get(handler), false);
    }

    fn add(
        &mut self,
        (method, path, doc): (&'static str, &str, Doc),
        describe: fn(&mut Operation, &mut SchemaGenerator),
        handler: &MethodRouter<Arc<HttpShared>>,
        slash: bool,
    ) {
        let mut router = std::mem::take(&mut self.router).route(path, handler.clone());
        if slash {
            router = router.route(&format!("{path}/"), handler.clone());
        }
        self.router = router;
        self.registered.push(Registered { method, path: path.to_owned(), doc, describe });
    }

    /// Returns what answers, and what was registered.
    pub(super) fn into_parts(self) -> (Router<Arc<HttpShared>>, Vec<Registered>) {
        (self.router, self.registered)
    }
}
