//! Events of tapped requests, as they cross from a worker to the control thread.

use http::{Method, StatusCode, Version};
use linkerd_proxy_core::{Reason, tls::TlsStatus, transport::Side};
use std::{net::SocketAddr, sync::Arc, time::Duration};

/// An event of a tapped request.
#[derive(Debug)]
pub struct TapEvent {
    /// The number of the request among those of its tap, from 0.
    pub stream: u64,
    /// The request.
    pub request: Arc<TappedRequest>,
    /// The way that it took so far.
    pub way: Arc<TappedWay>,
    /// The event.
    pub kind: TapEventKind,
}

/// The kind of an event.
#[derive(Debug)]
pub enum TapEventKind {
    /// An endpoint has the request, or the proxy has answered it.
    Request {
        /// Its headers, if the tap asks for them.
        headers: Option<Headers>,
    },
    /// The head of the response has come.
    Response(TappedResponse),
    /// The exchange has ended.
    End(TappedEnd),
}

/// The head of a response.
#[derive(Clone, Debug)]
pub struct TappedResponse {
    /// The time since the request arrived.
    pub since_request: Duration,
    /// The status.
    pub status: StatusCode,
    /// Its headers, if the tap asks for them.
    pub headers: Option<Headers>,
}

/// The end of an exchange.
#[derive(Clone, Debug)]
pub struct TappedEnd {
    /// The time since the request arrived.
    pub since_request: Duration,
    /// The time since the head of the response, if there was one.
    pub since_response: Option<Duration>,
    /// The status, if there was a response.
    pub status: Option<StatusCode>,
    /// Bytes of the response's body.
    pub response_bytes: u64,
    /// The gRPC code, if there is one.
    pub grpc_status: Option<u16>,
    /// The code of the reset that ended it, if one did (RFC 9113, 7).
    pub reset: Option<u32>,
    /// The reason for which the proxy answered or broke off itself, and the message.
    pub failure: Option<(Reason, String)>,
    /// Whether the client gave up.
    pub is_cancelled: bool,
    /// Trailers, if the tap asks for headers.
    pub trailers: Option<Headers>,
}

/// Headers or trailers. Values of secrets are replaced, and long ones cut.
pub type Headers = Arc<[(String, Box<[u8]>)]>;

/// A request, as it arrived.
#[derive(Clone, Debug)]
pub struct TappedRequest {
    /// The direction.
    pub side: Side,
    /// The address of the client.
    pub source: SocketAddr,
    /// The encryption of the client's connection.
    pub source_tls: TlsStatus,
    /// The destination of the client's connection.
    pub going_to: SocketAddr,
    /// The version of HTTP.
    pub version: Version,
    /// The method.
    pub method: Method,
    /// The scheme, `http` if it names none.
    pub scheme: String,
    /// The authority, or else `Host`, without user and password.
    pub authority: String,
    /// The path, without the query, which may hold secrets.
    pub path: String,
}

/// The way of a request: its endpoint, and the rules by which it came there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TappedWay {
    /// The endpoint; `None` if the request did not reach one.
    pub destination: Option<SocketAddr>,
    /// Its labels, among them `tls`.
    pub destination_labels: Vec<(String, String)>,
    /// The route.
    pub route: Option<String>,
    /// Its labels.
    pub route_labels: Vec<(String, String)>,
    /// The backend.
    pub backend: Option<String>,
    /// The number of times that the request was given to an endpoint.
    pub attempts: u32,
}

impl TapEvent {
    /// The memory that the event takes, about, in bytes.
    pub fn size(&self) -> usize {
        let headers = |headers: &Option<Headers>| {
            let headers = headers.iter().flat_map(|headers| headers.iter());
            headers
                .map(|(name, value)| name.len() + value.len() + HEADER)
                .sum::<usize>()
        };
        let way = &self.way;
        let labels = way.destination_labels.iter().chain(&way.route_labels);
        let labels = labels.map(|(name, value)| name.len() + value.len() + HEADER);
        let kind = match &self.kind {
            TapEventKind::Request { headers: all } => headers(all),
            TapEventKind::Response(response) => headers(&response.headers),
            TapEventKind::End(end) => {
                let failure = end.failure.as_ref();
                headers(&end.trailers) + failure.map_or(0, |(_, text)| text.len())
            }
        };
        let request = &self.request;
        FIXED + request.authority.len() + request.path.len() + labels.sum::<usize>() + kind
    }
}

/// Two heads of strings.
const HEADER: usize = 48;

/// An event and the parts that it refers to, without texts.
const FIXED: usize = 768;
