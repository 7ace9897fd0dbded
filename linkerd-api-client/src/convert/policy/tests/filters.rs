//! Filters of rules and of their backends.

use super::*;
use ::http::{HeaderName, HeaderValue, StatusCode, uri::Scheme};
use linkerd_api_proto::{
    grpc_route::GrpcFailureInjector,
    http_route::{
        HttpFailureInjector, PathModifier as WirePathModifier, Ratio as WireRatio,
        RequestHeaderModifier, RequestRedirect, ResponseHeaderModifier, path_modifier::Replace,
    },
    http_types::{self, Headers, headers::Header},
    outbound::{grpc_route, http_route::filter::Kind},
};
use linkerd_profiles::{
    FailureInjector, HeaderModifier, HttpFilter, InjectedFailure, PathModifier, Ratio, Redirect,
};

/// A policy of one rule with these filters, and with others at its backend.
fn filtering(on_rule: Vec<Option<Kind>>, on_backend: Vec<Option<Kind>>) -> OutboundPolicy {
    use http_route::distribution::{FirstAvailable, Kind as Distribution};
    let filters = |kinds: Vec<Option<Kind>>| -> Vec<_> {
        let kinds = kinds.into_iter();
        kinds.map(|kind| http_route::Filter { kind }).collect()
    };
    let backend = http_route::RouteBackend {
        backend: Some(balancer("web:80")),
        filters: filters(on_backend),
        ..Default::default()
    };
    let kind = Distribution::FirstAvailable(FirstAvailable {
        backends: vec![backend],
    });
    http1(vec![route(
        "r",
        vec![http_route::Rule {
            filters: filters(on_rule),
            ..rule(http_route::Distribution { kind: Some(kind) })
        }],
    )])
}

fn failure(status: u32, ratio: Option<(u32, u32)>) -> Kind {
    Kind::FailureInjector(HttpFailureInjector {
        status,
        message: "on purpose".to_owned(),
        ratio: ratio.map(|(numerator, denominator)| WireRatio {
            numerator,
            denominator,
        }),
    })
}

fn headers(headers: &[(&str, &[u8])]) -> Option<Headers> {
    let headers = headers.iter().map(|(name, value)| Header {
        name: (*name).to_owned(),
        value: value.to_vec(),
    });
    let headers = headers.collect();
    Some(Headers { headers })
}

fn changes(name: &str, value: &[u8], removed: &str) -> Kind {
    Kind::RequestHeaderModifier(RequestHeaderModifier {
        add: headers(&[(name, value)]),
        set: headers(&[("x-set", b"1"), (name, value)]),
        remove: vec![removed.to_owned()],
    })
}

fn expected_changes() -> HeaderModifier {
    let header = |name: &'static str| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_static("1"))
    };
    HeaderModifier {
        add: vec![header("x-a")],
        set: vec![header("x-set"), header("x-a")],
        remove: vec![HeaderName::from_static("x-gone")],
    }
}

