//! The trace context of a request's headers.
//!
//! **Input**: parts, which are the values of the headers in turn.

use super::{Target, join, parts};
use http::{HeaderMap, HeaderValue};
use linkerd_proxy_core::trace::{SpanId, TraceContext};

pub(super) const TARGET: Target = Target {
    name: "trace",
    run,
    seeds,
    words: &[
        b"00-",
        b"-01",
        b"-1",
        b"-d",
        b"0af7651916cd43dd8448eb211c80319c",
    ],
};

/// A span that is injected as the parent is read by the next proxy as the parent, in the same trace.
fn run(input: &[u8]) {
    let mut headers = HeaderMap::new();
    for (number, part) in parts(input).take(MAX_HEADERS).enumerate() {
        if let Ok(value) = HeaderValue::from_bytes(part) {
            headers.append(HEADERS[number % HEADERS.len()], value);
        }
    }
    let Some(context) = TraceContext::of(&headers) else {
        return;
    };
    let span = SpanId::new([7; 8]).expect("not all bytes are zero");
    context.inject(&mut headers, span);
    let next = TraceContext::of(&headers).expect("what is written is read");
    assert_eq!((next.trace, next.parent), (context.trace, Some(span)));
}

fn seeds() -> Vec<Vec<u8>> {
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let values = [
        format!("00-{trace}-{span}-01"),
        "AAABAgMEBQYHCAkKCwwNDg8QAWRlZmdoaWprAgE".to_owned(),
        format!("{trace}-{span}-d"),
        trace.to_owned(),
        span.to_owned(),
        "1".to_owned(),
    ];
    // The formats count one after the other, when those before are removed.
    let skipped = |count: usize| {
        let values = values.iter().enumerate();
        let parts = values.map(|(number, value)| match number < count {
            true => Vec::new(),
            false => value.as_bytes().to_vec(),
        });
        join(&parts.collect::<Vec<_>>())
    };
    (0..4).map(skipped).collect()
}

const HEADERS: [&str; 7] = [
    "traceparent",
    "grpc-trace-bin",
    "b3",
    "x-b3-traceid",
    "x-b3-spanid",
    "x-b3-sampled",
    "x-b3-flags",
];

/// Enough for repeated headers.
const MAX_HEADERS: usize = 3 * HEADERS.len();
