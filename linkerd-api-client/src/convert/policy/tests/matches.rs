//! Hosts and conditions of rules.

use super::*;
use linkerd_api_proto::{
    grpc_route::{GrpcRouteMatch, GrpcRpcMatch},
    http_route::{
        HeaderMatch as WireHeader, HostMatch as WireHost, HttpRouteMatch, PathMatch as WirePath,
        QueryParamMatch, header_match, host_match, path_match, query_param_match,
    },
    http_types::{HttpMethod, http_method},
};
use linkerd_profiles::{
    GrpcMatch, HeaderMatch, HostMatch, HttpMatch, PathMatch, Pattern, QueryMatch, RequestMatch,
    ValueMatch,
};

/// A policy of one rule with these matches.
fn matching(matches: Vec<HttpRouteMatch>) -> OutboundPolicy {
    let rule = http_route::Rule {
        matches,
        ..rule(first(balancer("web:80")))
    };
    http1(vec![route("r", vec![rule])])
}

/// The condition of a rule with this match.
fn condition(wire: HttpRouteMatch) -> HttpMatch {
    let policy = converted(matching(vec![wire]));
    match &default_route(&policy).matches[..] {
        [RequestMatch::Http(condition)] => condition.clone(),
        matches => panic!("{matches:?}"),
    }
}

fn path(kind: Option<path_match::Kind>) -> HttpRouteMatch {
    HttpRouteMatch {
        path: Some(WirePath { kind }),
        ..Default::default()
    }
}

fn header(name: &str, value: Option<header_match::Value>) -> HttpRouteMatch {
    let name = name.to_owned();
    HttpRouteMatch {
        headers: vec![WireHeader { name, value }],
        ..Default::default()
    }
}

fn query(name: &str, value: Option<query_param_match::Value>) -> HttpRouteMatch {
    let name = name.to_owned();
    HttpRouteMatch {
        query_params: vec![QueryParamMatch { name, value }],
        ..Default::default()
    }
}

