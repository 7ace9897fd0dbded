//! Server-streaming calls that stay small, so that thousands can be open.

mod messages;
mod yielding;

pub use messages::Messages;

use http::{
    HeaderValue, Method, Request, Uri, Version,
    header::{CONTENT_TYPE, TE},
};
use prost::Message;
use std::future::poll_fn;
use tonic::{
    Status,
    body::Body,
    client::GrpcService,
    codec::{BufferSettings, EncodeBody},
};
use tonic_prost::ProstCodec;

/// The methods in use.
pub mod method {
    /// The endpoints of a destination.
    pub const GET: &str = "/io.linkerd.proxy.destination.Destination/Get";
    /// The profile of a destination.
    pub const GET_PROFILE: &str = "/io.linkerd.proxy.destination.Destination/GetProfile";
    /// A certificate for a proxy: one message.
    pub const CERTIFY: &str = "/io.linkerd.proxy.identity.Identity/Certify";
    /// The X.509 identities of a workload.
    pub const FETCH_X509_SVID: &str = "/SpiffeWorkloadAPI/FetchX509SVID";
    /// Spans, to a collector of OTLP: one message.
    pub const EXPORT_SPANS: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    /// The policy of a target.
    pub const WATCH: &str = "/io.linkerd.proxy.outbound.OutboundPolicies/Watch";
    /// The policy of a port.
    pub const WATCH_PORT: &str = "/io.linkerd.proxy.inbound.InboundServerPolicies/WatchPort";
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Makes a server-streaming call.
///
/// The generated clients do the same, but each of their streams holds 8 KB of read buffer for as long as it is open,
/// and never less than its largest message took; a proxy has three streams for each destination in use.
pub async fn open<S, Req, Rsp>(
    mut service: S,
    method: &'static str,
    request: Req,
) -> Result<Messages<S::ResponseBody, Rsp>, Status>
where
    S: GrpcService<Body>,
    S::Error: Into<BoxError>,
    Req: Message + Send + 'static,
{
    let ready = poll_fn(|cx| service.poll_ready(cx)).await;
    ready.map_err(|error| {
        let error: BoxError = error.into();
        Status::unknown(format!("Service was not ready: {error}"))
    })?;
    let response = service.call(call(method, request)).await;
    Messages::of(response.map_err(|error| Status::from_error(error.into()))?)
}

/// A call as an HTTP request.
fn call<Req: Message + Send + 'static>(method: &'static str, request: Req) -> Request<Body> {
    let settings = BufferSettings::new(ROOM, SEND_AT);
    let encoder = ProstCodec::<Req, ()>::raw_encoder(settings);
    let messages = tokio_stream::once(Ok(request));
    let body = Body::new(EncodeBody::new_client(encoder, messages, None, None));
    let mut call = Request::new(body);
    *call.method_mut() = Method::POST;
    *call.version_mut() = Version::HTTP_2;
    *call.uri_mut() = Uri::from_static(method);
    let headers = call.headers_mut();
    headers.insert(TE, HeaderValue::from_static("trailers"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    call
}

/// Initial capacity of a request. Most have some hundred bytes.
const ROOM: usize = 256;

/// Bytes after which a request is sent. tonic's default.
const SEND_AT: usize = 32 * 1024;
