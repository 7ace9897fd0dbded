//! Two tables: lines that real servers read as requests, and first messages of real protocols.

use super::*;
use proptest::prelude::*;

#[test]
fn lines_that_servers_read_as_requests_are_requests() {
    for (line, server) in [
        (&b"GET / HTTP/1.1"[..], "all"),
        (b"GET  / HTTP/1.1", "most"),
        (b"GET\t/\x0bHTTP/1.1\x0c", "most"),
        (b" GET / HTTP/1.1", "some"),
        (
            b"GET\r/ HTTP/1.1",
            "RFC 9112 allows a bare CR for whitespace",
        ),
        (b"get / http/1.1", "Netty"),
        (b"\0GET / HTTP/1.1", "Netty"),
        (b"\x01\x7f\x85GET / HTTP/1.1", "Netty"),
        (b"GET / HTTP/1.1\0", "Netty"),
        (b"GET / FOO/1.1", "Netty"),
        (b"DESCRIBE / RTSP/1.0", "Netty"),
        (b"GET rtsp://x/ RTSP/1.0", "Netty"),
        (b"get * RTSP/1.0", "Netty"),
        (b"\xe9\"G /\x85x RTSP/1.0\0", "Netty"),
        (b"CONNECT { KHTTP/1.1", "Netty"),
        (b"}\x1b / FOO/1.1", "Netty"),
        (b"\xef\xbb\xbf / HTTP/1.1", "cheroot"),
        (b"\xef\xbb\xbf\x0e / FOO/1.1", "Netty"),
        (b"GET \x87", "http.server"),
        (b"G{ET / HTTP/1.1", "cheroot"),
        (b"GET / HTTP/1.1 y", "cheroot"),
        (b"GET / HTTP/1.1\"", "cheroot"),
        (b"GET /a\tb HTTP/1.1 y", "cheroot"),
        (b"FOO\t/\tHTTP/1.1 y", "gunicorn"),
        (b"\xef\xbb\xbfGET / HTTP/1.1", "a byte-order mark"),
        (b"GET\x1c/\x1fHTTP/1.1", "Python"),
        (b"GET\xa0/\x85HTTP/1.1", "Python"),
        (b"GET / HTTP/+1.1", "Python"),
        (b"GET\xad/\xadHTTP/1.1", "an unknown separator"),
        (b"GET x", "http.server"),
        (b"GET ?x", "werkzeug"),
        (b"GET\x1cx", "http.server"),
        (b"HEAD x", "WEBrick"),
        (b"POST /x", "Node.js"),
        (b"CONNECT app:80", "Node.js"),
        (b"PRI * HTTP/2.0", "HTTP/2"),
    ] {
        let text = line.escape_ascii();
        assert!(is_request_line(line, true), "{text} ({server})");
    }
}

#[test]
fn lines_of_other_protocols_are_none() {
    for line in [
        &b"EHLO mail.example"[..],
        b"PING",
        b"GET",
        b"SSH-2.0-OpenSSH_9.6",
        b"NICK http/1.1",
        b"get /key",
        b"MODE /x",
        b"OPTIONS rtsp://camera/1 RTSP/1.0",
        b"DESCRIBE rtsp://camera/1 RTSP/1.0",
        b"OPTIONS * RTSP/1.0",
        b"INVITE sip:bob@example.com SIP/2.0",
        b"REQMOD icap://icap.example/mod ICAP/1.0",
        b"CONNECT {\"verbose\":false}",
        b"HTTP/1.1 200 OK",
        b"127.0.0.1 - - [25/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5",
        b"<34>1 2026-11-25T10:00:00Z host app - - \"GET / HTTP/1.1\"",
        b"{\"status\": 200, \"request\": \"GET / HTTP/1.1\"}",
        b"msg=x proto=HTTP/1.1",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2",
        b"*1",
        b"$4",
        b"AMQP\0\0\x09\x01",
        b"8=FIX.4.4\x019=65\x0135=A",
        // The first message of a TLS client, up to the identifier of its supported groups.
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a b\x00\x10\x00\x0e\x00\x0c\x02h2\x08http/1.1\x00",
    ] {
        let text = line.escape_ascii();
        assert!(!is_request_line(line, true), "{text}");
    }
}

#[test]
fn later_lines_need_a_version() {
    for (line, expected) in [
        (&b"GET / HTTP/1.1"[..], true),
        (b"\x21\x11\0\x0cabcdGET / HTTP/1.1", true),
        (b"GET x", false),
        (b"HTTP/1.1", false),
        (b"upgrade HTTP/2.0", false),
        (b"POST", false),
    ] {
        assert_eq!(
            is_request_line(line, false),
            expected,
            "{}",
            line.escape_ascii()
        );
    }
}

proptest! {
    /// A model of leniency: any method, any separators of any server, skipped bytes before, stripped bytes behind.
    #[test]
    fn a_request_is_found_however_lenient_its_server_is(
        before in "[\\x00-\\x20\\x7f]{0,4}",
        method in "[!-~]{1,10}",
        separators in prop::array::uniform2(prop::sample::select(vec![
            &b" "[..], b"  ", b"\t", b"\x0b", b"\x0c", b"\r", b"\x1c", b"\x1f", b"\x85", b"\xa0", b" \t ",
        ])),
        target in "[!-~]{1,20}",
        version in "(HTTP|http|Http)/[0-9][.][0-9]",
        behind in "[\\x00-\\x20]{0,3}",
    ) {
        let line = [
            before.as_bytes(), method.as_bytes(), separators[0], target.as_bytes(), separators[1],
            version.as_bytes(), behind.as_bytes(),
        ].concat();
        prop_assert!(is_request_line(&line, true), "{}", line.escape_ascii());
    }

    #[test]
    fn http_0_9_is_found(
        before in "[\\x00-\\x20]{0,4}",
        separator in "[ \\t\\x0b\\x0c\\x1c-\\x1f]{1,3}",
        target in "[!-z|}~][!-~]{0,20}",
    ) {
        let line = format!("{before}GET{separator}{target}");
        prop_assert!(is_request_line(line.as_bytes(), true), "{line:?}");
    }
}
