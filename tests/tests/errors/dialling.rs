//! Addresses that must not be dialled, and descriptors that have run out.

use crate::Expect;
use linkerd_control::Policy;
use linkerd_tests::{Mesh, Server, Wire, soon};
use std::net::SocketAddr;

/// The forms of a loopback address that the system connects to a listener at `addr`.
fn spellings(addr: SocketAddr) -> Vec<SocketAddr> {
    let port = addr.port();
    ["127.0.0.1", "::ffff:127.0.0.1", "::ffff:0.0.0.0"]
        .map(|ip| SocketAddr::new(ip.parse().unwrap(), port))
        .to_vec()
}

#[tokio::test]
async fn the_admin_port_is_not_reached_by_any_spelling_of_its_address() {
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED", "true")
        .start()
        .await;
    for addr in spellings(mesh.proxy.admin.addr) {
        let policy = mesh.controller.policy(addr.to_string());
        policy.set(Policy::forward(addr));
        let mut wire = mesh.wire().await;
        wire.send(format!(
            "POST /shutdown HTTP/1.1\r\nhost: {addr}\r\ncontent-length: 0\r\n\r\n"
        ))
        .await;
        let head = wire.head().await;
        assert!(head.contains("details=\"loop\""), "{addr}: {head}");

        let mut tunnel = Wire::tunnel(mesh.proxy.outbound, &addr.to_string()).await;
        tunnel
            .send("POST /shutdown HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n")
            .await;
        let head = tunnel.head().await;
        assert!(head.contains("details=\"loop\""), "{addr}: {head}");
    }
    assert_eq!(mesh.proxy.admin.get("/live").await.status, 200);
}

#[tokio::test]
async fn a_discovered_endpoint_does_not_reach_loopback_by_any_spelling() {
    let server = Server::says("hello").await;
    let mesh = Mesh::builder()
        .env("LINKERD_PROXY_OUTBOUND_ALLOW_LOOPBACK", "0")
        .start()
        .await;
    let mut addrs = spellings(server.addr());
    let more = ["::1", "::127.0.0.1"].map(|ip| ip.parse().unwrap());
    addrs.extend(more.map(|ip| SocketAddr::new(ip, server.addr().port())));
    for (number, addr) in addrs.into_iter().enumerate() {
        let name = format!("web-{number}");
        mesh.policy(&name).set(Policy::forward(addr));
        let reply = mesh.get(&format!("http://{name}/")).await;
        let status = reply.header("proxy-status").unwrap();
        assert!(status.contains("\"prohibited\""), "{addr}: {reply:?}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_proxy_without_descriptors_says_so_and_recovers() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    assert_eq!(mesh.get("http://web/").await.text(), "hello");
    let other = Server::says("other").await;
    mesh.service("other", [other.addr()]);
    let mut client = mesh.http1().await;
    let reply = soon(client.get("http://web/")).await.unwrap();
    assert_eq!(reply.text(), "hello");
    // The client has a descriptor, but none is left for the endpoint.
    mesh.proxy.set_descriptor_limit(1);
    let reply = soon(client.get("http://other/")).await.unwrap();
    let expect = Expect {
        status: 503,
        reason: "descriptor_limit",
        text: "Too many open files (os error 24)",
        closes: true,
    };
    mesh.proxy.set_descriptor_limit(1024);
    expect.check(&mesh, &reply).await;
    assert_eq!(mesh.get("http://other/").await.text(), "other");
}
