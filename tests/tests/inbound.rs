//! A peer that tries to get past the proxy's HTTP processing on its way to the application.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_tests::{
    SOON, Server, Tcp, Wire,
    netns::{POD, Pod, isolated},
    reply,
};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// An application that sends back all that it gets, after a head.
async fn parrot() -> Tcp {
    Tcp::start_at(
        SocketAddr::from((POD, 0)),
        |mut socket: TcpStream| async move {
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            let mut buf = [0; 4096];
            while let Ok(count @ 1..) = socket.read(&mut buf).await {
                if socket.write_all(&buf[..count]).await.is_err() {
                    return;
                }
            }
        },
    )
    .await
}

const CLAIM: &str = "l5d-client-id: admin.prod.serviceaccount.identity.linkerd.cluster.local";

#[test]
fn a_line_that_resembles_a_request_is_no_way_around_http() {
    isolated(
        "a_line_that_resembles_a_request_is_no_way_around_http",
        async {
            let _pod = Pod::start(|proxy| proxy).await;
            let application = parrot().await;
            for line in [
                "GET  / HTTP/1.1",
                "GET\t/\tHTTP/1.1",
                "get / http/1.1",
                "GET / HTTP/1.7",
                " GET / HTTP/1.1 x",
            ] {
                let mut wire = Wire::connect(application.addr()).await;
                wire.send(format!("{line}\r\nhost: app\r\n{CLAIM}\r\n\r\n"))
                    .await;
                let all = wire.rest().await;
                assert!(!all.contains("l5d-client-id"), "{line}: {all}");
                assert!(all.starts_with("HTTP/1.1 400"), "{line}: {all}");
            }
            assert_eq!(application.connections(), 0);
        },
    );
}

#[test]
fn a_pause_in_a_request_line_is_no_way_around_http() {
    isolated("a_pause_in_a_request_line_is_no_way_around_http", async {
        let timeout = "LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT";
        let pod = Pod::start(|proxy| proxy.env(timeout, "300ms")).await;
        let application = parrot().await;
        for begun in ["G", "GET / HT", "GET / HTTP/1.1\r", "get "] {
            let mut wire = Wire::connect(application.addr()).await;
            wire.send(begun).await;
            let all = wire.rest().await;
            assert!(all.starts_with("HTTP/1.1 408"), "{begun:?}: {all}");
        }
        assert_eq!(application.connections(), 0);
        // A client that says nothing may be of a protocol in which the server speaks first.
        let mut wire = Wire::connect(application.addr()).await;
        assert_eq!(wire.until(b"\r\n\r\n").await, "HTTP/1.1 200 OK\r\n\r\n");
        drop(pod);
    });
}

#[test]
fn an_opaque_port_stays_opaque() {
    isolated("an_opaque_port_stays_opaque", async {
        let application = parrot().await;
        let port = application.addr().port();
        let opaque = "LINKERD2_PROXY_INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION";
        let _pod = Pod::start(|proxy| proxy.env(opaque, port)).await;
        let mut wire = Wire::connect(application.addr()).await;
        wire.send("get  / http/1.1\r\n\r\n").await;
        let all = wire.until(b"http/1.1\r\n\r\n").await;
        assert!(all.ends_with("get  / http/1.1\r\n\r\n"), "{all}");
    });
}

#[test]
fn an_identity_claimed_in_trailers_does_not_reach_the_application() {
    isolated(
        "an_identity_claimed_in_trailers_does_not_reach_the_application",
        async {
            let _pod = Pod::start(|proxy| proxy).await;
            let application = Tcp::start_at(SocketAddr::from((POD, 0)), |mut socket| async move {
                let mut read = Vec::new();
                while !read.windows(5).any(|end| end == b"0\r\nx-") && !read.ends_with(b"0\r\n\r\n")
                {
                    if !matches!(socket.read_buf(&mut read).await, Ok(1..)) {
                        return;
                    }
                }
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", read.len());
                let _ = socket.write_all(&[head.as_bytes(), &read].concat()).await;
            })
            .await;
            let mut wire = Wire::connect(application.addr()).await;
            wire.send(format!(
                "POST / HTTP/1.1\r\nhost: app\r\nte: trailers\r\ntrailer: l5d-client-id, x-sum\r\n\
             transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n{CLAIM}\r\nx-sum: 1\r\n\r\n"
            ))
            .await;
            let (_, seen) = wire.response().await;
            assert!(!seen.contains("admin.prod"), "{seen}");
        },
    );
}

#[test]
fn an_identity_claimed_behind_a_connect_does_not_reach_the_application() {
    isolated(
        "an_identity_claimed_behind_a_connect_does_not_reach_the_application",
        async {
            let _pod = Pod::start(|proxy| proxy).await;
            // It answers 200 to any method, and goes on to read requests.
            let application = Tcp::start_at(SocketAddr::from((POD, 0)), |mut socket| async move {
                let mut read = Vec::new();
                loop {
                    while !read.windows(4).any(|end| end == b"\r\n\r\n") {
                        if !matches!(socket.read_buf(&mut read).await, Ok(1..)) {
                            return;
                        }
                    }
                    let head = match read.starts_with(b"CONNECT") {
                        true => "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
                        false => {
                            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", read.len())
                        }
                    };
                    let body = if read.starts_with(b"CONNECT") {
                        &[][..]
                    } else {
                        &read
                    };
                    let _ = socket.write_all(&[head.as_bytes(), body].concat()).await;
                    read.clear();
                }
            })
            .await;
            let mut wire = Wire::tunnel(application.addr(), "app:80").await;
            for path in ["/one", "/two"] {
                wire.send(format!(
                    "GET {path} HTTP/1.1\r\nhost: app\r\n{CLAIM}\r\nx-kept: 1\r\n\r\n"
                ))
                .await;
                let (_, seen) = wire.response().await;
                assert!(seen.starts_with(&format!("GET {path} ")), "{seen}");
                assert!(
                    seen.contains("x-kept: 1") && !seen.contains("admin.prod"),
                    "{seen}"
                );
            }
        },
    );
}

#[test]
fn http_2_that_becomes_http_1_has_the_host_of_its_authority() {
    isolated(
        "http_2_that_becomes_http_1_has_the_host_of_its_authority",
        async {
            let _pod = Pod::start(|proxy| proxy).await;
            let application = Server::builder()
                .at(SocketAddr::from((POD, 0)))
                .start(|_| async { reply("hello") })
                .await;
            let socket = TcpStream::connect(application.addr()).await.unwrap();
            let (send, connection) = h2::client::handshake(socket).await.unwrap();
            tokio::spawn(connection);
            let request = http::Request::get("http://web.example/")
                .header("l5d-orig-proto", "HTTP/1.1")
                .header("host", "admin.example");
            let request = request.body(()).unwrap();
            let mut send = send.ready().await.unwrap();
            let (response, _) = send.send_request(request, true).unwrap();
            let response = tokio::time::timeout(SOON, response).await.unwrap().unwrap();
            assert_eq!(response.status(), 200);
            assert_eq!(application.last().headers["host"], "web.example");
        },
    );
}
