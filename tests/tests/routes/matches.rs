//! Matches of HTTP rules, and their precedence.

use crate::{Routed, named, outcome};
use http::Method;
use linkerd_control::RouteMatch;
use linkerd_tests::{empty, request, soon};

/// Method, path with query, headers, and the expected outcome.
type Row = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
);

/// Sends the requests over one connection, which must stay open, and checks the outcomes.
async fn check(rules: impl IntoIterator<Item = (&'static str, RouteMatch)>, rows: &[Row]) {
    let rules = rules.into_iter().map(|(name, rule)| named(name, rule));
    let routed = Routed::with(rules).await;
    let mut client = routed.mesh.http1().await;
    for (method, path, headers, expected) in rows {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut sent = request(method, &format!("http://web{path}"), empty());
        for (name, value) in *headers {
            sent.headers_mut().append(*name, value.parse().unwrap());
        }
        let reply = soon(client.send(sent)).await.unwrap();
        let row = (path, headers);
        assert_eq!(outcome(&reply), *expected, "{row:?}");
    }
}

#[tokio::test]
async fn paths_by_their_kinds() {
    let rules = [
        ("exact", RouteMatch::exact("/exact")),
        ("slashed", RouteMatch::exact("/slashed/")),
        ("prefix", RouteMatch::prefix("/foo")),
        ("trimmed", RouteMatch::prefix("/bar//")),
        ("regex", RouteMatch::regex("/re|/re[0-9]+/[^/]+")),
    ];
    check(
        rules,
        &[
            ("GET", "/exact", &[], "exact"),
            ("GET", "/exact?q", &[], "exact"),
            ("GET", "/exact/", &[], "404"),
            ("GET", "/EXACT", &[], "404"),
            ("GET", "/%65xact", &[], "404"),
            ("GET", "/slashed/", &[], "slashed"),
            ("GET", "/slashed", &[], "404"),
            ("GET", "/foo", &[], "prefix"),
            ("GET", "/foo/", &[], "prefix"),
            ("GET", "/foo/bar?q=/", &[], "prefix"),
            ("GET", "/foobar", &[], "404"),
            ("GET", "/bar", &[], "trimmed"),
            ("GET", "/bar/x", &[], "trimmed"),
            ("GET", "/re", &[], "regex"),
            ("GET", "/re12/a", &[], "regex"),
            ("GET", "/re12/a/b", &[], "404"),
            ("GET", "/a/re", &[], "404"),
            ("GET", "/", &[], "404"),
        ],
    )
    .await;
}

#[tokio::test]
async fn headers_queries_and_methods_must_all_be_met() {
    let rules = [
        ("header", RouteMatch::any().header("X-Kind", "a")),
        (
            "headers",
            RouteMatch::any()
                .header("x-kind", "a")
                .header("x-more", "b"),
        ),
        (
            "header regex",
            RouteMatch::any().header_regex("x-id", "[0-9]+"),
        ),
        ("query", RouteMatch::any().query("k", "a b")),
        ("query regex", RouteMatch::any().query_regex("id", "[0-9]+")),
        ("method", RouteMatch::any().method("DELETE")),
        ("own method", RouteMatch::any().method("PURGE")),
        (
            "all",
            RouteMatch::prefix("/all")
                .header("x-h", "1")
                .query("q", "1")
                .method("PUT"),
        ),
    ];
    let all: &[_] = &[("x-h", "1")];
    check(
        rules,
        &[
            ("GET", "/", &[("x-kind", "a")], "header"),
            ("GET", "/", &[("x-kind", "b"), ("x-kind", "a")], "header"),
            ("GET", "/", &[("x-kind", "A")], "404"),
            ("GET", "/", &[("x-kind", "a"), ("x-more", "b")], "headers"),
            ("GET", "/", &[("x-id", "12")], "header regex"),
            ("GET", "/", &[("x-id", "12a")], "404"),
            ("GET", "/?k=a+b", &[], "query"),
            ("GET", "/?x&k=1&k=a%20b", &[], "query"),
            ("GET", "/?K=a+b", &[], "404"),
            ("GET", "/?id=12", &[], "query regex"),
            ("GET", "/?id=a12", &[], "404"),
            ("DELETE", "/", &[], "method"),
            ("PURGE", "/", &[], "own method"),
            ("GET", "/", &[], "404"),
            ("PUT", "/all?q=1", all, "all"),
            ("PUT", "/all?q=2", all, "404"),
            ("PUT", "/all?q=1", &[], "404"),
            ("POST", "/all?q=1", all, "404"),
            ("PUT", "/al?q=1", all, "404"),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_longer_path_wins_then_exactness_headers_queries_and_the_method() {
    let deep = || RouteMatch::prefix("/a/b");
    let rules = [
        ("root", RouteMatch::prefix("/")),
        ("method", deep().method("POST")),
        ("query", deep().query("q", "1")),
        ("queries", deep().query("q", "1").query("r", "1")),
        ("header", deep().header("x-h", "1")),
        ("headers", deep().header("x-h", "1").header("x-i", "1")),
        ("exact", RouteMatch::exact("/a/b/c")),
        ("regex", RouteMatch::regex("/a/b/[cd]+")),
        ("rooted", RouteMatch::any().header("x-h", "1").method("GET")),
    ];
    check(
        rules,
        &[
            ("GET", "/a", &[], "root"),
            ("GET", "/a/b", &[], "root"),
            ("POST", "/a/b", &[], "method"),
            ("POST", "/a/b?q=1", &[], "query"),
            ("POST", "/a/b?q=1&r=1", &[], "queries"),
            ("POST", "/a/b?q=1&r=1", &[("x-h", "1")], "header"),
            ("POST", "/a/b", &[("x-h", "1"), ("x-i", "1")], "headers"),
            // A regular expression ranks by the length of the whole path.
            ("POST", "/a/b/d", &[("x-h", "1")], "regex"),
            ("GET", "/a/b/c", &[], "exact"),
            ("GET", "/z", &[("x-h", "1")], "rooted"),
        ],
    )
    .await;
}

#[tokio::test]
async fn of_equals_the_first_declared_wins() {
    let rules = [
        ("regex", RouteMatch::regex("/a.")),
        ("prefix", RouteMatch::prefix("/ab")),
        ("prefix again", RouteMatch::prefix("/ab/")),
        ("exact", RouteMatch::exact("/xy")),
        ("exact again", RouteMatch::exact("/xy")),
        ("header", RouteMatch::any().header("x-a", "1")),
        ("other header", RouteMatch::any().header("x-b", "1")),
    ];
    check(
        rules,
        &[
            ("GET", "/ab", &[], "regex"),
            ("GET", "/ab/c", &[], "prefix"),
            ("GET", "/xy", &[], "exact"),
            ("GET", "/", &[("x-b", "1")], "other header"),
            ("GET", "/", &[("x-b", "1"), ("x-a", "1")], "header"),
        ],
    )
    .await;
}

#[tokio::test]
async fn one_of_a_rules_matches_is_enough_and_its_best_counts() {
    let rules = [
        named("two", RouteMatch::prefix("/a")).when(RouteMatch::exact("/b/long")),
        named("one", RouteMatch::prefix("/b")),
    ];
    let routed = Routed::with(rules).await;
    for (path, expected) in [
        ("/a", "two"),
        ("/b", "one"),
        ("/b/other", "one"),
        ("/b/long", "two"),
        ("/c", "404"),
    ] {
        let reply = routed.get(&format!("http://web{path}")).await;
        assert_eq!(outcome(&reply), expected, "{path}");
    }
}

#[tokio::test]
async fn a_request_without_a_route_gets_404_and_its_connection_goes_on() {
    let routed = Routed::with([named("only", RouteMatch::exact("/only"))]).await;
    let mut http1 = routed.mesh.http1().await;
    let http2 = routed.mesh.http2().await;
    for _ in 0..3 {
        let reply = http1.get("http://web/other").await.unwrap();
        assert_eq!(reply.status, 404);
        let error = reply.header("l5d-proxy-error").unwrap();
        let service = "logical service web:80: parent Service.default.web:80: no route";
        assert!(error.ends_with(service), "{error}");
        assert_eq!(reply.header("connection"), None);
        assert_eq!(reply.header("l5d-proxy-connection"), None);
        let reply = http2.get("http://web/other").await.unwrap();
        assert_eq!(reply.status, 404);
    }
    assert_eq!(
        outcome(&http1.get("http://web/only").await.unwrap()),
        "only"
    );
    assert_eq!(
        outcome(&http2.get("http://web/only").await.unwrap()),
        "only"
    );
    let labels = [("reason", "no_route")];
    let count = routed.mesh.proxy.metrics().await;
    assert_eq!(count.sum("proxy_failures_total", &labels), 6.0);
}
