//! The first bytes of a connection.

use super::{Target, texts};
use linkerd_proxy_core::transport::{
    Detected, FirstServerBytes, Lookalikes, RequestScan, Scanned, classify,
};

pub(super) const TARGET: Target = Target {
    name: "detect",
    run,
    seeds: || {
        texts(&[
            "GET / HTTP/1.1\r\nhost: web\r\n\r\n",
            "OPTIONS * HTTP/1.0\n\n",
            "CONNECT web:80 HTTP/1.1\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "PRI /x HTTP/1.1\r\n",
            "get\t/  http/1.7\r\n",
            "SSH-2.0-OpenSSH_9\r\n",
            "\x16\x03\x01\x02",
            "\0GET / HTTP/1.1 y\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET x\r\n",
            "OPTIONS rtsp://camera/1 RTSP/1.0\r\n",
        ])
    },
    words: &[b"HTTP/1.1\r\n", b"PRI * HTTP/2.0", b"\r\n", b"GET "],
};

/// HTTP by a prefix stays HTTP with more bytes, while other bytes may still become a request; a request line by the grammar also looks
/// like one, and a search finds it in any pieces.
fn run(input: &[u8]) {
    for lookalikes in [Lookalikes::Http, Lookalikes::Opaque] {
        let mut decided = None;
        for len in (0..=input.len().min(64)).chain([input.len()]) {
            let now = classify(&input[..len], lookalikes);
            let may_change = matches!(decided, None | Some(Detected::Opaque));
            assert!(
                may_change || decided == now,
                "{decided:?} became {now:?} at {len}"
            );
            decided = now;
        }
    }
    let mut whole = RequestScan::new(FirstServerBytes::EndSearch);
    let mut pieces = RequestScan::new(FirstServerBytes::EndSearch);
    let found = whole.scan(input);
    let in_pieces = input
        .chunks(7)
        .any(|piece| pieces.scan(piece) == Scanned::RequestLine);
    assert_eq!(found == Scanned::RequestLine, in_pieces);
    if classify(input, Lookalikes::Opaque) == Some(Detected::Http1) {
        let by_looks = classify(input, Lookalikes::Http);
        assert_eq!(by_looks, Some(Detected::Http1));
        assert_eq!(found, Scanned::RequestLine);
    }
}
