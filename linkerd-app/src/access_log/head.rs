//! The parts of a request that lines show.

use crate::{
    config::AccessLogConfig,
    request_target::{authority, trace_id, whole_authority},
};
use http::{
    HeaderName, HeaderValue, Method, Uri, Version,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, REFERER, USER_AGENT},
};
use linkerd_proxy_core::http::HttpRequest;

/// The head of a request, borrowed from it.
pub struct RequestHead<'r> {
    /// The method.
    pub method: &'r Method,
    /// The target, as the client has sent it.
    pub uri: &'r Uri,
    /// The version of the client's connection.
    pub version: Version,
    /// `host`.
    pub host: Option<&'r HeaderValue>,
    /// `user-agent`.
    pub user_agent: Option<&'r HeaderValue>,
    /// `referer`.
    pub referer: Option<&'r HeaderValue>,
    /// `content-length`.
    pub content_length: Option<&'r HeaderValue>,
    /// Whether it is gRPC, by its content type.
    pub is_grpc: bool,
    /// The trace by its most telling header, and the rank of that header.
    trace: Option<(usize, &'r HeaderValue)>,
    /// The headers of the list, in the order of the request.
    pub listed: Vec<(&'r HeaderName, &'r HeaderValue)>,
}

impl<'r> RequestHead<'r> {
    /// The head of a request, with the headers that the log lists.
    pub fn of(request: &'r HttpRequest, config: &AccessLogConfig) -> Self {
        let mut head = Self {
            method: request.method(),
            uri: request.uri(),
            version: request.version(),
            host: None,
            user_agent: None,
            referer: None,
            content_length: None,
            is_grpc: false,
            trace: None,
            listed: Vec::new(),
        };
        let traces = match config.format.is_incumbent() {
            true => INCUMBENT_TRACES,
            false => TRACES,
        };
        // One pass: comparing a handful of names is quicker than hashing them.
        for (name, value) in request.headers() {
            if let Some(field) = head.field(name) {
                field.get_or_insert(value);
            } else if *name == CONTENT_TYPE {
                head.is_grpc = value.as_bytes().starts_with(b"application/grpc");
            } else if let Some(rank) = traces.iter().position(|trace| name.as_str() == *trace) {
                let known = head.trace.map_or(usize::MAX, |(rank, _)| rank);
                if rank < known {
                    head.trace = Some((rank, value));
                }
            }
            if config.headers.contains(name) {
                head.listed.push((name, value));
            }
        }
        head
    }

    /// The field of a header that has one.
    fn field(&mut self, name: &HeaderName) -> Option<&mut Option<&'r HeaderValue>> {
        match name {
            name if *name == HOST => Some(&mut self.host),
            name if *name == USER_AGENT => Some(&mut self.user_agent),
            name if *name == REFERER => Some(&mut self.referer),
            name if *name == CONTENT_LENGTH => Some(&mut self.content_length),
            _ => None,
        }
    }

    /// The value of the header by which the incumbent knows a trace.
    pub fn incumbent_trace(&self) -> &'r [u8] {
        self.trace.map_or(b"", |(_, value)| value.as_bytes())
    }

    /// The trace id: that of `traceparent`, or else of B3.
    pub fn trace_id(&self) -> Option<&'r [u8]> {
        let (rank, value) = self.trace?;
        match rank {
            0 => trace_id(value).map(str::as_bytes),
            _ => Some(value.as_bytes()),
        }
    }

    /// The authority that the request is for, without user and password.
    pub fn authority(&self) -> &'r [u8] {
        authority(self.uri, self.host)
    }

    /// The authority with user and password.
    pub fn whole_authority(&self) -> &'r [u8] {
        whole_authority(self.uri, self.host)
    }

    /// The path, without the query unless that is asked for. That of CONNECT is empty.
    pub fn path(&self, with_query: bool) -> &'r [u8] {
        let path = match (self.uri.path_and_query(), with_query) {
            (Some(whole), true) => whole.as_str(),
            _ => self.uri.path(),
        };
        path.as_bytes()
    }
}

/// Headers with the id of a trace, the most telling one first.
const TRACES: &[&str] = &["traceparent", "x-b3-traceid"];
const INCUMBENT_TRACES: &[&str] = &["x-b3-traceid", "x-request-id", "x-amzn-trace-id"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{AccessLogFormat, AccessLogOutput},
        testing::request,
    };

    fn config(format: AccessLogFormat) -> AccessLogConfig {
        AccessLogConfig {
            format,
            output: AccessLogOutput::Stderr,
            sample: 1.0,
            query: false,
            headers: vec![HeaderName::from_static("x-tenant")],
        }
    }

    fn asked(uri: &str, headers: &[(&'static str, &str)]) -> HttpRequest {
        let mut request = request("");
        *request.uri_mut() = uri.parse().unwrap();
        request.headers_mut().clear();
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).unwrap();
            request.headers_mut().append(*name, value);
        }
        request
    }

    #[test]
    fn a_trace_is_that_of_the_first_header_of_the_format() {
        let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let headers = [
            ("x-request-id", "r"),
            ("x-b3-traceid", "b3"),
            ("traceparent", traceparent),
        ];
        let request = asked("/", &headers);
        let full = RequestHead::of(&request, &config(AccessLogFormat::Full));
        assert_eq!(
            full.trace_id().unwrap(),
            b"0af7651916cd43dd8448eb211c80319c"
        );
        let json = RequestHead::of(&request, &config(AccessLogFormat::Json));
        assert_eq!(json.incumbent_trace(), b"b3");
        let request = asked("/", &[("traceparent", "00-0af7")]);
        let broken = RequestHead::of(&request, &config(AccessLogFormat::Full));
        assert_eq!(broken.trace_id(), None);
    }

    #[test]
    fn only_listed_headers_are_kept() {
        let headers = [("x-tenant", "a"), ("x-other", "b"), ("x-tenant", "c")];
        let request = asked("/", &headers);
        let head = RequestHead::of(&request, &config(AccessLogFormat::Full));
        let values: Vec<_> = head.listed.iter().map(|(_, value)| *value).collect();
        assert_eq!(values, ["a", "c"]);
    }

    #[test]
    fn passwords_and_queries_are_left_out() {
        let full = config(AccessLogFormat::Full);
        let request = asked("http://me:secret@web/a?token=1", &[]);
        let absolute = RequestHead::of(&request, &full);
        assert_eq!(absolute.authority(), b"web");
        assert_eq!(absolute.path(false), b"/a");
        assert_eq!(absolute.path(true), b"/a?token=1");
        let request = asked("/a", &[("host", "web:80")]);
        let origin = RequestHead::of(&request, &full);
        assert_eq!(origin.authority(), b"web:80");
    }
}
