//! Stage 5: a backend as it is reached, by whichever routes use it.
//!
//! It survives updates that still use it, with its endpoints, their connections and what was measured of them.

use super::{
    balance::{self, Target},
    context::Context,
    endpoint::{EndpointService, HttpRequest, NewEndpoint, OnlyEndpoint},
};
use crate::{
    exchange::send_to_only,
    metrics::{StackFamilies, backend_labels},
};
use futures::future::{LocalBoxFuture, ready};
use http::{Response, Version};
use linkerd_balance::{Balance, Sending};
use linkerd_profiles::{Backend, Dispatcher, Meta, PeakEwma};
use linkerd_proxy_core::{
    Error, NewService, Reason, Unavailable,
    http::ResponseBody,
    metrics::{Counter, Labels},
};
use pin_project_lite::pin_project;
use std::{
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context as TaskContext, Poll, ready as or_pending},
};
use tokio::time::Instant;

/// A backend as it is reached, whoever uses it.
pub struct Concrete {
    kind: Kind,
    /// How errors name it.
    name: String,
    _alive: Alive,
}

enum Kind {
    Balance(Balance<SocketAddr, EndpointService>),
    /// One endpoint, asked directly: what it refuses fails at once.
    Forward(SocketAddr, OnlyEndpoint),
    Fail(String),
}

/// What a concrete backend is made for.
#[derive(Clone, Debug)]
pub struct ConcreteKey {
    /// The resource that the traffic was meant for.
    pub parent: Arc<Meta>,
    /// The backend.
    pub backend: Backend,
    /// The version that the application speaks.
    pub version: Version,
}

impl PartialEq for ConcreteKey {
    fn eq(&self, other: &Self) -> bool {
        self.parent == other.parent
            && self.version == other.version
            && self.backend == other.backend
    }
}

impl Concrete {
    /// Makes the backend. One that cannot be made fails its requests and nothing else.
    pub fn new(ctx: &Rc<Context>, key: &ConcreteKey) -> Self {
        let (kind, name, protocol) = match &key.backend.dispatcher {
            Dispatcher::Balance { destination, load } => {
                let authority = destination.authority();
                let new_endpoint = NewEndpoint::new(ctx, key.version, Some(authority));
                let target = Target {
                    load: *load,
                    queue: ctx.config.outbound.http_queue,
                    families: &ctx.families.outbound.http_balancer,
                    labels: backend_labels(&key.parent, &key.backend.meta).into(),
                };
                let kind = match balance::new_balance(ctx, destination, target, new_endpoint) {
                    Ok(balance) => Kind::Balance(balance),
                    Err(error) => Kind::Fail(error.to_string()),
                };
                (kind, destination.to_string(), "balance")
            }
            Dispatcher::Forward(endpoint) => {
                let name = endpoint.addr.to_string();
                (forward(ctx, key, endpoint), name, "forward")
            }
            Dispatcher::Fail(message) => (Kind::Fail(message.clone()), String::new(), "fail"),
        };
        let labels = Labels::new()
            .with("direction", "outbound")
            .with("protocol", "http")
            .with("name", protocol);
        Self {
            kind,
            name,
            _alive: Alive::new(&ctx.families.stack, labels),
        }
    }

    /// Why a request would be refused now, if it would.
    pub fn unavailable(&self) -> Option<Unavailable> {
        match &self.kind {
            Kind::Balance(balance) => balance.unavailable(),
            Kind::Forward(..) | Kind::Fail(_) => None,
        }
    }

    /// The backend's state, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        match &self.kind {
            Kind::Balance(balance) => serde_json::json!({
                "destination": self.name, "balancer": balance.inspect(),
            }),
            Kind::Forward(addr, service) => {
                use linkerd_proxy_core::Availability;
                serde_json::json!({
                    "forward": addr.to_string(),
                    "state": service.state().name(),
                    "connections": service.inspect(),
                })
            }
            Kind::Fail(message) => serde_json::json!({ "fails": message }),
        }
    }

    /// Sends a request. An endpoint that is ready has it when this returns.
    pub fn send(self: &Rc<Self>, request: HttpRequest, now: Instant) -> ConcreteFuture {
        let sent = match &self.kind {
            Kind::Balance(balance) => Sent::Balance {
                sending: balance.send(request, now),
            },
            Kind::Forward(_, service) => Sent::Other {
                response: Box::pin(send_to_only(service.clone(), request)),
            },
            Kind::Fail(message) => {
                let error = Error::new(Reason::InvalidBackend).detail(message.clone());
                Sent::Other {
                    response: Box::pin(ready(Err(error))),
                }
            }
        };
        ConcreteFuture {
            sent,
            concrete: self.clone(),
        }
    }

    fn in_context(&self, error: Error) -> Error {
        let error = match error.peer_addr() {
            Some(peer) => error.context(format!("endpoint {peer}")),
            None => error,
        };
        error.context(self.name.clone())
    }
}

/// HTTP/1 is dialled for each request, so that a refusal is told at once. HTTP/2 must have a connection first: the
/// request waits for it as it would at a balancer.
fn forward(
    ctx: &Rc<Context>,
    key: &ConcreteKey,
    endpoint: &Arc<linkerd_profiles::Endpoint>,
) -> Kind {
    let new_endpoint = NewEndpoint::new(ctx, key.version, None);
    if !new_endpoint.speaks_http2(endpoint) {
        return Kind::Forward(endpoint.addr, new_endpoint.only(endpoint));
    }
    let service = new_endpoint.new_service(endpoint.clone());
    let target = Target {
        load: PeakEwma::default(),
        queue: ctx.config.outbound.http_queue,
        families: &ctx.families.outbound.http_balancer,
        labels: backend_labels(&key.parent, &key.backend.meta).into(),
    };
    Kind::Balance(balance::new_static(ctx, endpoint.addr, service, target))
}

pin_project! {
    /// The future of [`Concrete::send`].
    pub struct ConcreteFuture {
        #[pin]
        sent: Sent,
        concrete: Rc<Concrete>,
    }
}

pin_project! {
    #[project = SentProj]
    enum Sent {
        Balance {
            #[pin]
            sending: Sending<SocketAddr, EndpointService, HttpRequest>,
        },
        Other {
            response: LocalBoxFuture<'static, Result<Response<ResponseBody>, Error>>,
        },
    }
}

impl Future for ConcreteFuture {
    type Output = Result<Response<ResponseBody>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let sent = match this.sent.project() {
            SentProj::Balance { sending } => or_pending!(sending.poll(cx)).map(|sent| {
                let mut response = sent.response;
                sent.load.until_first_frame(response.body_mut());
                response
            }),
            SentProj::Other { response } => or_pending!(response.as_mut().poll(cx)),
        };
        Poll::Ready(sent.map_err(|error| this.concrete.in_context(error)))
    }
}

/// Counts a stack as built, and as dropped when it is.
#[derive(Debug)]
pub struct Alive(Counter);

impl Alive {
    /// Counts a stack with these labels.
    pub fn new(families: &StackFamilies, labels: Labels) -> Self {
        families.created.get(labels.clone()).incr();
        Self(families.dropped.get(labels))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.incr();
    }
}
