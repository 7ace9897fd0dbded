use super::*;
use proptest::prelude::*;

fn scanned(pieces: &[&[u8]]) -> Option<usize> {
    let mut scan = RequestScan::new(FirstServerBytes::EndSearch);
    pieces
        .iter()
        .position(|piece| scan.scan(piece) == Scanned::RequestLine)
}

fn v2(body: usize) -> Vec<u8> {
    let length = u16::try_from(body).unwrap().to_be_bytes();
    [
        &PROXY_SIGNATURE[..],
        b"\x21\x11",
        &length,
        &vec![b'a'; body],
    ]
    .concat()
}

#[test]
fn a_request_is_found_wherever_it_begins() {
    let request = b"GET / HTTP/1.1\r\n";
    for (before, name) in [
        (vec![], "at once"),
        (
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n".to_vec(),
            "behind a header of PROXY, version 1",
        ),
        (v2(12), "version 2"),
        (v2(0), "version 2, empty"),
        (v2(60_000), "version 2, long"),
        (vec![0; 100_000], "behind bytes that are skipped"),
        (
            b"\r\n\r\n\0\r\nQU".to_vec(),
            "behind the beginning of a signature",
        ),
        (b"hello\n".to_vec(), "behind another line"),
    ] {
        let all = [&before[..], request].concat();
        assert_eq!(scanned(&[&all]), Some(0), "{name}");
        assert_eq!(scanned(&[&before, request]), Some(1), "{name}");
    }
    let behind_header = [&b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"[..], b"GET x\r\n"].concat();
    assert_eq!(scanned(&[&behind_header]), Some(0));
}

#[test]
fn a_long_first_line_is_searched_and_later_bytes_are_not() {
    let long = [b"G{ET /".to_vec(), vec![b'a'; 20_000]].concat();
    assert_eq!(scanned(&[&long, b" HTTP/1.1\r\n"]), Some(1));
    assert_eq!(scanned(&[&long, b" HTT", b"P/1.1\r\n"]), Some(2));
    let binary = vec![b'a'; 100_000];
    assert_eq!(scanned(&[&binary, b" / HTTP/1.1\r\n"]), None);
    let lines = b"hello\n".repeat(200);
    assert_eq!(scanned(&[&lines, b"GET / HTTP/1.1\r\n"]), None);
}

#[test]
fn the_memory_of_a_search_is_bounded() {
    for byte in [b'a', 0, b'\n'] {
        let mut scan = RequestScan::new(FirstServerBytes::Ignore);
        for _ in 0..1_000 {
            let _ = scan.scan(&[byte; 1_000]);
            assert!(scan.line.capacity() <= 2 * LIMIT && scan.kept.len() <= LIMIT);
        }
        assert_eq!(
            scan.is_over(),
            byte == b'a',
            "other bytes may still be skipped by a server"
        );
        assert_eq!(scan.into_bytes(), None);
    }
}

#[test]
fn a_server_that_speaks_first_ends_the_search_except_in_a_tunnel() {
    for (server, expected) in [
        (FirstServerBytes::EndSearch, Scanned::Pass),
        (FirstServerBytes::Ignore, Scanned::RequestLine),
    ] {
        let mut scan = RequestScan::new(server);
        scan.server_spoke();
        assert_eq!(scan.scan(b"GET / HTTP/1.1\n"), expected);
        let mut later = RequestScan::new(server);
        let _ = later.scan(b"G");
        later.server_spoke();
        assert_eq!(later.scan(b"ET / HTTP/1.1\n"), Scanned::RequestLine);
    }
}

proptest! {
    #[test]
    fn pieces_do_not_matter(bytes: Vec<u8>, line in "[ -~]{0,20}( HTTP/1.1)?", at: usize, cut: usize) {
        let at = at % (bytes.len() + 1);
        let all = [&bytes[..at], line.as_bytes(), b"\n", &bytes[at..]].concat();
        let cut = cut % (all.len() + 1);
        let whole = scanned(&[&all]).is_some();
        prop_assert_eq!(whole, scanned(&[&all[..cut], &all[cut..]]).is_some());
    }
}
