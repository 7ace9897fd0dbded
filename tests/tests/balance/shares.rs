//! The shares of requests that servers get.

use futures::future::join_all;
use linkerd_control::{Endpoint, EndpointSet};
use linkerd_tests::{Load, Mesh, SOON, Server, eventually, refused, reply};
use std::time::Duration;

#[tokio::test]
async fn equal_servers_get_equal_shares() {
    let servers = join_all(["a", "b", "c"].map(Server::says)).await;
    let mesh = Mesh::start().await;
    mesh.service("web", servers.iter().map(Server::addr));
    let load = Load::http1(&mesh, 8, Duration::from_millis(1), "http://web/");
    load.more(1500).await;
    let report = load.stop().await;
    report.assert_clean();
    for text in ["a", "b", "c"] {
        assert!((0.2..0.5).contains(&report.share(text)), "{report:?}");
    }
}

#[tokio::test]
async fn a_server_that_turns_slow_gets_little() {
    let servers = join_all(["a", "b", "slow"].map(Server::says)).await;
    for server in &servers {
        server.set_latency(Duration::from_millis(10));
    }
    let mesh = Mesh::start().await;
    mesh.service("web", servers.iter().map(Server::addr));
    let load = Load::http1(&mesh, 8, Duration::ZERO, "http://web/");
    load.more(300).await;
    servers[2].set_latency(Duration::from_millis(200));
    // The slow requests reveal the change.
    load.more(500).await;
    let (all, slow) = (load.sent(), servers[2].requests());
    load.more(1000).await;
    let share = (servers[2].requests() - slow) as f64 / (load.sent() - all) as f64;
    assert!(share < 0.05, "{share}");
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn a_server_that_is_fast_again_gets_its_share_back() {
    let servers = join_all(["a", "b"].map(Server::says)).await;
    servers[0].set_latency(Duration::from_millis(5));
    servers[1].set_latency(Duration::from_millis(100));
    let mesh = Mesh::start().await;
    mesh.service("web", servers.iter().map(Server::addr));
    let load = Load::http1(&mesh, 8, Duration::ZERO, "http://web/");
    load.more(500).await;
    servers[1].set_latency(Duration::from_millis(5));
    // Load decays with a time constant of ten seconds.
    eventually(2 * SOON, "it is asked again", || async {
        let before = servers[1].requests();
        load.more(200).await;
        (servers[1].requests() - before > 50).then_some(())
    })
    .await;
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn a_server_of_double_weight_gets_double() {
    let servers = join_all(["one", "two"].map(Server::says)).await;
    for server in &servers {
        server.set_latency(Duration::from_millis(5));
    }
    let mesh = Mesh::start().await;
    let web = mesh.service("web", []);
    web.set(EndpointSet::new([
        Endpoint::new(servers[0].addr()),
        Endpoint::new(servers[1].addr()).weight(2 * Endpoint::WEIGHT_ONE),
    ]));
    // Weights matter under concurrency: load is requests in flight, divided by the weight.
    let load = Load::http2(&mesh, 16, Duration::ZERO, "http://web/");
    load.more(3000).await;
    let report = load.stop().await;
    report.assert_clean();
    assert!((0.55..0.8).contains(&report.share("two")), "{report:?}");
}

#[tokio::test]
async fn one_of_three_that_refuses_is_left_alone_and_no_request_fails() {
    let servers = join_all(["a", "b"].map(Server::says)).await;
    let (refused, _guard) = refused();
    let mesh = Mesh::start().await;
    let addrs = [servers[0].addr(), servers[1].addr(), refused];
    mesh.service("web", addrs);
    let load = Load::http1(&mesh, 4, Duration::from_millis(1), "http://web/");
    let streams = Load::http2(&mesh, 2, Duration::from_millis(1), "http://web/");
    load.more(500).await;
    streams.more(200).await;
    load.stop().await.assert_clean();
    streams.stop().await.assert_clean();
}

#[tokio::test]
async fn posts_do_not_fail_either_when_one_of_three_refuses() {
    use linkerd_tests::{body, request, soon};
    let servers = [Server::echo().await, Server::echo().await];
    let (refused, _guard) = refused();
    let mesh = Mesh::start().await;
    mesh.service("web", [servers[0].addr(), servers[1].addr(), refused]);
    let mut client = mesh.http1().await;
    for n in 0..100 {
        // Larger than the replay limit: no byte was sent to the refusing endpoint.
        let body = body(vec![0; if n % 2 == 0 { 10 } else { 100_000 }]);
        let reply = soon(client.send(request(http::Method::POST, "http://web/", body)))
            .await
            .unwrap();
        assert_eq!(reply.status, 200, "{reply:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_accept_holds_nobody_up_for_long() {
    let servers = join_all(["a", "b"].map(Server::says)).await;
    let (silent, _guard) = linkerd_tests::blackhole();
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT", "200ms")
        .start()
        .await;
    mesh.service("web", [servers[0].addr(), servers[1].addr(), silent]);
    let load = Load::http1(&mesh, 4, Duration::from_millis(1), "http://web/");
    load.more(500).await;
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn a_server_that_answers_quickly_with_errors_is_still_an_answer() {
    // No breaker without a policy that configures one: errors of the application are passed on.
    let bad = Server::start(|_| async {
        let mut response = reply("bad")?;
        *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
        Ok(response)
    })
    .await;
    let mesh = Mesh::with(&bad).await;
    let reply = mesh.get("http://web/").await;
    assert_eq!((reply.status.as_u16(), reply.text()), (500, "bad"));
    assert!(reply.header("l5d-proxy-error").is_none());
}
