//! Events as messages of the Tap API.

use crate::tap::{
    event::{Headers, TapEvent, TapEventKind, TappedEnd, TappedRequest, TappedWay},
    labels,
};
use http::Version;
use linkerd_api_proto::{
    http_types::{self, headers::Header},
    prost_types,
    tap::{
        self as proto, Eos, eos,
        tap_event::{
            self, EndpointMeta, Http, ProxyDirection, RouteMeta,
            http::{Event, RequestInit, ResponseEnd, ResponseInit, StreamId},
        },
    },
};
use linkerd_proxy_core::transport::Side;
use std::time::Duration;

/// The message of an event of the tap `tap`.
pub fn message(tap: u32, event: &TapEvent) -> proto::TapEvent {
    let (request, way) = (&*event.request, &*event.way);
    let id = Some(StreamId {
        base: tap,
        stream: event.stream,
    });
    let event = match &event.kind {
        TapEventKind::Request { headers } => Event::RequestInit(RequestInit {
            id,
            method: Some(request.method.clone().into()),
            scheme: Some(request.scheme.as_str().into()),
            authority: request.authority.clone(),
            path: request.path.clone(),
            headers: headers
                .as_ref()
                .map(|headers| request_headers(request, headers)),
        }),
        TapEventKind::Response(response) => Event::ResponseInit(ResponseInit {
            id,
            since_request_init: duration(response.since_request),
            http_status: response.status.as_u16().into(),
            headers: response.headers.as_ref().map(fields),
        }),
        TapEventKind::End(end) => Event::ResponseEnd(ResponseEnd {
            id,
            since_request_init: duration(end.since_request),
            since_response_init: end.since_response.and_then(duration),
            response_bytes: end.response_bytes,
            eos: eos(end),
            trailers: end.trailers.as_ref().map(fields),
        }),
    };
    proto::TapEvent {
        source: Some(request.source.into()),
        source_meta: Some(EndpointMeta {
            labels: labels::of_client(&request.source_tls).into_iter().collect(),
        }),
        route_meta: (!way.route_labels.is_empty()).then(|| RouteMeta {
            labels: way.route_labels.iter().cloned().collect(),
        }),
        destination: Some(way.destination.unwrap_or(request.going_to).into()),
        destination_meta: Some(EndpointMeta {
            labels: destination_labels(way),
        }),
        proxy_direction: match request.side {
            Side::Inbound => ProxyDirection::Inbound,
            Side::Outbound | Side::Control => ProxyDirection::Outbound,
        }
        .into(),
        event: Some(tap_event::Event::Http(Http { event: Some(event) })),
    }
}

fn destination_labels(way: &TappedWay) -> std::collections::HashMap<String, String> {
    way.destination_labels.iter().cloned().collect()
}

/// The end of the stream: a reset, or a gRPC code, or neither.
fn eos(end: &TappedEnd) -> Option<Eos> {
    let reset = end.reset.map(eos::End::ResetErrorCode);
    let code = end
        .grpc_status
        .map(|code| eos::End::GrpcStatusCode(code.into()));
    Some(Eos {
        end: reset.or(code),
    })
}

/// The headers of a request; those of HTTP/2 with its pseudo-headers, as it has no request line.
fn request_headers(request: &TappedRequest, headers: &Headers) -> http_types::Headers {
    let mut all = fields(headers);
    if request.version == Version::HTTP_2 {
        let pseudo = [
            (":method", request.method.as_str()),
            (":scheme", &request.scheme),
            (":authority", &request.authority),
            (":path", &request.path),
        ];
        let pseudo = pseudo.map(|(name, value)| field(name, value.as_bytes()));
        all.headers.splice(0..0, pseudo);
    }
    all
}

fn fields(headers: &Headers) -> http_types::Headers {
    let headers = headers.iter();
    http_types::Headers {
        headers: headers.map(|(name, value)| field(name, value)).collect(),
    }
}

fn field(name: &str, value: &[u8]) -> Header {
    Header {
        name: name.to_owned(),
        value: value.to_vec(),
    }
}

/// `None` for a duration that does not fit: 292 billion years.
fn duration(time: Duration) -> Option<prost_types::Duration> {
    time.try_into().ok()
}
