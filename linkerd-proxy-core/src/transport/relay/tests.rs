//! Relays between real sockets: splice(2) cannot be faked.

use super::*;
use crate::transport::{FirstServerBytes, Pipes, Socket, socket::tests::pair};
use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::time::Duration;
use tokio::{io::AsyncWriteExt, net::TcpStream};

/// A relay between two outer ends.
struct Ends {
    client: TcpStream,
    server: TcpStream,
    inner: (Socket, Socket),
}

impl Ends {
    async fn new() -> Self {
        let ((client, a), (b, server)) = (pair().await, pair().await);
        let inner = (a.into(), b.into());
        Self {
            client,
            server,
            inner,
        }
    }
}

/// Relays everything; returns the bytes there and back.
async fn unscanned(
    client: &mut impl Duplex,
    server: &mut impl Duplex,
    pipes: &Pipes,
) -> io::Result<(u64, u64)> {
    match relay(client, server, pipes, None).await? {
        Relayed::Ended { sent, received } => Ok((sent, received)),
        Relayed::Request { .. } => panic!("nothing was searched for one"),
    }
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// Sends bytes in pieces, and ends.
async fn send(mut to: impl AsyncWrite + Unpin, bytes: &[u8], piece: usize) {
    for piece in bytes.chunks(piece) {
        to.write_all(piece).await.unwrap();
    }
    to.shutdown().await.unwrap();
}

async fn receive(mut from: impl tokio::io::AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).await.unwrap();
    bytes
}

/// Sends in both directions at once, in pieces of these sizes.
async fn exchange(pipes: &Pipes, there: &[u8], back: &[u8], pieces: (usize, usize)) {
    let Ends {
        mut client,
        mut server,
        inner: (mut a, mut b),
    } = Ends::new().await;
    let (client_read, client_write) = client.split();
    let (server_read, server_write) = server.split();
    let (relayed, (), (), at_server, at_client) = tokio::join!(
        unscanned(&mut a, &mut b, pipes),
        send(client_write, there, pieces.0),
        send(server_write, back, pieces.1),
        receive(server_read),
        receive(client_read),
    );
    assert_eq!(
        relayed.unwrap(),
        (there.len() as u64, back.len() as u64),
        "bytes are counted"
    );
    assert!(at_server == there && at_client == back);
}

#[tokio::test]
async fn bulk_arrives_as_it_was_sent_in_both_directions_at_once() {
    let pipes = Pipes::default();
    let (there, back) = (noise(20_000_000, 1), noise(10_000_000, 2));
    exchange(&pipes, &there, &back, (1 << 20, 100_000)).await;
    let state = pipes.inspect();
    assert!(
        (1..=2).contains(&state["open"].as_u64().unwrap()),
        "{state}"
    );
    assert_eq!(state["open"], state["free"], "all were given back");
}

#[tokio::test]
async fn without_pipes_it_copies() {
    let (there, back) = (noise(5_000_000, 3), noise(5_000_000, 4));
    let pipes = Pipes::none();
    exchange(&pipes, &there, &back, (1 << 20, 1 << 20)).await;
    assert_eq!(pipes.inspect()["open"], 0);
}

#[tokio::test]
async fn small_messages_need_no_pipe() {
    let pipes = Pipes::default();
    let Ends {
        mut client,
        mut server,
        inner: (mut a, mut b),
    } = Ends::new().await;
    let talk = async {
        let mut read = [0; 100];
        for _ in 0..100 {
            client.write_all(&[1; 100]).await.unwrap();
            server.read_exact(&mut read).await.unwrap();
            server.write_all(&[2; 100]).await.unwrap();
            client.read_exact(&mut read).await.unwrap();
        }
        drop((client, server));
    };
    let (relayed, ()) = tokio::join!(unscanned(&mut a, &mut b, &pipes), talk);
    assert_eq!(relayed.unwrap(), (10_000, 10_000));
    assert_eq!(pipes.inspect()["open"], 0);
}

