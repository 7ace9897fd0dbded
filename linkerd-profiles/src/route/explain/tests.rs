use super::*;
use crate::{
    backend::Distribution,
    meta::Meta,
    profile::{ProfileMatch, ProfileRoute},
    route::{
        GrpcMatch, HeaderMatch, HostMatch, HttpMatch, PathMatch, Pattern, QueryMatch, ValueMatch,
    },
};
use http::{HeaderName, Method};
use proptest::{collection::vec, option, prelude::*, sample::select};
use std::sync::Arc;

fn rule(hosts: Vec<HostMatch>, matches: Vec<RequestMatch>) -> RouteRule {
    RouteRule {
        hosts,
        matches,
        ..RouteRule::for_all(Arc::new(Meta::new_default("rule")), Distribution::Empty)
    }
}

fn http(condition: HttpMatch) -> RequestMatch {
    RequestMatch::Http(condition)
}

fn header(name: &str, value: &str) -> HeaderMatch {
    HeaderMatch {
        name: HeaderName::try_from(name).unwrap(),
        value: ValueMatch::Exact(value.into()),
    }
}

fn parameter(name: &str, value: &str) -> QueryMatch {
    QueryMatch {
        name: name.to_owned(),
        value: ValueMatch::Regex(Pattern::new(value).unwrap()),
    }
}

fn prefix(path: &str) -> HttpMatch {
    HttpMatch {
        path: Some(PathMatch::Prefix(path.to_owned())),
        ..HttpMatch::default()
    }
}

fn request(method: &str, uri: &str) -> Request<()> {
    Request::builder().method(method).uri(uri).body(()).unwrap()
}

/// The reasons for all rules but the chosen one, in the order of the rules.
fn reasons(rules: Vec<RouteRule>, request: &Request<()>) -> Vec<String> {
    let mut others = RouteTable::new(rules).explain(request).others;
    others.sort_by_key(|other| other.index);
    others.iter().map(|other| other.miss.to_string()).collect()
}

#[test]
fn each_part_of_a_condition_is_named_with_the_value_of_the_request() {
    let exact = |path: &str| HttpMatch {
        path: Some(PathMatch::Exact(path.to_owned())),
        ..HttpMatch::default()
    };
    let with = |condition: HttpMatch| vec![http(condition)];
    let post = HttpMatch {
        method: Some(Method::POST),
        ..prefix("/")
    };
    let of_header = HttpMatch {
        headers: vec![header("x-b", "2"), header("x-a", "2")],
        ..prefix("/")
    };
    let of_query = HttpMatch {
        query: vec![parameter("q", "[0-9]+")],
        ..prefix("/")
    };
    let both = vec![http(post.clone()), http(prefix("/x"))];
    let rules = [
        with(exact("/b")),
        with(prefix("/b")),
        with(post),
        with(of_header),
        with(of_query),
        both,
    ];
    let mut request = request("GET", "http://web/a?q=one&q=two");
    request.headers_mut().insert("x-b", "2".parse().unwrap());
    let rules = rules.into_iter().map(|matches| rule(Vec::new(), matches));
    assert_eq!(
        reasons(rules.collect(), &request),
        [
            "path must be /b, and is /a",
            "path must be /b or below, and is /a",
            "method must be POST, and is GET",
            "header x-a must be \"2\", and is absent",
            "query parameter q must be a match of [0-9]+, and is [\"one\", \"two\"]",
            "method must be POST, and is GET; or path must be /x or below, and is /a",
        ]
    );
}

#[test]
fn a_rule_that_matches_says_what_the_winner_has_more() {
    let host = |host: &str| vec![HostMatch::Exact(host.to_owned())];
    let any = |condition| rule(host("web"), vec![http(condition)]);
    let rules = vec![
        any(HttpMatch {
            headers: vec![header("x-a", "1")],
            ..prefix("/a/b")
        }),
        any(prefix("/a/b")),
        any(prefix("/a")),
        rule(Vec::new(), Vec::new()),
        rule(host("other"), Vec::new()),
        any(HttpMatch {
            headers: vec![header("x-a", "1")],
            ..prefix("/a/b/")
        }),
    ];
    let mut request = request("GET", "http://web/a/b");
    request.headers_mut().insert("x-a", "1".parse().unwrap());
    assert_eq!(
        reasons(rules, &request),
        [
            "it matches, but the rule that takes the request has more headers",
            "it matches, but the rule that takes the request has a longer path",
            "it matches, but the rule that takes the request has a closer host",
            "it is for other hosts than web",
            "it matches, but a rule before it takes the request",
        ]
    );
}

