//! The Tap API on the control port.

use super::Requests;
use linkerd_api_proto::{
    http_types::{HttpMethod, Scheme, http_method, scheme},
    tap::{
        Eos, ObserveRequest, TapEvent, eos,
        observe_request::{
            Extract, Match,
            extract::{self, http as extract_http},
            r#match::{self, Seq, Tcp, http, http::string_match, tcp},
        },
        tap_event::{self, ProxyDirection, http::Event},
    },
};
use linkerd_control::{Endpoint, EndpointSet, Policy};
use linkerd_tests::{
    Builder, Http2, Mesh, Meshed, Proxy, SOON, Server, TapApi, any_request, eventually,
    grpc_handler, identity, soon,
};
use std::net::SocketAddr;
use tonic::{Code, Streaming};

/// A proxy with a tap server for the client `tap`.
fn tapped(proxy: Builder) -> Builder {
    proxy
        .env("LINKERD2_PROXY_TAP_SVC_NAME", identity("tap"))
        .env("LINKERD2_PROXY_CONTROL_LISTEN_ADDR", "127.0.0.1:0")
}

/// The address of the tap server.
async fn control_port(proxy: &Proxy) -> SocketAddr {
    let line = proxy.wait_for_log("Tap interface on ").await;
    let (_, addr) = line.split_once("Tap interface on ").unwrap();
    addr.trim().parse().unwrap()
}

/// A client of the tap server of `tapped`, the proxy `name`, through the proxy `client`.
async fn api_over(mesh: &Meshed, client: &Proxy, tapped: &Proxy, name: &str) -> TapApi {
    let endpoint = Endpoint::new(control_port(tapped).await).identity(identity(name));
    let service = format!("{name}-tap");
    let policy = Policy::balance(&service, 80);
    mesh.controller.policy(format!("{service}:80")).set(policy);
    let name = format!("{service}.default.svc.cluster.local:80");
    let endpoints = EndpointSet::new([endpoint]);
    mesh.controller.destination(name).set(endpoints);
    TapApi::new(Http2::connect(client.outbound).await, &service)
}

async fn next(events: &mut Streaming<TapEvent>) -> Option<TapEvent> {
    soon(events.message()).await.unwrap()
}

fn http_event(event: &TapEvent) -> &Event {
    let Some(tap_event::Event::Http(http)) = &event.event else {
        panic!("{event:?}")
    };
    http.event.as_ref().unwrap()
}

fn label<'a>(meta: &'a Option<tap_event::EndpointMeta>, name: &str) -> Option<&'a str> {
    let labels = &meta.as_ref().unwrap().labels;
    labels.get(name).map(String::as_str)
}

fn with_headers(request: ObserveRequest) -> ObserveRequest {
    let headers = extract_http::Extract::Headers(extract_http::Headers {});
    let http = extract::Http {
        extract: Some(headers),
    };
    ObserveRequest {
        extract: Some(Extract {
            extract: Some(extract::Extract::Http(http)),
        }),
        ..request
    }
}

