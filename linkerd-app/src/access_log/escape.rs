//! Values of lines: texts from peers, numbers, addresses.
//!
//! A value cannot end its line or its quotes: control bytes, quotes, backslashes and all that is not ASCII are escaped, and
//! longer values are cut.

use crate::utc::pair;

use std::{
    io::Write,
    net::{IpAddr, SocketAddr},
};

/// The form of escaped bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// As in JSON: `\u000a`.
    Json,
    /// As in Apache's logs: `\x0a`.
    Hex,
}

/// Adds a text of at most `max` bytes. The rest of a longer one is replaced by `...`.
#[inline]
pub fn push_text(out: &mut Vec<u8>, text: &[u8], max: usize, escape: Escape) {
    if text.len() <= max && are_plain(text) {
        out.extend_from_slice(text);
    } else {
        push_hostile(out, text, max, escape);
    }
}

/// Adds a text that is too long, or has bytes to be escaped.
#[cold]
fn push_hostile(out: &mut Vec<u8>, text: &[u8], max: usize, escape: Escape) {
    for byte in text.iter().take(max) {
        match is_plain(*byte) {
            true => out.push(*byte),
            false => push_escaped(out, *byte, escape),
        }
    }
    if text.len() > max {
        out.extend_from_slice(b"...");
    }
}

/// Adds a number in decimal.
#[inline]
pub fn push_number(out: &mut Vec<u8>, number: u64) {
    match number {
        // One digit: the sum is below 0x3a.
        0..10 => out.push(b'0' + number as u8),
        10..10_000 => push_short(out, number),
        _ => {
            push_number(out, number / 10_000);
            out.extend_from_slice(&four_digits(number % 10_000));
        }
    }
}

/// Adds a number of two to four digits: four bytes, the last of which are cut off again. A copy of unknown length is a call.
fn push_short(out: &mut Vec<u8>, number: u64) {
    let zeros = match number {
        0..100 => 2,
        100..1000 => 1,
        _ => 0,
    };
    let digits = u32::from_be_bytes(four_digits(number)) << (8 * zeros);
    out.extend_from_slice(&digits.to_be_bytes());
    out.truncate(out.len() - zeros);
}

/// The digits of a number below 10,000, with zeros before it.
fn four_digits(number: u64) -> [u8; 4] {
    let ([a, b], [c, d]) = (*pair(number / 100), *pair(number % 100));
    [a, b, c, d]
}

/// Adds `IP:PORT`. Formatting an IPv4 address by its `Display` would take a fifth of a line's time.
pub fn push_addr(out: &mut Vec<u8>, addr: SocketAddr) {
    let IpAddr::V4(ip) = addr.ip() else {
        // A write to a vector does not fail.
        let _ = write!(out, "{addr}");
        return;
    };
    for (index, octet) in ip.octets().into_iter().enumerate() {
        if index > 0 {
            out.push(b'.');
        }
        push_number(out, octet.into());
    }
    out.push(b':');
    push_number(out, addr.port().into());
}

/// Whether a byte is printable ASCII, and neither a quote nor a backslash.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..0x7f) && !matches!(byte, b'"' | b'\\')
}

/// Whether all bytes are plain. Eight at a time: a line has some 200 bytes from peers, and almost all of them are plain.
#[inline]
fn are_plain(text: &[u8]) -> bool {
    // The last eight of a longer text overlap those before.
    let Some(last) = text.last_chunk() else {
        return text.iter().all(|byte| is_plain(*byte));
    };
    let (words, _) = text.as_chunks::<8>();
    let special = |all, word: &[u8; 8]| all | special_bytes(u64::from_ne_bytes(*word));
    words.iter().fold(special(0, last), special) == 0
}

/// Marks each byte of eight that is not plain by its highest bit. No sum carries over to the next byte, as each is of seven bits.
fn special_bytes(word: u64) -> u64 {
    const fn each(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    let low = word & each(0x7f);
    let not_control = low + each(0x80 - b' ');
    let delete = low + each(0x80 - 0x7f);
    let not_quote = (low ^ each(b'"')) + each(0x7f);
    let not_backslash = (low ^ each(b'\\')) + each(0x7f);
    (word | delete | !(not_control & not_quote & not_backslash)) & each(0x80)
}

fn push_escaped(out: &mut Vec<u8>, byte: u8, escape: Escape) {
    if matches!(byte, b'"' | b'\\') {
        out.extend_from_slice(&[b'\\', byte]);
        return;
    }
    out.extend_from_slice(match escape {
        Escape::Json => b"\\u00",
        Escape::Hex => b"\\x",
    });
    for digit in [byte >> 4, byte & 15] {
        out.push(b"0123456789abcdef"[usize::from(digit)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &[u8], max: usize, escape: Escape) -> String {
        let mut out = Vec::new();
        push_text(&mut out, text, max, escape);
        String::from_utf8(out).expect("lines are ASCII")
    }

    #[test]
    fn bytes_that_could_end_a_value_or_a_line_are_escaped() {
        let hostile = b"a\" 200\r\n\x1b[31m\\ \xff\x7f\0";
        assert_eq!(
            text(hostile, 99, Escape::Json),
            r#"a\" 200\u000d\u000a\u001b[31m\\ \u00ff\u007f\u0000"#
        );
        assert_eq!(
            text(hostile, 99, Escape::Hex),
            r#"a\" 200\x0d\x0a\x1b[31m\\ \xff\x7f\x00"#
        );
    }

    #[test]
    fn eight_bytes_are_looked_at_as_each_one() {
        for byte in 0..=u8::MAX {
            for at in 0..8 {
                let mut word = *b"aaaaaaaa";
                word[at] = byte;
                assert_eq!(are_plain(&word), is_plain(byte), "{byte} at {at}");
                let longer = [&word[..], b"bc"].concat();
                assert_eq!(are_plain(&longer), is_plain(byte), "{byte} at {at}");
                let shorter = &word[..=at];
                assert_eq!(are_plain(shorter), is_plain(byte), "{byte} at {at}");
            }
        }
    }

    #[test]
    fn numbers_and_addresses() {
        for number in [
            0,
            7,
            10,
            99,
            100,
            101,
            999,
            1000,
            1234,
            9999,
            10_000,
            10_007,
            100_000,
            99_999_999,
            100_000_000,
            u64::MAX,
        ] {
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
        }
        for addr in ["1.20.255.0:80", "[2001:db8::1]:65535"] {
            let mut out = Vec::new();
            push_addr(&mut out, addr.parse().unwrap());
            assert_eq!(out, addr.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_stay_on_one_line_in_their_quotes(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            max in 0usize..100,
        ) {
            for escape in [Escape::Json, Escape::Hex] {
                let text = text(&bytes, max, escape);
                prop_assert!(text.bytes().all(|byte| (b' '..0x7f).contains(&byte)));
                prop_assert!(text.len() <= max * 6 + 3);
                let mut quoted = text.bytes();
                while let Some(byte) = quoted.next() {
                    prop_assert_ne!(byte, b'"');
                    if byte == b'\\' {
                        prop_assert!(quoted.next().is_some());
                    }
                }
            }
        }

        #[test]
        fn json_reads_the_same_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let json = format!("\"{}\"", text(&bytes, 200, Escape::Json));
            let read: String = serde_json::from_str(&json).unwrap();
            // Each byte is a character of Latin-1.
            let written: String = bytes.into_iter().map(char::from).collect();
            prop_assert_eq!(read, written);
        }
    }
}
