//! Protocol detection by the first bytes of a client.

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

/// Treatment of a first line that resembles a request line but is not one by the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookalikes {
    /// Treated as HTTP, so that no less strict server reads a request that bypassed the proxy's checks.
    Http,
    /// Treated as another protocol.
    Opaque,
}

/// Reads until the protocol is certain; returns it with the bytes that were read.
///
/// `Ok((None, _))` if the client was silent, or undecided, for the whole `timeout`; if lookalikes are HTTP and a request
/// line has begun, fails as `HeaderTimeout`. Not cancel safe: bytes that were read are lost.
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
                (None, 0) => return Ok(Detected::Opaque),
                (None, _) => {}
            }
        }
    })
    .await;
    match decided {
        Ok(Ok(detected)) => Ok((Some(detected), buf.freeze())),
        Ok(Err(error)) => Err(error),
        Err(_) if lookalikes == Lookalikes::Http && !buf.is_empty() => {
            let detail = format!("a request line was begun and not ended within {timeout:?}");
            Err(Error::new(Reason::HeaderTimeout).detail(detail))
        }
        Err(_) => Ok((None, buf.freeze())),
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
    let is_long = buf.len() >= CAPACITY;
    classify(buf, lookalikes).or_else(|| is_long.then(|| overlong(buf, lookalikes)))
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
        Lookalikes::Http => resembling(buf),
        Lookalikes::Opaque => exact(buf),
    }
}

/// A request line by the grammar (RFC 9112, section 3).
fn exact(buf: &[u8]) -> Option<Detected> {
    // The request line alone decides. The server answers errors in the rest, however the bytes were cut.
    let is_blank = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let blank = buf.iter().take_while(|byte| is_blank(byte)).count();
    let end = buf[blank..].iter().position(|byte| *byte == b'\n');
    let line = end.map_or(buf, |end| &buf[..=blank + end]);
    match httparse::Request::new(&mut []).parse(line) {
        Ok(_) => end.map(|_| Detected::Http1),
        Err(_) => Some(Detected::Opaque),
    }
}

/// A line that any server might read as a request line: a word, and later a word that begins with `HTTP/` in upper or
/// lower case, separated by any whitespace (RFC 9112, section 3, allows recipients that much). Without a version, as in
/// HTTP/0.9, the first word must be a known method and the second a path or a URI: some servers, Node.js and Python
/// among them, read fields after such a line.
fn resembling(buf: &[u8]) -> Option<Detected> {
    let blank = buf.iter().take_while(|byte| is_space(byte)).count();
    let text = &buf[blank..];
    let method = text.iter().take_while(|byte| is_token(byte)).count();
    match text.get(method) {
        // The word may go on.
        None => None,
        Some(byte) if method == 0 || !is_space(byte) => Some(Detected::Opaque),
        Some(_) => {
            let end = text.iter().position(|byte| *byte == b'\n')?;
            let words = text[method..end].split(is_space);
            let mut words = words.filter(|word| !word.is_empty()).peekable();
            let is_simple = is_known_method(&text[..method])
                && words.peek().is_some_and(|target| is_target(target));
            Some(match is_simple || words.any(is_version) {
                true => Detected::Http1,
                false => Detected::Opaque,
            })
        }
    }
}

/// A line without an end within the capacity: the server answers an over-long request line. Prose is not a request line unless
/// it begins like one; a word without an end may be a method, for a server that accepts any method.
fn overlong(buf: &[u8], lookalikes: Lookalikes) -> Detected {
    let mut words = buf.split(is_space).filter(|word| !word.is_empty());
    let (method, target) = (words.next(), words.next());
    let is_known = |method: &[u8]| is_known_method(&method.to_ascii_uppercase());
    let begins_as_request = target.is_none_or(is_target) || method.is_some_and(is_known);
    match lookalikes {
        Lookalikes::Http if !begins_as_request => Detected::Opaque,
        _ => Detected::Http1,
    }
}

fn is_version(word: &[u8]) -> bool {
    let start = word.get(..VERSION.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(VERSION))
}

fn is_known_method(word: &[u8]) -> bool {
    METHODS.iter().any(|method| method.as_bytes() == word)
}

/// Whether a word is a path or a URI.
fn is_target(word: &[u8]) -> bool {
    word.starts_with(b"/") || word.windows(3).any(|part| part == b"://")
}

/// A byte that servers may take for a separator.
fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c)
}

/// The characters of a method (RFC 9110, section 5.6.2).
fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

fn closed(error: std::io::Error) -> Error {
    Error::new(Reason::ClosedBeforeDetection)
        .detail(error.to_string())
        .source(error)
}

/// The start of the HTTP/2 preface (RFC 9113, section 3.4) that no HTTP/1 request shares.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// The start of a version in a request line.
const VERSION: &[u8] = b"HTTP/";

/// The methods of RFC 9110, section 9, and PATCH.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];

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
    fn what_looks_like_a_request_line_is_http_where_that_matters() {
        for line in [
            "GET  / HTTP/1.1\r\n",
            "GET\t/\tHTTP/1.1\r\n",
            "get / http/1.1\r\n",
            "GET / HTTP/1.7\r\n",
            "GET / HTTP/2.0\r\n",
            "GET / HTTP/1.1 \r\n",
            " GET / HTTP/1.1\r\n",
            "\tGET / HTTP/1.1\n",
            "GET\x0b/\x0cHTTP/1.1\r\n",
            "GET /\x01 HTTP/1.1\r\n",
            "GET / x HTTP/1.1 y\r\n",
            "GET\r/ HTTP/1.1\r\n",
            // HTTP/0.9; some servers read fields after it.
            "GET /\r\n",
            "POST  /x  \n",
            "GET http://app/\r\n",
        ] {
            let strict = classify(line.as_bytes(), Lookalikes::Http);
            assert_eq!(strict, Some(Detected::Http1), "{line:?}");
            // Undecided before its end: more bytes might come after a pause.
            for cut in 0..line.len() {
                let begun = classify(&line.as_bytes()[..cut], Lookalikes::Http);
                assert_eq!(begun, None, "{:?}", &line[..cut]);
            }
        }
        for line in [
            "EHLO mail.example\r\n",
            "PING\r\n",
            "SSH-2.0-OpenSSH_9.6\r\n",
            "NICK http/1.1x\n",
            "get /key\r\n",
            "MODE /x\r\n",
            "AMQP\0\0\x09\x01",
            "\x16\x03\x01",
            "*1\r\n$4\r\nPING\r\n",
            "8=FIX.4.4\x019=",
        ] {
            let strict = classify(line.as_bytes(), Lookalikes::Http);
            let is_http = line.contains("http/");
            let expected = if is_http {
                Detected::Http1
            } else {
                Detected::Opaque
            };
            assert_eq!(strict, Some(expected), "{line:?}");
        }
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
            ("A", Detected::Http1),
            ("GET /", Detected::Http1),
            ("X  http://web/", Detected::Http1),
            ("get a b ", Detected::Http1),
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
        fn more_bytes_never_change_a_decision(bytes: Vec<u8>, cut: usize) {
            let cut = cut % (bytes.len() + 1);
            for lookalikes in [Lookalikes::Http, Lookalikes::Opaque] {
                if let Some(decided) = classify(&bytes[..cut], lookalikes) {
                    prop_assert_eq!(classify(&bytes, lookalikes), Some(decided));
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
