//! What every call goes through before anything of its body is read: its id, the proof
//! of who sends it, and what becomes of a panic.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_flight::flight_service_server::FlightServiceServer;
use axum::http::{HeaderValue, Request, Response};
use futures::FutureExt as _;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service as TowerService;
use tracing::Instrument as _;

use super::FlightShared;
use super::caller::authenticate;
use super::error::{Result, internal};
use super::listener::Peer;
use super::service::Service;
use crate::http::rest::{Door, REQUEST_ID, request_id};

/// The service behind its guard.
#[derive(Debug, Clone)]
pub(super) struct Guarded {
    inner: FlightServiceServer<Service>,
    shared: Arc<FlightShared>,
}

impl Guarded {
    pub(super) fn new(inner: FlightServiceServer<Service>, shared: Arc<FlightShared>) -> Self {
        Self { inner, shared }
    }
}

impl TowerService<Request<Body>> for Guarded {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, ctx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        TowerService::<Request<Body>>::poll_ready(&mut self.inner, ctx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (mut inner, shared) = (self.inner.clone(), Arc::clone(&self.shared));
        let id = request_id(request.headers());
        let span = tracing::info_span!("call", id, path = request.uri().path());
        let answer = async move {
            match admit(&shared, &mut request).await {
                Ok(()) => inner.call(request).await.unwrap_or_else(|never| match never {}),
                Err(refused) => refused.into_http(),
            }
        };
        let answer = async move {
            let answered = AssertUnwindSafe(answer).catch_unwind().await;
            let mut response = answered.unwrap_or_else(|_| internal("a call panicked").into_http());
            if let Ok(value) = HeaderValue::from_str(&id) {
                response.headers_mut().insert(REQUEST_ID, value);
            }
            Ok(response)
        };
        Box::pin(answer.instrument(span))
    }
}

async fn admit(shared: &FlightShared, request: &mut Request<Body>) -> Result<()> {
    let peer = request.extensions().get::<Peer>().cloned();
    let peer = peer.ok_or_else(|| Status::internal("the address of a client is unknown"))?;
    let door = Door { over: "flight", address: peer.address, tls: peer.tls };
    let who = authenticate(shared, request.headers(), door).await?;
    peer.has_authenticated();
    request.extensions_mut().insert(who);
    Ok(())
}
