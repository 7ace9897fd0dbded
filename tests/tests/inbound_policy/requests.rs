//! Requests: authorizations, routes, filters, rate limits.

use crate::{application, elsewhere, get, open, peer, pod_watching, port_of, until_status};
use linkerd_control::{
    Authorization, HeaderChanges, InboundRoute, RateLimit, Route, RouteFilter, RouteMatch,
    RouteRule, ServerPolicy,
};
use linkerd_tests::{
    SOON, Wire, eventually,
    netns::{Pod, isolated},
};

#[test]
fn a_change_to_deny_takes_effect_on_a_live_connection() {
    isolated(
        "requests::a_change_to_deny_takes_effect_on_a_live_connection",
        async {
            let application = application().await;
            let port = port_of(&application);
            let pod = pod_watching(port).await;
            let server = pod.controller.server(port);
            server.expect_open_streams(1, SOON).await.unwrap();
            let mut client = peer(application.addr()).await;
            assert_eq!(get(&mut client, "/").await.text(), "hello");
            server.set(ServerPolicy::new("app").authorize(elsewhere()));
            until_status(&mut client, "/", 403).await;
            let seen = application.requests();
            assert_eq!(get(&mut client, "/").await.header("l5d-proxy-error"), None);
            server.set(open("app"));
            until_status(&mut client, "/", 200).await;
            assert_eq!(application.requests(), seen + 1);
            assert!(client.is_open());

            let line = pod.proxy.wait_for_log("Request denied").await;
            for field in ["server/app", "default/default", "elsewhere", "network"] {
                assert!(line.contains(field), "{line} lacks {field}");
            }
            let denied = [
                ("srv_name", "app"),
                ("route_name", "default"),
                ("tls", "no_identity"),
            ];
            let metrics = pod.proxy.metrics().await;
            assert!(metrics.sum("inbound_http_authz_deny_total", &denied) >= 1.0);
        },
    );
}

#[test]
fn a_request_that_names_two_hosts_is_no_way_around_the_authorization_of_one() {
    isolated(
        "requests::a_request_that_names_two_hosts_is_no_way_around_the_authorization_of_one",
        async {
            let application = application().await;
            let port = port_of(&application);
            let pod = pod_watching(port).await;
            let admin = Route::new("admin")
                .host("admin.local")
                .rule(RouteRule::new());
            let admin = InboundRoute::new(admin).authorize(elsewhere());
            let rest = Route::new("rest").rule(RouteRule::new());
            let rest = InboundRoute::new(rest).authorize(Authorization::all("all"));
            let policy = ServerPolicy::new("app").route(admin).route(rest);
            pod.controller.server(port).set(policy);
            let requested = async |head: &str| {
                let mut wire = Wire::connect(application.addr()).await;
                wire.send(format!("GET {head}\r\n\r\n")).await;
                let (head, _) = wire.response().await;
                head[9..12].to_owned()
            };
            eventually(SOON, "the policy", || async {
                let status = requested("/ HTTP/1.1\r\nhost: admin.local").await;
                (status == "403").then_some(())
            })
            .await;
            for (head, status) in [
                ("/ HTTP/1.1\r\nhost: foo.local", "200"),
                ("http://foo.local/ HTTP/1.1\r\nhost: FOO.local:80", "200"),
                ("http://foo.local/ HTTP/1.1\r\nhost: admin.local", "400"),
                ("http://admin.local/ HTTP/1.1\r\nhost: foo.local", "400"),
                ("/ HTTP/1.1\r\nconnection: host\r\nhost: admin.local", "403"),
            ] {
                assert_eq!(requested(head).await, status, "{head}");
            }
        },
    );
}

