//! The parts of a request that lines show, kept while the request is on its way.

use crate::{
    config::AccessLogConfig,
    request_target::{authority, trace_id},
};
use http::{
    HeaderName, HeaderValue, Method, Uri, Version,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, REFERER, USER_AGENT},
};
use linkerd_proxy_core::http::HttpRequest;

/// The head of a request. Values are shared with the message, not copied.
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The target, as the client has sent it.
    pub uri: Uri,
    /// The version of the client's connection.
    pub version: Version,
    /// `host`.
    pub host: Option<HeaderValue>,
    /// `user-agent`.
    pub user_agent: Option<HeaderValue>,
    /// `referer`.
    pub referer: Option<HeaderValue>,
    /// `content-length`.
    pub content_length: Option<HeaderValue>,
    /// Whether it is gRPC, by its content type.
    pub is_grpc: bool,
    /// The trace, by its most telling header, and the rank of that.
    trace: Option<(usize, HeaderValue)>,
    /// The headers of the list, in the order of the request.
    pub listed: Vec<(HeaderName, HeaderValue)>,
}

impl RequestHead {
    /// Keeps the head of a request, with the headers that the log lists.
    pub fn of(request: &HttpRequest, config: &AccessLogConfig) -> Self {
        let mut head = Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
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
                field.get_or_insert_with(|| value.clone());
            } else if *name == CONTENT_TYPE {
                head.is_grpc = value.as_bytes().starts_with(b"application/grpc");
            } else if let Some(rank) = traces.iter().position(|trace| name.as_str() == *trace) {
                let known = head.trace.as_ref().map_or(usize::MAX, |(rank, _)| *rank);
                if rank < known {
                    head.trace = Some((rank, value.clone()));
                }
            }
            if config.headers.contains(name) {
                head.listed.push((name.clone(), value.clone()));
            }
        }
        head
    }

    /// The field of a header that has one.
    fn field(&mut self, name: &HeaderName) -> Option<&mut Option<HeaderValue>> {
        match name {
            name if *name == HOST => Some(&mut self.host),
            name if *name == USER_AGENT => Some(&mut self.user_agent),
            name if *name == REFERER => Some(&mut self.referer),
            name if *name == CONTENT_LENGTH => Some(&mut self.content_length),
            _ => None,
        }
    }

    /// The value of the header by which the incumbent knows a trace.
    pub fn incumbent_trace(&self) -> &[u8] {
        self.trace
            .as_ref()
            .map_or(b"", |(_, value)| value.as_bytes())
    }

    /// The trace id: that of `traceparent`, or else of B3.
    pub fn trace_id(&self) -> Option<&[u8]> {
        let (rank, value) = self.trace.as_ref()?;
        match rank {
            0 => trace_id(value).map(str::as_bytes),
            _ => Some(value.as_bytes()),
        }
    }

    /// The authority that the request is for, without user and password.
    pub fn authority(&self) -> &[u8] {
        authority(&self.uri, self.host.as_ref())
    }

    /// The path, without the query unless that is asked for. That of CONNECT is empty.
    pub fn path(&self, with_query: bool) -> &[u8] {
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

    fn head(format: AccessLogFormat, uri: &str, headers: &[(&'static str, &str)]) -> RequestHead {
        let config = AccessLogConfig {
            format,
            output: AccessLogOutput::Stderr,
            sample: 1.0,
            query: false,
            headers: vec![HeaderName::from_static("x-tenant")],
        };
        let mut request = request("");
        *request.uri_mut() = uri.parse().unwrap();
        request.headers_mut().clear();
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).unwrap();
            request.headers_mut().append(*name, value);
        }
        RequestHead::of(&request, &config)
    }

    #[test]
    fn a_trace_is_that_of_the_first_header_of_the_format() {
        let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let headers = [
            ("x-request-id", "r"),
            ("x-b3-traceid", "b3"),
            ("traceparent", traceparent),
        ];
        let full = head(AccessLogFormat::Full, "/", &headers);
        assert_eq!(
            full.trace_id().unwrap(),
            b"0af7651916cd43dd8448eb211c80319c"
        );
        let json = head(AccessLogFormat::Json, "/", &headers);
        assert_eq!(json.incumbent_trace(), b"b3");
        let broken = head(AccessLogFormat::Full, "/", &[("traceparent", "00-0af7")]);
        assert_eq!(broken.trace_id(), None);
    }

    #[test]
    fn only_listed_headers_are_kept() {
        let headers = [("x-tenant", "a"), ("x-other", "b"), ("x-tenant", "c")];
        let head = head(AccessLogFormat::Full, "/", &headers);
        let values: Vec<_> = head.listed.iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["a", "c"]);
    }

    #[test]
    fn passwords_and_queries_are_left_out() {
        let absolute = head(AccessLogFormat::Full, "http://me:secret@web/a?token=1", &[]);
        assert_eq!(absolute.authority(), b"web");
        assert_eq!(absolute.path(false), b"/a");
        assert_eq!(absolute.path(true), b"/a?token=1");
        let origin = head(AccessLogFormat::Full, "/a", &[("host", "web:80")]);
        assert_eq!(origin.authority(), b"web:80");
    }
}
