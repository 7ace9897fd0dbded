//! Requests that an application may read in another way than the rules of authorizations do.

use crate::{application, elsewhere, pod_watching, port_of};
use linkerd_control::{Authorization, InboundRoute, Route, RouteMatch, RouteRule, ServerPolicy};
use linkerd_tests::{
    SOON, Wire, eventually,
    netns::{Pod, isolated},
};
use std::net::SocketAddr;

/// A route that admits nobody of the test, or everybody.
fn route(name: &str, matches: impl IntoIterator<Item = RouteMatch>, is_open: bool) -> InboundRoute {
    let rule = matches.into_iter().fold(RouteRule::new(), RouteRule::when);
    let authorization = match is_open {
        true => Authorization::all("all"),
        false => elsewhere(),
    };
    InboundRoute::new(Route::new(name).rule(rule)).authorize(authorization)
}

async fn status(addr: SocketAddr, line: &str, fields: &str) -> String {
    let mut wire = Wire::connect(addr).await;
    wire.send(format!("{line} HTTP/1.1\r\nhost: app\r\n{fields}\r\n"))
        .await;
    let head = wire.head().await;
    head[9..12].to_owned()
}

/// Sets the policy, and waits until `closed` is refused.
async fn guarded(pod: &Pod, addr: SocketAddr, policy: ServerPolicy, closed: &str) {
    pod.controller.server(addr.port()).set(policy);
    let (line, fields) = closed.split_once('|').unwrap_or((closed, ""));
    eventually(SOON, "the policy", || async {
        (status(addr, line, fields).await == "403").then_some(())
    })
    .await;
}

#[test]
fn a_closed_path_in_another_spelling_is_ambiguous() {
    isolated(
        "readings::a_closed_path_in_another_spelling_is_ambiguous",
        async {
            let application = application().await;
            let addr = application.addr();
            let pod = pod_watching(port_of(&application)).await;
            let policy = ServerPolicy::new("app")
                .route(route("admin", [RouteMatch::prefix("/admin")], false))
                .route(route("rest", [RouteMatch::prefix("/")], true));
            guarded(&pod, addr, policy, "GET /admin").await;
            for path in [
                "/%61dmin",
                "/%2561dmin",
                "//admin",
                "/./admin",
                "/x/../admin",
                "/x/%2e%2e/admin",
                "/x/..;a/admin",
                "/%2fadmin",
                "/admin;x",
                "/admin%2fx",
                "/admin/../x",
                "/\\admin",
                "/admin%5cx",
                "http://app//admin",
            ] {
                assert_eq!(
                    status(addr, &format!("GET {path}"), "").await,
                    "400",
                    "{path}"
                );
            }
            for path in [
                "/",
                "/x;v=1",
                "/x//y",
                "/a%20b",
                "/a%2fb",
                "/x/../y",
                "/.well-known/a",
                "/administrator",
                "/?p=/%61dmin",
            ] {
                assert_eq!(
                    status(addr, &format!("GET {path}"), "").await,
                    "200",
                    "{path}"
                );
            }
            for path in ["/admin/x", "/admin//x", "/admin/;v"] {
                assert_eq!(
                    status(addr, &format!("GET {path}"), "").await,
                    "403",
                    "{path}"
                );
            }
            assert!(
                pod.proxy
                    .metrics()
                    .await
                    .sum("proxy_failures_total", &[("reason", "invalid_request")])
                    >= 14.0
            );
        },
    );
}

#[test]
fn an_open_path_is_no_way_to_the_rest() {
    isolated("readings::an_open_path_is_no_way_to_the_rest", async {
        let application = application().await;
        let addr = application.addr();
        let pod = pod_watching(port_of(&application)).await;
        // There is no route for the rest.
        let policy = ServerPolicy::new("app")
            .route(route("public", [RouteMatch::prefix("/public")], true))
            .route(route("closed", [RouteMatch::exact("/closed")], false));
        guarded(&pod, addr, policy, "GET /closed").await;
        for path in [
            "/public/../admin",
            "/public/..%2fadmin",
            "/public/%2e%2e/closed",
            "/public\\..\\x",
        ] {
            let status = status(addr, &format!("GET {path}"), "").await;
            assert!(["400", "404"].contains(&&*status), "{path}: {status}");
        }
        assert_eq!(status(addr, "GET /public/a%2fb", "").await, "200");
    });
}

#[test]
fn a_closed_method_or_field_in_another_spelling_is_ambiguous() {
    isolated(
        "readings::a_closed_method_or_field_in_another_spelling_is_ambiguous",
        async {
            let application = application().await;
            let addr = application.addr();
            let pod = pod_watching(port_of(&application)).await;
            let closed = [
                RouteMatch::any().method("DELETE"),
                RouteMatch::any().header("x-role", "admin"),
            ];
            let policy = ServerPolicy::new("app")
                .route(route("closed", closed, false))
                .route(route("rest", [RouteMatch::prefix("/")], true));
            guarded(&pod, addr, policy, "DELETE /").await;
            for (line, fields, expected) in [
                ("GET /", "", "200"),
                ("PURGE /", "", "200"),
                ("delete /", "", "400"),
                ("Delete /", "", "400"),
                ("GET /", "x-role: admin\r\n", "403"),
                ("GET /", "x-role: user\r\nx-role: admin\r\n", "400"),
                ("GET /", "x-role: user, admin\r\n", "400"),
                ("GET /", "x-role: user,admin\r\n", "400"),
                ("GET /", "x_role: admin\r\n", "400"),
                ("GET /", "x-role: user\r\n", "200"),
                ("GET /", "x-role: user, guest\r\n", "200"),
                ("GET /", "x-other: user, admin\r\n", "200"),
            ] {
                let found = status(addr, line, fields).await;
                assert_eq!(found, expected, "{line} {fields:?}");
            }
        },
    );
}

/// The order of the Gateway API: a rule without conditions is the last.
#[test]
fn a_grpc_rule_without_conditions_opens_no_closed_method() {
    isolated(
        "readings::a_grpc_rule_without_conditions_opens_no_closed_method",
        async {
            let application = application().await;
            let addr = application.addr();
            let pod = pod_watching(port_of(&application)).await;
            for closed in [
                RouteMatch::rpc("", "Delete"),
                RouteMatch::rpc("pkg.Svc", ""),
                RouteMatch::rpc("", "").header("x-a", "1"),
            ] {
                let policy = ServerPolicy::new("app")
                    .grpc()
                    .route(route("rest", [], true))
                    .route(route("closed", [closed.clone()], false));
                pod.controller.server(addr.port()).set(policy);
                eventually(SOON, "the call is denied", || async {
                    let client = linkerd_tests::Http2::connect(addr).await;
                    let mut call = linkerd_tests::request(
                        http::Method::POST,
                        "http://app/pkg.Svc/Delete",
                        linkerd_tests::empty(),
                    );
                    let grpc = "application/grpc".parse().unwrap();
                    call.headers_mut().insert("content-type", grpc);
                    call.headers_mut().insert("x-a", "1".parse().unwrap());
                    let reply = client.send(call).await.unwrap();
                    (reply.header("grpc-status") == Some("7")).then_some(())
                })
                .await;
            }
        },
    );
}
