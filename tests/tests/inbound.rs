//! Peers that try to bypass the proxy's HTTP processing on the way to the application.

#![allow(clippy::unwrap_used, missing_docs)]

use http_body_util::BodyExt;
use hyper::body::Incoming;
use linkerd_tests::{
    SOON, Server, Tcp, Wire, eventually,
    netns::{POD, Pod, isolated},
    reply,
};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// An application that echoes all bytes after a head.
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
                "GET /",
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
fn a_method_without_an_end_is_no_way_around_http() {
    isolated("a_method_without_an_end_is_no_way_around_http", async {
        let _pod = Pod::start(|proxy| proxy).await;
        let application = mirror().await;
        let mut wire = Wire::connect(application.addr()).await;
        let method = "A".repeat(1_100);
        wire.send(format!(
            "{method} / HTTP/1.1\r\nhost: app\r\n{CLAIM}\r\n\r\n"
        ))
        .await;
        let (_, body) = wire.response().await;
        assert!(body.starts_with(&method), "{body}");
        assert!(!body.contains("l5d-client-id"), "{body}");
    });
}

#[test]
fn an_upload_that_is_cancelled_ends_its_stream_alone() {
    isolated("an_upload_that_is_cancelled_ends_its_stream_alone", async {
        let _pod = Pod::start(|proxy| proxy).await;
        let server = Server::builder().at(SocketAddr::from((POD, 0)));
        let after_the_body = |request: http::Request<Incoming>| async {
            let _ = request.into_body().collect().await;
            reply("hello")
        };
        let application = server.start(after_the_body).await;
        let socket = TcpStream::connect(application.addr()).await.unwrap();
        let (mut send, connection) = h2::client::handshake(socket).await.unwrap();
        tokio::spawn(connection);
        let request = || {
            let request = http::Request::post("http://web.example/");
            request
                .header("l5d-orig-proto", "HTTP/1.1")
                .body(())
                .unwrap()
        };
        let (_response, mut body) = send.send_request(request(), false).unwrap();
        body.send_data("begun".into(), false).unwrap();
        let arrived = || async { (application.connections() == 1).then_some(()) };
        eventually(SOON, "the request", arrived).await;
        body.send_reset(h2::Reason::CANCEL);
        for _ in 0..3 {
            send = send.ready().await.unwrap();
            let (response, _) = send.send_request(request(), true).unwrap();
            let response = tokio::time::timeout(SOON, response).await.unwrap();
            assert_eq!(response.unwrap().status(), 200);
        }
    });
}

#[test]
fn streams_of_an_http_2_connection_are_limited() {
    isolated("streams_of_an_http_2_connection_are_limited", async {
        let _pod = Pod::start(|proxy| proxy).await;
        let server = Server::builder().at(SocketAddr::from((POD, 0)));
        let application = server.start(|_| async { reply("hello") }).await;
        let socket = TcpStream::connect(application.addr()).await.unwrap();
        let (send, connection) = h2::client::handshake(socket).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::get("http://web.example/").body(()).unwrap();
        let mut send = send.ready().await.unwrap();
        let (response, _) = send.send_request(request, true).unwrap();
        tokio::time::timeout(SOON, response).await.unwrap().unwrap();
        assert_eq!(send.current_max_send_streams(), 10_000);
    });
}

