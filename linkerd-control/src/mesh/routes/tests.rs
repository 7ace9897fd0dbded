mod refusals;

use crate::mesh::testing::{mesh, web_with};
use crate::policy::{
    HeaderChanges, Policy, Route, RouteFilter, RouteMatch, RouteRetry, RouteRule, RouteTimeouts,
};
use linkerd_api_proto::http_route::{PathModifier, RequestRedirect, path_modifier};
use linkerd_api_proto::http_types::{Scheme, scheme};
use linkerd_api_proto::outbound::OutboundPolicy;
use std::time::Duration;

/// The policy of the first port.
fn policy(text: &str) -> OutboundPolicy {
    let (policy, _) = mesh(text).messages().next().expect("a service");
    policy
}

/// The policy of a service whose only route has this rule.
fn policy_of_rule(rule: &str) -> OutboundPolicy {
    policy(&web_with(&format!("routes: [{{rules: [{rule}]}}]")))
}

fn expected(rule: RouteRule) -> OutboundPolicy {
    Policy::balance("web", 80)
        .route(Route::new("web-1").rule(rule))
        .build()
}

#[test]
fn the_routes_of_a_service() {
    let read = policy(
        "
services:
  - name: web
    namespace: shop
    ports: [80, 81]
    routes:
      - name: main
        hostnames: [Web.Test., '*.shop.test']
        rules:
          - matches:
              - path: {type: Exact, value: /cart}
                method: POST
              - path: {type: RegularExpression, value: '/v[0-9]+/.*'}
                headers: [{name: X-User, value: tester}, {type: RegularExpression, name: y, value: a+}]
                queryParams: [{name: q, value: '1'}, {type: RegularExpression, name: r, value: b+}]
            filters:
              - type: RequestHeaderModifier
                requestHeaderModifier:
                  add: [{name: a, value: '1'}]
                  set: [{name: b, value: '2'}]
                  remove: [c]
            backendRefs:
              - {name: web, port: 80, weight: 9}
              - {name: canary, namespace: default, weight: 1}
              - {name: same}
            timeouts: {request: 10s, response: 5s, idle: 1m}
            retry: {attempts: 2, codes: [503, 5xx, 429-430], timeout: 1s, backoff: 25ms, maxBackoff: 250ms}
            allowRequestHeaders: true
      - rules:
          - {}
  - {name: canary, port: 8080}
  - {name: same, namespace: shop, ports: [80, 81]}
",
    );
    let changes = HeaderChanges::new().add("a", "1").set("b", "2").remove("c");
    let seconds = Duration::from_secs;
    let ms = Duration::from_millis;
    let share = |name: &str, namespace: &str, port, weight| {
        (name.to_owned(), namespace.to_owned(), port, weight)
    };
    let rule = RouteRule::new()
        .when(RouteMatch::exact("/cart").method("POST"))
        .when(
            RouteMatch::regex("/v[0-9]+/.*")
                .header("x-user", "tester")
                .header_regex("y", "a+")
                .query("q", "1")
                .query_regex("r", "b+"),
        )
        .filter(RouteFilter::request_headers(changes))
        .split_among([
            share("web", "shop", 80, 9),
            share("canary", "default", 8080, 1),
            share("same", "shop", 80, 1),
        ])
        .timeouts(
            RouteTimeouts::new()
                .request(seconds(10))
                .response(seconds(5))
                .idle(seconds(60)),
        )
        .retry(
            RouteRetry::new(2)
                .status(503..=503)
                .status(500..=599)
                .status(429..=430)
                .timeout(seconds(1))
                .backoff(ms(25), ms(250)),
        )
        .allow_request_headers();
    let main = Route::new("main")
        .host("web.test")
        .host("*.shop.test")
        .rule(rule);
    let rest = Route::new("web-2").rule(RouteRule::new());
    let built = Policy::balance("web", 80)
        .namespace("shop")
        .route(main)
        .route(rest)
        .build();
    assert_eq!(read, built);
}

#[test]
fn a_reference_without_a_port_is_the_port_of_the_traffic() {
    let text = web_with("routes: [{rules: [{backendRefs: [{name: web}, {name: canary}]}]}]");
    let (policy, _) = mesh(&text).messages().nth(1).expect("a second port");
    let rule = RouteRule::new().split([("web", 81, 1), ("canary", 8080, 1)]);
    let route = Route::new("web-1").rule(rule);
    assert_eq!(policy, Policy::balance("web", 81).route(route).build());
}

#[test]
fn filters_are_those_of_the_gateway_api_and_failures() {
    let read = policy_of_rule(
        "{matches: [{path: {value: /old}}], filters: [
        {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: a, value: b}]}},
        {type: FailureInjector, failureInjector: {statusCode: 503, message: later, percent: 12.5}},
        {requestRedirect: {scheme: https, hostname: new.test, port: 8443, statusCode: 308,
          path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}]}",
    );
    let redirect = RequestRedirect {
        scheme: Some(Scheme {
            r#type: Some(scheme::Type::Registered(scheme::Registered::Https.into())),
        }),
        host: "new.test".to_owned(),
        port: 8443,
        path: Some(PathModifier {
            replace: Some(path_modifier::Replace::Prefix("/new".to_owned())),
        }),
        status: 308,
    };
    let rule = RouteRule::new()
        .when(RouteMatch::prefix("/old"))
        .filter(RouteFilter::response_headers(
            HeaderChanges::new().set("a", "b"),
        ))
        .filter(RouteFilter::fail(503, "later").ratio(12_500, 100_000))
        .filter(RouteFilter::Redirect(redirect));
    assert_eq!(read, expected(rule));
}

#[test]
fn what_is_left_out_is_as_in_the_gateway_api() {
    let read = policy_of_rule(
        "{matches: [{path: {}}], filters: [{requestRedirect: {}}, {failureInjector: {statusCode: 500}}],
          retry: {codes: [500], backoff: 2s}}",
    );
    let redirect = RequestRedirect {
        status: 302,
        ..RequestRedirect::default()
    };
    let two = Duration::from_secs(2);
    let rule = RouteRule::new()
        .when(RouteMatch::prefix("/"))
        .filter(RouteFilter::Redirect(redirect))
        .filter(RouteFilter::fail(500, "injected failure"))
        .retry(RouteRetry::new(1).status(500..=500).backoff(two, two));
    assert_eq!(read, expected(rule));
}

#[test]
fn grpc_routes_have_services_methods_and_codes() {
    let read = policy(
        "
services:
- name: web
  port: 80
  protocol: grpc
  routes:
  - rules:
    - matches:
      - {method: {service: shop.Cart, method: Add}, headers: [{name: a, value: b}]}
      - {method: {type: Exact, service: x}}
      filters: [{failureInjector: {code: unavailable, percent: 100}}]
      retry: {codes: [UNAVAILABLE, deadline-exceeded, 13]}
",
    );
    let rule = RouteRule::new()
        .when(RouteMatch::rpc("shop.Cart", "Add").header("a", "b"))
        .when(RouteMatch::rpc("x", ""))
        .filter(RouteFilter::fail_grpc(14, "injected failure").ratio(100_000, 100_000))
        .retry(RouteRetry::new(1).code(14).code(4).code(13));
    let policy = Policy::balance("web", 80).grpc();
    assert_eq!(read, policy.route(Route::new("web-1").rule(rule)).build());
}
