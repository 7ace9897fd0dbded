//! A crash and restart of the control plane.

mod support;

use linkerd_control::{Controller, LookupKind};
use support::*;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

#[tokio::test]
async fn killing_drops_all_at_once_and_the_state_can_be_served_again() {
    let controller = Controller::new();
    controller.destination(WEB).add([addr(1)]);
    let server = controller.spawn().await.expect("a port");
    let at = server.addr();
    let proxy = Proxy::connect(at).await;
    let mut stream = proxy.get(WEB).await.expect("a stream");
    assert_eq!(told(&mut stream).await, ["+1"]);
    let mut idle = TcpStream::connect(at).await.expect("a connection");

    soon(server.kill()).await;
    assert_eq!(controller.all_open_streams(), 0);
    assert!(soon(stream.message()).await.is_err());
    // The server's preface may come first.
    let mut rest = Vec::new();
    let _ = soon(idle.read_to_end(&mut rest)).await;
    assert!(TcpStream::connect(at).await.is_err());

    controller.destination(WEB).add([addr(2)]);
    let server = controller.spawn_at(at).await.expect("the same port");
    assert_eq!(server.addr(), at);
    // The client's channel connects again by itself.
    let mut stream = proxy.get(WEB).await.expect("a stream");
    assert_eq!(told(&mut stream).await, ["+1", "+2"]);
    assert_eq!(controller.lookups().len(), 2);
}

#[tokio::test]
async fn killing_ends_lookups_that_wait() {
    let controller = Controller::new();
    controller.policy(WEB).delay(std::time::Duration::MAX);
    let server = controller.spawn().await.expect("a port");
    let proxy = Proxy::connect(server.addr()).await;
    let waiting = tokio::spawn(async move { proxy.watch(WEB).await.map(drop) });
    let lookup = controller
        .expect_lookup(LookupKind::Policy, WEB, SOON)
        .await;
    lookup.expect("a lookup");
    soon(server.kill()).await;
    assert!(soon(waiting).await.expect("no panic").is_err());
}

#[tokio::test]
async fn dropping_a_server_stops_it() {
    let controller = Controller::new();
    let server = controller.spawn().await.expect("a port");
    let at = server.addr();
    let proxy = Proxy::connect(at).await;
    let mut stream = proxy.get(WEB).await.expect("a stream");
    assert_eq!(told(&mut stream).await, ["gone"]);
    drop(server);
    assert!(soon(stream.message()).await.is_err());
    let none = controller.destination(WEB);
    none.expect_open_streams(0, SOON).await.expect("no streams");
}

#[tokio::test]
async fn one_connection_carries_more_watches_than_a_library_would_allow() {
    let controller = Controller::new();
    let server = controller.spawn().await.expect("a port");
    let proxy = Proxy::connect(server.addr()).await;
    let mut streams = Vec::new();
    for n in 0..500 {
        streams.push(proxy.get(&format!("s{n}:80")).await.expect("a stream"));
    }
    assert_eq!(controller.all_open_streams(), 500);
    soon(server.kill()).await;
    assert_eq!(controller.all_open_streams(), 0);
}

#[tokio::test]
async fn two_servers_share_a_state() {
    let controller = Controller::new();
    let (one, two) = (
        controller.spawn().await.expect("a port"),
        controller.spawn().await.expect("a port"),
    );
    let (a, b) = (
        Proxy::connect(one.addr()).await,
        Proxy::connect(two.addr()).await,
    );
    let (mut a, mut b) = (
        a.get(WEB).await.expect("a stream"),
        b.get(WEB).await.expect("a stream"),
    );
    assert_eq!(told(&mut a).await, ["gone"]);
    assert_eq!(told(&mut b).await, ["gone"]);
    controller.destination(WEB).add([addr(1)]);
    assert_eq!(told(&mut a).await, ["+1"]);
    assert_eq!(told(&mut b).await, ["+1"]);
}
