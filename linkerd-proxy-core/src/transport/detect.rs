//! Protocol detection by the first bytes of a client.

use super::{
    request_line::{begins_with_method, may_become_method},
    request_scan::{FirstServerBytes, RequestScan, Scanned},
};
use crate::{Error, Reason, drain};
use bytes::{Bytes, BytesMut};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Detected {
    /// HTTP/1.0 or HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// Something else.
    Opaque,
}

/// Treatment of a first line that some server might read as a request line, and that is none by the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookalikes {
    /// Treated as HTTP, so that no less strict server reads a request that bypassed the proxy's checks.
    ///
    /// Bytes of other protocols are `Opaque` at once, though a request line might still follow: they are relayed with a
    /// [`RequestScan`].
    Http,
    /// Treated as another protocol.
    Opaque,
    /// Treated as another protocol, and a request line that is not whole in the first bytes too: so it was before at this destination,
    /// and its rest never came.
    OpaqueUnlessWhole,
}

/// Reads until the protocol is certain; returns it with the bytes that were read.
///
/// `Ok((None, _))` if the client was silent, or undecided, for the whole `timeout`; if lookalikes are HTTP and a request
/// line has begun, fails as `HeaderTimeout`, and a word alone is `Opaque`. Not cancel safe: bytes that were read are lost.
pub async fn detect(
    io: &mut (impl AsyncRead + Unpin),
    timeout: Duration,
    lookalikes: Lookalikes,
) -> Result<(Option<Detected>, Bytes), Error> {
    let mut buf = BytesMut::with_capacity(CAPACITY);
    let decided = tokio::time::timeout(timeout, async {
        loop {
            let count = io.read_buf(&mut buf).await.map_err(closed)?;
            match (decide(&buf, lookalikes), count) {
                (Some(detected), _) => return Ok(detected),
                (None, 0) if buf.is_empty() => {
                    return Err(Error::new(Reason::ClosedBeforeDetection));
                }
                (None, 0) => return Ok(ended(&buf, lookalikes)),
                (None, _) => {}
            }
        }
    })
    .await;
    match (decided, lookalikes) {
        (Ok(Ok(detected)), _) => Ok((Some(detected), buf.freeze())),
        (Ok(Err(error)), _) => Err(error),
        (Err(_), Lookalikes::Http) if begins_with_method(&buf) => {
            let detail = format!("a request line was begun and not ended within {timeout:?}");
            Err(Error::new(Reason::HeaderTimeout).detail(detail))
        }
        (Err(_), Lookalikes::Http) if !buf.is_empty() => Ok((Some(Detected::Opaque), buf.freeze())),
        (Err(_), _) => Ok((None, buf.freeze())),
    }
}

/// Detects as [`detect`] does, but until drain at most: a client that has sent nothing by then is closed like an idle
/// client.
pub async fn detect_until_drain(
    io: &mut (impl AsyncRead + Unpin),
    timeout: Duration,
    lookalikes: Lookalikes,
    drain: &mut drain::Watch,
) -> Result<(Option<Detected>, Bytes), Error> {
    tokio::select! {
        biased;
        detected = detect(io, timeout, lookalikes) => detected,
        () = drain.signaled() => {
            let detail = "the listener is draining";
            Err(Error::new(Reason::ClosedBeforeDetection).detail(detail))
        }
    }
}

/// Decides by the bytes read so far, of which at most 1,024 are needed; `None` asks for more.
pub fn decide(buf: &[u8], lookalikes: Lookalikes) -> Option<Detected> {
    // The server answers an over-long request line.
    let overlong = || (buf.len() >= CAPACITY).then_some(Detected::Http1);
    classify(buf, lookalikes).or_else(overlong)
}

/// Decides by a request line; `None` asks for more.
///
/// An incomplete request line is undecided as long as it may still become valid: a client may write byte by byte.
pub fn classify(buf: &[u8], lookalikes: Lookalikes) -> Option<Detected> {
    let known = buf.len().min(PREFACE.len());
    if buf[..known] == PREFACE[..known] {
        return (known == PREFACE.len()).then_some(Detected::Http2);
    }
    match lookalikes {
        Lookalikes::Http => by_looks(buf),
        Lookalikes::Opaque => by_grammar(buf),
        Lookalikes::OpaqueUnlessWhole if buf.is_empty() => None,
        Lookalikes::OpaqueUnlessWhole => by_grammar(buf).or(Some(Detected::Opaque)),
    }
}

