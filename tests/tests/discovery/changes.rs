//! Changes of endpoints, and outages of the control plane.

use futures::future::join_all;
use linkerd_control::{EndpointSet, LookupKind};
use linkerd_tests::{Load, Mesh, SOON, Server, eventually, soon};
use std::time::{Duration, Instant};

async fn servers(texts: [&'static str; 3]) -> Vec<Server> {
    join_all(texts.map(Server::says)).await
}

fn addrs(servers: &[Server]) -> Vec<std::net::SocketAddr> {
    servers.iter().map(Server::addr).collect()
}

#[tokio::test]
async fn endpoints_come_and_go_under_load_and_no_request_fails() {
    let servers = servers(["a", "b", "c"]).await;
    let mesh = Mesh::start().await;
    let web = mesh.service("web", addrs(&servers));
    let load = Load::http1(&mesh, 4, Duration::from_millis(1), "http://web/");
    let streams = Load::http2(&mesh, 2, Duration::from_millis(1), "http://web/");
    for n in 0..100 {
        let gone = servers[n % 3].addr();
        web.remove([gone]);
        load.more(3).await;
        web.add([gone]);
        load.more(3).await;
    }
    load.stop().await.assert_clean();
    streams.stop().await.assert_clean();
}

#[tokio::test]
async fn a_removed_endpoint_gets_no_more_requests() {
    let servers = servers(["a", "b", "c"]).await;
    let mesh = Mesh::start().await;
    let web = mesh.service("web", addrs(&servers));
    let load = Load::http1(&mesh, 4, Duration::from_millis(1), "http://web/");
    load.more(100).await;
    web.remove([servers[0].addr()]);
    eventually(SOON, "its connections are closed", || async {
        (servers[0].open_connections() == 0).then_some(())
    })
    .await;
    let before = servers[0].requests();
    load.more(200).await;
    assert_eq!(servers[0].requests(), before);
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn an_added_endpoint_takes_its_share() {
    let servers = servers(["a", "b", "c"]).await;
    let mesh = Mesh::start().await;
    let web = mesh.service("web", [servers[0].addr()]);
    let load = Load::http1(&mesh, 4, Duration::from_millis(1), "http://web/");
    load.more(100).await;
    web.add([servers[1].addr()]);
    eventually(SOON, "it is asked", || async {
        (servers[1].requests() > 50).then_some(())
    })
    .await;
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn requests_in_flight_survive_the_removal_of_their_endpoint() {
    let server = Server::says("slow").await;
    server.set_latency(Duration::from_millis(500));
    let mesh = Mesh::start().await;
    let web = mesh.service("web", [server.addr()]);
    let reply = tokio::spawn(mesh.get("http://web/"));
    eventually(SOON, "it arrives", || async {
        (server.in_flight() == 1).then_some(())
    })
    .await;
    web.no_endpoints(true);
    assert_eq!(reply.await.unwrap().text(), "slow");
}

#[tokio::test]
async fn traffic_goes_on_while_the_control_plane_is_gone_and_when_it_returns() {
    let servers = servers(["a", "b", "c"]).await;
    let mut mesh = Mesh::start().await;
    mesh.service("web", addrs(&servers));
    let load = Load::http1(&mesh, 4, Duration::from_millis(1), "http://web/");
    load.more(50).await;
    for _ in 0..2 {
        mesh.kill_control().await;
        load.more(100).await;
        mesh.restart_control().await;
        mesh.endpoints("web")
            .expect_open_streams(1, SOON)
            .await
            .unwrap();
        load.more(100).await;
    }
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn what_changed_while_the_control_plane_was_gone_replaces_the_stale_set() {
    let servers = servers(["a", "b", "c"]).await;
    let mut mesh = Mesh::start().await;
    let web = mesh.service("web", [servers[0].addr(), servers[1].addr()]);
    let load = Load::http1(&mesh, 4, Duration::from_millis(1), "http://web/");
    load.more(50).await;
    mesh.kill_control().await;
    web.set(EndpointSet::new([servers[2].addr()]));
    load.more(50).await;
    assert_eq!(servers[2].requests(), 0, "nobody knows of it");
    mesh.restart_control().await;
    eventually(SOON, "the old ones are left", || async {
        let open = servers[0].open_connections() + servers[1].open_connections();
        (open == 0 && servers[2].requests() > 0).then_some(())
    })
    .await;
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn a_stream_that_is_dropped_is_opened_again_and_no_request_fails() {
    let servers = servers(["a", "b", "c"]).await;
    let mesh = Mesh::start().await;
    let web = mesh.service("web", addrs(&servers));
    let load = Load::http1(&mesh, 4, Duration::from_millis(1), "http://web/");
    load.more(50).await;
    web.expect_lookup(SOON).await.unwrap();
    for status in [
        None,
        Some(tonic::Status::unavailable("moved")),
        Some(tonic::Status::internal("broken")),
    ] {
        let dropped = match status {
            None => web.drop_streams(),
            Some(status) => web.drop_streams_with(status),
        };
        assert_eq!(dropped, 1);
        web.expect_lookup(SOON).await.unwrap();
        load.more(50).await;
    }
    load.stop().await.assert_clean();
}

/// The control plane ends the streams whose answer changes with a new egress network.
#[tokio::test]
async fn a_stream_that_ends_cleanly_is_opened_again_at_once() {
    let backoff = Duration::from_secs(2);
    let server = Server::says("hello").await;
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_INBOUND_CONNECT_EXP_BACKOFF_MIN", "2s")
        .env("LINKERD2_PROXY_INBOUND_CONNECT_EXP_BACKOFF_MAX", "10s")
        .start()
        .await;
    let web = mesh.service("web", [server.addr()]);
    let policy = mesh.policy("web");
    let load = Load::http1(&mesh, 1, Duration::from_millis(1), "http://web/");
    load.more(1).await;
    web.expect_lookup(SOON).await.unwrap();
    policy.expect_lookup(SOON).await.unwrap();
    // The streams are open for longer than the first delay.
    let open = Instant::now();
    while open.elapsed() < backoff {
        load.more(10).await;
    }
    web.drop_streams();
    policy.drop_streams();
    web.expect_lookup(backoff / 2).await.unwrap();
    policy.expect_lookup(backoff / 2).await.unwrap();
    // A stream that ends again at once is not: the control plane may be in a loop.
    web.expect_open_streams(1, SOON).await.unwrap();
    load.more(10).await;
    web.drop_streams();
    assert!(web.expect_lookup(backoff / 2).await.is_err());
    web.expect_lookup(SOON).await.unwrap();
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn a_lookup_that_fails_is_made_again() {
    let server = Server::says("hello").await;
    let mesh = Mesh::start().await;
    let web = mesh.service("web", [server.addr()]);
    web.fail_next(tonic::Status::unavailable("not yet"));
    mesh.policy("web")
        .fail_next(tonic::Status::unavailable("not yet"));
    assert_eq!(mesh.get("http://web/").await.text(), "hello");
}

#[tokio::test]
async fn many_first_requests_make_one_lookup() {
    let server = Server::says("hello").await;
    let mesh = Mesh::start().await;
    let web = mesh.service("web", [server.addr()]);
    mesh.policy("web").delay(Duration::from_millis(200));
    web.delay(Duration::from_millis(200));
    let replies = (0..50).map(|_| mesh.get("http://web/"));
    for reply in soon(join_all(replies)).await {
        assert_eq!(reply.text(), "hello");
    }
    let lookups = mesh.controller.lookups();
    let count = |kind| lookups.iter().filter(|lookup| lookup.kind == kind).count();
    assert_eq!(count(LookupKind::Policy), 1, "{lookups:?}");
    assert_eq!(count(LookupKind::Destination), 1, "{lookups:?}");
}

#[tokio::test]
async fn what_nobody_uses_is_forgotten_and_looked_up_again_when_it_is_used() {
    let server = Server::says("hello").await;
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_DISCOVERY_IDLE_TIMEOUT", "200ms")
        .start()
        .await;
    let web = mesh.service("web", [server.addr()]);
    for _ in 0..2 {
        assert_eq!(mesh.get("http://web/").await.text(), "hello");
        web.expect_lookup(SOON).await.unwrap();
        web.expect_open_streams(0, SOON).await.unwrap();
        mesh.policy("web")
            .expect_open_streams(0, SOON)
            .await
            .unwrap();
    }
}
