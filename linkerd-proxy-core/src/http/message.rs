//! Forms of a request's target, and its authority.

use crate::{Error, Reason};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, header::HOST, uri::Authority,
};

/// Whether a message has one of a few headers.
///
/// Most messages have few headers and none of these: comparing names is several times cheaper than hashing each of them,
/// which took 1,300 instructions a request.
pub fn has_any(headers: &HeaderMap, names: &[HeaderName]) -> bool {
    headers.keys().any(|key| names.contains(key))
}

/// Checks the form of an HTTP/1 request's target (RFC 9112, section 3.2).
pub fn check_form<B>(request: &Request<B>) -> Result<(), Error> {
    let uri = request.uri();
    let is_authority = uri.authority().is_some() && uri.scheme().is_none();
    let problem = match (request.method() == Method::CONNECT, is_authority) {
        // Also in HTTP/1.0, as Python up to 3.11 asks for a tunnel.
        (true, true) => return Ok(()),
        (true, false) => "CONNECT takes host:port",
        (false, true) => "only CONNECT takes an authority as its target",
        (false, false) => return Ok(()),
    };
    Err(Error::new(Reason::InvalidRequest).detail(problem))
}

/// The target authority of a request: the authority of its URI, or else its `Host`.
pub fn authority<B>(request: &Request<B>) -> Option<Authority> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.clone());
    }
    let host = request.headers().get(HOST)?;
    Authority::try_from(host.as_bytes()).ok()
}

/// The host, lower-case and without a trailing dot, and the port of an authority.
///
/// A port that is no number up to 65535 counts as 0, which no target has: it must not be taken for the default.
pub fn host_and_port(authority: &Authority, default_port: u16) -> (String, u16) {
    let host = authority.host();
    let named = authority.as_str().rsplit('@').next().unwrap_or_default();
    let port = match named.strip_prefix(host) {
        Some("" | ":") => default_port,
        _ => authority.port_u16().unwrap_or(0),
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    (host.to_ascii_lowercase(), port)
}

/// Adds the `Host` that an absolute target implies: servers refuse HTTP/1.1 without one (RFC 9112, section 3.2).
pub fn add_host<B>(request: &mut Request<B>) {
    if request.uri().scheme().is_some() && !has_any(request.headers(), &[HOST]) {
        host_from_target(request);
    }
}

/// Sets `Host` from an absolute target. A user's name and password are not part of it (RFC 9110, section 7.2).
pub fn host_from_target<B>(request: &mut Request<B>) {
    let Some(authority) = request.uri().authority() else {
        return;
    };
    let host = authority.as_str().rsplit('@').next().unwrap_or_default();
    if let Ok(host) = HeaderValue::from_str(host) {
        request.headers_mut().insert(HOST, host);
    }
}

/// Makes the target of an HTTP/1 request a path, as a server expects it.
pub fn to_origin_form(uri: &mut Uri) {
    if uri.scheme().is_some() {
        let path = uri.path_and_query().cloned();
        *uri = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    }
}

/// Makes the target of a request absolute, as HTTP/2 needs it: `http`, and the target authority.
pub fn to_absolute_form<B>(request: &mut Request<B>, default: &Authority) {
    if request.uri().scheme().is_some() && request.uri().authority().is_some() {
        return;
    }
    let authority = authority(request).unwrap_or_else(|| default.clone());
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(http::uri::Scheme::HTTP);
    parts.authority = Some(authority);
    if parts.path_and_query.is_none() {
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    }
    *request.uri_mut() = Uri::from_parts(parts).expect("scheme, authority and path are all there");
}

/// Prepares a request for the HTTP/2 codec, which takes a request without an authority only if it looks like HTTP/1.
pub fn for_http2<B>(request: &mut Request<B>) {
    if request.uri().authority().is_none() {
        *request.version_mut() = Version::HTTP_11;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, uri: &str, version: Version) -> Request<()> {
        Request::builder()
            .method(method)
            .uri(uri)
            .version(version)
            .body(())
            .unwrap()
    }

    #[test]
    fn forms_that_rfc_9112_does_not_allow_are_refused() {
        for (method, uri, version, ok) in [
            ("CONNECT", "a:1", Version::HTTP_11, true),
            ("CONNECT", "a:1", Version::HTTP_10, true),
            ("CONNECT", "http://a/", Version::HTTP_11, false),
            ("GET", "a:1", Version::HTTP_11, false),
            ("GET", "/", Version::HTTP_11, true),
            ("GET", "http://a/", Version::HTTP_11, true),
            ("OPTIONS", "*", Version::HTTP_11, true),
        ] {
            let checked = check_form(&request(method, uri, version));
            assert_eq!(checked.is_ok(), ok, "{method} {uri}");
        }
    }

    #[test]
    fn targets_change_their_form() {
        let mut uri = Uri::from_static("http://web:80/a?b");
        to_origin_form(&mut uri);
        assert_eq!(uri, "/a?b");

        let mut request = request("GET", "/a", Version::HTTP_11);
        let default = Authority::from_static("10.0.0.1:80");
        to_absolute_form(&mut request, &default);
        assert_eq!(request.uri(), "http://10.0.0.1:80/a");
        let mut request = self::request("GET", "/a", Version::HTTP_11);
        request.headers_mut().insert(HOST, "web".parse().unwrap());
        to_absolute_form(&mut request, &default);
        assert_eq!(request.uri(), "http://web/a");
    }

    #[test]
    fn the_host_is_that_of_the_target_without_its_user() {
        let mut request = request("GET", "http://me:secret@web:8080/", Version::HTTP_11);
        add_host(&mut request);
        assert_eq!(request.headers()[HOST], "web:8080");
        request.headers_mut().insert(HOST, "other".parse().unwrap());
        add_host(&mut request);
        assert_eq!(request.headers()[HOST], "other");
        host_from_target(&mut request);
        assert_eq!(request.headers()[HOST], "web:8080");
    }

    #[test]
    fn names_compare_without_case_and_dot() {
        for (authority, host, port) in [
            ("Web.Default.:8080", "web.default", 8080),
            ("web", "web", 80),
            ("web:", "web", 80),
            ("8:8", "8", 8),
            ("user@[::1]", "[::1]", 80),
            ("web:99999", "web", 0),
        ] {
            let authority = Authority::from_static(authority);
            assert_eq!(host_and_port(&authority, 80), (host.into(), port));
        }
    }
}
