//! A host that takes all places of a bound, beside clients of other hosts.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_tests::{
    Mesh, SOON, Server, Wire, eventually,
    netns::{ELSEWHERE, PEER, POD, Pod, isolated},
    reply,
};
use std::{
    iter::repeat_n,
    net::{IpAddr, SocketAddr},
};

const GET: &str = "GET / HTTP/1.1\r\nhost: app\r\n\r\n";

/// Opens connections from a host to the addresses, each of which sends `first` and stops.
async fn crowd(
    host: IpAddr,
    addrs: impl IntoIterator<Item = SocketAddr>,
    first: &str,
) -> Vec<Wire> {
    let mut wires = Vec::new();
    for addr in addrs {
        let mut wire = Wire::connect_from(host, addr).await;
        wire.send(first).await;
        wires.push(wire);
    }
    wires
}

/// An application in the pod: `/hold` is not answered.
async fn application() -> Server {
    let server = Server::builder().at(SocketAddr::new(POD, 0));
    let server = server.start(|request| async move {
        if request.uri().path() == "/hold" {
            std::future::pending::<()>().await;
        }
        reply("hello")
    });
    server.await
}

/// The status of the answer to a client of another host.
async fn status(host: IpAddr, addr: SocketAddr) -> String {
    let mut wire = Wire::connect_from(host, addr).await;
    wire.send(GET).await;
    let (head, _) = wire.response().await;
    head.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_host_with_all_requests_in_flight_shuts_no_other_host_out() {
    isolated(
        "a_host_with_all_requests_in_flight_shuts_no_other_host_out",
        async {
            let limit = "LINKERD2_PROXY_INBOUND_MAX_IN_FLIGHT";
            let _pod = Pod::start(|proxy| proxy.env(limit, 20)).await;
            let server = application().await;
            let addr = server.addr();
            let hold = "GET /hold HTTP/1.1\r\nhost: app\r\n\r\n";
            let held = crowd(ELSEWHERE, repeat_n(addr, 20), hold).await;
            eventually(SOON, "all requests are in flight", || async {
                (server.in_flight() == 20).then_some(())
            })
            .await;
            assert_eq!(
                status(ELSEWHERE, addr).await,
                "HTTP/1.1 503 Service Unavailable"
            );
            assert_eq!(status(PEER, addr).await, "HTTP/1.1 200 OK");
            drop(held);
        },
    );
}

#[test]
fn a_host_that_dials_all_ports_shuts_no_other_host_out_of_one() {
    isolated(
        "a_host_that_dials_all_ports_shuts_no_other_host_out_of_one",
        async {
            let pod = Pod::start(|proxy| proxy).await;
            let ports = (20_000..21_100).map(|port| SocketAddr::new(POD, port));
            let held = crowd(ELSEWHERE, ports, "").await;
            eventually(SOON, "all places are taken", || async {
                let state = pod.proxy.admin.state().await;
                let applications = &state["workers"][0]["inbound"]["applications"];
                let count = applications["in_use"].as_array().map_or(0, Vec::len);
                (count == 1024).then_some(())
            })
            .await;
            let server = application().await;
            for host in [PEER, ELSEWHERE] {
                assert_eq!(status(host, server.addr()).await, "HTTP/1.1 200 OK");
            }
            drop(held);
        },
    );
}

#[test]
fn a_host_with_many_half_sent_heads_ends_its_own() {
    isolated("a_host_with_many_half_sent_heads_ends_its_own", async {
        let _pod = Pod::start(|proxy| proxy).await;
        let server = application().await;
        let (begun, rest) = GET.split_at(GET.len() - 2);
        let mut slow = crowd(PEER, [server.addr()], begun).await;
        let mut held = crowd(ELSEWHERE, repeat_n(server.addr(), 1_100), begun).await;
        let answer = held[0].rest().await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        slow[0].send(rest).await;
        assert_eq!(slow[0].response().await.1, "hello");
    });
}

#[tokio::test]
async fn a_host_that_keeps_many_admin_connections_in_use_ends_its_own() {
    let mesh = Mesh::start().await;
    let addr = mesh.proxy.admin.addr;
    let live = "GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut scraper = Wire::connect(addr).await;
    scraper.send(live).await;
    scraper.response().await;
    let mut others = Vec::new();
    for _ in 0..150 {
        let mut wire = Wire::connect_from([127, 0, 0, 2].into(), addr).await;
        wire.send(live).await;
        wire.response().await;
        others.push(wire);
    }
    scraper.send(live).await;
    let (head, _) = scraper.response().await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}
