//! Stage 2 of ingress mode: requests that name their targets by `l5d-dst-override`, for ingress controllers that send to
//! endpoints which they have chosen themselves.
//!
//! - **Waits for** the control plane's first answer.
//! - **Fails as** `InvalidRequest`, and as the target's router. With the incumbent such errors close the connection.

use super::{
    context::Context,
    explicit::{as_server_expects, refuse_https},
    request_targets::{RequestTargets, TargetName},
    target::Targets,
};
use futures::future::{LocalBoxFuture, ready};
use http::{HeaderName, Method, Response, Version, uri::Authority};
use linkerd_profiles::Target;
use linkerd_proxy_core::{
    Error, Reason,
    http::{HttpRequest, ResponseBody, authority, host_and_port},
};
use std::{
    net::{IpAddr, SocketAddr},
    rc::Rc,
    task::{Context as TaskContext, Poll},
};
use tower_service::Service;

/// Gives each request to the router of the target that its header names, or of where its connection was going.
pub struct ByOverride {
    targets: Rc<RequestTargets<OverrideTarget>>,
    original: Option<SocketAddr>,
}

/// The target of a request to an ingress.
#[derive(Debug, PartialEq)]
enum OverrideTarget {
    /// That of its header.
    Named(Authority),
    /// Where its connection was going.
    Original(SocketAddr),
}

impl ByOverride {
    /// Routes the requests of a client that speaks `version`, whose connection was going to `original`. One that was not
    /// redirected was going to the authority of each request.
    pub fn new(
        ctx: &Rc<Context>,
        targets: &Rc<Targets>,
        version: Version,
        original: Option<SocketAddr>,
    ) -> Self {
        Self {
            targets: RequestTargets::new(ctx, targets, version),
            original,
        }
    }
}

impl Service<HttpRequest> for ByOverride {
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Response<ResponseBody>, Error>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        match self.target(&mut request) {
            Ok(target) => {
                if self.original.is_none() {
                    as_server_expects(&mut request);
                }
                self.targets.call(target, request)
            }
            Err(error) => Box::pin(ready(Err(error))),
        }
    }
}

impl ByOverride {
    fn target(&self, request: &mut HttpRequest) -> Result<OverrideTarget, Error> {
        if self.original.is_none() {
            refuse_https(request)?;
            if request.method() == Method::CONNECT {
                let detail = "CONNECT is not served in ingress mode";
                return Err(Error::new(Reason::InvalidRequest).detail(detail));
            }
        }
        let named = match take_override(request)? {
            Some(named) => Some(named),
            None if self.original.is_none() => authority(request),
            None => None,
        };
        match (named, self.original) {
            (Some(named), _) => Ok(OverrideTarget::Named(named)),
            (None, Some(original)) => Ok(OverrideTarget::Original(original)),
            (None, None) => Err(Reason::NoAuthority.into()),
        }
    }
}

/// Removes the header and reads it. One that is not an authority is as if it were not there.
fn take_override(request: &mut HttpRequest) -> Result<Option<Authority>, Error> {
    let Some(value) = request.headers_mut().remove(DST_OVERRIDE) else {
        return Ok(None);
    };
    let Ok(authority) = Authority::try_from(value.as_bytes()) else {
        return Ok(None);
    };
    let (host, _) = host_and_port(&authority, DEFAULT_PORT);
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    if is_address {
        let detail =
            format!("l5d-dst-override must name a service, and not an address: {authority}");
        return Err(Error::new(Reason::InvalidRequest).detail(detail));
    }
    Ok(Some(authority))
}

impl TargetName for OverrideTarget {
    fn target(&self) -> Result<Target, Error> {
        match self {
            Self::Original(addr) => Ok((*addr).into()),
            Self::Named(authority) => {
                let (host, port) = host_and_port(authority, DEFAULT_PORT);
                Target::new(&host, port).map_err(|_| {
                    // What is before the host may be a secret.
                    let named = authority.host();
                    let detail = format!("l5d-dst-override names no host and port: {named}");
                    Error::new(Reason::InvalidRequest).detail(detail)
                })
            }
        }
    }

    fn detached(&self) -> Self {
        match self {
            Self::Named(authority) => Self::Named(authority.detached()),
            Self::Original(addr) => Self::Original(*addr),
        }
    }

    fn refuse_opaque() -> &'static str {
        "its policy is not for HTTP requests"
    }
}

/// Names the target of a request; consumed here.
const DST_OVERRIDE: HeaderName = HeaderName::from_static("l5d-dst-override");

const DEFAULT_PORT: u16 = 80;
