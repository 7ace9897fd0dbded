//! Redirects.

use crate::{Routed, outcome, policy};
use linkerd_api_proto::http_route::{PathModifier, RequestRedirect, path_modifier::Replace};
use linkerd_control::{RouteFilter, RouteMatch, RouteRule};
use linkerd_tests::{Http1, Message, soon};
use tonic::Code;

fn rule(condition: RouteMatch, redirect: RequestRedirect) -> RouteRule {
    RouteRule::new()
        .when(condition)
        .filter(RouteFilter::Redirect(redirect))
}

fn to(replace: Replace) -> RequestRedirect {
    RequestRedirect {
        path: Some(PathModifier {
            replace: Some(replace),
        }),
        ..Default::default()
    }
}

fn full(path: &str) -> RequestRedirect {
    to(Replace::Full(path.to_owned()))
}

fn prefix(path: &str) -> RequestRedirect {
    to(Replace::Prefix(path.to_owned()))
}

fn host(host: &str, port: u32) -> RequestRedirect {
    RequestRedirect {
        host: host.to_owned(),
        port,
        ..Default::default()
    }
}

#[tokio::test]
async fn a_location_has_the_named_parts_and_keeps_the_others() {
    let path = RouteMatch::prefix;
    let https = RequestRedirect {
        scheme: Some("https".into()),
        ..Default::default()
    };
    let found = RequestRedirect {
        status: 302,
        ..full("/found")
    };
    let own_scheme = RequestRedirect {
        scheme: Some("app".into()),
        ..host("other.test", 0)
    };
    let routed = Routed::with([
        rule(path("/host"), host("other.test", 0)),
        rule(path("/host-and-port"), host("other.test", 80)),
        rule(path("/port"), host("", 8443)),
        rule(path("/default-port"), host("", 80)),
        rule(path("/https"), https),
        rule(path("/scheme"), own_scheme),
        rule(path("/full"), full("/new")),
        rule(path("/found"), found),
        rule(path("/prefix"), prefix("/bar")),
        rule(path("/slash"), prefix("/bar/")),
        rule(path("/removed/"), prefix("/")),
        rule(path("/emptied"), prefix("")),
        rule(path("/"), prefix("/rooted")),
    ])
    .await;
    for (uri, status, location) in [
        ("http://web/host/x?q", 301, "http://other.test/host/x?q"),
        ("http://web:8080/host", 301, "http://other.test:8080/host"),
        ("http://web:80/host", 301, "http://other.test/host"),
        (
            "http://web/host-and-port",
            301,
            "http://other.test/host-and-port",
        ),
        ("http://web/port", 301, "http://web:8443/port"),
        (
            "http://web:8080/default-port",
            301,
            "http://web/default-port",
        ),
        ("http://web/https?a=b", 301, "https://web/https?a=b"),
        ("http://web:8080/https", 301, "https://web/https"),
        (
            "http://web:8080/scheme",
            301,
            "app://other.test:8080/scheme",
        ),
        ("http://web/full/x?q", 301, "http://web/new"),
        ("http://web/found/x", 302, "http://web/found"),
        ("http://web/prefix/x?q", 301, "http://web/bar/x?q"),
        ("http://web/prefix?q", 301, "http://web/bar?q"),
        ("http://web/prefix", 301, "http://web/bar"),
        ("http://web/slash/x", 301, "http://web/bar/x"),
        ("http://web/slash/", 301, "http://web/bar/"),
        ("http://web/removed/bar?q", 301, "http://web/bar?q"),
        ("http://web/removed/", 301, "http://web/"),
        ("http://web/removed", 301, "http://web/"),
        ("http://web/emptied/bar", 301, "http://web/bar"),
        ("http://web/emptied/", 301, "http://web/"),
        ("http://web/emptied", 301, "http://web/"),
        ("http://web/other", 301, "http://web/rooted/other"),
    ] {
        let reply = routed.get(uri).await;
        let found = (reply.status.as_u16(), reply.header("location"));
        assert_eq!(found, (status, Some(location)), "{uri}");
        assert_eq!(reply.header("l5d-proxy-error"), Some("redirected"));
        assert_eq!(reply.header("connection"), None);
        let http2 = routed.mesh.http2().await.get(uri).await.unwrap();
        let found = (http2.status.as_u16(), http2.header("location"));
        assert_eq!(found, (status, Some(location)), "{uri}, HTTP/2");
    }
    assert_eq!(routed.server.requests(), 0);
}

