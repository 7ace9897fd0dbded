//! The service that a request is for, by its name.

use crate::server::L5D_DST_CANONICAL;
use http::{HeaderValue, Request, header::HOST};
use linkerd_proxy_core::Destination;
use std::net::IpAddr;

/// The authority of a request's service: that of `l5d-dst-canonical`, which is from a proxy of the mesh, or else that of the
/// request's target, or of `Host`.
pub fn service_authority<B>(request: &Request<B>) -> Option<&[u8]> {
    let headers = request.headers();
    match (headers.get(L5D_DST_CANONICAL), request.uri().authority()) {
        (Some(canonical), _) => Some(canonical.as_bytes()),
        (None, Some(authority)) => Some(authority.as_str().as_bytes()),
        (None, None) => headers.get(HOST).map(HeaderValue::as_bytes),
    }
}

/// The name and port of a service; port 80 if none is named. `None` for an address.
pub fn service_name(authority: &str) -> Option<Destination> {
    let name = match authority.rsplit_once(':') {
        Some((name, port)) => Destination::new(name, port.parse().ok()?).ok()?,
        None => Destination::new(authority, 80).ok()?,
    };
    let is_address = name.name().starts_with('[') || name.name().parse::<IpAddr>().is_ok();
    (!is_address).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_its_service_by_header_target_or_host() {
        for (uri, header, expected) in [
            (
                "http://target.test/",
                Some("canonical.test:80"),
                Some("canonical.test:80"),
            ),
            ("http://target.test:81/", None, Some("target.test:81")),
            ("/", None, Some("host.test")),
        ] {
            let mut request = Request::get(uri).header(HOST, "host.test");
            if let Some(canonical) = header {
                request = request.header(L5D_DST_CANONICAL, canonical);
            }
            let request = request.body(()).unwrap();
            assert_eq!(service_authority(&request), expected.map(str::as_bytes));
        }
        assert_eq!(service_authority(&Request::new(())), None);
    }

    #[test]
    fn an_authority_is_a_service_unless_it_is_an_address() {
        for (authority, expected) in [
            ("web.shop.svc", Some("web.shop.svc:80")),
            ("Web.shop.svc.:8080", Some("web.shop.svc:8080")),
            ("10.0.0.1", None),
            ("10.0.0.1:80", None),
            ("[2001:db8::1]:80", None),
            ("[2001:db8::1]", None),
            ("web.shop.svc:", None),
            ("web.shop.svc:0", None),
            ("a b", None),
            ("", None),
        ] {
            let name = service_name(authority);
            let name = name.as_ref().map(Destination::as_str);
            assert_eq!(name, expected, "{authority:?}");
        }
    }
}
