//! Conditions of routes, and their order.

use crate::{DST, Profiled, named, profile};
use linkerd_control::{Profile, ProfileMatch, ProfileRoute};
use linkerd_tests::{SOON, eventually};

fn path(regex: &str) -> ProfileMatch {
    ProfileMatch::path(regex)
}

fn method(name: &str) -> ProfileMatch {
    ProfileMatch::method(name)
}

/// Sends requests, and checks that each is counted for the named route, or for no named route.
async fn check<'a>(
    routes: impl IntoIterator<Item = (&'a str, ProfileMatch)>,
    requests: &[(&str, &str, Option<&str>)],
) {
    let mut routes: Vec<_> = routes.into_iter().collect();
    let names: Vec<_> = routes.iter().map(|(name, _)| *name).collect();
    let routes = routes
        .drain(..)
        .map(|(name, condition)| named(name, condition));
    let profiled = Profiled::with(routes).await;
    let mut expected = vec![0.0; names.len()];
    for (sent, (method, path, route)) in requests.iter().enumerate() {
        let reply = profiled.send(method, path, &[]).await;
        assert_eq!(reply.status, 200, "{method} {path}");
        if let Some(route) = route {
            let index = names.iter().position(|name| name == route).unwrap();
            expected[index] += 1.0;
        }
        let metrics = profiled.mesh.proxy.metrics().await;
        for (name, count) in names.iter().zip(&expected) {
            let labels = [("dst", DST), ("rt_route", *name)];
            let counted = metrics.sum("route_request_total", &labels);
            assert_eq!(counted, *count, "{name} after {method} {path}");
        }
        let all = metrics.sum("route_request_total", &[("dst", DST)]);
        assert_eq!(all, (sent + 1) as f64, "{method} {path}");
    }
}

#[tokio::test]
async fn paths_match_as_a_whole_by_regular_expressions() {
    let routes = [
        ("plain", path("/books")),
        ("regex", path("/books/[^/]*")),
        ("anchored", path("^/anchored/.*$")),
        ("alternatives", path("/a|/b")),
    ];
    check(
        routes,
        &[
            ("GET", "/books", Some("plain")),
            ("POST", "/books?q=/other", Some("plain")),
            ("GET", "/books/", Some("regex")),
            ("GET", "/books/12", Some("regex")),
            ("GET", "/books/12/x", None),
            ("GET", "/x/books", None),
            ("GET", "/Books", None),
            ("GET", "/anchored/x/y", Some("anchored")),
            ("GET", "/b", Some("alternatives")),
            ("GET", "/ab", None),
            ("GET", "/", None),
        ],
    )
    .await;
}

#[tokio::test]
async fn methods_and_combinations_match() {
    let both = || [path("/all/.*"), method("PUT")];
    let routes = [
        ("all", ProfileMatch::all(both())),
        ("neither", ProfileMatch::any(both()).negated()),
        ("method", method("PUT")),
        (
            "nested",
            ProfileMatch::any([ProfileMatch::all([
                path("/all/.*"),
                ProfileMatch::any([method("GET"), method("PURGE")]).negated(),
            ])]),
        ),
        ("never", ProfileMatch::any([])),
        ("always", ProfileMatch::all([])),
    ];
    check(
        routes,
        &[
            ("PUT", "/all/x", Some("all")),
            ("PUT", "/other", Some("method")),
            ("GET", "/other", Some("neither")),
            ("POST", "/all/x", Some("nested")),
            ("GET", "/all/x", Some("always")),
            ("PURGE", "/all/x", Some("always")),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_first_route_that_matches_wins_however_specific_others_are() {
    let routes = [
        ("narrow", path("/a/b/c")),
        ("wide", path("/a/.*")),
        ("narrow and late", path("/a/b")),
        ("all", path("/.*")),
        ("late", path("/x")),
    ];
    check(
        routes,
        &[
            ("GET", "/a/b/c", Some("narrow")),
            ("GET", "/a/b", Some("wide")),
            ("GET", "/x", Some("all")),
        ],
    )
    .await;
}

#[tokio::test]
async fn routes_that_cannot_be_used_are_dropped_and_named() {
    let (broken, valid) = (named("broken", path("(")), named("valid", path("/valid")));
    let profiled = Profiled::with([
        broken.clone(),
        named(
            "some",
            ProfileMatch::any([method("NO METHOD"), path("/some")]),
        ),
        named("not", path("(").negated()),
        valid,
    ])
    .await;
    for path in ["/valid", "/some", "/(", "/other"] {
        assert_eq!(profiled.get(path).await.status, 200);
    }
    for (route, count) in [("valid", 1.0), ("some", 1.0), ("broken", 0.0), ("not", 0.0)] {
        assert_eq!(profiled.requests(route).await, count, "{route}");
    }
    let line = profiled
        .mesh
        .proxy
        .wait_for_log("invalid parts of a profile")
        .await;
    for part in [
        "route 0: ",
        "unclosed group",
        "a condition of route 1: ",
        "is no method",
        "route 2: ",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }

    // With no valid route in the profile, the policy routes requests.
    profiled.profile().set(profile([broken]));
    eventually(SOON, "the policy routes", || async {
        profiled.get("/").await;
        let seen = profiled.server.last();
        (!seen.headers.contains_key("l5d-dst-canonical")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn deeply_nested_conditions_harm_nobody() {
    let deep = |depth| (0..depth).fold(path("/a"), |inner, _| inner.negated());
    let profiled = Profiled::start(
        Profile::new(crate::NAME)
            .route(named("too deep", deep(90)))
            .route(named("deep", deep(40))),
    )
    .await;
    profiled.get("/a").await;
    assert_eq!(profiled.requests("deep").await, 1.0);
    assert_eq!(profiled.requests("too deep").await, 0.0);
}

#[tokio::test]
async fn a_thousand_routes_are_served() {
    let route = |n: usize| named(&format!("r{n}"), path(&format!("/{n}")));
    let routes: Vec<ProfileRoute> = (0..1000).map(route).collect();
    let profiled = Profiled::with(routes).await;
    for n in [0, 500, 999] {
        profiled.get(&format!("/{n}")).await;
        assert_eq!(profiled.requests(&format!("r{n}")).await, 1.0);
    }
}