#[tokio::test]
async fn a_redirect_to_where_the_request_goes_lets_it_pass() {
    let passes = |path: &str, redirect| rule(RouteMatch::exact(path), redirect);
    let routed = Routed::with([
        passes("/same", full("/same")),
        passes("/host", host("web", 0)),
        passes("/none", RequestRedirect::default()),
    ])
    .await;
    for path in ["/same", "/host?q", "/none"] {
        let reply = routed.get(&format!("http://web{path}")).await;
        assert_eq!(outcome(&reply), "", "{path}");
    }
    assert_eq!(routed.server.requests(), 3);
}

/// Python's and Go's clients may name the default port in the host: they must not be sent to where they are for ever.
#[tokio::test]
async fn a_client_that_follows_a_redirect_arrives_whatever_port_its_host_names() {
    let to_web = RequestRedirect {
        scheme: Some("http".into()),
        ..host("web", 80)
    };
    let routed = Routed::with([rule(RouteMatch::any(), to_web)]).await;
    for uri in ["http://web/x?q", "http://web:80/x?q", "http://WEB:80/x?q"] {
        let reply = routed.get(uri).await;
        assert_eq!(outcome(&reply), "", "{uri}");
        let mut client = Http1::connect(routed.mesh.proxy.outbound).await.host_form();
        let reply = client.get(uri).await.unwrap();
        assert_eq!(outcome(&reply), "", "{uri}, in the host field");
    }
    let reply = routed.get("http://other:8080/x").await;
    assert_eq!(reply.header("location"), Some("http://web/x"));
}

#[tokio::test]
async fn a_prefix_cannot_be_replaced_where_none_was_matched() {
    let routed = Routed::with([
        rule(RouteMatch::exact("/exact"), prefix("/new")),
        rule(RouteMatch::regex("/r+"), prefix("/new")),
    ])
    .await;
    for path in ["/exact", "/rr"] {
        for _ in 0..3 {
            let reply = routed.get(&format!("http://web{path}")).await;
            assert_eq!(reply.status, 500, "{path}");
            assert_eq!(reply.header("location"), None);
            let error = reply.header("l5d-proxy-error").unwrap();
            assert!(error.ends_with("unexpected error"), "{error}");
            assert_eq!(reply.header("connection"), Some("close"));
        }
        let log = routed.mesh.proxy.wait_for_log(&format!("uri={path}")).await;
        assert!(log.contains("cannot redirect"), "{log}");
    }
    let log = routed.mesh.proxy.log();
    let lines = log.lines().filter(|line| line.contains("cannot redirect"));
    assert_eq!(lines.count(), 2, "one of each rule: {log}");
}

#[tokio::test]
async fn a_redirect_is_not_found_for_a_grpc_call() {
    let rule = rule(RouteMatch::any(), host("other.test", 0));
    let routed = Routed::start(policy([rule]).http2()).await;
    let grpc = routed.mesh.grpc("web").await;
    for _ in 0..2 {
        let status = soon(grpc.unary(Message::default())).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{status:?}");
        assert_eq!(status.metadata().get("location"), None);
    }
}

#[tokio::test]
async fn the_location_is_of_the_host_in_its_header() {
    let rule = rule(RouteMatch::any(), full("/new"));
    let routed = Routed::with([rule]).await;
    let mut client = Http1::connect(routed.mesh.proxy.outbound).await.host_form();
    let reply = client.get("http://web:8080/old?q").await.unwrap();
    assert_eq!(reply.header("location"), Some("http://web:8080/new"));
}
