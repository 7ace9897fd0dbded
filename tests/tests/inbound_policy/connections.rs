//! Connections other than HTTP.

use crate::{elsewhere, open};
use linkerd_control::ServerPolicy;
use linkerd_tests::{
    SOON, Tcp, Wire, echo, eventually,
    netns::{POD, Pod, isolated},
};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

#[test]
fn an_opaque_port_is_denied_before_a_byte_and_terminated_by_a_change() {
    isolated(
        "connections::an_opaque_port_is_denied_before_a_byte_and_terminated_by_a_change",
        async {
            let application = Tcp::start_at(SocketAddr::from((POD, 0)), echo).await;
            let port = application.addr().port();
            let pod = Pod::start(|proxy| proxy.env("LINKERD2_PROXY_INBOUND_PORTS", port)).await;
            let server = pod.controller.server(port);
            let allow = "inbound_tcp_authz_allow_total";
            // A connection that began before the policy arrived was subject to detection.
            let labels = [("srv_name", "db"), ("no_tls_reason", "port_skipped")];
            server.set(open("db").opaque());
            let mut wire = eventually(SOON, "the policy", || async {
                let mut wire = Wire::connect(application.addr()).await;
                wire.send("\0query").await;
                assert_eq!(wire.until(b"\0query").await, "\0query");
                let metrics = pod.proxy.metrics().await;
                (metrics.sum(allow, &labels) >= 1.0).then_some(wire)
            })
            .await;
            let seen = application.connections();
            server.set(ServerPolicy::new("db").opaque().authorize(elsewhere()));
            assert_eq!(wire.rest().await, "");
            let terminated = "inbound_tcp_authz_terminate_total";
            pod.proxy.metric_reaches(terminated, &labels, 1.0).await;
            let mut wire = Wire::connect(application.addr()).await;
            wire.send("\0query").await;
            assert_eq!(wire.rest().await, "");
            assert_eq!(application.connections(), seen);
            let denied = "inbound_tcp_authz_deny_total";
            pod.proxy.metric_reaches(denied, &labels, 1.0).await;
            pod.proxy.wait_for_log("Connection denied").await;
        },
    );
}

/// Accepts any upgrade, and echoes.
async fn upgrade(mut socket: TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if !matches!(socket.read_buf(&mut head).await, Ok(1..)) {
            return;
        }
    }
    let agreed: &[u8] = match head.starts_with(b"CONNECT") {
        true => b"HTTP/1.1 200 OK\r\n\r\n",
        false => {
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
        }
    };
    if socket.write_all(agreed).await.is_ok() {
        echo(socket).await;
    }
}

#[test]
fn an_upgraded_connection_is_terminated_by_a_change() {
    isolated(
        "connections::an_upgraded_connection_is_terminated_by_a_change",
        async {
            let application = Tcp::start_at(SocketAddr::from((POD, 0)), upgrade).await;
            let port = application.addr().port();
            let pod = Pod::start(|proxy| proxy.env("LINKERD2_PROXY_INBOUND_PORTS", port)).await;
            let server = pod.controller.server(port);
            server.set(open("web"));
            let mut wires = Vec::new();
            for request in [
                "GET / HTTP/1.1\r\nhost: web\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
                "CONNECT web:80 HTTP/1.1\r\nhost: web:80\r\n\r\n",
            ] {
                let mut wire = Wire::connect(application.addr()).await;
                wire.send(request).await;
                wire.until(b"\r\n\r\n").await;
                wire.send("\0over it").await;
                wire.until(b"\0over it").await;
                wires.push(wire);
            }
            server.set(ServerPolicy::new("web").authorize(elsewhere()));
            for wire in &mut wires {
                assert_eq!(wire.rest().await, "");
            }
            let terminated = "inbound_tcp_authz_terminate_total";
            let labels = [("srv_name", "web")];
            pod.proxy.metric_reaches(terminated, &labels, 2.0).await;
        },
    );
}
