//! Bodies: long, slow, or of unknown length.

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming};
use linkerd_tests::{
    Mesh, SOON, Server, body, chunks, empty, eventually, from_channel, get, reply, request, soon,
};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::mpsc;

#[tokio::test]
async fn chunked_bodies_pass_both_ways() {
    let server = Server::echo().await;
    let mesh = Mesh::with(&server).await;
    let pieces = ["one ", "two ", "three"].map(|text| Ok(Frame::data(Bytes::from(text))));
    let body = chunks(stream::iter(pieces));
    let request = request(Method::POST, "http://web/", body);
    let reply = soon(mesh.http1().await.send(request)).await.unwrap();
    assert_eq!(reply.text(), "one two three");
    assert_eq!(server.last().headers["transfer-encoding"], "chunked");
    assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
}

#[tokio::test]
async fn trailers_of_a_response_pass() {
    let server = Server::start(|_| async {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-sum", "42".parse().unwrap());
        let frames = [Frame::data(Bytes::from("data")), Frame::trailers(trailers)];
        let response = Response::builder().header("trailer", "x-sum");
        Ok(response.body(chunks(stream::iter(frames.map(Ok)))).unwrap())
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let mut request = get("http://web/");
    request
        .headers_mut()
        .insert("te", "trailers".parse().unwrap());
    let reply = soon(mesh.http1().await.send(request)).await.unwrap();
    assert_eq!((reply.text(), reply.trailer("x-sum")), ("data", Some("42")));
}

#[tokio::test]
async fn trailers_of_a_request_pass() {
    let server = Server::start(|request: Request<Incoming>| async move {
        let body = request.into_body().collect().await.unwrap();
        let sum = body.trailers().and_then(|trailers| trailers.get("x-sum"));
        reply(sum.map_or("none".to_owned(), |sum| sum.to_str().unwrap().to_owned()))
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send(
        "POST / HTTP/1.1\r\nhost: web\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n",
    )
    .await;
    wire.send("4\r\ndata\r\n0\r\nx-sum: 42\r\n\r\n").await;
    assert_eq!(wire.response().await.1, "42");
}

#[tokio::test]
async fn an_upload_of_20_megabytes_arrives_whole() {
    let server = Server::start(|request: Request<Incoming>| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        reply(format!(
            "{} {}",
            body.len(),
            body.iter().map(|b| u64::from(*b)).sum::<u64>()
        ))
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let data = large();
    let sum: u64 = data.iter().map(|b| u64::from(*b)).sum();
    let request = request(Method::POST, "http://web/", body(data.clone()));
    let reply = soon(mesh.http1().await.send(request)).await.unwrap();
    assert_eq!(reply.text(), format!("{} {sum}", data.len()));
}

#[tokio::test]
async fn a_download_of_20_megabytes_arrives_whole() {
    let data = large();
    let sent = data.clone();
    let server = Server::start(move |_| {
        let sent = sent.clone();
        async { reply(sent) }
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let reply = soon(mesh.http1().await.get("http://web/")).await.unwrap();
    assert!(reply.body == data);
}

#[tokio::test]
async fn server_sent_events_arrive_one_by_one() {
    let (events, texts) = mpsc::channel(1);
    let texts = Arc::new(Mutex::new(Some(texts)));
    let server = Server::start(move |_| {
        let texts = texts.lock().take().unwrap();
        let response = Response::builder().header("content-type", "text/event-stream");
        async { Ok(response.body(from_channel(texts)).unwrap()) }
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let mut client = mesh.http1().await;
    let mut response = soon(client.start(get("http://web/"))).await.unwrap();
    for text in ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"] {
        // The next one is sent only after this one has arrived.
        events.send(text).await.unwrap();
        let frame = soon(response.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), text);
    }
    drop(events);
    assert!(soon(response.frame()).await.is_none());
}

#[tokio::test]
async fn an_answer_may_come_before_the_upload_has_ended() {
    let server = Server::start(|request: Request<Incoming>| async move {
        drop(request);
        Ok(Response::builder().status(413).body(empty()).unwrap())
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send("POST / HTTP/1.1\r\nhost: web\r\ncontent-length: 100000000\r\n\r\nbegin")
        .await;
    assert!(wire.head().await.starts_with("HTTP/1.1 413"));
}

#[tokio::test]
async fn a_client_that_expects_100_continue_is_told_to_go_on() {
    let server = Server::echo().await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send("POST / HTTP/1.1\r\nhost: web\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n")
        .await;
    assert!(wire.head().await.starts_with("HTTP/1.1 100"));
    wire.send("hello").await;
    let head = wire.head().await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

#[tokio::test]
async fn a_download_that_breaks_off_is_not_taken_for_whole() {
    let (pieces, texts) = mpsc::channel(1);
    let texts = Arc::new(Mutex::new(Some(texts)));
    let mut server = Server::start(move |_| {
        let texts = texts.lock().take().unwrap();
        async { Ok(Response::new(from_channel(texts))) }
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let mut client = mesh.http1().await;
    let mut response = soon(client.start(get("http://web/"))).await.unwrap();
    pieces.send("begin").await.unwrap();
    assert!(soon(response.frame()).await.unwrap().is_ok());
    server.stop().await;
    let end = soon(response.frame()).await;
    assert!(matches!(end, Some(Err(_))), "{end:?}");
}

#[tokio::test]
async fn a_slow_reader_slows_the_server_down() {
    // More than the sockets between server and client buffer.
    let sent = Arc::new(Mutex::new(0_usize));
    let counted = sent.clone();
    let server = Server::start(move |_| {
        let counted = counted.clone();
        let piece = Bytes::from(vec![0; 64 * 1024]);
        let pieces = stream::iter(0..4096).map(move |_| {
            *counted.lock() += piece.len();
            Ok(Frame::data(piece.clone()))
        });
        async { Ok(Response::new(chunks(pieces))) }
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let mut client = mesh.http1().await;
    let response = soon(client.start(get("http://web/"))).await.unwrap();
    // The server stops at some point without a reader: polled until the count stays the same.
    let mut last = usize::MAX;
    let stopped = eventually(SOON, "the server stops", || {
        let now = *sent.lock();
        let same = now == std::mem::replace(&mut last, now) && now > 0;
        async move { same.then_some(now) }
    });
    assert!(stopped.await < 128 << 20);
    assert!(mesh.proxy.rss() < 128 << 20, "{}", mesh.proxy.rss());
    let whole = soon(response.into_body().collect())
        .await
        .unwrap()
        .to_bytes();
    assert_eq!(whole.len(), 4096 * 64 * 1024);
}

fn large() -> Bytes {
    (0..20_u32 << 20)
        .map(|n| (n % 251) as u8)
        .collect::<Vec<_>>()
        .into()
}
