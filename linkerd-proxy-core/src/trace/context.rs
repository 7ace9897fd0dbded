//! The trace context of a request.

use super::{
    b3::{self, B3, X_B3_FLAGS, X_B3_SAMPLED, X_B3_SPANID, X_B3_TRACEID},
    grpc::{self, GRPC_TRACE_BIN},
    ids::{SpanId, TraceId},
    sampling::{SAMPLED, Sampling},
    w3c::{self, TRACEPARENT, TRACESTATE, TraceParent},
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The trace context of a request: received with it, or begun here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span of the sender; `None` for a trace that begins here.
    pub parent: Option<SpanId>,
    /// The decision of the sender.
    pub sampling: Sampling,
    format: TraceFormat,
    flags: u8,
}

/// The header format of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// `traceparent` (W3C).
    W3c,
    /// `grpc-trace-bin` (OpenCensus).
    GrpcTraceBin,
    /// `x-b3-traceid` and its kin.
    B3Multi,
    /// `b3`.
    B3Single,
}

impl TraceContext {
    /// The context of a request: the first valid one of `traceparent`, `grpc-trace-bin`, B3 in several headers, `b3`. The first
    /// three are in the order of linkerd2-proxy, which does not know the last.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let found = ContextHeaders::of(headers)?;
        found.w3c().or_else(|| found.others())
    }

    /// A trace that begins here.
    pub fn root(trace: TraceId) -> Self {
        Self {
            trace,
            parent: None,
            sampling: Sampling::Sampled,
            format: TraceFormat::W3c,
            flags: SAMPLED,
        }
    }

    /// Makes a span of this sampled trace the parent of the next one, in the format of the context.
    pub fn inject(&self, headers: &mut HeaderMap, span: SpanId) {
        match self.format {
            TraceFormat::W3c => w3c::write(headers, self.trace, span, self.flags),
            TraceFormat::GrpcTraceBin => grpc::write(headers, self.trace, span, self.flags),
            TraceFormat::B3Multi => b3::write_multi(headers, span),
            TraceFormat::B3Single => b3::write_single(headers, self.trace, span),
        }
        if self.parent.is_none() {
            // A `tracestate` here belongs to the trace of an invalid `traceparent` (section 4.3).
            headers.remove(TRACESTATE);
        }
    }
}

/// The headers of a request that may carry its context.
#[derive(Default)]
struct ContextHeaders<'h> {
    traceparent: Once<'h>,
    grpc: Once<'h>,
    b3: Once<'h>,
    b3_trace: Once<'h>,
    b3_span: Once<'h>,
    b3_sampled: Once<'h>,
    b3_flags: Once<'h>,
}

/// The value of a header that must not be repeated: if it is, no value counts.
#[derive(Default)]
enum Once<'h> {
    #[default]
    Missing,
    Found(&'h [u8]),
    Repeated,
}

impl<'h> ContextHeaders<'h> {
    /// Finds the headers in one pass: comparing a handful of names is quicker than hashing them. `None` if there are none.
    fn of(headers: &'h HeaderMap) -> Option<Self> {
        let (mut found, mut has_any) = (Self::default(), false);
        for (name, value) in headers {
            // Few names have these lengths.
            if !matches!(name.as_str().len(), 2 | 10..=12 | 14) {
                continue;
            }
            if let Some(field) = found.field(name) {
                field.add(value);
                has_any = true;
            }
        }
        has_any.then_some(found)
    }

    fn field(&mut self, name: &HeaderName) -> Option<&mut Once<'h>> {
        match name {
            name if *name == TRACEPARENT => Some(&mut self.traceparent),
            name if *name == GRPC_TRACE_BIN => Some(&mut self.grpc),
            name if *name == B3 => Some(&mut self.b3),
            name if *name == X_B3_TRACEID => Some(&mut self.b3_trace),
            name if *name == X_B3_SPANID => Some(&mut self.b3_span),
            name if *name == X_B3_SAMPLED => Some(&mut self.b3_sampled),
            name if *name == X_B3_FLAGS => Some(&mut self.b3_flags),
            _ => None,
        }
    }

    fn w3c(&self) -> Option<TraceContext> {
        let read = TraceParent::read(self.traceparent.value()?)?;
        Some(TraceContext {
            trace: read.trace,
            parent: Some(read.parent),
            sampling: Sampling::by_flags(read.flags),
            format: TraceFormat::W3c,
            flags: read.flags,
        })
    }

    fn others(&self) -> Option<TraceContext> {
        let grpc = self.grpc.value().and_then(grpc::read);
        if let Some((trace, parent, flags)) = grpc {
            return Some(TraceContext {
                trace,
                parent: Some(parent),
                sampling: Sampling::by_flags(flags),
                format: TraceFormat::GrpcTraceBin,
                flags,
            });
        }
        let multi = || {
            let (trace, span) = (self.b3_trace.value()?, self.b3_span.value()?);
            b3::read_multi(trace, span, self.b3_sampled.value(), self.b3_flags.value())
        };
        let single = || b3::read_single(self.b3.value()?);
        let multi = multi().map(|read| (read, TraceFormat::B3Multi));
        let read = multi.or_else(|| Some((single()?, TraceFormat::B3Single)));
        read.map(|((trace, parent, sampling), format)| TraceContext {
            trace,
            parent: Some(parent),
            sampling,
            format,
            flags: SAMPLED,
        })
    }
}