/// The labels and their order are those of existing dashboards.
#[test]
fn metrics_name_server_route_and_authorization() {
    isolated(
        "requests::metrics_name_server_route_and_authorization",
        async {
            let application = application().await;
            let port = port_of(&application);
            let pod = pod_watching(port).await;
            let route = Route::new("rt").rule(RouteRule::new());
            let route = InboundRoute::new(route).authorize(Authorization::all("ap"));
            let policy = ServerPolicy::new("srv").route(route);
            pod.controller.server(port).set(policy);
            let allow = "inbound_http_authz_allow_total";
            eventually(SOON, "the route's permit", || async {
                let mut client = peer(application.addr()).await;
                get(&mut client, "/").await;
                let metrics = pod.proxy.metrics().await;
                (metrics.sum(allow, &[("route_name", "rt")]) >= 1.0).then_some(())
            })
            .await;
            // A connection that begins under the policy counts as its server's.
            get(&mut peer(application.addr()).await, "/").await;
            let addr = application.addr();
            let (ip, metrics) = (addr.ip(), pod.proxy.metrics().await);
            let target = format!(r#"target_addr="{addr}",target_ip="{ip}",target_port="{port}""#);
            let server = format!(
                r#"srv_group="policy.linkerd.io",srv_kind="server",srv_name="srv",srv_port="{port}""#
            );
            let route = concat!(
                r#"route_group="gateway.networking.k8s.io",route_kind="HTTPRoute","#,
                r#"route_name="rt""#,
            );
            let authz = concat!(
                r#"authz_group="policy.linkerd.io",authz_kind="authorizationpolicy","#,
                r#"authz_name="ap""#,
            );
            let tls = r#"tls="no_identity",no_tls_reason="no_tls_from_remote""#;
            let parent = format!(
                r#"parent_group="policy.linkerd.io",parent_kind="server",parent_name="srv",parent_port="{port}",{route}"#
            );
            let direction = r#"direction="inbound""#;
            for line in [
                format!("{allow}{{{target},{server},{route},{authz},{tls}}} "),
                format!("request_total{{{direction},{target},{tls},{server},{route},{authz}}} "),
                format!(
                    r#"response_total{{{direction},{target},{tls},{server},{route},{authz},status_code="200",classification="success",grpc_status="",error=""}} "#
                ),
                format!(r#"tcp_open_total{{{direction},peer="src",{target},{tls},{server}}} "#),
                format!(
                    r#"tcp_open_total{{{direction},peer="dst",tls="no_identity",no_tls_reason="loopback"}} "#
                ),
                format!(r#"inbound_tcp_detect_http_results_total{{result="http/1",{server}}} "#),
                format!("inbound_http_requests_total{{{parent}}} "),
                format!(r#"inbound_http_statuses_total{{{parent},status="200"}} "#),
                format!(r#"inbound_http_request_duration_seconds_bucket{{{parent},le="0.025"}} "#),
            ] {
                let found = metrics.text().lines().any(|it| it.starts_with(&line));
                let inbound = metrics.text().lines().filter(|it| it.contains("srv"));
                assert!(found, "{line} is not in {:#?}", inbound.collect::<Vec<_>>());
            }
        },
    );
}

#[test]
fn routes_have_their_own_authorizations_and_filters() {
    isolated(
        "requests::routes_have_their_own_authorizations_and_filters",
        async {
            let application = application().await;
            let port = port_of(&application);
            let pod = pod_watching(port).await;
            let rule = |path: &str| RouteRule::new().when(RouteMatch::prefix(path));
            let changes = HeaderChanges::new().set("x-route", "open");
            let filtered = rule("/open").filter(RouteFilter::request_headers(changes));
            let failing = rule("/fail").filter(RouteFilter::fail(503, "on purpose"));
            let admin =
                InboundRoute::new(Route::new("admin").rule(rule("/admin"))).authorize(elsewhere());
            let others = Route::new("others").rule(filtered).rule(failing);
            let others = InboundRoute::new(others).authorize(Authorization::all("all"));
            let policy = ServerPolicy::new("app").http1().route(admin).route(others);
            pod.controller.server(port).set(policy);
            let mut client = peer(application.addr()).await;
            until_status(&mut client, "/admin", 403).await;
            assert_eq!(get(&mut client, "/open/x").await.status, 200);
            assert_eq!(application.last().headers["x-route"], "open");
            assert_eq!(get(&mut client, "/fail").await.status, 503);
            assert_eq!(get(&mut client, "/other").await.status, 404);
            let metrics = pod.proxy.metrics().await;
            let not_found = metrics.sum("inbound_http_route_not_found_total", &[]);
            assert_eq!(not_found, 1.0);
        },
    );
}

#[test]
fn a_rate_limit_answers_429() {
    isolated("requests::a_rate_limit_answers_429", async {
        let application = application().await;
        let port = port_of(&application);
        let pod = pod_watching(port).await;
        // One request in a second is slow enough for any machine.
        let limit = RateLimit::new("limit").total(1);
        pod.controller
            .server(port)
            .set(open("app").rate_limit(limit));
        let mut client = peer(application.addr()).await;
        until_status(&mut client, "/", 429).await;
        let labels = [("ratelimit_name", "limit"), ("ratelimit_scope", "total")];
        let metrics = pod.proxy.metrics().await;
        assert!(metrics.sum("inbound_http_local_ratelimit_total", &labels) >= 1.0);
        until_status(&mut client, "/", 200).await;
    });
}

#[test]
fn an_audited_request_is_logged() {
    isolated("requests::an_audited_request_is_logged", async {
        let application = application().await;
        let networks = "LINKERD2_PROXY_POLICY_CLUSTER_NETWORKS";
        let pod = linkerd_tests::netns::Pod::start(|proxy| {
            proxy
                .env(networks, "192.0.2.0/24")
                .env("LINKERD2_PROXY_INBOUND_DEFAULT_POLICY", "audit")
        })
        .await;
        let mut client = peer(application.addr()).await;
        assert_eq!(get(&mut client, "/").await.status, 200);
        let line = pod.proxy.wait_for_log("Request allowed").await;
        assert!(line.contains("default/audit"), "{line}");
    });
}

/// The label has the incumbent's position and form: no port if it is 80, no label for an address.
#[test]
fn requests_are_counted_by_their_authority_if_that_is_asked_for() {
    isolated(
        "requests::requests_are_counted_by_their_authority_if_that_is_asked_for",
        async {
            let application = application().await;
            let (addr, port) = (application.addr(), port_of(&application));
            let pod = Pod::start(|proxy| {
                let labels = "LINKERD2_PROXY_INBOUND_METRICS_AUTHORITY_LABELS";
                let proxy = proxy.env(labels, "unsafe");
                proxy.env("LINKERD2_PROXY_INBOUND_PORTS", port)
            })
            .await;
            let mut wire = Wire::connect(addr).await;
            for host in ["Web.shop", "web.shop:80", "web.shop:8080", "10.0.0.7"] {
                wire.send(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n"))
                    .await;
                let (head, _) = wire.response().await;
                assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            }
            let metrics = pod.proxy.metrics().await;
            for (authority, count) in [
                (r#"authority="web.shop","#, 2),
                (r#"authority="web.shop:8080","#, 1),
                ("", 1),
            ] {
                let begin = format!(
                    r#"request_total{{direction="inbound",{authority}target_addr="{addr}""#
                );
                let mut lines = metrics.text().lines();
                let line = lines.find(|line| line.starts_with(&begin));
                let line = line.unwrap_or_else(|| panic!("no {begin}"));
                assert!(line.ends_with(&format!("}} {count}")), "{line}");
            }
        },
    );
}
