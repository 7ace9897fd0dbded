//! Versions, targets, methods and headers.

use http::Method;
use linkerd_tests::{Mesh, SOON, Server, Wire, empty, eventually, get, reply, request, soon};

#[tokio::test]
async fn a_get_is_answered_and_the_connection_is_kept() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let mut client = mesh.http1().await;
    for _ in 0..3 {
        let reply = soon(client.get("http://web/a?b")).await.unwrap();
        assert_eq!((reply.status.as_u16(), reply.text()), (200, "hello"));
        assert!(reply.header("l5d-proxy-error").is_none());
    }
    assert!(client.is_open());
    assert_eq!((server.requests(), server.connections()), (3, 1));
    let seen = server.last();
    assert_eq!(seen.uri, "/a?b");
    assert_eq!(seen.headers["host"], "web");
}

#[tokio::test]
async fn a_client_that_knows_of_no_proxy_is_routed_by_its_host() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let mut client = mesh.http1().await.host_form();
    let reply = soon(client.get("http://web/a?b")).await.unwrap();
    assert_eq!(reply.text(), "hello");
    assert_eq!(server.last().uri, "/a?b");
    assert_eq!(server.last().headers["host"], "web");
}

#[tokio::test]
async fn the_absolute_target_overrules_the_host_header() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send("GET http://web/x HTTP/1.1\r\nhost: other\r\n\r\n")
        .await;
    assert!(wire.head().await.starts_with("HTTP/1.1 200"));
    assert_eq!(server.last().headers["host"], "web");
}

#[tokio::test]
async fn an_absolute_target_without_a_host_header_gets_one() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    // Within a tunnel the form of the target is unchanged.
    let mut wire = Wire::tunnel(mesh.proxy.outbound, "web:80").await;
    wire.send("GET http://web.example/a HTTP/1.1\r\n\r\n").await;
    let (head, _) = wire.response().await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let seen = server.last();
    assert_eq!(seen.uri, "http://web.example/a");
    assert_eq!(seen.headers["host"], "web.example");
}

#[tokio::test]
async fn one_connection_reaches_different_services() {
    let (web, shop) = (Server::says("web").await, Server::says("shop").await);
    let mesh = Mesh::with(&web).await;
    mesh.service("shop", [shop.addr()]);
    let mut client = mesh.http1().await;
    for name in ["web", "shop", "web", "shop"] {
        let reply = soon(client.get(&format!("http://{name}/"))).await.unwrap();
        assert_eq!(reply.text(), name);
    }
}

#[tokio::test]
async fn http_1_0_is_answered_in_kind() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send("GET / HTTP/1.0\r\nhost: web\r\n\r\n").await;
    let response = wire.rest().await;
    assert!(response.starts_with("HTTP/1.0 200 OK\r\n"), "{response}");
    assert!(response.ends_with("\r\n\r\nhello"), "{response}");
}

#[tokio::test]
async fn http_1_0_with_keep_alive_is_not_left_waiting() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send("GET / HTTP/1.0\r\nhost: web\r\nconnection: keep-alive\r\n\r\n")
        .await;
    let (head, body) = wire.response().await;
    assert_eq!(body, "hello");
    // Either the connection stays and the response announces it, or it ends.
    if !head.to_lowercase().contains("connection: keep-alive") {
        assert_eq!(wire.rest().await, "");
    }
}