#[test]
fn a_pause_in_a_request_line_is_no_way_around_http() {
    isolated("a_pause_in_a_request_line_is_no_way_around_http", async {
        let timeout = "LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT";
        let pod = Pod::start(|proxy| proxy.env(timeout, "300ms")).await;
        let application = parrot().await;
        for begun in ["GET /", "GET / HT", "\r\nPOST http://app/"] {
            let mut wire = Wire::connect(application.addr()).await;
            wire.send(begun).await;
            let all = wire.rest().await;
            assert!(all.starts_with("HTTP/1.1 408"), "{begun:?}: {all}");
        }
        assert_eq!(application.connections(), 0);
        // The protocol of a silent client may be one in which the server speaks first.
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

/// An application that echoes one request with a chunked body.
async fn mirror_of_chunks() -> Tcp {
    Tcp::start_at(SocketAddr::from((POD, 0)), |mut socket| async move {
        let mut read = Vec::new();
        while !read.windows(5).any(|end| end == b"0\r\nx-") && !read.ends_with(b"0\r\n\r\n") {
            if !matches!(socket.read_buf(&mut read).await, Ok(1..)) {
                return;
            }
        }
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", read.len());
        let _ = socket.write_all(&[head.as_bytes(), &read].concat()).await;
    })
    .await
}

#[test]
fn an_identity_claimed_in_trailers_does_not_reach_the_application() {
    isolated(
        "an_identity_claimed_in_trailers_does_not_reach_the_application",
        async {
            let _pod = Pod::start(|proxy| proxy).await;
            let application = mirror_of_chunks().await;
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
fn addresses_claimed_in_trailers_do_not_reach_the_application_that_asks_for_them() {
    isolated(
        "addresses_claimed_in_trailers_do_not_reach_the_application_that_asks_for_them",
        async {
            let _pod = Pod::start(|proxy| proxy.env(FORWARDED, "forwarded")).await;
            let application = mirror_of_chunks().await;
            let mut wire = Wire::connect(application.addr()).await;
            let claims = "forwarded: for=192.0.2.1\r\nx-forwarded-for: 192.0.2.1";
            wire.send(format!(
                "POST / HTTP/1.1\r\nhost: app\r\nte: trailers\r\n\
                 trailer: forwarded, x-forwarded-for, x-sum\r\ntransfer-encoding: chunked\r\n\
                 {claims}\r\n\r\n2\r\nhi\r\n0\r\n{claims}\r\nx-sum: 1\r\n\r\n"
            ))
            .await;
            let (_, seen) = wire.response().await;
            assert!(!seen.contains("192.0.2.1"), "{seen}");
            assert_eq!(seen.matches("forwarded: for=10.77.").count(), 1, "{seen}");
        },
    );
}

const FORWARDED: &str = "LINKERD_PROXY_INBOUND_FORWARDED_HEADER";

/// An application that answers 200 to any method, and reads further requests. It echoes each of them.
async fn mirror() -> Tcp {
    Tcp::start_at(SocketAddr::from((POD, 0)), |mut socket| async move {
        let mut read = Vec::new();
        loop {
            let end = loop {
                let end = read.windows(4).position(|end| end == b"\r\n\r\n");
                if let Some(end) = end {
                    break end + 4;
                }
                if !matches!(socket.read_buf(&mut read).await, Ok(1..)) {
                    return;
                }
            };
            let request: Vec<_> = read.drain(..end).collect();
            let answer = match request.starts_with(b"CONNECT") {
                true => b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
                false => {
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {end}\r\n\r\n");
                    [head.as_bytes(), &request].concat()
                }
            };
            if socket.write_all(&answer).await.is_err() {
                return;
            }
        }
    })
    .await
}

#[test]
fn a_client_that_waits_until_it_counts_as_silent_is_no_way_around_http() {
    isolated(
        "a_client_that_waits_until_it_counts_as_silent_is_no_way_around_http",
        async {
            let timeout = "LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT";
            let _pod = Pod::start(|proxy| proxy.env(timeout, "300ms")).await;
            let application = mirror().await;
            let mut wire = Wire::connect(application.addr()).await;
            // The proxy lets the application speak first.
            eventually(SOON, "the application is dialled", || async {
                (application.connections() == 1).then_some(())
            })
            .await;
            wire.send(format!(
                "GET / HTTP/1.1\r\nhost: app\r\n{CLAIM}\r\nx-kept: 1\r\n\r\n"
            ))
            .await;
            let (_, seen) = wire.response().await;
            assert!(
                seen.contains("x-kept: 1") && !seen.contains("admin.prod"),
                "{seen}"
            );
            // Protocols other than HTTP continue on the dialled connection.
            let opaque = parrot().await;
            let mut wire = Wire::connect(opaque.addr()).await;
            wire.until(b"\r\n\r\n").await;
            wire.send("PING\r\n").await;
            assert!(wire.until(b"PING\r\n").await.ends_with("PING\r\n"));
            assert_eq!(opaque.connections(), 1);
        },
    );
}

#[test]
fn an_identity_claimed_behind_a_connect_does_not_reach_the_application() {
    isolated(
        "an_identity_claimed_behind_a_connect_does_not_reach_the_application",
        async {
            let _pod = Pod::start(|proxy| proxy).await;
            let application = mirror().await;
            let mut wire = Wire::tunnel(application.addr(), "app:80").await;
            let request =
                |path| format!("GET {path} HTTP/1.1\r\nhost: app\r\n{CLAIM}\r\nx-kept: 1\r\n\r\n");
            let paths = ["/one", "/two", "/three", "/four"];
            wire.send(paths.map(request).concat()).await;
            for path in paths {
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
fn an_address_claimed_behind_a_connect_is_replaced_by_the_clients_own() {
    isolated(
        "an_address_claimed_behind_a_connect_is_replaced_by_the_clients_own",
        async {
            let _pod = Pod::start(|proxy| proxy.env(FORWARDED, "x-forwarded-for")).await;
            let application = mirror().await;
            let mut wire = Wire::tunnel(application.addr(), "app:80").await;
            let claims = "forwarded: for=192.0.2.1\r\nx-forwarded-for: 192.0.2.1";
            wire.send(format!("GET / HTTP/1.1\r\nhost: app\r\n{claims}\r\n\r\n"))
                .await;
            let (_, seen) = wire.response().await;
            assert!(!seen.contains("192.0.2.1"), "{seen}");
            assert_eq!(seen.matches("x-forwarded-for: 10.77.").count(), 1, "{seen}");
        },
    );
}

#[test]
fn a_silent_client_of_an_application_that_is_down_takes_nobody_the_answer() {
    isolated(
        "a_silent_client_of_an_application_that_is_down_takes_nobody_the_answer",
        async {
            let timeout = "LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT";
            let _pod = Pod::start(|proxy| proxy.env(timeout, "300ms")).await;
            let application = mirror().await;
            let addr = application.addr();
            drop(application);
            let mut silent = Wire::connect(addr).await;
            assert_eq!(silent.rest().await, "");
            let mut wire = Wire::connect(addr).await;
            wire.send("GET / HTTP/1.1\r\nhost: app\r\n\r\n").await;
            let (head, _) = wire.response().await;
            assert!(head.starts_with("HTTP/1.1 502"), "{head}");
        },
    );
}

#[test]
fn a_server_that_speaks_first_in_a_tunnel_is_heard_at_once() {
    isolated(
        "a_server_that_speaks_first_in_a_tunnel_is_heard_at_once",
        async {
            let timeout = "LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT";
            let _pod = Pod::start(|proxy| proxy.env(timeout, "600s")).await;
            let application = Tcp::start_at(SocketAddr::from((POD, 0)), |mut socket| async move {
                let mut read = Vec::new();
                while !read.ends_with(b"\r\n\r\n") {
                    socket.read_buf(&mut read).await.unwrap();
                }
                let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
                let _ = socket.write_all(b"220 hello\r\n").await;
                read.clear();
                while !read.ends_with(b"\r\n") {
                    socket.read_buf(&mut read).await.unwrap();
                }
                let _ = socket.write_all(b"221 bye\r\n").await;
            })
            .await;
            let mut wire = Wire::tunnel(application.addr(), "app:25").await;
            assert_eq!(wire.until(b"\r\n").await, "220 hello\r\n");
            wire.send("QUIT\r\n").await;
            assert_eq!(wire.until(b"\r\n").await, "221 bye\r\n");
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

#[test]
fn a_host_that_is_no_name_is_refused() {
    isolated("a_host_that_is_no_name_is_refused", async {
        let _pod = Pod::start(|proxy| proxy).await;
        let application = mirror().await;
        for (line, host, status) in [
            ("/", "app.example:80", "200"),
            ("/", "[::1]:80", "200"),
            ("http://app.example/", "app.example", "200"),
            ("/", "[::1].evil", "400"),
            ("/", "a,b", "400"),
            ("/", "a%20b", "400"),
            ("/", "a!b", "400"),
            ("http://[::1].evil/", "app", "400"),
            ("http://a,b/", "app", "400"),
        ] {
            let mut wire = Wire::connect(application.addr()).await;
            wire.send(format!("GET {line} HTTP/1.1\r\nhost: {host}\r\n\r\n"))
                .await;
            let head = wire.head().await;
            assert_eq!(&head[9..12], status, "{line} {host}: {head}");
        }
    });
}