fn scheme(kind: Option<http_types::scheme::Type>) -> RequestRedirect {
    RequestRedirect {
        scheme: Some(http_types::Scheme { r#type: kind }),
        ..Default::default()
    }
}

fn replace(replace: Option<Replace>) -> RequestRedirect {
    RequestRedirect {
        path: Some(WirePathModifier { replace }),
        ..Default::default()
    }
}

fn host(host: &str) -> RequestRedirect {
    RequestRedirect {
        host: host.to_owned(),
        ..Default::default()
    }
}

const NONE: Redirect = Redirect {
    scheme: None,
    host: None,
    port: None,
    path: None,
    status: StatusCode::MOVED_PERMANENTLY,
};

#[test]
fn every_kind_of_filter_is_read_on_rules_and_on_backends() {
    let fails = |status, ratio| {
        HttpFilter::InjectFailure(FailureInjector {
            failure: InjectedFailure::Status(status),
            message: "on purpose".to_owned(),
            ratio,
        })
    };
    let response = Kind::ResponseHeaderModifier(ResponseHeaderModifier {
        add: headers(&[("x-a", b"1")]),
        set: headers(&[("x-set", b"1"), ("x-a", b"1")]),
        remove: vec!["x-gone".to_owned()],
    });
    let (wire, expected): (Vec<_>, Vec<_>) = [
        (
            failure(503, None),
            fails(StatusCode::SERVICE_UNAVAILABLE, Ratio::ALL),
        ),
        (
            failure(418, Some((1, 4))),
            fails(StatusCode::IM_A_TEAPOT, Ratio::new(1, 4).unwrap()),
        ),
        (
            changes("X-A", b"1", "X-Gone"),
            HttpFilter::RequestHeaders(expected_changes()),
        ),
        (response, HttpFilter::ResponseHeaders(expected_changes())),
        (
            Kind::RequestHeaderModifier(RequestHeaderModifier::default()),
            HttpFilter::RequestHeaders(HeaderModifier::default()),
        ),
        (
            Kind::Redirect(RequestRedirect::default()),
            HttpFilter::Redirect(NONE),
        ),
    ]
    .into_iter()
    .unzip();
    let wire: Vec<_> = wire.into_iter().map(Some).collect();
    let policy = converted(filtering(wire.clone(), wire));
    let rule = default_route(&policy);
    assert_eq!(rule.filters, expected);
    let used = rule.distribution.backends().next().unwrap();
    assert_eq!(used.filters, expected);
}

#[test]
fn every_part_of_a_redirect_is_read() {
    use http_types::scheme::{Registered, Type};
    let registered = |scheme: Registered| Type::Registered(scheme.into());
    let text = || "/a".to_owned();
    for (wire, expected) in [
        (
            scheme(Some(registered(Registered::Https))),
            Redirect {
                scheme: Some(Scheme::HTTPS),
                ..NONE
            },
        ),
        (
            scheme(Some(registered(Registered::Http))),
            Redirect {
                scheme: Some(Scheme::HTTP),
                ..NONE
            },
        ),
        (
            scheme(Some(Type::Unregistered("app".to_owned()))),
            Redirect {
                scheme: Some("app".parse().unwrap()),
                ..NONE
            },
        ),
        (
            RequestRedirect {
                port: 65535,
                status: 308,
                ..host("other.test")
            },
            Redirect {
                host: Some("other.test".to_owned()),
                port: Some(65535),
                status: StatusCode::PERMANENT_REDIRECT,
                ..NONE
            },
        ),
        (
            host("[::1]"),
            Redirect {
                host: Some("[::1]".to_owned()),
                ..NONE
            },
        ),
        (
            replace(Some(Replace::Full(text()))),
            Redirect {
                path: Some(PathModifier::Full(text())),
                ..NONE
            },
        ),
        (
            replace(Some(Replace::Prefix(text()))),
            Redirect {
                path: Some(PathModifier::Prefix(text())),
                ..NONE
            },
        ),
        (replace(None), NONE),
    ] {
        let policy = converted(filtering(
            vec![Some(Kind::Redirect(wire.clone()))],
            Vec::new(),
        ));
        let expected = [HttpFilter::Redirect(expected)];
        assert_eq!(default_route(&policy).filters, expected, "{wire:?}");
    }
}

#[test]
fn a_filter_that_cannot_be_applied_makes_the_policy_invalid() {
    use http_types::scheme::Type;
    let redirect = |wire| Some(Kind::Redirect(wire));
    let port = |port| RequestRedirect {
        port,
        ..Default::default()
    };
    let status = |status| RequestRedirect {
        status,
        ..Default::default()
    };
    for (kind, error) in [
        (None, "a filter is missing"),
        (
            Some(failure(0, None)),
            "0 is no status that this filter may answer with",
        ),
        (
            Some(failure(99, None)),
            "99 is no status that this filter may answer with",
        ),
        (
            Some(failure(1000, None)),
            "1000 is no status that this filter may answer with",
        ),
        (
            Some(failure(101, None)),
            "101 is no status that this filter may answer with",
        ),
        (
            redirect(status(200)),
            "200 is no status that this filter may answer with",
        ),
        (
            redirect(status(100)),
            "100 is no status that this filter may answer with",
        ),
        (
            Some(failure(65536 + 200, None)),
            "65736 is no status that this filter may answer with",
        ),
        (
            Some(failure(503, Some((2, 1)))),
            "the ratio of injected failures, 2/1, is not between 0 and 1",
        ),
        (
            Some(failure(503, Some((0, 0)))),
            "the ratio of injected failures, 0/0, is not between 0 and 1",
        ),
        (
            Some(changes("x a", b"1", "x-gone")),
            "\"x a\" is no header name",
        ),
        (
            Some(changes("x-a", b"1\n", "x-gone")),
            "the value of the header x-a in a filter is none",
        ),
        (Some(changes("x-a", b"1", "")), "\"\" is no header name"),
        (
            Some(changes("Content-Length", b"1", "x-gone")),
            "a filter cannot give the header content-length: the proxy writes it; remove it from the filter",
        ),
        (
            Some(changes("transfer-encoding", b"gzip", "x-gone")),
            "a filter cannot give the header transfer-encoding: the proxy writes it; remove it from the filter",
        ),
        (redirect(scheme(None)), "a redirect's scheme is missing"),
        (
            redirect(scheme(Some(Type::Registered(7)))),
            "\"7\" is no scheme for a redirect",
        ),
        (
            redirect(scheme(Some(Type::Unregistered("no scheme".to_owned())))),
            "\"no scheme\" is no scheme for a redirect",
        ),
        (redirect(host("a b")), "\"a b\" is no host for a redirect"),
        (
            redirect(host("other.test:80")),
            "\"other.test:80\" is no host for a redirect",
        ),
        (
            redirect(host("me@other.test")),
            "\"me@other.test\" is no host for a redirect",
        ),
        (
            redirect(port(65536)),
            "the port of a redirect (65536) is above 65535",
        ),
        (
            redirect(status(1000)),
            "1000 is no status that this filter may answer with",
        ),
    ] {
        let on_rule = filtering(vec![kind.clone()], Vec::new());
        assert_eq!(refused(on_rule), error);
        let on_backend = filtering(Vec::new(), vec![kind]);
        assert_eq!(refused(on_backend), error);
    }
}

#[test]
fn filters_of_grpc_are_read() {
    use grpc_route::filter::Kind;
    let failure = |code| {
        Some(Kind::FailureInjector(GrpcFailureInjector {
            code,
            message: "on purpose".to_owned(),
            ratio: Some(WireRatio {
                numerator: 1,
                denominator: 2,
            }),
        }))
    };
    let headers = Some(Kind::RequestHeaderModifier(RequestHeaderModifier {
        remove: vec!["x-gone".to_owned()],
        ..Default::default()
    }));
    let policy = |kinds: Vec<Option<Kind>>| {
        let kinds = kinds.into_iter();
        let filters = kinds.map(|kind| grpc_route::Filter { kind });
        grpc::policy(vec![grpc::rule(Vec::new(), filters.collect())])
    };
    let read = converted(policy(vec![failure(7), headers]));
    let table = read.http_routes(::http::Version::HTTP_2).unwrap();
    let expected = [
        HttpFilter::InjectFailure(FailureInjector {
            failure: InjectedFailure::Grpc(7),
            message: "on purpose".to_owned(),
            ratio: Ratio::new(1, 2).unwrap(),
        }),
        HttpFilter::RequestHeaders(HeaderModifier {
            remove: vec![HeaderName::from_static("x-gone")],
            ..HeaderModifier::default()
        }),
    ];
    assert_eq!(table.rules()[0].filters, expected);
    assert_eq!(refused(policy(vec![None])), "a filter is missing");
    assert_eq!(
        refused(policy(vec![failure(65536)])),
        "65536 is no status that this filter may answer with"
    );
}
