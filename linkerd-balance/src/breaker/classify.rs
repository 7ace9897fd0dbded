//! The meaning of an exchange for its endpoint's breaker.

use super::machine::OutcomeKind;
use http::{HeaderMap, StatusCode};
use linkerd_proxy_core::{
    Error,
    http::{BodyEnd, ObservedResponse, grpc_status, is_failure},
    reason::{Origin, Phase},
};

/// The outcome of a response that has ended. `None`: the response ended before the endpoint had reported success or failure.
pub(super) fn ended(response: &ObservedResponse<'_>, end: BodyEnd<'_>) -> Option<OutcomeKind> {
    match end {
        BodyEnd::Complete(trailers) => Some(of_response(response, trailers)),
        // A route's timeout is the endpoint's failure, too, as with the incumbent.
        BodyEnd::Failed(_) => Some(OutcomeKind::Failure),
        // The endpoint did not end the body.
        BodyEnd::Dropped => {
            let is_open = response.is_grpc && response.code.is_none();
            (!is_open).then(|| of_response(response, None))
        }
    }
}

/// The outcome of a request without a response. `None` if it says nothing about the endpoint.
///
/// Connect failures are not counted: an endpoint that refuses connections is not ready, and so not picked, until it accepts
/// one.
pub(super) fn failed(error: &Error) -> Option<OutcomeKind> {
    let row = error.reason().row();
    let is_endpoints = matches!(row.origin, Origin::Endpoint | Origin::Network);
    (is_endpoints && row.phase == Phase::Exchange).then_some(OutcomeKind::Failure)
}

fn of_response(response: &ObservedResponse<'_>, trailers: Option<&HeaderMap>) -> OutcomeKind {
    let code = response.code.or_else(|| trailers.and_then(grpc_status));
    let code = code.filter(|_| response.is_grpc);
    match (response.status, code) {
        (StatusCode::TOO_MANY_REQUESTS, None) | (_, Some(RESOURCE_EXHAUSTED)) => {
            OutcomeKind::Limited
        }
        (status, code) if is_failure(status, code) => OutcomeKind::Failure,
        _ => OutcomeKind::Success,
    }
}

/// The gRPC code of an endpoint that limits its clients.
const RESOURCE_EXHAUSTED: u8 = 8;
