//! Opaque bytes between the proxy's sockets, which the proxy splices.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_control::{EndpointSet, Policy};
use linkerd_tests::{
    SOON, Tcp, Wire, eventually,
    netns::{PEER, POD, Pod, SERVICE, isolated},
    soon,
};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
};

/// A pod with an opaque service, and the connections to its endpoint.
struct Opaque {
    pod: Pod,
    accepted: mpsc::Receiver<TcpStream>,
    _server: Tcp,
}

impl Opaque {
    async fn start() -> Self {
        let (took, accepted) = mpsc::channel(FLOWS);
        let server = Tcp::start_at(SocketAddr::new(PEER, 0), move |socket| {
            took.try_send(socket).unwrap();
            async {}
        })
        .await;
        let pod = Pod::start(|proxy| proxy).await;
        let policy = Policy::balance("web", 80).opaque();
        pod.controller.policy(SERVICE.to_string()).set(policy);
        pod.controller
            .destination("web.default.svc.cluster.local:80")
            .set(EndpointSet::new([server.addr()]));
        Self {
            pod,
            accepted,
            _server: server,
        }
    }

    /// Both ends of a connection through the proxy.
    async fn connect(&mut self) -> (TcpStream, TcpStream) {
        let client = soon(TcpStream::connect(SERVICE)).await.unwrap();
        (client, soon(self.accepted.recv()).await.unwrap())
    }

    async fn pipes(&self) -> serde_json::Value {
        self.pod.proxy.admin.state().await["workers"][0]["pipes"].clone()
    }

    /// The number of the proxy's open files.
    fn files(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.pod.proxy.pid()));
        files.unwrap().count()
    }
}

/// Bytes that depend on their offset, so that a misplaced byte is noticed.
fn pattern(seed: u64, at: u64, len: usize) -> Vec<u8> {
    let word = |at: u64| (at / 8 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bytes = at..at + len as u64;
    bytes
        .map(|at| word(at).to_le_bytes()[(at % 8) as usize])
        .collect()
}

/// Writes a pattern, and shuts down.
async fn write_pattern(mut to: impl AsyncWrite + Unpin, seed: u64, total: u64) {
    let block = pattern(seed, 0, BLOCK);
    for _ in 0..total / BLOCK as u64 {
        to.write_all(&block).await.unwrap();
    }
    to.shutdown().await.unwrap();
}

/// Reads a pattern until the end, and returns its length.
async fn read_pattern(mut from: impl AsyncRead + Unpin, seed: u64) -> u64 {
    let expected = pattern(seed, 0, BLOCK);
    let mut block = vec![0; BLOCK];
    let mut total = 0;
    loop {
        let at = (total % BLOCK as u64) as usize;
        match from.read(&mut block[at..]).await.unwrap() {
            0 => return total,
            count => {
                let arrived = at..at + count;
                assert!(
                    block[arrived.clone()] == expected[arrived],
                    "differs in the {count} bytes from {total}"
                );
                total += count as u64;
            }
        }
    }
}

#[test]
fn bulk_arrives_as_it_was_sent_and_is_counted() {
    isolated("bulk_arrives_as_it_was_sent_and_is_counted", async {
        let mut opaque = Opaque::start().await;
        let (mut client, mut server) = opaque.connect().await;
        let (client_read, client_write) = client.split();
        let (server_read, server_write) = server.split();
        let whole = async {
            tokio::join!(
                write_pattern(client_write, 1, 2 * BULK),
                write_pattern(server_write, 2, BULK),
                read_pattern(server_read, 1),
                read_pattern(client_read, 2),
            )
        };
        let ((), (), at_server, at_client) = soon(whole).await;
        assert_eq!((at_server, at_client), (2 * BULK, BULK));
        let proxy = &opaque.pod.proxy;
        proxy
            .metric_reaches("tcp_close_total", &[("direction", "outbound")], 2.0)
            .await;
        let metrics = proxy.metrics().await;
        for (peer, read, write) in [("src", 2 * BULK, BULK), ("dst", BULK, 2 * BULK)] {
            let labels = [("direction", "outbound"), ("peer", peer)];
            let sum = |name| metrics.sum(name, &labels) as u64;
            assert_eq!(sum("tcp_read_bytes_total"), read, "{peer}");
            assert_eq!(sum("tcp_write_bytes_total"), write, "{peer}");
        }
        let pipes = opaque.pipes().await;
        assert!(pipes["open"].as_u64() > Some(0), "{pipes}");
        assert_eq!(pipes["open"], pipes["free"], "all were given back");
    });
}

#[test]
fn an_end_of_either_side_is_passed_on_alone() {
    isolated("an_end_of_either_side_is_passed_on_alone", async {
        let mut opaque = Opaque::start().await;
        for first_is_client in [true, false] {
            let (client, server) = opaque.connect().await;
            let (mut first, mut second) = match first_is_client {
                true => (client, server),
                false => (server, client),
            };
            soon(write_pattern(&mut first, 1, 0)).await;
            assert_eq!(soon(read_pattern(&mut second, 1)).await, 0);
            let late = async {
                tokio::join!(
                    write_pattern(&mut second, 2, 10 * BLOCK as u64),
                    read_pattern(&mut first, 2)
                )
            };
            assert_eq!(soon(late).await.1, 10 * BLOCK as u64);
        }
    });
}

#[test]
fn a_reset_ends_the_other_side() {
    isolated("a_reset_ends_the_other_side", async {
        let mut opaque = Opaque::start().await;
        for reset_client in [true, false] {
            let (client, server) = opaque.connect().await;
            let (mut broken, mut other) = match reset_client {
                true => (client, server),
                false => (server, client),
            };
            // Bytes flow before the reset.
            let block = vec![0; BLOCK];
            let mut read = vec![0; BLOCK];
            soon(async { tokio::try_join!(broken.write_all(&block), other.read_exact(&mut read)) })
                .await
                .unwrap();
            socket2::SockRef::from(&broken)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
            drop(broken);
            let ended = soon(other.read(&mut read)).await;
            assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
        }
        let reset = [("direction", "outbound"), ("errno", "ECONNRESET")];
        let proxy = &opaque.pod.proxy;
        proxy.metric_reaches("tcp_close_total", &reset, 2.0).await;
        let broken = [("error", "i/o")];
        let errors = "outbound_tcp_errors_total";
        proxy.metric_reaches(errors, &broken, 2.0).await;
        let closed = "outbound_tcp_route_close_total";
        let unexpected = [("error", "unexpected")];
        proxy.metric_reaches(closed, &unexpected, 2.0).await;
    });
}

#[test]
fn a_connection_that_the_application_resets_is_counted() {
    isolated(
        "a_connection_that_the_application_resets_is_counted",
        async {
            let reset_all = |mut socket: tokio::net::TcpStream| async move {
                let _ = socket.read_u8().await;
                let _ = socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO));
            };
            let application = Tcp::start_at(SocketAddr::from((POD, 0)), reset_all).await;
            let pod = Pod::start(|proxy| proxy).await;
            let mut wire = Wire::connect(application.addr()).await;
            wire.send("custom protocol\n").await;
            let port = application.addr().port().to_string();
            let labels = [("error", "i/o"), ("target_port", &*port)];
            let errors = "inbound_tcp_errors_total";
            pod.proxy.metric_reaches(errors, &labels, 1.0).await;
        },
    );
}

