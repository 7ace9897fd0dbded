//! A copy of a request's head.

use http::{HeaderName, HeaderValue, Method, Request, Uri, Version};
use std::fmt;

/// A copy of a request's head. Its headers are a list: most copies are dropped unused, and a map would be two allocations in
/// place of one.
#[derive(Clone)]
pub(super) struct HeadCopy {
    method: Method,
    uri: Uri,
    version: Version,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl HeadCopy {
    /// A copy of the head of a request, without its extensions.
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let mut headers = Vec::with_capacity(request.headers().len());
        for (name, value) in request.headers() {
            headers.push((name.clone(), value.clone()));
        }
        Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            headers,
        }
    }

    /// A request with this head.
    pub(super) fn into_request<B>(self, body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.version_mut() = self.version;
        request.headers_mut().reserve(self.headers.len());
        for (name, value) in self.headers {
            request.headers_mut().append(name, value);
        }
        request
    }
}

/// Without its headers, which may be secret.
impl fmt::Debug for HeadCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadCopy")
            .field("method", &self.method)
            .field("uri", &self.uri)
            .finish_non_exhaustive()
    }
}
