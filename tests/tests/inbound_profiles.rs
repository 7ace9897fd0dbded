//! Counts of inbound requests by the routes of their service's profile.

#![allow(clippy::unwrap_used, missing_docs)]

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use linkerd_control::{Profile, ProfileMatch, ProfileRoute, ResponseClass, ResponseMatch};
use linkerd_tests::{
    Body, Builder, Fail, Http1, Meshed, Server, empty,
    netns::{POD, Pod, isolated},
};
use std::net::SocketAddr;

const NAME: &str = "api.default.svc.cluster.local";
const DST: &str = "api.default.svc.cluster.local:80";

/// A profile whose route `books` classifies 404 as a failure.
fn profile() -> Profile {
    let condition = ProfileMatch::path("/books");
    let books = ProfileRoute::new(condition).label("route", "books");
    let absent = ResponseClass::failure(ResponseMatch::status(404..=404));
    Profile::new(NAME).route(books.class(absent))
}

/// Answers 404.
async fn absent(_: Request<Incoming>) -> Result<Response<Body>, Fail> {
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::NOT_FOUND;
    Ok(response)
}

#[test]
fn requests_have_the_route_and_the_classes_of_their_profile() {
    isolated(
        "requests_have_the_route_and_the_classes_of_their_profile",
        async {
            let server = Server::builder().at(SocketAddr::from((POD, 0)));
            let server = server.start(absent).await;
            let pod = Pod::start(|proxy| proxy).await;
            pod.controller.profile(DST).set(profile());
            let mut peer = Http1::connect(server.addr()).await.host_form();
            for path in ["/books", "/books", "/other"] {
                peer.get(&format!("http://{NAME}{path}")).await.unwrap();
            }
            peer.get("http://elsewhere.example/books").await.unwrap();
            let books = [
                ("direction", "inbound"),
                ("dst", DST),
                ("rt_route", "books"),
            ];
            let failure = [&books[..], &[("classification", "failure")]].concat();
            let reached = pod
                .proxy
                .metric_reaches("route_response_total", &failure, 2.0);
            reached.await;
            let metrics = pod.proxy.metrics().await;
            let count = |labels: &[_]| metrics.sum("route_request_total", labels);
            assert_eq!((count(&books), count(&books[..1])), (2.0, 3.0));
            assert_eq!(metrics.sum("route_response_latency_ms_count", &books), 2.0);
            assert_eq!(metrics.count("route_actual_request_total", &[]), 0);
            // All counts of the request use the same classes. Probes of the admin port are counted, too, and may fail.
            let of_port = [("status_code", "404"), ("classification", "failure")];
            assert_eq!(metrics.sum("response_total", &of_port), 2.0);
            let state = pod.proxy.admin.state().await;
            let services = &state["service_profiles"]["services"];
            assert_eq!(services[0]["service"], DST, "{services}");
            assert_eq!(services.as_array().map(Vec::len), Some(1), "{services}");
        },
    );
}

#[tokio::test]
async fn a_proxy_of_the_mesh_names_the_service_and_the_application_does_not_see_it() {
    let server = Server::says("hello").await;
    let any_name = |web: Builder| web.env("LINKERD2_PROXY_DESTINATION_PROFILE_SUFFIXES", ".");
    let mesh = Meshed::start(any_name, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    // The client's proxy has a profile of the short name, which contains the full name; the server's proxy has no profile of
    // the short name.
    mesh.controller.profile("api:80").set(profile());
    mesh.controller.profile(DST).set(profile());
    let mut client = mesh.http1().await;
    let reply = client.get("http://api/books").await.unwrap();
    assert_eq!(reply.text(), "hello");
    let books = [("dst", DST), ("rt_route", "books")];
    for proxy in [&mesh.web, &mesh.api] {
        let metrics = proxy.metrics().await;
        assert_eq!(metrics.sum("route_request_total", &books), 1.0);
    }
    let seen = server.seen();
    let names = seen
        .iter()
        .filter(|it| it.headers.contains_key("l5d-dst-canonical"));
    assert_eq!(names.count(), 0);
}
