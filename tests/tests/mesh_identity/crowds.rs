//! Clients that begin TLS and stop, beside clients of the mesh.

use linkerd_tests::{
    Meshed, SOON, Server, Wire, client_hello, eventually, identity, real_client_hello,
};

/// Opens connections to the inbound port that send these bytes and stop; more than there are places.
async fn crowd(mesh: &Meshed, first: &[u8]) -> Vec<Wire> {
    let mut wires = Vec::new();
    for _ in 0..1_100 {
        let mut wire = Wire::connect(mesh.api.inbound).await;
        wire.send(first).await;
        wires.push(wire);
    }
    wires
}

/// The clients have one address, like those behind a gateway.
#[tokio::test]
async fn clients_that_begin_tls_and_stop_shut_no_client_of_the_mesh_out() {
    let hello = real_client_hello(&identity("api"));
    for first in [&b"\x16"[..], &hello[..20], &hello] {
        let server = Server::says("hello").await;
        let mesh = Meshed::start(|web| web, |api| api).await;
        mesh.serve_api(server.addr(), |endpoint| endpoint);
        let wires = crowd(&mesh, first).await;
        if first == hello {
            eventually(SOON, "all places are taken", || async {
                let state = mesh.api.admin.state().await;
                let handshakes = &state["workers"][0]["inbound"]["handshakes"];
                (handshakes["displaced"].as_u64() > Some(0)).then_some(())
            })
            .await;
        }
        // The first connection between the proxies.
        let reply = mesh.http1().await.get("http://api/").await.unwrap();
        assert_eq!(reply.status, 200, "{first:?}: {reply:?}");
        drop(wires);
    }
}

#[tokio::test]
async fn a_client_that_stops_within_its_first_message_is_closed_soon() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    let begun = std::time::Instant::now();
    let mut wire = Wire::connect(mesh.api.inbound).await;
    wire.send(&client_hello(&identity("api"))[..20]).await;
    assert_eq!(wire.rest().await, "");
    // The detect timeout is ten seconds.
    assert!(begun.elapsed().as_secs() < 9, "{:?}", begun.elapsed());
}
