//! All processing of a request's head.

use super::{Target, texts};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, uri::Authority};
use linkerd_proxy_core::http::{
    authority, host_and_port, prepare_request, to_absolute_form, to_origin_form,
};

pub(super) const TARGET: Target = Target {
    name: "head",
    run,
    seeds: || {
        texts(&[
            "GET /a?b HTTP/1.1\r\nhost: web\r\nconnection: close, x-a\r\nx-a: 1\r\n\r\n",
            "GET http://web:80/a HTTP/1.1\r\nhost: other\r\nproxy-connection: x\r\n\r\n",
            "GET http://web HTTP/1.0\r\nkeep-alive: 5\r\n\r\n",
            "CONNECT web:80 HTTP/1.1\r\nhost: web\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nhost: web\r\nte: trailers\r\n\r\n",
            "GET /ws HTTP/1.1\r\nhost: web\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: [::1]:80\r\ntransfer-encoding: chunked\r\n\r\n",
        ])
    },
    words: &[
        b"connection: ",
        b"upgrade",
        b"host: ",
        b"keep-alive",
        b"http://",
        b", ",
        b"close",
        b"\r\n",
        b"CONNECT ",
        b"https://a@b:1",
    ],
};

fn run(input: &[u8]) {
    let Some(mut request) = parse(input) else {
        return;
    };
    let prepared = prepare_request(&mut request);
    if let Some(authority) = authority(&request) {
        let _ = host_and_port(&authority, 80);
    }
    let headers = request.headers();
    if let Ok(upgrades) = prepared {
        for name in ["keep-alive", "proxy-connection"] {
            assert!(!headers.contains_key(name), "{name} stays");
        }
        let offered = headers.get("upgrade");
        assert!(
            offered.is_none() || upgrades,
            "an upgrade stays that is none"
        );
        assert_eq!(headers.contains_key("connection"), offered.is_some());
        assert!(headers.get_all("host").iter().count() <= 1, "several hosts");
    }
    let mut origin = request.uri().clone();
    to_origin_form(&mut origin);
    assert!(origin.scheme().is_none());
    if prepared.is_ok() {
        to_absolute_form(&mut request, &Authority::from_static("10.0.0.1:80"));
        let uri = request.uri();
        assert!(uri.scheme().is_some() && uri.authority().is_some());
        assert!(uri.path_and_query().is_some());
    }
}

/// The head as the codec passes it on.
fn parse(input: &[u8]) -> Option<Request<()>> {
    let mut slots = [httparse::EMPTY_HEADER; 100];
    let mut parsed = httparse::Request::new(&mut slots);
    if !parsed.parse(input).ok()?.is_complete() {
        return None;
    }
    let mut headers = HeaderMap::new();
    for header in parsed.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(parsed.method?.as_bytes()).ok()?;
    *request.uri_mut() = Uri::try_from(parsed.path?).ok()?;
    *request.version_mut() = match parsed.version? {
        0 => Version::HTTP_10,
        _ => Version::HTTP_11,
    };
    *request.headers_mut() = headers;
    Some(request)
}
