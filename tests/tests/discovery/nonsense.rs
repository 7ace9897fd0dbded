//! Invalid messages of the control plane: only their target may fail.

use linkerd_api_proto::destination::{Update, WeightedAddr, WeightedAddrSet, update};
use linkerd_control::{Endpoint, EndpointSet};
use linkerd_tests::{Load, Mesh, SOON, Server, eventually};
use std::{net::SocketAddr, time::Duration};

/// A mesh with a service `web` under load, beside services with invalid messages.
struct World {
    server: Server,
    mesh: Mesh,
    load: Load,
}

impl World {
    async fn start() -> Self {
        let server = Server::says("hello").await;
        let mesh = Mesh::builder()
            .env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "300ms")
            .start()
            .await;
        mesh.service("web", [server.addr()]);
        let load = Load::http1(&mesh, 2, Duration::from_millis(5), "http://web/");
        load.more(10).await;
        Self { server, mesh, load }
    }

    /// Waits until the service `odd` works.
    async fn odd_works(&self) {
        eventually(SOON, "the service works", || async {
            (self.mesh.get("http://odd/").await.text() == "hello").then_some(())
        })
        .await;
    }

    async fn finish(mut self) {
        self.load.more(20).await;
        self.load.stop().await.assert_clean();
        assert!(self.mesh.proxy.is_alive());
        let log = self.mesh.proxy.log();
        assert!(!log.contains("panicked"), "{log}");
    }
}

fn add(addrs: Vec<WeightedAddr>) -> Update {
    let metric_labels = Default::default();
    let set = WeightedAddrSet {
        addrs,
        metric_labels,
    };
    Update {
        update: Some(update::Update::Add(set)),
    }
}

fn wire(addr: SocketAddr) -> WeightedAddr {
    Endpoint::new(addr).into()
}

#[tokio::test]
async fn endpoints_without_an_address_or_a_port_are_passed_over() {
    let world = World::start().await;
    let odd = world.mesh.service("odd", [world.server.addr()]);
    world.odd_works().await;
    let nothing = WeightedAddr::default();
    let port_0 = wire("127.0.0.1:0".parse().unwrap());
    let mut port_too_large = wire("127.0.0.1:1".parse().unwrap());
    port_too_large.addr.as_mut().unwrap().port = 1 << 20;
    let mut no_ip = wire("127.0.0.1:80".parse().unwrap());
    no_ip.addr.as_mut().unwrap().ip = None;
    odd.send(Update::default());
    odd.send(add(Vec::new()));
    odd.send(add(vec![nothing.clone()]));
    odd.send(add(vec![
        nothing,
        port_0,
        port_too_large,
        no_ip,
        wire(world.server.addr()),
    ]));
    // Messages of a stream are ordered: once this one is visible, the invalid one was read.
    let other = Server::says("other").await;
    odd.send(add(vec![wire(other.addr())]));
    eventually(SOON, "the last message counts", || async {
        world.mesh.get("http://odd/").await;
        (other.requests() > 0).then_some(())
    })
    .await;
    world.odd_works().await;
    world.finish().await;
}

#[tokio::test]
async fn a_set_of_nothing_usable_is_a_set_of_nothing() {
    let world = World::start().await;
    let odd = world.mesh.service("odd", []);
    odd.set(EndpointSet::new(["127.0.0.1:0"
        .parse::<SocketAddr>()
        .unwrap()]));
    let reply = world.mesh.get("http://odd/").await;
    assert_eq!(reply.status, 504, "{reply:?}");
    odd.set(EndpointSet::new([world.server.addr()]));
    world.odd_works().await;
    world.finish().await;
}

#[tokio::test]
async fn weights_of_zero_everywhere_break_nothing_else() {
    let world = World::start().await;
    let odd = world.mesh.service("odd", []);
    odd.set(EndpointSet::new([
        Endpoint::new(world.server.addr()).weight(0)
    ]));
    let reply = world.mesh.get("http://odd/").await;
    assert!(
        [200, 503, 504].contains(&reply.status.as_u16()),
        "{reply:?}"
    );
    odd.set(EndpointSet::new([world.server.addr()]));
    world.odd_works().await;
    world.finish().await;
}

#[tokio::test]
async fn an_authority_that_is_none_is_passed_over() {
    let world = World::start().await;
    let odd = world.mesh.service("odd", []);
    let endpoint = Endpoint::new(world.server.addr()).authority_override("not an authority\u{0}");
    odd.set(EndpointSet::new([endpoint]));
    world.mesh.get("http://odd/").await;
    odd.set(EndpointSet::new([world.server.addr()]));
    world.odd_works().await;
    world.finish().await;
}

#[tokio::test]
async fn ten_thousand_endpoints_in_one_message_are_used() {
    let world = World::start().await;
    // All of 127/8 is local.
    let many = Server::builder()
        .at("0.0.0.0:0".parse().unwrap())
        .start(|_| async { linkerd_tests::reply("hello") })
        .await;
    let port = many.addr().port();
    let endpoint = |n: u32| {
        let [_, a, b, c] = (n + 257).to_be_bytes();
        SocketAddr::from(([127, a + 1, b, c], port))
    };
    let odd = world.mesh.service("odd", []);
    odd.set(EndpointSet::new((0..10_000).map(endpoint)));
    // Reading the endpoints may take longer than a request waits, on a busy machine and without optimisation.
    eventually(SOON, "they are known", || async {
        let answer = world.mesh.get("http://odd/").await;
        (answer.status == 200).then_some(())
    })
    .await;
    let load = Load::http1(&world.mesh, 4, Duration::ZERO, "http://odd/");
    load.more(500).await;
    load.stop().await.assert_clean();
    assert!(many.connections() > 100, "{}", many.connections());
    let rss = world.mesh.proxy.rss();
    assert!(rss < 256 << 20, "{rss}");
    // The endpoints are removed again.
    odd.set(EndpointSet::new([world.server.addr()]));
    eventually(SOON, "the others are left", || async {
        world.mesh.get("http://odd/").await;
        (many.open_connections() == 0).then_some(())
    })
    .await;
    world.odd_works().await;
    world.finish().await;
}

#[tokio::test]
async fn a_storm_of_changes_fails_no_request() {
    let world = World::start().await;
    let servers = [Server::says("hello").await, Server::says("hello").await];
    let odd = world.mesh.service("odd", [world.server.addr()]);
    let load = Load::http1(&world.mesh, 2, Duration::ZERO, "http://odd/");
    load.more(20).await;
    for _ in 0..50 {
        for server in &servers {
            odd.add([server.addr()]);
            odd.remove([server.addr()]);
            tokio::task::yield_now().await;
        }
        odd.add(servers.iter().map(Server::addr));
        load.more(1).await;
        odd.remove(servers.iter().map(Server::addr));
    }
    load.more(20).await;
    load.stop().await.assert_clean();
    world.finish().await;
}

#[tokio::test]
async fn a_flood_of_raw_messages_fails_no_request() {
    let world = World::start().await;
    let odd = world.mesh.service("odd", [world.server.addr()]);
    let load = Load::http1(&world.mesh, 2, Duration::ZERO, "http://odd/");
    load.more(20).await;
    for _ in 0..200 {
        // More messages than the stream accepts end it; it is opened again.
        for _ in 0..10 {
            odd.send(add(vec![wire(world.server.addr())]));
        }
        tokio::task::yield_now().await;
    }
    load.more(20).await;
    load.stop().await.assert_clean();
    world.finish().await;
}