#[tokio::test]
async fn the_configured_client_sees_requests_of_both_directions() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start(tapped, tapped).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint.label("pod", "api-1"));
    let tap = mesh.proxy("tap").start().await;
    let inbound = api_over(&mesh, &tap, &mesh.api, "api").await;
    let outbound = api_over(&mesh, &tap, &mesh.web, "web").await;
    let mut inbound = inbound.observe(with_headers(any_request(1))).await.unwrap();
    let mut outbound = outbound.observe(any_request(1)).await.unwrap();
    let requests = Requests::start(mesh.web.outbound, "http://api/path?token=hidden");

    let event = next(&mut inbound).await.unwrap();
    assert_eq!(event.proxy_direction(), ProxyDirection::Inbound);
    assert_eq!(label(&event.source_meta, "tls"), Some("true"));
    let client = identity("web");
    assert_eq!(label(&event.source_meta, "client_id"), Some(&*client));
    assert_eq!(label(&event.destination_meta, "tls"), Some("loopback"));
    assert!(
        label(&event.destination_meta, "srv_kind").is_some(),
        "{event:?}"
    );
    assert!(
        label(&event.destination_meta, "authz_kind").is_some(),
        "{event:?}"
    );
    let destination = event.destination.unwrap();
    assert_eq!(SocketAddr::try_from(destination).unwrap(), server.addr());
    let Event::RequestInit(init) = http_event(&event) else {
        panic!("{event:?}")
    };
    assert_eq!((&*init.authority, &*init.path), ("api", "/path"));
    let method = init.method.clone().unwrap();
    assert_eq!(::http::Method::try_from(method).unwrap(), "GET");
    let headers = &init.headers.as_ref().unwrap().headers;
    let value = |name: &str| {
        let header = headers.iter().find(|header| header.name == name);
        header.map(|header| String::from_utf8_lossy(&header.value).into_owned())
    };
    assert_eq!(value("x-tenant").as_deref(), Some("seven"));
    assert_eq!(value("authorization").as_deref(), Some("[redacted]"));
    let id = init.id;

    let event = next(&mut inbound).await.unwrap();
    let Event::ResponseInit(response) = http_event(&event) else {
        panic!("{event:?}")
    };
    assert_eq!((response.http_status, &response.id), (200, &id));
    assert!(response.headers.is_some() && response.since_request_init.is_some());
    let event = next(&mut inbound).await.unwrap();
    let Event::ResponseEnd(end) = http_event(&event) else {
        panic!("{event:?}")
    };
    assert_eq!((end.response_bytes, &end.id), (5, &id));
    assert_eq!(end.eos, Some(Eos { end: None }));
    assert!(
        next(&mut inbound).await.is_none(),
        "one request was asked for"
    );

    let event = next(&mut outbound).await.unwrap();
    assert_eq!(event.proxy_direction(), ProxyDirection::Outbound);
    assert_eq!(label(&event.destination_meta, "tls"), Some("true"));
    let server_id = identity("api");
    assert_eq!(
        label(&event.destination_meta, "server_id"),
        Some(&*server_id)
    );
    assert_eq!(label(&event.destination_meta, "pod"), Some("api-1"));
    let route = event.route_meta.as_ref().unwrap();
    assert_eq!(route.labels["parent_name"], "api");
    let Event::RequestInit(init) = http_event(&event) else {
        panic!("{event:?}")
    };
    assert_eq!(init.headers, None, "not asked for");
    drop(requests);
}

#[tokio::test]
async fn other_clients_are_refused() {
    let mesh = Meshed::start(|web| web, tapped).await;
    let other = api_over(&mesh, &mesh.web, &mesh.api, "api").await;
    let refused = other.observe(any_request(1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert_eq!(refused.message(), "Unauthorized client");

    let control = control_port(&mesh.api).await;
    let plain = TapApi::new(Http2::connect(control).await, "tap");
    let refused = plain.observe(any_request(1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert_eq!(refused.message(), "no_tls_from_remote");
    let state = mesh.api.admin.state().await;
    assert_eq!(state["taps"]["open"], serde_json::json!([]));
    assert!(mesh.web.log().contains("Tap DISABLED"));
}

fn seq(matches: impl IntoIterator<Item = r#match::Match>) -> Seq {
    let matches = matches.into_iter().map(|kind| Match {
        r#match: Some(kind),
    });
    Seq {
        matches: matches.collect(),
    }
}

fn of_http(kind: http::Match) -> r#match::Match {
    r#match::Match::Http(r#match::Http {
        r#match: Some(kind),
    })
}

fn of_path(prefix: &str) -> r#match::Match {
    let prefix = string_match::Match::Prefix(prefix.to_owned());
    of_http(http::Match::Path(http::StringMatch {
        r#match: Some(prefix),
    }))
}

fn port(port: u16) -> Tcp {
    let range = tcp::PortRange {
        min: port.into(),
        max: 0,
    };
    Tcp {
        r#match: Some(tcp::Match::Ports(range)),
    }
}

