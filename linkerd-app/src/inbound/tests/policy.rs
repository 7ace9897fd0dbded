//! Policies of ports: connections and requests that are let in, by the policy that is present.

use super::{TestProxy, in_process};
use crate::testing::{TestClient, TestEndpoint, TestWire, text};
use ::http::{HeaderName, HeaderValue, Request, StatusCode};
use futures::FutureExt;
use linkerd_profiles::{
    Authentication, Authorization, ClientIdentities, ClientNetwork, Distribution, HeaderModifier,
    HttpFilter, HttpMatch, InboundHttp, InboundRoute, InboundRoutes, Meta, PathMatch,
    RateLimitOverride, RateLimitSettings, RateLimiter, RequestMatch, Resource, RouteRule,
    ServerPolicy, ServerProtocol,
};
use linkerd_proxy_core::tls::{NoTlsReason, TlsStatus};
use std::{num::NonZeroU32, sync::Arc, time::Duration};

const APP: &str = "10.0.0.9:8080";
const PORT: u16 = 8080;

const WEB: &str = "web.shop.test";

fn resource(kind: &str, name: &str) -> Arc<Meta> {
    Arc::new(Meta::Resource(Resource {
        group: "policy.linkerd.io".into(),
        kind: kind.into(),
        name: name.into(),
        namespace: String::new(),
        section: None,
        port: None,
    }))
}

fn plain() -> TlsStatus {
    TlsStatus::None(NoTlsReason::NoTlsFromRemote)
}

fn identity(name: &str) -> TlsStatus {
    TlsStatus::Meshed(Some(name.parse().unwrap()))
}

/// An authorization of clients in a network, all of them or one identity.
fn authorization(name: &str, network: &str, only: Option<&str>) -> Authorization {
    Authorization {
        meta: resource("authorizationpolicy", name),
        networks: vec![ClientNetwork {
            network: network.parse().unwrap(),
            except: Vec::new(),
        }],
        authentication: match only {
            None => Authentication::Unauthenticated,
            Some(name) => Authentication::Identities(ClientIdentities {
                exact: [name.into()].into(),
                suffixes: Vec::new(),
            }),
        },
    }
}

fn everyone() -> Authorization {
    authorization("everyone", "0.0.0.0/0", None)
}

fn policy(protocol: ServerProtocol, authorizations: Vec<Authorization>) -> ServerPolicy {
    ServerPolicy {
        meta: resource("server", "app"),
        protocol,
        authorizations,
        invalid: None,
    }
}

fn detect(authorizations: Vec<Authorization>) -> ServerPolicy {
    let timeout = Duration::from_secs(1);
    let http = InboundHttp::default();
    policy(ServerProtocol::Detect { timeout, http }, authorizations)
}

fn http1(http: InboundHttp) -> ServerPolicy {
    policy(ServerProtocol::Http1(http), vec![everyone()])
}

fn route(path: &str, authorizations: Vec<Authorization>) -> InboundRoute {
    let condition = HttpMatch {
        path: Some(PathMatch::Prefix(path.into())),
        ..HttpMatch::default()
    };
    InboundRoute {
        rule: RouteRule {
            matches: vec![RequestMatch::Http(condition)],
            ..RouteRule::for_all(resource("HTTPRoute", &path[1..]), Distribution::Empty)
        },
        authorizations: authorizations.into(),
        has_unknown_filter: false,
    }
}

fn routes(routes: Vec<InboundRoute>) -> InboundHttp {
    InboundHttp {
        routes: InboundRoutes::new(routes),
        rate_limit: None,
    }
}

impl TestProxy {
    /// Sets the policy of the application's port, and waits until it is in force.
    async fn set_policy(&self, policy: ServerPolicy) {
        self.policies.set(PORT, policy);
        let _used = self.ctx.policies.server_policies.watch(PORT).unwrap();
        self.settle().await;
    }

    async fn http1_as(&self, tls: TlsStatus) -> TestClient {
        TestClient::http1(self.connect_as(APP, tls)).await
    }
}

async fn status(client: &mut TestClient, path: &str) -> u16 {
    client.get(path).await.head.status.as_u16()
}