/// A request line by the grammar (RFC 9112, section 3).
fn by_grammar(buf: &[u8]) -> Option<Detected> {
    // The request line alone decides. The server answers errors in the rest, however the bytes were cut.
    let is_blank = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let blank = buf.iter().take_while(|byte| is_blank(byte)).count();
    let end = buf[blank..].iter().position(|byte| *byte == b'\n');
    let line = end.map_or(buf, |end| &buf[..=blank + end]);
    match httparse::Request::new(&mut []).parse(line) {
        Ok(_) if end.is_none() && !may_become_request(&buf[blank..]) => Some(Detected::Opaque),
        Ok(_) => end.map(|_| Detected::Http1),
        Err(_) => Some(Detected::Opaque),
    }
}

/// Whether the beginning of a line is waited for: a known method, a part of one, or any word before a path. Other words are those of
/// other protocols.
fn may_become_request(begun: &[u8]) -> bool {
    let has_path = || {
        let mut words = begun.splitn(2, |byte| *byte == b' ');
        words.nth(1).is_some_and(|target| target.starts_with(b"/"))
    };
    may_become_method(begun) || begins_with_method(begun) || has_path()
}

/// A line that some server might read as a request line. Bytes that cannot begin with a known method are not waited for.
fn by_looks(buf: &[u8]) -> Option<Detected> {
    let mut scan = RequestScan::new(FirstServerBytes::Ignore);
    if scan.scan(buf) == Scanned::RequestLine {
        return Some(Detected::Http1);
    }
    let is_begun = begins_with_method(buf) && !scan.has_line();
    (!is_begun && !may_become_method(buf)).then_some(Detected::Opaque)
}

/// Decides by all that a client has sent before it ended its side without the end of a line.
fn ended(buf: &[u8], lookalikes: Lookalikes) -> Detected {
    match lookalikes == Lookalikes::Http && begins_with_method(buf) {
        true => Detected::Http1,
        false => Detected::Opaque,
    }
}

fn closed(error: std::io::Error) -> Error {
    Error::new(Reason::ClosedBeforeDetection)
        .detail(error.to_string())
        .source(error)
}

