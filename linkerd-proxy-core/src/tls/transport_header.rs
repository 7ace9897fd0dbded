//! The transport header: facts about a connection, sent to the peer proxy before the first byte.
//!
//! | part | bytes |
//! |---|---|
//! | preface | `transport.l5d.io/v1`, CR LF CR LF |
//! | length | 4, big-endian |
//! | header | protobuf `transport.l5d.io.Header` |

use super::Identity;
use crate::{Error, Reason};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;
use std::{num::NonZeroU16, sync::Arc};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The ALPN protocol of a handshake after which a header follows.
pub const ALPN: &[u8] = b"transport.l5d.io/v1";

/// A transport header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransportHeader {
    /// The target port of the connection.
    pub port: NonZeroU16,
    /// The target name of the connection, behind a gateway.
    pub name: Option<Arc<str>>,
    /// The protocol of the bytes that follow; `None` if they are opaque.
    pub protocol: Option<SessionProtocol>,
}

/// The protocol of a session between proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionProtocol {
    /// HTTP/1.
    Http1,
    /// HTTP/2.
    Http2,
}

impl SessionProtocol {
    /// The value of the label `session_protocol`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Http1 => "http/1",
            Self::Http2 => "http/2",
        }
    }
}

/// The header on the wire (`transport.l5d.io.Header`).
#[derive(Clone, PartialEq, prost::Message)]
struct WireHeader {
    #[prost(int32, tag = "1")]
    port: i32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, optional, tag = "3")]
    session_protocol: Option<WireProtocol>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireProtocol {
    #[prost(oneof = "WireKind", tags = "1, 2")]
    kind: Option<WireKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum WireKind {
    #[prost(message, tag = "1")]
    Http1(()),
    #[prost(message, tag = "2")]
    Http2(()),
}

impl TransportHeader {
    /// The bytes of the header, with preface and length.
    pub fn encode(&self) -> Bytes {
        let wire = WireHeader {
            port: self.port.get().into(),
            name: self.name.as_deref().unwrap_or_default().to_owned(),
            session_protocol: self.protocol.map(|protocol| WireProtocol {
                kind: Some(match protocol {
                    SessionProtocol::Http1 => WireKind::Http1(()),
                    SessionProtocol::Http2 => WireKind::Http2(()),
                }),
            }),
        };
        let message = wire.encode_to_vec();
        let mut bytes = BytesMut::with_capacity(PREFACE.len() + LENGTH + message.len());
        bytes.put_slice(PREFACE);
        bytes.put_u32(u32::try_from(message.len()).expect("a name is short"));
        bytes.put_slice(&message);
        bytes.freeze()
    }

    /// Reads the header at the start of `read`; the bytes after it stay there. `None` if the header is not complete.
    pub fn decode(read: &mut BytesMut) -> Result<Option<Self>, Error> {
        let known = read.len().min(PREFACE.len());
        if read[..known] != PREFACE[..known] {
            return Err(invalid(
                "the connection does not begin with a transport header",
            ));
        }
        let Some(length) = read.get(PREFACE.len()..PREFACE.len() + LENGTH) else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(length.try_into().expect("it has 4 bytes"));
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > MAX_LENGTH {
            return Err(invalid(&format!(
                "a transport header of {length} bytes is too long"
            )));
        }
        let end = PREFACE.len() + LENGTH + length;
        if read.len() < end {
            read.reserve(end - read.len());
            return Ok(None);
        }
        let mut message = read.split_to(end);
        message.advance(PREFACE.len() + LENGTH);
        let wire = WireHeader::decode(message.freeze());
        let wire = wire.map_err(|error| invalid(&error.to_string()))?;
        Self::from_wire(wire).map(Some)
    }

    fn from_wire(wire: WireHeader) -> Result<Self, Error> {
        let port = u16::try_from(wire.port).ok().and_then(NonZeroU16::new);
        let port = port.ok_or_else(|| invalid(&format!("port {} is none", wire.port)))?;
        let name = match wire.name.parse::<Identity>() {
            _ if wire.name.is_empty() => None,
            Ok(Identity::Dns(name)) => Some(name),
            _ => return Err(invalid("its name is no DNS name")),
        };
        let kind = wire.session_protocol.and_then(|protocol| protocol.kind);
        Ok(Self {
            port,
            name,
            protocol: kind.map(|kind| match kind {
                WireKind::Http1(()) => SessionProtocol::Http1,
                WireKind::Http2(()) => SessionProtocol::Http2,
            }),
        })
    }

    /// Reads the header of a connection; returns it with the bytes that were read after it. Not cancel safe.
    ///
    /// Fails as `NoTransportHeader`. The caller limits the time.
    pub async fn read(io: &mut (impl AsyncRead + Unpin)) -> Result<(Self, Bytes), Error> {
        let mut read = BytesMut::with_capacity(CAPACITY);
        loop {
            if let Some(header) = Self::decode(&mut read)? {
                return Ok((header, read.freeze()));
            }
            match io.read_buf(&mut read).await {
                Ok(0) => return Err(invalid("the client ended before its transport header")),
                Ok(_) => {}
                Err(error) => return Err(invalid(&error.to_string()).source(error)),
            }
        }
    }
}

fn invalid(problem: &str) -> Error {
    Error::new(Reason::NoTransportHeader).detail(problem.to_owned())
}

/// The first bytes.
const PREFACE: &[u8] = b"transport.l5d.io/v1\r\n\r\n";

/// The bytes of the length.
const LENGTH: usize = 4;

/// The longest header, of which a name is the largest part.
const MAX_LENGTH: usize = 4 * 1024;

/// Room for most headers.
const CAPACITY: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(name: Option<&str>, protocol: Option<SessionProtocol>) -> TransportHeader {
        TransportHeader {
            port: NonZeroU16::new(8080).unwrap(),
            name: name.map(Into::into),
            protocol,
        }
    }

    #[test]
    fn has_the_bytes_that_the_incumbent_writes() {
        let bytes = header(Some("web.test"), Some(SessionProtocol::Http2)).encode();
        let message = b"\x08\x90\x3f\x12\x08web.test\x1a\x02\x12\x00";
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        assert_eq!(bytes, [PREFACE, &length, message].concat());
    }

    #[tokio::test]
    async fn is_read_as_it_was_written_however_it_is_cut() {
        for sent in [
            header(None, None),
            header(Some("web.test"), Some(SessionProtocol::Http1)),
            header(None, Some(SessionProtocol::Http2)),
        ] {
            let bytes = [&sent.encode()[..], b"GET /"].concat();
            for cut in 1..bytes.len() {
                let (first, rest) = bytes.split_at(cut);
                let mut io = tokio_test::io::Builder::new()
                    .read(first)
                    .read(rest)
                    .build();
                let (read, mut after) = TransportHeader::read(&mut io)
                    .await
                    .map(|(header, after)| (header, BytesMut::from(&after[..])))
                    .unwrap();
                assert_eq!(read, sent);
                let _ = io.read_buf(&mut after).await;
                assert_eq!(after, &b"GET /"[..]);
            }
        }
    }

    #[test]
    fn other_bytes_are_refused_at_once() {
        let long = [PREFACE, &[0, 1, 0, 0]].concat();
        let no_port = [PREFACE, &[0, 0, 0, 0]].concat();
        let bad_name = [PREFACE, &[0, 0, 0, 7], b"\x08\x50\x12\x03a b"].concat();
        for bytes in [
            &b"GET / "[..],
            b"transport.l5d.io/v2",
            &long,
            &no_port,
            &bad_name,
        ] {
            let error = TransportHeader::decode(&mut BytesMut::from(bytes)).unwrap_err();
            assert_eq!(error.reason(), Reason::NoTransportHeader, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, has_preface: bool) {
            let preface = if has_preface { PREFACE } else { &[] };
            let bytes = [preface, &bytes].concat();
            let _ = TransportHeader::decode(&mut BytesMut::from(&bytes[..]));
        }
    }
}