#[test]
fn grpc_and_profiles_are_explained_in_their_words() {
    let grpc = |service: &str, method: Option<&str>| {
        let condition = RequestMatch::Grpc(GrpcMatch {
            service: Some(service.to_owned()),
            method: method.map(str::to_owned),
            headers: Vec::new(),
        });
        rule(Vec::new(), vec![condition])
    };
    let rules = vec![
        grpc("a.A", None),
        grpc("a.A", Some("Get")),
        grpc("b.B", None),
    ];
    assert_eq!(
        reasons(rules.clone(), &request("POST", "/a.A/Get")),
        [
            "it matches, but the rule that takes the request names the method",
            "gRPC service must be b.B, and is a.A",
        ]
    );
    let misses = reasons(rules, &request("POST", "/health"));
    assert_eq!(misses[0], "path must be /SERVICE/METHOD, and is /health");

    let profile = |condition| {
        let route = Arc::new(ProfileRoute::new(condition));
        rule(Vec::new(), vec![RequestMatch::Profile(route)])
    };
    let path = |text: &str| ProfileMatch::Path(Pattern::new(text).unwrap());
    let post = || ProfileMatch::Method(Method::POST);
    let rules = vec![
        profile(ProfileMatch::All(vec![path("/a.*"), post()])),
        profile(ProfileMatch::Any(vec![path("/b"), post()])),
        profile(ProfileMatch::Not(Box::new(path("/a")))),
        profile(path("/a")),
        profile(ProfileMatch::EVERY),
        rule(Vec::new(), Vec::new()),
    ];
    assert_eq!(
        reasons(rules, &request("GET", "/a")),
        [
            "method must be POST, and is GET",
            "request must be path matching /b or method POST, and is GET /a",
            "request must be not path matching /a, and is GET /a",
            "it matches, but a rule before it takes the request",
            "it matches, but a rule before it takes the request",
        ]
    );
}

#[test]
fn of_many_rules_those_for_the_host_are_explained_and_the_others_counted() {
    let of = |host: usize| rule(vec![HostMatch::Exact(format!("h{host}"))], Vec::new());
    let mut rules: Vec<_> = (0..1_000).map(of).collect();
    rules.push(rule(
        vec![HostMatch::Exact("h900".to_owned())],
        vec![http(prefix("/long")); 20],
    ));
    let explained = RouteTable::new(rules).explain(&request("GET", "http://h900/"));
    assert_eq!(explained.found.map(|found| found.index), Some(900));
    assert_eq!((explained.others.len(), explained.more), (50, 950));
    assert_eq!(explained.others[0].index, 1_000);
    assert!(matches!(
        &explained.others[0].miss,
        RuleMiss::Conditions { misses, more: 12 } if misses.len() == 8
    ));
}

fn hosts() -> impl Strategy<Value = Vec<HostMatch>> {
    let host = select(vec!["a.test", "b.test", "*.test", "*.a.test"]);
    let host = host.prop_map(|host| match host.strip_prefix("*.") {
        Some(suffix) => HostMatch::Suffix(suffix.rsplit('.').map(str::to_owned).collect()),
        None => HostMatch::Exact(host.to_owned()),
    });
    vec(host, 0..3)
}

