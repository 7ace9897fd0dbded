//! Policies that change.

use crate::{Routed, named, outcome, policy};
use linkerd_control::{HeaderChanges, Policy, RouteFilter, RouteMatch, RouteRule};
use linkerd_tests::{Load, Mesh, SOON, Server, eventually, get};
use std::time::Duration;

#[tokio::test]
async fn a_policy_that_cannot_be_converted_is_invalid_until_a_valid_one_comes() {
    let valid = || policy([named("valid", RouteMatch::any())]);
    let routed = Routed::start(valid()).await;
    assert_eq!(outcome(&routed.get("http://web/").await), "valid");
    let broken = |filter| {
        policy([
            named("valid", RouteMatch::any()),
            RouteRule::new().filter(filter),
        ])
    };
    let matching = |condition| policy([RouteRule::new().when(condition)]);
    for (policy, named_field) in [
        (
            broken(RouteFilter::fail(99, "")),
            "99 is no status that this filter may answer with",
        ),
        (
            broken(RouteFilter::fail(503, "").ratio(3, 2)),
            "injected failures, 3/2",
        ),
        (
            matching(RouteMatch::regex("(")),
            "no usable regular expression",
        ),
        (
            matching(RouteMatch::any().header("no header", "")),
            "is no header name",
        ),
        (
            matching(RouteMatch::any().method("NO METHOD")),
            "is no method",
        ),
        (
            policy([named("x", RouteMatch::any()).split([("a", 80, u32::MAX), ("b", 80, 1)])]),
            "the weights of a distribution",
        ),
    ] {
        routed.mesh.controller.any_policy().set(policy);
        let reply = eventually(SOON, "the policy is invalid", || async {
            let reply = routed.get("http://web/").await;
            (reply.status != 200).then_some(reply)
        })
        .await;
        assert_eq!(reply.status, 500, "{named_field}");
        let error = reply.header("l5d-proxy-error").unwrap();
        assert!(error.ends_with("unexpected error"), "{error}");
        let line = routed.mesh.proxy.wait_for_log(named_field).await;
        assert!(line.contains("policy"), "{line}");

        routed.mesh.controller.any_policy().set(valid());
        eventually(SOON, "the policy is valid", || async {
            (routed.get("http://web/").await.status == 200).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn the_next_request_of_a_connection_meets_the_new_rules_and_one_in_flight_its_own() {
    let (old, new) = (Server::says("old").await, Server::says("new").await);
    old.set_latency(Duration::from_secs(1));
    let mesh = Mesh::start().await;
    mesh.service("old", [old.addr()]);
    mesh.service("new", [new.addr()]);
    let to = |name: &str| {
        let rule = RouteRule::new().to(name, 80);
        policy([rule.filter(RouteFilter::response_headers(
            HeaderChanges::new().set("x-route", name),
        ))])
    };
    mesh.policy("web").set(to("old"));
    let client = mesh.http2().await;
    let in_flight = tokio::spawn({
        let client = client.clone();
        async move { client.send(get("http://web/")).await.unwrap() }
    });
    eventually(SOON, "it arrives", || async {
        (old.in_flight() == 1).then_some(())
    })
    .await;
    mesh.policy("web").set(to("new"));
    eventually(SOON, "the new rules apply", || async {
        let reply = client.get("http://web/").await.unwrap();
        (reply.text() == "new" && reply.header("x-route") == Some("new")).then_some(())
    })
    .await;
    let reply = in_flight.await.unwrap();
    assert_eq!(
        (reply.text(), reply.header("x-route")),
        ("old", Some("old"))
    );
    assert!(client.is_open());
}

#[tokio::test]
async fn a_backend_that_survives_keeps_its_connections() {
    let (kept, gone) = (Server::says("kept").await, Server::says("gone").await);
    let mesh = Mesh::start().await;
    mesh.service("kept", [kept.addr()]);
    mesh.service("gone", [gone.addr()]);
    let rule = |path: &str, service: &str| {
        RouteRule::new()
            .when(RouteMatch::exact(path))
            .to(service, 80)
    };
    let tagged = |rule: RouteRule, n: usize| {
        let changes = HeaderChanges::new().set("x-policy", &n.to_string());
        rule.filter(RouteFilter::response_headers(changes))
    };
    mesh.policy("web")
        .set(policy([rule("/kept", "kept"), rule("/gone", "gone")]));
    let mut client = mesh.http1().await;
    assert_eq!(client.get("http://web/gone").await.unwrap().text(), "gone");
    for n in 0..20 {
        // The rule, its filters and its position change; its backend does not.
        let others =
            (0..n).map(|n| rule(&format!("/{n}"), "gone").filter(RouteFilter::fail(418, "")));
        let rules = others.chain([tagged(rule("/kept", "kept"), n)]);
        mesh.policy("web").set(policy(rules.collect::<Vec<_>>()));
        let n = n.to_string();
        while client
            .get("http://web/kept")
            .await
            .unwrap()
            .header("x-policy")
            != Some(&n)
        {}
    }
    assert_eq!(kept.connections(), 1);
    // A backend without a rule is dropped.
    mesh.policy("web").set(policy([rule("/kept", "kept")]));
    eventually(SOON, "its connections are closed", || async {
        mesh.get("http://web/kept").await;
        (gone.open_connections() == 0).then_some(())
    })
    .await;
    assert_eq!(kept.connections(), 1);
}

#[tokio::test]
async fn changes_of_routes_under_load_fail_no_request() {
    let (a, b) = (Server::says("a").await, Server::says("b").await);
    let mesh = Mesh::start().await;
    mesh.service("a", [a.addr()]);
    mesh.service("b", [b.addr()]);
    let shapes: [fn() -> Policy; 4] = [
        || policy([RouteRule::new().to("a", 80)]),
        || policy([RouteRule::new().split([("a", 80, 1), ("b", 80, 1)])]),
        || {
            policy([
                RouteRule::new().when(RouteMatch::exact("/x")).to("b", 80),
                RouteRule::new()
                    .when(RouteMatch::regex("/other"))
                    .to("a", 80),
            ])
        },
        || Policy::balance("a", 80),
    ];
    mesh.policy("web").set(shapes[0]());
    let load = Load::http1(&mesh, 4, Duration::from_millis(1), "http://web/x");
    let streams = Load::http2(&mesh, 2, Duration::from_millis(1), "http://web/x");
    for n in 0..100 {
        mesh.policy("web").set(shapes[n % shapes.len()]());
        load.more(5).await;
    }
    load.stop().await.assert_clean();
    streams.stop().await.assert_clean();
}
