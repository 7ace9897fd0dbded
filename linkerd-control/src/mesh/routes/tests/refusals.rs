//! Errors of routes, rules and filters.

use crate::mesh::Mesh;
use crate::mesh::testing::{mesh, refused, refused_at_mark, web_with};

#[test]
fn wrong_routes_are_refused() {
    for (routes, reason) in [
        ("^{}", "expected a list, each item on a line"),
        ("[^{kind: HTTPRoute}]", "the route has no `spec`"),
        (
            "[^{kind: GRPCRoute, spec: {}}]",
            "a GRPCRoute needs `protocol: grpc` of the service",
        ),
        (
            "[{rules: [{timeouts: ^{response: 1s, backendRequest: 1s}}]}]",
            "`backendRequest` and `response` are the same limit; remove one",
        ),
        (
            "[{rules: [{backendRefs: [{name: web, kind: ^ConfigMap}]}]}]",
            "`ConfigMap` is no kind; use `Service`",
        ),
        (
            "[{kind: ^TCPRoute, spec: {}}]",
            "`TCPRoute` is no kind; use HTTPRoute or GRPCRoute",
        ),
        (
            "[{^rule: [{}]}]",
            "unknown field `rule`; did you mean `rules`?",
        ),
        (
            "[{name: ^A, rules: [{}]}]",
            "route name \"A\" is not a DNS name; use lower-case",
        ),
        (
            "[{hostnames: [^'web:80'], rules: [{}]}]",
            "\"web:80\" is not a host name; write it without a port",
        ),
        (
            "[{hostnames: [^'*'], rules: [{}]}]",
            "\"*\" is not a host name; write it without a port, such as web.local or *.local",
        ),
    ] {
        refused_at_mark(&format!("routes: {routes}"), reason);
    }
    refused(
        "services:\n- name: web\n  port: 80\n  protocol: opaque\n  routes: [{rules: [{}]}]\n",
        "5:11: opaque connections have no routes; remove `protocol: opaque` or `routes`",
    );
}

#[test]
fn routes_of_an_unknown_protocol_are_not_judged() {
    refused(
        "services:\n- name: web\n  port: 80\n  protocol: grcp\n  routes: [{rules: [{matches: [{method: {service: a}}]}]}]\n",
        "4:13: `grcp` is no protocol; use detect",
    );
}

