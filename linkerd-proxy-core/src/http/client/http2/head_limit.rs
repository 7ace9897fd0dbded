//! The limit of an endpoint for the heads of requests.
//!
//! A server that gets a far larger head than it takes ends its connection, with the calls of others: so it must not get one.

use crate::{Error, Reason, error::find};
use http::Request;

/// The size of a head as HTTP/2 counts it (RFC 9113, section 6.5.2): names and values, and 32 bytes for each field.
pub(super) fn head_size<B>(request: &Request<B>) -> usize {
    let uri = request.uri();
    let path = uri.path_and_query().map_or(1, |path| path.as_str().len());
    let authority = uri.authority().map_or(0, |name| name.as_str().len());
    let scheme = uri.scheme_str().map_or(0, str::len);
    let pseudo = request.method().as_str().len() + path + authority + scheme + PSEUDO;
    let fields = request.headers().iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + FIELD);
    pseudo + fields.sum::<usize>()
}

/// The failure of a request whose head has this size.
pub(super) fn too_large(size: usize, limit: usize) -> Error {
    let detail = format!("the request's head has {size} bytes, and the endpoint takes {limit}");
    Error::new(Reason::EndpointHeadLimit).detail(detail)
}

/// Whether an endpoint may have ended its connection for the size of a head.
pub(super) fn may_be_for_head(error: &hyper::Error) -> bool {
    find::<h2::Error>(error).is_some_and(|error| {
        let code = error.reason();
        error.is_go_away() && error.is_remote() && code == Some(h2::Reason::ENHANCE_YOUR_CALM)
    })
}

/// The size above which a head may be the cause: the usual limit of servers that do not name theirs.
pub(super) const LARGE: usize = 16 * 1024;

/// The names of the four pseudo-fields, with their 32 bytes each.
const PSEUDO: usize = ":method:scheme:authority:path".len() + 4 * FIELD;
const FIELD: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_values_and_32_bytes_for_each_field_count() {
        let request = Request::get("http://web/a?b").header("x", "12345");
        let size = head_size(&request.body(()).unwrap());
        let pseudo = [
            ":method",
            "GET",
            ":scheme",
            "http",
            ":authority",
            "web",
            ":path",
            "/a?b",
        ];
        let names = pseudo.concat().len() + "x12345".len();
        assert_eq!(size, names + 5 * 32);
    }
}
