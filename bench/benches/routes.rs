//! The cost of finding the route of a request.

#![allow(missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use http::Request;
use linkerd_profiles::{
    Distribution, HostMatch, HttpMatch, Meta, PathMatch, RequestMatch, RouteRule, RouteTable,
};
use std::{hint::black_box, sync::Arc};

/// A rule of a host and a path prefix.
fn rule(host: Option<String>, path: String) -> RouteRule {
    let condition = HttpMatch {
        path: Some(PathMatch::Prefix(path)),
        ..HttpMatch::default()
    };
    let meta = Arc::new(Meta::new_default("rule"));
    RouteRule {
        hosts: host.map(HostMatch::Exact).into_iter().collect(),
        matches: vec![RequestMatch::Http(condition)],
        ..RouteRule::for_all(meta, Distribution::Empty)
    }
}

/// Finds the last of `count` rules: each for its own host, or all for the same.
fn find(criterion: &mut Criterion) {
    for count in [1, 10, 100, 1000] {
        let last = count - 1;
        let of_hosts = (0..count).map(|n| rule(Some(format!("h{n}.test")), format!("/p{n}")));
        let of_paths = (0..count).map(|n| rule(None, format!("/p{n}")));
        let request = Request::get(format!("http://h{last}.test/p{last}/x"));
        let request = request.body(()).expect("it is valid");
        for (name, table) in [
            ("hosts", RouteTable::new(of_hosts.collect())),
            ("paths", RouteTable::new(of_paths.collect())),
        ] {
            let title = format!("routes/{name}/{count}");
            criterion.bench_function(&title, |bencher| {
                bencher.iter(|| table.find(black_box(&request)));
            });
        }
    }
}

criterion_group!(benches, find);
criterion_main!(benches);
