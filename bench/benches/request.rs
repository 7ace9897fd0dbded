//! Work for each request and each connection besides reading and writing.

#![allow(missing_docs)]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use http::{
    HeaderMap, HeaderName, HeaderValue, Request,
    header::{ACCEPT, CONNECTION, CONTENT_TYPE, HOST, UPGRADE, USER_AGENT},
};
use linkerd_proxy_core::{
    http::{has_any, prepare_request},
    metrics::{Counter, Histogram, LATENCY_MS, Metric},
    transport::{Lookalikes, classify},
};
use std::{hint::black_box, time::Duration};

fn metrics(criterion: &mut Criterion) {
    let counter = Counter::new(());
    criterion.bench_function("metrics/counter", |bencher| {
        bencher.iter(|| black_box(&counter).incr());
    });
    let histogram = Histogram::new(LATENCY_MS.into());
    criterion.bench_function("metrics/histogram", |bencher| {
        bencher.iter(|| histogram.observe_duration(black_box(Duration::from_millis(3))));
    });
}

fn headers(criterion: &mut Criterion) {
    let plain = usual();
    let mut with_connection = usual();
    with_connection.insert(CONNECTION, HeaderValue::from_static("keep-alive, x-named"));
    with_connection.insert(
        HeaderName::from_static("x-named"),
        HeaderValue::from_static("1"),
    );
    for (name, headers) in [("none", &plain), ("two", &with_connection)] {
        let request = || {
            let mut request = Request::new(());
            *request.headers_mut() = headers.clone();
            request
        };
        criterion.bench_function(&format!("headers/prepare/{name}"), |bencher| {
            bencher.iter_batched_ref(
                request,
                |request| prepare_request(request).is_ok(),
                BatchSize::SmallInput,
            );
        });
    }
    criterion.bench_function("headers/has_any", |bencher| {
        bencher.iter(|| has_any(black_box(&plain), &[CONNECTION, UPGRADE]));
    });
}

fn detection(criterion: &mut Criterion) {
    for (name, bytes) in [
        (
            "http1",
            &b"GET /path?query HTTP/1.1\r\nhost: web\r\naccept: */*\r\n\r\n"[..],
        ),
        (
            "http2",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        ),
        ("opaque", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    ] {
        criterion.bench_function(&format!("detect/classify/{name}"), |bencher| {
            bencher.iter(|| classify(black_box(bytes), Lookalikes::Opaque));
        });
    }
}

/// The headers of an ordinary request.
fn usual() -> HeaderMap {
    [
        (HOST, "web.default.svc.cluster.local"),
        (USER_AGENT, "bench/1.0"),
        (ACCEPT, "application/json"),
        (CONTENT_TYPE, "application/json"),
        (HeaderName::from_static("x-request-id"), "0123456789abcdef"),
        (HeaderName::from_static("traceparent"), "00-01-02-01"),
    ]
    .into_iter()
    .map(|(name, value)| (name, HeaderValue::from_static(value)))
    .collect()
}

criterion_group!(benches, metrics, headers, detection);
criterion_main!(benches);
