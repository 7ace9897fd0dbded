//! Transparency between an application and its client: with a proxy in the application's pod, and with a second proxy in the
//! client's pod.

#![allow(clippy::unwrap_used, missing_docs)]

use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use linkerd_control::{Endpoint, EndpointSet};
use linkerd_tests::{
    Mesh, Server, Tcp, Wire,
    netns::{POD, Pod, isolated},
    reply,
};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

async fn read_head(socket: &mut TcpStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        if !matches!(socket.read_buf(&mut read).await, Ok(1..)) {
            break;
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

/// An application that answers with these bytes, and ends.
async fn answers(bytes: &'static [u8]) -> Tcp {
    Tcp::start_at(
        SocketAddr::from((POD, 0)),
        move |mut socket: TcpStream| async move {
            read_head(&mut socket).await;
            let _ = socket.write_all(bytes).await;
            let _ = socket.shutdown().await;
        },
    )
    .await
}

#[test]
fn an_application_has_a_connection_for_each_host_and_one_alone_for_no_host() {
    isolated(
        "an_application_has_a_connection_for_each_host_and_one_alone_for_no_host",
        async {
            let _pod = Pod::start(|proxy| proxy).await;
            let server = Server::builder().at((POD, 0).into());
            let application = server.start(|_| async { reply("hello") }).await;
            let mut wire = Wire::connect(application.addr()).await;
            for (host, connections) in [
                ("a.test", 1),
                ("a.test", 1),
                ("b.test", 2),
                ("a.test", 2),
                ("", 3),
                ("", 4),
                ("b.test", 4),
            ] {
                wire.send(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n"))
                    .await;
                let (head, body) = wire.response().await;
                assert!(head.starts_with("HTTP/1.1 200"), "{head}");
                assert_eq!(body, "hello");
                assert_eq!(application.connections(), connections, "{host:?}");
            }
        },
    );
}

#[test]
fn an_answer_that_ends_with_its_connection_does_so_through_one_proxy_and_through_two() {
    isolated(
        "an_answer_that_ends_with_its_connection_does_so_through_one_proxy_and_through_two",
        async {
            let _pod = Pod::start(|proxy| proxy).await;
            let application = answers(b"HTTP/1.0 200 OK\r\n\r\nuntil the end").await;
            let mesh = Mesh::start().await;
            mesh.service("web", [])
                .set(EndpointSet::new([Endpoint::new(application.addr()).h2()]));
            let mut one = Wire::connect(application.addr()).await;
            one.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
            let mut two = mesh.wire().await;
            two.send("GET http://web/ HTTP/1.1\r\nhost: web\r\n\r\n")
                .await;
            for wire in [&mut one, &mut two] {
                let all = wire.rest().await;
                let (head, body) = all.split_once("\r\n\r\n").unwrap();
                assert!(head.contains(" 200 OK\r\n"), "{all}");
                assert!(!head.contains("transfer-encoding"), "{all}");
                assert!(!head.contains("content-length"), "{all}");
                assert_eq!(body, "until the end");
            }
        },
    );
}

#[test]
fn a_body_of_a_method_that_has_none_by_itself_arrives_through_two_proxies() {
    isolated(
        "a_body_of_a_method_that_has_none_by_itself_arrives_through_two_proxies",
        async {
            let _pod = Pod::start(|proxy| proxy).await;
            let echo = |request: Request<Incoming>| async {
                let body = request.into_body().collect().await.unwrap();
                reply(body.to_bytes())
            };
            let server = Server::builder().at((POD, 0).into());
            let application = server.start(echo).await;
            let mesh = Mesh::start().await;
            mesh.service("web", [])
                .set(EndpointSet::new([Endpoint::new(application.addr()).h2()]));
            let mut wire = mesh.wire().await;
            for (method, framing, sent) in [
                (
                    "GET",
                    "transfer-encoding: chunked",
                    "5\r\nhello\r\n0\r\n\r\n",
                ),
                ("GET", "content-length: 5", "hello"),
                (
                    "POST",
                    "transfer-encoding: chunked",
                    "5\r\nhello\r\n0\r\n\r\n",
                ),
            ] {
                let head = format!("{method} http://web/ HTTP/1.1\r\nhost: web\r\n{framing}");
                wire.send(format!("{head}\r\n\r\n{sent}")).await;
                let (head, body) = wire.response().await;
                assert!(head.starts_with("HTTP/1.1 200"), "{head}");
                assert_eq!(body, "hello", "{method} {framing}");
            }
        },
    );
}

#[test]
fn what_a_reverse_proxy_was_told_by_its_own_proxy_is_not_told_by_this_one() {
    isolated(
        "what_a_reverse_proxy_was_told_by_its_own_proxy_is_not_told_by_this_one",
        async {
            let _pod = Pod::start(|proxy| proxy).await;
            let application = answers(
                b"HTTP/1.1 502 Bad Gateway\r\nl5d-proxy-error: connect refused\r\nl5d-proxy-connection: close\r\n\
                  l5d-orig-proto: HTTP/1.0\r\nproxy-status: linkerd-proxy; error=connection_refused; \
                  details=\"connect_refused\"; side=outbound; origin=endpoint; phase=connect\r\n\
                  content-length: 0\r\n\r\n",
            )
            .await;
            let mut wire = Wire::connect(application.addr()).await;
            wire.send("POST / HTTP/1.1\r\nhost: web\r\ncontent-length: 0\r\n\r\n")
                .await;
            let head = wire.until(b"\r\n\r\n").await;
            assert!(head.starts_with("HTTP/1.1 502"), "{head}");
            assert!(!head.contains("l5d-"), "{head}");
            assert!(!head.contains("proxy-status"), "{head}");
        },
    );
}
