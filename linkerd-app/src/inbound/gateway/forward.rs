//! Requests that a gateway forwards.

use crate::inbound::gateway_name::GatewayName;
use crate::outbound::{ForwardedTarget, ForwardedTargets};
use futures::future::{LocalBoxFuture, ready};
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, Version,
    header::{FORWARDED, HOST},
};
use linkerd_profiles::Target;
use linkerd_proxy_core::{
    Error, Reason,
    http::{HttpRequest, ResponseBody},
    tls::Identity,
};
use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll},
};
use tower_service::Service;

/// The target that a gateway may forward to, and where it is found.
pub(super) type AllowedTarget = (ForwardedTargets, Target);

/// Forwards requests to the target of their connection, through the outbound side.
///
/// - **Waits for** discovery of the target, once for a connection.
/// - **Fails as** `GatewayNotAllowed`, `GatewayLoop`, `InvalidRequest` for an opaque target, and as the target's router.
pub(super) struct Forward(Rc<Forwarding>);

struct Forwarding {
    /// `None`: the name is not allowed.
    allowed: Option<AllowedTarget>,
    name: GatewayName,
    own: String,
    is_own_client: bool,
    /// The element that is appended to `forwarded`.
    forwarded: Option<HeaderValue>,
    /// The `Host` of HTTP/1 requests.
    host: Option<HeaderValue>,
    found: RefCell<Option<Rc<ForwardedTarget>>>,
}

impl Forward {
    /// Forwards to `name` if that is `allowed`. `own` is the identity of this proxy, `client` that of its client.
    pub(super) fn new(
        name: &GatewayName,
        allowed: Option<AllowedTarget>,
        own: Option<&Identity>,
        client: Option<&Identity>,
    ) -> Self {
        let host = match name.port {
            80 => name.name.to_string(),
            port => format!("{}:{port}", name.name),
        };
        let [by, of] = [own, client].map(|it| it.map(Identity::as_str).unwrap_or_default());
        let forwarded = format!("by={by};for={of};host={host};proto=https");
        Self(Rc::new(Forwarding {
            allowed,
            name: name.clone(),
            own: by.to_owned(),
            is_own_client: own.is_some() && own == client,
            forwarded: HeaderValue::try_from(forwarded).ok(),
            host: HeaderValue::try_from(host).ok(),
            found: RefCell::default(),
        }))
    }
}

impl Forwarding {
    /// Checks a request, and adds the headers for the next proxies and for the server.
    fn prepare(&self, request: &mut HttpRequest) -> Result<(), Error> {
        if self.allowed.is_none() {
            return Err(self.name.not_allowed());
        }
        if self.is_own_client || was_forwarded_by(request.headers(), &self.own) {
            let detail = format!(
                "a request for {} has come back to this gateway",
                self.name.name
            );
            return Err(Error::new(Reason::GatewayLoop).detail(detail));
        }
        let is_http1 = request.version() != Version::HTTP_2;
        let headers = request.headers_mut();
        if let Some(forwarded) = &self.forwarded {
            headers.append(FORWARDED, forwarded.clone());
        }
        if let Some(host) = self.host.as_ref().filter(|_| is_http1) {
            headers.insert(HOST, host.clone());
        }
        headers.remove(L5D_DST_OVERRIDE);
        Ok(())
    }

    async fn target(&self) -> Result<Rc<ForwardedTarget>, Error> {
        if let Some(found) = &*self.found.borrow() {
            return Ok(found.clone());
        }
        let (targets, target) = self
            .allowed
            .as_ref()
            .ok_or_else(|| self.name.not_allowed())?;
        let found = Rc::new(targets.get(target.clone()).await?);
        *self.found.borrow_mut() = Some(found.clone());
        Ok(found)
    }
}

impl Service<HttpRequest> for Forward {
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Response<ResponseBody>, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        if let Err(error) = self.0.prepare(&mut request) {
            return Box::pin(ready(Err(error)));
        }
        let forwarding = self.0.clone();
        Box::pin(async move {
            let mut router = forwarding.target().await?.router(request.version())?;
            router.call(request).await
        })
    }
}

/// Whether an element of `forwarded` (RFC 7239) says that this proxy has forwarded a request.
fn was_forwarded_by(headers: &HeaderMap, own: &str) -> bool {
    let values = headers.get_all(FORWARDED).into_iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let mut pairs = values
        .flat_map(|value| value.split([',', ';']))
        .filter_map(|pair| pair.split_once('='));
    pairs.any(|(key, value)| {
        key.trim().eq_ignore_ascii_case("by") && value.trim().trim_matches('"') == own
    })
}

/// Removed: the gateway's client has named the target by the transport header.
const L5D_DST_OVERRIDE: HeaderName = HeaderName::from_static("l5d-dst-override");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;

    fn forward(client: &str) -> Forward {
        let name = GatewayName {
            name: "web.other.test".into(),
            port: 8080,
        };
        let [own, client] = ["gateway.test", client].map(|name| name.parse::<Identity>().unwrap());
        Forward::new(&name, None, Some(&own), Some(&client))
    }

    #[tokio::test]
    async fn a_name_that_is_not_allowed_is_refused() {
        let refused = forward("web.test").call(request("")).await.err().unwrap();
        assert_eq!(refused.reason(), Reason::GatewayNotAllowed);
    }

    #[test]
    fn a_request_that_this_gateway_has_forwarded_is_recognised() {
        for (value, expected) in [
            ("by=gateway.test;for=a;proto=https", true),
            ("for=a; By=\"gateway.test\"", true),
            ("by=other.test;for=a, by=gateway.test", true),
            ("by=other.test;for=gateway.test", false),
            ("gateway.test", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.append(FORWARDED, HeaderValue::from_static("for=first"));
            headers.append(FORWARDED, HeaderValue::from_static(value));
            let found = was_forwarded_by(&headers, "gateway.test");
            assert_eq!(found, expected, "{value}");
        }
    }
}
