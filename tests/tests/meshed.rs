//! Two proxies of a mesh: mutual TLS between them, and with their control plane.

#![allow(clippy::unwrap_used, missing_docs)]

use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use linkerd_control::{Authorization, Endpoint, Policy, Protocol, ServerPolicy};
use linkerd_tests::{
    Body, Builder, Fail, Load, Meshed, Reply, SOON, Server, Tcp, Wire, echo, echo_upgraded, empty,
    eventually, get, identity,
    netns::{POD, isolated},
    reply, soon,
};
use std::{net::SocketAddr, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::Status;

/// Switches to an echo if the request has the header `upgrade`.
async fn upgrade(mut request: Request<Incoming>) -> Result<Response<Body>, Fail> {
    let Some(protocol) = request.headers().get("upgrade").cloned() else {
        return reply("hello");
    };
    tokio::spawn(echo_upgraded(hyper::upgrade::on(&mut request)));
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "upgrade")
        .header("upgrade", protocol);
    Ok(response.body(empty()).unwrap())
}

#[tokio::test]
async fn requests_cross_with_the_identity_of_the_client() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    let reply = mesh.http1().await.get("http://api/").await.unwrap();
    assert_eq!(reply.text(), "hello");
    let seen = server.seen();
    assert_eq!(seen[0].headers["l5d-client-id"], identity("web"));

    let reply = mesh.http2().await.get("http://api/").await.unwrap();
    assert_eq!(reply.status, 200);

    let sent = mesh.web.metrics().await;
    let labels = [("direction", "outbound"), ("tls", "true")];
    assert!(sent.sum("request_total", &labels) >= 2.0);
    let server_id = [("server_id", &*identity("api"))];
    assert!(sent.sum("tcp_open_total", &server_id) >= 2.0);
    let received = mesh.api.metrics().await;
    let web = identity("web");
    let labels = [("direction", "inbound"), ("client_id", &*web)];
    assert_eq!(received.sum("request_total", &labels), 2.0);
    let direct = [("session_protocol", "http/1"), ("client_id", &*web)];
    let family = "inbound_tcp_transport_header_connections_total";
    assert_eq!(received.sum(family, &direct), 1.0);
}

#[tokio::test]
async fn http1_is_carried_over_http2_and_a_websocket_has_a_connection_of_its_own() {
    let server = Server::start(upgrade).await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(server.addr(), Endpoint::h2);
    for _ in 0..3 {
        let reply = mesh.http1().await.get("http://api/").await.unwrap();
        assert_eq!(
            (reply.status.as_u16(), reply.version),
            (200, Version::HTTP_11)
        );
    }
    assert!(
        server
            .seen()
            .iter()
            .all(|seen| seen.version == Version::HTTP_11)
    );
    let family = "inbound_tcp_transport_header_connections_total";
    let received = mesh.api.metrics().await;
    assert_eq!(received.sum(family, &[("session_protocol", "http/2")]), 1.0);
    assert_eq!(received.sum(family, &[("session_protocol", "http/1")]), 0.0);

    let mut wire = Wire::connect(mesh.web.outbound).await;
    wire.send(
        "GET http://api/upgrade HTTP/1.1\r\nhost: api\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    )
    .await;
    let head = wire.until(b"\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    wire.send("over the mesh").await;
    wire.until(b"over the mesh").await;
    let received = mesh.api.metrics().await;
    assert_eq!(received.sum(family, &[("session_protocol", "http/1")]), 1.0);
}

#[tokio::test]
async fn the_application_is_told_the_address_of_its_client_if_that_is_asked_for() {
    let server = Server::says("hello").await;
    let both = |api: Builder| api.env("LINKERD_PROXY_INBOUND_FORWARDED_HEADER", "both");
    let mesh = Meshed::start(|web| web, both).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    let mut request = get("http://api/");
    let sent = "192.0.2.7".parse().unwrap();
    request.headers_mut().insert("x-forwarded-for", sent);
    mesh.http1().await.send(request).await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].headers["forwarded"], "for=127.0.0.1");
    assert_eq!(seen[0].headers["x-forwarded-for"], "192.0.2.7, 127.0.0.1");
}

#[tokio::test]
async fn opaque_connections_cross_both_ways_and_end_by_halves() {
    let server = Tcp::start(|mut socket| async move {
        let mut read = Vec::new();
        if socket.read_to_end(&mut read).await.is_ok() {
            let _ = socket.write_all(&read).await;
        }
    })
    .await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    let mut wire = opaque(&mesh, server.addr()).await;
    let sent = "all that is sent is encrypted ".repeat(10_000);
    wire.send(&sent).await;
    wire.finish().await;
    assert_eq!(wire.rest().await.len(), sent.len());
}

