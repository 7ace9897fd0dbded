//! The first bytes of a peer proxy: a TLS client's first message, and the transport header within.

use super::{Target, runtime};
use bytes::BytesMut;
use linkerd_proxy_core::{
    drain,
    tls::{SessionProtocol, TransportHeader, read_client_hello},
};
use std::{num::NonZeroU16, time::Duration};

pub(super) const TARGET: Target = Target {
    name: "handshake",
    run,
    seeds: || {
        let header = |name: Option<&str>, protocol| {
            let header = TransportHeader {
                port: NonZeroU16::MAX,
                name: name.map(Into::into),
                protocol,
            };
            [&[1], &header.encode()[..]].concat()
        };
        vec![
            [&[0], &client_hello()[..]].concat(),
            b"\x00\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
            b"\x00GET / HTTP/1.1\r\n\r\n".to_vec(),
            header(None, None),
            header(Some("web.test"), Some(SessionProtocol::Http1)),
            header(None, Some(SessionProtocol::Http2)),
        ]
    },
    words: &[
        b"\x16\x03\x01",
        b"\x00\x00\x00\x0d\x00\x0b\x00\x00\x08web.test",
        b"transport.l5d.io/v1\r\n\r\n",
    ],
};

/// The first byte selects the reader. The result does not depend on how the bytes are cut.
fn run(input: &[u8]) {
    match input.split_first() {
        Some((0, bytes)) => read_hello(bytes),
        Some((_, bytes)) => decode_header(bytes),
        None => {}
    }
}

/// For any input, all bytes are kept: they are passed on if they are not a handshake.
fn read_hello(mut bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let sent = bytes;
    let (_signal, drain) = drain::channel();
    let mut drain = drain.watch();
    let reading = read_client_hello(
        &mut bytes,
        Duration::from_secs(1),
        &mut drain,
        std::future::pending,
    );
    let first = runtime().block_on(reading);
    let first = first.expect("a reader in memory does not fail");
    assert!(sent.starts_with(&first.read));
    if let Ok(hello) = first.hello {
        assert!(!hello.server_name.is_empty());
    }
}

fn decode_header(bytes: &[u8]) {
    let mut whole = BytesMut::from(bytes);
    let decoded = TransportHeader::decode(&mut whole);
    let mut cut = BytesMut::new();
    for byte in bytes {
        cut.extend_from_slice(&[*byte]);
        match TransportHeader::decode(&mut cut) {
            Ok(None) => {}
            Ok(Some(header)) => {
                let whole = decoded.as_ref().ok().and_then(Option::as_ref);
                assert_eq!(Some(&header), whole);
                let mut again = BytesMut::from(&header.encode()[..]);
                let again = TransportHeader::decode(&mut again);
                assert_eq!(again.ok().flatten(), Some(header));
                return;
            }
            Err(_) => {
                assert!(decoded.is_err());
                return;
            }
        }
    }
}

/// A client's first message that asks for `web.test`.
fn client_hello() -> Vec<u8> {
    let prefixed = |body: &[u8]| {
        let length = u16::try_from(body.len()).expect("it is short");
        [&length.to_be_bytes()[..], body].concat()
    };
    let server_name = prefixed(&[&[0][..], &prefixed(b"web.test")].concat());
    let signatures = [0, 13, 0, 4, 0, 2, 4, 3];
    let extensions = [&[0, 0][..], &prefixed(&server_name), &signatures].concat();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &prefixed(&[0x13, 0x01]),
        &[1, 0],
        &prefixed(&extensions),
    ]
    .concat();
    let length = u32::try_from(body.len()).expect("it is short");
    let message = [&[1][..], &length.to_be_bytes()[1..], &body].concat();
    [&[22, 3, 1][..], &prefixed(&message)].concat()
}
