use crate::mesh::testing::{mesh, refused_at_mark, web_with};
use crate::profile::{Profile, ProfileMatch, ProfileRoute, ResponseClass, ResponseMatch};
use std::time::Duration;

#[test]
fn the_profile_of_a_service() {
    let text = "
services:
  - name: web
    namespace: shop
    ports: [80, 81]
    profile:
      routes:
        - name: books
          condition: {pathRegex: '/books/.*', method: GET}
          responseClasses:
            - condition: {status: {min: 500, max: 599}}
              isFailure: true
            - condition: {not: {any: [{status: {min: 200}}, {status: {max: 404}}]}}
          timeout: 300ms
          isRetryable: true
        - name: rest
          condition: {not: {all: [{method: GET}, {pathRegex: /}]}}
      retryBudget: {retryRatio: 0.2, minRetriesPerSecond: 10, ttl: 10s}
      dstOverrides:
        - {authority: web, weight: 9}
        - {authority: 'canary.default.svc.cluster.local:8080', weight: 1}
  - {name: canary, port: 8080}
";
    let books = ProfileRoute::new(ProfileMatch::all([
        ProfileMatch::path("/books/.*"),
        ProfileMatch::method("GET"),
    ]))
    .label("route", "books")
    .class(ResponseClass::failure(ResponseMatch::status(500..=599)))
    .class(ResponseClass::success(
        ResponseMatch::any([
            ResponseMatch::status(200..=200),
            ResponseMatch::status(404..=404),
        ])
        .negated(),
    ))
    .timeout(Duration::from_millis(300))
    .retryable();
    let all = [ProfileMatch::method("GET"), ProfileMatch::path("/")];
    let rest = ProfileRoute::new(ProfileMatch::all(all).negated()).label("route", "rest");
    for (read, port) in mesh(text).messages().zip([80, 81]) {
        let expected = Profile::new("web.shop.svc.cluster.local")
            .route(books.clone())
            .route(rest.clone())
            .retry_budget(0.2, 10, Duration::from_secs(10))
            .target(format!("web.shop.svc.cluster.local:{port}"), 9)
            .target("canary.default.svc.cluster.local:8080", 1);
        assert_eq!(read.1, expected.build());
    }
}

#[test]
fn wrong_profiles_are_refused() {
    for (profile, reason) in [
        (
            "{^route: []}",
            "unknown field `route`; did you mean `routes`?",
        ),
        (
            "{routes: [^{condition: {method: GET}}]}",
            "the route has no `name`",
        ),
        ("{routes: [^{name: a}]}", "the route has no `condition`"),
        (
            "{routes: [{name: a, condition: ^{}}]}",
            "the condition is empty; add a field, or remove it",
        ),
        (
            "{routes: [{name: a, condition: {all: ^[]}}]}",
            "`all` has no condition; add one",
        ),
        (
            "{routes: [{name: a, condition: {pathRegex: ^'('}}]}",
            "`(` is not a usable regular expression",
        ),
        (
            "{routes: [{name: a, condition: {method: ^get}}]}",
            "`get` is not a method",
        ),
        (
            "{routes: [{name: a, condition: {method: GET}, timeout: ^0s}]}",
            "`0s` must be longer than 0",
        ),
        (
            "{routes: [^{name: a, condition: {method: GET}, isRetryable: true}]}",
            "a retryable route needs the `retryBudget` of its profile",
        ),
        (
            "{routes: [{name: a, condition: {method: GET}, responseClasses: [{condition: {status: {min: ^99}}}]}]}",
            "99 is no HTTP status here; use 100 to 599",
        ),
        (
            "{routes: [{name: a, condition: {method: GET}, responseClasses: [{condition: {status: ^{min: 500, max: 400}}}]}]}",
            "`min` is above `max`; swap them",
        ),
        (
            "{retryBudget: {retryRatio: ^1001, minRetriesPerSecond: 1, ttl: 1s}}",
            "1001 is not between 0 and 1000",
        ),
        (
            "{retryBudget: {retryRatio: 1, minRetriesPerSecond: 1, ttl: ^61s}}",
            "a budget's ttl is between 1s and 60s",
        ),
        (
            "{retryBudget: ^{retryRatio: 1, ttl: 1s}}",
            "the retry budget has no `minRetriesPerSecond`",
        ),
        (
            "{dstOverrides: [{authority: ^'wob:80', weight: 1}]}",
            "backend \"wob:80\" names no service of this file",
        ),
        (
            "{dstOverrides: [{authority: ^web, weight: 0}]}",
            "all backends have weight 0",
        ),
        (
            "{dstOverrides: [^{weight: 1}]}",
            "the override has no `authority`",
        ),
    ] {
        refused_at_mark(&format!("profile: {profile}"), reason);
    }
}

#[test]
fn a_profile_stands_alone() {
    let text = web_with("profile: {}\n  routes: [{rules: [{}]}]\n  breaker: {successRate: 0.9}");
    let error = crate::mesh::Mesh::parse("m", &text).expect_err("problems");
    let error = error.to_string();
    for expected in [
        "m:5:11: a `profile` replaces `routes`; remove one of them",
        "m:6:12: a `profile` replaces `breaker`; remove one of them",
    ] {
        assert!(error.contains(expected), "{error}");
    }
}
