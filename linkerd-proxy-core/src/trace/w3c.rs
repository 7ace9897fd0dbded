//! W3C Trace Context, level 1: `traceparent` and `tracestate` (<https://www.w3.org/TR/trace-context-1/>).

use super::ids::{HexCase, SpanId, TraceId, read_hex, write_hex};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The fields of a valid `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceParent {
    pub(super) trace: TraceId,
    pub(super) parent: SpanId,
    pub(super) flags: u8,
}

impl TraceParent {
    /// Reads `00-<32 digits>-<16 digits>-<2 digits>`. For a later version only these parts are read (section 4.3).
    pub(super) fn read(value: &[u8]) -> Option<Self> {
        let head = value.first_chunk::<LEN>()?;
        if head[2] != b'-' || head[35] != b'-' || head[52] != b'-' {
            return None;
        }
        let mut version = [0];
        read_hex(&head[..2], &mut version, HexCase::Lower)?;
        match (version[0], value.get(LEN)) {
            (0xff, _) | (0, Some(_)) => return None,
            (_, Some(next)) if *next != b'-' => return None,
            _ => {}
        }
        let mut flags = [0];
        read_hex(&head[53..55], &mut flags, HexCase::Lower)?;
        Some(Self {
            trace: TraceId::from_hex(&head[3..35], HexCase::Lower)?,
            parent: SpanId::from_hex(&head[36..52], HexCase::Lower)?,
            flags: flags[0],
        })
    }
}

/// Makes a span the parent of the next one.
pub(super) fn write(headers: &mut HeaderMap, trace: TraceId, span: SpanId, flags: u8) {
    let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
    write_hex(trace.bytes(), &mut text[3..35]);
    write_hex(span.bytes(), &mut text[36..52]);
    write_hex(&[flags & KNOWN_FLAGS], &mut text[53..55]);
    let value = HeaderValue::from_bytes(&text).expect("digits and dashes are a header value");
    headers.insert(TRACEPARENT, value);
}

pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(super) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// `sampled`, and `random-trace-id` of level 2. Other flags are written as 0 (section 3.2.2.5.2).
const KNOWN_FLAGS: u8 = 3;
/// The bytes of a `traceparent` of version 00.
const LEN: usize = 55;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_is_read_strictly() {
        let read = TraceParent::read(VALID.as_bytes()).unwrap();
        assert_eq!(read.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(read.parent.to_string(), "b7ad6b7169203331");
        assert_eq!(read.flags, 1);
        for later in [
            VALID.replacen("00", "01", 1),
            VALID.replacen("00", "cc", 1) + "-more",
        ] {
            assert_eq!(TraceParent::read(later.as_bytes()), Some(read), "{later}");
        }
        for broken in [
            "",
            "00",
            &VALID[..54],
            &format!("{VALID}-more"),
            &format!("{VALID}0"),
            &VALID.replacen("00", "01", 1).replace("-01", "-010"),
            &VALID.replacen("00", "ff", 1),
            &VALID.replace("0af7", "0AF7"),
            &VALID.replace("0af7", "0zf7"),
            &VALID.replace("-01", "-0x"),
            &VALID.replace("-01", "_01"),
            &VALID.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &VALID.replace("b7ad6b7169203331", &"0".repeat(16)),
        ] {
            assert_eq!(TraceParent::read(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn unknown_flags_are_not_written() {
        let read = TraceParent::read(VALID.as_bytes()).unwrap();
        let mut headers = HeaderMap::new();
        write(&mut headers, read.trace, read.parent, 0xff);
        assert_eq!(headers[TRACEPARENT], VALID.replace("-01", "-03"));
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(value in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = TraceParent::read(&value);
        }

        #[test]
        fn a_changed_byte_is_noticed_or_part_of_the_value(at in 0..55usize, byte: u8) {
            let mut value = VALID.as_bytes().to_vec();
            value[at] = byte;
            if let Some(read) = TraceParent::read(&value) {
                let mut headers = HeaderMap::new();
                write(&mut headers, read.trace, read.parent, read.flags);
                let written = headers[TRACEPARENT].as_bytes();
                prop_assert_eq!(&written[2..53], &value[2..53]);
            }
        }
    }
}
