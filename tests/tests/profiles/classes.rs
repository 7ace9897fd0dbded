//! Response classes.

use crate::{DST, Profiled, named};
use linkerd_control::{EndpointSet, ProfileMatch, ProfileRoute, ResponseClass, ResponseMatch};
use linkerd_tests::{Fail, Message, Metrics, Server, grpc_handler, soon};

/// A route with these failures: 404, and 500 to 599 except 501 and 503. 503 is a success.
fn classified(name: &str, condition: ProfileMatch) -> ProfileRoute {
    let status = ResponseMatch::status;
    let server_errors = [status(500..=599), status(501..=501).negated()];
    named(name, condition)
        .class(ResponseClass::success(status(503..=503)))
        .class(ResponseClass::failure(ResponseMatch::any([
            status(404..=404),
            ResponseMatch::all(server_errors),
        ])))
}

/// Counts of responses with these labels: of the endpoint, of the route and of the route's attempts.
fn counts(metrics: &Metrics, route: &str, labels: &[(&str, &str)]) -> [f64; 3] {
    let of_route = [&[("dst", DST), ("rt_route", route)], labels].concat();
    let endpoint = [&[("authority", crate::NAME)], labels].concat();
    [
        metrics.sum("response_total", &endpoint),
        metrics.sum("route_response_total", &of_route),
        metrics.sum("route_actual_response_total", &of_route),
    ]
}

#[tokio::test]
async fn the_first_class_decides_for_the_endpoint_and_the_route_and_else_the_status() {
    let profiled = Profiled::with([
        classified("classified", ProfileMatch::path("/classified")),
        named("plain", ProfileMatch::path("/plain")),
    ])
    .await;
    for (path, status, class) in [
        ("/classified", "200", "success"),
        ("/classified", "404", "failure"),
        ("/classified", "500", "failure"),
        // No class matches: the status decides.
        ("/classified", "501", "failure"),
        ("/classified", "503", "success"),
        ("/plain", "403", "success"),
        ("/plain", "504", "failure"),
    ] {
        profiled.send("GET", path, &[("x-status", status)]).await;
        let metrics = profiled.mesh.proxy.metrics().await;
        let labels = [
            ("status_code", status),
            ("classification", class),
            ("grpc_status", ""),
            ("error", ""),
        ];
        let route = &path[1..];
        assert_eq!(
            counts(&metrics, route, &labels),
            [1.0; 3],
            "{path} {status}"
        );
    }
}

#[tokio::test]
async fn a_grpc_code_counts_where_no_class_decides_be_the_request_grpc_or_not() {
    let profiled = Profiled::with([classified("classified", ProfileMatch::path("/.*"))]).await;
    for (status, code, class, shown) in [
        ("200", "0", "success", "0"),
        ("200", "13", "failure", "13"),
        ("501", "5", "success", "5"),
        // A matching class decides, and the gRPC code is not recorded.
        ("503", "14", "success", ""),
        ("404", "0", "failure", ""),
    ] {
        let headers = [("x-status", status), ("x-code", code)];
        profiled.send("GET", "/", &headers).await;
        let metrics = profiled.mesh.proxy.metrics().await;
        let labels = [
            ("status_code", status),
            ("classification", class),
            ("grpc_status", shown),
        ];
        assert_eq!(
            counts(&metrics, "classified", &labels),
            [1.0; 3],
            "{status} {code}"
        );
    }
}

#[tokio::test]
async fn the_code_of_trailers_counts() {
    let server = Server::start(grpc_handler).await;
    let profiled = Profiled::with([
        classified("classified", ProfileMatch::path("/test.Echo/Stream")),
        named("plain", ProfileMatch::path("/test.Echo/Unary")),
    ])
    .await;
    let endpoints = profiled.mesh.endpoints("web");
    endpoints.set(EndpointSet::new([server.addr()]));
    let grpc = profiled.mesh.grpc(crate::NAME).await;
    for (text, code, class) in [("hello", "0", "success"), ("fail:13", "13", "failure")] {
        let _ = soon(grpc.unary(Message::new(text, 0))).await;
        let mut stream = soon(grpc.stream(Message::new(text, 1))).await.unwrap();
        while let Ok(Some(_)) = soon(stream.message()).await {}
        let labels = [("classification", class), ("grpc_status", code)];
        for route in ["plain", "classified"] {
            let metrics = profiled.mesh.proxy.metrics().await;
            let [endpoint, of_route, attempts] = counts(&metrics, route, &labels);
            assert_eq!(
                (endpoint, of_route, attempts),
                (2.0, 1.0, 1.0),
                "{route} {text}"
            );
        }
    }
}

#[tokio::test]
async fn an_answer_for_an_endpoint_is_classified_too() {
    let bad_gateway = ResponseClass::success(ResponseMatch::status(502..=502));
    let profiled = Profiled::with([
        named("expected", ProfileMatch::path("/expected")).class(bad_gateway),
        named("plain", ProfileMatch::path("/plain")),
    ])
    .await;
    let closes = Server::start(|_| async { Err(Fail::Close) }).await;
    let endpoints = profiled.mesh.endpoints("web");
    endpoints.set(EndpointSet::new([closes.addr()]));
    for (route, class) in [("expected", "success"), ("plain", "failure")] {
        let reply = profiled.send("POST", &format!("/{route}"), &[]).await;
        assert_eq!(reply.status, 502);
        let metrics = profiled.mesh.proxy.metrics().await;
        let labels = [
            ("status_code", "502"),
            ("classification", class),
            ("error", ""),
        ];
        assert_eq!(counts(&metrics, route, &labels), [1.0; 3], "{route}");
    }
}
