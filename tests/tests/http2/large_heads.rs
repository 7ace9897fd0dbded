//! Heads that are larger than an endpoint takes.

use super::frames::{GOAWAY, begin, frame, next_request};
use http::Response;
use http_body_util::BodyExt;
use linkerd_tests::{Http1, Mesh, Server, Tcp, from_channel, get, soon};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
};

/// A server that does not name its limit ends the connection, with the calls of others: it gets such a head once.
#[tokio::test]
async fn a_head_that_ended_a_connection_is_not_sent_again() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let endpoint = Tcp::start(move |socket| end_at_first_request(socket, counted.clone())).await;
    let mesh = super::mesh_of(&endpoint).await;
    let mut client = Http1::connect(mesh.proxy.outbound).await;
    let mut large = get("http://web/");
    let cookie = "x".repeat(17_000).parse().unwrap();
    large.headers_mut().insert("cookie", cookie);
    let reply = soon(client.send(large)).await.unwrap();
    assert_eq!(reply.status, 431, "{reply:?}");
    let reason = [("reason", "endpoint_head_limit")];
    let failures = mesh.proxy.metrics().await;
    assert_eq!(failures.sum("proxy_failures_total", &reason), 1.0);
    assert_eq!(requests.load(SeqCst), 1);
}

#[tokio::test]
async fn a_large_head_is_431_and_the_other_calls_of_its_connection_go_on() {
    let (say, texts) = mpsc::channel(1);
    let texts = Mutex::new(Some(texts));
    let server = Server::start(move |_| {
        let texts = texts.lock().take().unwrap();
        async move { Ok(Response::new(from_channel(texts))) }
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let client = mesh.http2().await;
    let mut other = soon(client.start(get("http://web/"))).await.unwrap();
    for size in [17_000, 60_000] {
        let mut large = get("http://web/");
        let cookie = "x".repeat(size).parse().unwrap();
        large.headers_mut().insert("cookie", cookie);
        let reply = soon(client.send(large)).await.unwrap();
        assert_eq!(reply.status, 431, "{reply:?}");
        say.send("on").await.unwrap();
        let frame = soon(other.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "on");
    }
}

async fn end_at_first_request(mut socket: TcpStream, requests: Arc<AtomicUsize>) {
    let mut goaway = vec![0; 8];
    goaway[7] = ENHANCE_YOUR_CALM;
    let begun = begin(&mut socket).await;
    if begun.is_ok() && next_request(&mut socket).await.is_ok() {
        requests.fetch_add(1, SeqCst);
        let _ = socket.write_all(&frame(GOAWAY, 0, 0, &goaway)).await;
        let _ = socket.read(&mut [0; 1024]).await;
    }
}

const ENHANCE_YOUR_CALM: u8 = 11;
