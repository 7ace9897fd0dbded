//! Stage 3 to 4 of the explicit proxy: requests that name their targets.
//!
//! - **Waits for** the control plane's first answer.
//! - **Fails as** `NoAuthority`, `InvalidRequest`, and as the target's router.

use super::{
    HttpRouter,
    context::Context,
    target::{TargetStack, Targets},
};
use futures::future::{LocalBoxFuture, ready};
use http::{
    Method, Response, Version,
    uri::{Authority, Scheme},
};
use hyper::upgrade::OnUpgrade;
use linkerd_profiles::{ProtocolKind, Target};
use linkerd_proxy_core::{
    Error, Reason,
    http::{HttpRequest, ResponseBody, authority, host_and_port, host_from_target, to_origin_form},
};
use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context as TaskContext, Poll},
};
use tokio::time::Instant;
use tower_service::Service;

/// Gives each request of a connection to the router of the target that it names.
pub struct ByAuthority<T>(Rc<ExplicitConnection<T>>);

struct ExplicitConnection<T> {
    ctx: Rc<Context>,
    targets: Rc<Targets>,
    version: Version,
    open_tunnel: T,
    /// The target of the last request, as most connections ask for one only.
    last: RefCell<Option<LastTarget>>,
}

struct LastTarget {
    authority: Authority,
    router: HttpRouter,
    _in_use: Rc<TargetStack>,
}

impl<T> ByAuthority<T> {
    /// Routes the requests of a client that speaks `version`. `open_tunnel` serves a tunnel to a target.
    pub fn new(ctx: &Rc<Context>, targets: &Rc<Targets>, version: Version, open_tunnel: T) -> Self {
        Self(Rc::new(ExplicitConnection {
            ctx: ctx.clone(),
            targets: targets.clone(),
            version,
            open_tunnel,
            last: RefCell::default(),
        }))
    }
}

impl<T: Fn(Rc<TargetStack>, OnUpgrade) + 'static> Service<HttpRequest> for ByAuthority<T> {
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Response<ResponseBody>, Error>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Error>> {
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

impl<T: Fn(Rc<TargetStack>, OnUpgrade)> ExplicitConnection<T> {
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
        let stack = self.target(&authority).await?;
        refuse_opaque(&stack)?;
        let router = stack.router(&self.ctx, self.version);
        *self.last.borrow_mut() = Some(LastTarget {
            authority: detached(&authority),
            router: router.clone(),
            _in_use: stack,
        });
        request.context_mut().arrived = Instant::now();
        forward(router, request).await
    }

    async fn target(&self, authority: &Authority) -> Result<Rc<TargetStack>, Error> {
        self.targets.get(&self.ctx, target_of(authority)?).await
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
        let stack = self.target(&authority).await?;
        let upgrade = hyper::upgrade::on(&mut *request);
        (self.open_tunnel)(stack, upgrade);
        Ok(Response::new(ResponseBody::empty()))
    }
}

/// Sends a request in the form that a server expects.
fn forward(
    mut router: HttpRouter,
    mut request: HttpRequest,
) -> LocalBoxFuture<'static, Result<Response<ResponseBody>, Error>> {
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
