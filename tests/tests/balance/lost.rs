//! Requests that are lost with their connection before any byte of an answer.

use http::Method;
use linkerd_tests::{Fail, Mesh, Reply, Server, body, reply, request, soon};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

/// A server that closes the connection on its first request.
async fn loses_one() -> Server {
    let count = Arc::new(AtomicUsize::new(0));
    Server::start(move |request| {
        let first = count.fetch_add(1, SeqCst) == 0;
        async move {
            use http_body_util::BodyExt;
            let body = request
                .into_body()
                .collect()
                .await
                .map_err(|_| Fail::Close)?
                .to_bytes();
            match first {
                true => Err(Fail::Close),
                false => reply(format!("{} bytes", body.len())),
            }
        }
    })
    .await
}

async fn send(method: Method, size: usize) -> (Server, Reply) {
    let server = loses_one().await;
    let mesh = Mesh::with(&server).await;
    let mut client = mesh.http1().await;
    let request = request(method, "http://web/", body(vec![7; size]));
    let reply = soon(client.send(request)).await.unwrap();
    (server, reply)
}

#[tokio::test]
async fn a_get_is_sent_again() {
    let (server, reply) = send(Method::GET, 0).await;
    assert_eq!((reply.status.as_u16(), server.requests()), (200, 2));
}

#[tokio::test]
async fn a_put_with_a_small_body_is_sent_again_with_its_body() {
    let (server, reply) = send(Method::PUT, 1000).await;
    assert_eq!((reply.status.as_u16(), reply.text()), (200, "1000 bytes"));
    assert_eq!(server.requests(), 2);
}

#[tokio::test]
async fn a_put_with_a_large_body_is_not_sent_again() {
    let (server, reply) = send(Method::PUT, 1_000_000).await;
    assert_eq!((reply.status.as_u16(), server.requests()), (502, 1));
}

#[tokio::test]
async fn a_post_is_not_sent_again() {
    let (server, reply) = send(Method::POST, 10).await;
    assert_eq!((reply.status.as_u16(), server.requests()), (502, 1));
    let error = reply.header("proxy-status").unwrap();
    assert!(error.contains("connection_lost"), "{error}");
}

#[tokio::test]
async fn a_get_that_is_lost_again_and_again_fails() {
    let server = Server::start(|_| async { Err(Fail::Close) }).await;
    let mesh = Mesh::with(&server).await;
    let reply = mesh.get("http://web/").await;
    assert_eq!((reply.status.as_u16(), server.requests()), (502, 2));
}

#[tokio::test]
async fn a_get_over_http_2_is_sent_again() {
    let server = loses_one().await;
    let mesh = Mesh::with(&server).await;
    let reply = soon(mesh.http2().await.get("http://web/")).await.unwrap();
    assert_eq!((reply.status.as_u16(), server.requests()), (200, 2));
}

#[tokio::test]
async fn a_post_over_http_2_is_not_sent_again() {
    let server = loses_one().await;
    let mesh = Mesh::with(&server).await;
    let request = request(Method::POST, "http://web/", body("data"));
    let reply = soon(mesh.http2().await.send(request)).await.unwrap();
    assert_eq!(
        (reply.status.as_u16(), server.requests()),
        (502, 1),
        "{reply:?}"
    );
}
