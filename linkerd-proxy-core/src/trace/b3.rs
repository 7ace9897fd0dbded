//! B3 propagation, with several headers or one (<https://github.com/openzipkin/b3-propagation>).

use super::{
    ids::{HexCase, SpanId, TraceId},
    sampling::Sampling,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Reads the value of the header `b3`: `<trace>-<span>[-<sampling>[-<parent>]]`. A decision alone (`b3: 0`) is not a context.
pub(super) fn read_single(value: &[u8]) -> Option<(TraceId, SpanId, Sampling)> {
    let mut parts = value.split(|byte| *byte == b'-');
    let trace = TraceId::from_hex(parts.next()?, HexCase::Any)?;
    let span = SpanId::from_hex(parts.next()?, HexCase::Any)?;
    let sampling = match parts.next() {
        None => Sampling::Undecided,
        Some(decision) => read_sampling(decision)?,
    };
    if let Some(parent) = parts.next() {
        SpanId::from_hex(parent, HexCase::Any)?;
    }
    parts.next().is_none().then_some((trace, span, sampling))
}

/// Reads the values of `x-b3-traceid`, `x-b3-spanid`, `x-b3-sampled` and `x-b3-flags`.
pub(super) fn read_multi(
    trace: &[u8],
    span: &[u8],
    sampled: Option<&[u8]>,
    flags: Option<&[u8]>,
) -> Option<(TraceId, SpanId, Sampling)> {
    let trace = TraceId::from_hex(trace, HexCase::Any)?;
    let span = SpanId::from_hex(span, HexCase::Any)?;
    let sampling = match (flags, sampled) {
        // Debug implies an accept decision.
        (Some(b"1"), _) => Sampling::Sampled,
        (_, None) => Sampling::Undecided,
        (_, Some(decision)) => read_sampling(decision)?,
    };
    Some((trace, span, sampling))
}

fn read_sampling(decision: &[u8]) -> Option<Sampling> {
    match decision {
        b"1" | b"true" | b"d" => Some(Sampling::Sampled),
        b"0" | b"false" => Some(Sampling::NotSampled),
        _ => None,
    }
}

/// Makes a span of a sampled trace the parent of the next one. A `debug` decision stays.
pub(super) fn write_single(headers: &mut HeaderMap, trace: TraceId, span: SpanId) {
    let known = headers.get(B3).map(HeaderValue::as_bytes);
    let is_debug =
        known.is_some_and(|value| value.split(|byte| *byte == b'-').nth(2) == Some(b"d"));
    let decision = if is_debug { 'd' } else { '1' };
    let value = HeaderValue::try_from(format!("{trace}-{span}-{decision}"));
    headers.insert(B3, value.expect("digits and dashes are a header value"));
}

/// Makes a span of a sampled trace the parent of the next one. The sampling decision is added if the sender left it open.
pub(super) fn write_multi(headers: &mut HeaderMap, span: SpanId) {
    let value = HeaderValue::from_bytes(&span.hex()).expect("digits are a header value");
    headers.insert(X_B3_SPANID, value);
    if !headers.contains_key(X_B3_SAMPLED) && !headers.contains_key(X_B3_FLAGS) {
        headers.insert(X_B3_SAMPLED, HeaderValue::from_static("1"));
    }
}

pub(super) const B3: HeaderName = HeaderName::from_static("b3");
pub(super) const X_B3_TRACEID: HeaderName = HeaderName::from_static("x-b3-traceid");
pub(super) const X_B3_SPANID: HeaderName = HeaderName::from_static("x-b3-spanid");
pub(super) const X_B3_SAMPLED: HeaderName = HeaderName::from_static("x-b3-sampled");
pub(super) const X_B3_FLAGS: HeaderName = HeaderName::from_static("x-b3-flags");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACE: &str = "80f198ee56343ba864fe8b2a57d3eff7";
    const SPAN: &str = "e457b5a2e4d86bd1";

    #[test]
    fn the_single_header_has_up_to_four_parts() {
        let sampling = |text: &str| read_single(text.as_bytes()).map(|(_, _, sampling)| sampling);
        let of = |rest: &str| sampling(&format!("{TRACE}-{SPAN}{rest}"));
        assert_eq!(of(""), Some(Sampling::Undecided));
        assert_eq!(of("-1"), Some(Sampling::Sampled));
        assert_eq!(of("-d"), Some(Sampling::Sampled));
        assert_eq!(of("-0-05e3ac9a4f6e3b90"), Some(Sampling::NotSampled));
        for broken in ["-", "-x", "-1-", "-1-05e3", "-1-05e3ac9a4f6e3b90-1"] {
            assert_eq!(of(broken), None, "{broken}");
        }
        for broken in ["", "0", "-", TRACE, "a-b-1"] {
            assert_eq!(sampling(broken), None, "{broken}");
        }
    }

    #[test]
    fn several_headers_may_leave_the_decision_to_others() {
        let sampling = |sampled: Option<&str>, flags: Option<&str>| {
            let (trace, span) = (TRACE.as_bytes(), SPAN.as_bytes());
            let (sampled, flags) = (sampled.map(str::as_bytes), flags.map(str::as_bytes));
            read_multi(trace, span, sampled, flags).map(|(_, _, sampling)| sampling)
        };
        assert_eq!(sampling(None, None), Some(Sampling::Undecided));
        assert_eq!(sampling(Some("1"), None), Some(Sampling::Sampled));
        assert_eq!(sampling(Some("false"), None), Some(Sampling::NotSampled));
        assert_eq!(sampling(None, Some("1")), Some(Sampling::Sampled));
        assert_eq!(sampling(Some("yes"), None), None);
    }

    #[test]
    fn a_decision_is_added_where_there_was_none() {
        let span = SpanId::from_hex(SPAN.as_bytes(), HexCase::Any).unwrap();
        let mut headers = HeaderMap::new();
        write_multi(&mut headers, span);
        assert_eq!(
            (&headers[X_B3_SPANID], &headers[X_B3_SAMPLED]),
            (&SPAN.parse().unwrap(), &"1".parse().unwrap())
        );
        let trace = TraceId::from_hex(TRACE.as_bytes(), HexCase::Any).unwrap();
        for (before, after) in [("", "1"), ("-1", "1"), ("-d", "d")] {
            headers.insert(
                B3,
                format!("{TRACE}-05e3ac9a4f6e3b90{before}").parse().unwrap(),
            );
            write_single(&mut headers, trace, span);
            assert_eq!(headers[B3], format!("{TRACE}-{SPAN}-{after}"));
        }
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(value in proptest::collection::vec(any::<u8>(), 0..90)) {
            let _ = read_single(&value);
            let _ = read_multi(&value, &value, Some(&value), Some(&value));
        }

        #[test]
        fn almost_valid_text_is_read_or_refused(value in "[0-9a-fA-F]{0,33}-[0-9a-f]{0,17}-?[01dx]?-?[0-9a-f]{0,17}") {
            let _ = read_single(value.as_bytes());
        }
    }
}
