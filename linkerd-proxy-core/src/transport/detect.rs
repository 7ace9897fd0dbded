//! Telling HTTP from other protocols by the first bytes that a client sends.

use crate::{Error, Reason, drain};
use bytes::{Bytes, BytesMut};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Detected {
    /// HTTP/1.0 or HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// Something else.
    Opaque,
}

/// Reads until the protocol is certain, and returns what was read with it.
///
/// `Ok((None, _))` means that the client was silent, or undecided, for the whole `timeout`. Not cancel safe: what was
/// read is lost.
pub async fn detect(
    io: &mut (impl AsyncRead + Unpin),
    timeout: Duration,
) -> Result<(Option<Detected>, Bytes), Error> {
    let mut buf = BytesMut::with_capacity(CAPACITY);
    let decided = tokio::time::timeout(timeout, async {
        loop {
            let count = io.read_buf(&mut buf).await.map_err(closed)?;
            match (classify(&buf), count) {
                (Some(detected), _) => return Ok(detected),
                (None, 0) if buf.is_empty() => {
                    return Err(Error::new(Reason::ClosedBeforeDetection));
                }
                (None, 0) => return Ok(Detected::Opaque),
                (None, _) if buf.len() >= CAPACITY => return Ok(Detected::Http1),
                (None, _) => {}
            }
        }
    })
    .await;
    match decided {
        Ok(Ok(detected)) => Ok((Some(detected), buf.freeze())),
        Ok(Err(error)) => Err(error),
        Err(_) => Ok((None, buf.freeze())),
    }
}

/// Detects as [`detect`] does, until the proxy begins to end: a client that has not said anything by then is let go,
/// as an idle one would be.
pub async fn detect_until_drain(
    io: &mut (impl AsyncRead + Unpin),
    timeout: Duration,
    drain: &mut drain::Handle,
) -> Result<(Option<Detected>, Bytes), Error> {
    tokio::select! {
        biased;
        detected = detect(io, timeout) => detected,
        () = drain.signaled() => {
            let detail = "the proxy is shutting down";
            Err(Error::new(Reason::ClosedBeforeDetection).detail(detail))
        }
    }
}

/// Decides by what was read so far; `None` asks for more.
///
/// A request line that is cut short is undecided as long as it may still become one: a client may write byte by byte.
pub fn classify(buf: &[u8]) -> Option<Detected> {
    let known = buf.len().min(PREFACE.len());
    if buf[..known] == PREFACE[..known] {
        return (known == PREFACE.len()).then_some(Detected::Http2);
    }
    // Only the request line tells. What is wrong with the rest is for the server to answer, however it was cut in pieces.
    let is_blank = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let blank = buf.iter().take_while(|byte| is_blank(byte)).count();
    let end = buf[blank..].iter().position(|byte| *byte == b'\n');
    let line = end.map_or(buf, |end| &buf[..=blank + end]);
    match httparse::Request::new(&mut []).parse(line) {
        Ok(_) => end.map(|_| Detected::Http1),
        Err(_) => Some(Detected::Opaque),
    }
}

fn closed(error: std::io::Error) -> Error {
    Error::new(Reason::ClosedBeforeDetection)
        .detail(error.to_string())
        .source(error)
}

/// The start of the HTTP/2 preface (RFC 9113, section 3.4) that no HTTP/1 request shares.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// What is read at most before deciding. A request line that is longer and well-formed so far is HTTP/1.
const CAPACITY: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn knows_http_from_its_first_line() {
        for (bytes, expected) in [
            (&b"GET / HTTP/1.1\r\n"[..], Some(Detected::Http1)),
            (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", Some(Detected::Http1)),
            (
                b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
                Some(Detected::Http1),
            ),
            (b"GET / HTTP/1.1\r\nhost: a\x18b\r\n", Some(Detected::Http1)),
            (b"\r\n\nGET / HTTP/1.1\r\n", Some(Detected::Http1)),
            (b"\r\n", None),
            (b"\r\nQUIT\r\n", Some(Detected::Opaque)),
            (b"GET / HT", None),
            (b"P", None),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(Detected::Http2)),
            (b"PRI * HTTP", None),
            (b"PRIVMSG #rust :hello\r\n", Some(Detected::Opaque)),
            (b"\x16\x03\x01\x02\x00", Some(Detected::Opaque)),
            (b"QUIT\r\n", Some(Detected::Opaque)),
            (b"", None),
        ] {
            assert_eq!(
                classify(bytes),
                expected,
                "{:?}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    #[tokio::test]
    async fn a_request_in_pieces_is_put_together() {
        let mut io = tokio_test::io::Builder::new()
            .read(b"GE")
            .read(b"T / HTTP/1.1\r\n")
            .build();
        let (detected, read) = detect(&mut io, Duration::from_secs(10)).await.unwrap();
        assert_eq!(detected, Some(Detected::Http1));
        assert_eq!(&read[..], b"GET / HTTP/1.1\r\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_given_up_at_the_timeout() {
        let mut io = tokio_test::io::Builder::new()
            .wait(Duration::from_secs(60))
            .build();
        let (detected, read) = detect(&mut io, Duration::from_secs(10)).await.unwrap();
        assert_eq!((detected, read.len()), (None, 0));
    }

    #[tokio::test]
    async fn a_client_that_leaves_is_an_error() {
        let mut io = tokio_test::io::Builder::new().build();
        let error = detect(&mut io, Duration::from_secs(10)).await.unwrap_err();
        assert_eq!(error.reason(), Reason::ClosedBeforeDetection);
    }

    proptest! {
        #[test]
        fn more_bytes_never_change_a_decision(bytes: Vec<u8>, cut: usize) {
            let cut = cut % (bytes.len() + 1);
            if let Some(decided) = classify(&bytes[..cut]) {
                prop_assert_eq!(classify(&bytes), Some(decided));
            }
        }
    }
}
