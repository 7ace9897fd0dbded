//! Stage 3 to 4 of the explicit proxy: requests that name their targets.
//!
//! - **Waits for** the control plane's first answer.
//! - **Fails as** `NoAuthority`, `InvalidRequest`, and as the target's router.

use super::{
    context::Context,
    request_targets::{RequestTargets, TargetName},
    target::{TargetStack, Targets},
};
use futures::future::{LocalBoxFuture, ready};
use http::{
    Method, Response, Version,
    uri::{Authority, Scheme},
};
use hyper::upgrade::OnUpgrade;
use linkerd_profiles::Target;
use linkerd_proxy_core::{
    Error, Reason,
    http::{HttpRequest, ResponseBody, authority, host_and_port, host_from_target, to_origin_form},
};
use std::{
    rc::Rc,
    task::{Context as TaskContext, Poll},
};
use tower_service::Service;

/// Routes each request of a connection by the target that the request names.
pub struct ByAuthority<T> {
    targets: Rc<RequestTargets<Authority>>,
    open_tunnel: Rc<T>,
}

impl<T> ByAuthority<T> {
    /// Routes the requests of a client that speaks `version`. `open_tunnel` serves a tunnel to a target.
    pub fn new(ctx: &Rc<Context>, targets: &Rc<Targets>, version: Version, open_tunnel: T) -> Self {
        Self {
            targets: RequestTargets::new(ctx, targets, version),
            open_tunnel: Rc::new(open_tunnel),
        }
    }
}

impl<T: Fn(Rc<TargetStack>, OnUpgrade) + 'static> Service<HttpRequest> for ByAuthority<T> {
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Response<ResponseBody>, Error>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        if request.method() == Method::CONNECT {
            let (targets, open_tunnel) = (self.targets.clone(), self.open_tunnel.clone());
            return Box::pin(connect(targets, open_tunnel, request));
        }
        match named(&request) {
            Ok(authority) => {
                as_server_expects(&mut request);
                self.targets.call(authority, request)
            }
            Err(error) => Box::pin(ready(Err(error))),
        }
    }
}

/// Opens a tunnel, which is served as a connection to the target.
async fn connect<T: Fn(Rc<TargetStack>, OnUpgrade)>(
    targets: Rc<RequestTargets<Authority>>,
    open_tunnel: Rc<T>,
    mut request: HttpRequest,
) -> Result<Response<ResponseBody>, Error> {
    if targets.version() == Version::HTTP_2 {
        let detail = "CONNECT over HTTP/2 is not served; use HTTP/1.1";
        return Err(Error::new(Reason::InvalidRequest).detail(detail));
    }
    let authority = authority(&request).ok_or_else(|| Error::new(Reason::NoAuthority))?;
    // Discovery comes first, so that its failure is answered before the tunnel opens.
    let stack = targets.stack(&authority).await?;
    let upgrade = hyper::upgrade::on(&mut *request);
    open_tunnel(stack, upgrade);
    Ok(Response::new(ResponseBody::empty()))
}

impl TargetName for Authority {
    fn target(&self) -> Result<Target, Error> {
        target_of(self)
    }

    fn detached(&self) -> Self {
        Self::try_from(self.as_str()).unwrap_or_else(|_| self.clone())
    }

    fn refuse_opaque() -> &'static str {
        "open a tunnel to it by CONNECT"
    }
}

/// The authority of a request that may be forwarded.
fn named(request: &HttpRequest) -> Result<Authority, Error> {
    refuse_https(request)?;
    authority(request).ok_or_else(|| Error::new(Reason::NoAuthority))
}

/// Refuses an `https` target: the proxy does not speak TLS for the client, and must not send in cleartext either.
pub(super) fn refuse_https(request: &HttpRequest) -> Result<(), Error> {
    if request.uri().scheme() != Some(&Scheme::HTTPS) {
        return Ok(());
    }
    let detail =
        "https targets are not fetched in cleartext; use CONNECT, and speak TLS through the tunnel";
    Err(Error::new(Reason::InvalidRequest).detail(detail))
}

fn target_of(authority: &Authority) -> Result<Target, Error> {
    let (host, port) = host_and_port(authority, 80);
    Target::new(&host, port).map_err(|_| {
        // User information before the @ may be a secret.
        let named = authority.as_str().rsplit('@').next().unwrap_or_default();
        let detail = format!("the authority {named:?} names no host and port");
        Error::new(Reason::InvalidRequest).detail(detail)
    })
}

/// A request to an explicit proxy names its target in full; the server expects a path and a `Host` (RFC 9112, 3.2.2).
pub(super) fn as_server_expects(request: &mut HttpRequest) {
    if request.version() == Version::HTTP_2 {
        return;
    }
    if request.uri().scheme().is_some() {
        host_from_target(request);
        to_origin_form(request.uri_mut());
    }
}
