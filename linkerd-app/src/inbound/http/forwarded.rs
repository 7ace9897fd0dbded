//! The headers with the address of the client, for the application: `forwarded` (RFC 7239), `x-forwarded-for`.

use crate::{
    config::ForwardedHeader,
    server::{remove_claims, remove_other_spellings, remove_spellings},
};
use http::{HeaderMap, HeaderName, HeaderValue, header::FORWARDED};
use linkerd_proxy_core::{http::HttpRequest, transport::ClientInfo};
use std::{
    net::IpAddr,
    rc::Rc,
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Adds the address of the client to `forwarded` or `x-forwarded-for`.
///
/// A client with an identity of the mesh may forward for others: its address is appended to its fields. Any other client could
/// claim to be anyone: both fields are removed, whichever is set. Both are removed from the trailers of all clients: a server
/// that reads trailers as more headers would find them after the address that the proxy added.
///
/// - **Sits** beside the layer for the client's identity.
/// - **Fails as**, **waits for**: the stage below.
#[derive(Clone, Debug)]
pub struct ForwardedLayer(
    /// Shared, so that each connection has room for a pointer only.
    Rc<ForwardedRules>,
);

/// The fields of one client, for its requests in and outside of tunnels.
#[derive(Debug)]
pub struct ForwardedRules {
    /// The element of each field that is set.
    fields: [(HeaderName, Option<HeaderValue>); 2],
    is_trusted: bool,
}

/// See [`ForwardedLayer`].
#[derive(Clone, Debug)]
pub struct Forwarded<S> {
    inner: S,
    rules: Rc<ForwardedRules>,
}

impl ForwardedLayer {
    /// A layer for the requests of a client; `None` if no field is to be set.
    pub fn new(set: ForwardedHeader, client: &ClientInfo) -> Option<Self> {
        ForwardedRules::new(set, client).map(|rules| Self(Rc::new(rules)))
    }
}

impl ForwardedRules {
    /// The fields of a client; `None` if no field is to be set.
    pub fn new(set: ForwardedHeader, client: &ClientInfo) -> Option<Self> {
        let (forwarded, x_forwarded_for) = match set {
            ForwardedHeader::Off => return None,
            ForwardedHeader::Forwarded => (true, false),
            ForwardedHeader::XForwardedFor => (false, true),
            ForwardedHeader::Both => (true, true),
        };
        let ip = client.addr.ip().to_canonical();
        let element = match ip {
            IpAddr::V4(ip) => format!("for={ip}"),
            IpAddr::V6(ip) => format!("for=\"[{ip}]\""),
        };
        let value = |is_set: bool, text| {
            let value = is_set.then(|| HeaderValue::try_from(text));
            value.and_then(Result::ok)
        };
        Some(Self {
            fields: [
                (FORWARDED, value(forwarded, element)),
                (X_FORWARDED_FOR, value(x_forwarded_for, ip.to_string())),
            ],
            is_trusted: client.tls.identity().is_some(),
        })
    }

    /// Sets the fields in the head of a request, and removes them from its trailers.
    pub fn apply(&self, request: &mut HttpRequest) {
        self.apply_to_head(request.headers_mut());
        request.body_mut().scrub_trailers(remove_all_claims);
    }

    fn apply_to_head(&self, headers: &mut HeaderMap) {
        for (name, own) in &self.fields {
            match self.is_trusted {
                true => remove_other_spellings(headers, name),
                false => remove_spellings(headers, name),
            }
            if let Some(own) = own {
                let joined = joined(headers, name, own);
                headers.insert(name, joined.unwrap_or_else(|| own.clone()));
            }
        }
    }
}

/// Removes from trailers the fields that only proxies may set, and the fields for addresses.
fn remove_all_claims(trailers: &mut HeaderMap) {
    remove_claims(trailers);
    remove_spellings(trailers, &FORWARDED);
    remove_spellings(trailers, &X_FORWARDED_FOR);
}

/// The present elements and the own one, in one line: some servers do not read more lines.
fn joined(headers: &HeaderMap, name: &HeaderName, own: &HeaderValue) -> Option<HeaderValue> {
    let mut all = Vec::new();
    for value in headers.get_all(name) {
        all.extend_from_slice(value.as_bytes());
        all.extend_from_slice(b", ");
    }
    if all.is_empty() {
        return None;
    }
    all.extend_from_slice(own.as_bytes());
    HeaderValue::from_bytes(&all).ok()
}

impl<S> Layer<S> for ForwardedLayer {
    type Service = Forwarded<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let rules = self.0.clone();
        Forwarded { inner, rules }
    }
}

impl<S: Service<HttpRequest>> Service<HttpRequest> for Forwarded<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> S::Future {
        self.rules.apply(&mut request);
        self.inner.call(request)
    }
}

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::{
        drain,
        tls::{NoTlsReason, TlsStatus},
        transport::ListenerContext,
    };

    /// The two fields at the application, of a client that sends both.
    fn applied(set: ForwardedHeader, addr: &str, is_meshed: bool) -> [Option<String>; 2] {
        let tls = match is_meshed {
            true => TlsStatus::Meshed(Some("web.test".parse().unwrap())),
            false => TlsStatus::None(NoTlsReason::NoTlsFromRemote),
        };
        let client = ClientInfo {
            addr: addr.parse().unwrap(),
            local: ([10, 0, 0, 9], 4143).into(),
            orig_dst: None,
            tls,
            listener: ListenerContext::new(drain::channel().1),
        };
        let mut headers = HeaderMap::new();
        headers.insert(FORWARDED, HeaderValue::from_static("for=a"));
        headers.append(FORWARDED, HeaderValue::from_static("for=b"));
        headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("192.0.2.1"));
        if let Some(layer) = ForwardedLayer::new(set, &client) {
            layer.0.apply_to_head(&mut headers);
        }
        let values = |name| headers.get_all(name).into_iter();
        [FORWARDED, X_FORWARDED_FOR].map(|name| {
            let all: Vec<_> = values(name).map(|v| v.to_str().unwrap()).collect();
            (!all.is_empty()).then(|| all.join(" | "))
        })
    }

    #[test]
    fn only_a_client_of_the_mesh_may_say_for_whom_it_forwards() {
        const CLIENT: &str = "10.0.0.7:4000";
        let text = |text: &str| Some(text.to_owned());
        for (set, is_meshed, expected) in [
            (
                ForwardedHeader::Off,
                false,
                [text("for=a | for=b"), text("192.0.2.1")],
            ),
            (
                ForwardedHeader::Forwarded,
                false,
                [text("for=10.0.0.7"), None],
            ),
            (
                ForwardedHeader::XForwardedFor,
                false,
                [None, text("10.0.0.7")],
            ),
            (
                ForwardedHeader::Both,
                true,
                [
                    text("for=a, for=b, for=10.0.0.7"),
                    text("192.0.2.1, 10.0.0.7"),
                ],
            ),
        ] {
            assert_eq!(applied(set, CLIENT, is_meshed), expected, "{set:?}");
        }
        let [forwarded, _] = applied(ForwardedHeader::Both, "[2001:db8::7]:1", false);
        assert_eq!(forwarded, text("for=\"[2001:db8::7]\""));
    }
}
