//! Endpoints that cannot be reached, or respond with errors.

use crate::Expect;
use http::Method;
use linkerd_control::{Policy, Route, RouteRetry, RouteRule, RouteTimeouts};
use linkerd_tests::{
    Fail, Mesh, SOON, Server, Tcp, blackhole, body, eventually, refused, request, reset_code, soon,
};
use std::time::Duration;

#[tokio::test]
async fn a_connection_that_is_refused() {
    let (addr, _guard) = refused();
    let mesh = Mesh::start().await;
    mesh.policy("web").set(Policy::forward(addr));
    let expect = Expect {
        status: 502,
        reason: "connect_refused",
        text: "Connection refused (os error 111)",
        closes: true,
    };
    let reply = mesh.get("http://web/").await;
    expect.check(&mesh, &reply).await;
    let error = reply.header("l5d-proxy-error").unwrap();
    assert!(error.contains(&addr.to_string()), "{error}");
}

#[tokio::test]
async fn a_limit_that_passes_while_the_only_endpoint_refuses_connections() {
    let (addr, _guard) = refused();
    let limit = Duration::from_millis(500);
    let request = RouteRule::new().timeouts(RouteTimeouts::new().request(limit));
    // The attempt is given up for another one, which waits as well.
    let retry = RouteRetry::new(1).status(500..=599).timeout(limit / 4);
    for rule in [request.clone(), request.retry(retry)] {
        let mesh = Mesh::start().await;
        mesh.service("web", [addr]);
        let route = Route::new("main").rule(rule);
        mesh.policy("web")
            .set(Policy::balance("web", 80).route(route));
        for http2 in [false, true] {
            let reply = match http2 {
                false => soon(mesh.http1().await.get("http://web/")).await.unwrap(),
                true => soon(mesh.http2().await.get("http://web/")).await.unwrap(),
            };
            assert_eq!(reply.status, 504);
            let error = reply.header("l5d-proxy-error").unwrap();
            assert!(
                error.contains("the request timeout of the route has passed"),
                "{error}"
            );
            let why = format!("endpoint {addr}: Connection refused (os error 111)");
            assert!(error.ends_with(&why), "{error}");
            let status = reply.header("proxy-status").unwrap();
            for part in [
                "details=\"request_timeout\"".to_owned(),
                "origin=network".to_owned(),
                format!("next-hop=\"{addr}\""),
                "Are the pods listening on the port?".to_owned(),
            ] {
                assert!(status.contains(&part), "{part}: {status}");
            }
        }
        let state = mesh.proxy.admin.state().await;
        let last = &state["failures"]["last"][0];
        assert_eq!(last["endpoint"], addr.to_string());
        assert_eq!(last["origin"], "network");
        // The series is that of every request timeout.
        let labels = [("reason", "request_timeout"), ("origin", "endpoint")];
        mesh.proxy
            .metric_reaches("proxy_failures_total", &labels, 2.0)
            .await;
    }
}

#[tokio::test]
async fn a_connection_that_is_not_accepted() {
    let (addr, _guard) = blackhole();
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT", "200ms")
        .start()
        .await;
    mesh.policy("web").set(Policy::forward(addr));
    let expect = Expect {
        status: 504,
        reason: "connect_timeout",
        text: "connect timed out after 200ms",
        closes: true,
    };
    expect.check(&mesh, &mesh.get("http://web/").await).await;
}