#[tokio::test]
async fn a_body_of_unknown_length_is_delimited_for_http_1_0_by_the_end_of_the_connection() {
    let server = Server::start(|request: http::Request<hyper::body::Incoming>| async move {
        use http_body_util::BodyExt;
        // An echoed body has no known length.
        let (sender, texts) = tokio::sync::mpsc::channel(4);
        drop(request.into_body().collect().await);
        sender.send("one").await.unwrap();
        sender.send("two").await.unwrap();
        Ok(http::Response::new(linkerd_tests::from_channel(texts)))
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send("GET / HTTP/1.0\r\nhost: web\r\n\r\n").await;
    let response = wire.rest().await;
    assert!(response.ends_with("\r\n\r\nonetwo"), "{response}");
    assert!(!response.to_lowercase().contains("chunked"), "{response}");
}

#[tokio::test]
async fn connection_close_is_the_matter_of_each_hop() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    for _ in 0..2 {
        let mut wire = mesh.wire().await;
        wire.send("GET / HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n")
            .await;
        let response = wire.rest().await;
        assert!(
            response.to_lowercase().contains("connection: close"),
            "{response}"
        );
        assert!(response.ends_with("hello"), "{response}");
    }
    assert_eq!(server.connections(), 1, "the server's connection is kept");
}

#[tokio::test]
async fn a_head_has_headers_and_no_body() {
    let server = Server::start(|_| async { reply("a body that a GET would have") }).await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send("HEAD / HTTP/1.1\r\nhost: web\r\n\r\n").await;
    let head = wire.head().await;
    assert!(head.to_lowercase().contains("content-length: 28"), "{head}");
    // The next bytes are the next response.
    wire.send("HEAD / HTTP/1.1\r\nhost: web\r\n\r\n").await;
    assert!(wire.head().await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn statuses_without_a_body_pass() {
    for status in [204, 304] {
        let server = Server::start(move |_| async move {
            Ok(http::Response::builder()
                .status(status)
                .body(empty())
                .unwrap())
        })
        .await;
        let mesh = Mesh::with(&server).await;
        let mut client = mesh.http1().await;
        for _ in 0..2 {
            let reply = soon(client.get("http://web/")).await.unwrap();
            assert_eq!(reply.status, status);
            assert!(reply.body.is_empty());
        }
    }
}

#[tokio::test]
async fn every_method_passes() {
    let server = Server::echo().await;
    let mesh = Mesh::with(&server).await;
    let mut client = mesh.http1().await;
    for method in [
        "GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PURGE",
    ] {
        let method: Method = method.parse().unwrap();
        let reply = soon(client.send(request(method.clone(), "http://web/", empty()))).await;
        assert_eq!(reply.unwrap().status, 200, "{method}");
        assert_eq!(server.last().method, method);
    }
}

#[tokio::test]
async fn headers_of_the_connection_stay_with_it() {
    let server = Server::start(|_| async {
        let response = http::Response::builder()
            .header("connection", "x-hop, keep-alive")
            .header("x-hop", "server")
            .header("keep-alive", "timeout=5")
            .header("x-end", "server");
        Ok(response.body(empty()).unwrap())
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let mut request = get("http://web/");
    for (name, value) in [
        ("connection", "x-hop, keep-alive"),
        ("x-hop", "client"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("x-end", "client"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let reply = soon(mesh.http1().await.send(request)).await.unwrap();
    let seen = server.last().headers;
    for name in ["x-hop", "keep-alive", "proxy-connection"] {
        assert!(!seen.contains_key(name), "{name} reached the server");
        assert!(reply.header(name).is_none(), "{name} reached the client");
    }
    assert_eq!(seen["x-end"], "client");
    assert_eq!(reply.header("x-end"), Some("server"));
}

#[tokio::test]
async fn headers_with_bytes_beyond_ascii_and_repeated_ones_pass() {
    let server = Server::start(|request: http::Request<hyper::body::Incoming>| async move {
        let mut response = http::Response::new(empty());
        for value in request.headers().get_all("x-name") {
            response.headers_mut().append("x-name", value.clone());
        }
        Ok(response)
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send(b"GET / HTTP/1.1\r\nhost: web\r\nx-name: caf\xc3\xa9\r\nX-Name: two\r\n\r\n")
        .await;
    let head = wire.head().await;
    assert!(head.contains("x-name: café\r\nx-name: two"), "{head}");
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    let server = Server::start(|request: http::Request<hyper::body::Incoming>| async move {
        reply(request.uri().path().to_owned())
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    let requests = (0..20).map(|n| format!("GET /{n} HTTP/1.1\r\nhost: web\r\n\r\n"));
    wire.send(requests.collect::<String>()).await;
    for n in 0..20 {
        assert_eq!(wire.response().await.1, format!("/{n}"));
    }
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_request_along() {
    let server = Server::start(|_| std::future::pending()).await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
    let in_flight = |count| {
        let server = &server;
        async move { (server.in_flight() == count).then_some(()) }
    };
    eventually(SOON, "the request arrives", || in_flight(1)).await;
    drop(wire);
    eventually(SOON, "the request is given up", || in_flight(0)).await;
}

#[tokio::test]
async fn bytes_that_come_one_by_one_make_a_request() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let mut wire: Wire = mesh.wire().await;
    for byte in b"GET / HTTP/1.1\r\nhost: web\r\n\r\n" {
        wire.send([*byte]).await;
    }
    assert_eq!(wire.response().await.1, "hello");
}

/// The characters that a target must not have by its grammar (RFC 3986), and that clients send: `curl 'web/?query=up{job="x"}'`. The
/// table is that of docs/operations.md.
#[tokio::test]
async fn a_target_passes_as_it_came_or_is_refused_as_malformed() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    for target in [
        "/{a}|[b]\\c^d\"e",
        "/?q={a}|[b]\\c^d`e",
        "/api/v1/query?query=up{job=%22x%22}",
        "/\u{e4}?q=\u{e4}",
        "/%7Ba%7d?%22=%3c",
        "//a//b/../c;d=e?f=g?h",
    ] {
        let mut wire = mesh.wire().await;
        wire.send(format!("GET {target} HTTP/1.1\r\nhost: web\r\n\r\n"))
            .await;
        let (head, _) = wire.response().await;
        assert!(head.starts_with("HTTP/1.1 200"), "{target}: {head}");
        let seen = server.last().uri;
        let seen = seen.path_and_query().unwrap();
        assert_eq!(seen.as_str(), target);
    }
    for target in ["/?query=up{job=\"x\"}", "/?q=<a>", "/<a>", "/`a"] {
        let mut wire = mesh.wire().await;
        wire.send(format!("GET {target} HTTP/1.1\r\nhost: web\r\n\r\n"))
            .await;
        let head = wire.head().await;
        assert!(head.starts_with("HTTP/1.1 400"), "{target}: {head}");
        assert!(head.contains("malformed_request"), "{head}");
        assert!(head.contains("percent-encoded"), "{head}");
    }
}
