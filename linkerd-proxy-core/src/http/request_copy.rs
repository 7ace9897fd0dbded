//! A copy of a request, for another attempt.

use super::{HttpRequest, RequestBody, RequestContext};
use http::{HeaderName, HeaderValue, Method, Request, Uri, Version};
use hyper::upgrade::OnUpgrade;
use std::fmt;

/// A copy of a request. Its headers are a list: most copies are dropped unused, and a map would be two allocations in place of
/// one.
pub struct RequestCopy(Box<CopyParts>);

struct CopyParts {
    method: Method,
    uri: Uri,
    version: Version,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: RequestBody,
    context: RequestContext,
}

impl HttpRequest {
    /// Makes a copy for another attempt, with a body of at most `max_bytes`; from here on, the body is kept as it passes.
    ///
    /// `None` if the body is known to be larger, or if the request can be sent only once because it asks for an upgrade.
    pub fn replayable(&mut self, max_bytes: usize) -> Option<RequestCopy> {
        // Extensions belong to the connection, such as a pending upgrade. They are not copied.
        if self.extensions().get::<OnUpgrade>().is_some() {
            return None;
        }
        let body = self.body_mut().replayable(max_bytes)?;
        let mut headers = Vec::with_capacity(self.headers().len());
        for (name, value) in self.headers() {
            headers.push((name.clone(), value.clone()));
        }
        Some(RequestCopy(Box::new(CopyParts {
            method: self.method().clone(),
            uri: self.uri().clone(),
            version: self.version(),
            headers,
            body,
            context: self.context().clone(),
        })))
    }
}

impl RequestCopy {
    /// The body.
    pub fn body(&self) -> &RequestBody {
        &self.0.body
    }

    /// The context, mutable.
    pub fn context_mut(&mut self) -> &mut RequestContext {
        &mut self.0.context
    }

    /// The request.
    pub fn into_request(self) -> HttpRequest {
        let copy = *self.0;
        let mut request = Request::new(copy.body);
        *request.method_mut() = copy.method;
        *request.uri_mut() = copy.uri;
        *request.version_mut() = copy.version;
        request.headers_mut().reserve(copy.headers.len());
        for (name, value) in copy.headers {
            request.headers_mut().append(name, value);
        }
        HttpRequest::new(request, copy.context)
    }
}

impl fmt::Debug for RequestCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestCopy")
            .field("method", &self.0.method)
            .field("uri", &self.0.uri)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{ACCEPT, HOST};

    #[test]
    fn a_copy_has_the_same_head_and_no_extensions() {
        let request = Request::post("http://web.test/a?b")
            .version(Version::HTTP_2)
            .header(ACCEPT, "text/html")
            .header(HOST, "web")
            .header(ACCEPT, "*/*")
            .extension("of the connection")
            .body(RequestBody::empty())
            .unwrap();
        let mut request = HttpRequest::new(request, RequestContext::arriving(None));
        let copy = request.replayable(0).unwrap().into_request();
        assert_eq!(copy.method(), request.method());
        assert_eq!(copy.uri(), request.uri());
        assert_eq!(copy.version(), request.version());
        assert!(copy.headers().iter().eq(request.headers()));
        assert_eq!(copy.context().arrived, request.context().arrived);
        assert!(copy.extensions().is_empty());
    }
}