#[tokio::test(start_paused = true)]
async fn a_change_to_deny_takes_effect_on_the_next_request_of_a_live_connection() {
    in_process(async |proxy| {
        let application = TestEndpoint::answering(&proxy.network, APP, "hello");
        proxy.set_policy(detect(vec![everyone()])).await;
        let mut peer = proxy.http1(APP).await;
        assert_eq!(status(&mut peer, "/").await, 200);
        let elsewhere = authorization("elsewhere", "192.0.2.0/24", None);
        proxy.set_policy(detect(vec![elsewhere])).await;
        for _ in 0..2 {
            assert_eq!(status(&mut peer, "/").await, 403);
        }
        proxy.set_policy(detect(vec![everyone()])).await;
        assert_eq!(status(&mut peer, "/").await, 200);
        assert_eq!(application.requests(), 2);
        proxy.settle().await;
        let server = [
            r#"srv_name="app""#,
            r#"srv_port="8080""#,
            r#"route_name="default""#,
        ];
        let count = |name: &str, own: &[&str]| {
            proxy.metric(
                name,
                &[&server[..], own, &[r#"tls="no_identity""#]].concat(),
            )
        };
        let by = [
            r#"authz_kind="authorizationpolicy""#,
            r#"authz_name="everyone""#,
        ];
        assert_eq!(count("inbound_http_authz_allow_total", &by), 2.0);
        assert_eq!(count("inbound_http_authz_deny_total", &[]), 2.0);
        assert_eq!(count("request_total", &by), 2.0);
        let parent = [r#"parent_name="app""#, r#"parent_port="8080""#];
        assert_eq!(proxy.metric("inbound_http_requests_total", &parent), 2.0);
        let ok = [r#"parent_kind="server""#, r#"status="200""#];
        assert_eq!(proxy.metric("inbound_http_statuses_total", &ok), 2.0);
        let took = "inbound_http_request_duration_seconds_count";
        assert_eq!(proxy.metric(took, &parent), 2.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn routes_have_their_own_authorizations_and_no_other_requests_pass() {
    in_process(async |proxy| {
        let _application = TestEndpoint::answering(&proxy.network, APP, "hello");
        let web = authorization("web", "0.0.0.0/0", Some(WEB));
        let routes = routes(vec![
            route("/admin", vec![web]),
            route("/open", vec![everyone()]),
        ]);
        proxy
            .set_policy(policy(ServerProtocol::Http1(routes), Vec::new()))
            .await;
        for (tls, [admin, open]) in [
            (plain(), [403, 200]),
            (identity(WEB), [200, 200]),
            (identity("db.shop.test"), [403, 200]),
            (TlsStatus::Meshed(None), [403, 200]),
        ] {
            let mut peer = proxy.http1_as(tls.clone()).await;
            assert_eq!(status(&mut peer, "/admin/users").await, admin, "{tls:?}");
            assert_eq!(status(&mut peer, "/open").await, open, "{tls:?}");
            assert_eq!(status(&mut peer, "/other").await, 404, "{tls:?}");
        }
        proxy.settle().await;
        let web = format!("client_id=\"{WEB}\"");
        let admin = [r#"route_name="admin""#, &*web];
        assert_eq!(proxy.metric("inbound_http_authz_allow_total", &admin), 1.0);
        assert_eq!(proxy.metric("request_total", &admin), 1.0);
        assert_eq!(proxy.metric("inbound_http_route_not_found_total", &[]), 4.0);
        assert_eq!(proxy.metric("inbound_http_errors_total", &[]), 0.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn only_clients_with_an_identity_are_told_why() {
    in_process(async |proxy| {
        proxy
            .set_policy(policy(
                ServerProtocol::Http1(routes(Vec::new())),
                Vec::new(),
            ))
            .await;
        let mut named = proxy.http1_as(identity(WEB)).await;
        let response = named.get("/").await;
        let text = "client 10.0.0.7:40000: server: 10.0.0.9:8080: no route found for request";
        assert_eq!(response.head.headers["l5d-proxy-error"], text);
        for tls in [plain(), TlsStatus::Meshed(None)] {
            let mut peer = proxy.http1_as(tls).await;
            let response = peer.get("/").await;
            assert_eq!(response.head.headers.get("l5d-proxy-error"), None);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn filters_change_the_request_before_the_application_sees_it() {
    in_process(async |proxy| {
        let _application = TestEndpoint::new(&proxy.network, APP, false, |request| {
            let seen = request.headers().get("x-set").cloned();
            let response = text(format!("{seen:?}"));
            async { response }.boxed_local()
        });
        let mut filtered = route("/set", Vec::new());
        filtered.rule.filters = vec![HttpFilter::RequestHeaders(HeaderModifier {
            set: vec![(
                HeaderName::from_static("x-set"),
                HeaderValue::from_static("new"),
            )],
            ..HeaderModifier::default()
        })];
        let mut unknown = route("/unknown", Vec::new());
        unknown.has_unknown_filter = true;
        let routes = routes(vec![filtered, unknown, route("/other", Vec::new())]);
        proxy.set_policy(http1(routes)).await;
        let mut peer = proxy.http1(APP).await;
        let changed = peer.get("/set").await.body.unwrap();
        assert_eq!(changed, r#"Some("new")"#);
        assert_eq!(peer.get("/other").await.body.as_deref(), Some("None"));
        assert_eq!(status(&mut peer, "/unknown").await, 500);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_a_rate_limit_are_429() {
    in_process(async |proxy| {
        let application = TestEndpoint::answering(&proxy.network, APP, "hello");
        let limited = InboundHttp {
            rate_limit: Some(Arc::new(RateLimiter::new(RateLimitSettings {
                meta: resource("httplocalratelimitpolicy", "limit"),
                total: NonZeroU32::new(5),
                per_identity: NonZeroU32::new(2),
                overrides: vec![RateLimitOverride {
                    limit: NonZeroU32::new(3).unwrap(),
                    clients: vec![WEB.parse().unwrap()],
                }],
            }))),
            ..InboundHttp::default()
        };
        proxy.set_policy(http1(limited)).await;
        let mut anonymous = proxy.http1(APP).await;
        let mut web = proxy.http1_as(identity(WEB)).await;
        let mut statuses = Vec::new();
        for client in [&mut anonymous, &mut web] {
            for _ in 0..4 {
                statuses.push(status(client, "/").await);
            }
        }
        // The total comes first: requests beyond a later limit have counted towards it.
        assert_eq!(statuses, [200, 200, 429, 429, 200, 429, 429, 429]);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let response = web.get("/").await;
        assert_eq!(response.head.status, StatusCode::OK);
        assert_eq!(application.requests(), 4);
        let limit = r#"ratelimit_name="limit""#;
        let count = |scope: &str| {
            let scope = format!("ratelimit_scope=\"{scope}\"");
            proxy.metric("inbound_http_local_ratelimit_total", &[limit, &scope])
        };
        assert_eq!((count("identity"), count("total")), (2.0, 3.0));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_policy_fails_requests_and_closes_other_connections() {
    in_process(async |proxy| {
        let application = TestEndpoint::answering(&proxy.network, APP, "hello");
        proxy.set_policy(ServerPolicy::invalid("test")).await;
        let mut peer = proxy.http1_as(identity(WEB)).await;
        let response = peer.get("/").await;
        assert_eq!(response.head.status, StatusCode::INTERNAL_SERVER_ERROR);
        let text = response.head.headers["l5d-proxy-error"].to_str().unwrap();
        assert!(text.ends_with("invalid server configuration"), "{text}");
        let mut wire = proxy.wire(APP);
        wire.send("\0query").await;
        assert_eq!(wire.rest().await, "");
        assert_eq!(application.requests(), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_opaque_connection_is_denied_before_the_application_is_dialled_and_ended_by_a_change() {
    in_process(async |proxy| {
        let mut accepting = proxy.network.listen(APP);
        let opaque = |authorizations| policy(ServerProtocol::Opaque, authorizations);
        proxy.set_policy(opaque(Vec::new())).await;
        let mut peer = proxy.wire(APP);
        peer.send("query").await;
        assert_eq!(peer.rest().await, "");
        assert_eq!(proxy.metric("tcp_open_total", &["peer=\"dst\""]), 0.0);

        proxy.set_policy(opaque(vec![everyone()])).await;
        let mut peer = proxy.wire(APP);
        peer.send("query").await;
        let mut application = TestWire::from(accepting.recv().await.unwrap());
        application.expect("query").await;
        let other = authorization("other", "10.0.0.0/8", None);
        proxy.set_policy(opaque(vec![other])).await;
        application.send("still").await;
        peer.expect("still").await;
        proxy.set_policy(opaque(Vec::new())).await;
        assert_eq!(
            (peer.rest().await, application.rest().await),
            Default::default()
        );

        let labels = [r#"srv_name="app""#, r#"no_tls_reason="port_skipped""#];
        let count = |name: &str| proxy.metric(&format!("inbound_tcp_authz_{name}_total"), &labels);
        let counts = ["deny", "allow", "terminate"].map(count);
        assert_eq!(counts, [1.0, 1.0, 1.0]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_policy_says_which_protocol_a_port_speaks() {
    in_process(async |proxy| {
        let application = TestEndpoint::answering(&proxy.network, APP, "hello");
        proxy.set_policy(http1(InboundHttp::default())).await;
        // Without detection: HTTP/1 answers bytes that are not HTTP.
        let mut wire = proxy.wire(APP);
        wire.send("\0\r\n\r\n").await;
        assert!(wire.head().await.starts_with("HTTP/1.1 400"));
        let http2 = ServerProtocol::Http2(InboundHttp::default());
        proxy.set_policy(policy(http2, vec![everyone()])).await;
        let mut wire = proxy.wire(APP);
        wire.send("GET / HTTP/1.1\r\nhost: app\r\n\r\n").await;
        proxy.settle().await;
        assert_eq!(application.requests(), 0);
        // TLS for another name is opaque, which an HTTP port admits from no client.
        let passthrough = TlsStatus::Passthrough {
            server_name: "other.test".into(),
        };
        let mut wire = TestWire::from(proxy.connect_as(APP, passthrough.clone()));
        assert_eq!(wire.rest().await, "");
        proxy
            .set_policy(policy(ServerProtocol::Tls, vec![everyone()]))
            .await;
        let mut wire = TestWire::from(proxy.connect_as(APP, passthrough));
        wire.send("GET / HTTP/1.1\r\nhost: app\r\n\r\n").await;
        assert!(wire.head().await.starts_with("HTTP/1.1 200"));
        let sni = [r#"tls="opaque""#, r#"sni="other.test""#];
        assert_eq!(proxy.metric("inbound_tcp_authz_allow_total", &sni), 1.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn grpc_routes_count_as_grpc() {
    in_process(async |proxy| {
        let _application = TestEndpoint::echoing_http2(&proxy.network, APP);
        let grpc = ServerProtocol::Grpc(InboundHttp::default());
        proxy.set_policy(policy(grpc, vec![everyone()])).await;
        let mut peer = proxy.http2(APP).await;
        let request = Request::post("http://test.example/Service/Method")
            .header("content-type", "application/grpc")
            .body(Default::default());
        let response = peer.send_request(request.unwrap()).await.await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        drop(response);
        proxy.settle().await;
        assert_eq!(proxy.metric("inbound_grpc_requests_total", &[]), 1.0);
        assert_eq!(proxy.metric("inbound_http_requests_total", &[]), 0.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_in_a_tunnel_pass_the_routes_as_well() {
    in_process(async |proxy| {
        let mut accepting = proxy.network.listen(APP);
        let web = authorization("web", "0.0.0.0/0", Some(WEB));
        let mut all = route("/all", vec![everyone()]);
        all.rule.matches.clear();
        let routes = routes(vec![route("/admin", vec![web]), all]);
        proxy
            .set_policy(policy(ServerProtocol::Http1(routes), Vec::new()))
            .await;
        let mut peer = proxy.wire(APP);
        peer.send("CONNECT app:80 HTTP/1.1\r\nhost: app:80\r\n\r\n")
            .await;
        let mut application = TestWire::from(accepting.recv().await.unwrap());
        application.head().await;
        application.send("HTTP/1.1 200 OK\r\n\r\n").await;
        peer.head().await;
        peer.send("GET /admin HTTP/1.1\r\nhost: app\r\n\r\n").await;
        assert_eq!(application.rest().await, "");
        assert_eq!(proxy.metric("inbound_http_authz_deny_total", &[]), 1.0);
    })
    .await;
}
