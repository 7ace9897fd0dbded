//! Names that the proxy resolves, with a name server that never answers AAAA queries.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_control::{EndpointSet, Policy};
use linkerd_tests::{
    DnsServer, Http1, MeshFile, Meshed, Proxy, SOON, Server, Zone, eventually, identity,
    netns::isolated, soon,
};
use std::net::Ipv4Addr;

/// The status of a request for the service `web`.
async fn status(proxy: &Proxy) -> u16 {
    let mut client = Http1::connect(proxy.outbound).await;
    let reply = soon(client.get("http://web/")).await.unwrap();
    reply.status.as_u16()
}

async fn becomes(proxy: &Proxy, expected: u16) {
    let what = format!("requests have the status {expected}");
    eventually(SOON, &what, || async {
        (status(proxy).await == expected).then_some(())
    })
    .await;
}

#[test]
fn an_endpoint_of_a_mesh_file_follows_its_name() {
    isolated("an_endpoint_of_a_mesh_file_follows_its_name", async {
        let server = Server::says("hello").await;
        let dns = DnsServer::start(Zone::Address(Ipv4Addr::LOCALHOST)).await;
        let port = server.addr().port();
        let text = format!(
            "services:\n  - {{name: web, port: 80, endpoints: [\"my_db.web_1.test:{port}\"]}}\n"
        );
        let file = MeshFile::new("names", &text);
        let proxy = file.start().await;
        assert_eq!(status(&proxy).await, 200, "known before the first request");

        dns.set(Zone::Failing);
        proxy.wait_for_log("cannot be resolved").await;
        assert_eq!(status(&proxy).await, 200, "the last address stays");
        for gone in [Zone::NoSuchName, Zone::Empty] {
            dns.set(gone);
            becomes(&proxy, 503).await;
            let requests = server.requests();
            assert_eq!(status(&proxy).await, 503);
            assert_eq!(server.requests(), requests, "{gone:?}");
            dns.set(Zone::Address(Ipv4Addr::LOCALHOST));
            becomes(&proxy, 200).await;
        }
    });
}

#[test]
fn a_controller_follows_its_name() {
    isolated("a_controller_follows_its_name", async {
        let server = Server::says("hello").await;
        let dns = DnsServer::start(Zone::Address(Ipv4Addr::LOCALHOST)).await;
        let mesh = Meshed::start(|web| web, |api| api).await;
        let controller = &mesh.controller;
        controller.policy("web:80").set(Policy::balance("web", 80));
        controller
            .destination("web.default.svc.cluster.local:80")
            .set(EndpointSet::new([server.addr()]));
        let control = format!("linkerd_dst.test:{}", mesh.control_addr().port());
        let proxy = mesh
            .proxy("shop")
            .env("LINKERD2_PROXY_DESTINATION_SVC_ADDR", &control)
            .env("LINKERD2_PROXY_DESTINATION_SVC_NAME", identity("control"))
            .env("LINKERD2_PROXY_POLICY_SVC_ADDR", &control)
            .env("LINKERD2_PROXY_POLICY_SVC_NAME", identity("control"))
            .start()
            .await;
        becomes(&proxy, 200).await;

        let has = |count: usize| {
            let proxy = &proxy;
            async move {
                let state = proxy.admin.state().await;
                let addresses = &state["controllers"][0]["dns"]["addresses"];
                (addresses.as_array().unwrap().len() == count).then_some(())
            }
        };
        dns.set(Zone::NoSuchName);
        eventually(SOON, "a name without records clears them", || has(0)).await;
        dns.set(Zone::Address(Ipv4Addr::LOCALHOST));
        eventually(SOON, "its records are used again", || has(1)).await;
        becomes(&proxy, 200).await;
        controller.policy("shop:80").set(Policy::balance("web", 80));
        let mut client = Http1::connect(proxy.outbound).await;
        let reply = soon(client.get("http://shop/")).await.unwrap();
        assert_eq!(reply.text(), "hello", "the controller is asked again");
    });
}
