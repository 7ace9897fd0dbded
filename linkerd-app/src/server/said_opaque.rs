//! Connections of peer proxies that name no protocol.
//!
//! The peer may be no proxy and write requests, which would bypass all checks. The proxy cannot wait for a side, as either may
//! speak first, with any number of bytes. So the client's bytes are passed on to the server as they come, except the byte that
//! would complete a request line.

use bytes::BytesMut;
use linkerd_proxy_core::transport::{Detected, Duplex, Io, Lookalikes, decide};
use std::{future::poll_fn, io};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Passes bytes of the client on until they are certainly no request, or certainly one: then all of them are put back, and the
/// server has got the beginning of a line that never ends.
pub async fn relay_until_decided(
    client: &mut Io,
    server: &mut impl Duplex,
) -> io::Result<Detected> {
    let mut read = BytesMut::new();
    loop {
        let passed = read.len();
        let count = tokio::select! {
            biased;
            () = poll_fn(|cx| server.poll_received(cx)) => return Ok(Detected::Opaque),
            count = client.read_buf(&mut read) => count?,
        };
        let decided = match count {
            0 => Some(Detected::Opaque),
            _ => decide(&read, Lookalikes::Http),
        };
        match decided {
            None => {
                server.write_all(&read[passed..]).await?;
                server.flush().await?;
            }
            Some(Detected::Opaque) => {
                client.put_back(read.split_off(passed).freeze());
                return Ok(Detected::Opaque);
            }
            Some(http) => {
                client.put_back(read.freeze());
                return Ok(http);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::{
        metrics::{Labels, Registry},
        transport::{Socket, TransportMetrics},
    };
    use tokio::net::{TcpListener, TcpStream};

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        (client.unwrap(), accepted.unwrap().0)
    }

    async fn io() -> (TcpStream, Io) {
        let (other, socket) = pair().await;
        let series = TransportMetrics::register(&Registry::new()).series(Labels::new());
        (other, Io::new(Socket::from(socket).into(), series))
    }

    /// The protocol of a client with these writes, the bytes that the server has got until then, and the bytes that are left.
    async fn decided(writes: &[&str]) -> (Detected, String, String) {
        let ((mut client, mut ours), (mut server, mut to_server)) = (io().await, io().await);
        let writing = async {
            let mut seen = Vec::new();
            for (index, write) in writes.iter().enumerate() {
                client.write_all(write.as_bytes()).await.unwrap();
                if index + 1 < writes.len() {
                    // The next write follows when this one has arrived.
                    let goal = seen.len() + write.len();
                    while seen.len() < goal {
                        server.read_buf(&mut seen).await.unwrap();
                    }
                }
            }
            client.shutdown().await.unwrap();
            seen
        };
        let deciding = relay_until_decided(&mut ours, &mut to_server);
        let (protocol, mut seen) = tokio::join!(deciding, writing);
        drop(to_server);
        server.read_to_end(&mut seen).await.unwrap();
        let mut left = String::new();
        ours.read_to_string(&mut left).await.unwrap();
        (protocol.unwrap(), String::from_utf8(seen).unwrap(), left)
    }

    #[tokio::test]
    async fn undecided_bytes_go_on_and_a_request_line_is_never_whole() {
        for (writes, protocol, passed, left) in [
            (&["hello"][..], Detected::Opaque, "hello", ""),
            (&["EHLO", " x\r\n"], Detected::Opaque, "EHLO", " x\r\n"),
            (&["\0bytes"], Detected::Opaque, "", "\0bytes"),
            (
                &["GET / HTTP/1.1", "\r", "\n\r\n"],
                Detected::Http1,
                "GET / HTTP/1.1\r",
                "GET / HTTP/1.1\r\n\r\n",
            ),
            (
                &["PRI * HTTP/2", ".0\r\n\r\nSM\r\n\r\n"],
                Detected::Http2,
                "PRI * HTTP/2",
                "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            ),
        ] {
            let expected = (protocol, passed.to_owned(), left.to_owned());
            assert_eq!(decided(writes).await, expected, "{writes:?}");
        }
    }

    #[tokio::test]
    async fn a_server_that_speaks_decides() {
        let ((_client, mut ours), (mut server, mut to_server)) = (io().await, io().await);
        server.write_all(b"220 ready\r\n").await.unwrap();
        let protocol = relay_until_decided(&mut ours, &mut to_server).await;
        assert_eq!(protocol.unwrap(), Detected::Opaque);
    }
}