#[test]
fn wrong_rules_are_refused() {
    for (rule, reason) in [
        (
            "^backendRef: []",
            "unknown field `backendRef`; did you mean `backendRefs`?",
        ),
        (
            "matches: [{path: {type: ^Prefix, value: /a}}]",
            "`Prefix` is no type; use Exact, PathPrefix or RegularExpression",
        ),
        (
            "matches: [{path: {value: ^a}}]",
            "`a` is not a path; begin it with `/`",
        ),
        (
            "matches: [{path: {type: RegularExpression, value: ^'/('}}]",
            "`/(` is not a usable regular expression: error: unclosed group",
        ),
        (
            "matches: [{path: {type: RegularExpression, value: ^'\\w{1000}{1000}'}}]",
            "`\\w{1000}{1000}` is not a usable regular expression: ",
        ),
        (
            "matches: [{headers: [{name: ^'a b', value: c}]}]",
            "`a b` is not a header name; use letters",
        ),
        (
            "matches: [{headers: [^{name: a}]}]",
            "the header has no `value`",
        ),
        (
            "matches: [{headers: [{name: a, value: b}, ^{name: A, value: c}]}]",
            "header `a` is matched twice; remove one",
        ),
        (
            "matches: [{queryParams: [{name: a, value: b}, ^{name: a, value: c}]}]",
            "query parameter `a` is matched twice; remove one",
        ),
        (
            "matches: [{method: ^get}]",
            "`get` is not a method; use GET, POST or another",
        ),
        (
            "matches: [{method: ^{service: a}}]",
            "expected an HTTP method, not fields; methods of gRPC need `protocol: grpc` of the service",
        ),
        (
            "matches: [{method: GET}, ^{method: GET}]",
            "this match is listed twice; remove one",
        ),
        (
            "matches: [{^heders: [{name: a, value: b}]}]",
            "unknown field `heders`; did you mean `headers`?",
        ),
        (
            "backendRefs: [{name: ^wob}]",
            "backend \"wob\" names no service of this file; did you mean \"web\"?",
        ),
        (
            "backendRefs: [{name: ^canary, port: 80}]",
            "backend \"canary:80\" has no port 80; it has 8080",
        ),
        (
            "backendRefs: [{name: canary, port: ^0}]",
            "0 is not between 1 and 65535",
        ),
        (
            "backendRefs: [{name: ^'canary:8080'}]",
            "\"canary:8080\" is not a service name; give its port as `port`",
        ),
        (
            "backendRefs: [^{weight: 1}]",
            "the backend reference has no `name`",
        ),
        (
            "backendRefs: [{name: canary, weight: ^-1}]",
            "weight -1 is not between 0 and 1000000",
        ),
        (
            "backendRefs: [{name: ^canary, weight: 0}]",
            "all backends have weight 0; give one of them",
        ),
        (
            "timeouts: {request: ^10}",
            "`10` is not a duration; write hours, minutes, seconds or milliseconds",
        ),
        (
            "timeouts: {^respons: 10s}",
            "unknown field `respons`; did you mean `response`?",
        ),
        (
            "retry: {attempts: ^65536}",
            "65536 is not between 0 and 65535",
        ),
        (
            "retry: {codes: [^700]}",
            "`700` is no HTTP status, nor a range of them; write 503, 500-599 or 5xx",
        ),
        (
            "retry: {codes: [^599-500]}",
            "`599-500` is no HTTP status, nor a range",
        ),
        (
            "retry: {codes: [^9xx]}",
            "`9xx` is no HTTP status, nor a range",
        ),
        (
            "retry: ^{backoff: 2s, maxBackoff: 1s}",
            "`backoff` is longer than `maxBackoff`; swap them",
        ),
        (
            "retry: ^{maxBackoff: 1s}",
            "`maxBackoff` needs `backoff`, the first pause",
        ),
        ("retry: {backoff: ^0s}", "`0s` must be longer than 0"),
        (
            "allowRequestHeaders: ^maybe",
            "`maybe` is no allowRequestHeaders; use true or false",
        ),
    ] {
        refused_at_mark(&format!("routes: [{{rules: [{{{rule}}}]}}]"), reason);
    }
}

#[test]
fn wrong_filters_are_refused() {
    for (filter, reason) in [
        (
            "{type: ^Mirror}",
            "`Mirror` is no type; use RequestHeaderModifier, ResponseHeaderModifier, RequestRedirect or FailureInjector",
        ),
        ("^{}", "the filter has no `type`"),
        (
            "^{type: FailureInjector}",
            "the filter has no `failureInjector`",
        ),
        (
            "{type: FailureInjector, requestRedirect: ^{}}",
            "`requestRedirect` is not the field of the filter's type; change one",
        ),
        (
            "{requestRedirect: {}, failureInjector: ^{}}",
            "a filter has one field beside its type; move `failureInjector` to a filter of its own",
        ),
        (
            "{requestRedirect: {}}, ^{requestRedirect: {}}",
            "the rule has a filter of this type already; remove one",
        ),
        (
            "{failureInjector: ^{percent: 1}}",
            "the failure injector has no `statusCode`",
        ),
        (
            "{failureInjector: {statusCode: ^99}}",
            "99 is no HTTP status here; use 200 to 599",
        ),
        (
            "{failureInjector: {statusCode: 503, percent: ^101}}",
            "101 is not between 0 and 100",
        ),
        (
            "{failureInjector: {statusCode: 503, ^precent: 1}}",
            "unknown field `precent`; did you mean `percent`?",
        ),
        (
            "{requestHeaderModifier: {add: [^{name: a}]}}",
            "the header has no `value`",
        ),
        (
            "{requestHeaderModifier: {set: [{name: ^'a:', value: b}]}}",
            "`a:` is not a header name",
        ),
        (
            "{responseHeaderModifier: {set: [{name: ^Content-Length, value: 1}]}}",
            "`content-length` delimits messages, and the proxy writes it; remove it",
        ),
        (
            "{requestHeaderModifier: {add: [{name: ^transfer-encoding, value: gzip}]}}",
            "`transfer-encoding` delimits messages, and the proxy writes it; remove it",
        ),
        (
            r#"{responseHeaderModifier: {set: [{name: a, value: ^"b\u0001"}]}}"#,
            r#""b\u{1}" is not a header value; use visible characters in one line"#,
        ),
        (
            "{requestRedirect: {scheme: ^ftp}}",
            "`ftp` is no scheme; use http or https",
        ),
        (
            "{requestRedirect: {hostname: ^'*.new.test'}}",
            "a redirect leads to one host; write it without `*.`",
        ),
        (
            "{requestRedirect: {statusCode: ^200}}",
            "200 is no HTTP status here; use 300 to 399",
        ),
        (
            "{requestRedirect: {path: ^{type: ReplacePrefixMatch, replacePrefixMatch: /a}}}",
            "ReplacePrefixMatch needs a path of type PathPrefix in each match of its rule; add it",
        ),
        (
            "{requestRedirect: {path: ^{type: ReplaceFullPath}}}",
            "the path has no `replaceFullPath`",
        ),
    ] {
        refused_at_mark(
            &format!("routes: [{{rules: [{{filters: [{filter}]}}]}}]"),
            reason,
        );
    }
}