impl<'h> Once<'h> {
    fn add(&mut self, value: &'h HeaderValue) {
        *self = match self {
            Self::Missing => Self::Found(value.as_bytes()),
            Self::Found(_) | Self::Repeated => Self::Repeated,
        };
    }

    fn value(&self) -> Option<&'h [u8]> {
        match self {
            Self::Found(value) => Some(value),
            Self::Missing | Self::Repeated => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: [&str; 7] = [
        "traceparent",
        "grpc-trace-bin",
        "b3",
        "x-b3-traceid",
        "x-b3-spanid",
        "x-b3-sampled",
        "x-b3-flags",
    ];
    const W3C: (&str, &str) = (
        "traceparent",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    );
    const GRPC: (&str, &str) = ("grpc-trace-bin", "AAABAgMEBQYHCAkKCwwNDg8QAWRlZmdoaWprAgE");
    const B3_MULTI: [(&str, &str); 3] = [
        ("x-b3-traceid", "80f198ee56343ba8"),
        ("x-b3-spanid", "e457b5a2e4d86bd1"),
        ("x-b3-sampled", "1"),
    ];
    const B3_SINGLE: (&str, &str) = ("b3", "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1");

    fn headers(list: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    fn format(list: &[(&str, &str)]) -> Option<TraceFormat> {
        TraceContext::of(&headers(list)).map(|context| context.format)
    }

    #[test]
    fn the_first_valid_format_counts() {
        let all = [&[B3_SINGLE][..], &B3_MULTI, &[GRPC, W3C]].concat();
        assert_eq!(format(&all), Some(TraceFormat::W3c));
        assert_eq!(format(&all[..5]), Some(TraceFormat::GrpcTraceBin));
        assert_eq!(format(&all[..4]), Some(TraceFormat::B3Multi));
        assert_eq!(format(&all[..1]), Some(TraceFormat::B3Single));
        assert_eq!(format(&all[..0]), None);
        assert_eq!(format(&[("traceparent", "00-broken")]), None);
        assert_eq!(
            format(&[("traceparent", "00-broken"), GRPC]),
            Some(TraceFormat::GrpcTraceBin)
        );
        assert_eq!(format(&[W3C, W3C]), None, "two parents are none");
        assert_eq!(format(&[("host", "web"), ("user-agent", "x")]), None);
    }

    #[test]
    fn a_span_becomes_the_parent_in_the_same_format() {
        let span = SpanId::new([0xab; 8]).unwrap();
        for list in [
            &[W3C, ("tracestate", "a=1")][..],
            &[GRPC],
            &B3_MULTI,
            &[B3_SINGLE],
        ] {
            let mut headers = headers(list);
            let before = TraceContext::of(&headers).unwrap();
            before.inject(&mut headers, span);
            let after = TraceContext::of(&headers).unwrap();
            let expected = TraceContext {
                parent: Some(span),
                ..before
            };
            assert_eq!(after, expected);
            assert_eq!(headers.len(), list.len(), "{headers:?}");
        }
    }

    #[test]
    fn a_half_trace_id_stays_as_it_was_written() {
        let mut headers = headers(&B3_MULTI);
        let context = TraceContext::of(&headers).unwrap();
        context.inject(&mut headers, SpanId::new([1; 8]).unwrap());
        assert_eq!(headers["x-b3-traceid"], "80f198ee56343ba8");
        assert_eq!(headers["x-b3-spanid"], "0101010101010101");
    }

    #[test]
    fn a_trace_that_begins_here_replaces_an_invalid_one_and_its_state() {
        let mut headers = headers(&[("traceparent", "broken"), ("tracestate", "a=1")]);
        let root = TraceContext::root(TraceId::new([7; 16]).unwrap());
        root.inject(&mut headers, SpanId::new([1; 8]).unwrap());
        let expected = "00-07070707070707070707070707070707-0101010101010101-01";
        assert_eq!(headers["traceparent"], expected);
        assert_eq!(headers.get("tracestate"), None);
    }

    proptest! {
        #[test]
        fn any_headers_are_read(list in proptest::collection::vec((0..NAMES.len(), "[ -~]{0,60}"), 0..8)) {
            let mut headers = HeaderMap::new();
            for (name, value) in list {
                headers.append(NAMES[name], value.parse().unwrap());
            }
            if let Some(context) = TraceContext::of(&headers) {
                context.inject(&mut headers, SpanId::new([1; 8]).unwrap());
                let after = TraceContext::of(&headers).unwrap();
                prop_assert_eq!(after.parent, SpanId::new([1; 8]));
            }
        }
    }
}