/// A connection from `web` to `api` that the proxy of `web` declares as opaque.
async fn opaque(mesh: &Meshed, server: SocketAddr) -> Wire {
    mesh.serve_api(server, Endpoint::opaque);
    let opaque = Policy::balance("api", 80).protocol(Protocol::Opaque);
    mesh.controller.policy("api:80").set(opaque);
    let mut wire = Wire::connect(mesh.web.outbound).await;
    wire.send("CONNECT api:80 HTTP/1.1\r\nhost: api:80\r\n\r\n")
        .await;
    let head = wire.until(b"\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    wire
}

#[tokio::test]
async fn requests_in_a_connection_of_no_protocol_are_requests_all_the_same() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    let mut wire = opaque(&mesh, server.addr()).await;
    let claim = identity("admin");
    wire.send(format!(
        "GET / HTTP/1.1\r\nhost: api\r\nl5d-client-id: {claim}\r\n\r\n"
    ))
    .await;
    let (head, body) = wire.response().await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body, "hello");
    assert_eq!(server.last().headers["l5d-client-id"], identity("web"));
}

#[tokio::test]
async fn bytes_of_a_connection_of_no_protocol_arrive_however_few_they_are() {
    let server = Tcp::start(echo).await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    let mut wire = opaque(&mesh, server.addr()).await;
    for bytes in ["a", "-word", " and\0others", "GET no version\r\n\r\n"] {
        wire.send(bytes).await;
        wire.until(bytes.as_bytes()).await;
    }
}

#[tokio::test]
async fn an_application_may_speak_first_in_a_connection_of_no_protocol() {
    let server = Tcp::start(|mut socket| async move {
        let _ = socket.write_all(b"220 ready\r\n").await;
        let mut read = [0; 6];
        let _ = socket.read_exact(&mut read).await;
        let _ = socket.write_all(&read).await;
    })
    .await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    let mut wire = opaque(&mesh, server.addr()).await;
    wire.until(b"220 ready\r\n").await;
    wire.send("QUIT\r\n").await;
    wire.until(b"QUIT\r\n").await;
}

#[tokio::test]
async fn an_endpoint_with_another_identity_gets_nothing() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    for (server_name, reason) in [
        (identity("api"), "identity_mismatch"),
        (identity("other"), "tls_failed"),
    ] {
        mesh.serve_api(server.addr(), |endpoint| {
            endpoint
                .identity(identity("other"))
                .server_name(server_name)
        });
        let expected = |reply: &Reply| {
            let status = reply.header("proxy-status").unwrap_or_default();
            reply.status == 502 && status.contains(reason)
        };
        eventually(SOON, reason, || async {
            let reply = mesh.http1().await.get("http://api/").await.unwrap();
            expected(&reply).then_some(())
        })
        .await;
    }
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_required_identity_is_compared() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    for (required, status) in [(identity("api"), 200), (identity("other"), 502)] {
        let mut request = get("http://api/");
        let required = required.parse().unwrap();
        request.headers_mut().insert("l5d-require-id", required);
        let reply = mesh.http1().await.send(request).await.unwrap();
        assert_eq!(reply.status, status, "{reply:?}");
    }
}

#[tokio::test]
async fn a_stranger_does_not_get_in_by_the_proxys_own_port() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    let mut wire = Wire::connect(mesh.api.inbound).await;
    wire.send("GET / HTTP/1.1\r\nhost: api\r\n\r\n").await;
    assert_eq!(wire.rest().await, "");
    mesh.api
        .metric_reaches("inbound_tcp_errors_total", &[("error", "unexpected")], 1.0)
        .await;
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_silent_stranger_is_cut_off_at_the_proxys_own_port() {
    let timeout = "LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT";
    let mesh = Meshed::start(|web| web, |api| api.env(timeout, "100ms")).await;
    let mut wire = Wire::connect(mesh.api.inbound).await;
    assert_eq!(wire.rest().await, "");
    let error = [("error", "tls detection timeout")];
    mesh.api
        .metric_reaches("inbound_tcp_errors_total", &error, 1.0)
        .await;
}

