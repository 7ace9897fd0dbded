//! `grpc-trace-bin`: the binary context of OpenCensus
//! (<https://github.com/census-instrumentation/opencensus-specs/blob/master/encodings/BinaryEncoding.md>).

use super::ids::{SpanId, TraceId};
use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Reads version 0: the fields 0 (trace, 16 bytes), 1 (span, 8 bytes) and, if present, 2 (flags, 1 byte).
pub(super) fn read(value: &[u8]) -> Option<(TraceId, SpanId, u8)> {
    let mut bytes = [0; DECODED];
    let len = match value.len() <= ENCODED {
        true => BASE64.decode_slice(value, &mut bytes).ok()?,
        false => return None,
    };
    let (flags, bytes) = match &bytes[..len] {
        [head @ .., 2, flags] if len == LEN => (*flags, head),
        head if len == LEN - 2 => (0, head),
        _ => return None,
    };
    let [0, 0, rest @ ..] = bytes else {
        return None;
    };
    let (trace, rest) = rest.split_first_chunk::<16>()?;
    let [1, rest @ ..] = rest else {
        return None;
    };
    let span = rest.first_chunk::<8>()?;
    Some((TraceId::new(*trace)?, SpanId::new(*span)?, flags))
}

/// Makes a span the parent of the next one.
pub(super) fn write(headers: &mut HeaderMap, trace: TraceId, span: SpanId, flags: u8) {
    let mut bytes = [0; LEN];
    bytes[2..18].copy_from_slice(trace.bytes());
    bytes[18] = 1;
    bytes[19..27].copy_from_slice(span.bytes());
    (bytes[27], bytes[28]) = (2, flags);
    let text = BASE64.encode(bytes);
    let value = HeaderValue::try_from(text).expect("base64 is a header value");
    headers.insert(GRPC_TRACE_BIN, value);
}

pub(super) const GRPC_TRACE_BIN: HeaderName = HeaderName::from_static("grpc-trace-bin");

/// gRPC omits padding, and accepts it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The bytes of a context with all its fields.
const LEN: usize = 29;
/// The length of these bytes in Base64 with padding.
const ENCODED: usize = 40;
/// Room for the decoder, which writes whole groups.
const DECODED: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids() -> (TraceId, SpanId) {
        let trace = TraceId::new(std::array::from_fn(|byte| byte as u8 + 1)).unwrap();
        let span = SpanId::new(std::array::from_fn(|byte| byte as u8 + 100)).unwrap();
        (trace, span)
    }

    #[test]
    fn what_is_written_is_read_with_and_without_padding() {
        let (trace, span) = ids();
        let mut headers = HeaderMap::new();
        write(&mut headers, trace, span, 1);
        let text = headers[GRPC_TRACE_BIN].to_str().unwrap().to_owned();
        assert_eq!(read(text.as_bytes()), Some((trace, span, 1)));
        assert_eq!(read(format!("{text}=").as_bytes()), Some((trace, span, 1)));
    }

    #[test]
    fn flags_may_be_missing_and_other_forms_are_refused() {
        let (trace, span) = ids();
        let mut bytes = [&[0, 0][..], trace.bytes(), &[1], span.bytes()].concat();
        assert_eq!(
            read(BASE64.encode(&bytes).as_bytes()),
            Some((trace, span, 0))
        );
        bytes[0] = 1;
        assert_eq!(
            read(BASE64.encode(&bytes).as_bytes()),
            None,
            "another version"
        );
        bytes[0] = 0;
        bytes.pop();
        assert_eq!(read(BASE64.encode(&bytes).as_bytes()), None, "too short");
        for text in ["", "=", "AAAA", "no base64!", &"A".repeat(100)] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = read(&value);
            let _ = read(BASE64.encode(&value).as_bytes());
        }
    }
}