#[tokio::test]
async fn the_proxy_itself_as_an_endpoint() {
    let mesh = Mesh::start().await;
    for addr in [
        mesh.proxy.outbound,
        mesh.proxy.inbound,
        mesh.proxy.admin.addr,
    ] {
        mesh.policy("web").set(Policy::forward(addr));
        let reply = mesh.get("http://web/").await;
        if reply
            .header("proxy-status")
            .is_some_and(|status| status.contains("\"loop\""))
        {
            let expect = Expect {
                status: 502,
                reason: "loop",
                text: "the destination is this proxy itself",
                closes: true,
            };
            expect.check(&mesh, &reply).await;
        } else {
            panic!("{addr}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn loopback_where_it_is_not_allowed() {
    let server = Server::says("hello").await;
    let mesh = Mesh::builder()
        .env("LINKERD_PROXY_OUTBOUND_ALLOW_LOOPBACK", "0")
        .start()
        .await;
    mesh.policy("web").set(Policy::forward(server.addr()));
    let expect = Expect {
        status: 502,
        reason: "prohibited",
        text: "Outbound proxy cannot initiate connections on the loopback interface",
        closes: true,
    };
    expect.check(&mesh, &mesh.get("http://web/").await).await;
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn an_endpoint_that_closes_before_it_answers() {
    let server = Server::start(|_| async { Err(Fail::Close) }).await;
    let mesh = Mesh::with(&server).await;
    let expect = Expect {
        status: 502,
        reason: "connection_lost",
        text: "",
        closes: true,
    };
    let post = request(Method::POST, "http://web/", body("data"));
    let reply = soon(mesh.http1().await.send(post)).await.unwrap();
    expect.check(&mesh, &reply).await;
}

#[tokio::test]
async fn an_endpoint_that_closes_within_its_head() {
    let server = Tcp::answers(b"HTTP/1.1 200 OK\r\ncontent-le").await;
    let mesh = Mesh::start().await;
    mesh.service("web", [server.addr()]);
    let post = request(Method::POST, "http://web/", body("data"));
    let reply = soon(mesh.http1().await.send(post)).await.unwrap();
    assert_eq!(reply.status, 502, "{reply:?}");
}

#[tokio::test]
async fn an_answer_that_is_not_http() {
    for bytes in [
        &b"220 mail.example ESMTP\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
    ] {
        let server: Tcp = Tcp::answers(bytes).await;
        let mesh = Mesh::start().await;
        mesh.service("web", [server.addr()]);
        let expect = Expect {
            status: 502,
            reason: "invalid_response",
            text: "",
            closes: true,
        };
        expect.check(&mesh, &mesh.get("http://web/").await).await;
        assert_eq!(server.connections(), 1, "it is not asked again");
    }
}

#[tokio::test]
async fn a_required_identity_that_nobody_can_prove() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let mut request = linkerd_tests::get("http://web/");
    request
        .headers_mut()
        .insert("l5d-require-id", "web.default".parse().unwrap());
    let reply = soon(mesh.http1().await.send(request)).await.unwrap();
    let expect = Expect {
        status: 502,
        reason: "identity_required",
        text: "required id web.default; found none",
        closes: true,
    };
    expect.check(&mesh, &reply).await;
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_server_that_breaks_off_instead_of_answering() {
    let server = Server::start(|_| async { Err(Fail::Reset(h2::Reason::CANCEL)) }).await;
    let mesh = Mesh::with(&server).await;
    let post = request(Method::POST, "http://web/", body("data"));
    let reply = soon(mesh.http1().await.send(post)).await.unwrap();
    assert_eq!(reply.status, 502, "{reply:?}");
}

#[tokio::test]
async fn informational_headers_can_be_switched_off() {
    let (addr, _guard) = refused();
    let mesh = Mesh::builder()
        .env(
            "LINKERD2_PROXY_OUTBOUND_DISABLE_INFORMATIONAL_HEADERS",
            "true",
        )
        .start()
        .await;
    mesh.policy("web").set(Policy::forward(addr));
    let reply = mesh.get("http://web/").await;
    assert_eq!(reply.status, 502);
    for name in ["l5d-proxy-error", "l5d-proxy-connection", "proxy-status"] {
        assert!(reply.header(name).is_none(), "{reply:?}");
    }
}

#[tokio::test]
async fn errors_of_a_peer_proxy_are_not_passed_on() {
    let server = Server::start(|_| async {
        let response = http::Response::builder()
            .status(502)
            .header("l5d-proxy-error", "of the peer")
            .header("l5d-proxy-connection", "close");
        Ok(response.body(linkerd_tests::empty()).unwrap())
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let reply = mesh.get("http://web/").await;
    assert_eq!(reply.status, 502);
    for name in ["l5d-proxy-error", "l5d-proxy-connection"] {
        assert!(reply.header(name).is_none(), "{reply:?}");
    }
}

#[tokio::test]
async fn an_http_2_endpoint_that_has_no_stream_left() {
    let server = Server::builder()
        .max_streams(1)
        .start(|_| std::future::pending())
        .await;
    let mesh = Mesh::builder()
        .env(
            "LINKERD_PROXY_OUTBOUND_HTTP2_MAX_CONNECTIONS_PER_ENDPOINT",
            "1",
        )
        .env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "300ms")
        .start()
        .await;
    mesh.service("web", [server.addr()]);
    let client = mesh.http2().await;
    let holder = tokio::spawn(async move { client.get("http://web/").await });
    eventually(SOON, "it holds the stream", || async {
        (server.in_flight() == 1).then_some(())
    })
    .await;
    let expect = Expect {
        status: 504,
        reason: "failfast_stream_limit",
        text: "service in fail-fast",
        closes: true,
    };
    let reply = soon(mesh.http2().await.get("http://web/")).await.unwrap();
    expect.check(&mesh, &reply).await;
    let expect = Expect {
        status: 503,
        reason: "unavailable_stream_limit",
        text: "service unavailable",
        closes: true,
    };
    let reply = soon(mesh.http2().await.get("http://web/")).await.unwrap();
    expect.check(&mesh, &reply).await;
    holder.abort();
}

#[tokio::test]
async fn an_http_2_endpoint_that_is_being_connected_to() {
    let (addr, _guard) = blackhole();
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT", "20s")
        .env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "300ms")
        .start()
        .await;
    mesh.service("web", [addr]);
    for (status, reason, text) in [
        (504, "failfast_connecting", "service in fail-fast"),
        (503, "unavailable_connecting", "service unavailable"),
    ] {
        let expect = Expect {
            status,
            reason,
            text,
            closes: true,
        };
        let reply = soon(mesh.http2().await.get("http://web/")).await.unwrap();
        expect.check(&mesh, &reply).await;
    }
}

#[tokio::test]
async fn an_endpoint_that_refuses_every_stream() {
    let server = Server::start(|_| async { Err(Fail::Reset(h2::Reason::REFUSED_STREAM)) }).await;
    let mesh = Mesh::with(&server).await;
    let refused = soon(mesh.http2().await.get("http://web/")).await;
    match &refused {
        Ok(reply) => {
            let expect = Expect {
                status: 503,
                reason: "stream_refused",
                text: "",
                closes: false,
            };
            expect.check(&mesh, reply).await;
        }
        // A client that recognises a refused stream may retry the request itself.
        Err(error) => assert_eq!(reset_code(error), Some(h2::Reason::REFUSED_STREAM)),
    }
    assert!(
        (2..=4).contains(&server.requests()),
        "{}",
        server.requests()
    );
}

#[tokio::test]
async fn a_reset_is_counted_with_its_code() {
    let server = Server::start(|_| async { Err(Fail::Reset(h2::Reason::ENHANCE_YOUR_CALM)) }).await;
    let mesh = Mesh::with(&server).await;
    assert!(soon(mesh.http2().await.get("http://web/")).await.is_err());
    let labels = [("error", "h2(ENHANCE_YOUR_CALM)")];
    mesh.proxy
        .metric_reaches("response_total", &labels, 1.0)
        .await;
}

#[tokio::test]
async fn a_lost_grpc_call_is_counted_as_it_is_answered() {
    let server = Server::start(|_| async { Err(Fail::Close) }).await;
    let mesh = Mesh::with(&server).await;
    let mut call = request(Method::POST, "http://web/service/call", body("data"));
    let headers = call.headers_mut();
    headers.insert("content-type", "application/grpc".parse().unwrap());
    let reply = soon(mesh.http2().await.send(call)).await.unwrap();
    assert_eq!(reply.header("grpc-status"), Some("14"), "{reply:?}");
    let labels = [
        ("status_code", "200"),
        ("classification", "failure"),
        ("grpc_status", "14"),
    ];
    mesh.proxy
        .metric_reaches("response_total", &labels, 1.0)
        .await;
}
