//! Policies that detect the protocol.

use super::*;

/// Routes of a version, and their breaker.
type WireRoutes = (Vec<outbound::HttpRoute>, Option<outbound::FailureAccrual>);

/// A policy that detects the protocol, with routes and a breaker for each version.
fn detect(http1: WireRoutes, http2: WireRoutes) -> OutboundPolicy {
    let detect = proxy_protocol::Detect {
        timeout: secs(10),
        opaque: Some(proxy_protocol::Opaque::default()),
        http1: Some(proxy_protocol::Http1 {
            routes: http1.0,
            failure_accrual: http1.1,
        }),
        http2: Some(proxy_protocol::Http2 {
            routes: http2.0,
            failure_accrual: http2.1,
        }),
    };
    OutboundPolicy {
        metadata: wire_meta("parent"),
        protocol: Some(outbound::ProxyProtocol {
            kind: Some(proxy_protocol::Kind::Detect(detect)),
        }),
    }
}

#[test]
fn equal_routes_of_both_versions_are_converted_once() {
    let routes = |names: &[&str]| -> Vec<_> {
        let rules = || vec![rule(first(balancer("web:80"))), rule(random(&[1, 2]))];
        names.iter().map(|name| route(name, rules())).collect()
    };
    let breaker = || Some(accrual::consecutive(7));
    for (http1, http2, is_one) in [
        (
            (routes(&["a", "b"]), None),
            (routes(&["a", "b"]), None),
            true,
        ),
        (
            (routes(&["a"]), breaker()),
            (routes(&["a"]), breaker()),
            true,
        ),
        ((routes(&["a"]), breaker()), (routes(&["a"]), None), false),
        (
            (routes(&["a", "b"]), None),
            (routes(&["b", "a"]), None),
            false,
        ),
        ((routes(&["a"]), None), (routes(&["a", "b"]), None), false),
        (
            (routes(&["a"]), None),
            (vec![route("a", Vec::new())], None),
            false,
        ),
    ] {
        let policy = converted(detect(http1, http2));
        let Protocol::Detect { http1, http2, .. } = &policy.protocol else {
            panic!("{policy:?}");
        };
        assert_eq!(Arc::ptr_eq(http1, http2), is_one);
        let metas: Vec<_> = http1.rules().iter().map(|rule| &rule.meta).collect();
        assert!(Arc::ptr_eq(metas[0], metas[1]), "equal parts are one");
    }
}