/// Writes until the buffers are full, and returns the number of bytes.
async fn stuff(to: &mut TcpStream) -> u64 {
    let block = vec![7; BLOCK];
    let mut sent = 0;
    while let Ok(count) = tokio::time::timeout(QUIET, to.write(&block)).await {
        sent += count.unwrap() as u64;
    }
    sent
}

/// The system's largest buffer of a socket.
fn socket_buffer(name: &str) -> u64 {
    let sizes = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap();
    sizes.split_whitespace().last().unwrap().parse().unwrap()
}

#[test]
fn slow_readers_hold_writers_up_and_bound_memory_and_files() {
    isolated(
        "slow_readers_hold_writers_up_and_bound_memory_and_files",
        async {
            let mut opaque = Opaque::start().await;
            let mut flows = Vec::new();
            for _ in 0..FLOWS {
                flows.push(opaque.connect().await);
            }
            let (files, memory) = (opaque.files(), opaque.pod.proxy.rss());
            let stuffed = futures::future::join_all(flows.iter_mut().map(|(to, _)| stuff(to)));
            let sent = soon(stuffed).await;
            // The socket buffers hold nearly all bytes; the proxy's own buffers add little.
            let bound = 2 * (socket_buffer("tcp_rmem") + socket_buffer("tcp_wmem")) + BLOCK as u64;
            assert!(
                sent.iter().all(|sent| *sent < bound),
                "taken in without a reader: {sent:?}, buffers hold {bound}"
            );
            let pipes = opaque.pipes().await;
            assert_eq!(pipes["open"], pipes["limit"], "{pipes}");
            let limit = pipes["limit"].as_u64().unwrap() as usize;
            assert!(opaque.files() <= files + 2 * limit + 8);
            let grown = opaque.pod.proxy.rss().saturating_sub(memory);
            assert!(grown < 8 << 20, "{grown} bytes for {FLOWS} flows");
            // All connections go on.
            let drained = flows.into_iter().zip(sent).map(|((to, mut from), sent)| {
                drop(to);
                tokio::spawn(async move {
                    let mut read = Vec::new();
                    from.read_to_end(&mut read).await.unwrap();
                    assert_eq!(read.len() as u64, sent);
                })
            });
            for drained in soon(futures::future::join_all(drained)).await {
                drained.unwrap();
            }
            eventually(SOON, "unused pipes are closed", || async {
                (opaque.pipes().await["open"] == 0).then_some(())
            })
            .await;
        },
    );
}

#[test]
fn messages_are_not_held_back_by_bulk_before_and_beside_them() {
    isolated(
        "messages_are_not_held_back_by_bulk_before_and_beside_them",
        async {
            let mut opaque = Opaque::start().await;
            let (beside, sink) = opaque.connect().await;
            let bulk = tokio::spawn(async move {
                tokio::join!(
                    write_pattern(beside, 1, u64::MAX),
                    tokio::spawn(read_pattern(sink, 1))
                )
            });
            let (mut client, mut server) = opaque.connect().await;
            let mut read = vec![0; BLOCK];
            for len in [BLOCK, 1, 100, BLOCK, 20_000, 1, 16_384, 1] {
                soon(async {
                    let sent = vec![1; len];
                    tokio::try_join!(client.write_all(&sent), server.read_exact(&mut read[..len]))?;
                    server.write_all(b"ok").await?;
                    client.read_exact(&mut read[..2]).await
                })
                .await
                .unwrap();
            }
            bulk.abort();
        },
    );
}

const BLOCK: usize = 1 << 20;
/// 100 MiB.
const BULK: u64 = 100 * BLOCK as u64;
/// Connections: more than there are pipes.
const FLOWS: usize = 50;
/// Time without progress after which all buffers count as full.
const QUIET: Duration = Duration::from_millis(500);
