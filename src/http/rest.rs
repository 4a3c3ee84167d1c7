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
//! - Errors are `{"error", "code", "detail", "instance"}` with the codes of the
//!   specification. What is wrong for good is 400 on routes of tables, because the
//!   clients send a 409 again and read every 404 as a missing table.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use lancegate_engine::exec::Engine;

use super::HttpShared;
use crate::audit::AuditLog;
use crate::pg::Identities;

mod authz;
mod batches;
mod caller;
mod columns;
mod error;
mod errors;
mod functions;
mod gpu;
mod indexes;
mod jobs;
mod materialized;
mod names;
mod namespaces;
mod refresh;
mod request;
mod rows;
mod search;
mod secrets;
mod tables;
mod text;
mod versions;
mod views;
mod writes;

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
}

/// The version of the remote protocol whose features are answered.
const PROTOCOL: (&str, &str) = ("phalanx-version", "0.3.0");

/// Returns the routes that end within the time of a request.
pub(super) fn quick() -> Router<Arc<HttpShared>> {
    let mut routes = Routes::default();
    namespaces::routes(&mut routes);
    tables::routes(&mut routes);
    columns::routes(&mut routes);
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
    routes.0
}

/// Returns the routes that move rows: they take as long as the rows move.
pub(super) fn long() -> Router<Arc<HttpShared>> {
    let mut routes = Routes::default();
    writes::routes(&mut routes);
    search::routes(&mut routes);
    indexes::routes(&mut routes);
    routes.0
}

/// Adds what every answer of the API carries.
pub(super) fn wrap(router: Router<Arc<HttpShared>>) -> Router<Arc<HttpShared>> {
    router.layer(middleware::map_response(|mut response: Response| async {
        let (name, value) = PROTOCOL;
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        response
    }))
}

/// Routes, each with and without a slash at its end.
#[derive(Default)]
struct Routes(Router<Arc<HttpShared>>);

impl Routes {
    fn post<H, T>(&mut self, path: &str, handler: H)
    where
        H: axum::handler::Handler<T, Arc<HttpShared>>,
        T: 'static,
    {
        self.add(path, post(handler));
    }

    fn get<H, T>(&mut self, path: &str, handler: H)
    where
        H: axum::handler::Handler<T, Arc<HttpShared>>,
        T: 'static,
    {
        self.add(path, get(handler));
    }

    fn add(&mut self, path: &str, handler: MethodRouter<Arc<HttpShared>>) {
        let router = std::mem::take(&mut self.0);
        self.0 = router.route(path, handler.clone()).route(&format!("{path}/"), handler);
    }
}