/// The start of the HTTP/2 preface (RFC 9113, section 3.4) that no HTTP/1 request shares.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// Bytes read at most before the decision. A longer request line, well-formed so far, counts as HTTP/1.
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
            (b"PUTS", Some(Detected::Opaque)),
            (b"HZX", Some(Detected::Opaque)),
            (b"EHLO client", Some(Detected::Opaque)),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(Detected::Http2)),
            (b"PRI * HTTP", None),
            (b"PRIVMSG #rust :hello\r\n", Some(Detected::Opaque)),
            (b"\x16\x03\x01\x02\x00", Some(Detected::Opaque)),
            (b"QUIT\r\n", Some(Detected::Opaque)),
            (b"", None),
        ] {
            let text = String::from_utf8_lossy(bytes);
            assert_eq!(classify(bytes, Lookalikes::Opaque), expected, "{text:?}");
            assert_eq!(classify(bytes, Lookalikes::Http), expected, "{text:?}");
        }
    }

    #[test]
    fn a_line_that_some_server_reads_as_a_request_is_http_where_that_matters() {
        for line in [
            "GET  / HTTP/1.1\r\n",
            "get / http/1.1\r\n",
            "\0GET / HTTP/1.1\r\n",
            "G{ET / HTTP/1.1\r\n",
            "GET\r/ HTTP/1.1\r\n",
            "GET x\r\n",
            "POST  /x  \n",
        ] {
            let whole = classify(line.as_bytes(), Lookalikes::Http);
            assert_eq!(whole, Some(Detected::Http1), "{line:?}");
        }
        // A known method is waited for; its client may write byte by byte.
        let line = " GET / HTTP/1.1\r\n";
        for cut in 0..line.len() - 1 {
            let begun = classify(&line.as_bytes()[..cut], Lookalikes::Http);
            assert_eq!(begun, None, "{:?}", &line[..cut]);
        }
    }

    #[test]
    fn the_rest_of_a_request_with_an_unknown_method_is_waited_for() {
        assert_eq!(classify(b"PURGE /page HT", Lookalikes::Opaque), None);
    }

    #[test]
    fn what_never_became_a_request_is_not_waited_for_again() {
        for (bytes, expected) in [
            ("", None),
            ("PUT", Some(Detected::Opaque)),
            ("GET / HTTP/1.1\r\n", Some(Detected::Http1)),
        ] {
            let found = classify(bytes.as_bytes(), Lookalikes::OpaqueUnlessWhole);
            assert_eq!(found, expected, "{bytes}");
        }
    }

    #[test]
    fn other_protocols_are_not_waited_for() {
        for bytes in [
            &b"HZX"[..],
            b"\0bytes",
            b"SSH",
            b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00",
            b"PUTS",
            b"get key\r\n",
            b"GET\r\n",
        ] {
            let found = classify(bytes, Lookalikes::Http);
            assert_eq!(found, Some(Detected::Opaque), "{bytes:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_word_alone_is_no_request_at_the_timeout() {
        let mut io = tokio_test::io::Builder::new();
        let mut io = io.read(b"PUT").wait(Duration::from_secs(60)).build();
        let (detected, read) = detect(&mut io, Duration::from_secs(10), Lookalikes::Http)
            .await
            .unwrap();
        assert_eq!((detected, &read[..]), (Some(Detected::Opaque), &b"PUT"[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_in_a_request_line_is_no_way_around_http() {
        let begun = || {
            let mut io = tokio_test::io::Builder::new();
            io.read(b"GET / HT").wait(Duration::from_secs(60)).build()
        };
        let timeout = Duration::from_secs(10);
        let strict = detect(&mut begun(), timeout, Lookalikes::Http).await;
        assert_eq!(strict.unwrap_err().reason(), Reason::HeaderTimeout);
        let (detected, read) = detect(&mut begun(), timeout, Lookalikes::Opaque)
            .await
            .unwrap();
        assert_eq!((detected, &read[..]), (None, &b"GET / HT"[..]));
    }

    #[tokio::test]
    async fn a_request_in_pieces_is_put_together() {
        let mut io = tokio_test::io::Builder::new()
            .read(b"GE")
            .read(b"T / HTTP/1.1\r\n")
            .build();
        let (detected, read) = detect(&mut io, Duration::from_secs(10), Lookalikes::Opaque)
            .await
            .unwrap();
        assert_eq!(detected, Some(Detected::Http1));
        assert_eq!(&read[..], b"GET / HTTP/1.1\r\n");
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_http_if_it_begins_as_a_request() {
        for (begin, expected) in [
            ("GET /", Detected::Http1),
            ("A", Detected::Opaque),
            ("all that is sent", Detected::Opaque),
        ] {
            let line = format!("{begin}{}", "a".repeat(CAPACITY - begin.len()));
            let mut io = tokio_test::io::Builder::new().read(line.as_bytes()).build();
            let detected = detect(&mut io, Duration::from_secs(10), Lookalikes::Http).await;
            let (detected, read) = detected.unwrap();
            assert_eq!(
                (detected, read.len()),
                (Some(expected), CAPACITY),
                "{begin}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_given_up_at_the_timeout() {
        let mut io = tokio_test::io::Builder::new()
            .wait(Duration::from_secs(60))
            .build();
        let (detected, read) = detect(&mut io, Duration::from_secs(10), Lookalikes::Opaque)
            .await
            .unwrap();
        assert_eq!((detected, read.len()), (None, 0));
    }

    #[tokio::test]
    async fn a_client_that_leaves_is_an_error() {
        let mut io = tokio_test::io::Builder::new().build();
        let error = detect(&mut io, Duration::from_secs(10), Lookalikes::Opaque)
            .await
            .unwrap_err();
        assert_eq!(error.reason(), Reason::ClosedBeforeDetection);
    }

    proptest! {
        #[test]
        fn more_bytes_never_change_a_decision_for_http(bytes: Vec<u8>, cut: usize) {
            let cut = cut % (bytes.len() + 1);
            // Other bytes may still turn out to be a request; where that matters, their relay goes on with the search.
            for lookalikes in [Lookalikes::Http, Lookalikes::Opaque] {
                if let Some(http @ (Detected::Http1 | Detected::Http2)) = classify(&bytes[..cut], lookalikes) {
                    prop_assert_eq!(classify(&bytes, lookalikes), Some(http));
                }
            }
        }

        #[test]
        fn what_is_http_by_the_grammar_is_http_by_its_looks(line in "[A-Z]{1,8} /[a-z]{0,9} HTTP/1[.][01]\r\n") {
            let by_grammar = classify(line.as_bytes(), Lookalikes::Opaque);
            prop_assert_eq!(by_grammar, Some(Detected::Http1));
            prop_assert_eq!(classify(line.as_bytes(), Lookalikes::Http), by_grammar);
        }
    }
}