#[tokio::test]
async fn only_requests_that_match_are_shown() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start(|web| web, tapped).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    let tap = mesh.proxy("tap").start().await;
    let api = api_over(&mesh, &tap, &mesh.api, "api").await;
    let get = HttpMethod {
        r#type: Some(http_method::Type::Registered(
            http_method::Registered::Get.into(),
        )),
    };
    let http_scheme = Scheme {
        r#type: Some(scheme::Type::Registered(scheme::Registered::Http.into())),
    };
    let not = Match {
        r#match: Some(of_path("/b")),
    };
    let all = seq([
        of_http(http::Match::Method(get)),
        of_http(http::Match::Scheme(http_scheme)),
        r#match::Match::Not(Box::new(not)),
        r#match::Match::Any(seq([
            r#match::Match::Destination(port(1)),
            r#match::Match::Destination(port(server.addr().port())),
        ])),
    ]);
    let request = ObserveRequest {
        limit: 20,
        r#match: Some(Match {
            r#match: Some(r#match::Match::All(all)),
        }),
        extract: None,
    };
    let mut events = api.observe(request).await.unwrap();
    let hidden = Requests::start(mesh.web.outbound, "http://api/b");
    let shown = Requests::start(mesh.web.outbound, "http://api/a");
    let mut paths = Vec::new();
    while let Some(event) = next(&mut events).await {
        if let Event::RequestInit(init) = http_event(&event) {
            paths.push(init.path.clone());
        }
    }
    assert_eq!(paths, ["/a"; 20]);
    drop((hidden, shown));
}

#[tokio::test]
async fn invalid_requests_name_their_field() {
    let mesh = Meshed::start(|web| web, tapped).await;
    let tap = mesh.proxy("tap").start().await;
    let api = api_over(&mesh, &tap, &mesh.api, "api").await;
    let of = |r#match| ObserveRequest {
        limit: 1,
        r#match,
        extract: None,
    };
    let source = Match {
        r#match: Some(r#match::Match::Source(Tcp { r#match: None })),
    };
    for (request, message) in [
        (any_request(0), "limit must be positive"),
        (of(None), "match: missing required field"),
        (of(Some(source)), "match.source: missing required field"),
    ] {
        let refused = api.observe(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert_eq!(refused.message(), message);
    }
    let line = mesh.api.wait_for_log("invalid tap request").await;
    assert!(line.contains("WARN"), "{line}");
}

#[tokio::test]
async fn a_grpc_code_is_told_and_the_tap_leaves_with_its_client() {
    let server = Server::start(grpc_handler).await;
    let mesh = Meshed::start(|web| web, tapped).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    let tap = mesh.proxy("tap").start().await;
    let api = api_over(&mesh, &tap, &mesh.api, "api").await;
    let mut events = api.observe(any_request(1000)).await.unwrap();
    let client = linkerd_tests::Grpc::new(mesh.http2().await, "api");
    let failing = tokio::spawn(async move {
        loop {
            let failed = client.unary(linkerd_tests::Message::new("fail:5", 0)).await;
            assert_eq!(failed.unwrap_err().code(), Code::NotFound);
        }
    });
    let end = loop {
        let event = next(&mut events).await.unwrap();
        if let Event::ResponseEnd(end) = http_event(&event) {
            break end.clone();
        }
    };
    failing.abort();
    let code = eos::End::GrpcStatusCode(5);
    assert_eq!(end.eos, Some(Eos { end: Some(code) }));
    drop(events);
    eventually(SOON, "the tap is gone", || async {
        let open = mesh.api.admin.state().await["taps"]["open"].take();
        (open == serde_json::json!([])).then_some(())
    })
    .await;
}

#[tokio::test]
async fn without_a_client_there_is_no_tap_server() {
    let port = linkerd_tests::addr_of(&linkerd_tests::bound_at(([127, 0, 0, 1], 0).into()));
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_CONTROL_LISTEN_ADDR", port)
        .start()
        .await;
    mesh.proxy.wait_for_log("Tap DISABLED").await;
    assert!(tokio::net::TcpStream::connect(port).await.is_err());
    let disabled = Mesh::builder()
        .env("LINKERD2_PROXY_TAP_SVC_NAME", identity("tap"))
        .env("LINKERD2_PROXY_TAP_DISABLED", "1")
        .start()
        .await;
    disabled.proxy.wait_for_log("Tap DISABLED").await;
}
