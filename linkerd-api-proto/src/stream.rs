//! Server-streaming calls, made so that thousands of them can be open.

use http::uri::PathAndQuery;
use prost::Message;
use std::marker::PhantomData;
use tonic::{
    Request, Status, Streaming,
    body::Body,
    client::{Grpc, GrpcService},
    codec::{BufferSettings, Codec},
};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// The methods that are called.
pub mod method {
    /// The endpoints of a destination.
    pub const GET: &str = "/io.linkerd.proxy.destination.Destination/Get";
    /// The profile of a destination.
    pub const GET_PROFILE: &str = "/io.linkerd.proxy.destination.Destination/GetProfile";
    /// The policy of a target.
    pub const WATCH: &str = "/io.linkerd.proxy.outbound.OutboundPolicies/Watch";
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Makes a call that is answered by a stream.
///
/// The generated clients do the same, but each of their streams holds 8 KB to read into as long as it is open, and a
/// proxy has three streams for each destination that it talks to.
pub async fn open<S, Req, Rsp>(
    service: S,
    method: &'static str,
    request: Req,
) -> Result<Streaming<Rsp>, Status>
where
    S: GrpcService<Body>,
    S::Error: Into<BoxError>,
    S::ResponseBody: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    <S::ResponseBody as http_body::Body>::Error: Into<BoxError> + Send,
    Req: Message + 'static,
    Rsp: Message + Default + 'static,
{
    let mut client = Grpc::new(service).max_decoding_message_size(MAX_MESSAGE);
    client.ready().await.map_err(|error| {
        let error: BoxError = error.into();
        Status::unknown(format!("Service was not ready: {error}"))
    })?;
    let (request, path) = (Request::new(request), PathAndQuery::from_static(method));
    let response = client
        .server_streaming(request, path, Sparing(PhantomData))
        .await?;
    Ok(response.into_inner())
}

/// Protobuf, read into a buffer that is as large as the messages were.
struct Sparing<Req, Rsp>(PhantomData<fn(Req) -> Rsp>);

impl<Req, Rsp> Codec for Sparing<Req, Rsp>
where
    Req: Message + 'static,
    Rsp: Message + Default + 'static,
{
    type Encode = Req;
    type Decode = Rsp;
    type Encoder = ProstEncoder<Req>;
    type Decoder = ProstDecoder<Rsp>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<Req, Rsp>::raw_encoder(BufferSettings::new(ROOM, SEND_AT))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<Req, Rsp>::raw_decoder(BufferSettings::new(ROOM, SEND_AT))
    }
}

/// What is held to read into. Most messages have some hundred bytes; it grows for those that are larger.
const ROOM: usize = 256;

/// After how many bytes requests are sent. tonic's default.
const SEND_AT: usize = 32 * 1024;

/// The largest message. tonic's default of 4 MB is less than 10,000 endpoints with a dozen labels take.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;
