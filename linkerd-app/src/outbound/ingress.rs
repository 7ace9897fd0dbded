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
use crate::dst_override::{override_target, take_override};
use futures::future::{LocalBoxFuture, ready};
use http::{Method, Response, Version, uri::Authority};
use linkerd_profiles::Target;
use linkerd_proxy_core::{
    Error, Reason,
    http::{HttpRequest, ResponseBody, authority},
};
use std::{
    net::SocketAddr,
    rc::Rc,
    task::{Context as TaskContext, Poll},
};
use tower_service::Service;

/// Routes each request to the target of its override header, or to the original destination of its connection.
pub struct ByOverride {
    targets: Rc<RequestTargets<OverrideTarget>>,
    original: Option<SocketAddr>,
}

/// The target of a request to an ingress.
#[derive(Debug, PartialEq)]
enum OverrideTarget {
    /// The target of its header.
    Named(Authority),
    /// The original destination of its connection.
    Original(SocketAddr),
}

impl ByOverride {
    /// Routes the requests of a client that speaks `version`, whose connection was going to `original`. Without it (the
    /// connection was not redirected), the authority of a request names its target.
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
        let named = match take_override(request.headers_mut())? {
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

impl TargetName for OverrideTarget {
    fn target(&self) -> Result<Target, Error> {
        match self {
            Self::Original(addr) => Ok((*addr).into()),
            Self::Named(authority) => override_target(authority),
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
