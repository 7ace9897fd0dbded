//! Bulk transfers, many connections, and connections without redirection.

use crate::ways::{Way, Ways};
use futures::future::join_all;
use linkerd_tests::{Tcp, Wire, echo, netns::isolated, soon};
use std::time::Instant;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
};

/// The bytes of a transfer, sent repeatedly.
static CHUNK: [u8; 1 << 16] = [b'x'; 1 << 16];
/// Bytes of the transfer on each path, unless `LINKERD_TESTS_TRANSFER` is set.
const TRANSFER: u64 = 1 << 30;
/// Idle connections on each path.
const IDLE: usize = 5000;

#[test]
fn a_large_transfer() {
    isolated("transfers::a_large_transfer", async {
        let size = std::env::var("LINKERD_TESTS_TRANSFER");
        let size = size.map_or(TRANSFER, |size| size.parse().unwrap());
        let ways = Ways::start().await;
        let mut servers = Vec::new();
        for pod in ways.servers() {
            let sends = move |mut socket: TcpStream| async move {
                let mut begin = [0; 5];
                socket.read_exact(&mut begin).await.unwrap();
                let mut left = size;
                while left > 0 {
                    let next = left.min(CHUNK.len() as u64);
                    socket.write_all(&CHUNK[..next as usize]).await.unwrap();
                    left -= next;
                }
            };
            servers.push(pod.enter(Tcp::start_at(pod.at(7000), sends)).await);
        }
        for Way { name, client, to } in ways.to(7000) {
            let begin = Instant::now();
            let receive = async {
                let mut socket = TcpStream::connect(to).await.unwrap();
                socket.write_all(b"send\n").await.unwrap();
                let mut buf = vec![0; 1 << 18];
                let mut received = 0;
                loop {
                    match soon(socket.read(&mut buf)).await.unwrap() {
                        0 => return received,
                        count => received += count as u64,
                    }
                }
            };
            assert_eq!(client.enter(receive).await, size, "{name}");
            println!("{name}: {size} bytes in {:?}", begin.elapsed());
        }
    });
}

#[test]
fn many_idle_connections() {
    isolated("transfers::many_idle_connections", async {
        let ways = Ways::start().await;
        let mut servers = Vec::new();
        for pod in ways.servers() {
            servers.push(pod.enter(Tcp::start_at(pod.at(7000), echo)).await);
        }
        for Way { name, client, to } in ways.to(7000) {
            let talk = async {
                let mut idle = Vec::new();
                while idle.len() < IDLE {
                    // As many at a time as can complete handshakes within the connect timeout.
                    let some = (0..10).map(|_| async {
                        let mut wire = Wire::connect(to).await;
                        wire.send("hello\n").await;
                        assert_eq!(wire.until(b"\n").await, "hello\n", "{name}");
                        wire
                    });
                    idle.extend(join_all(some).await);
                }
                for wire in &mut idle {
                    wire.send("again\n").await;
                    assert_eq!(wire.until(b"\n").await, "again\n", "{name}");
                }
            };
            client.enter(talk).await;
        }
    });
}

#[test]
fn a_half_closed_and_a_reset_connection_are_relayed_as_such() {
    isolated(
        "transfers::a_half_closed_and_a_reset_connection_are_relayed_as_such",
        async {
            let ways = Ways::start().await;
            let mut servers = Vec::new();
            for pod in ways.servers() {
                // Answers at the end of its input, or with a reset.
                let answers = |mut socket: TcpStream| async move {
                    let mut first = [0; 6];
                    socket.read_exact(&mut first).await.unwrap();
                    if &first == b"reset\n" {
                        return socket.set_zero_linger().unwrap();
                    }
                    let mut rest = Vec::new();
                    socket.read_to_end(&mut rest).await.unwrap();
                    socket.write_all(&rest).await.unwrap();
                };
                servers.push(pod.enter(Tcp::start_at(pod.at(7000), answers)).await);
            }
            for Way { name, client, to } in ways.to(7000) {
                let talk = async {
                    let mut socket = TcpStream::connect(to).await.unwrap();
                    socket.write_all(b"begin\nto the end").await.unwrap();
                    socket.shutdown().await.unwrap();
                    let mut answer = String::new();
                    soon(socket.read_to_string(&mut answer)).await.unwrap();
                    assert_eq!(answer, "to the end", "{name}");

                    let mut socket = TcpStream::connect(to).await.unwrap();
                    socket.write_all(b"reset\n").await.unwrap();
                    let error = soon(socket.read(&mut [0; 8])).await.unwrap_err();
                    let reset = std::io::ErrorKind::ConnectionReset;
                    assert_eq!(error.kind(), reset, "{name}");
                };
                client.enter(talk).await;
            }
        },
    );
}

#[test]
fn udp_and_ports_that_are_left_alone() {
    isolated("transfers::udp_and_ports_that_are_left_alone", async {
        let ways = Ways::start().await;
        for (client, server) in [(&ways.web, &ways.plain), (&ways.plain, &ways.api)] {
            let (udp, tcp) = server
                .enter(async {
                    let udp = UdpSocket::bind(server.at(5353)).await.unwrap();
                    (udp, TcpListener::bind(server.at(4567)).await.unwrap())
                })
                .await;
            let (dialed, from) = client
                .enter(async {
                    let udp = UdpSocket::bind(client.at(0)).await.unwrap();
                    udp.send_to(b"hello", server.at(5353)).await.unwrap();
                    let dialed = soon(TcpStream::connect(server.at(4567))).await.unwrap();
                    (dialed, udp.local_addr().unwrap())
                })
                .await;
            let (_, peer) = soon(udp.recv_from(&mut [0; 8])).await.unwrap();
            assert_eq!(peer, from);
            let (_accepted, peer) = soon(tcp.accept()).await.unwrap();
            assert_eq!(peer, dialed.local_addr().unwrap());
        }
        for pod in [&ways.web, &ways.api] {
            let metrics = pod.enter(pod.proxy().metrics()).await;
            let accepted = [("peer", "src"), ("direction", "outbound")];
            assert_eq!(metrics.sum("tcp_open_total", &accepted), 0.0);
        }
    });
}
