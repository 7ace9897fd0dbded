//! The first bytes of a connection.

use super::{Target, texts};
use linkerd_proxy_core::transport::{Detected, Lookalikes, classify};

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
        ])
    },
    words: &[b"HTTP/1.1\r\n", b"PRI * HTTP/2.0", b"\r\n", b"GET "],
};

/// A decision by a prefix stays the same with more bytes, and a request line by the grammar also looks like a request line.
fn run(input: &[u8]) {
    for lookalikes in [Lookalikes::Http, Lookalikes::Opaque] {
        let mut decided = None;
        for len in 0..=input.len().min(64) {
            let now = classify(&input[..len], lookalikes);
            assert!(
                decided.is_none() || decided == now,
                "{decided:?} became {now:?} at {len}"
            );
            decided = now;
        }
        let whole = classify(input, lookalikes);
        assert!(decided.is_none() || decided == whole);
    }
    if classify(input, Lookalikes::Opaque) == Some(Detected::Http1) {
        let by_looks = classify(input, Lookalikes::Http);
        assert_eq!(by_looks, Some(Detected::Http1));
    }
}