#[tokio::test]
async fn certificates_are_renewed_under_load_without_a_failure() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start(
        |web| web.env(MIN_REFRESH, "100ms"),
        |api| api.env(MIN_REFRESH, "100ms"),
    )
    .await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    mesh.controller.identity().lifetime(Duration::from_secs(2));
    let before = mesh.controller.identity().certified();
    let load = Load::through(&mesh.web, 4, Duration::ZERO, "http://api/");
    // Earlier certificates last for a day: only proxies that start now renew all the time.
    let fresh = mesh.proxy("fresh").env(MIN_REFRESH, "100ms").start().await;
    eventually(SOON, "certificates were renewed", || {
        let renewed = mesh.controller.identity().certified() - before;
        async move { (renewed >= 5).then_some(()) }
    })
    .await;
    let cert = "control_identity_cert_refreshes_total";
    fresh.metric_reaches(cert, &[("result", "ok")], 4.0).await;
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn without_a_certificate_the_proxy_is_not_ready_and_says_why() {
    let mesh = Meshed::start(|web| web, |api| api).await;
    let refused = Status::permission_denied("the token is for somebody else");
    mesh.controller.identity().fail(refused);
    let late = mesh
        .proxy("late")
        .env(MIN_REFRESH, "100ms")
        .start_unready()
        .await;
    late.wait_for_log("Failed to obtain identity").await;
    let ready = late.admin.get("/ready").await;
    assert_eq!(ready.status, 503);
    assert!(
        ready.text().contains("the first certificate"),
        "{}",
        ready.text()
    );
    let state = late.admin.state().await;
    let error = state["identity"]["last_error"].as_str().unwrap();
    assert!(error.contains("the token is for somebody else"), "{error}");
    mesh.controller.identity().restore();
    late.wait_for_log("Certified identity").await;
    eventually(SOON, "the proxy is ready", || async {
        (late.admin.get("/ready").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn no_key_and_no_token_is_shown() {
    let mesh = Meshed::start(|web| web.env("LINKERD2_PROXY_LOG", "trace"), |api| api).await;
    let state = mesh.web.admin.state().await.to_string();
    let env = mesh.web.admin.get("/env.json").await;
    let shown = format!("{state}{}{}", env.text(), mesh.web.log());
    assert!(!shown.contains("secret-of-the-test"), "the token is shown");
    assert!(!shown.contains("PRIVATE KEY"), "a key is shown");
}

const MIN_REFRESH: &str = "LINKERD2_PROXY_IDENTITY_MIN_REFRESH";

#[test]
fn a_change_of_policy_decides_the_next_request_by_the_identity_of_its_client() {
    isolated(
        "a_change_of_policy_decides_the_next_request_by_the_identity_of_its_client",
        async {
            let server = Server::builder().at(SocketAddr::from((POD, 0)));
            let server = server.start(|_| async { reply("hello") }).await;
            let listen = |api: Builder| api.env("LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "0.0.0.0:0");
            let mesh = Meshed::start(|web| web, listen).await;
            mesh.serve_api(server.addr(), |endpoint| endpoint);
            let port = mesh.controller.server(server.addr().port());
            let only = |name: &str| {
                let client = Authorization::all(name).identity(&identity(name));
                ServerPolicy::new("api").authorize(client)
            };
            let mut client = mesh.http1().await;
            for (policy, status) in [(only("web"), 200), (only("guest"), 403), (only("web"), 200)] {
                port.set(policy.build());
                soon(async { while client.get("http://api/").await.unwrap().status != status {} })
                    .await;
            }
            let reply = client.get("http://api/").await.unwrap();
            assert_eq!(reply.text(), "hello");
            // The person at the client reads who refused it; only the proxy that refuses knows whom it lets in.
            port.set(only("guest").build());
            let refused = eventually(SOON, "it is denied", || async {
                let reply = mesh.http1().await.get("http://api/").await.unwrap();
                (reply.status == 403).then_some(reply)
            });
            let text = refused.await.text().to_owned();
            assert!(text.contains("reason: unauthorized"), "{text}");
            assert!(!text.contains("guest"), "{text}");
            let failures = mesh.api.admin.state().await["failures"]["last"].take();
            let detail = failures[0]["detail"].as_str().unwrap();
            for part in [
                &*format!("the client's identity: {}", identity("web")),
                "nearest authorization: authorizationpolicy/guest",
                "unmet condition: identity not listed",
            ] {
                assert!(detail.contains(part), "{part}: {detail}");
            }
            let deny = "inbound_http_authz_deny_total";
            let web = identity("web");
            let denied = [("srv_name", "api"), ("tls", "true"), ("client_id", &*web)];
            mesh.api.metric_reaches(deny, &denied, 1.0).await;
            let allowed = [("authz_name", "web"), ("client_id", &*web)];
            let allow = "inbound_http_authz_allow_total";
            mesh.api.metric_reaches(allow, &allowed, 2.0).await;
            let line = mesh.api.wait_for_log("Request denied").await;
            assert!(line.contains(&web), "{line}");
        },
    );
}