fn method(kind: Option<http_method::Type>) -> HttpRouteMatch {
    HttpRouteMatch {
        method: Some(HttpMethod { r#type: kind }),
        ..Default::default()
    }
}

fn regex(text: &str) -> HttpRouteMatch {
    path(Some(path_match::Kind::Regex(text.to_owned())))
}

fn pattern(text: &str) -> Pattern {
    Pattern::new(text).unwrap()
}

#[test]
fn every_kind_of_condition_is_read() {
    use ::http::{HeaderName, Method};
    use http_method::{Registered, Type};
    let of_path = |path| HttpMatch {
        path: Some(path),
        ..HttpMatch::default()
    };
    let of_header = |value| HttpMatch {
        headers: vec![HeaderMatch {
            name: HeaderName::from_static("x-a"),
            value,
        }],
        ..HttpMatch::default()
    };
    let of_query = |value| HttpMatch {
        query: vec![QueryMatch {
            name: "Q".to_owned(),
            value,
        }],
        ..HttpMatch::default()
    };
    let of_method = |method| HttpMatch {
        method: Some(method),
        ..HttpMatch::default()
    };
    let text = || "/a".to_owned();
    for (wire, expected) in [
        (HttpRouteMatch::default(), HttpMatch::default()),
        (
            path(Some(path_match::Kind::Exact(text()))),
            of_path(PathMatch::Exact(text())),
        ),
        (
            path(Some(path_match::Kind::Prefix(text()))),
            of_path(PathMatch::Prefix(text())),
        ),
        (regex("/a+"), of_path(PathMatch::Regex(pattern("/a+")))),
        (
            header("X-A", Some(header_match::Value::Exact(vec![0xff]))),
            of_header(ValueMatch::Exact(vec![0xff])),
        ),
        (
            header("x-a", Some(header_match::Value::Regex("b+".to_owned()))),
            of_header(ValueMatch::Regex(pattern("b+"))),
        ),
        (
            query("Q", Some(query_param_match::Value::Exact("a b".to_owned()))),
            of_query(ValueMatch::Exact("a b".to_owned())),
        ),
        (
            query("Q", Some(query_param_match::Value::Regex("b+".to_owned()))),
            of_query(ValueMatch::Regex(pattern("b+"))),
        ),
        (
            method(Some(Type::Registered(Registered::Delete.into()))),
            of_method(Method::DELETE),
        ),
        (
            method(Some(Type::Unregistered("PURGE".to_owned()))),
            of_method(Method::from_bytes(b"PURGE").unwrap()),
        ),
    ] {
        assert_eq!(condition(wire.clone()), expected, "{wire:?}");
    }
}

#[test]
fn a_condition_that_cannot_hold_makes_the_policy_invalid() {
    let exact = || Some(header_match::Value::Exact(Vec::new()));
    let unusable = "no usable regular expression: ";
    for (wire, error) in [
        (path(None), "a path match is missing"),
        (regex("("), unusable),
        (regex("a)(b"), unusable),
        (regex("[a-z]{1000}{1000}"), unusable),
        (
            header("x-a", None),
            "the value of a header match is missing",
        ),
        (header("x a", exact()), "\"x a\" is no header name"),
        (header("", exact()), "\"\" is no header name"),
        (
            header("x-a", Some(header_match::Value::Regex("(".to_owned()))),
            unusable,
        ),
        (query("q", None), "the value of a query match is missing"),
        (
            query("q", Some(query_param_match::Value::Regex("(".to_owned()))),
            unusable,
        ),
        (method(None), "a method match is missing"),
        (
            method(Some(http_method::Type::Registered(77))),
            "\"77\" is no method",
        ),
        (
            method(Some(http_method::Type::Unregistered("A B".to_owned()))),
            "\"A B\" is no method",
        ),
        (
            method(Some(http_method::Type::Unregistered(String::new()))),
            "\"\" is no method",
        ),
    ] {
        let refused = refused(matching(vec![wire.clone()]));
        assert!(refused.contains(error), "{wire:?}: {refused}");
    }
}

#[test]
fn a_policy_has_room_for_so_many_regular_expressions() {
    let matches = |count: usize| {
        let matches = (0..count).map(|n| regex(&format!("/{n}.")));
        // A repeated expression does not count.
        matching(matches.chain([regex("/0")]).collect())
    };
    assert_eq!(default_route(&converted(matches(256))).matches.len(), 257);
    assert_eq!(
        refused(matches(257)),
        "the policy has more than 256 regular expressions"
    );
}

#[test]
fn hosts_are_those_of_the_route() {
    let wire = |matching| WireHost { r#match: matching };
    let hosts = |hosts| {
        let rule = rule(first(balancer("web:80")));
        http1(vec![outbound::HttpRoute {
            hosts,
            ..route("r", vec![rule.clone(), rule])
        }])
    };
    let labels = || vec!["test".to_owned(), "web".to_owned()];
    let suffix = host_match::Suffix {
        reverse_labels: labels(),
    };
    let policy = converted(hosts(vec![
        wire(Some(host_match::Match::Exact("A.test".to_owned()))),
        wire(Some(host_match::Match::Suffix(suffix))),
    ]));
    let expected = [
        HostMatch::Exact("A.test".to_owned()),
        HostMatch::Suffix(labels()),
    ];
    let table = policy.http_routes(::http::Version::HTTP_11).unwrap();
    assert_eq!(table.rules().len(), 2);
    for rule in table.rules() {
        assert_eq!(rule.hosts, expected);
    }
    assert_eq!(refused(hosts(vec![wire(None)])), "a host match is missing");
}

#[test]
fn names_of_grpc_that_are_empty_match_all() {
    let header = WireHeader {
        name: "x-a".to_owned(),
        value: Some(header_match::Value::Exact(b"1".to_vec())),
    };
    let rpc = |service: &str, method: &str| {
        Some(GrpcRpcMatch {
            service: service.to_owned(),
            method: method.to_owned(),
        })
    };
    for (rpc, service, method) in [
        (rpc("a.B", "C"), Some("a.B"), Some("C")),
        (rpc("a.B", ""), Some("a.B"), None),
        (rpc("", "C"), None, Some("C")),
        (rpc("", ""), None, None),
        (None, None, None),
    ] {
        let condition = GrpcRouteMatch {
            rpc,
            headers: vec![header.clone()],
        };
        let rule = grpc::rule(vec![condition], Vec::new());
        let policy = converted(grpc::policy(vec![rule]));
        let expected = GrpcMatch {
            service: service.map(str::to_owned),
            method: method.map(str::to_owned),
            headers: vec![HeaderMatch {
                name: ::http::HeaderName::from_static("x-a"),
                value: ValueMatch::Exact(b"1".to_vec()),
            }],
        };
        let table = policy.http_routes(::http::Version::HTTP_2).unwrap();
        assert_eq!(table.rules()[0].matches, [RequestMatch::Grpc(expected)]);
    }
}
