//! The parts of a request that spans show, kept while the request is on its way.

use crate::request_target::{authority, without_userinfo};
use http::{
    HeaderName, HeaderValue, Method, Uri, Version,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT},
};
use linkerd_proxy_core::{
    http::HttpRequest,
    trace::{
        Attribute,
        AttributeValue::{Text, Word},
        SpanKind,
    },
};

/// The head of a request. Values are shared with the message, not copied.
#[derive(Debug)]
pub(super) struct TracedHead {
    /// The version of the client's connection.
    pub(super) version: Version,
    method: Method,
    uri: Uri,
    host: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
    content_length: Option<HeaderValue>,
    content_type: Option<HeaderValue>,
    orig_proto: Option<HeaderValue>,
}

impl TracedHead {
    /// Keeps the head of a request.
    pub(super) fn of(request: &HttpRequest) -> Self {
        let header = |name: HeaderName| request.headers().get(name).cloned();
        Self {
            version: request.version(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            host: header(HOST),
            user_agent: header(USER_AGENT),
            content_length: header(CONTENT_LENGTH),
            content_type: header(CONTENT_TYPE),
            orig_proto: header(L5D_ORIG_PROTO),
        }
    }

    /// Whether it is gRPC, by its content type.
    pub(super) fn is_grpc(&self) -> bool {
        let value = self.content_type.as_ref();
        value.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
    }

    /// The name of its spans: the path, or the target of CONNECT.
    pub(super) fn span_name(&self) -> String {
        match self.uri.path() {
            "" => text(authority(&self.uri, self.host.as_ref()), MAX_URL),
            path => text(path.as_bytes(), MAX_URL),
        }
    }

    /// Its attributes, without the query unless that is asked for: queries have tokens and names of people. The client's span shows the URL in absolute form; the server's as it was received.
    pub(super) fn push_attributes(
        &self,
        kind: SpanKind,
        with_query: bool,
        attributes: &mut Vec<Attribute>,
    ) {
        let authority = authority(&self.uri, self.host.as_ref());
        let scheme = match (self.uri.scheme_str(), kind) {
            (Some("https"), _) => Some("https"),
            (Some(_), _) | (None, SpanKind::Client) => Some("http"),
            (None, SpanKind::Server) => None,
        };
        let method = text(self.method.as_str().as_bytes(), MAX_TEXT);
        attributes.push(("http.request.method", Text(method)));
        if let Some(scheme) = scheme {
            attributes.push(("url.scheme", Word(scheme)));
        }
        attributes.push(("url.path", Text(text(self.uri.path().as_bytes(), MAX_URL))));
        if let Some(query) = self.uri.query().filter(|_| with_query) {
            attributes.push(("url.query", Text(text(query.as_bytes(), MAX_URL))));
        }
        attributes.push(("url.full", Text(self.url(scheme, with_query))));
        let (host, port) = split_port(authority);
        if !host.is_empty() {
            attributes.push(("server.address", Text(text(host, MAX_TEXT))));
        }
        if let Some(port) = port {
            attributes.push(("server.port", Text(text(port, MAX_TEXT))));
        }
        attributes.push(("network.transport", Word("tcp")));
        attributes.push(("network.protocol.version", Word(version(self.version))));
        for (key, value) in [
            ("user_agent.original", &self.user_agent),
            ("http.request.header.content-length", &self.content_length),
            ("http.request.header.content-type", &self.content_type),
            ("http.request.header.l5d-orig-proto", &self.orig_proto),
        ] {
            if let Some(value) = value {
                attributes.push((key, Text(text(value.as_bytes(), MAX_TEXT))));
            }
        }
    }

    /// The URL without user and password: absolute if its scheme is known, or else as it was received.
    fn url(&self, scheme: Option<&str>, with_query: bool) -> String {
        let path = match self.uri.path_and_query() {
            Some(path) if with_query => path.as_str(),
            Some(path) => path.path(),
            None => "",
        };
        let Some(scheme) = scheme else {
            return match self.uri.authority() {
                // The target of CONNECT.
                Some(_) if path.is_empty() => text(authority(&self.uri, None), MAX_URL),
                _ => text(path.as_bytes(), MAX_URL),
            };
        };
        let whole = match self.uri.authority() {
            Some(authority) => authority.as_str().as_bytes(),
            None => self.host.as_ref().map_or(&b""[..], HeaderValue::as_bytes),
        };
        let host = without_userinfo(whole);
        let user = match host.len() == whole.len() {
            true => "",
            false => REDACTED,
        };
        let host = text(host, MAX_TEXT);
        let url = format!("{scheme}://{user}{host}{path}");
        text(url.as_bytes(), MAX_URL)
    }
}

/// A text from a peer, cut at `max` bytes. Bytes that are not UTF-8 are replaced.
pub(super) fn text(bytes: &[u8], max: usize) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(max)]).into_owned()
}