fn http_condition() -> impl Strategy<Value = RequestMatch> {
    let path = select(vec!["/", "/a", "/a/b", "/c"]);
    let path = (path, 0..3).prop_map(|(path, kind)| match kind {
        0 => PathMatch::Exact(path.to_owned()),
        1 => PathMatch::Prefix(path.to_owned()),
        _ => PathMatch::Regex(Pattern::new(&format!("{path}.*")).unwrap()),
    });
    let header = select(vec!["1", "2"]).prop_map(|value| header("x-a", value));
    let parameter = select(vec!["1", "2"]).prop_map(|value| parameter("q", value));
    let method = select(vec![Method::GET, Method::POST]);
    (
        option::of(path),
        vec(header, 0..2),
        vec(parameter, 0..2),
        option::of(method),
    )
        .prop_map(|(path, headers, query, method)| {
            http(HttpMatch {
                path,
                headers,
                query,
                method,
            })
        })
}

fn grpc_condition() -> impl Strategy<Value = RequestMatch> {
    let name = || option::of(select(vec!["a", "b"]).prop_map(str::to_owned));
    (name(), name()).prop_map(|(service, method)| {
        RequestMatch::Grpc(GrpcMatch {
            service,
            method,
            headers: Vec::new(),
        })
    })
}

fn profile_condition() -> impl Strategy<Value = RequestMatch> {
    let path = select(vec!["/", "/a", "/a/.*"]);
    let path = path.prop_map(|path| ProfileMatch::Path(Pattern::new(path).unwrap()));
    let method = select(vec![Method::GET, Method::POST]).prop_map(ProfileMatch::Method);
    let leaf = prop_oneof![path, method];
    let condition = leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(ProfileMatch::All),
            vec(inner.clone(), 0..3).prop_map(ProfileMatch::Any),
            inner.prop_map(|inner| ProfileMatch::Not(Box::new(inner))),
        ]
    });
    condition.prop_map(|condition| RequestMatch::Profile(Arc::new(ProfileRoute::new(condition))))
}

fn tables() -> impl Strategy<Value = Vec<RouteRule>> {
    let rules = |conditions: BoxedStrategy<RequestMatch>| {
        let one = (hosts(), vec(conditions, 0..3));
        vec(one.prop_map(|(hosts, matches)| rule(hosts, matches)), 0..6)
    };
    prop_oneof![
        rules(http_condition().boxed()),
        rules(grpc_condition().boxed()),
        rules(profile_condition().boxed()),
    ]
}

fn requests() -> impl Strategy<Value = Request<()>> {
    let host = select(vec!["a.test", "c.test", "x.a.test", "other"]);
    let path = select(vec!["/", "/a", "/a/b", "/a/b/c", "/c?q=1", "/a/a?q=2"]);
    let value = option::of(select(vec!["1", "2"]));
    (host, path, select(vec!["GET", "POST"]), value).prop_map(|(host, path, method, value)| {
        let mut request = request(method, &format!("http://{host}{path}"));
        if let Some(value) = value {
            request.headers_mut().insert("x-a", value.parse().unwrap());
        }
        request
    })
}

proptest! {
    /// A rule is reported as matching exactly if it would take the request without the rules that beat it.
    #[test]
    fn the_explanation_agrees_with_the_choice(rules in tables(), request in requests()) {
        let table = RouteTable::new(rules.clone());
        let explained = table.explain(&request);
        prop_assert_eq!(explained.found, table.find(&request));
        prop_assert_eq!(explained.others.len() + usize::from(explained.found.is_some()), rules.len());
        for other in &explained.others {
            let alone = RouteTable::new(vec![rules[other.index].clone()]);
            let is_met = alone.find(&request).is_some();
            let says_met = !matches!(other.miss, RuleMiss::Host { .. } | RuleMiss::Conditions { .. });
            prop_assert_eq!(says_met, is_met, "{:?}", other);
            if let RuleMiss::Conditions { misses, more } = &other.miss {
                prop_assert_eq!(misses.len() + more, rules[other.index].matches.len());
            }
            // With one other rule, which matches, the explained choice must be the choice between these two.
            if let (true, Some(found)) = (says_met, explained.found) {
                let (first, second) = (found.index.min(other.index), found.index.max(other.index));
                let pair = RouteTable::new(vec![rules[first].clone(), rules[second].clone()]);
                let chosen = pair.find(&request).map(|chosen| [first, second][chosen.index]);
                prop_assert_eq!(chosen, Some(found.index), "{:?}", other);
            }
        }
    }
}