#[tokio::test]
async fn an_end_is_passed_on_while_the_other_direction_goes_on() {
    let pipes = Pipes::default();
    for first_is_client in [true, false] {
        let Ends {
            client,
            server,
            inner: (mut a, mut b),
        } = Ends::new().await;
        let (mut first, mut second) = match first_is_client {
            true => (client, server),
            false => (server, client),
        };
        let talk = async {
            first.shutdown().await.unwrap();
            assert_eq!(receive(&mut second).await, b"", "it has ended");
            let late = noise(1_000_000, 5);
            let ((), read) = tokio::join!(send(&mut second, &late, 1 << 16), receive(&mut first));
            assert!(read == late);
        };
        let (relayed, ()) = tokio::join!(unscanned(&mut a, &mut b, &pipes), talk);
        relayed.unwrap();
    }
}

/// Writes until the buffers are full; returns the number of bytes.
async fn stuff(to: &mut TcpStream) -> usize {
    let block = vec![7; 1 << 16];
    let mut sent = 0;
    // The relay and both kernels' buffers are full when nothing moves for a while.
    while let Ok(count) = tokio::time::timeout(Duration::from_millis(200), to.write(&block)).await {
        sent += count.unwrap();
    }
    sent
}

#[tokio::test]
async fn a_reader_that_is_slow_holds_one_pipe_and_the_writer_up() {
    let pipes = Pipes::default();
    let Ends {
        mut client,
        mut server,
        inner: (mut a, mut b),
    } = Ends::new().await;
    let talk = async {
        let sent = stuff(&mut client).await;
        assert!(sent < 64_000_000, "{sent} bytes were taken in");
        let state = pipes.inspect();
        assert_eq!((&state["open"], &state["free"]), (&1.into(), &0.into()));
        client.shutdown().await.unwrap();
        let mut read = 0;
        let mut buf = vec![0; 1 << 16];
        while let count @ 1.. = server.read(&mut buf).await.unwrap() {
            assert!(buf[..count].iter().all(|byte| *byte == 7));
            read += count;
        }
        assert_eq!(read, sent, "all arrives when the reader goes on");
        drop(server);
    };
    let (relayed, ()) = tokio::join!(unscanned(&mut a, &mut b, &pipes), talk);
    relayed.unwrap();
    assert_eq!(pipes.inspect()["free"], 1);
    pipes.sweep();
    pipes.sweep();
    let state = pipes.inspect();
    assert_eq!(state["open"], 0, "unused ones are closed: {state}");
}

#[tokio::test]
async fn a_relay_that_gets_no_pipe_copies() {
    let pipes = Pipes::new(1);
    let mut stuck = Ends::new().await;
    let (a, b) = &mut stuck.inner;
    let other = async {
        stuff(&mut stuck.client).await;
        assert_eq!(
            (&pipes.inspect()["open"], &pipes.inspect()["free"]),
            (&1.into(), &0.into())
        );
        let bytes = noise(3_000_000, 6);
        exchange(&pipes, &bytes, &bytes, (1 << 20, 1 << 20)).await;
        assert_eq!(pipes.inspect()["open"], 1);
    };
    tokio::select! {
        _ = unscanned(a, b, &pipes) => panic!("nobody ended it"),
        () = other => {}
    }
    assert_eq!(
        pipes.inspect()["open"],
        0,
        "a pipe with bytes is closed, and never used again"
    );
}

#[tokio::test]
async fn a_reset_ends_both_directions() {
    let pipes = Pipes::default();
    let Ends {
        mut client,
        mut server,
        inner: (mut a, mut b),
    } = Ends::new().await;
    let talk = async {
        client.write_all(&noise(100_000, 7)).await.unwrap();
        let mut read = vec![0; 100_000];
        server.read_exact(&mut read).await.unwrap();
        socket2::SockRef::from(&server)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
        drop(server);
    };
    let (relayed, ()) = tokio::join!(unscanned(&mut a, &mut b, &pipes), talk);
    let error = relayed.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    drop((a, b));
    let error = client.read(&mut [0; 8]).await.unwrap_err();
    assert_eq!(
        error.kind(),
        io::ErrorKind::ConnectionReset,
        "it is passed on"
    );
}

