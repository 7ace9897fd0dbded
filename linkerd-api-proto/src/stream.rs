//! Server-streaming calls, made so that thousands of them can be open.

use bytes::Buf;
use http::uri::PathAndQuery;
use prost::Message;
use std::{marker::PhantomData, thread};
use tonic::{
    Request, Status, Streaming,
    body::Body,
    client::{Grpc, GrpcService},
    codec::{BufferSettings, Codec, DecodeBuf, Decoder},
};
use tonic_prost::{ProstCodec, ProstEncoder};

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
    type Decoder = InTurns<Rsp>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<Req, Rsp>::raw_encoder(BufferSettings::new(ROOM, SEND_AT))
    }

    fn decoder(&mut self) -> Self::Decoder {
        InTurns(PhantomData)
    }
}

/// Reads protobuf, and offers the core to other threads now and then: 10,000 endpoints with a dozen labels take some ten
/// milliseconds, in which requests would wait.
struct InTurns<Rsp>(PhantomData<fn() -> Rsp>);

impl<Rsp: Message + Default + 'static> Decoder for InTurns<Rsp> {
    type Item = Rsp;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<Rsp>, Status> {
        let message = Rsp::decode(Offering::new(buf, thread::yield_now));
        message
            .map(Some)
            .map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(ROOM, SEND_AT)
    }
}

/// Bytes that are read in turns.
struct Offering<B, F> {
    bytes: B,
    offer: F,
    /// How many bytes are left of this turn.
    left: usize,
}

impl<B, F> Offering<B, F> {
    fn new(bytes: B, offer: F) -> Self {
        Self {
            bytes,
            offer,
            left: TURN,
        }
    }
}

impl<B: Buf, F: FnMut()> Buf for Offering<B, F> {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, n: usize) {
        self.bytes.advance(n);
        match self.left.checked_sub(n) {
            Some(left) => self.left = left,
            None => {
                (self.offer)();
                self.left = TURN;
            }
        }
    }
}

/// What is held to read into. Most messages have some hundred bytes; it grows for those that are larger.
const ROOM: usize = 256;

/// After how many bytes requests are sent. tonic's default.
const SEND_AT: usize = 32 * 1024;

/// The largest message. tonic's default of 4 MB is less than 10,000 endpoints with a dozen labels take.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// After how many bytes the core is offered: about 0.1 ms.
const TURN: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destination::{AddrSet, Update, update};
    use crate::net::TcpAddress;

    #[test]
    fn a_long_message_is_read_in_turns_and_a_short_one_in_one() {
        let update = |addrs: u16| {
            let addr = |n| TcpAddress::from(std::net::SocketAddr::from(([10, 0, 0, 1], n)));
            Update {
                update: Some(update::Update::Remove(AddrSet {
                    addrs: (1..=addrs).map(addr).collect(),
                })),
            }
        };
        for (addrs, turns) in [(3, 0), (10_000, 5)] {
            let sent = update(addrs);
            let bytes = sent.encode_to_vec();
            let mut offered = 0;
            let read = Update::decode(Offering::new(&*bytes, || offered += 1));
            assert_eq!(read.unwrap(), sent);
            assert!(
                offered >= turns && offered <= bytes.len() / TURN,
                "{offered}"
            );
        }
    }
}