/// Host and port of an authority. The port of an IPv6 address is behind its brackets.
fn split_port(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    let colon = authority.iter().rposition(|byte| *byte == b':');
    match colon.map(|at| (&authority[..at], &authority[at + 1..])) {
        Some((host, port)) if !port.is_empty() && port.iter().all(u8::is_ascii_digit) => {
            (host, Some(port))
        }
        _ => (authority, None),
    }
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    }
}

const L5D_ORIG_PROTO: HeaderName = HeaderName::from_static("l5d-orig-proto");

/// In place of user and password, by the conventions of OpenTelemetry.
const REDACTED: &str = "REDACTED:REDACTED@";

/// The most bytes of a URL or a part of it.
pub(super) const MAX_URL: usize = 4096;
/// The most bytes of another text.
pub(super) const MAX_TEXT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;
    use linkerd_proxy_core::trace::AttributeValue;

    fn attributes(kind: SpanKind, uri: &str, host: Option<&str>) -> Vec<Attribute> {
        let mut request = request("");
        *request.uri_mut() = uri.parse().unwrap();
        request.headers_mut().clear();
        if let Some(host) = host {
            request.headers_mut().insert(HOST, host.parse().unwrap());
        }
        let mut attributes = Vec::new();
        TracedHead::of(&request).push_attributes(kind, true, &mut attributes);
        attributes
    }

    #[tokio::test]
    async fn the_query_is_left_out_unless_it_is_asked_for() {
        let mut request = request("");
        *request.uri_mut() = "http://web/a?secret=1".parse().unwrap();
        for kind in [SpanKind::Server, SpanKind::Client] {
            let mut attributes = Vec::new();
            TracedHead::of(&request).push_attributes(kind, false, &mut attributes);
            assert_eq!(value(&attributes, "url.full"), Some("http://web/a"));
            assert!(!format!("{attributes:?}").contains("secret"));
        }
    }

    fn value<'a>(attributes: &'a [Attribute], key: &str) -> Option<&'a str> {
        let found = attributes.iter().find(|(name, _)| *name == key);
        found.and_then(|(_, value)| AttributeValue::as_text(value))
    }

    #[tokio::test]
    async fn the_url_is_shown_in_the_form_of_its_side() {
        let server = attributes(SpanKind::Server, "/a?b=1", Some("web:8080"));
        assert_eq!(value(&server, "url.full"), Some("/a?b=1"));
        assert_eq!(value(&server, "url.scheme"), None);
        let client = attributes(SpanKind::Client, "/a?b=1", Some("web:8080"));
        assert_eq!(value(&client, "url.full"), Some("http://web:8080/a?b=1"));
        for attributes in [server, client] {
            assert_eq!(value(&attributes, "url.path"), Some("/a"));
            assert_eq!(value(&attributes, "url.query"), Some("b=1"));
            assert_eq!(value(&attributes, "server.address"), Some("web"));
            assert_eq!(value(&attributes, "server.port"), Some("8080"));
        }
    }

    #[tokio::test]
    async fn user_and_password_are_left_out() {
        let both = attributes(SpanKind::Server, "http://me:secret@[::1]/a", None);
        assert_eq!(
            value(&both, "url.full"),
            Some("http://REDACTED:REDACTED@[::1]/a")
        );
        assert_eq!(value(&both, "server.address"), Some("[::1]"));
        assert_eq!(value(&both, "server.port"), None);
        assert!(!format!("{both:?}").contains("secret"));
    }

    #[tokio::test]
    async fn long_values_are_cut() {
        let path = format!("/{}", "a".repeat(2 * MAX_URL));
        let long = attributes(SpanKind::Client, &path, Some("web"));
        for key in ["url.path", "url.full"] {
            assert_eq!(value(&long, key).map(str::len), Some(MAX_URL));
        }
    }
}
