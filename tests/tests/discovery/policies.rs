//! Routing by policies and profiles.

use linkerd_api_proto::{
    destination::{DestinationProfile, WeightedDst},
    outbound::{OutboundPolicy, proxy_protocol::Kind},
};
use linkerd_control::Policy;
use linkerd_tests::{Load, Mesh, SOON, Server, eventually};
use std::time::Duration;

#[tokio::test]
async fn a_name_that_the_control_plane_does_not_know_is_answered_with_502() {
    let mesh = Mesh::start().await;
    let reply = mesh.get("http://nowhere/").await;
    assert_eq!(reply.status, 502);
    let error = reply.header("l5d-proxy-error").unwrap();
    assert!(error.contains("nowhere:80"), "{error}");
    assert!(
        reply
            .header("proxy-status")
            .unwrap()
            .contains("unknown_destination")
    );
}

#[tokio::test]
async fn an_address_that_the_control_plane_does_not_know_is_forwarded_to() {
    let server = Server::says("hello").await;
    let mesh = Mesh::start().await;
    assert_eq!(
        mesh.get(&format!("http://{}/", server.addr())).await.text(),
        "hello"
    );
}

#[tokio::test]
async fn a_name_that_becomes_known_is_served() {
    let server = Server::says("hello").await;
    let mesh = Mesh::start().await;
    assert_eq!(mesh.get("http://web/").await.status, 502);
    mesh.service("web", [server.addr()]);
    eventually(SOON, "it is served", || async {
        (mesh.get("http://web/").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn weights_of_a_policy_split_the_traffic() {
    let (old, new) = (Server::says("old").await, Server::says("new").await);
    let mesh = Mesh::start().await;
    mesh.service("old", [old.addr()]);
    mesh.service("new", [new.addr()]);
    mesh.policy("web").set(Policy::weighted(
        "web",
        80,
        [("old", 80, 9), ("new", 80, 1)],
    ));
    let load = Load::http1(&mesh, 4, Duration::ZERO, "http://web/");
    load.more(1000).await;
    let report = load.stop().await;
    report.assert_clean();
    let share = report.share("new");
    assert!((0.06..0.15).contains(&share), "{report:?}");
}

#[tokio::test]
async fn a_split_leaves_out_a_backend_without_endpoints() {
    let server = Server::says("here").await;
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "200ms")
        .start()
        .await;
    mesh.service("here", [server.addr()]);
    mesh.service("gone", []).no_endpoints(true);
    mesh.policy("web").set(Policy::weighted(
        "web",
        80,
        [("here", 80, 1), ("gone", 80, 1)],
    ));
    // Until the service is known to have no endpoints, its share fails at once.
    eventually(SOON, "it is known", || async {
        (mesh.get("http://web/").await.status == 504).then_some(())
    })
    .await;
    let load = Load::http1(&mesh, 2, Duration::ZERO, "http://web/");
    load.more(100).await;
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn a_policy_can_forward_to_one_endpoint() {
    let server = Server::says("hello").await;
    let mesh = Mesh::start().await;
    mesh.policy("web").set(Policy::forward(server.addr()));
    assert_eq!(mesh.get("http://web/").await.text(), "hello");
}

#[tokio::test]
async fn a_policy_that_changes_applies_to_connections_that_are_open() {
    let (old, new) = (Server::says("old").await, Server::says("new").await);
    let mesh = Mesh::with(&old).await;
    mesh.service("new", [new.addr()]);
    let load = Load::http1(&mesh, 2, Duration::from_millis(2), "http://web/");
    load.more(20).await;
    let other = "new.default.svc.cluster.local:80";
    mesh.policy("web")
        .set(Policy::balance("web", 80).path(other));
    eventually(SOON, "the change arrives", || async {
        (new.requests() > 0).then_some(())
    })
    .await;
    let before = old.requests();
    load.more(20).await;
    assert_eq!(old.requests(), before);
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn a_profile_overrides_where_traffic_goes() {
    let (old, new) = (Server::says("old").await, Server::says("new").await);
    let mesh = Mesh::start().await;
    mesh.service("old", [old.addr()]);
    mesh.service("new", [new.addr()]);
    let name = "web.default.svc.cluster.local";
    mesh.controller
        .policy(format!("{name}:80"))
        .set(Policy::balance("web", 80));
    let target = |name: &str, weight| WeightedDst {
        authority: format!("{name}.default.svc.cluster.local:80"),
        weight,
        ..WeightedDst::default()
    };
    mesh.controller
        .profile(format!("{name}:80"))
        .set(DestinationProfile {
            fully_qualified_name: name.to_owned(),
            dst_overrides: vec![target("old", 1), target("new", 4)],
            ..DestinationProfile::default()
        });
    let load = Load::http1(&mesh, 4, Duration::ZERO, &format!("http://{name}/"));
    load.more(600).await;
    let report = load.stop().await;
    report.assert_clean();
    assert!((0.7..0.9).contains(&report.share("new")), "{report:?}");
    assert_eq!(
        new.last().headers["l5d-dst-canonical"],
        format!("{name}:80").as_str()
    );
}

#[tokio::test]
async fn a_policy_of_no_routes_is_no_route() {
    let mesh = Mesh::start().await;
    let mut policy: OutboundPolicy = Policy::balance("web", 80).build();
    let kind = policy.protocol.as_mut().unwrap().kind.as_mut();
    let Some(Kind::Detect(detect)) = kind else {
        panic!("not what it says without being told otherwise");
    };
    detect.http1.as_mut().unwrap().routes.clear();
    mesh.policy("web").set(policy);
    let reply = mesh.get("http://web/").await;
    assert_eq!(reply.status, 404, "{reply:?}");
}

#[tokio::test]
async fn a_policy_that_cannot_be_understood_is_an_error_of_its_target_alone() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    mesh.policy("odd").set(OutboundPolicy::default());
    let reply = mesh.get("http://odd/").await;
    assert_eq!(
        (reply.status.as_u16(), reply.header("l5d-proxy-error")),
        (500, Some("unexpected error")),
        "{reply:?}"
    );
    assert!(
        reply
            .header("proxy-status")
            .unwrap()
            .contains("invalid_policy"),
        "{reply:?}"
    );
    assert_eq!(mesh.get("http://web/").await.text(), "hello");
}