/// splice(2) returns 0 at urgent data, as it does at the end.
#[tokio::test]
async fn urgent_data_is_not_taken_for_the_end() {
    let pipes = Pipes::default();
    let Ends {
        mut client,
        mut server,
        inner: (mut a, mut b),
    } = Ends::new().await;
    let bytes = noise(300_000, 8);
    let talk = async {
        let (_, write) = client.split();
        let sending = async {
            let mut write = write;
            write.write_all(&bytes).await.unwrap();
            write.writable().await.unwrap();
            socket2::SockRef::from(write.as_ref())
                .send_out_of_band(b"!")
                .unwrap();
            send(write, &bytes, 1 << 16).await;
        };
        let ((), read) = tokio::join!(sending, receive(&mut server));
        assert!(
            read == [&bytes[..], &bytes[..]].concat(),
            "{} bytes",
            read.len()
        );
        drop(server);
    };
    let (relayed, ()) = tokio::join!(unscanned(&mut a, &mut b, &pipes), talk);
    relayed.unwrap();
}

/// A relay that searches the client's bytes: its end, and what the server and the client have got. The client writes the next
/// piece when the server has got the one before.
async fn searched(
    server_first: Option<&str>,
    on_server: FirstServerBytes,
    pieces: &[&str],
) -> (Option<Option<String>>, String) {
    let pipes = Pipes::default();
    let Ends {
        mut client,
        mut server,
        inner: (mut a, mut b),
    } = Ends::new().await;
    let scan = RequestScan::new(on_server);
    let relaying = async {
        let relayed = relay(&mut a, &mut b, &pipes, Some(scan)).await.unwrap();
        drop(b);
        match relayed {
            Relayed::Ended { .. } => None,
            Relayed::Request { replay } => {
                Some(replay.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()))
            }
        }
    };
    let talking = async {
        if let Some(first) = server_first {
            server.write_all(first.as_bytes()).await.unwrap();
            let mut read = vec![0; first.len()];
            client.read_exact(&mut read).await.unwrap();
        }
        let mut seen = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            client.write_all(piece.as_bytes()).await.unwrap();
            let goal = seen.len() + piece.len();
            while index + 1 < pieces.len() && seen.len() < goal {
                server.read_buf(&mut seen).await.unwrap();
            }
        }
        client.shutdown().await.unwrap();
        // A reset, if a request was found.
        let _ = server.read_to_end(&mut seen).await;
        drop(server);
        String::from_utf8(seen).unwrap()
    };
    tokio::join!(relaying, talking)
}

#[tokio::test]
async fn a_request_line_never_reaches_the_server_whole() {
    use FirstServerBytes::{EndSearch, Ignore};
    for (first, on_server, pieces, replay, seen) in [
        (None, EndSearch, &["hello"][..], None, "hello"),
        (None, EndSearch, &["EHLO", " x\r\n"], None, "EHLO x\r\n"),
        (
            None,
            EndSearch,
            &["\0GE", "T / HTTP/1.1", "\r\n\r\n"],
            Some(Some("\0GET / HTTP/1.1\r\n\r\n")),
            "\0GET / HTTP/1.1",
        ),
        // At the end of the client's side.
        (
            None,
            EndSearch,
            &["GET", " x"],
            Some(Some("GET x")),
            "GET x",
        ),
        (Some("220 hello"), EndSearch, &["GET x\n"], None, "GET x\n"),
        // The server has answered: nothing can be put back.
        (
            Some("220 hello"),
            Ignore,
            &["ok\n", "GET / HTTP/1.1\n"],
            Some(None),
            "ok\n",
        ),
    ] {
        let expected = (
            replay.map(|bytes: Option<&str>| bytes.map(str::to_owned)),
            seen.to_owned(),
        );
        let found = searched(first, on_server, pieces).await;
        // Bytes that arrived in the same round as the end of the line may be held, too.
        assert_eq!(found.0, expected.0, "{pieces:?}");
        assert!(expected.1.starts_with(&found.1), "{pieces:?}: {}", found.1);
        assert!(!found.1.contains("HTTP/1.1\r") && !found.1.contains("HTTP/1.1\n"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn however_it_is_cut_it_arrives(
        there in 0..300_000_usize,
        back in 0..300_000_usize,
        pieces in (1000..200_000_usize, 1000..200_000_usize),
        limit in 0..3_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (there, back) = (noise(there, 1), noise(back, 2));
        runtime.block_on(exchange(&Pipes::new(limit), &there, &back, pieces));
    }
}
