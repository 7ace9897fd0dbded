//! Success or failure of an exchange, as metrics count it.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::CONTENT_TYPE};

/// Whether a request is gRPC, by its content type.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let is_content_type = |(name, _): &(&HeaderName, &HeaderValue)| **name == CONTENT_TYPE;
    headers
        .iter()
        .find(is_content_type)
        .is_some_and(|(_, value)| value.as_bytes().starts_with(b"application/grpc"))
}

/// The gRPC code in headers or trailers.
pub fn grpc_status(headers: &HeaderMap) -> Option<u8> {
    // Few messages have one: comparing a handful of names is quicker than hashing.
    let (_, value) = headers.iter().find(|(name, _)| **name == GRPC_STATUS)?;
    value.to_str().ok()?.parse().ok()
}

/// Whether a response is a failure of its endpoint: a status of 500 or above, or for gRPC a code of the same meaning.
///
/// A gRPC response without a code counts as a success, as with the incumbent.
pub fn is_failure(status: StatusCode, grpc: Option<u8>) -> bool {
    match grpc {
        Some(code) => matches!(code, 2 | 4 | 7 | 13 | 14 | 15),
        None => status.is_server_error(),
    }
}

/// The name of a gRPC code, as in `grpc_status` labels.
pub fn grpc_name(code: u8) -> &'static str {
    match code {
        0 => "OK",
        1 => "CANCELLED",
        3 => "INVALID_ARGUMENT",
        4 => "DEADLINE_EXCEEDED",
        5 => "NOT_FOUND",
        6 => "ALREADY_EXISTS",
        7 => "PERMISSION_DENIED",
        8 => "RESOURCE_EXHAUSTED",
        9 => "FAILED_PRECONDITION",
        10 => "ABORTED",
        11 => "OUT_OF_RANGE",
        12 => "UNIMPLEMENTED",
        13 => "INTERNAL",
        14 => "UNAVAILABLE",
        15 => "DATA_LOSS",
        16 => "UNAUTHENTICATED",
        _ => "UNKNOWN",
    }
}

pub(super) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_those_of_the_endpoint() {
        assert!(is_failure(StatusCode::BAD_GATEWAY, None));
        assert!(!is_failure(StatusCode::NOT_FOUND, None));
        assert!(is_failure(StatusCode::OK, Some(14)));
        assert!(!is_failure(StatusCode::OK, Some(5)));
    }

    #[test]
    fn grpc_is_told_by_its_content_type() {
        let mut headers = HeaderMap::new();
        assert!(!is_grpc(&headers));
        headers.insert(CONTENT_TYPE, "application/grpc+proto".parse().unwrap());
        assert!(is_grpc(&headers));
    }
}
