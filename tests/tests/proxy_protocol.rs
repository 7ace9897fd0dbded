//! The PROXY protocol on connections to ports of the application that are configured for it.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_control::{Endpoint, Policy, Protocol};
use linkerd_tests::{
    Builder, Meshed, Tcp, Wire, identity,
    netns::{POD, Pod, isolated},
    soon,
};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const PORTS: &str = "LINKERD_PROXY_INBOUND_PROXY_PROTOCOL_PORTS";

/// An application that sends back the header as a line of hexadecimal digits, and echoes all later bytes.
async fn reflect(mut socket: TcpStream) {
    let mut header = vec![0; 16];
    if socket.read_exact(&mut header).await.is_err() {
        return;
    }
    let mut rest = vec![0; u16::from_be_bytes([header[14], header[15]]).into()];
    socket.read_exact(&mut rest).await.unwrap();
    let line = format!("{}\n", hex(&[header, rest].concat()));
    socket.write_all(line.as_bytes()).await.unwrap();
    linkerd_tests::echo(socket).await;
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The signature, the version and the command of every header.
const BEGIN: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21";

fn octets(addr: SocketAddr) -> Vec<u8> {
    match addr {
        SocketAddr::V4(addr) => addr.ip().octets().to_vec(),
        SocketAddr::V6(addr) => addr.ip().octets().to_vec(),
    }
}

/// The addresses of a header for IPv4.
fn addresses(client: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let ports = [client.port(), destination.port()].map(u16::to_be_bytes);
    [octets(client), octets(destination), ports.concat()].concat()
}

#[test]
fn the_application_learns_the_address_of_its_client_before_the_first_byte() {
    isolated(
        "the_application_learns_the_address_of_its_client_before_the_first_byte",
        async {
            let application = Tcp::start_at(SocketAddr::from((POD, 0)), reflect).await;
            let other = Tcp::start_at(SocketAddr::from((POD, 0)), linkerd_tests::echo).await;
            let addr = application.addr();
            let pod = Pod::start(|proxy| proxy.env(PORTS, addr.port())).await;
            let mut client = soon(TcpStream::connect(addr)).await.unwrap();
            let addresses = addresses(client.local_addr().unwrap(), addr);
            let expected = hex(&[BEGIN, b"\x11\x00\x0c", &addresses].concat());
            let mut line = vec![0; expected.len() + 1];
            // The client has sent nothing: the proxy does not wait for its first byte.
            soon(client.read_exact(&mut line)).await.unwrap();
            assert_eq!(String::from_utf8(line).unwrap().trim_end(), expected);
            // The proxy detects no HTTP, and passes on a PROXY header of the client.
            let mut wire = Wire::connect(addr).await;
            wire.until(b"\n").await;
            for sent in [
                "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
                "get  / http/1.1\r\n\r\n",
            ] {
                wire.send(sent).await;
                assert_eq!(wire.until(sent.as_bytes()).await, sent);
            }
            let query = format!("port={}&client=10.0.0.7", addr.port());
            let explained = pod.proxy.admin.get(&format!("/explain?{query}")).await;
            let explained = explained.text().to_owned();
            assert!(
                explained.contains("\"protocol\": \"opaque\""),
                "{explained}"
            );
            // Connections to other ports get no header.
            let mut wire = Wire::connect(other.addr()).await;
            wire.send("\0query").await;
            assert_eq!(wire.until(b"query").await, "\0query");
        },
    );
}

#[tokio::test]
async fn of_a_client_of_the_mesh_it_learns_the_identity() {
    let application = Tcp::start(reflect).await;
    let addr = application.addr();
    let mesh = Meshed::start(|web| web, |api: Builder| api.env(PORTS, addr.port())).await;
    mesh.serve_api(addr, Endpoint::opaque);
    let opaque = Policy::balance("api", 80).protocol(Protocol::Opaque);
    mesh.controller.policy("api:80").set(opaque);
    let mut wire = Wire::tunnel(mesh.web.outbound, "api:80").await;
    wire.send("all bytes").await;
    let line = wire.until(b"\n").await;
    let name = identity("web");
    let tls = [
        b"\x07\x00\x00\x00\x00\x21\x00\x07TLSv1.3\x22\x00",
        &[u8::try_from(name.len()).unwrap()][..],
        name.as_bytes(),
    ]
    .concat();
    let tls = [b"\x20\x00", &[u8::try_from(tls.len()).unwrap()][..], &tls].concat();
    assert!(line.trim_end().ends_with(&hex(&tls)), "{line}");
    let begin = hex(BEGIN);
    assert!(line.starts_with(&begin), "{line}");
    // The port of the other proxy's connection is not known.
    let ips = hex(&addresses(([127, 0, 0, 1], 0).into(), addr)[..8]);
    assert_eq!(line[begin.len() + 6..][..16], ips, "{line}");
    assert_eq!(wire.until(b"bytes").await, "all bytes");
}
