//! Watches of ports: unknown and invalid policies, an absent control plane, default policies.

use crate::{application, get, open, peer, pod_watching, port_of, until_status};
use linkerd_control::{LookupKind, ServerPolicy};
use linkerd_tests::{
    SOON, eventually,
    netns::{Pod, isolated},
    refused,
};
use tonic::{Code, Status};

#[test]
fn ports_are_watched_from_the_start_or_when_they_are_dialled() {
    isolated(
        "watches::ports_are_watched_from_the_start_or_when_they_are_dialled",
        async {
            let (eager, lazy) = (application().await, application().await);
            let pod = pod_watching(port_of(&eager)).await;
            let watch = |port: u16| pod.controller.server(port);
            let lookup = watch(port_of(&eager)).expect_lookup(SOON).await.unwrap();
            assert_eq!(lookup.context, "ns:pod");
            let admin = pod.proxy.admin.addr.port();
            watch(admin).expect_lookup(SOON).await.unwrap();
            let lazily = watch(port_of(&lazy));
            lazily.set(open("lazy")).silent();
            let lookups = pod.controller.lookups();
            let servers = lookups.iter().filter(|it| it.kind == LookupKind::Server);
            assert_eq!(servers.count(), 2, "{lookups:?}");
            // The first connection does not wait for the policy.
            let mut client = peer(lazy.addr()).await;
            assert_eq!(get(&mut client, "/").await.status, 200);
            lazily.expect_lookup(SOON).await.unwrap();
            let port = port_of(&lazy).to_string();
            let labels = [
                ("target_port", &*port),
                ("srv_name", "all-unauthenticated"),
                ("srv_kind", "default"),
            ];
            let metrics = pod.proxy.metrics().await;
            assert_eq!(metrics.sum("inbound_http_authz_allow_total", &labels), 1.0);
            let state = pod.proxy.admin.state().await;
            let ports = state["server_policies"]["ports"].as_array().unwrap();
            assert_eq!(ports.len(), 3, "{ports:?}");
        },
    );
}

#[test]
fn the_last_policy_outlives_the_control_plane_and_its_refusal() {
    isolated(
        "watches::the_last_policy_outlives_the_control_plane_and_its_refusal",
        async {
            let application = application().await;
            let port = port_of(&application);
            let pod = pod_watching(port).await;
            let server = pod.controller.server(port);
            let mut client = peer(application.addr()).await;
            server.set(ServerPolicy::new("closed"));
            until_status(&mut client, "/", 403).await;
            server.expect_lookup(SOON).await.unwrap();
            server.fail_next(Status::unavailable("later"));
            server.drop_streams();
            // The second look-up comes after the failure.
            server.expect_lookup(SOON).await.unwrap();
            server.expect_lookup(SOON).await.unwrap();
            assert_eq!(get(&mut client, "/").await.status, 403);
            server.fail(Status::new(Code::InvalidArgument, "no such port"));
            server.drop_streams();
            server.expect_lookup(SOON).await.unwrap();
            server.expect_open_streams(0, SOON).await.unwrap();
            assert_eq!(get(&mut client, "/").await.status, 403);
        },
    );
}

#[test]
fn an_invalid_policy_fails_requests_until_a_valid_one_comes() {
    isolated(
        "watches::an_invalid_policy_fails_requests_until_a_valid_one_comes",
        async {
            let application = application().await;
            let port = port_of(&application);
            let pod = pod_watching(port).await;
            let server = pod.controller.server(port);
            let mut invalid = open("app").build();
            invalid.protocol = None;
            server.set(invalid);
            // The answer ends the connection.
            eventually(SOON, "a failure", || async {
                let mut client = peer(application.addr()).await;
                (get(&mut client, "/").await.status == 500).then_some(())
            })
            .await;
            let line = pod.proxy.wait_for_log("Server misconfigured").await;
            assert!(line.contains("the protocol is missing"), "{line}");
            server.set(open("app"));
            eventually(SOON, "a valid policy", || async {
                let mut client = peer(application.addr()).await;
                (get(&mut client, "/").await.status == 200).then_some(())
            })
            .await;
        },
    );
}

#[test]
fn without_a_controller_the_proxy_is_ready_and_the_default_policy_applies() {
    isolated(
        "watches::without_a_controller_the_proxy_is_ready_and_the_default_policy_applies",
        async {
            let application = application().await;
            let port = port_of(&application);
            let (controller, _guard) = refused();
            let pod = Pod::start(|proxy| {
                proxy
                    .env("LINKERD2_PROXY_INBOUND_DEFAULT_POLICY", "all-authenticated")
                    .env("LINKERD2_PROXY_POLICY_SVC_ADDR", controller)
                    .env("LINKERD2_PROXY_INBOUND_PORTS", port)
            })
            .await;
            let missing = format!("not reached yet: policy controller {controller}");
            eventually(SOON, "the missing controller is named", || async {
                let ready = pod.proxy.admin.get("/ready").await;
                assert_eq!(ready.status, 200);
                ready.text().contains(&missing).then_some(())
            })
            .await;
            let mut client = peer(application.addr()).await;
            assert_eq!(get(&mut client, "/").await.status, 403);
            assert_eq!(application.requests(), 0);
        },
    );
}

#[test]
fn default_policies_decide_until_there_is_another() {
    isolated(
        "watches::default_policies_decide_until_there_is_another",
        async {
            let application = application().await;
            let policy = "LINKERD2_PROXY_INBOUND_DEFAULT_POLICY";
            let pod = Pod::start(|proxy| proxy.env(policy, "all-authenticated")).await;
            let mut client = peer(application.addr()).await;
            assert_eq!(get(&mut client, "/").await.status, 403);
            let line = pod.proxy.wait_for_log("Request denied").await;
            assert!(line.contains("no TLS"), "{line}");
            let port = port_of(&application);
            let explain = format!("/explain?port={port}&client=10.77.1.1");
            let explained = pod.proxy.admin.get(&explain).await;
            let nearest = r#""nearest": "default/all-authenticated (no TLS)""#;
            assert!(explained.text().contains(nearest), "{}", explained.text());
            pod.controller.server(port).set(open("app"));
            until_status(&mut client, "/", 200).await;
            let explained = pod.proxy.admin.get(&explain).await;
            let admitted = r#""authorized_by": "authorizationpolicy/all""#;
            assert!(explained.text().contains(admitted), "{}", explained.text());
            assert_eq!(application.requests(), 1);
        },
    );
}
