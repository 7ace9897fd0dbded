//! Timeouts of routes.

use crate::{DST, NAME, Profiled, named, wanted};
use http::Response;
use linkerd_control::{EndpointSet, ProfileMatch, ProfileRoute};
use linkerd_tests::{Message, Reply, SOON, Server, eventually, from_channel, refused, reply, soon};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

const LIMIT: Duration = Duration::from_millis(200);
const TEXT: &str = "HTTP response timeout after 200ms";

fn limited() -> ProfileRoute {
    named("limited", ProfileMatch::path("/limited.*")).timeout(LIMIT)
}

/// A service that never answers.
async fn silent() -> (Profiled, Server) {
    let profiled = Profiled::with([limited()]).await;
    let silent = Server::start(|_| std::future::pending()).await;
    let endpoints = profiled.mesh.endpoints("web");
    endpoints.set(EndpointSet::new([silent.addr()]));
    (profiled, silent)
}

#[tokio::test]
async fn a_limit_that_passes_while_no_endpoint_is_ready_says_why() {
    let profiled = Profiled::with([limited()]).await;
    let (addr, _guard) = refused();
    let endpoints = profiled.mesh.endpoints("web");
    endpoints.set(EndpointSet::new([addr]));
    let mut client = profiled.mesh.http1().await;
    let reply = soon(client.send(wanted("GET", "/limited", &[])))
        .await
        .unwrap();
    assert_eq!(reply.status, 504);
    let error = reply.header("l5d-proxy-error").unwrap();
    assert!(error.contains(TEXT), "{error}");
    let why = format!("endpoint {addr}: Connection refused (os error 111)");
    assert!(error.ends_with(&why), "{error}");
}

#[tokio::test]
async fn a_late_response_is_504_and_closes_the_connection() {
    let (profiled, server) = silent().await;
    let mut client = profiled.mesh.http1().await;
    let reply = soon(client.send(wanted("GET", "/limited", &[])))
        .await
        .unwrap();
    assert_eq!(reply.status, 504);
    let error = reply.header("l5d-proxy-error").unwrap();
    assert!(error.ends_with(TEXT), "{error}");
    assert_eq!(reply.header("connection"), Some("close"));
    assert_eq!(reply.header("l5d-proxy-connection"), Some("close"));
    let status = reply.header("proxy-status").unwrap();
    assert!(status.contains("profile_timeout"), "{status}");
    eventually(SOON, "the connection is closed", || async {
        (!client.is_open()).then_some(())
    })
    .await;
    eventually(SOON, "the request is given up", || async {
        (server.open_connections() == 0).then_some(())
    })
    .await;

    let metrics = profiled.mesh.proxy.metrics().await;
    let errors = [("error", "response timeout")];
    assert_eq!(
        metrics.value("outbound_http_errors_total", &errors),
        Some(1.0)
    );
    let failures = [("reason", "profile_timeout")];
    assert_eq!(metrics.value("proxy_failures_total", &failures), Some(1.0));
    let labels = [
        ("dst", DST),
        ("rt_route", "limited"),
        ("classification", "failure"),
        ("grpc_status", ""),
        ("error", "timeout"),
    ];
    assert_eq!(metrics.value("route_response_total", &labels), Some(1.0));
    let with_status = [&labels[..], &[("status_code", "504")]].concat();
    assert_eq!(metrics.count("route_response_total", &with_status), 0);
    // No response is counted for the attempt and for the endpoint.
    assert_eq!(metrics.sum("route_actual_request_total", &labels[..2]), 1.0);
    assert_eq!(
        metrics.sum("route_actual_response_total", &labels[..2]),
        0.0
    );
    assert_eq!(metrics.sum("response_total", &[("authority", NAME)]), 0.0);
}

#[tokio::test]
async fn over_http2_too_and_grpc_gets_its_code() {
    let (profiled, _server) = silent().await;
    let client = profiled.mesh.http2().await;
    let reply = soon(client.send(wanted("GET", "/limited", &[])))
        .await
        .unwrap();
    assert_eq!(reply.status, 504);
    assert!(reply.header("l5d-proxy-error").unwrap().ends_with(TEXT));

    let (profiled, _server) = silent().await;
    let route = named("grpc", ProfileMatch::path("/test.Echo/Unary")).timeout(LIMIT);
    profiled.profile().set(crate::profile([route]));
    let grpc = profiled.mesh.grpc(NAME).await;
    let status = soon(grpc.unary(Message::default())).await.unwrap_err();
    assert_eq!(status.code() as i32, 4, "{status:?}");
    assert!(status.message().contains(TEXT), "{status:?}");
}

#[tokio::test]
async fn waiting_for_an_endpoint_counts() {
    let profiled = Profiled::with([limited()]).await;
    // Requests for endpoints that are known not to exist would not wait.
    profiled.mesh.endpoints("web").silent();
    let reply = profiled.get("/limited").await;
    // Before the failfast timeout, which takes 3 s.
    let error = reply.header("l5d-proxy-error").unwrap();
    let why = "; the backend had no ready endpoint: the control plane has not answered yet";
    assert!(error.ends_with(&format!("{TEXT}{why}")), "{error}");
}

#[tokio::test]
async fn a_body_may_take_longer_and_a_route_without_a_timeout_too() {
    let profiled = Profiled::with([limited()]).await;
    let (parts, body) = mpsc::channel(2);
    let body = Mutex::new(Some(body));
    let (answer, asked) = watch::channel(false);
    let slow = Server::start(move |request| {
        let path = request.uri().path().to_owned();
        let mut asked = asked.clone();
        let body = (path == "/limited/body").then(|| body.lock().take().unwrap());
        async move {
            match body {
                Some(body) => return Ok(Response::new(from_channel(body))),
                None if path == "/limited/silent" => std::future::pending().await,
                None => asked.wait_for(|asked| *asked).await.unwrap(),
            };
            reply("late")
        }
    })
    .await;
    let endpoints = profiled.mesh.endpoints("web");
    endpoints.set(EndpointSet::new([slow.addr()]));
    let client = profiled.mesh.http2().await;
    parts.send("slow ").await.unwrap();
    let begun = client.start(wanted("GET", "/limited/body", &[]));
    let begun = soon(begun).await.unwrap();
    let late = tokio::spawn({
        let client = client.clone();
        async move { client.send(wanted("GET", "/unlimited", &[])).await.unwrap() }
    });
    // This request lasts as long as the time limit.
    assert_eq!(profiled.get("/limited/silent").await.status, 504);
    parts.send("body").await.unwrap();
    drop(parts);
    answer.send(true).unwrap();
    let body = soon(Reply::read(begun)).await.unwrap();
    assert_eq!((body.status.as_u16(), body.text()), (200, "slow body"));
    let late = soon(late).await.unwrap();
    assert_eq!((late.status.as_u16(), late.text()), (200, "late"));
}
