//! Stage 3 to 4 of the explicit proxy: requests that name their targets.
//!
//! - **Waits for** the control plane's first answer.
//! - **Fails as** `NoAuthority`, `InvalidRequest`, and as the target's router.

use super::{HttpRouter, Outbound, target::TargetStack, tunnel};
use futures::future::{LocalBoxFuture, ready};
use http::{
    Method, Response, Version,
    uri::{Authority, Scheme},
};
use linkerd_profiles::{ProtocolKind, Target};
use linkerd_proxy_core::{
    Error, Reason,
    http::{HttpRequest, ResponseBody, authority, host_and_port, host_from_target, to_origin_form},
    transport::ClientInfo,
};
use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll},
};
use tokio::time::Instant;
use tower_service::Service;

/// Gives each request of a connection to the router of the target that it names.
pub struct ByAuthority(Rc<ExplicitConnection>);

struct ExplicitConnection {
    outbound: Rc<Outbound>,
    client: Rc<ClientInfo>,
    version: Version,
    /// The target of the last request, as most connections ask for one only.
    last: RefCell<Option<LastTarget>>,
}

struct LastTarget {
    authority: Authority,
    router: HttpRouter,
    _in_use: Rc<TargetStack>,
}

impl ByAuthority {
    /// Routes the requests of `client`, which speaks `version`.
    pub fn new(outbound: &Rc<Outbound>, client: Rc<ClientInfo>, version: Version) -> Self {
        Self(Rc::new(ExplicitConnection {
            outbound: outbound.clone(),
            client,
            version,
            last: RefCell::default(),
        }))
    }
}

impl Service<HttpRequest> for ByAuthority {
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Response<ResponseBody>, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest) -> Self::Future {
        if request.method() == Method::CONNECT {
            return Box::pin(self.0.clone().connect(request));
        }
        let authority = match named(&request) {
            Ok(authority) => authority,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        match self.0.last(&authority) {
            Some(router) => forward(router, request),
            None => Box::pin(self.0.clone().discover(authority, request)),
        }
    }
}

impl ExplicitConnection {
    /// The router of the last request, if this one has the same target.
    fn last(&self, authority: &Authority) -> Option<HttpRouter> {
        let last = self.last.borrow();
        let last = last.as_ref().filter(|last| last.authority == *authority)?;
        Some(last.router.clone())
    }

    /// Finds the target that a request names, and sends it.
    async fn discover(
        self: Rc<Self>,
        authority: Authority,
        mut request: HttpRequest,
    ) -> Result<Response<ResponseBody>, Error> {
        let stack = self.outbound.target(target_of(&authority)?).await?;
        refuse_opaque(&stack)?;
        let router = stack.router(&self.outbound, self.version);
        *self.last.borrow_mut() = Some(LastTarget {
            authority: detached(&authority),
            router: router.clone(),
            _in_use: stack,
        });
        request.context_mut().arrived = Instant::now();
        forward(router, request).await
    }

    /// Opens a tunnel: what comes through it is treated as a connection to the target.
    async fn connect(
        self: Rc<Self>,
        mut request: HttpRequest,
    ) -> Result<Response<ResponseBody>, Error> {
        if self.version == Version::HTTP_2 {
            let detail = "CONNECT over HTTP/2 is not served; use HTTP/1.1";
            return Err(Error::new(Reason::InvalidRequest).detail(detail));
        }
        let authority = authority(&request).ok_or_else(|| Error::new(Reason::NoAuthority))?;
        // Whether there is such a target is told before the tunnel opens.
        let stack = self.outbound.target(target_of(&authority)?).await?;
        let upgrade = hyper::upgrade::on(&mut *request);
        tunnel::spawn(self.outbound.clone(), self.client.clone(), stack, upgrade);
        Ok(Response::new(ResponseBody::empty()))
    }
}

/// Sends a request in the form that a server expects.
fn forward(
    mut router: HttpRouter,
    mut request: HttpRequest,
) -> <ByAuthority as Service<HttpRequest>>::Future {
    as_server_expects(&mut request);
    router.call(request)
}

/// The authority of a request that may be forwarded.
fn named(request: &HttpRequest) -> Result<Authority, Error> {
    refuse_https(request)?;
    authority(request).ok_or_else(|| Error::new(Reason::NoAuthority))
}

/// Refuses a target that asks for TLS: the proxy does not speak it for the client, and must not leave it out either.
fn refuse_https(request: &HttpRequest) -> Result<(), Error> {
    if request.uri().scheme() != Some(&Scheme::HTTPS) {
        return Ok(());
    }
    let detail =
        "https targets are not fetched in cleartext; use CONNECT, and speak TLS through the tunnel";
    Err(Error::new(Reason::InvalidRequest).detail(detail))
}

/// Refuses a request by name to a service that takes connections and no requests.
fn refuse_opaque(stack: &TargetStack) -> Result<(), Error> {
    match stack.discovered().protocol() {
        ProtocolKind::Opaque | ProtocolKind::Tls => {
            let detail = format!(
                "{} is opaque: open a tunnel to it by CONNECT",
                stack.target()
            );
            Err(Error::new(Reason::InvalidRequest).detail(detail))
        }
        ProtocolKind::Http1 | ProtocolKind::Http2 | ProtocolKind::Detect { .. } => Ok(()),
    }
}

/// A copy that does not hold on to the buffer that the request was read into.
fn detached(authority: &Authority) -> Authority {
    Authority::try_from(authority.as_str()).unwrap_or_else(|_| authority.clone())
}

fn target_of(authority: &Authority) -> Result<Target, Error> {
    let (host, port) = host_and_port(authority, 80);
    Target::new(&host, port).map_err(|_| {
        // What is before the @ may be a secret.
        let named = authority.as_str().rsplit('@').next().unwrap_or_default();
        let detail = format!("the authority {named:?} names no host and port");
        Error::new(Reason::InvalidRequest).detail(detail)
    })
}

/// A request to an explicit proxy names its target in full; the server expects a path and a `Host` (RFC 9112, 3.2.2).
fn as_server_expects(request: &mut HttpRequest) {
    if request.version() == Version::HTTP_2 {
        return;
    }
    if request.uri().scheme().is_some() {
        host_from_target(request);
        to_origin_form(request.uri_mut());
    }
}