#[test]
fn wrong_grpc_routes_are_refused() {
    for (rule, problem) in [
        (
            "matches: [{method: GET}]",
            "expected the `service` and `method` of gRPC calls, not `GET`",
        ),
        (
            "matches: [{method: {type: RegularExpression, service: a}}]",
            "`RegularExpression` is no type; use `Exact`",
        ),
        (
            "matches: [{method: {}}]",
            "the method match names no `service` or `method`",
        ),
        (
            "matches: [{path: {value: /}}]",
            "unknown field `path`; expected method or headers",
        ),
        (
            "filters: [{failureInjector: {code: 17}}]",
            "`17` is no gRPC code; use a name such as UNAVAILABLE, or 0 to 16",
        ),
        (
            "filters: [{requestRedirect: {}}]",
            "gRPC routes have no such filter; use RequestHeaderModifier or FailureInjector",
        ),
        (
            "retry: {codes: [NOT_FOUND]}",
            "`NOT_FOUND` is not retried; use CANCELLED, DEADLINE_EXCEEDED",
        ),
    ] {
        let text = format!(
            "services:\n- name: web\n  port: 80\n  protocol: grpc\n  routes:\n  - rules:\n    - {rule}\n"
        );
        let error = Mesh::parse("m", &text).expect_err("a problem");
        let error = error.to_string();
        assert!(error.starts_with("m:7:"), "{error}");
        assert!(error.contains(problem) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn regular_expressions_of_a_service_are_limited_in_number() {
    let matches = |count| -> String {
        let regex = |n| format!("{{path: {{type: RegularExpression, value: '/{n}.*'}}}}");
        let matches: Vec<_> = (0..count).map(regex).collect();
        matches.join(", ")
    };
    mesh(&web_with(&format!(
        "routes: [{{rules: [{{matches: [{}]}}]}}]",
        matches(256)
    )));
    refused_at_mark(
        &format!("routes: ^[{{rules: [{{matches: [{}]}}]}}]", matches(257)),
        "257 regular expressions are more than 256; use exact values or prefixes",
    );
}

#[test]
fn all_problems_of_routes_are_told_at_once() {
    let text = "
services:
- name: web
  port: 80
  routes:
  - hostnames: ['a b']
    rules:
    - matchs:
      - path: {type: Prefix}
      - headers: [{name: 'a b', value: c}]
      timeouts: {request: soon}
      backendRefs: [{name: gone}, {name: web, weight: x}]
    - retry: {codes: [12]}
";
    let error = Mesh::parse("m", text).expect_err("problems").to_string();
    let lines: Vec<_> = error.lines().map(|line| line.split(' ').next()).collect();
    let expected = [
        "m:6:17:", "m:8:7:", "m:9:22:", "m:10:26:", "m:11:27:", "m:12:28:", "m:12:55:", "m:13:23:",
    ];
    assert_eq!(lines, expected.map(Some), "{error}");
}
