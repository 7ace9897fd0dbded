//! Clients of the proxy.

mod http1;
mod http2;
mod wire;

pub use http1::Http1;
pub use http2::{Http2, reset_code};
pub use wire::Wire;

use crate::{Body, BoxError, empty};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// A complete response.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The version of HTTP.
    pub version: Version,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The trailers.
    pub trailers: HeaderMap,
}

impl Reply {
    /// Reads a response to its end.
    pub async fn read(response: Response<Incoming>) -> Result<Self, BoxError> {
        let (head, body) = response.into_parts();
        let body = body.collect().await?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        Ok(Self {
            status: head.status,
            version: head.version,
            headers: head.headers,
            body: body.to_bytes(),
            trailers,
        })
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        Some(self.headers.get(name)?.to_str().unwrap())
    }

    /// A trailer.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        Some(self.trailers.get(name)?.to_str().unwrap())
    }
}

/// A GET.
pub fn get(uri: &str) -> Request<Body> {
    request(Method::GET, uri, empty())
}

/// A request.
pub fn request(method: Method, uri: &str, body: Body) -> Request<Body> {
    let request = Request::builder().method(method).uri(uri);
    request.body(body).unwrap()
}
